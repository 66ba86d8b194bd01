"""Calls of tools are looked at in OpenAI's spelling, and others are left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.inspected import counts, jsonl, measured

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
USER = {"role": "user", "content": "What is it?"}
END = {"role": "assistant", "content": "It is a test."}


def call(arguments: Any = "{}", name: str = "look", **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    calls = [{"type": "function", "function": function, **more}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(**more: Any) -> dict[str, Any]:
    return {"role": "tool", "content": "a test", **more}


def looked_at(path: Path, *turns: Any, **row: Any) -> tuple[dict[str, int], int | None]:
    found = measured(jsonl(path / "a.jsonl", {"messages": [USER, *turns, END], **row}))
    return counts(found), found.calling


@pytest.mark.parametrize(
    ("arguments", "sound"),
    [
        ("{}", True),
        ('{"of": "it"}', True),
        ({"of": "it"}, True),
        ("", True),
        (None, True),
        ("{of: it}", False),
        ("{'of': 1}", False),
        ("[1]", False),
        (["it"], False),
    ],
)
def test_arguments_are_an_object(tmp_path: Path, arguments: Any, sound: bool) -> None:
    found = looked_at(tmp_path, call(arguments, id="1"), result(tool_call_id="1"))
    assert found == ({} if sound else {"call-arguments": 1}, 1)


@pytest.mark.parametrize(
    ("turns", "sound"),
    [
        ((call(id="1"), result(tool_call_id="1")), True),
        ((call(id="1"), result()), True),
        ((call(), result(tool_call_id="2")), True),
        ((call(id="1"), result(tool_call_id="2")), False),
        ((result(tool_call_id="1"), call(id="1"), result()), False),
        ((result(tool_call_id="1"),), False),
    ],
)
def test_a_result_is_of_a_call_before_it(tmp_path: Path, turns: Any, sound: bool) -> None:
    assert looked_at(tmp_path, *turns) == ({} if sound else {"call-unknown": 1}, 1)


@pytest.mark.parametrize(
    ("tools", "sound"),
    [
        (TOOLS, True),
        (json.dumps(TOOLS), True),
        ([{"name": "look"}], True),
        ([], True),
        ("look", True),
        ([{"type": "search"}], True),
        ([{"name": "find"}], False),
        (json.dumps([{"function": {"name": "find"}}]), False),
    ],
)
def test_a_call_is_of_a_tool_that_its_row_declares(tmp_path: Path, tools: Any, sound: bool) -> None:
    found = looked_at(tmp_path, call(id="1"), result(tool_call_id="1"), tools=tools)
    assert found == ({} if sound else {"call-undeclared": 1}, 1)


def test_without_calls_nothing_was_looked_at(tmp_path: Path) -> None:
    assert looked_at(tmp_path, {"role": "assistant", "tool_calls": 5, "content": "a"}, USER) == (
        {},
        None,
    )
