"""JSON as training tools write it: NaN and Infinity, cut ends, one broken record among many."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import jiter
import msgspec

from trainproof.model.data import FaultCode

from .sheet import Row
from .text import FaultLog

TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[][{}"]', re.DOTALL)
"""Strings and brackets; a lone quote is a string that the file ends in."""

BARE_WORDS = ((b": nan", b": NaN"), (b": inf", b": Infinity"), (b": -inf", b": -Infinity"))
"""Python's spelling, from logs that are written without a JSON encoder."""


def loads(data: bytes) -> object:
    """Parse JSON, with NaN and infinities. Raises ValueError; nesting is bounded by jiter."""
    return jiter.from_json(data, allow_inf_nan=True, cache_mode="keys")


def loads_partial(data: bytes, *, cut_strings: bool = False) -> object:
    """What a JSON text that is cut anywhere holds up to there; with ``cut_strings`` also the
    beginning of a string that is cut. Raises ValueError."""
    mode: Literal[True, "trailing-strings"] = "trailing-strings" if cut_strings else True
    return jiter.from_json(data, allow_inf_nan=True, partial_mode=mode)


def loads_leniently(data: bytes) -> object:
    """One record that may not be UTF-8, or hold Python's ``nan``. Raises ValueError."""
    try:
        return loads(data)
    except ValueError:
        pass
    for python, json in BARE_WORDS:
        data = data.replace(python, json)
    return loads(data.decode("utf-8", "replace").encode())


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the cycle collector: a million new dicts make it run in vain (a fifth of the
    time)."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Span(msgspec.Struct, frozen=True):
    """An object in an array: ``data[begin:end]``, ``line`` lines below the start."""

    begin: int
    end: int
    line: int


class Spans(msgspec.Struct, frozen=True):
    """The complete objects of an array, and where the array ends; None where it is cut."""

    objects: list[Span]
    end: int | None


def object_spans(data: bytes, start: int) -> Spans:
    """The objects directly in the array that opens at ``data[start]``."""
    found: list[Span] = []
    depth = line = begin = 0
    seen = start
    for token in TOKEN.finditer(data, start):
        sign, at = token.group()[:1], token.start()
        if sign in b"{[":
            depth += 1
            if depth == 2:
                line += data.count(b"\n", seen, at)
                begin = seen = at
        elif sign in b"]}":
            depth -= 1
            if depth == 0:
                return Spans(found, token.end())
            if depth == 1 and sign == b"}":
                found.append(Span(begin, token.end(), line))
        elif len(token.group()) == 1:
            break
    return Spans(found, None)


def salvage(
    data: bytes, spans: Spans, first_line: int, faults: FaultLog
) -> tuple[list[Row], list[int]]:
    """The objects that can be parsed one by one, with their lines; the others are faults."""
    rows: list[Row] = []
    lines: list[int] = []
    for span in spans.objects:
        line = first_line + span.line
        try:
            row = loads_leniently(data[span.begin : span.end])
        except ValueError as error:
            faults.add(FaultCode.CORRUPT, f"not JSON: {error}", line)
            continue
        if isinstance(row, dict):
            rows.append(row)
            lines.append(line)
    return rows, lines
