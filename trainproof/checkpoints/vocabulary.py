"""Which tokens were added to a vocabulary, by the files of a tokenizer beside the weights.

Source: ``tokenizers`` (``added_tokens`` stands before the model in ``tokenizer.json``) and
``transformers`` (``added_tokens_decoder`` of ``tokenizer_config.json``, ``added_tokens.json``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

Head = Callable[[str, int], bytes]
"""The first bytes of a file by its name, at most so many; none where it is not there."""

_HEAD = 4 << 20
"""Bytes of ``tokenizer.json``: its added tokens come first. The others are read as far too."""
_TEMPLATE = 1 << 20
_LONGEST = 100
"""Characters of a token: longer ones are left out."""

_IDLE = re.compile(
    r"pad|unk|mask|reserved|unused|extra|dummy|placeholder|blank|empty|cls|sep|<0x", re.IGNORECASE
)
"""Tokens that a training need not see: fillers, and those that are kept for later."""
_OPTIONAL = re.compile(
    r"tool|func|call|image|img|vision|video|audio|speech|python|code|fim|file|repo|think|reason"
    r"|box|quad|ref|doc",
    re.IGNORECASE,
)
"""Tokens that a chat template names for conversations of a certain kind."""


class AddedToken(msgspec.Struct, frozen=True):
    """``used``: whether the chat template names it for every conversation, or it begins or ends
    every text."""

    id: int
    text: str
    used: bool


def added_tokens(head: Head) -> list[AddedToken]:
    """By id, without those that nothing need be learned of."""
    config = _document(head("tokenizer_config.json", _HEAD))
    found = dict(_listed(head, config))
    ends = _texts(config, "bos_token", "eos_token")
    fillers = _texts(config, "pad_token", "unk_token")
    template = _template(head, config)
    return [
        AddedToken(id, text, text in ends or (text in template and not _OPTIONAL.search(text)))
        for id, text in sorted(found.items())
        if text not in fillers and not _IDLE.search(text)
    ]


def _listed(head: Head, config: Mapping[str, object]) -> Iterator[tuple[int, str]]:
    given = _added(head("tokenizer.json", _HEAD).decode("utf-8", "ignore"))
    for one in given if isinstance(given, list) else ():
        if isinstance(one, dict):
            yield from _token(one.get("id"), one.get("content"))
    decoder = config.get("added_tokens_decoder")
    for key, value in decoder.items() if isinstance(decoder, dict) else ():
        yield from _token(int(key) if key.isdecimal() and len(key) < 19 else None, _content(value))
    for text, id in _document(head("added_tokens.json", _HEAD)).items():
        yield from _token(id, text)


def _token(id: object, text: object) -> Iterator[tuple[int, str]]:
    if type(id) is int and isinstance(text, str) and id >= 0 and 0 < len(text) <= _LONGEST:
        yield id, text


_ADDED = re.compile(r'"added_tokens"\s*:\s*(?=\[)')


def _added(text: str) -> object:
    """The list in a document that may be cut after it."""
    start = _ADDED.search(text)
    try:
        return json.JSONDecoder().raw_decode(text, start.end())[0] if start else None
    except (ValueError, RecursionError):
        return None


def _document(data: bytes) -> dict[str, object]:
    try:
        made = json.loads(data) if data else None
    except (ValueError, RecursionError):
        return {}
    return made if isinstance(made, dict) else {}


def _content(token: object) -> object:
    """A token is its text, or a record that has it."""
    return token.get("content") if isinstance(token, dict) else token


def _texts(config: Mapping[str, object], *keys: str) -> list[object]:
    return [_content(config.get(key)) for key in keys]


def _template(head: Head, config: Mapping[str, object]) -> str:
    """All chat templates one after the other."""
    given = config.get("chat_template")
    named = given if isinstance(given, list) else [{"template": given}]
    inside = [one.get("template") for one in named if isinstance(one, dict)]
    beside = head("chat_template.jinja", _TEMPLATE).decode("utf-8", "ignore")
    return "\n".join([beside, *(one for one in inside if isinstance(one, str))])
