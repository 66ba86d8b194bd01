from __future__ import annotations

import math

import pytest

from trainproof.model.data import Facts, Identity, Regime, Role, RunView
from trainproof.model.outcome import Cell, Level, Skip
from trainproof.rules.examples import HUGGING_FACE, falling, series, view

from .judging import is_clean, judge, level, measured, prose, skipped

NAN, INF = math.nan, math.inf


def loss_with(bad: dict[int, float], count: int = 40) -> list[float]:
    values = falling(count)
    for at, value in bad.items():
        values[at] = value
    return values


# --- TP-NAN ----------------------------------------------------------------------------------


def test_a_loss_that_ends_as_nan_fails_even_with_a_single_nan() -> None:
    """A callback that terminates on NaN leaves exactly one."""
    cell = judge("TP-NAN", view(series("loss", loss_with({39: NAN}))))
    assert level(cell) == (Level.FAIL, "last")
    assert prose(cell).message == "loss ends with a value that is NaN or infinite, at step 40."
    (hit,) = cell.hits
    assert hit.evidence.measured == {
        "points": 40,
        "nonfinite": 1,
        "longest": 1,
        "tail": 1,
        "last_finite": falling(40)[38],
    }
    assert (hit.evidence.where.first_step, hit.evidence.where.line) == (40, 40)


def test_an_isolated_nan_that_recovers_is_a_warning() -> None:
    cell = judge("TP-NAN", view(series("loss", loss_with({20: NAN}))))
    assert level(cell) == (Level.WARN, "recovered")
    assert prose(cell).message == (
        "loss was NaN or infinite for a moment, first at step 21, and recovered."
    )


def test_three_in_a_row_fail_and_the_number_can_be_set() -> None:
    one = view(series("loss", loss_with({20: NAN, 21: INF, 22: NAN})))
    assert level(judge("TP-NAN", one)) == (Level.FAIL, "")
    assert level(judge("TP-NAN", one, in_a_row=4, share=0.5)) == (Level.WARN, "recovered")


def test_scattered_nan_fail_by_their_share() -> None:
    scattered = {at: NAN for at in range(50, 400, 100)}
    assert level(judge("TP-NAN", view(series("loss", loss_with(scattered, 400))))) == (
        Level.FAIL,
        "",
    )


def test_the_first_steps_of_mixed_precision_may_overflow() -> None:
    early = {at: INF for at in range(8)}
    assert level(judge("TP-NAN", view(series("loss", loss_with(early, 400))))) == (
        Level.WARN,
        "recovered",
    )


def test_a_loss_that_was_never_finite_fails_in_every_regime() -> None:
    for regime in Regime:
        one = view(series("loss", [NAN] * 20), regime=regime)
        assert level(judge("TP-NAN", one)) == (Level.FAIL, "")


def test_a_component_without_targets_is_a_warning_beside_a_finite_total() -> None:
    one = view(series("loss", falling(20)), series("loss_cls", [NAN] * 20))
    cell = judge("TP-NAN", one)
    assert level(cell) == (Level.WARN, "component")
    assert "every value of loss is finite" in prose(cell).evidence


def test_a_component_fails_without_a_finite_total() -> None:
    gan = Identity(Role.LOSS, "loss", component="disc")
    alone = view(series("train_disc_loss", [1.6e24, NAN, NAN], identity=gan))
    assert level(judge("TP-NAN", alone)) == (Level.FAIL, "last")
    both = view(series("loss", [NAN] * 3), series("loss_cls", [NAN] * 3))
    assert [hit.level for hit in judge("TP-NAN", both).hits] == [Level.FAIL, Level.FAIL]


def test_a_held_out_nan_is_left_to_its_own_rule() -> None:
    one = view(series("loss", falling(20)), series("eval_loss", [1.0, NAN], [10, 20]))
    assert is_clean(judge("TP-NAN", one))


# --- TP-NAN-HIDDEN -----------------------------------------------------------------------------


def filtered(gradients: list[float], facts: Facts = HUGGING_FACE) -> Cell:
    steps = range(50, 50 * len(gradients) + 1, 50)
    one = view(
        series("loss", falling(len(gradients)), steps),
        series("grad_norm", gradients, steps),
        facts=facts,
    )
    return judge("TP-NAN-HIDDEN", one)


