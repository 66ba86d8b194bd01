"""One series of a run beside the same series of a baseline: matched by meaning and by step.

Losses may be negative and noise is everywhere: what rules compare are medians of blocks of steps,
and distances in units of the baseline's own fall and of both runs' noise. A ratio is formed only
where every value of both is positive.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from trainproof.model.data import (
    FACTS,
    Attempt,
    Facts,
    Floats,
    Identity,
    Ints,
    Regime,
    Role,
    RunView,
    Series,
)

from .shape import QUADRUPLED, fell
from .statistics import Profile, block_edges, block_medians, measure

UNCOMPARED = (Regime.REINFORCEMENT, Regime.ADVERSARIAL)
"""There the loss is no measure of progress."""

LEAST_POINTS = 10
"""Shared points that each of the two must have: two blocks."""

LEAST_COVER = 0.5
"""Share of the run's steps that the baseline must cover: the end of the run is to be judged."""

_LEAST_WIDTH = 3
"""Points of the denser series in each block."""

_OUTCOMES = frozenset(
    {
        *("last_step", "last_epoch", "finished", "best_metric", "best_checkpoint"),
        *("best_metric_name", "greater_is_better", "logging_steps", "steps_per_epoch"),
    }
)
"""What a run declares about its course; everything else is how it was set up."""


class Obstacle(StrEnum):
    """Why a series has no counterpart in a baseline. In order: a later one came nearer to it."""

    UNREADABLE = "unreadable"
    NO_SERIES = "no-series"
    AXES = "axes"
    STEPS = "steps"
    COVER = "cover"
    NOT_FINITE = "not-finite"


class Unmatched(msgspec.Struct, frozen=True):
    """``points`` and ``baseline_points``: shared; ``cover``: share of the run's steps."""

    baseline: str
    obstacle: Obstacle
    baseline_series: str = ""
    points: int = 0
    baseline_points: int = 0
    cover: float = 0.0


class Pair(msgspec.Struct, frozen=True, eq=False):
    """Two series over the steps that both cover, in K blocks of equal steps.

    ``begin`` and ``stop``: the shared part of the run's series. ``levels`` and ``base``: block
    medians of run and baseline, NaN in a block of the run that is not finite. ``centres``: the
    blocks' middle steps. ``here`` and ``there``: profiles of the shared parts, of the run's
    finite values (where there are none, the baseline's). ``lowest``: the lowest single value of
    both; ``ends_finite``: whether any of the run's last values is. ``opening``: ratios of the first
    values, where both are logged at the same steps from their own start on; else empty.
    """

    baseline: str
    series: str
    facts: Facts
    begin: int
    stop: int
    centres: Floats
    levels: Floats
    base: Floats
    here: Profile
    there: Profile
    points: int
    lowest: float
    finite: bool
    ends_finite: bool
    opening: tuple[float, ...]

    @property
    def blocks(self) -> int:
        return len(self.levels)

    @property
    def start(self) -> float:
        return float(self.levels[0])

    @property
    def floor(self) -> float:
        return float(self.levels.min())

    @property
    def end(self) -> float:
        return float(self.levels[-1])

    @property
    def base_start(self) -> float:
        return float(self.base[0])

    @property
    def base_floor(self) -> float:
        return float(self.base.min())

    @property
    def base_end(self) -> float:
        return float(self.base[-1])

    @property
    def natural(self) -> bool:
        """Whether a ratio of levels has a meaning."""
        return self.lowest >= sys.float_info.min

    @property
    def error(self) -> float:
        """Standard error of the difference between a level of one and a level of the other: a
        profile's is of two levels of one series."""
        return math.hypot(self.here.error, self.there.error) / math.sqrt(2)

    @property
    def doubt(self) -> float:
        """The same, or half of what levels stray without a trend where that is more."""
        return math.hypot(self.here.doubt, self.there.doubt) / math.sqrt(2)

    @property
    def base_fell(self) -> bool:
        """Whether the baseline is a standard: it fell, by more than levels stray without a
        trend."""
        return fell(self.there) and self.base_start - self.base_floor > 3 * self.there.drift


