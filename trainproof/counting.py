"""What it means where the step count of a log falls. Pure.

A step that is less than the one before it is a resume from an earlier step, another execution, a
counter that starts over with each epoch, or a resume that counts anew: only what is logged beside
it tells which, and sometimes nothing does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

import msgspec
import numpy as np

from .model.data import Axis, Column, Floats, Ints, Series
from .rules.statistics import MEDIAN_ERROR, median, noise

LOOK = 5
"""Points on either side of a fall that say whether a curve starts over, at most."""

NEAR = 500
"""Points on either side of a fall that say how noisy the curve is and how far rows are apart."""

CLEAR = 3.0
"""Standard errors between two levels that are certainly apart."""

NEARER = 0.25
"""Share of the way between two levels within which a curve certainly is at the nearer one."""

JUMP, LEAST_JUMP = 5.0, 0.05
"""Deviations of a point, and share of the way between two levels, by which the first one after a
fall stands out: a loss that falls fast has left its first level within ``LOOK`` points."""

EPOCHS = 3
"""Falls at equal distances from which on a count is that of the rows of an epoch."""

MOST = 2**62
"""Steps that are counted on are less than this."""

SOME = 50
"""Of the falls, at most, that are looked at for a loss that starts over."""

FEW, NOISE_FALLS = 3, 0.05
"""More falls than these, and this share of the steps, are no clock (several epochs per batch)."""

ALIKE = 0.05
"""Difference of the lengths of two epochs, over the length."""


class Fall(Enum):
    """What a step that is less than the one before it means."""

    RESUME = "training went on from an earlier step"
    RESTART = "another execution begins"
    COUNTER = "the step counts rows and starts over with each epoch"
    ANEW = "the count starts over and training goes on: with an epoch, or after a resume"


class Course(Enum):
    """How a curve goes on where the step count starts over."""

    STARTS_OVER = "at the level at which it began"
    GOES_ON = "at the level which it had reached"
    UNCLEAR = "the two levels are too near to tell"


class Clock(msgspec.Struct, frozen=True, eq=False):
    """The series whose steps are believed, and what is logged beside it: the learning rate, finite
    and at the same points, and the epochs."""

    series: Series
    rate: Floats | None = None
    epochs: Column | None = None

    @property
    def steps(self) -> Ints:
        return self.series.steps


def falls(steps: Ints) -> Ints:
    """Positions at which the step is less than the one before."""
    fallen: Ints = (steps[1:] < steps[:-1]).nonzero()[0]
    return fallen + 1


def cadence(steps: Ints) -> float:
    """Usual distance between two rows, in steps."""
    return max(0.0, median(np.diff(steps).astype(np.float64))) if len(steps) > 1 else 0.0


def countable(steps: Ints, times: int = 1) -> bool:
    """Whether as many counts of such steps can be added up: hostile ones are as large as an int64
    gets."""
    largest = max(int(steps.max(initial=0)), -int(steps.min(initial=0)))
    return 2 * largest * (times + 1) < MOST


@np.errstate(all="ignore")
def meanings(clock: Clock, at: Sequence[int]) -> list[Fall] | None:
    """Of each of these positions; None where the steps fall so often, or so far, that they are no
    clock."""
    if not countable(clock.steps, len(at)):
        return None
    if _counts_epochs(clock, at):
        return [Fall.COUNTER] * len(at)
    if len(at) > FEW + NOISE_FALLS * len(clock.steps):
        return None
    found: list[Fall] = []
    begin = 0
    for position in at:
        fall = _meaning(clock, begin, position)
        begin = position if fall is Fall.RESTART else begin
        found.append(fall)
    return found


def _meaning(clock: Clock, begin: int, at: int) -> Fall:
    if _epoch_change(clock, at) > 0:
        return Fall.COUNTER
    if clock.steps[at] > _second(clock.steps, begin, at):
        return Fall.RESUME
    return Fall.RESTART if _is_another(clock, begin, at) else Fall.ANEW


def _second(steps: Ints, begin: int, at: int) -> float:
    """Where the second row stands, in usual distances: what falls further starts over."""
    return float(steps[begin]) + cadence(steps[max(begin, at - NEAR) : at])


def _counts_epochs(clock: Clock, at: Sequence[int]) -> bool:
    """Whether all falls are those of a count that starts over with each epoch: there are several,
    after equally many steps, and neither loss nor learning rate starts over."""
    if len(at) < EPOCHS or clock.series.column.axis is Axis.EPOCH:
        return False
    steps, values, places = clock.steps, clock.series.values, np.asarray(at)
    ends = steps[places - 1]
    longest, slack = int(ends.max()), ALIKE * float(ends.max()) + cadence(steps)
    alike = longest - int(ends.min()) <= slack and int(steps[-1]) <= longest + slack
    if not alike or (steps[places] > _second(steps, 0, at[0])).any():
        return False
    curves = [values] if clock.rate is None else [values, clock.rate]
    return not any(
        course(curve[:i], curve[i:]) is Course.STARTS_OVER
        for i in at[:: 1 + len(at) // SOME]
        for curve in curves
    )


def _is_another(clock: Clock, begin: int, at: int) -> bool:
    """Whether another execution begins: not, where the learning rate goes on; else by the loss;
    where it does not tell, by the rate; then by the epochs, which a resume seldom counts anew; else
    by the nearer level."""
    earlier, later = clock.series.values[begin:at], clock.series.values[at:]
    told, rate = course(earlier, later), Course.UNCLEAR
    if clock.rate is not None:
        rate = course(clock.rate[begin:at], clock.rate[at:])
    if told is Course.UNCLEAR or rate is Course.GOES_ON:
        told = rate
    if told is not Course.UNCLEAR:
        return told is Course.STARTS_OVER
    if _epoch_change(clock, at) < 0:
        return True
    start, before, after, _ = _levels(earlier, later)
    return start == before or not abs(after - before) < abs(after - start)


@np.errstate(all="ignore")
def course(earlier: Floats, later: Floats) -> Course:
    """How ``later`` goes on after ``earlier``, by medians of a few points; NaN starts over."""
    start, before, after, sigma = _levels(earlier, later)
    error = MEDIAN_ERROR * sigma * math.sqrt(2 / _look(earlier))
    drop, back, first = start - before, after - before, float(later[0]) - before
    if not math.isfinite(drop + back):
        return Course.STARTS_OVER
    if not abs(drop) > CLEAR * error:
        return Course.UNCLEAR
    jumps = abs(first) > max(JUMP * sigma, LEAST_JUMP * abs(drop))
    if back / drop >= 1 - NEARER or (jumps and first / drop >= NEARER):
        return Course.STARTS_OVER
    if -1 <= back / drop <= NEARER and not (jumps and first / drop > 0):
        return Course.GOES_ON
    return Course.UNCLEAR


def _look(earlier: Floats) -> int:
    return max(1, min(LOOK, len(earlier) // 3))


def _levels(earlier: Floats, later: Floats) -> tuple[float, float, float, float]:
    """Where the earlier part began and ended, where the later one begins, and the noise of a point
    of either."""
    look = _look(earlier)
    start, before, after = earlier[:look], earlier[-look:], later[:look]
    sigma = max(noise(earlier[-NEAR:]), noise(later[: min(NEAR, len(earlier))]))
    return median(start), median(before), median(after), sigma


def _epoch_change(clock: Clock, at: int) -> float:
    """How the epoch changes where the step falls; 0 where no epoch is logged."""
    series, epochs = clock.series, clock.epochs
    if epochs is None:
        return -1.0 if series.column.axis is Axis.EPOCH else 0.0
    lines, own = series.column.lines, epochs.lines
    if lines is None or own is None:
        return float(epochs.values[at] - epochs.values[at - 1]) if len(epochs) == len(series) else 0
    after = int(np.searchsorted(own, lines[at], "right")) - 1
    before = int(np.searchsorted(own, lines[at - 1], "right")) - 1
    return float(epochs.values[after] - epochs.values[before]) if before >= 0 else 0.0