def test_nan_gradients_beside_a_finite_loss_fail_where_the_logger_filters() -> None:
    cell = judge(
        "TP-NAN-HIDDEN",
        view(
            series("loss", falling(20), range(50, 1001, 50)),
            series("grad_norm", [1.0] * 10 + [NAN] * 3 + [1.0] * 7, range(50, 1001, 50)),
            facts=HUGGING_FACE,
        ),
    )
    assert level(cell) == (Level.FAIL, "")
    assert (cell.hits[0].evidence.where.first_step, cell.hits[0].evidence.where.last_step) == (
        550,
        650,
    )


def test_two_hidden_rows_are_clean() -> None:
    cell = filtered([1.0] * 10 + [NAN] * 2 + [1.0] * 8)
    assert is_clean(cell)


def test_overflow_in_the_first_hundred_steps_is_settling() -> None:
    one = view(
        series("loss", falling(30), range(10, 310, 10)),
        series("grad_norm", [INF] * 8 + [1.0] * 22, range(10, 310, 10)),
        facts=HUGGING_FACE,
    )
    assert is_clean(judge("TP-NAN-HIDDEN", one))


def test_a_framework_without_the_filter_is_not_judged() -> None:
    cell = filtered([NAN] * 20, Facts(framework="lightning"))
    assert skipped(cell) is Skip.NEED_DEGENERATE


def test_an_undeclared_framework_is_not_judged() -> None:
    assert skipped(filtered([NAN] * 20, Facts())) is Skip.NEED_ABSENT


def test_a_loss_that_is_nan_itself_is_not_hidden() -> None:
    steps = range(50, 1001, 50)
    one = view(
        series("loss", falling(10) + [NAN] * 10, steps),
        series("grad_norm", [1.0] * 10 + [NAN] * 10, steps),
        facts=HUGGING_FACE,
    )
    assert is_clean(judge("TP-NAN-HIDDEN", one))


# --- TP-NAN-GRAD -------------------------------------------------------------------------------

STEADY = [1.0, 1.1, 0.9, 1.05]


def gradients(values: list[float], facts: Facts | None = None) -> RunView:
    steps = range(10, 10 * len(values) + 1, 10)
    return view(series("grad_norm", values, steps), facts=facts)


def test_five_in_a_row_fail() -> None:
    one = gradients(STEADY * 10 + [NAN] * 5 + STEADY * 10)
    assert level(judge("TP-NAN-GRAD", one)) == (Level.FAIL, "")


def test_three_at_the_end_fail() -> None:
    one = gradients(STEADY * 20 + [INF] * 3)
    assert level(judge("TP-NAN-GRAD", one)) == (Level.FAIL, "")


def test_more_than_five_percent_after_the_first_hundred_steps_fail() -> None:
    one = gradients((STEADY * 3 + [INF]) * 10 + STEADY)
    assert level(judge("TP-NAN-GRAD", one)) == (Level.FAIL, "")


@pytest.mark.parametrize("precision", ["fp16", "16-mixed", "bf16-mixed"])
def test_isolated_overflow_under_declared_mixed_precision_is_a_note(precision: str) -> None:
    one = gradients(STEADY * 5 + [INF] + STEADY * 5, facts=Facts(precision=precision))
    assert level(judge("TP-NAN-GRAD", one)) == (Level.INFO, "scaler")


def test_a_logged_loss_scale_explains_isolated_overflow() -> None:
    one = view(
        series("grad_norm", STEADY * 5 + [INF] + STEADY * 5),
        series("loss_scale", [65536.0] * 41),
    )
    assert level(judge("TP-NAN-GRAD", one)) == (Level.INFO, "scaler")


def test_a_rare_overflow_is_a_note_without_any_declaration() -> None:
    one = gradients(STEADY * 50 + [INF] + STEADY * 50)
    assert level(judge("TP-NAN-GRAD", one)) == (Level.INFO, "scaler")


def test_unexplained_isolated_overflow_is_a_warning() -> None:
    one = gradients(STEADY * 5 + [INF] + STEADY * 5)
    assert level(judge("TP-NAN-GRAD", one)) == (Level.WARN, "isolated")


def test_a_loss_scale_may_be_halved_sixteen_times_at_the_start() -> None:
    values = [INF] * 16 + STEADY * 20
    scaled = view(series("grad_norm", values), series("loss_scale", [2.0] * 96))
    assert level(judge("TP-NAN-GRAD", scaled)) == (Level.INFO, "scaler")
    assert level(judge("TP-NAN-GRAD", view(series("grad_norm", values)))) == (Level.FAIL, "")


def test_finite_gradients_are_clean_with_their_number() -> None:
    cell = judge("TP-NAN-GRAD", view(series("grad_norm", STEADY)))
    assert is_clean(cell)
    assert measured(cell) == {"points": 4, "nonfinite": 0}
