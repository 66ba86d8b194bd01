from __future__ import annotations

import numpy as np
import pytest

from trainproof.model.data import Facts, Floats, Identity, Regime, Role, RunView
from trainproof.model.outcome import Level, Skip
from trainproof.rules.examples import falling, series, view

from .curves import flat, learning, noise
from .judging import is_clean, judge, level, measured, prose, skipped

STEADY = [1.031, 1.207, 0.914]


# --- TP-ZERO-GRAD ----------------------------------------------------------------------------


def test_zero_from_a_step_on_fails_while_the_loss_is_not_zero() -> None:
    one = view(series("grad_norm", STEADY * 5 + [0.0] * 5), series("loss", falling(20)))
    cell = judge("TP-ZERO-GRAD", one)
    assert level(cell) == (Level.FAIL, "")
    assert prose(cell).message == (
        "grad_norm is exactly 0 from step 16 to the end, while the loss is not."
    )


def test_four_zeros_at_the_end_and_zeros_in_between_are_clean() -> None:
    one = view(
        series("grad_norm", STEADY * 3 + [0.0] * 9 + STEADY + [0.0] * 4),
        series("loss", falling(25)),
    )
    assert is_clean(judge("TP-ZERO-GRAD", one))


def test_all_zero_while_the_loss_falls_was_not_recorded() -> None:
    """Coqui prints 0.0 where clipping is off."""
    one = view(series("grad_norm", [0.0] * 60), series("loss", learning(60).tolist()))
    assert skipped(judge("TP-ZERO-GRAD", one)) is Skip.NEED_DEGENERATE


def test_all_zero_with_a_loss_that_measurably_does_not_fall_fails() -> None:
    one = view(series("grad_norm", [0.0] * 200), series("loss", flat(200).tolist()))
    assert level(judge("TP-ZERO-GRAD", one)) == (Level.FAIL, "always")


@pytest.mark.parametrize("loss", [None, flat(60, cv=0.5), flat(10), np.full(60, np.nan)])
def test_all_zero_without_a_loss_that_could_tell_is_a_warning(loss: object) -> None:
    members = [series("grad_norm", [0.0] * 60)]
    if isinstance(loss, np.ndarray):
        members.append(series("loss", loss.tolist()))
    assert level(judge("TP-ZERO-GRAD", view(*members))) == (Level.WARN, "unclear")


def test_one_of_several_gradient_series_is_a_note() -> None:
    part = Identity(Role.GRAD_NORM, "grad_norm", component="layer1")
    one = view(series("grad_norm", STEADY * 5), series("layer1", [0.0] * 15, identity=part))
    assert level(judge("TP-ZERO-GRAD", one)) == (Level.INFO, "one-of-several")


def test_a_norm_that_sinks_below_its_printed_unit_is_not_judged() -> None:
    sinking = [round(0.5 * 0.8**i, 2) for i in range(30)]
    one = view(series("grad_norm", sinking), series("loss", falling(30)))
    assert sinking[-5:] == [0.0] * 5
    assert skipped(judge("TP-ZERO-GRAD", one)) is Skip.UNDECIDED


def test_zeros_beside_a_zero_loss_are_left_to_the_loss_rules() -> None:
    one = view(
        series("grad_norm", STEADY * 5 + [0.0] * 10), series("loss", falling(15) + [0.0] * 10)
    )
    assert skipped(judge("TP-ZERO-GRAD", one)) is Skip.UNDECIDED


def test_reinforcement_learning_is_out_of_scope() -> None:
    one = view(series("grad_norm", [0.0] * 60), regime=Regime.REINFORCEMENT)
    assert skipped(judge("TP-ZERO-GRAD", one)) is Skip.REGIME


# --- TP-GRAD-SPIKE ---------------------------------------------------------------------------


def gradient(count: int = 200, spikes: dict[int, float] | None = None) -> list[float]:
    values = np.exp(0.2 * noise(count))
    for at, value in (spikes or {}).items():
        values[at] = value
    found: list[float] = values.tolist()
    return found


def test_two_rows_in_a_row_warn_and_the_greatest_is_named() -> None:
    cell = judge("TP-GRAD-SPIKE", view(series("grad_norm", gradient(200, {100: 30, 101: 60}))))
    assert level(cell) == (Level.WARN, "")
    measured = cell.hits[0].evidence.measured
    assert (measured["top"], measured["top_step"], measured["longest"]) == (60, 102, 2)


def test_a_single_row_is_clean() -> None:
    assert is_clean(judge("TP-GRAD-SPIKE", view(series("grad_norm", gradient(200, {100: 500})))))


def test_many_single_rows_warn_by_their_share() -> None:
    spikes = {at: 50.0 for at in range(60, 200, 30)}
    assert level(judge("TP-GRAD-SPIKE", view(series("grad_norm", gradient(200, spikes))))) == (
        Level.WARN,
        "",
    )


def test_gradients_of_small_batches_scatter_widely_and_are_clean() -> None:
    values = np.exp(1.3 * noise(200))
    values[100:102] = [12.0, 30.0]
    cell = judge("TP-GRAD-SPIKE", view(series("grad_norm", values.tolist())))
    assert is_clean(cell)
    assert measured(cell)["scatter"] == pytest.approx(1.3, rel=0.2)


