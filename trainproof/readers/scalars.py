"""Points as trackers store them, one at a time under a name -> columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import msgspec
import numpy as np

from trainproof.model.data import Axis, Column, Ints

MAX_COLUMNS = 4096
MAX_POINTS = 1 << 24
"""Points kept of one artifact (384 MiB)."""

MAX_COUNT = 2**53
"""Bound of steps and milliseconds."""


class TooMany(Exception):
    """More names or points than are kept."""


class _Points(msgspec.Struct):
    values: array[float] = msgspec.field(default_factory=lambda: array("d"))
    steps: array[int] = msgspec.field(default_factory=lambda: array("q"))
    walls: array[float] = msgspec.field(default_factory=lambda: array("d"))


class Scalars(msgspec.Struct):
    """The points so far, by name."""

    _known: dict[str, _Points] = msgspec.field(default_factory=dict)
    _count: int = 0

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, name: str, step: int, value: float, wall: float) -> None:
        """``wall`` is in seconds since 1970. Raises TooMany."""
        points = self._known.setdefault(name, _Points())
        points.values.append(value)
        points.steps.append(step)
        points.walls.append(wall)
        self._count += 1
        if self._count > MAX_POINTS or len(self._known) > MAX_COLUMNS:
            raise TooMany(f"more than {MAX_COLUMNS} metrics or {MAX_POINTS} points")

    def columns(self) -> Iterator[Column]:
        for name, points in self._known.items():
            steps, axis = placed(points.steps)
            walls = np.frombuffer(points.walls)
            yield Column(name, steps, np.frombuffer(points.values), axis, walls=walls)


def placed(steps: array[int]) -> tuple[Ints, Axis]:
    """The steps of a metric. All are 0 where the user gave none: then the points are numbered."""
    found = np.frombuffer(steps, dtype=np.int64)
    if len(found) > 1 and not found.any():
        return np.arange(len(found), dtype=np.int64), Axis.INDEX
    return found, Axis.STEP


def is_count(value: object) -> bool:
    """Whether it is a step or a clock that can be kept."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < MAX_COUNT
