"""Evaluations that are written into each row of training until there is a new one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from trainproof.carried import without_repeats
from trainproof.model.data import Axis, Column, Series
from trainproof.readers.names import classify
from trainproof.rules.examples import falling


def series(tag: str, values: Sequence[float], steps: Sequence[int] | None = None) -> Series:
    at = np.arange(len(values)) if steps is None else np.asarray(steps)
    column = Column(tag, at.astype(np.int64), np.asarray(values, np.float64), Axis.STEP)
    return Series("log.csv", classify(tag), column)


def repeated(values: Sequence[float], times: Sequence[int]) -> list[float]:
    return [value for value, many in zip(values, times, strict=True) for _ in range(many)]


def steps(*members: Series) -> list[list[int]]:
    return [one.steps.tolist() for one in without_repeats(members)[1:]]


LOSS = series("loss", falling(400))
EVALUATED = falling(4, 3.3, 1.1)


def test_an_evaluation_is_kept_where_it_is_new() -> None:
    every_hundred = series("val_loss", repeated(EVALUATED, [100] * 4))
    assert steps(LOSS, every_hundred) == [[0, 100, 200, 300]]
    assert without_repeats([LOSS, every_hundred])[1].values.tolist() == EVALUATED


def test_the_first_and_the_last_one_may_be_cut() -> None:
    begun = series("val_loss", repeated(EVALUATED, [1, 150, 150, 99]))
    assert steps(LOSS, begun) == [[0, 1, 151, 301]]


def test_an_evaluation_that_gave_the_same_again_is_told_by_the_distance() -> None:
    again = series("val_loss", repeated(EVALUATED, [80, 80, 160, 80]))
    assert steps(LOSS, again) == [[0, 80, 160, 240, 320]]


def test_nothing_tells_whether_there_was_another_one_after_the_last() -> None:
    stopped = series("val_loss", repeated(EVALUATED, [20, 20, 20, 340]))
    assert steps(LOSS, stopped) == [[0, 20, 40, 60]]


def test_an_evaluation_that_is_not_finite_is_repeated_too() -> None:
    lost = series("val_loss", repeated([3.0, 2.0, math.nan, 2.5], [100] * 4))
    assert steps(LOSS, lost) == [[0, 100, 200, 300]]


def test_a_metric_is_repeated_with_its_loss() -> None:
    loss = series("val_loss", repeated(EVALUATED, [100] * 4))
    accuracy = series("val_acc", repeated([0.5, 0.75], [200, 200]))
    assert steps(LOSS, loss, accuracy)[1] == [0, 200]
    other = series("val_acc", repeated([0.5, 0.75], [250, 150]))
    assert len(steps(LOSS, loss, other)[1]) == 400


def test_a_metric_alone_is_repeated_at_equal_distances() -> None:
    values = [0.1, 0.5, 0.4, 0.7, 0.8, 0.9, 0.85, 0.9]
    assert steps(LOSS, series("val_acc", repeated(values, [50] * 8))) == [list(range(0, 400, 50))]
    of_few_cases = series("val_acc", repeated(values, [50, 80, 20, 50, 30, 70, 50, 50]))
    assert len(steps(LOSS, of_few_cases)[0]) == 400


@pytest.mark.parametrize(
    "members",
    [
        # one value alone, and one that came at once: nothing tells how often it was measured
        [LOSS, series("val_loss", [1.1] * 400)],
        [LOSS, series("val_loss", repeated([2.0, 1.1], [1, 399]))],
        # some evaluations differ from row to row
        [LOSS, series("val_loss", repeated(falling(5), [100, 1, 100, 100, 99]))],
        # a loss that hardly falls, in two digits
        [LOSS, series("val_loss", repeated([0.69, 0.68, 0.67, 0.66], [100] * 4))],
        # rows of their own
        [LOSS, series("val_loss", repeated(EVALUATED, [100] * 4), range(1000, 1400))],
        # a training that is printed in long stretches of equal values as well
        [
            series("loss", repeated(EVALUATED, [100] * 4)),
            series("val_loss", repeated(EVALUATED, [100] * 4)),
        ],
        [series("val_loss", repeated(EVALUATED, [100] * 4))],
        [LOSS, series("val_lr", repeated(EVALUATED, [100] * 4))],
    ],
)
def test_these_are_left_as_they_are(members: list[Series]) -> None:
    assert without_repeats(members) == tuple(members)
