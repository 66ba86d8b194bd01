"""What the formats of datasets yield: rows, and what stands where a row should."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from trainproof.model.data import Fault
from trainproof.model.dataset import Issue

MAX_LINE = 64 << 20
"""Bytes of one row: what is longer is passed over, and counted."""

Fields = dict[str, Any]
"""A row as its file has it: the values are of JSON, whatever the format."""


Row = tuple[int | None, Fields, tuple[Issue, ...]]
"""The line, 1-based (None where the format has no lines), the fields, and issues of the spelling.
A plain tuple: one is made for each row, and a named one takes ten times as long to make."""


class Unusable(NamedTuple):
    """A place that should hold a row and holds none that could be read."""

    line: int | None
    issue: Issue


Item = Row | Unusable | Fault


def lines(stream: BinaryIO, most: int = MAX_LINE) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a stream, from 1, in bounded memory: None for one longer than ``most``.

    A byte order mark is no part of the first.
    """
    first = stream.readline(most).removeprefix(b"\xef\xbb\xbf")
    number = 0
    for line in chain((first,) if first else (), iter(partial(stream.readline, most), b"")):
        number += 1
        if len(line) < most or line.endswith(b"\n"):
            yield number, line
            continue
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(most)
        yield number, None


def decoded(line: bytes) -> tuple[str, tuple[Issue, ...]]:
    """The text of a line; bytes that are not UTF-8 are an issue, and replaced."""
    try:
        return line.decode("utf-8"), ()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace"), (Issue.ENCODING,)
