"""The course of a reward by means of twenty blocks.

What is earned in the long run is a mean; rewards of single episodes may be few-valued or
heavy-tailed, and medians of them jump.
"""

import math

import msgspec
import numpy as np

from trainproof.model.data import Floats

from .shape import gravest
from .statistics import falling_p, kendall, measure

BLOCKS = 20
QUARTER = BLOCKS // 4

HALF = 0.5
"""Share of a gain that must be lost to have been given back."""

SURELY = 8.0
"""Standard errors that such a loss must exceed: they have eight degrees of freedom, and sixteen
quarters compete for the best one."""

FEW_ERRORS = 6.0
"""The same for few values, of which levels are medians of three."""

CLEAR = ((1e-3, 4.0), (0.01, 6.0), (0.05, 8.0))
"""Mann-Kendall p of block means, and the standard errors of its size at which a change is beyond
doubt: the clearer the trend, the less is asked of the size."""


class Course(msgspec.Struct, frozen=True):
    """``start``: mean of the first block. ``early``, ``late``: of the first and the last quarter.
    ``gain``: from one to the other, with its standard ``error`` by the ``scatter`` of the blocks,
    their wandering included; ``within``: the same by their scatter within the two quarters.
    ``level``: mean of the whole. ``ahead``: by how much the first block lies above the best later
    one. ``p_rise``, ``p_fall``: one-sided Mann-Kendall p.
    """

    start: float
    early: float
    late: float
    level: float
    scatter: float
    within: float
    ahead: float
    p_rise: float
    p_fall: float

    @property
    def gain(self) -> float:
        return self.late - self.early

    @property
    def error(self) -> float:
        return math.sqrt(2 / QUARTER) * self.scatter

    def at(self, value: float) -> bool:
        """Whether its mean cannot be told from this value."""
        return abs(self.level - value) <= 3 * self.scatter / math.sqrt(BLOCKS)

    @property
    def falls(self) -> bool:
        """Whether the last quarter lies below the first beyond doubt."""
        return self._clear(self.p_fall, -self.gain)

    @property
    def rises(self) -> bool:
        return self._clear(self.p_rise, self.gain)

    def _clear(self, p: float, change: float) -> bool:
        return any(p < most and change > errors * self.within for most, errors in CLEAR)


def course(values: Floats) -> Course:
    """``values``: at least twenty, finite."""
    means = _block_means(values)
    s = kendall(means)
    return Course(
        start=float(means[0]),
        early=float(means[:QUARTER].mean()),
        late=float(means[-QUARTER:].mean()),
        level=float(means.mean()),
        scatter=float(means[1:].std(ddof=1)),
        within=_error(means[:QUARTER], means[-QUARTER:]),
        ahead=float(means[0] - means[1:].max()),
        p_rise=falling_p(-s, BLOCKS),
        p_fall=falling_p(s, BLOCKS),
    )


def _block_means(values: Floats) -> Floats:
    return np.array([part.mean() for part in np.array_split(values, BLOCKS)])


def _error(one: Floats, other: Floats) -> float:
    """Standard error of the difference between the means of two quarters."""
    return math.sqrt((one.var(ddof=1) + other.var(ddof=1)) / QUARTER)


class Lost(msgspec.Struct, frozen=True):
    """The best level of a reward, at index ``best_at``, what it had gained by then and what of it
    was lost by the end, with the standard ``error`` of that."""

    best: float
    best_at: int
    end: float
    gain: float
    error: float

    @property
    def loss(self) -> float:
        return self.best - self.end


def given_back(values: Floats) -> Lost | None:
    """Whether half of what was gained was lost again beyond doubt, and what."""
    if len(values) < 2 * BLOCKS:
        return _by_medians(values)
    means = _block_means(values)
    quarters = np.lib.stride_tricks.sliding_window_view(means, QUARTER)
    at = int(quarters.mean(1).argmax())
    lowest = float(means[: at + 1].min())
    best, end = float(quarters[at].mean()), float(quarters[-1].mean())
    error = _error(quarters[at], quarters[-1])
    found = Lost(best, len(values) * at // BLOCKS, end, best - lowest, error)
    clear = found.gain > 0 and found.loss > max(HALF * found.gain, SURELY * error)
    return found if clear else None


def _by_medians(values: Floats) -> Lost | None:
    seen = measure(-values)
    found = gravest(-values, seen, FEW_ERRORS)
    if found is None or found.share < HALF or not found.drop > FEW_ERRORS * found.error:
        return None
    return Lost(-found.best, found.best_at, -found.end, found.drop, found.error)
