"""Quarters of a log: where single blocks are too noisy, five times as many rows may not be."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from trainproof.model.data import Floats

from .statistics import MEDIAN_ERROR, REMEMBERS, Profile, higher_p, inflation, median

LEAST_ROWS = 40
"""Below this many rows a quarter is no better than a block."""

_SHIFTS = 4
"""Positions per quarter at which a quarter is looked for."""

_SHORT = 15
"""Rows that a quarter of a short log has at least, up to a third of the log."""


class Ends(msgspec.Struct, frozen=True):
    """The first quarter of a log against the last.

    ``first``, ``last``: their medians. ``error``: standard error of the difference. ``quantum``:
    unit of the last printed decimal, which medians of few different values do not see below.
    ``head``: median of the very first rows, ``rest`` of all others; ``start``: the first row.
    """

    first: float
    last: float
    error: float
    quantum: float
    head: float
    rest: float
    start: float

    @property
    def most(self) -> float:
        """The greatest fall that two standard errors and the printed digits leave possible, over
        the level."""
        level, doubt = abs(self.first), 2 * self.error + self.quantum
        return (self.first - self.last + doubt) / level if level > 0 else math.inf

    @property
    def higher(self) -> bool:
        """Whether the last quarter lies above the first by more than two standard errors."""
        return self.last - self.first > 2 * self.error

    def began_higher(self, sigma: float, share: float) -> bool:
        """Whether the first rows lie above the others: what was learned at once is in no
        quarter. ``share`` of the level is nothing; a single row may lie ``sigma`` twice above."""
        slack = share * abs(self.first)
        return self.head - self.rest > slack or self.start - self.rest > slack + 2 * sigma


def ends_of(values: Floats, seen: Profile) -> Ends | None:
    """None below forty rows."""
    count = len(values)
    if count < LEAST_ROWS:
        return None
    width, few = count // 4, max(3, count // 40)
    error = math.sqrt(2) * MEDIAN_ERROR * seen.sigma * inflation(seen.rho) / math.sqrt(width)
    if seen.rho > REMEMBERS:
        error = max(error, seen.drift)
    return Ends(
        median(values[:width]),
        median(values[-width:]),
        error,
        seen.quantum,
        median(values[:few]),
        median(values[few:]),
        float(values[0]),
    )


class Relapse(msgspec.Struct, frozen=True):
    """The lowest quarter of a log and the last one, by ranks.

    ``best_at``: index of the first row of the lowest. ``drop``: from the highest quarter before,
    or the first row, to the lowest; ``rise``: from there to the last. ``p``: that the last is not
    higher (Mann-Whitney), times the number of quarters that were looked at.
    """

    best: float
    best_at: int
    end: float
    drop: float
    rise: float
    p: float

    @property
    def share(self) -> float:
        return self.rise / self.drop if self.drop > 0 else math.inf


def relapse(values: Floats, seen: Profile) -> Relapse | None:
    """None below forty rows. Of rows that remember each other only as many count as independent
    ones would."""
    count = len(values)
    if count < LEAST_ROWS:
        return None
    width = max(count // 4, min(_SHORT, count // 3))
    starts = range(0, count - 2 * width + 1, max(1, width // _SHIFTS))
    levels = np.array([median(values[at : at + width]) for at in starts])
    lowest = int(np.argmin(levels))
    best_at, best = starts[lowest], float(levels[lowest])
    end = median(values[-width:])
    top = max(float(values[0]), float(levels[: lowest + 1].max()))
    apart = math.ceil(inflation(seen.rho) ** 2)
    p = higher_p(values[best_at : best_at + width : apart], values[-width::apart])
    return Relapse(best, best_at, end, top - best, end - best, min(1.0, p * len(starts)))
