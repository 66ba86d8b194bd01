"""Files without a short period: records found one by one, then decoded by kind.

The boundaries are walked in Python and proven in bulk by the lengths' checksums; records of one
length are gathered into rows, and rows of one shape are decoded together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from trainproof.model.data import Ints

from .bulkcrc import length_crcs
from .event import decode_event
from .framing import FRAME, HEADER, Damage, verify_payload
from .limits import Limits, Tuning
from .points import Part, Points, TagPoints, joined
from .records import RecordDecoder
from .template import MAX_LENGTH, Rows, Template, Templates

_MIN_ROWS = 16
_MAX_TRIES = 64
"""Shapes looked for among the records of one length."""
_POOR = 31 / 32
_MAX_POOR = 4
"""Shapes that may leave more than that share: trying many would take quadratic time."""
_MAX_SINGLES = 2000
"""Records of a block decoded singly here; more are left to ``RecordDecoder``, in file order."""


class Scattered:
    """Decodes all records of a block by length and shape."""

    def __init__(
        self,
        points: Points,
        records: RecordDecoder,
        templates: Templates,
        limits: Limits,
        tuning: Tuning,
    ) -> None:
        self._points = points
        self._records = records
        self._templates = templates
        self._limits = limits
        self._tuning = tuning

    def advance(self, data: bytes, at: int) -> int:
        """Decode from ``at``; returns where a record begins that ``data`` holds only a part of.

        Raises Damage at the first bad record.
        """
        while True:
            lengths, end = _walk(data, at)
            if len(lengths) >= self._tuning.dense:
                at = self._take(data, *_proven(data, at, lengths))
            # Whatever the arrays left, and the record behind: large, damaged or not complete.
            after = self._records.advance(data, at, end + 1)
            if after == at:
                return at
            at = after

    def _take(self, data: bytes, starts: Ints, lengths: Ints, end: int) -> int:
        """Add the points of these records, up to the first that is bad; returns its place."""
        batch = Batch(end)
        for length, same in by_length(starts, lengths):
            self._take_equal(data, length, same, batch)
        batch.add_to(self._points)
        return batch.end

    def _take_equal(self, data: bytes, length: int, starts: Ints, batch: Batch) -> None:
        """Records of one payload length, by shape while that is worth it."""
        poor = 0
        for _ in range(_MAX_TRIES if length <= MAX_LENGTH else 0):
            if len(starts) < _MIN_ROWS or poor > _MAX_POOR:
                break
            first = int(starts[0])
            template = self._templates.find(data, first, first + length + FRAME)
            if template:
                rest = _take_shape(data, template, starts, batch)
                poor += len(rest) > _POOR * len(starts)
                starts = rest
            else:
                self._take_one(data, first, length, batch)
                starts = starts[1:]
        for start in starts.tolist():
            if start >= batch.end:
                break
            self._take_one(data, start, length, batch)

    def _take_one(self, data: bytes, start: int, length: int, batch: Batch) -> None:
        """A record of no common shape, field by field."""
        batch.singles += 1
        if batch.singles > _MAX_SINGLES:
            batch.cut(start)
            return
        payload, stop = start + HEADER, start + HEADER + length
        try:
            verify_payload(data, payload, stop)
            event = decode_event(data, payload, stop, self._limits.tags)
        except Damage:
            batch.cut(start)
            return
        for one in event.scalars:
            batch.append(one.tag, start, event.step, event.wall, one.value)


def _take_shape(data: bytes, template: Template, starts: Ints, batch: Batch) -> Ints:
    """Add the points of all records of this shape; returns where the others are."""
    matrix = _gathered(data, starts, template.size)
    fits = template.fits_rows(_rows(matrix))
    rest = starts[~fits]
    if len(rest):
        starts, matrix = starts[fits], matrix[fits]
    rows = _rows(matrix)
    numbers = template.numbers(rows)
    intact = template.intact_rows(rows, numbers)
    if not intact.all():
        batch.cut(int(starts[intact.argmin()]))
    steps = template.steps(numbers)
    for hole, values in zip(template.holes, numbers.values, strict=True):
        batch.extend(hole.tag, starts, Part(steps, numbers.walls, values))
    return rest


def _rows(matrix: NDArray[np.uint8]) -> Rows:
    count, size = matrix.shape
    return Rows(matrix, 0, size, count)


def _gathered(data: bytes, starts: Ints, size: int) -> NDArray[np.uint8]:
    """The records of ``size`` bytes at ``starts``, copied: uint8 (n, size)."""
    everywhere = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
    return everywhere[starts].view(np.uint8).reshape(-1, size)


def _proven(data: bytes, at: int, walked: array[int]) -> tuple[Ints, Ints, int]:
    """Starts and payload lengths of the complete records from ``at``, and where they end.

    They end before the first that is not complete or has a length that does not agree with its
    checksum. ``walked``: what ``_walk`` found from ``at``, at least one record.
    """
    guesses = np.frombuffer(walked, np.uint16)
    lengths = guesses.astype(np.int64)
    ends = at + np.cumsum(lengths + FRAME)
    starts = ends - lengths - FRAME
    whole = np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))
    stored = np.ndarray((len(data) - 3,), "<u4", data, 0, (1,))
    good = whole[starts] == lengths.view(np.uint64)
    good &= stored[starts + 8] == length_crcs().take(guesses)
    good &= ends <= len(data)
    count = len(good) if good.all() else int(good.argmin())
    return starts[:count], lengths[:count], int(ends[count - 1]) if count else at


def _walk(data: bytes, at: int) -> tuple[array[int], int]:
    """The payload lengths of the records from ``at``, not proven here, and where they end.

    They end before a record of 65536 bytes or more: going on by the low bits of its length
    would lead into it, and through what is no record at all.
    """
    lengths = array("H")
    append = lengths.append
    last = len(data) - FRAME
    while at <= last:
        if data[at + 2] or data[at + 3]:
            break
        length = data[at] | data[at + 1] << 8
        append(length)
        at += length + FRAME
    return lengths, at


def by_length(starts: Ints, lengths: Ints) -> Iterator[tuple[int, Ints]]:
    """``(length, starts)`` of the records of each length, in file order."""
    order = lengths.astype(np.uint16).argsort(kind="stable")
    lengths, starts = lengths[order], starts[order]
    edges = np.flatnonzero(np.diff(lengths)) + 1
    for group, same in zip(np.split(lengths, edges), np.split(starts, edges), strict=True):
        if len(group):
            yield int(group[0]), same


class Batch:
    """Points of one block with the place of their records, until it is known which count.

    ``end`` is where the first record begins that does not. ``singles``: how many records were
    decoded one by one.
    """

    def __init__(self, end: int) -> None:
        self.end = end
        self.singles = 0
        self._parts: dict[bytes, list[tuple[Ints, Part]]] = {}
        self._singles: dict[bytes, Singles] = {}

    def cut(self, end: int) -> None:
        self.end = min(self.end, end)

    def extend(self, tag: bytes, starts: Ints, part: Part) -> None:
        self._parts.setdefault(tag, []).append((starts, part))

    def append(self, tag: bytes, start: int, step: int, wall: float, value: float) -> None:
        found = self._singles.get(tag)
        if found is None:
            found = self._singles[tag] = Singles()
        found.append(start, step, wall, value)

    def add_to(self, points: Points) -> None:
        """Hand over the points before ``end``, those of each tag in file order."""
        for tag, singles in self._singles.items():
            self.extend(tag, *singles.part())
        for tag, parts in self._parts.items():
            starts, part = _in_order(parts)
            count = int(np.searchsorted(starts, self.end))
            if count:
                points.of(tag).extend(part.take(slice(count)))


class Singles:
    """Points of one tag that were decoded one by one."""

    def __init__(self) -> None:
        self._starts = array("q")
        self._points = TagPoints()

    def append(self, start: int, step: int, wall: float, value: float) -> None:
        self._starts.append(start)
        self._points.append(step, wall, value)

    def part(self) -> tuple[Ints, Part]:
        return np.frombuffer(self._starts, np.int64), self._points.part()


def _in_order(parts: list[tuple[Ints, Part]]) -> tuple[Ints, Part]:
    """Parts of one tag merged by the place of their records; a record's own order stays."""
    starts = np.concatenate([starts for starts, _ in parts])
    order = starts.argsort(kind="stable")
    part = joined([part for _, part in parts])
    return starts[order], part.take(order)
