from __future__ import annotations

import math

import pytest

from trainproof.model.data import Series
from trainproof.rules.coupling import Coupling, coupling
from trainproof.rules.examples import series

from .classifiers import trained
from .curves import noise


def found(loss: Series, accuracy: Series) -> Coupling:
    one = coupling(loss, accuracy)
    assert one is not None
    return one


@pytest.mark.parametrize("rows", [12, 100])
@pytest.mark.parametrize("classes", [3, 5, 10, 30])
def test_two_softmaxes_keep_the_sum_of_loss_and_accuracy(classes: int, rows: int) -> None:
    one = found(*trained(classes, rows, twice=True))
    assert one.within
    assert one.classes == classes
    assert one.scatter < 0.2
    assert abs(one.total - one.ceiling) < 0.02


@pytest.mark.parametrize("rows", [12, 100])
@pytest.mark.parametrize("classes", [3, 5, 10, 30])
def test_one_softmax_does_not(classes: int, rows: int) -> None:
    one = found(*trained(classes, rows, twice=False))
    assert one.scatter > 2
    assert not one.within


def test_the_same_answers_cost_what_an_even_rest_does() -> None:
    loss, accuracy = series("loss", [1.42] * 9), series("accuracy", [0.4844] * 9)
    one = found(loss, accuracy)
    assert one.classes == 5
    assert one.implied == pytest.approx(4.9971, abs=1e-4)
    assert one.fair == pytest.approx(
        -0.4844 * math.log(0.4844) - 0.5156 * math.log(0.5156 / 4), abs=1e-12
    )
    assert one.moved < 1e-12


@pytest.mark.parametrize(("accuracy", "fair"), [(1.0, 0.0), (0.0, math.log(11))])
def test_answers_that_are_all_right_or_all_wrong_have_a_cost_too(
    accuracy: float, fair: float
) -> None:
    one = found(series("loss", [2.6174 - accuracy] * 9), series("accuracy", [accuracy] * 9))
    assert one.classes == 12
    assert one.fair == pytest.approx(fair)


def test_a_loss_beyond_what_two_softmaxes_leave_is_outside() -> None:
    values = [1.6, 1.5, 1.4, 1.3, 1.2, 0.7, 1.2, 1.2, 1.2]
    assert not found(series("loss", values), series("accuracy", [0.7] * 9)).within


@pytest.mark.parametrize(
    "accuracy",
    [
        series("accuracy", [0.5] * 5),
        series("accuracy", [50.0] * 9),
        series("accuracy", [math.nan, *[0.5] * 8]),
        series("accuracy", [0.5] * 9, range(100, 109)),
    ],
)
def test_without_shares_on_six_rows_of_the_loss_there_is_none(accuracy: Series) -> None:
    assert coupling(series("loss", (1 + 0.1 * noise(9)).tolist()), accuracy) is None
