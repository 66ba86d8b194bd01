"""What has been read so far: points by tag, in log order."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainproof.model.data import Column, Floats, Ints

from .limits import Limits

AnyFloats = NDArray[np.float32] | NDArray[np.float64]


class Part(NamedTuple):
    """Some consecutive points of a tag: int64, float64, float32 or float64; all (n,)."""

    steps: Ints
    walls: Floats
    values: AnyFloats

    def take(self, index: Ints | slice) -> Part:
        return Part(self.steps[index], self.walls[index], self.values[index])


class TagPoints:
    """The points of one tag: finished parts, then the points that were added singly.

    The three arrays stay the same objects, so that callers may keep their bound methods.
    """

    __slots__ = ("_count", "_parts", "steps", "values", "walls")

    def __init__(self) -> None:
        self.steps = array("q")
        self.walls = array("d")
        self.values = array("d")
        self._parts: list[Part] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self.values)

    def append(self, step: int, wall: float, value: float) -> None:
        self.steps.append(step)
        self.walls.append(wall)
        self.values.append(value)

    def append_all(self, steps: bytes, walls: bytes, values: bytes) -> None:
        """Append points one behind the other, given the bytes of their numbers, 8 each."""
        self.steps.frombytes(steps)
        self.walls.frombytes(walls)
        self.values.frombytes(values)

    def extend(self, part: Part) -> None:
        self._close()
        self._add(part)

    def part(self) -> Part:
        """All points as one part; there is at least one."""
        self._close()
        if len(self._parts) > 1:
            self._parts = [joined(self._parts)]
        return self._parts[0]

    def column(self, tag: str) -> Column:
        """All points as one column."""
        steps, walls, values = self.part()
        return Column(tag, steps, as_doubles(values), walls=walls)

    def _add(self, part: Part) -> None:
        self._parts.append(part)
        self._count += len(part.values)

    def _close(self) -> None:
        """Make a part of the single points."""
        if self.values:
            steps = np.frombuffer(self.steps.tobytes(), np.int64)
            walls = np.frombuffer(self.walls.tobytes(), np.float64)
            values = np.frombuffer(self.values.tobytes(), np.float64)
            self._add(Part(steps, walls, values))
            del self.steps[:], self.walls[:], self.values[:]


def joined(parts: list[Part]) -> Part:
    """The points of all parts, in order."""
    return Part(
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.walls for part in parts]),
        np.concatenate([as_doubles(part.values) for part in parts]),
    )


def as_doubles(values: AnyFloats) -> Floats:
    """The values, each exactly, in double precision."""
    if values.dtype == np.float64:
        return values.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore"):  # a signalling NaN is a value like any other
        return values.astype(np.float64)


class Points:
    """Points of all tags of one file."""

    def __init__(self) -> None:
        self._tags: dict[bytes, TagPoints] = {}

    def of(self, tag: bytes) -> TagPoints:
        """The points of a tag, which is new if it was not seen before."""
        found = self._tags.get(tag)
        if found is None:
            found = self._tags[tag] = TagPoints()
        return found

    def excess(self, limits: Limits) -> str | None:
        """Which limit has been passed, in words."""
        if len(self._tags) > limits.tags:
            return f"the file holds more than {limits.tags} tags"
        if max(map(len, self._tags), default=0) > limits.tag:
            return f"a tag has more than {limits.tag} bytes"
        if sum(map(len, self._tags.values())) > limits.points:
            return f"the file holds more than {limits.points} points"
        return None

    def columns(self) -> Iterator[Column]:
        """One column per tag, sorted by tag, each handed over and forgotten."""
        for text, tag in sorted((_text(tag), tag) for tag in self._tags):
            yield self._tags.pop(tag).column(text)

    def copies(self) -> Iterator[Column]:
        """The same, with all points kept: more may come."""
        for text, tag in sorted((_text(tag), tag) for tag in self._tags):
            yield self._tags[tag].column(text)


def _text(tag: bytes) -> str:
    """The tag as logged; bytes that are no UTF-8 are spelled out."""
    return tag.decode("utf-8", "backslashreplace")
