from __future__ import annotations

import math

import numpy as np
import pytest

from trainproof.model.data import Facts, Floats, Regime
from trainproof.model.outcome import Cell, Level, Skip
from trainproof.rules.examples import series, view

from .classifiers import trained
from .curves import learning, noise
from .judging import is_clean, judge, level, measured, prose, skipped

CLAMPED = "TP-LOSS-CLAMPED"
TWICE = "TP-SOFTMAX-TWICE"

# --- clamps ---------------------------------------------------------------------------------------


def test_a_loss_at_the_logarithm_of_the_least_float_fails() -> None:
    """As Caffe printed it in public logs: from the second row on, at any learning rate."""
    cell = judge(CLAMPED, view(series("loss", [9.21768, *([87.3365] * 25)])))
    assert level(cell) == (Level.FAIL, "")
    assert measured(cell)["tail"] == 25


@pytest.mark.parametrize("value", [16.118, 13.8155, 100.0, -math.log(1e-12)])
def test_a_loss_at_a_clamp_of_which_no_log_is_known_is_a_warning(value: float) -> None:
    values = [*learning(30).tolist(), *([value] * 25)]
    assert level(judge(CLAMPED, view(series("loss", values)))) == (Level.WARN, "epsilon")


def test_the_constant_is_named() -> None:
    cell = judge(CLAMPED, view(series("loss", [16.118] * 25)))
    assert prose(cell).message == (
        "loss is 16.118 from step 1 to the end: -ln(1e-7), a usual clamp of logarithms."
    )


def test_a_few_rows_at_the_end_are_not_decided() -> None:
    values = [*learning(30).tolist(), *([100.0] * 6)]
    assert skipped(judge(CLAMPED, view(series("loss", values)))) is Skip.UNDECIDED


def test_a_loss_that_passes_by_is_clean() -> None:
    assert is_clean(judge(CLAMPED, view(series("loss", np.linspace(101, 99, 400).tolist()))))


def test_a_loss_that_hovers_near_a_constant_does_not_fail() -> None:
    values = 100 + 0.05 * noise(400)
    assert not judge(CLAMPED, view(series("loss", values.tolist()))).hits


def test_a_recovery_is_clean() -> None:
    values = [*([87.3365] * 30), *learning(30).tolist()]
    assert is_clean(judge(CLAMPED, view(series("loss", values))))


def test_a_game_may_sit_there() -> None:
    one = view(series("loss", [100.0] * 30), regime=Regime.ADVERSARIAL)
    assert skipped(judge(CLAMPED, one)) is Skip.REGIME


# --- two softmaxes --------------------------------------------------------------------------------


def stopped(floor: float = 1.4612, count: int = 90) -> Floats:
    return floor + 0.8 * 0.9 ** np.arange(count) + 0.001 * np.abs(noise(count))


def twice(loss: Floats, accuracy: float | None = 0.99, classes: int | None = None) -> Cell:
    members = [series("loss", loss.tolist())]
    if accuracy is not None:
        members.append(series("accuracy", [accuracy] * len(loss)))
    return judge(TWICE, view(*members, facts=Facts(num_classes=classes)))


def test_the_floor_of_ten_classes_beside_right_answers_is_a_warning() -> None:
    cell = twice(stopped())
    assert level(cell) == (Level.WARN, "")
    assert measured(cell)["classes"] == 10


def test_declared_classes_are_used() -> None:
    assert measured(twice(stopped(0.7437), classes=4))["classes"] == 4
    assert is_clean(twice(stopped(0.7437)))


def test_a_loss_that_was_ever_below_is_clean() -> None:
    values = stopped()
    values[40] = 1.2
    assert is_clean(twice(values))


def test_a_model_that_is_often_wrong_may_have_that_loss() -> None:
    assert skipped(twice(stopped(), 0.5)) is Skip.UNDECIDED


def test_without_an_accuracy_it_is_not_decided() -> None:
    assert skipped(twice(stopped(), None)) is Skip.UNDECIDED


def test_a_loss_on_its_way_through_the_floor_is_clean() -> None:
    assert is_clean(twice(np.linspace(2.3, 1.46, 90)))


