"""What the formats of datasets yield: rows, and what stands where a row should."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, NamedTuple, cast

from trainproof.model.data import Fault
from trainproof.model.dataset import Issue

MAX_LINE = 64 << 20
"""Bytes of one row: what is longer is passed over, and counted."""
_END = len(b"\r\n")

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


def lines(
    stream: BinaryIO, most: int = MAX_LINE, empty: bool = True
) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a stream, from 1, in bounded memory: None for one longer than ``most``.

    A byte order mark is no part of the first. Without ``empty`` ones, of which any number may
    follow each other, ``stream`` is a buffered reader.
    """
    first = stream.readline(most).removeprefix(b"\xef\xbb\xbf")
    number = 0
    for line in chain((first,) if first else (), iter(partial(stream.readline, most), b"")):
        number += 1
        if not empty and len(line) <= _END and not line.strip():
            number += _pass_ends(cast(io.BufferedReader, stream))
        elif len(line) < most or line.endswith(b"\n"):
            yield number, line
        else:
            while line and not line.endswith(b"\n"):
                line = stream.readline(most)  # noqa: PLW2901 - the rest of it
            yield number, None


def _pass_ends(stream: io.BufferedReader) -> int:
    """Pass over the ends of lines that come next, a buffer at a time; how many they are."""
    count = 0
    while ahead := stream.peek(1):
        run = len(ahead) - len(ahead.lstrip(b"\r\n"))
        count += ahead.count(b"\n", 0, run)
        stream.read(run)
        if run < len(ahead):
            break
    return count


def decoded(line: bytes) -> tuple[str, tuple[Issue, ...]]:
    """The text of a line; bytes that are not UTF-8 are an issue, and replaced."""
    try:
        return line.decode("utf-8"), ()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace"), (Issue.ENCODING,)
