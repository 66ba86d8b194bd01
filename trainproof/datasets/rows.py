"""What the formats of datasets yield: rows, and what stands where a row should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from trainproof.model.data import Fault
from trainproof.model.dataset import Issue

MAX_LINE = 64 << 20
"""Bytes of one row: what is longer is passed over, and counted."""

Fields = dict[str, Any]
"""A row as its file has it: the values are of JSON, whatever the format."""


class Row(NamedTuple):
    """``line`` is 1-based; None where the format has no lines. ``issues``: of its spelling."""

    line: int | None
    fields: Fields
    issues: tuple[Issue, ...] = ()


class Unusable(NamedTuple):
    """A place that should hold a row and holds none that could be read."""

    line: int | None
    issue: Issue


Item = Row | Unusable | Fault


class Line(NamedTuple):
    """``text`` without its end; None where it is longer than ``MAX_LINE``."""

    number: int
    text: bytes | None


def lines(stream: BinaryIO) -> Iterator[Line]:
    """The lines of a stream in bounded memory. A byte order mark is no part of the first."""
    number = 0
    while line := stream.readline(MAX_LINE):
        number += 1
        if len(line) < MAX_LINE or line.endswith(b"\n"):
            yield Line(number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE)
        yield Line(number, None)


def decoded(line: bytes) -> tuple[str, tuple[Issue, ...]]:
    """The text of a line; bytes that are not UTF-8 are an issue, and replaced."""
    try:
        return line.decode("utf-8"), ()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace"), (Issue.ENCODING,)
