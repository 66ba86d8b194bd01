"""Calls of tools within conversations, in OpenAI's spelling, and what follows on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from trainproof.model.dataset import Issue

_MOST = 1000
"""Calls of one conversation, and tools of one row, that are looked at."""


def faults(turns: Sequence[Any], tools: Any) -> list[Issue] | None:
    """What is wrong with the calls of a conversation; None where no tool is called.

    ``tools``: those that the row declares, as it does.
    """
    calls = list(_calls(turns))[:_MOST]
    if not calls and not any(map(_answered, turns)):
        return None
    return list(_faults(turns, calls, tools))


def _faults(turns: Sequence[Any], calls: Sequence[dict[str, Any]], tools: Any) -> Iterator[Issue]:
    if any(not _is_object(_within(call).get("arguments")) for call in calls):
        yield Issue.CALL_ARGUMENTS
    if _is_result_of_none(turns):
        yield Issue.CALL_UNKNOWN
    declared, called = names_of(tools), {_within(call).get("name") for call in calls}
    if declared and any(isinstance(name, str) and name not in declared for name in called):
        yield Issue.CALL_UNDECLARED


def names_of(tools: Any) -> frozenset[str]:
    """The names of declared tools; none where one of them has no name that can be read."""
    if isinstance(tools, str):
        try:
            tools = orjson.loads(tools)
        except orjson.JSONDecodeError:
            return frozenset()
    if not isinstance(tools, list) or not all(isinstance(one, dict) for one in tools):
        return frozenset()
    names = [_within(one).get("name") for one in tools[:_MOST]]
    known = frozenset(name for name in names if isinstance(name, str))
    return known if len(known) == len(tools) else frozenset()


def _calls(turns: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for turn in turns:
        listed = turn.get("tool_calls") if isinstance(turn, dict) else None
        yield from (
            (one for one in listed if isinstance(one, dict)) if isinstance(listed, list) else ()
        )


def _answered(turn: Any) -> str:
    """The id of the call whose result a turn is; empty where it names none."""
    id = turn.get("tool_call_id") if isinstance(turn, dict) else None
    return id if isinstance(id, str) else ""


def _within(one: dict[str, Any]) -> dict[str, Any]:
    """What a call or a tool says of its function, in an object of its own or not."""
    function = one.get("function")
    return function if isinstance(function, dict) else one


def _is_object(arguments: Any) -> bool:
    """Whether arguments are an object, or spell one. None at all may be left out or empty."""
    if not isinstance(arguments, str):
        return arguments is None or isinstance(arguments, dict)
    if not arguments.strip():
        return True
    try:
        return isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        return False


def _is_result_of_none(turns: Sequence[Any]) -> bool:
    """Whether a turn answers a call, by its id, that was not made before. Calls without an id
    could be any."""
    made: set[str] = set()
    for turn in turns:
        for call in _calls((turn,)):
            id = call.get("id")
            if not isinstance(id, str):
                return False
            made.add(id)
        answered = _answered(turn)
        if answered and answered not in made:
            return True
    return False
