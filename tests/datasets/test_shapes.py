"""Rows are what their fields say, and each shape has faults of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.inspected import counts, jsonl, measured
from trainproof.model.dataset import Shape

USER = {"role": "user", "content": "What is it?"}
ANSWER = {"role": "assistant", "content": "It is a test."}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "look"}}]}
SYSTEM = {"role": "system", "content": "Be brief."}


def chat(*turns: Any) -> dict[str, Any]:
    return {"messages": list(turns)}


@pytest.mark.parametrize(
    ("row", "shape"),
    [
        ({"text": "a text"}, Shape.TEXT),
        ({"content": "a text", "id": 5}, Shape.TEXT),
        ({"prompt": "ask", "completion": "say"}, Shape.ANSWER),
        ({"question": "ask", "answer": "say", "level": 3}, Shape.ANSWER),
        ({"prompt": [USER], "completion": [ANSWER]}, Shape.ANSWER),
        ({"instruction": "do", "input": "", "output": "done"}, Shape.INSTRUCTION),
        ({"instruction": "do", "input": None, "output": "done"}, Shape.INSTRUCTION),
        (chat(SYSTEM, USER, ANSWER), Shape.CHAT),
        (
            {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
            Shape.CHAT,
        ),
        ({"prompt": "ask", "chosen": "good", "rejected": "bad"}, Shape.PREFERENCE),
        ({"chosen": [USER, ANSWER], "rejected": [USER, SYSTEM]}, Shape.PREFERENCE),
        (
            {
                "contents": [
                    {"role": "user", "parts": [{"text": "a"}]},
                    {"role": "model", "parts": [{"text": "b"}]},
                ]
            },
            Shape.CHAT,
        ),
        ({"question": "which", "choices": ["a", "b"], "answer": 1}, Shape.TEXT),
        ({"article": "long", "summary": "short"}, Shape.ANSWER),
        ({"prompt": "ask"}, Shape.PROMPT),
        ({"input_ids": [1, 2], "labels": [-100, 2]}, Shape.TOKENS),
        ({"title": "a", "price": 3}, Shape.FIELDS),
        ({"translation": {"en": "one", "de": "eins"}}, Shape.FIELDS),
        ({"tokens": ["EU", "rejects"], "ner_tags": [3, 0]}, Shape.FIELDS),
        ({"question": "is it", "passage": "it is", "answer": True}, Shape.ANSWER),
        ({"question": "how many", "answer": 72}, Shape.ANSWER),
        ({"question": "who", "answer": ["him", "her"]}, Shape.ANSWER),
        ({"question": "who", "answer": {"value": "him", "aliases": []}}, Shape.ANSWER),
        ({"conversation": [{"input": "ask", "output": "say"}] * 2}, Shape.CHAT),
    ],
)
def test_the_shape_follows_from_the_fields(
    tmp_path: Path, row: dict[str, Any], shape: Shape
) -> None:
    found = measured(jsonl(tmp_path / "a.jsonl", row))
    assert found.shapes == {shape: 1}
    assert counts(found) == {}


@pytest.mark.parametrize(
    ("row", "issue"),
    [
        ({"text": ""}, "empty-text"),
        ({"text": " \n\t"}, "empty-text"),
        ({"text": None}, "null-text"),
        ({"text": None, "image": None}, "null-text"),
        ({"question": "What?", "answer": None, "image": "1.png"}, "null-text"),
        ({"text": 5}, "not-text"),
        ({"text": ["a"]}, "not-text"),
        ({"prompt": "ask", "completion": " "}, "empty-answer"),
        ({"prompt": "ask", "completion": None}, "null-text"),
        ({"prompt": 1, "completion": 2}, "not-text"),
        ({"instruction": "do", "output": ""}, "empty-answer"),
        ({"prompt": "ask", "chosen": "x", "rejected": "x"}, "same-pair"),
        ({"prompt": "ask", "chosen": "", "rejected": ""}, "empty-answer"),
        ({"chosen": [USER, ANSWER], "rejected": [USER, ANSWER]}, "same-pair"),
        ({"title": "", "body": " "}, "empty-text"),
        ({"question": "who", "answer": None}, "null-text"),
        ({"question": "who", "answer": []}, "not-text"),
        ({"question": "who", "answer": {"n": 3}}, "not-text"),
        ({"conversation": [{"input": "ask", "output": " "}]}, "empty-answer"),
        ({"messages": '["user", "hi"]'}, "bad-turn"),
        ({"messages": "[{'role': 'user'}]"}, "not-text"),
        ({"text": "a \x00 b"}, "nul"),
        ({"text": "caf\ufffd"}, "replacement"),
        ({"messages": None}, "null-text"),
        ({"messages": "user: hi"}, "not-text"),
        (chat(), "no-answer"),
        (chat(USER), "no-answer"),
        (chat(USER, {**ANSWER, "weight": 0}), "no-answer"),
        (chat(USER, {"role": "assistant", "content": " "}), "empty-answer"),
        (
            chat(USER, ANSWER, USER, {"role": "assistant", "content": ""}),
            "empty-turn",
        ),
        (chat({"role": "user", "content": " "}, ANSWER), "empty-asked"),
        (chat(USER, ANSWER, "hm"), "bad-turn"),
        (chat(USER, ANSWER, {"content": "no role"}), "bad-turn"),
        (chat(USER, {"role": "assistant", "content": {"a": 1}}, ANSWER), "bad-turn"),
        (chat({"role": "narrator", "content": "once"}, USER, ANSWER), "unknown-role"),
        (chat(USER, ANSWER, SYSTEM), "late-system"),
        (chat(USER, USER, ANSWER), "repeated-role"),
        (chat(USER, ANSWER, ANSWER), "repeated-role"),
        (chat(SYSTEM, ANSWER, USER, ANSWER), "starts-answered"),
        (chat(USER, ANSWER, USER), "ends-unanswered"),
    ],
)
def test_each_fault_has_its_name(tmp_path: Path, row: dict[str, Any], issue: str) -> None:
    found = measured(jsonl(tmp_path / "a.jsonl", row))
    assert counts(found) == {issue: 1}


@pytest.mark.parametrize(
    "row",
    [
        chat(SYSTEM, SYSTEM, USER, ANSWER),
        chat(USER, {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}),
        chat(USER, ANSWER, {"role": "tool", "content": "7"}, ANSWER),
        chat(
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]},
            ANSWER,
        ),
        chat(USER, {"role": "assistant", "content": "", "reasoning_content": "Hm."}),
        {"instruction": "", "input": "Translate.", "output": "Done."},
        {"prompt": "", "completion": "running text"},
        chat(USER, {"role": "assistant", "content": None, "refusal": "I will not."}),
        chat({"role": "user", "text": "a"}, {"role": "ai", "text": "b"}),
        {"prompt": [USER], "completion": [CALL]},
        {"text": None, "image": "1.png"},
        {"prompt": [USER], "chosen": [CALL], "rejected": [ANSWER]},
        {"conversations": [USER], "chosen": ANSWER, "rejected": SYSTEM},
        {"conversation": "Human: What is it? Assistant: It is a test."},
        chat(
            USER, {"role": "tool_call", "content": "{}"}, {"role": "tool", "content": "7"}, ANSWER
        ),
        chat({"role": "user", "content": {"type": "text", "text": "What is it?"}}, ANSWER),
        {"messages": json.dumps([USER, ANSWER])},
    ],
)
def test_what_is_in_order_has_no_fault(tmp_path: Path, row: dict[str, Any]) -> None:
    assert counts(measured(jsonl(tmp_path / "a.jsonl", row))) == {}


@pytest.mark.parametrize("name", ["question", "aspect", "hypothesis"])
def test_one_text_may_be_asked_several_things(tmp_path: Path, name: str) -> None:
    rows = ({"sentence": "one and the same", name: f"number {n}", "label": n} for n in range(9))
    assert measured(jsonl(tmp_path / "a.jsonl", *rows)).repeats.exact.rows == 0


def test_texts_within_objects_and_lists_are_compared(tmp_path: Path) -> None:
    rows = [{"translation": {"en": f"number {n % 5}", "de": f"Nummer {n % 5}"}} for n in range(9)]
    found = measured(jsonl(tmp_path / "a.jsonl", *rows))
    assert found.repeats.exact.rows == 4
    assert found.characters == 9 * len("number 0\nNummer 0")


def test_the_text_field_is_the_callers_to_name(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"body": "one", "text": ""}, {"body": ""}, {"text": "x"})
    found = measured(path, text_field="body")
    assert found.shapes == {Shape.TEXT: 3}
    assert counts(found) == {"empty-text": 1, "no-text": 1}


def test_fields_are_counted_by_type_with_their_first_rows(tmp_path: Path) -> None:
    rows = [{"text": "a", "n": 1}, {"text": "b", "n": "2"}, {"text": "c"}, {"text": "d", "n": None}]
    text, n = measured(jsonl(tmp_path / "a.jsonl", *rows)).fields
    assert (text.name, text.rows, dict(text.types), text.first_without) == (
        "text",
        4,
        {"string": 4},
        None,
    )
    assert (n.rows, n.nulls, dict(n.types)) == (3, 1, {"integer": 1, "string": 1})
    assert n.first_without is not None
    assert (n.first["string"].line, n.first_without.line) == (2, 3)


def test_more_forms_than_are_kept_are_counted_and_bounded(tmp_path: Path) -> None:
    rows = [{"text": f"row {number}", f"field{number}": 1} for number in range(2500)]
    found = measured(jsonl(tmp_path / "a.jsonl", *rows))
    assert (found.rows, found.signatures_dropped, len(found.fields)) == (2500, 500, 500)


def test_names_of_fields_are_bounded_over_all_forms(tmp_path: Path) -> None:
    wide = [{f"{row}_{number}": 1 for number in range(40_000)} for row in range(3)]
    found = measured(jsonl(tmp_path / "a.jsonl", *wide))
    assert (found.rows, found.signatures_dropped) == (3, 1)


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        ("caf\u00c3\u00a9 au lait", True),
        ("\u00e2\u20ac\u0153quoted\u00e2\u20ac\u009d", True),
        ("it\u00e2\u0080\u0099s", True),
        ("five\u00c2\u00a0euros", True),
        ("\u00abIRM\u00c3\u00bb e CORA\u00c7\u00c3O", False),
        ("\u00c2ge, \u00e2ge: 5 \u20ac", False),
        ("caf\u00e9 \u201cquoted\u201d \u2019", False),
    ],
)
def test_utf_8_that_was_decoded_as_something_else_is_seen(
    tmp_path: Path, text: str, odd: bool
) -> None:
    rows = [{"text": "sound"}, {"text": text}, {"text": text, "n": 1}]
    found = measured(jsonl(tmp_path / "a.jsonl", *rows))
    assert counts(found) == ({"mojibake": 2} if odd else {})
