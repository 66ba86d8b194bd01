"""What CatBoost prints while it trains::

    0:      learn: 0.6759   test: 0.6761    best: 0.6761 (0)        total: 52ms     remaining: 52s

The metric has no name; ``best`` tells which way it improves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from msgspec.structs import replace

from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Column, Declared, Direction, Facts, Item, Role, Split

from .interface import HEAD, Options
from .sheet import Row, Sheet
from .text import FaultLog, TextSource, decode_head

NUMBER = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)"
SET = rf"(?:learn|test\d{{0,3}}): {NUMBER}"
ROW = re.compile(
    rf"(?:.{{0,80}}\s)?(?P<step>\d{{1,9}}):(?P<values>(?:\t{SET}){{1,99}})"
    rf"(?:\tbest: (?P<best>{NUMBER}) \(\d+\))?\ttotal: ",
    re.IGNORECASE,
)
VALUE = re.compile(rf"(learn|test\d{{0,3}}): ({NUMBER})", re.IGNORECASE)
STEP, LEARN = "iteration", "learn"
BATCH = 4096
"""Rows collected before they are stored."""


class CatBoostConsole:
    """A row for each iteration that is printed: on what is learned, on what is held out, the best
    so far."""

    name = "catboost-console"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        lines = decode_head(head).split("\n")
        whole = lines if len(head) < HEAD else lines[:-1]
        return any(map(ROW.match, whole))

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        sheet = Sheet(faults)
        rows: list[Row] = []
        numbers: list[int] = []
        better = _Better()
        for line in TextSource(stream, faults).lines():
            found = ROW.match(line.text)
            if found is None:
                continue
            values = {name.lower(): float(value) for name, value in VALUE.findall(found["values"])}
            rows.append({STEP: int(found["step"]), **values})
            numbers.append(line.number)
            better.see(values, found["best"])
            if len(rows) >= BATCH:
                sheet.add(rows, numbers)
                rows, numbers = [], []
            if sheet.full:
                break
        sheet.add(rows, numbers)
        for item in sheet.items(options, Facts(framework="catboost")):
            yield _declared(item, better) if isinstance(item, Column) else item


class _Better:
    """Which way the metric improves: that in which the best evaluation so far goes, or, while it
    stands, in which it lies from the others."""

    def __init__(self) -> None:
        self._first: float | None = None
        self.direction = Direction.NONE

    def see(self, values: Row, best: str | None) -> None:
        """One row, with the best evaluation so far."""
        if best is None or self.direction is not Direction.NONE:
            return
        now = float(best)
        others = [value for name, value in values.items() if name != LEARN]
        self._first = now if self._first is None else self._first
        against = self._first if now != self._first or len(others) != 1 else others[0]
        if now != against:
            self.direction = Direction.LOWER if now < against else Direction.HIGHER


def _declared(column: Column, better: _Better) -> Column:
    if column.tag == STEP:
        return column
    split = Split.TRAIN if column.tag == LEARN else Split.EVAL
    return replace(column, declared=_meaning(better.direction, column.values.tolist(), split))


def _meaning(direction: Direction, values: Sequence[float], split: Split) -> Declared:
    """Without an evaluation nothing says which way is better; but only what gets smaller can be
    the loss of a training that minimises it."""
    if direction is Direction.NONE and not values[-1] >= values[0]:
        direction = Direction.LOWER
    role = Role.LOSS if direction is Direction.LOWER else Role.METRIC
    return Declared(role, split, direction)