@pytest.mark.parametrize("classes", [3, 5, 10, 30])
def test_a_sum_of_loss_and_accuracy_that_stands_still_is_a_warning(classes: int) -> None:
    cell = judge(TWICE, view(*trained(classes, 100, twice=True)))
    assert level(cell) == (Level.WARN, "coupled")
    assert measured(cell)["classes"] == classes
    assert "keep the same sum from the start to the end" in prose(cell).message


@pytest.mark.parametrize("classes", [2, 3, 5, 10, 30])
def test_a_plain_cross_entropy_is_clean(classes: int) -> None:
    assert is_clean(judge(TWICE, view(*trained(classes, 100, twice=False))))


def test_two_classes_are_told_by_the_cost_of_their_answers() -> None:
    cell = judge(TWICE, view(*trained(2, 100, twice=True)))
    assert level(cell) == (Level.WARN, "coupled")
    assert measured(cell)["fair"] == pytest.approx(0.017, abs=1e-3)


def test_a_plain_cross_entropy_over_few_classes_may_keep_the_sum_while_it_is_learned() -> None:
    """As a small Keras classifier did: three classes, 200 rows, 30 epochs."""
    accuracy = np.linspace(0.37, 0.835, 30)
    members = series("loss", (1.54 - accuracy).tolist()), series("accuracy", accuracy.tolist())
    assert is_clean(judge(TWICE, view(*members)))


def test_a_training_loss_is_not_needed_beside_the_evaluations() -> None:
    train = series("loss", np.linspace(1.6, 1.0, 100).tolist())
    cell = judge(TWICE, view(train, *trained(5, 20, twice=True)))
    assert level(cell) == (Level.WARN, "coupled")
    assert cell.hits[0].evidence.where.series == "eval_loss"


def standing(loss: float, accuracy: float) -> Cell:
    ripple = 0.001 * noise(60)
    rows = series("loss", (loss + ripple).tolist())
    return judge(TWICE, view(rows, series("accuracy", (accuracy + ripple[::-1]).tolist())))


def test_a_loss_that_stands_above_what_its_answers_cost_is_a_warning() -> None:
    cell = standing(0.402, 0.9118)
    assert level(cell) == (Level.WARN, "standing")
    assert prose(cell).message.startswith("loss ends at 0.402 beside an accuracy of 0.912")


@pytest.mark.parametrize(
    ("loss", "accuracy"),
    [(0.28, 0.918), (0.45, 0.92), (1.25, 0.4844)],
)
def test_losses_that_answers_may_cost_are_no_warning(loss: float, accuracy: float) -> None:
    assert not standing(loss, accuracy).hits


# --- the first loss -------------------------------------------------------------------------------

FIRST = "TP-FIRST-LOSS"


def started(
    first: float, classes: int | None = 10, steps: range | None = None, **more: int
) -> Cell:
    facts = Facts(num_classes=classes, **more)  # type: ignore[arg-type]
    values = np.concatenate(([first], learning(40, 2.2, 0.5)))
    return judge(FIRST, view(series("loss", values.tolist(), steps), facts=facts))


def test_a_first_loss_far_above_that_of_a_guess_is_a_warning() -> None:
    cell = started(9.2)
    assert level(cell) == (Level.WARN, "")
    assert "starts at 9.2, 4 times the 2.303 of an even guess" in prose(cell).message


def test_a_low_start_is_a_note() -> None:
    assert level(started(0.4)) == (Level.INFO, "low")


@pytest.mark.parametrize("first", [2.3, 2.9, 1.5])
def test_a_first_loss_near_that_of_a_guess_is_clean(first: float) -> None:
    assert is_clean(started(first))


def test_a_mean_of_many_steps_or_undeclared_classes_are_not_judged() -> None:
    assert skipped(started(9.2, steps=range(10, 411, 10))) is Skip.NEED_DEGENERATE
    assert skipped(started(9.2, logging_steps=10)) is Skip.NEED_DEGENERATE
    assert skipped(started(9.2, classes=None)) is Skip.NEED_ABSENT
    assert skipped(started(9.2, classes=1)) is Skip.NEED_DEGENERATE


def test_a_log_without_its_start_has_no_first_loss() -> None:
    assert skipped(started(9.2, steps=range(500, 541))) is Skip.START_MISSING


def test_a_part_of_a_loss_is_not_compared_with_a_guess() -> None:
    one = view(series("loss_cls", [9.2] * 20), facts=Facts(num_classes=10))
    assert skipped(judge(FIRST, one)) is Skip.NEED_DEGENERATE
