"""A series that is a whole multiple of a baseline's: all along, or where both begin."""

from __future__ import annotations

import msgspec
import numpy as np

from trainproof.model.data import Series

from .pairs import OPENING, Pair
from .statistics import NORMAL_MAD, median

FLAT = 0.03
"""Relative deviation from a whole number at which a ratio is that number (research: K4)."""

MOVED = 0.25
"""Share of its level by which the baseline must move: two constants have a flat ratio too."""

LEAST_BLOCKS = 4
"""Blocks in which a ratio is looked at."""

NEAR, EXACT = 5e-3, 1e-5
"""Relative deviation of the first three ratios, and of the first alone, from a whole number. By
chance one ratio is within half a percent of a whole number or its inverse once in fifty times, and
three of the same hardly ever; one is within a thousandth of a percent once in 25,000."""

NOISE = 1e-3
"""Share of a series' level below which a first value may be nothing but rounding."""


class Multiple(msgspec.Struct, frozen=True):
    """The run's values are ``factor`` times the baseline's, or that part of them (``inverse``).

    ``ratio``: of the levels, or of the first values. ``scatter``: greatest relative deviation from
    it. ``exact``: the first values alone tell.
    """

    factor: int
    inverse: bool
    ratio: float
    scatter: float
    exact: bool = False


def multiple(pair: Pair) -> Multiple | None:
    """The whole number, two or more, by which the run's levels differ from the baseline's all
    along, while these move.

    Large ratios always have a whole number near by: the distance to it must not exceed a tenth
    of one either.
    """
    if not pair.natural or pair.blocks < LEAST_BLOCKS or not pair.finite:
        return None
    ratios = pair.levels / pair.base
    ratio = median(ratios)
    inverse = ratio < 1
    size = 1 / ratio if inverse else ratio
    factor = round(size) if size < _LARGEST else 0
    if factor < 2 or abs(size / factor - 1) > min(FLAT, 0.1 / factor):
        return None
    off = np.abs(ratios / ratio - 1)
    flat = NORMAL_MAD * median(off) <= FLAT and float(off.max()) <= 3 * FLAT
    moved = float(pair.base.max() - pair.base.min()) >= MOVED * median(pair.base)
    return Multiple(factor, inverse, ratio, float(off.max())) if flat and moved else None


_LARGEST = 4096


def opening_multiple(series: Series, pair: Pair) -> Multiple | None:
    """A whole number, two or more, that is the ratio of each of the first three values, or of the
    first ones alone: before any update two runs of the same seed differ by nothing but a scale."""
    if len(pair.opening) < OPENING or not 0 < pair.opening[0] < np.inf:
        return None
    first = pair.opening[0]
    inverse = first < 1
    factor = round(min(1 / first if inverse else first, _LARGEST))
    whole = 1 / factor if inverse else float(factor)
    off = [abs(ratio / whole - 1) for ratio in pair.opening]
    begin = abs(float(series.values[0]))
    printed = max(pair.here.quantum / begin, pair.there.quantum * first / begin)
    exact = max(off[0], printed) <= EXACT and _telling(series, begin, begin / first)
    if factor < 2 or not (exact or max(*off, printed) <= NEAR):
        return None
    return Multiple(factor, inverse, first, max(off), exact and max(off) > NEAR)


def _telling(series: Series, begin: float, other: float) -> bool:
    """Neither value is round, as limits and losses by definition are, nor near 0."""
    level = median(np.abs(series.values[np.isfinite(series.values)]))
    round_ones = (abs(value - float(f"{value:.3g}")) <= 1e-6 * value for value in (begin, other))
    return begin >= NOISE * level and not any(round_ones)
