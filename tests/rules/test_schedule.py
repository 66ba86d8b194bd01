from __future__ import annotations

import numpy as np
import pytest

from trainproof.model.data import Facts, Identity, Role
from trainproof.model.outcome import Cell, Level, Skip
from trainproof.rules.examples import series, view

from .curves import flat, learning
from .judging import is_clean, judge, level, measured, prose, skipped


def linear(count: int, zeros: int = 0, peak: float = 2e-4) -> list[float]:
    """A linear decay whose last value is 0, and more zeros behind it."""
    return [peak * (1 - i / (count - 1)) for i in range(count)] + [0.0] * zeros


# --- TP-ZERO-LR --------------------------------------------------------------------------------


def test_zero_on_every_row_fails_although_the_loss_is_noisy() -> None:
    one = view(
        series("learning_rate", [0.0] * 60),
        series("loss", flat(60, cv=0.08).tolist()),
        facts=Facts(learning_rate=2e-4),
    )
    cell = judge("TP-ZERO-LR", one)
    assert level(cell) == (Level.FAIL, "")
    assert prose(cell).evidence == (
        "60 of 60 logged learning rates are 0.0; the run declares 0.0002."
    )


def test_a_loss_that_falls_shows_that_the_rate_was_not_recorded() -> None:
    one = view(series("learning_rate", [0.0] * 60), series("loss", learning(60).tolist()))
    cell = judge("TP-ZERO-LR", one)
    assert skipped(cell) is Skip.NEED_DEGENERATE
    assert measured(cell)["loss_name"] == "loss"


@pytest.mark.parametrize(
    ("artifact", "digits", "norm", "said"),
    [
        ("train.log", 4, None, (Level.WARN, "printed")),
        ("metrics.csv", 4, 4, (Level.WARN, "printed")),
        ("metrics.csv", 4, 17, (Level.FAIL, "")),  # not all of it is rounded
        ("trainer_state.json", 4, None, (Level.FAIL, "")),  # only the loss is, by Trainer
        ("train.log", 17, None, (Level.FAIL, "")),
    ],
)
def test_a_rate_that_is_printed_with_four_decimals_may_be_small(
    artifact: str, digits: int, norm: int | None, said: tuple[Level, str]
) -> None:
    """``f"{lr:.4f}"`` of 1e-5, in the fine-tuning of a model that had converged."""
    loss = [round(value, digits) for value in flat(60, level=0.7, cv=0.1).tolist()]
    found = [
        series("loss", loss, artifact=artifact),
        series("learning_rate", [0.0] * 60, artifact=artifact),
    ]
    if norm is not None:
        norms = [round(value, norm) for value in flat(60, level=2.0, cv=0.3).tolist()]
        found.append(series("grad_norm", norms, artifact=artifact))
    assert level(judge("TP-ZERO-LR", view(*found))) == said


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_few_rows_are_not_judged(count: int) -> None:
    """A summary holds the last value of a schedule, which is 0."""
    one = view(series("learning_rate", [0.0] * count))
    assert skipped(judge("TP-ZERO-LR", one)) is Skip.NEED_TOO_SHORT


def test_one_parameter_group_at_zero_is_a_warning() -> None:
    group = Identity(Role.LR, "lr", component="pg2")
    one = view(series("learning_rate", [1e-3] * 20), series("lr/pg2", [0.0] * 20, identity=group))
    cell = judge("TP-ZERO-LR", one)
    assert level(cell) == (Level.WARN, "one-group")
    assert "while learning_rate is not" in prose(cell).message


def test_a_rate_that_is_zero_on_first_and_last_row_only_is_clean() -> None:
    one = view(series("learning_rate", [0.0, 1e-4, 2e-4, 1e-4, 0.0]))
    assert is_clean(judge("TP-ZERO-LR", one))
    assert is_clean(judge("TP-ZERO-LR-PARTIAL", one))


# --- TP-ZERO-LR-PARTIAL --------------------------------------------------------------------------


def partial(values: list[float], max_steps: int | None = None) -> Cell:
    one = view(series("learning_rate", values), facts=Facts(max_steps=max_steps))
    return judge("TP-ZERO-LR-PARTIAL", one)


def test_a_schedule_that_ends_before_the_plan_fails() -> None:
    cell = judge(
        "TP-ZERO-LR-PARTIAL",
        view(series("learning_rate", linear(50, 50)), facts=Facts(max_steps=100)),
    )
    assert level(cell) == (Level.FAIL, "")
    assert prose(cell).evidence.endswith("the run is planned to step 100.")


def test_zeros_at_the_planned_end_are_clean() -> None:
    values = linear(1000, 8)
    assert is_clean(partial(values, 1008))


def test_zeros_at_the_end_without_a_plan_are_nothing_then_a_warning_then_a_failure() -> None:
    assert skipped(partial(linear(1000, 8))) is Skip.UNDECIDED
    assert level(partial(linear(1000, 50))) == (Level.WARN, "at-end")
    assert level(partial(linear(1000, 500))) == (Level.FAIL, "")


def test_a_hole_inside_the_run_fails() -> None:
    values = [2.5e-4 + 1e-9 * i for i in range(20)]
    assert level(partial([*values, *([0.0] * 6), *values])) == (
        Level.FAIL,
        "",
    )


def test_zeros_before_the_first_positive_rate_do_not_count() -> None:
    """Fifteen rows of 0 while the loss scale settles."""
    assert is_clean(partial([0.0] * 15 + [1e-4, 1.1e-4] * 20))


def test_a_decay_printed_with_few_digits_is_not_judged() -> None:
    cosine = 2e-3 * (1 + np.cos(np.pi * np.arange(100) / 99)) / 2
    printed = [round(float(v), 4) for v in cosine]
    assert printed[-5:] == [0.0] * 5
    assert skipped(partial(printed)) is Skip.LOW_POWER


def test_a_negative_rate_is_said_to_be_negative() -> None:
    cell = judge(
        "TP-ZERO-LR-PARTIAL",
        view(series("learning_rate", [1e-3 - 1e-4 * i for i in range(15)])),
    )
    assert level(cell) == (Level.FAIL, "negative")
    assert prose(cell).message == "learning_rate is negative on 4 rows, first at step 12."


def test_a_rate_that_is_negative_throughout_may_be_a_logarithm() -> None:
    assert skipped(partial([-4.0, -4.1, -4.2, -4.3, -4.4])) is (Skip.NEED_DEGENERATE)


def test_zero_throughout_is_left_to_the_other_rule() -> None:
    assert skipped(partial([0.0] * 20)) is Skip.NEED_DEGENERATE
