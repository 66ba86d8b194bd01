"""Evaluations that a log repeats on each row of training, until there is a new one. Pure.

Loops that keep the last ``val_loss`` in a variable write it into every row. Rows are no evaluations
then: what is equal from row to row is neither frozen nor without noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
from msgspec.structs import replace

from .model.data import Floats, Ints, Role, Series, Split
from .rules.statistics import Mask, median, printed_quantum

LEAST = 8
"""Rows of a series that may be one of repeated evaluations."""

LIVELY = 0.5
"""Share of the rows of a training loss that differ from the row before."""

SHARED = 0.9
"""Share of the rows of an evaluation that are rows of training."""

UNITS = 3.0
"""Printed units by which one evaluation differs from the next: less may be a loss that hardly falls
and is printed with few digits."""

REGULAR = 0.1
"""Difference of the distances between evaluations, over the distance, of a metric alone."""

SEVERAL = 4
"""Evaluations of a metric whose distances are compared."""


class _Runs(msgspec.Struct, frozen=True, eq=False):
    """``begins``: rows at which another value stands than on the row before, the first row
    included. ``inner``: lengths of the stretches of equal values that are whole."""

    begins: Ints
    inner: Ints


def without_repeats(series: Sequence[Series]) -> tuple[Series, ...]:
    """The series of one log, of each repeated evaluation only the row where it is new."""
    trained = [one for one in series if one.split is Split.TRAIN and one.role is Role.LOSS]
    held_out = [one for one in series if one.split is not Split.TRAIN and len(one) >= LEAST]
    if not trained or not held_out:
        return tuple(series)
    found = [(one, runs) for one in held_out if (runs := _repeats(one)) is not None]
    if not found or not any(map(_is_lively, trained)):
        return tuple(series)
    losses = [runs for one, runs in found if _may_repeat(one)]
    kept = {
        one: _evaluations(runs)
        for one, runs in found
        if _on_rows(one, trained) and _is_repeated(one, runs, losses)
    }
    return tuple(
        replace(one, column=one.column.take(kept[one])) if one in kept else one for one in series
    )


def _repeats(one: Series) -> _Runs | None:
    """Stretches of equal values, of two rows at least each; the first may have begun earlier."""
    if one.role not in (Role.LOSS, Role.METRIC):
        return None
    changes = np.flatnonzero(_differ(one.values)) + 1
    if not len(changes) or 2 * len(changes) > len(one):
        return None
    begins = np.concatenate(([0], changes))
    whole = np.diff(begins)
    inner = whole[1:] if len(whole) > 1 else whole
    return _Runs(begins, inner) if inner.min() >= 2 else None


def _differ(values: Floats) -> Mask:
    """Which values differ from the one before; NaN is equal to NaN."""
    before, after = values[:-1], values[1:]
    return np.asarray((before != after) & ~(np.isnan(before) & np.isnan(after)))


def _is_lively(one: Series) -> bool:
    return len(one) >= LEAST and bool(_differ(one.values).mean() >= LIVELY)


def _on_rows(one: Series, trained: Sequence[Series]) -> bool:
    """Whether the series stands on the rows of a training loss that changes from row to row."""
    return any(
        _is_lively(loss)
        and loss.column.axis is one.column.axis
        and np.count_nonzero(np.isin(one.steps, loss.steps)) >= SHARED * len(one)
        for loss in trained
    )


def _may_repeat(one: Series) -> bool:
    """Whether a loss differs by more than its digits from one stretch to the next."""
    if one.role is not Role.LOSS:
        return False
    unit = printed_quantum(one.values)
    if unit is None:
        return True
    jumps = np.abs(np.diff(one.values))
    jumps = jumps[jumps > 0]
    return len(jumps) > 0 and median(jumps) > UNITS * unit


def _is_repeated(one: Series, runs: _Runs, losses: Sequence[_Runs]) -> bool:
    """A loss by itself; a metric where a loss is repeated and changes with it, or which changes at
    equal distances: of few cases, it may be equal from one evaluation to the next."""
    if one.role is Role.LOSS:
        return any(runs is loss for loss in losses)
    if losses:
        return any(set(runs.begins[1:].tolist()) <= set(loss.begins.tolist()) for loss in losses)
    usual = float(median(runs.inner.astype(np.float64)))
    spread = float(np.abs(runs.inner - usual).max())
    return len(runs.inner) >= SEVERAL and spread <= REGULAR * usual


def _evaluations(runs: _Runs) -> Ints:
    """The rows where evaluations are new. One that gave the same again is told by the usual
    distance; not so behind the last new one, after which there may have been none."""
    usual = int(np.sort(runs.inner)[(len(runs.inner) - 1) // 2])
    found = [
        row
        for begin, end in pairwise(runs.begins.tolist())
        for row in range(begin, max(begin + 1, end - usual // 2), usual)
    ]
    return np.asarray([*found, int(runs.begins[-1])], np.int64)
