"""Files of nothing but numbers: ``loss.txt`` with one a line, or a step and a number.

Nothing in such a file says what it holds; only a name that says loss makes it a log. ``numpy``'s
``savetxt`` and home-made loops write them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import BinaryIO

import numpy as np

from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Facts, FaultCode, Floats, Item, Role

from .interface import HEAD, Options
from .names import classify, words_of
from .sheet import Sheet, number
from .split_files import GENERIC, stem_of
from .text import Block, FaultLog, TextSource, decode_head

FEWEST = 3
"""Rows from which on numbers are taken for a series."""

LOSS = frozenset({"loss", "losses"})
UNNAMED = "loss"
"""What a file is that the caller says is one, by the name of this reader."""


class BareNumbers:
    """A loss, one value a line; or a step that rises and a loss."""

    name = "numbers"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        return _tag(path) is not None and holds_numbers(head)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        sheet = Sheet(faults)
        tag = _tag(artifact.path) or UNNAMED
        for block in TextSource(stream, faults).blocks():
            _add(block, tag, sheet, faults)
            if sheet.full:
                break
        yield from sheet.items(options, Facts())


def holds_numbers(head: bytes) -> bool:
    """Whether a file begins with lines of one number each; or of two, of which the first is a count
    that rises."""
    lines = decode_head(head).split("\n")
    if len(head) >= HEAD:
        lines.pop()
    rows = [_row(line) for line in lines if _counts(line)]
    if len(rows) < FEWEST or None in rows or len({len(row) for row in rows if row}) != 1:
        return False
    found = [row for row in rows if row]
    return len(found[0]) == 1 or _is_count([row[0] for row in found])


def _tag(path: str) -> str | None:
    """What the file's name says that it holds; None where that is no loss."""
    words = [word for word in words_of(stem_of(path)) if word not in GENERIC]
    tag = "_".join(words)
    return tag if not LOSS.isdisjoint(words) and classify(tag).role is Role.LOSS else None


def _counts(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _row(line: str) -> tuple[float, ...] | None:
    """One number or two; None for anything else."""
    cells = [number(cell) for cell in line.replace(",", " ").replace(";", " ").split()]
    found = tuple(cell for cell in cells if cell is not None)
    return found if 1 <= len(found) == len(cells) <= 2 else None


def _is_count(values: Sequence[float]) -> bool:
    whole = all(value >= 0 and value == int(value) for value in values if value < 2**53)
    return whole and all(a < b for a, b in pairwise(values))


def _add(block: Block, tag: str, sheet: Sheet, faults: FaultLog) -> None:
    """The rows of a block; one that is no such row is a fault."""
    rows: list[tuple[float, ...]] = []
    numbers: list[int] = []
    width = len(sheet.header) or None
    for line, text in enumerate(
        block.data.decode("utf-8", "replace").split("\n"), block.first_line
    ):
        if not _counts(text):
            continue
        row = _row(text)
        width = width or (len(row) if row else None)
        if row is None or len(row) != width:
            faults.add(FaultCode.CORRUPT, "not a row of numbers like those before", line)
        else:
            rows.append(row)
            numbers.append(line)
    if rows:
        sheet.header = ("step", tag)[2 - len(rows[0]) :]
        table: Floats = np.array(rows, dtype=np.float64)
        sheet.add_table(sheet.header, table, None, np.array(numbers))