def match(series: Series, baseline: RunView) -> Pair | Unmatched:
    """The counterpart of ``series`` in ``baseline``; computed once for each pair of series."""
    twin = counterpart(series, baseline)
    if twin is None:
        unread = not baseline.series and baseline.fatal is not None
        return Unmatched(baseline.id, Obstacle.UNREADABLE if unread else Obstacle.NO_SERIES)
    known = _memory.setdefault(series, WeakKeyDictionary())
    if twin not in known:
        with np.errstate(all="ignore"):
            known[twin] = _matched(series, twin, baseline)
    return known[twin]


_memory: WeakKeyDictionary[Series, WeakKeyDictionary[Series, Pair | Unmatched]] = (
    WeakKeyDictionary()
)


def counterpart(series: Series, baseline: RunView) -> Series | None:
    """The series of the same meaning: role, split, part and name without its decoration. Of
    several the one whose points stand for the same, then the last attempt's longest."""
    wanted = series.identity
    found = [
        (attempt.index, one)
        for attempt in baseline.attempts
        for one in attempt.select(wanted.role, wanted.split)
        if _meaning(one.identity) == _meaning(wanted)
    ]
    if not found:
        return None
    return max(
        found,
        key=lambda item: (
            item[1].identity.scope is wanted.scope,
            item[1].column.axis is series.column.axis,
            item[0],
            len(item[1]),
        ),
    )[1]


def _meaning(identity: Identity) -> tuple[str, str | None, str | None]:
    return identity.base, identity.component, identity.dataset


def _matched(series: Series, twin: Series, baseline: RunView) -> Pair | Unmatched:
    if series.column.axis is not twin.column.axis:
        return Unmatched(baseline.id, Obstacle.AXES, twin.tag)
    low = max(series.steps[0], twin.steps[0])
    high = min(series.steps[-1], twin.steps[-1])
    here, there = _within(series.steps, low, high), _within(twin.steps, low, high)
    points, others = here.stop - here.start, there.stop - there.start
    cover = _cover(series.steps, int(low), int(high))

    def unmatched(obstacle: Obstacle) -> Unmatched:
        return Unmatched(baseline.id, obstacle, twin.tag, points, others, cover)

    if min(points, others) < LEAST_POINTS:
        return unmatched(Obstacle.STEPS)
    if cover < LEAST_COVER:
        return unmatched(Obstacle.COVER)
    if not np.isfinite(twin.values[there]).all():
        return unmatched(Obstacle.NOT_FINITE)
    edges, base_edges = _common_edges(series.steps[here], twin.steps[there])
    if min(np.diff(edges).min(), np.diff(base_edges).min()) < _LEAST_WIDTH:
        return unmatched(Obstacle.STEPS)
    return _pair(_Part(series, here, edges), _Part(twin, there, base_edges), baseline)


def _within(steps: Ints, low: int, high: int) -> slice:
    """Positions of the steps from ``low`` to ``high``; empty where these do not overlap."""
    begin = int(np.searchsorted(steps, low, "left"))
    return slice(begin, max(begin, int(np.searchsorted(steps, high, "right"))))


def _cover(steps: Ints, low: int, high: int) -> float:
    span = int(steps[-1]) - int(steps[0])
    return max(0, high - low) / span if span else 0.0


Edges = tuple[int, ...]


class _Part(msgspec.Struct, frozen=True, eq=False):
    """The shared part of a series, and the borders of its blocks counted from there."""

    series: Series
    at: slice
    edges: Edges


def _common_edges(steps: Ints, others: Ints) -> tuple[Edges, Edges]:
    """Block borders in both, at the same steps: the sparser series sets them."""
    if len(steps) > len(others):
        base_edges, edges = _common_edges(others, steps)
        return edges, base_edges
    edges = block_edges(len(steps))
    inner = np.searchsorted(others, steps[list(edges[1:-1])], "left").tolist()
    return edges, (0, *inner, len(others))


