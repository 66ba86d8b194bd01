"""Conversations: lists of turns, with a role and a content each."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from trainproof.model.dataset import Issue

from .tools import faults

_ROLES = {
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "tool_call": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
    "ipython": "tool",
    "observation": "tool",
    "function_response": "tool",
    "tool_response": "tool",
}
"""The roles of chat formats, in OpenAI's, ShareGPT's, Gemini's and LangChain's spelling, and what
they are."""
_PAIRS = (
    ("input", "output"),
    ("human", "assistant"),
    ("user", "assistant"),
    ("prompt", "response"),
)
"""Turns of formats that keep a question together with its answer (Capybara, BELLE)."""
_CONTENTS = ("content", "value", "parts", "text")
_BESIDE = ("refusal", "reasoning_content", "reasoning", "thinking", "thought", "audio")
"""What an assistant may say in place of a content."""
_MOST = 10_000
"""Turns of one conversation that are looked at."""


_MORE = ("tool_calls", "tool_call_id", "name", "reasoning_content", "thinking")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Turn(NamedTuple):
    """``role`` as written. ``plays``: user, assistant, system, tool, or "" for none known.
    ``bare``: no text and nothing else that could stand for it. ``more``: what else chat templates
    write of it, as it is: calls of tools, their results, reasoning."""

    role: str
    plays: str
    text: str
    bare: bool
    learned: bool = True
    more: Mapping[str, Any] = _NOTHING


class Content(NamedTuple):
    """What one row says. ``text``: all of it, the prompt first. ``answer``: where in it the last
    answer begins, None where nothing is an answer. ``turns``: of a conversation. ``beside``: what
    else must be equal for two rows to be the same. ``parts``: the texts of the row by themselves,
    where they are several. ``calls``: whether tools are called; ``tools``: those that are declared,
    as they are."""

    text: str
    answer: int | None = None
    issues: tuple[Issue, ...] = ()
    turns: tuple[Turn, ...] = ()
    beside: str = ""
    parts: tuple[str, ...] = ()
    calls: bool = False
    tools: Any = None


def conversation(value: Any, tools: Any = None) -> Content:
    """A list of turns, checked; also one that is spelled as JSON, for the sake of a table. What is
    no list has no turns. ``tools``: those that the row declares, as it does."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _spelled(value)
    if value is None:
        return Content("", issues=(Issue.NULL_TEXT,))
    if not isinstance(value, list):
        return Content("", issues=(Issue.NOT_TEXT,))
    turns = tuple(turn for one in value[:_MOST] for turn in _pair(one) or (_turn(one),))
    usable = tuple(turn for turn in turns if turn is not None)
    issues: list[Issue] = [Issue.BAD_TURN] if len(usable) < len(turns) else []
    issues += _roles(usable)
    if len(usable) == len(turns):  # what cannot be read may be an answer
        issues += _answers(usable)
    amiss = faults(value[:_MOST], tools)
    issues += amiss or ()
    text, answer = _joined(usable)
    parts = tuple(turn.text for turn in usable)
    return Content(
        text, answer, tuple(issues), usable, parts=parts, calls=amiss is not None, tools=tools
    )


def _spelled(text: str) -> Any:
    """The text itself where it is no JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def flat(value: Any) -> tuple[str, Issue | None]:
    """A field that may be text or turns, as text; with what is wrong where it is neither."""
    if type(value) is str:
        return value, None
    if value is None:
        return "", Issue.NULL_TEXT
    turns = as_turns(value)
    return "\n".join(turn.text for turn in turns), None if turns else Issue.NOT_TEXT


def texts_of(value: Any) -> tuple[str, ...]:
    """The texts of a field that may be text or turns."""
    return (value,) if isinstance(value, str) else tuple(turn.text for turn in as_turns(value))


def as_turns(value: Any) -> tuple[Turn, ...]:
    """A list of turns, or a single one; empty where it is neither."""
    listed = [value] if isinstance(value, dict) else value
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        return ()
    return tuple(turn for one in listed[:_MOST] if (turn := _turn(one)) is not None)


def is_empty(value: Any) -> bool:
    """Whether a text is white space, or no turn says or does anything."""
    if isinstance(value, str):
        return not value or value.isspace()
    return all(turn.bare for turn in as_turns(value))


def _pair(value: Any) -> tuple[Turn, ...]:
    """Both turns of what holds a question with its answer; none where it is something else."""
    if not isinstance(value, dict) or "role" in value or "from" in value:
        return ()
    for asked, answered in _PAIRS:
        said = value.get(asked), value.get(answered)
        if isinstance(said[0], str) and isinstance(said[1], str):
            return (
                Turn(asked, "user", said[0], not said[0].strip()),
                Turn(answered, "assistant", said[1], not said[1].strip()),
            )
    return ()


def _turn(value: Any) -> Turn | None:
    """None for what has no role, or no content of a kind that is known."""
    if not isinstance(value, dict):
        return None
    role = value.get("role", value.get("from"))
    if not isinstance(role, str):
        return None
    does = bool(value.get("tool_calls") or value.get("function_call"))
    does = does or any(value.get(name) for name in _BESIDE)
    named = next((name for name in _CONTENTS if name in value), None)
    if named is None and not does:
        return None
    text, other = _text(None if named is None else value[named])
    if text is None:
        return None
    bare = not text.strip() and not (does or other)
    more = {name: value[name] for name in _MORE if value.get(name)} or _NOTHING
    return Turn(role, _ROLES.get(role.lower(), ""), text, bare, value.get("weight") != 0, more)


def _text(content: Any) -> tuple[str | None, bool]:
    """The text of a content, and whether it holds something else: images, calls."""
    if isinstance(content, str):
        return content, False
    if content is None:
        return "", False
    if isinstance(content, dict) and isinstance(content.get("type"), str):
        content = [content]
    if not isinstance(content, list):
        return None, False
    texts, other = [], False
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            other = True
    return "".join(texts), other


def _roles(turns: tuple[Turn, ...]) -> list[Issue]:
    found: list[Issue] = []
    if any(not turn.plays for turn in turns):
        found.append(Issue.UNKNOWN_ROLE)
    spoken = [turn.plays for turn in turns]
    while spoken and spoken[0] == "system":
        del spoken[0]
    if "system" in spoken:
        found.append(Issue.LATE_SYSTEM)
    if any(a == b and a in ("user", "assistant") for a, b in pairwise(spoken)):
        found.append(Issue.REPEATED_ROLE)
    if spoken[:1] == ["assistant"]:
        found.append(Issue.STARTS_ANSWERED)
    if any(turn.bare and turn.plays == "user" for turn in turns):
        found.append(Issue.EMPTY_ASKED)
    if "assistant" in spoken and spoken[-1] in ("user", "tool"):
        found.append(Issue.ENDS_UNANSWERED)
    return found


def _answers(turns: tuple[Turn, ...]) -> list[Issue]:
    given = [turn for turn in turns if turn.plays == "assistant" and turn.learned]
    if not given:
        return [Issue.NO_ANSWER]
    if all(turn.bare for turn in given):
        return [Issue.EMPTY_ANSWER]
    return [Issue.EMPTY_TURN] if any(turn.bare for turn in given) else []


def _joined(turns: tuple[Turn, ...]) -> tuple[str, int | None]:
    """All turns as one text, and where the last answer begins."""
    parts, length, answer = [], 0, None
    for turn in turns:
        part = f"{turn.role}: {turn.text}\n"
        if turn.plays == "assistant":
            answer = length + len(turn.role) + 2
        parts.append(part)
        length += len(part)
    return "".join(parts), answer
