"""Where a curve was at its best and what came after: what loss and evaluation rules share."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import numpy as np

from trainproof.model.data import Direction, Floats, Role, Series

from .statistics import (
    FEW,
    Profile,
    greatest_of,
    higher_p,
    inflation,
    least_of,
    measure,
    median,
    median_of_three,
    once_per_series,
    profile,
    screen,
    wander,
)

UNMISTAKABLE = 1e-3
"""Mann-Kendall p below which a trend is established. Seven points must all fall to reach it."""

NEARLY = 2e-3
"""The same for a fall by ``LARGE``: six points must all fall to reach it."""

LARGE = 1 / 3
"""A fall by this share of the starting level."""

LEAST_FALL = 0.01
"""A fall below this share of the starting level is not called learning."""

SETTLED = 6.0
"""Standard errors of a fall that came at once."""

FEWEST_LEVELS = 10
"""Levels of a curve that fell at once."""

STRAYS = 1.5
"""A change of less than so many times what levels stray without a trend is no trend."""

SMALL_RISE = 0.02
"""Without progress before it, a rise below this share of the level is drift."""

TENFOLD = 10.0
"""A rise of more than so many times the fall before is measured against the level instead."""

MULTIPLE = 1.5
"""A rise to less than this multiple is left to the plain forms."""

QUADRUPLED = 4.0
"""A rise to this multiple is none that a curve makes by wandering."""

LEAST_TRAINING = 5
"""Points that a training loss needs to be seen to fall."""

SATURATED = 1e-6
"""A loss below it may be at the end of single precision, whose least cross-entropy is 1.2e-7."""

NEVER_BY_CHANCE = 1e-4
"""Mann-Whitney p between the best and the last block: twenty blocks compete for best."""


class GiveBack(msgspec.Struct, frozen=True):
    """The best level of a falling curve and what was lost of it by the end.

    ``best_at``: index of the best level. ``drop``: from the highest level before to the best.
    ``rise``: from the best to the end. ``error``: standard error of both, of neighbours that do
    not remember each other for long; ``wander``: how far such levels stray if they do. ``form``:
    "blocks", "points" or "ratios", how the levels were taken. ``p``: that the last block is not
    above the best one; 1 by running medians, which do not use it.
    """

    form: str
    best: float
    best_at: int
    end: float
    drop: float
    rise: float
    error: float
    wander: float
    p: float = 1.0

    @property
    def errors(self) -> float:
        """The rise in standard errors."""
        return _in_errors(self.rise, self.error)

    @property
    def share(self) -> float:
        """Part of the drop that was given back; above 1 the curve ended above its start."""
        return self.rise / self.drop if self.drop > 0 else math.inf if self.rise > 0 else 0.0

    def significant(self, errors: float) -> bool:
        """Beyond the noise; and beyond drift where there was no progress to give back."""
        if not self.errors > errors:
            return False
        if self.form == "blocks" and not self.p < NEVER_BY_CHANCE:
            return False
        progressed = self.drop > errors * self.error and self.share < TENFOLD
        return progressed or self.rise > SMALL_RISE * abs(self.best)

    def outran(self, errors: float) -> bool:
        """Whether the rise is also beyond what the curve wanders by itself."""
        return self.rise > errors * self.wander or 0 < QUADRUPLED * self.best <= self.end


def give_back(values: Floats, seen: Profile, least: float = 1.0) -> tuple[GiveBack, ...]:
    """Both forms: block medians find a slow rise, single points a short or a late one.

    Never a last point against a lowest point: of n noisy points the lowest falls with n. What it
    costs to rank and how far levels wander is asked of rises by ``least`` standard errors only.
    """
    with np.errstate(all="ignore"):
        forms = (_by_points(values, seen, least),)
        return (_by_blocks(values, seen, least), *forms) if len(seen.medians) > 1 else forms


def gravest(values: Floats, seen: Profile, errors: float) -> GiveBack | None:
    """Of the forms whose rise is beyond the noise, the one that gave back the greater share;
    one that is beyond wandering before one that is not."""
    if not may_have_risen(values, seen, errors):
        return None
    forms = [form for form in give_back(values, seen, errors) if form.significant(errors)]
    return max(forms, key=lambda form: (form.outran(errors), form.share), default=None)


def may_have_risen(values: Floats, seen: Profile, errors: float) -> bool:
    """Whether a form can be significant, that of the ratios among them: what it costs less to know
    than the forms do. The greatest of the last values is held against the least of all."""
    levels = seen.medians
    if _in_errors(levels.item(-1) - least_of(levels), seen.error) > errors:
        return True
    end, least = greatest_of(values[-_ending(len(values)) :]), least_of(values)
    multiplied = end >= MULTIPLE * least > 0
    return multiplied or _in_errors(end - least, _error_of_points(seen)) > errors


def multiplied(values: Floats, errors: float) -> GiveBack | None:
    """The points form of the logarithms, where a positive curve rose to ``MULTIPLE`` or more.

    A loss that diverged scatters in proportion to its level. The noise of the end then hides a
    rise to several times the best level; among the logarithms it does not. The levels are given
    as losses again, with the error at which ``errors`` is that of the logarithms.
    """
    if len(values) < FEW or not least_of(values) > 0:
        return None
    if median(values[-_ending(len(values)) :]) < MULTIPLE * _lowest(values):
        return None
    logs = np.log(values)
    found = _by_points(logs, measure(logs), errors)
    if found.rise < math.log(MULTIPLE) or not found.significant(errors):
        return None
    best, end, top = (math.exp(x) for x in (found.best, found.end, found.best + found.drop))
    rise = end - best
    error, strays = rise / found.errors, rise * found.wander / found.rise
    return GiveBack("ratios", best, found.best_at, end, top - best, rise, error, strays)


def _in_errors(rise: float, error: float) -> float:
    if error > 0:
        return rise / error
    return math.inf if rise > 0 else 0.0


def _by_blocks(values: Floats, seen: Profile, least: float) -> GiveBack:
    levels = seen.medians.tolist()
    best, end = min(levels), levels[-1]
    lowest = levels.index(best)
    top = max(*levels[: lowest + 1], float(values[0]))
    begin, stop = seen.edges[lowest], seen.edges[lowest + 1]
    at = begin + int(values[begin:stop].argmin())
    rise = end - best
    judged = _in_errors(rise, seen.error) > least
    p = higher_p(values[begin:stop], values[seen.edges[-2] :]) if judged else 1.0
    return GiveBack("blocks", best, at, end, top - best, rise, seen.error, seen.drift, p)


def _by_points(values: Floats, seen: Profile, least: float) -> GiveBack:
    """The running median of three levels against the median of the last points."""
    levels, each = _few_levels(values)
    smooth = median_of_three(levels) if len(levels) > 2 else levels
    lowest = int(smooth.argmin())
    first, best = float(levels[0]), float(smooth[lowest])
    at = lowest + (1 if len(levels) > 2 else 0)
    top = max(first, float(smooth[: lowest + 1].max()))
    if first <= best:
        best, at, top = first, 0, first
    at = at * each + int(values[at * each : (at + 1) * each].argmin())
    end = median(values[-_ending(len(values)) :])
    rise = end - best
    error = _error_of_points(seen)
    if first > best and len(levels) > 2 and levels[lowest + 1] >= end:
        error = math.inf  # between the low values lies one as high as the end: noise that grew
    strays = wander(values) if _in_errors(rise, error) > least else error
    return GiveBack("points", best, at, end, top - best, rise, error, strays)


def _error_of_points(seen: Profile) -> float:
    """Neighbours that remember each other wander together: three of them are not three."""
    return seen.sigma * inflation(seen.rho)


def _few_levels(values: Floats) -> tuple[Floats, int]:
    """The values, or medians of equal groups of them where there are 120 or more; and the size of
    a group. In a long log a lucky stretch may last more than one row."""
    each = max(1, len(values) // 60)
    if each == 1:
        return values, 1
    groups, half = values[: len(values) // each * each].reshape(-1, each), each // 2
    if each % 2:
        return np.partition(groups, half, axis=1)[:, half], each
    middle = np.partition(groups, (half - 1, half), axis=1)[:, half - 1 : half + 1]
    return (middle[:, 0] + middle[:, 1]) / 2, each


def _ending(count: int) -> int:
    """How many of the last points stand for the end."""
    return max(3 if count < FEW else 5, count // 20)


def _lowest(values: Floats) -> float:
    """The first level, or the lowest running median of three."""
    levels, _ = _few_levels(values)
    return min(float(levels[0]), float(median_of_three(levels).min()))


# --- progress ---------------------------------------------------------------------------------


def fell(seen: Profile) -> bool:
    """Whether the curve ended below where it began beyond doubt: trend, size and noise."""
    return _moved(seen, seen.first - seen.last, seen.p_fall) or _settled(seen)


def rose(seen: Profile) -> bool:
    return _moved(seen, seen.last - seen.first, seen.p_rise)


def _settled(seen: Profile) -> bool:
    """Whether the curve fell at once and stayed down: a plateau has no trend, but each of its
    levels lies below the first one, and the last one far below."""
    change = seen.first - seen.last
    beyond = change > max(SETTLED * seen.error, STRAYS * seen.drift)
    if seen.blocks < FEWEST_LEVELS or not beyond or change < LARGE * abs(seen.first):
        return False
    return float(seen.medians[1:].max()) < seen.first - 3 * seen.error


def _moved(seen: Profile, change: float, p: float) -> bool:
    level = abs(seen.first)
    most = NEARLY if change >= LARGE * level else UNMISTAKABLE
    beyond = change > max(3 * seen.error, STRAYS * seen.drift)
    return p <= most and beyond and change >= LEAST_FALL * level


def higher_is_better(series: Series) -> bool | None:
    """None where the series does not say."""
    if series.role is Role.LOSS:
        return False
    direction = series.identity.direction
    return None if direction is Direction.NONE else direction is Direction.HIGHER


def as_cost(series: Series) -> Floats:
    """The values with the sign at which lower is better."""
    return -series.values if higher_is_better(series) else series.values


@once_per_series
def cost_profile(series: Series) -> Profile:
    seen = profile(series)
    return seen.negated if higher_is_better(series) else seen


@once_per_series
def improved(series: Series) -> bool:
    """Whether a loss fell, or a metric moved its better way, beyond doubt."""
    if len(series) < 5 or screen(series).nonfinite:
        return False
    return higher_is_better(series) is not None and fell(cost_profile(series))


@once_per_series
def late_level(series: Series) -> float:
    """Median of the last third."""
    return median(series.values[-(len(series) // 3) :])


def principal(losses: Iterable[Series]) -> Series | None:
    """The loss that tells most: finite, a total before a part, then the one of most points."""
    finite = (one for one in losses if not screen(one).nonfinite)
    return max(finite, key=lambda one: (one.identity.component is None, len(one)), default=None)


def first_improved(candidates: Iterable[Series]) -> Series | None:
    return next((one for one in candidates if improved(one)), None)


def counterpart(loss: Series, train: Iterable[Series]) -> Series | None:
    """The training series of the same quantity: total with total, a part with the same part."""
    same = [
        one
        for one in train
        if one.identity.component == loss.identity.component and len(one) >= LEAST_TRAINING
    ]
    return max(same, key=lambda one: (one.artifact == loss.artifact, len(one)), default=None)


def on_same_data(one: Series, others: Iterable[Series]) -> tuple[Series, ...]:
    """Those of the same split and, where a run has several held-out sets, of the same set."""
    here = one.identity
    return tuple(
        other
        for other in others
        if (other.identity.split, other.identity.dataset) == (here.split, here.dataset)
    )


class Kept(msgspec.Struct, frozen=True):
    """A series that ended at or near its best: of ``progress``, at most a tenth was lost."""

    series: str
    first: float
    best: float
    end: float


def at_its_best(series: Series, after: int) -> Kept | None:
    """Whether a series of at least three points, one of them logged later than step ``after``,
    ends within a tenth of its progress of its best value."""
    if len(series) < 3 or screen(series).nonfinite or series.steps[-1] <= after:
        return None
    if higher_is_better(series) is None:
        return None
    sign = -1.0 if higher_is_better(series) else 1.0
    values = as_cost(series)
    first, best, end = float(values[0]), float(values.min()), float(values[-1])
    if not first > best or end - best > 0.1 * (first - best):
        return None
    return Kept(series.tag, sign * first, sign * best, sign * end)


# --- the learning rate's part ---------------------------------------------------------------------


def tries_rates(lr: Series | None) -> bool:
    """Whether the learning rate is raised from row to row until training breaks: a range test.

    It grows a hundredfold without ever falling, by one factor for equal steps or up to 1 and more;
    a warmup grows by equal amounts, and ends lower.
    """
    if lr is None or len(lr) < FEW or not lr.values[-1] >= 100 * lr.values[0] > 0:
        return False
    if not (lr.values > 0).all() or screen(lr).nonfinite:
        return False
    rises, steps = np.diff(np.log(lr.values)), np.diff(lr.steps)
    if not (rises > 0).all():
        return False
    rates = rises / np.maximum(steps, 1)
    return bool(rates.max() <= 1.1 * rates.min() or lr.values[-1] >= 1.0)


def restarts_late(lr: Series | None, share: float) -> bool:
    """Whether the learning rate at least doubles from an earlier low within the last ``share``
    of the steps, or is tried over a range: a cyclic schedule, a warm restart or such a test raises
    the loss by design."""
    if lr is None or len(lr) < 3 or screen(lr).nonfinite:
        return False
    if tries_rates(lr):
        return True
    begin = lr.steps[-1] - share * (lr.steps[-1] - lr.steps[0])
    tail = lr.values[lr.steps >= begin]
    lows = np.maximum(np.minimum.accumulate(tail), 0.0)
    return bool((tail > 2 * lows).any())
