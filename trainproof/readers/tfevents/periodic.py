"""Files that log the same tags over and over in the same order: whole cycles at a time.

The next thousand cycles are looked at in place, as rows at a constant distance. A row is
accepted only if its length, both checksums and every fixed byte are those of the cycle, and only
if all rows before it were: so each accepted record begins where the one before it ends.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from .limits import Tuning
from .points import Part, Points
from .records import RecordDecoder
from .template import Bools, Numbers, Rows, Template, Templates

_SEED = 48
"""Records decoded singly before a period is looked for."""
_MAX_HISTORY = 4096
_MIN_CYCLES = 4
_FIRST_CYCLES = 256
_GROWTH = 16
_TRIAL = 3
_WORTHWHILE = 3000
"""Records that a leap must bring on average; below, ``scattered`` is faster."""


class Periodic:
    """Decodes by leaps over whole cycles, and record by record where a cycle ends."""

    def __init__(
        self, points: Points, records: RecordDecoder, templates: Templates, tuning: Tuning
    ) -> None:
        self._points = points
        self._records = records
        self._templates = templates
        self._tuning = tuning
        self._history: list[Template | None] = []
        self._cycle: Cycle | None = None
        self.gave_up = False
        """Whether the last ``advance`` stopped because leaps do not pay in this data."""

    def advance(self, data: bytes, at: int) -> int:
        """Decode from ``at``; returns where the first record begins that was not decoded.

        Unless ``gave_up``, ``data`` holds only the beginning of that one.
        Raises Damage at the first bad record.
        """
        self.gave_up = False
        leaps = gained = 0
        while True:
            if self._cycle:
                cycles = self._cycle.leap(data, at, self._points)
                at += cycles * self._cycle.size
                gained += cycles * self._cycle.records
                leaps += 1
            if self._hopeless(leaps, gained):
                self.forget()
                self.gave_up = True
                return at
            after = self._walk(data, at)
            if after == at:
                return at
            at = after
            self._cycle = find_cycle(self._history)

    def forget(self) -> None:
        self._history, self._cycle = [], None

    def _hopeless(self, leaps: int, gained: int) -> bool:
        if self._cycle is None:
            return len(self._history) >= self._tuning.hopeless
        return leaps >= _TRIAL and gained < _WORTHWHILE * leaps

    def _walk(self, data: bytes, at: int) -> int:
        """Decode a few records singly, and note the template of each."""
        count = max(_SEED, 3 * self._cycle.records) if self._cycle else _SEED
        for _ in range(count):
            after = self._records.advance(data, at, at + 1)
            if after == at:
                break
            self._history.append(self._templates.find(data, at, after))
            at = after
        del self._history[:-_MAX_HISTORY]
        return at


def find_cycle(history: list[Template | None]) -> Cycle | None:
    """The shortest run of templates that ends the history twice in a row."""
    last = len(history) - 1
    for period in range(1, len(history) // 2 + 1):
        if history[last - period] is history[last]:
            cycle = history[-period:]
            if cycle == history[-2 * period : -period]:
                templates = [one for one in cycle if one is not None]
                return Cycle(templates) if len(templates) == period else None
    return None


class Cycle:
    """Templates of records that follow one another again and again."""

    def __init__(self, templates: list[Template]) -> None:
        ends = list(accumulate(one.size for one in templates))
        self._members = list(zip(templates, [0, *ends], strict=False))
        self.records = len(templates)
        self.size = ends[-1]
        # tag -> (member, hole) of each of its values in one cycle
        self._places: dict[bytes, list[tuple[int, int]]] = {}
        for member, template in enumerate(templates):
            for index, hole in enumerate(template.holes):
                self._places.setdefault(hole.tag, []).append((member, index))

    def leap(self, data: bytes, at: int, points: Points) -> int:
        """Add the points of the whole cycles from ``at`` that can be proven; returns how many.

        Begins with few cycles and takes more each time, so that little is in vain when the
        cycle ends soon.
        """
        total, goal = 0, _FIRST_CYCLES
        while True:
            count = min((len(data) - at) // self.size, goal)
            if count < _MIN_CYCLES:
                return total
            taken = self._take(data, at, count, points)
            total += taken
            at += taken * self.size
            if taken < count:
                return total
            goal *= _GROWTH

    def _take(self, data: bytes, at: int, count: int, points: Points) -> int:
        """Add the points of up to ``count`` cycles; returns how many were proven."""
        for template, offset in self._members:
            rows = Rows(data, at + offset, self.size, count)
            count = _leading(template.fits_rows(rows))
            if not count:
                return 0
        numbers = []
        for template, offset in self._members:
            rows = Rows(data, at + offset, self.size, count)
            found = template.numbers(rows)
            count = _leading(template.intact_rows(rows, found))
            numbers.append(found)
        if count:
            self._add(numbers, count, points)
        return count

    def _add(self, numbers: list[Numbers], count: int, points: Points) -> None:
        steps = [t.steps(n)[:count] for (t, _), n in zip(self._members, numbers, strict=True)]
        for tag, places in self._places.items():
            parts = [
                Part(steps[m], numbers[m].walls[:count], numbers[m].values[hole][:count])
                for m, hole in places
            ]
            points.of(tag).extend(parts[0] if len(parts) == 1 else _interleaved(parts))


def _leading(good: Bools) -> int:
    """How many rows are good before the first that is not."""
    return len(good) if good.all() else int(good.argmin())


def _interleaved(parts: list[Part]) -> Part:
    """The points of a tag that a cycle holds several times, in log order."""
    steps, walls, values = (np.stack(arrays, axis=1).ravel() for arrays in zip(*parts, strict=True))
    return Part(steps, walls, values)