def test_a_burst_in_the_first_tenth_is_clean() -> None:
    early = {at: 400.0 for at in range(3, 12)}
    assert is_clean(judge("TP-GRAD-SPIKE", view(series("grad_norm", gradient(200, early)))))


def test_the_rare_other_actions_of_a_policy_are_no_spikes() -> None:
    values = np.full(200, 0.01)
    values[60::20] = 1.0
    one = view(series("grad_norm", values.tolist()), regime=Regime.REINFORCEMENT)
    assert skipped(judge("TP-GRAD-SPIKE", one)) is Skip.REGIME


def test_a_level_that_stays_up_is_no_spike() -> None:
    values = gradient(100) + (30 * np.array(gradient(100))).tolist()
    assert is_clean(judge("TP-GRAD-SPIKE", view(series("grad_norm", values))))


def test_a_norm_that_falls_a_hundredfold_is_clean() -> None:
    values = np.geomspace(100, 1, 300) * np.exp(0.2 * noise(300))
    assert is_clean(judge("TP-GRAD-SPIKE", view(series("grad_norm", values.tolist()))))


def test_rows_that_are_not_finite_are_left_out_and_never_clean() -> None:
    calm = gradient(200, {50: np.inf})
    assert skipped(judge("TP-GRAD-SPIKE", view(series("grad_norm", calm)))) is Skip.NOT_FINITE
    spiky = gradient(200, {50: np.nan, 100: 30, 101: 60})
    cell = judge("TP-GRAD-SPIKE", view(series("grad_norm", spiky)))
    assert cell.hits[0].evidence.measured["top_step"] == 102


# --- growth -------------------------------------------------------------------------------------


def growing(count: int = 300, times: float = 50.0) -> Floats:
    return times ** (np.arange(count) / count) * np.exp(0.2 * noise(count))


def beside_loss(grad: Floats, loss: Floats) -> RunView:
    return view(series("grad_norm", grad.tolist()), series("loss", loss.tolist()))


def test_gradients_that_grow_beside_an_idle_loss_are_a_warning() -> None:
    cell = judge("TP-GRAD-GROWTH", beside_loss(growing(), flat(300)))
    assert level(cell) == (Level.WARN, "")
    assert "and no training loss improved" in prose(cell).message


def test_gradients_that_grow_while_the_loss_falls_are_clean() -> None:
    assert is_clean(judge("TP-GRAD-GROWTH", beside_loss(growing(), learning(300))))


def test_a_growth_during_warm_up_is_left_out() -> None:
    grad = np.concatenate([np.geomspace(0.01, 2, 30), 2 * np.exp(0.2 * noise(270))])
    assert is_clean(judge("TP-GRAD-GROWTH", beside_loss(grad, flat(300))))


def test_a_steady_growth_by_five_beside_a_loss_that_rises_is_a_warning() -> None:
    risen = flat(300) * np.linspace(1, 1.2, 300)
    cell = judge("TP-GRAD-GROWTH", beside_loss(growing(times=5), risen))
    assert level(cell) == (Level.WARN, "steady")
    assert "while loss ends no lower than it began" in prose(cell).message


def test_a_steady_growth_by_five_beside_a_loss_that_may_have_fallen_is_not_judged() -> None:
    lower = flat(300, cv=0.4) * np.linspace(1, 0.9, 300)
    assert skipped(judge("TP-GRAD-GROWTH", beside_loss(growing(times=5), lower))) is Skip.UNDECIDED


@pytest.mark.parametrize("rows", [60, 300])
def test_a_growth_by_two_is_clean(rows: int) -> None:
    one = beside_loss(growing(times=2)[:rows], flat(rows) * np.linspace(1, 1.2, rows))
    assert is_clean(judge("TP-GRAD-GROWTH", one))


def test_growth_without_a_loss_is_not_judged() -> None:
    one = view(series("grad_norm", growing().tolist()))
    assert skipped(judge("TP-GRAD-GROWTH", one)) is Skip.NEED_ABSENT


# --- constant -----------------------------------------------------------------------------------


def test_a_norm_that_never_changes_beside_an_idle_loss_is_a_warning() -> None:
    cell = judge("TP-GRAD-CONSTANT", beside_loss(np.full(60, 0.987654), flat(60)))
    assert level(cell) == (Level.WARN, "idle")


def test_a_norm_logged_after_clipping_is_a_note_while_the_loss_falls() -> None:
    one = view(
        series("grad_norm", [1.0] * 60),
        series("loss", learning(60).tolist()),
        facts=Facts(max_grad_norm=1.0),
    )
    cell = judge("TP-GRAD-CONSTANT", one)
    assert level(cell) == (Level.INFO, "")
    assert prose(cell).evidence.endswith("the declared clipping norm is 1.0.")


def test_a_norm_printed_coarsely_is_not_judged() -> None:
    cell = judge("TP-GRAD-CONSTANT", beside_loss(np.full(60, 0.3), flat(60)))
    assert skipped(cell) is Skip.LOW_POWER


def test_a_norm_of_zero_is_judged_elsewhere() -> None:
    cell = judge("TP-GRAD-CONSTANT", beside_loss(np.zeros(60), flat(60)))
    assert skipped(cell) is Skip.LOW_POWER