def _pair(ours: _Part, theirs: _Part, baseline: RunView) -> Pair:
    values, others = ours.series.values[ours.at], theirs.series.values[theirs.at]
    finite = values[np.isfinite(values)]
    base = measure(others)
    steps = ours.series.steps[ours.at].astype(np.float64)
    return Pair(
        baseline=baseline.id,
        series=theirs.series.tag,
        facts=baseline.facts,
        begin=ours.at.start,
        stop=ours.at.stop,
        centres=np.array([(steps[a] + steps[b - 1]) / 2 for a, b in pairwise(ours.edges)]),
        levels=_levels(values, ours.edges),
        base=block_medians(others, theirs.edges),
        here=measure(finite) if len(finite) else base,
        there=base,
        points=len(others),
        lowest=float(min(others.min(), finite.min(initial=np.inf))),
        finite=len(finite) == len(values),
        ends_finite=bool(np.isfinite(values[-_LEAST_WIDTH:]).any()),
        opening=_opening(ours.series, theirs.series),
    )


OPENING = 3
"""First values whose ratios are looked at."""


def _opening(series: Series, twin: Series) -> tuple[float, ...]:
    if not np.array_equal(series.steps[:OPENING], twin.steps[:OPENING]):
        return ()
    return tuple((series.values[:OPENING] / twin.values[:OPENING]).tolist())


def _levels(values: Floats, edges: Edges) -> Floats:
    whole = (np.isfinite(values[a:b]).all() for a, b in pairwise(edges))
    medians = block_medians(np.nan_to_num(values), edges)
    return np.where(list(whole), medians, np.nan)


def pairs(attempt: Attempt, baselines: Sequence[RunView]) -> Iterator[tuple[Series, list[Pair]]]:
    """Every total loss of the attempt with its counterparts in the sound baselines."""
    for series in attempt.select(Role.LOSS):
        if series.identity.component is None:
            found = (match(series, one) for one in baselines if not one.failed)
            yield series, [one for one in found if isinstance(one, Pair)]


# --- a level against a level ------------------------------------------------------------------


class Limits(msgspec.Struct, frozen=True):
    """``ratio``: of two positive levels. ``least`` and ``half``: of the baseline's fall, which the
    distance must exceed as well to count in part or in full. ``lost``: the same where no ratio can
    be formed. ``errors``: standard errors that make it certain."""

    ratio: float
    least: float
    half: float
    lost: float
    errors: float


class Standing(msgspec.Struct, frozen=True):
    """Where a level of the run lies beside that of the baseline.

    ``ratio``: NaN where none can be formed. ``lost``: the distance over the baseline's fall, NaN
    where that did not fall. ``worse``: beyond the limits and the noise; ``partly``: by a small
    part of the baseline's fall. ``within``: within the limits, and the noise could not hide more.
    Neither worse nor within: not decided.
    """

    distance: float
    errors: float
    ratio: float
    lost: float
    worse: bool
    partly: bool
    within: bool


def standing(pair: Pair, level: float, base: float, limits: Limits) -> Standing:
    """One level of the run against the same level of the baseline."""
    distance = level - base
    fall = pair.base_start - pair.base_floor
    ratio = level / base if pair.natural else math.nan
    error = pair.error if ratio >= QUADRUPLED else pair.doubt
    lost = distance / fall if fall > 0 and pair.base_fell else math.nan
    errors = distance / error if error > 0 else math.copysign(math.inf, distance)
    beyond = distance + 3 * pair.doubt
    hidden = beyond / fall if fall > 0 and pair.base_fell else math.inf
    if pair.natural:
        bad = ratio > limits.ratio and not lost < limits.least
        good = beyond < (limits.ratio - 1) * base or hidden < limits.least
    else:
        bad, good = lost > limits.lost, hidden < limits.lost
    worse, partly = bad and errors > limits.errors, lost < limits.half
    return Standing(distance, errors, ratio, lost, worse, partly, good)


# --- what the two declare -----------------------------------------------------------------------


def differences(run: Facts, baseline: Facts) -> tuple[str, ...]:
    """What both declare about their set-up, and declare differently."""
    return tuple(
        f"{name} {ours}, baseline {theirs}" for name, ours, theirs in _differing(run, baseline)
    )


def _differing(run: Facts, baseline: Facts) -> Iterator[tuple[str, object, object]]:
    for name in FACTS:
        ours, theirs = getattr(run, name), getattr(baseline, name)
        if name in _OUTCOMES or ours is None or theirs is None or ours == theirs:
            continue
        yield name, ours, theirs
