"""JSON lines, and plain text: one row a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO

import orjson

from trainproof.model.dataset import Issue

from .rows import Item, Unusable, decoded, lines

_DIGITS = 640
"""The least limit that ``sys.set_int_max_str_digits`` allows."""


def json_lines(stream: BinaryIO) -> Iterator[Item]:
    """A row for each object; blank lines are no rows."""
    parse = orjson.loads
    for number, text in lines(stream, empty=False):
        try:
            value = parse(text or b"")
        except orjson.JSONDecodeError:
            if item := _odd(number, text):
                yield item
            continue
        if type(value) is dict:
            yield number, value, ()
        else:
            yield Unusable(number, Issue.NOT_OBJECT)


def _odd(number: int, raw: bytes | None) -> Item | None:
    """A line that is no strict JSON: Python's own parser also takes NaN and half surrogates."""
    if raw is None:
        return Unusable(number, Issue.TOO_LONG)
    if not raw.strip():
        return None
    text, issues = decoded(raw)
    if issues:
        return Unusable(number, Issue.ENCODING)
    constants: list[str] = []
    try:
        value = json.loads(text, parse_constant=constants.append, parse_int=whole)
    except RecursionError:
        return Unusable(number, Issue.TOO_LONG)
    except ValueError:
        return Unusable(number, Issue.SYNTAX)
    if not isinstance(value, dict):
        return Unusable(number, Issue.NOT_OBJECT)
    return number, value, spelling(value, constants)


def whole(digits: str) -> int | float:
    """A whole number; as a float where Python refuses to convert so many digits."""
    return int(digits) if len(digits) < _DIGITS else float(digits)


def spelling(value: object, constants: list[str]) -> tuple[Issue, ...]:
    """Why a strict parser would refuse what Python's parser has read; none where it would not.

    ``constants``: the NaN and Infinity that it met.
    """
    found = (Issue.NOT_A_NUMBER,) if constants else ()
    try:
        orjson.dumps(value)
    except TypeError:  # a lone surrogate; or merely a large number, or deep nesting
        if not _encodes(value):
            return (*found, Issue.SURROGATE)
    return found


def _encodes(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    except RecursionError:
        return True
    return True


def plain_text(stream: BinaryIO) -> Iterator[Item]:
    """A row for each line that is not blank."""
    for number, line in lines(stream, empty=False):
        if line is None:
            yield Unusable(number, Issue.TOO_LONG)
            continue
        text, issues = decoded(line.rstrip(b"\r\n"))
        if text and not text.isspace():
            yield number, {"text": text}, issues
