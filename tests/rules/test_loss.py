from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
import pytest

from trainproof.model.data import (
    Direction,
    Floats,
    Identity,
    Regime,
    Rewind,
    Role,
    RunView,
    Series,
    Split,
)
from trainproof.model.outcome import Level, Skip
from trainproof.rules.examples import falling, series, view

from .curves import flat, learning, noise
from .judging import is_clean, judge, level, measured, prose, skipped


def loss(values: Floats | list[float], steps: range | None = None) -> Series:
    return series("loss", np.asarray(values).tolist(), steps)


def named(tag: str, values: Floats, component: str | None = None) -> Series:
    identity = Identity(Role.LOSS, tag, component=component, direction=Direction.LOWER)
    return series(tag, values.tolist(), identity=identity)


# --- TP-ZERO-LOSS ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gradient", "beside"),
    [(None, "not logged"), ([0.0] * 20, "zero"), ([math.nan] * 20, "not finite")],
)
def test_a_loss_of_zero_fails_unless_the_gradients_are_positive(
    gradient: list[float] | None, beside: str
) -> None:
    members = [loss([0.0] * 20)] + ([series("grad_norm", gradient)] if gradient else [])
    cell = judge("TP-ZERO-LOSS", view(*members))
    assert level(cell) == (Level.FAIL, "")
    assert cell.hits[0].evidence.measured["beside"] == beside


def test_zero_beside_positive_gradients_is_rounding() -> None:
    one = view(loss([0.0] * 20), series("grad_norm", [0.02] * 20))
    cell = judge("TP-ZERO-LOSS", one)
    assert level(cell) == (Level.INFO, "rounded")
    assert "grad_norm shows that the loss is small" in prose(cell).message


def test_zero_beside_a_high_training_accuracy_is_rounding() -> None:
    assert level(
        judge("TP-ZERO-LOSS", view(loss([0.0] * 20), series("accuracy", [0.99] * 20)))
    ) == (Level.INFO, "rounded")


def test_zero_beside_an_accuracy_of_zero_fails() -> None:
    """Every target is masked."""
    assert level(judge("TP-ZERO-LOSS", view(loss([0.0] * 20), series("accuracy", [0.0] * 20)))) == (
        Level.FAIL,
        "",
    )


def test_a_zero_component_beside_another_is_a_note() -> None:
    one = view(
        named("a_loss", np.zeros(20), component="a"), named("b_loss", learning(20), component="b")
    )
    assert level(judge("TP-ZERO-LOSS", one)) == (Level.INFO, "component")


@pytest.mark.parametrize("regime", [Regime.REINFORCEMENT, Regime.ADVERSARIAL])
def test_a_loss_that_is_zero_by_construction_is_out_of_scope(regime: Regime) -> None:
    one = view(loss([0.0] * 20), regime=regime)
    for rule in ("TP-ZERO-LOSS", "TP-ZERO-LOSS-ONSET", "TP-FLAT", "TP-DIVERGE", "TP-DEAD-RUN"):
        assert skipped(judge(rule, one)) is Skip.REGIME


def test_a_few_zero_rows_are_clean_and_counted() -> None:
    """Batches without a target."""
    cell = judge("TP-ZERO-LOSS", view(loss([1.0, 0.0, 0.9, 0.0, 0.8])))
    assert is_clean(cell)
    assert measured(cell) == {"points": 5, "zeros": 2}


# --- TP-ZERO-LOSS-ONSET --------------------------------------------------------------------------


def onset(values: list[float], gradient: list[float] | None = None) -> RunView:
    return view(loss(values), *([series("grad_norm", gradient)] if gradient else []))


def test_an_abrupt_zero_that_stays_fails() -> None:
    cell = judge("TP-ZERO-LOSS-ONSET", onset(falling(20, 4, 2) + [0.0] * 5))
    assert level(cell) == (Level.FAIL, "")
    assert cell.hits[0].evidence.where.first_step == 21
    assert cell.hits[0].evidence.measured["tail"] == 5


def test_four_zeros_or_zeros_that_end_are_clean() -> None:
    assert is_clean(judge("TP-ZERO-LOSS-ONSET", onset(falling(20) + [0.0] * 4)))
    assert is_clean(judge("TP-ZERO-LOSS-ONSET", onset(falling(20) + [0.0] * 9 + [1.0])))


def test_a_loss_that_sinks_below_its_printed_unit_is_a_note() -> None:
    printed = [round(v, 4) for v in (1.0 * 0.8**i for i in range(60))]
    assert printed[-5:] == [0.0] * 5
    assert level(judge("TP-ZERO-LOSS-ONSET", onset(printed))) == (Level.INFO, "below-print")


def test_a_loss_that_decays_to_a_hundredth_before_zero_is_a_note() -> None:
    """A margin that is met everywhere."""
    values = [math.exp(-i / 4) for i in range(30)] + [0.0] * 10
    assert level(judge("TP-ZERO-LOSS-ONSET", onset(values))) == (Level.INFO, "below-print")


def test_a_loss_that_comes_down_to_zero_step_by_step_is_a_warning() -> None:
    """A margin that is met a little better with each epoch."""
    values = [1.0 - i / 30 for i in range(30)] + [0.0] * 50
    cell = judge("TP-ZERO-LOSS-ONSET", onset(values))
    assert level(cell) == (Level.WARN, "reached")
    assert measured(cell)["last"] == pytest.approx(1 / 30)
    assert level(judge("TP-ZERO-LOSS-ONSET", onset(values, [0.0] * 80))) == (Level.WARN, "reached")
    lost = onset(values, [1.0] * 30 + [math.nan] * 50)
    assert level(judge("TP-ZERO-LOSS-ONSET", lost)) == (Level.FAIL, "")
    early = [1.0 - i / 30 for i in range(20)] + [0.0] * 50
    assert level(judge("TP-ZERO-LOSS-ONSET", onset(early))) == (Level.FAIL, "")


def test_zero_beside_positive_gradients_is_a_note_and_beside_nan_a_failure() -> None:
    values = falling(20, 4, 2) + [0.0] * 10
    positive = onset(values, [1.0] * 30)
    assert level(judge("TP-ZERO-LOSS-ONSET", positive)) == (Level.INFO, "below-print")
    broken = onset(values, [1.0] * 20 + [math.nan] * 10)
    assert level(judge("TP-ZERO-LOSS-ONSET", broken)) == (Level.FAIL, "")


# --- TP-FLAT -----------------------------------------------------------------------------------


def test_a_noisy_loss_that_freezes_fails() -> None:
    values = [*learning(100).tolist(), *([1.0625] * 25)]
    cell = judge("TP-FLAT", view(loss(values)))
    assert level(cell) == (Level.FAIL, "")
    assert cell.hits[0].evidence.where.first_step == 101
    assert cell.hits[0].evidence.measured["frozen"] == 25


def test_nineteen_equal_rows_are_clean() -> None:
    assert is_clean(judge("TP-FLAT", view(loss([*learning(100).tolist(), *([1.0625] * 19)]))))


def test_two_alternating_values_are_frozen_too() -> None:
    values = [*learning(100).tolist(), *([1.0625, 1.0626] * 15)]
    assert level(judge("TP-FLAT", view(loss(values)))) == (Level.FAIL, "")


def test_one_value_throughout_fails_where_it_is_printed_finely() -> None:
    assert level(judge("TP-FLAT", view(loss([2.302585] * 40)))) == (Level.FAIL, "always")
    coarse = judge("TP-FLAT", view(loss([0.02] * 40)))
    assert skipped(coarse) is Skip.LOW_POWER


def test_a_loss_at_the_end_of_single_precision_is_not_frozen() -> None:
    falls = np.exp(-np.arange(60) / 4) * np.exp(0.4 * noise(60))
    values = np.maximum(falls, 2.0**-23).tolist() + [2.0**-23] * 30
    assert skipped(judge("TP-FLAT", view(loss(values)))) is Skip.LOW_POWER


def test_a_loss_that_quietens_down_to_its_printed_digits_is_not_frozen() -> None:
    """Full-batch training with a decayed learning rate."""
    values = [round(0.5 + 0.4 * math.exp(-i / 8), 4) for i in range(150)]
    assert len(set(values[-40:])) <= 2
    assert skipped(judge("TP-FLAT", view(loss(values)))) is Skip.LOW_POWER


def test_a_loss_that_half_precision_holds_is_not_frozen_between_two_of_its_numbers() -> None:
    """Computed in bfloat16, with less noise than the distance of its numbers."""
    fallen = 2.117 + 1.8 * np.exp(-np.arange(400) / 40)
    noisy = fallen + np.random.default_rng(3).normal(0, 4e-3, 400)
    values = np.ldexp(np.rint(np.ldexp(noisy, 6)), -6).tolist()  # those of 2 to 4
    assert len(set(values[-40:])) == 2
    assert skipped(judge("TP-FLAT", view(loss(values)))) is Skip.LOW_POWER


@pytest.mark.parametrize("count", [1, 2, 10])
def test_a_few_equal_rows_are_not_judged(count: int) -> None:
    assert skipped(judge("TP-FLAT", view(loss([1.5] * count)))) is Skip.NEED_TOO_SHORT


def test_zero_is_left_to_the_rules_for_zero() -> None:
    assert is_clean(judge("TP-FLAT", view(loss(falling(30) + [0.0] * 30))))


# --- TP-DIVERGE --------------------------------------------------------------------------------


def diverged(count: int = 200, cv: float = 0.03) -> Floats:
    """Down to 1, then up to 5 over the last 30 %."""
    values = learning(count, cv=cv)
    begin = int(0.7 * count)
    values[begin:] += 4 * np.linspace(0, 1, count - begin)
    return values


@pytest.mark.parametrize("count", [30, 60, 200, 3_000])
def test_a_loss_that_gives_its_progress_back_fails_at_any_length(count: int) -> None:
    cell = judge("TP-DIVERGE", view(loss(diverged(count))))
    assert level(cell) == (Level.FAIL, "")
    numbers = cell.hits[0].evidence.measured
    assert isinstance(numbers["gave_back"], float)
    assert numbers["gave_back"] > 0.5


def test_a_run_that_explodes_at_once_and_settles_far_above_its_start_fails() -> None:
    values = np.concatenate(([1.4, 1.3], 7.6 + 16 * np.exp(-np.arange(58) / 4)))
    values *= 1 + 0.02 * noise(60)
    assert level(judge("TP-DIVERGE", view(loss(values)))) == (Level.FAIL, "")


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("shift", [0.0, -2.0, -50.0, -1e4])
def test_negative_losses_and_other_units_make_no_difference(scale: float, shift: float) -> None:
    moved = view(loss(scale * (diverged() + shift)))
    assert level(judge("TP-DIVERGE", moved)) == (Level.FAIL, "")
    kept = view(loss(scale * (learning(200) + shift)))
    assert skipped(judge("TP-DIVERGE", kept)) in (None, Skip.LOW_POWER)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("count", [20, 60, 200, 3_000])
@pytest.mark.parametrize("cv", [0.05, 0.2, 0.4])
def test_noise_alone_never_fires_at_any_length(seed: int, count: int, cv: float) -> None:
    """A last point against a lowest point fires on most of these."""
    values = learning(count, cv=cv, seed=seed)
    for rule in ("TP-DIVERGE", "TP-DEAD-RUN", "TP-LOSS-SPIKE"):
        assert not judge(rule, view(loss(values))).hits


def remembering(count: int, rho: float, seed: int) -> Floats:
    shocks = math.sqrt(1 - rho * rho) * noise(count, seed)
    return np.array(list(accumulate(shocks.tolist(), lambda x, e: rho * x + e)))


@pytest.mark.parametrize("rho", [0.7, 0.9])
@pytest.mark.parametrize("count", [80, 200])
def test_noise_that_remembers_never_fires(count: int, rho: float) -> None:
    for seed in range(40):
        one = view(loss(2 * (1 + 0.1 * remembering(count, rho, seed))))
        assert not any(h.level is Level.FAIL for h in judge("TP-DIVERGE", one).hits)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("count", [40, 80, 200, 1000])
def test_a_divergence_is_seen_through_noise_that_remembers(count: int, rho: float) -> None:
    half = count // 2
    curve = np.concatenate((learning(half, 4, 1.5, 0), np.linspace(1.5, 3.5, count - half)))
    one = view(loss(curve * (1 + 0.01 * remembering(count, rho, 5))))
    assert level(judge("TP-DIVERGE", one)) == (Level.FAIL, "")


def test_a_rise_that_is_little_more_than_wandering_is_a_warning() -> None:
    curve = np.where(np.arange(80) < 48, learning(80, 4, 1.2, 0), 3.2)
    one = view(loss(curve * (1 + 0.1 * noise(80, 2))))
    cell = judge("TP-DIVERGE", one)
    assert level(cell) == (Level.WARN, "wandering")
    assert float(cell.hits[0].evidence.measured["errors"]) > 6
    assert "strays by" in prose(cell).evidence


def sunk(level: float, cv: float = 0.5) -> Floats:
    """A fall from 3 to 1 in the first half, another level in the second, in heavy noise."""
    first, second = learning(100, 3, 1, cv=cv), level * (1 + cv * noise(100, seed=3))
    return np.abs(np.concatenate([first, second]))


def test_a_rise_that_noise_hides_in_single_blocks_is_a_warning_by_ranks() -> None:
    cell = judge("TP-DIVERGE", view(loss(sunk(2.5))))
    assert level(cell) == (Level.WARN, "by-ranks")
    assert prose(cell).message.startswith("loss ended higher than it had been: its median was 1.")


@pytest.mark.parametrize("end", [1.0, 1.2])
def test_quarters_that_do_not_rise_by_half_are_no_warning(end: float) -> None:
    assert not judge("TP-DIVERGE", view(loss(sunk(end)))).hits


def test_a_held_out_loss_that_fell_outweighs_ranks() -> None:
    held_out = series("eval_loss", learning(20, 3, 1).tolist(), range(10, 201, 10))
    assert not judge("TP-DIVERGE", view(loss(sunk(2.5)), held_out)).hits


def test_a_learning_rate_that_restarts_late_explains_what_ranks_show() -> None:
    rates = series("learning_rate", [*np.linspace(1, 0.1, 180), *np.linspace(1, 0.9, 20)])
    assert not judge("TP-DIVERGE", view(loss(sunk(2.5)), rates)).hits


def exploded() -> Floats:
    """The first row is of the model as it was; then the loss jumps and comes half-way back."""
    return np.concatenate([[1.0], 2 + 20 * 0.95 ** np.arange(120)]) * (1 + 0.1 * noise(121))


def test_a_loss_that_never_comes_back_to_its_first_value_is_a_warning() -> None:
    cell = judge("TP-DIVERGE", view(loss(exploded())))
    assert level(cell) == (Level.WARN, "above-the-first")
    assert prose(cell).message.startswith("loss never came back to where it began: its first value")


@pytest.mark.parametrize(("factor", "fires"), [(0.4, False), (1.5, True)])
def test_evaluations_below_the_first_value_outweigh_it(factor: float, fires: bool) -> None:
    held_out = series("eval_loss", [factor * exploded()[0]] * 4, range(30, 121, 30))
    assert bool(judge("TP-DIVERGE", view(loss(exploded()), held_out)).hits) is fires


def test_a_first_value_far_below_what_came_at_once_is_no_easy_batch() -> None:
    values = np.concatenate([[0.72], (2 + 30 * 0.93 ** np.arange(120)) * np.exp(0.3 * noise(120))])
    assert level(judge("TP-DIVERGE", view(loss(values)))) == (Level.WARN, "above-the-first")


def test_a_first_batch_that_was_an_easy_one_is_no_level() -> None:
    """Tuning a denoiser, a few examples a step: a quarter of all first rows lie so low."""
    values = np.concatenate([[0.2], 0.38 * np.exp(0.35 * noise(120))])
    assert not judge("TP-DIVERGE", view(loss(values))).hits


def test_a_loss_that_came_back_below_its_first_value_is_no_warning() -> None:
    values = exploded()
    values[60:70] = 0.8
    assert not judge("TP-DIVERGE", view(loss(values))).hits


def test_heavy_tails_never_fire() -> None:
    values = learning(3_000, cv=0.1)
    values[::97] *= 4
    assert not judge("TP-DIVERGE", view(loss(values))).hits


def test_a_single_lucky_batch_does_not_set_the_best_level() -> None:
    values = learning(400, last=2.8)
    values[300] = 0.9
    assert is_clean(judge("TP-DIVERGE", view(loss(values))))


def test_a_loss_that_multiplied_fails_although_its_end_is_noisy() -> None:
    values = np.concatenate((flat(5, 2.0), 20.0 * np.exp(0.3 * noise(75, seed=1))))
    cell = judge("TP-DIVERGE", view(loss(values)))
    assert level(cell) == (Level.FAIL, "")
    assert measured(cell)["form"] == "ratios"


@pytest.mark.parametrize("cv", [0.3, 0.6, 1.0])
def test_heavy_noise_without_a_rise_is_no_divergence(cv: float) -> None:
    spread = np.exp(cv * noise(80))
    assert not judge("TP-DIVERGE", view(loss(2.0 * spread))).hits


def test_one_quantum_of_rounding_is_no_divergence() -> None:
    values = [round(v, 4) for v in (0.6 * math.exp(-i / 12) for i in range(120))]
    values[-40:] = [0.0001] * 20 + [0.0002] * 20
    assert not judge("TP-DIVERGE", view(loss(values))).hits


def averaged(values: np.ndarray, share: float = 0.95) -> np.ndarray:
    """The running average that a progress bar shows, from the first value on."""
    shown = [float(values[0])]
    for value in values[1:].tolist():
        shown.append(share * shown[-1] + (1 - share) * value)
    return np.array(shown)


def test_an_average_that_leaves_a_lucky_first_batch_is_no_divergence() -> None:
    """The fine-tuning of a model that had converged: its loss is level."""
    lucky = flat(120, 0.42, 0.25)
    lucky[0] = 0.2
    assert not judge("TP-DIVERGE", view(loss(averaged(lucky)))).hits
    exploded = 2.0 + 8.0 * (1 - np.exp(-np.arange(120) / 12)) * (1 + 0.3 * noise(120))
    assert level(judge("TP-DIVERGE", view(loss(averaged(exploded, 0.8))))) == (Level.FAIL, "")
    grown = np.concatenate((lucky[:20], 0.42 + 0.05 * np.arange(100)))
    assert level(judge("TP-DIVERGE", view(loss(averaged(grown))))) == (Level.FAIL, "")


def test_a_total_that_rose_while_a_part_of_it_fell_is_a_warning() -> None:
    """The weight of the divergence is raised from 0 to 1, as variational autoencoders do."""
    weight = np.minimum(np.arange(200) / 100, 1)
    part = learning(200, 3.0, 1.0)
    total = part + weight * 4 * (1 + 0.02 * noise(200))
    both = view(loss(total), series("loss_mel", part.tolist()))
    assert level(judge("TP-DIVERGE", both)) == (Level.WARN, "part-at-best")
    little = view(loss(total), series("loss_mel", (part / 100).tolist()))
    assert level(judge("TP-DIVERGE", little)) == (Level.FAIL, "")


def test_a_total_that_stands_while_a_part_of_it_falls_is_a_warning() -> None:
    """A vector-quantised autoencoder: it reconstructs better, and its codes move further away."""
    part = learning(200, 2.0, 1.0)
    both = view(loss(4.0 + 0.01 * noise(200)), series("loss_mel", part.tolist()))
    assert level(judge("TP-DEAD-RUN", both)) == (Level.WARN, "contradicted")


def test_a_loss_that_sinks_below_its_last_digit_is_not_flat() -> None:
    """A few examples learned by heart, printed with four decimals."""
    shown = [round(v, 4) for v in 0.05 * np.exp(-np.arange(60) / 9) * (1 + 0.3 * noise(60))]
    sunk = [*shown, *([0.0001] * 30)]
    assert not judge("TP-FLAT", view(loss(np.array(sunk)))).hits
    stuck = [*(learning(60, 4.0, 1.0, 0.05)).round(4).tolist(), *([1.0211] * 30)]
    assert judge("TP-FLAT", view(loss(np.array(stuck)))).hits


def test_a_test_of_learning_rates_is_no_training() -> None:
    """Up to 30 in equal amounts: it ends where the loss explodes."""
    rates = [1e-5 + 0.3 * i for i in range(100)]
    exploding = np.concatenate((learning(30, 1.4, 0.9), np.geomspace(0.9, 140, 70)))
    idle = np.concatenate((flat(50, 1.4), np.geomspace(1.4, 1.7, 50)))
    for values in (exploding, idle):
        lr = series("learning_rate", rates)
        for id in ("TP-DIVERGE", "TP-DEAD-RUN"):
            assert not judge(id, view(loss(values), lr)).hits
    constant = series("learning_rate", [1e-3] * 100)
    assert judge("TP-DIVERGE", view(loss(exploding), constant)).hits
    assert judge("TP-DEAD-RUN", view(loss(idle), constant)).hits


def test_stair_steps_at_epoch_boundaries_are_clean() -> None:
    values = np.repeat([3.0, 2.2, 1.7, 1.4, 1.2], 60) * (1 + 0.02 * noise(300))
    assert is_clean(judge("TP-DIVERGE", view(loss(values))))
    assert is_clean(judge("TP-LOSS-SPIKE", view(loss(values))))


def test_a_plateau_before_the_fall_is_clean() -> None:
    """A transcription model that emits blanks for the first half."""
    values = np.concatenate((flat(50, 0.693, 0.001), learning(40, 0.69, 0.4)))
    assert is_clean(judge("TP-DIVERGE", view(loss(values))))
    assert is_clean(judge("TP-DEAD-RUN", view(loss(values))))


def test_a_fifth_of_the_progress_given_back_is_a_warning() -> None:
    values = learning(400, first=11, last=3.3, cv=0.005)
    values[280:] += 2.2
    cell = judge("TP-DIVERGE", view(loss(values)))
    assert level(cell) == (Level.WARN, "partial")
    assert not judge("TP-DIVERGE", view(loss(values)), partial=0.4).hits


def test_a_held_out_loss_at_its_best_lowers_the_level_and_is_cited() -> None:
    held_out = series("eval_loss", [4.9, 4.0, 3.4, 3.0, 2.8, 2.6], range(33, 201, 33))
    cell = judge("TP-DIVERGE", view(loss(diverged()), held_out))
    assert level(cell) == (Level.WARN, "held-out-at-best")
    assert "eval_loss went from 4.9 to 2.6, its best was 2.6" in prose(cell).evidence


def test_a_held_out_metric_at_its_best_lowers_the_level() -> None:
    accuracy = series("eval_accuracy", [0.2, 0.5, 0.7, 0.8], range(50, 201, 50))
    cell = judge("TP-DIVERGE", view(loss(diverged()), accuracy))
    assert level(cell) == (Level.WARN, "held-out-at-best")


@pytest.mark.parametrize(
    "held_out",
    [
        [4.9, 3.0, 2.6, 5.5],  # rose as well
        [4.9, 2.6],  # two evaluations are no curve
    ],
)
def test_a_held_out_loss_that_does_not_contradict_changes_nothing(held_out: list[float]) -> None:
    steps = range(200 // len(held_out), 201, 200 // len(held_out))
    one = view(loss(diverged()), series("eval_loss", held_out, steps))
    assert level(judge("TP-DIVERGE", one)) == (Level.FAIL, "")


def test_held_out_values_that_begin_after_the_best_step_contradict_nothing() -> None:
    """They were all measured on the way down from the explosion."""
    exploded = np.concatenate(([1.4, 1.3], 7.6 + 16 * np.exp(-np.arange(58) / 4)))
    one = view(loss(exploded), series("eval_loss", [20.0, 12.0, 9.0, 8.0], [10, 20, 40, 60]))
    assert level(judge("TP-DIVERGE", one)) == (Level.FAIL, "")


def test_held_out_values_from_before_the_best_step_contradict_nothing() -> None:
    one = view(loss(diverged()), series("eval_loss", [4.9, 4.0, 3.0], [10, 20, 30]))
    assert level(judge("TP-DIVERGE", one)) == (Level.FAIL, "")


def test_a_held_out_loss_alone_is_judged_as_a_warning() -> None:
    identity = Identity(Role.LOSS, "loss", Split.EVAL, direction=Direction.LOWER)
    one = view(series("eval_loss", diverged().tolist(), identity=identity))
    assert level(judge("TP-DIVERGE", one)) == (Level.WARN, "held-out-only")


def test_a_component_that_rises_beside_one_that_falls_is_a_note() -> None:
    """The divergence term of a variational autoencoder rises by design."""
    one = view(
        named("kl_loss", 20 - learning(200), component="kl"),
        named("rec_loss", learning(200), component="rec"),
    )
    assert level(judge("TP-DIVERGE", one)) == (Level.INFO, "component")


def test_components_that_all_diverge_fail() -> None:
    one = view(
        named("a_loss", diverged(), component="a"), named("b_loss", diverged(), component="b")
    )
    assert {hit.level for hit in judge("TP-DIVERGE", one).hits} == {Level.FAIL}


def test_components_are_not_judged_beside_a_total() -> None:
    one = view(loss(learning(200)), named("kl_loss", diverged(), component="kl"))
    assert is_clean(judge("TP-DIVERGE", one))


def test_a_restart_of_the_learning_rate_near_the_end_suspends_the_rule() -> None:
    cosine = [1 + math.cos(math.pi * (i % 85) / 85) for i in range(200)]
    rate = series("learning_rate", [1e-4 * v for v in cosine])
    assert skipped(judge("TP-DIVERGE", view(loss(diverged()), rate))) is Skip.UNDECIDED
    decay = series("learning_rate", [1e-4 * (1 - i / 200) for i in range(200)])
    assert level(judge("TP-DIVERGE", view(loss(diverged()), decay))) == (Level.FAIL, "")


def test_short_series_are_clean_when_they_fall_and_never_fail() -> None:
    assert is_clean(judge("TP-DIVERGE", view(loss(falling(8)))))
    turned = [*falling(8), 3.0, 3.5, 4.0, 4.5]
    assert skipped(judge("TP-DIVERGE", view(loss(turned)))) is Skip.LOW_POWER


def test_flat_noise_gives_no_grounds() -> None:
    assert skipped(judge("TP-DIVERGE", view(loss(flat(200))))) is Skip.LOW_POWER


def test_drift_without_progress_before_it_is_no_divergence() -> None:
    values = flat(2_000, cv=0.01) * np.linspace(1, 1.01, 2_000)
    assert not judge("TP-DIVERGE", view(loss(values))).hits


# --- TP-DEAD-RUN -------------------------------------------------------------------------------


def test_a_flat_loss_measured_well_fails() -> None:
    cell = judge("TP-DEAD-RUN", view(loss(flat(400))))
    assert level(cell) == (Level.FAIL, "")
    numbers = cell.hits[0].evidence.measured
    assert isinstance(numbers["margin"], float)
    assert numbers["margin"] < 0.05


def test_noise_that_could_hide_a_twentieth_is_not_checked() -> None:
    """Diffusion losses scatter by 40 % and more."""
    cell = judge("TP-DEAD-RUN", view(loss(flat(400, cv=0.4))))
    assert skipped(cell) is Skip.LOW_POWER
    assert "visible" in measured(cell)


def test_quarters_that_exclude_a_fall_are_a_warning() -> None:
    cell = judge("TP-DEAD-RUN", view(loss(flat(200, cv=0.12))))
    assert level(cell) == (Level.WARN, "quarters")
    assert prose(cell).message.startswith("loss does not end measurably below where it began: ")
    assert float(cell.hits[0].evidence.measured["excluded"]) < 0.08


def test_a_loss_that_scatters_by_nature_must_rise() -> None:
    values = flat(400, cv=0.4)
    assert not judge("TP-DEAD-RUN", view(loss(values))).hits
    cell = judge("TP-DEAD-RUN", view(loss(values * np.linspace(1, 1.5, 400))))
    assert level(cell) == (Level.WARN, "quarters")


def test_what_was_learned_in_the_first_rows_is_in_no_quarter() -> None:
    values = np.concatenate([[5.0, 4.0, 3.0], flat(200, cv=0.12)])
    assert not judge("TP-DEAD-RUN", view(loss(values))).hits


def test_medians_of_two_digits_exclude_no_small_fall() -> None:
    values = np.round(flat(200, level=1.2, cv=0.12), 1)
    assert not judge("TP-DEAD-RUN", view(loss(values))).hits


def test_what_diverged_is_not_said_to_have_stood_still_as_well() -> None:
    one = view(loss(diverged()[80:]))
    assert judge("TP-DIVERGE", one).hits
    assert not judge("TP-DEAD-RUN", one).hits


def test_a_sign_of_progress_elsewhere_outweighs_quarters() -> None:
    held_out = series("eval_loss", [2.00, 1.98, 1.97, 1.96, 1.95], range(40, 201, 40))
    assert not judge("TP-DEAD-RUN", view(loss(flat(200, cv=0.12)), held_out)).hits


def test_a_plateau_at_one_value_after_the_first_epoch_fails() -> None:
    values = [2.4013, *(2.302 + 1e-5 * noise(99))]
    assert level(judge("TP-DEAD-RUN", view(loss(values)))) == (Level.FAIL, "")


def test_a_certain_change_that_is_no_change_to_speak_of_fails() -> None:
    values = 0.6937 - 0.0005 * np.arange(91) / 90 + 1e-6 * noise(91)
    assert level(judge("TP-DEAD-RUN", view(loss(values)))) == (Level.FAIL, "")


def test_a_fine_tune_that_gains_two_percent_never_fails() -> None:
    values = learning(300, first=2.75, last=2.69, cv=0.01)
    cell = judge("TP-DEAD-RUN", view(loss(values)))
    assert not cell.hits


def test_a_log_without_its_start_is_not_judged() -> None:
    one = view(loss(flat(400), range(100_000, 140_000, 100)))
    assert skipped(judge("TP-DEAD-RUN", one)) is Skip.START_MISSING


def test_a_running_average_is_not_measured_as_well_as_it_looks() -> None:
    smooth = np.convolve(flat(500, cv=0.6), np.ones(100) / 100, "valid")
    assert not judge("TP-DEAD-RUN", view(loss(smooth))).hits
    accumulated = np.array(list(accumulate(flat(300, cv=0.6)))) / np.arange(1, 301)
    assert not judge("TP-DEAD-RUN", view(loss(accumulated))).hits


def test_a_metric_or_held_out_loss_that_improves_contradicts() -> None:
    """A margin loss stays where it is while the accuracy rises."""
    accuracy = series("accuracy", [0.1 + 0.002 * i for i in range(400)])
    cell = judge("TP-DEAD-RUN", view(loss(flat(400)), accuracy))
    assert level(cell) == (Level.WARN, "contradicted")
    held_out = series("eval_loss", falling(20), range(20, 401, 20))
    cell = judge("TP-DEAD-RUN", view(loss(flat(400)), held_out))
    assert level(cell) == (Level.WARN, "contradicted")
    assert "while eval_loss improved" in prose(cell).message


def test_a_flat_held_out_loss_alone_is_a_warning() -> None:
    assert level(judge("TP-DEAD-RUN", view(series("eval_loss", flat(400).tolist())))) == (
        Level.WARN,
        "held-out-only",
    )


def test_a_loss_that_fell_at_once_is_not_dead() -> None:
    """Denoising and fine-tuning: down within the first rows, then a plateau of noise."""
    values = (0.42 + 0.6 * np.exp(-np.arange(150) / 5)) * (1 + 0.12 * noise(150))
    one = view(loss(values))
    assert is_clean(judge("TP-DEAD-RUN", one))
    assert is_clean(judge("TP-DIVERGE", one))


def test_a_loss_that_does_not_decide_it_is_not_dead_where_the_held_out_one_fell() -> None:
    """A curriculum: each stage begins at a higher loss."""
    stage = learning(60, first=3.4, last=2.4)
    values = np.concatenate((stage, stage, stage))
    held_out = series("eval_loss", falling(10, 3.6, 2.8), range(18, 181, 18))
    assert skipped(judge("TP-DEAD-RUN", view(loss(values)))) is Skip.LOW_POWER
    cell = judge("TP-DEAD-RUN", view(loss(values), held_out))
    assert is_clean(cell)
    assert measured(cell)["other"] == "eval_loss"


def test_preference_tuning_is_out_of_scope() -> None:
    one = view(loss(flat(400, level=0.693)), regime=Regime.PREFERENCE)
    assert skipped(judge("TP-DEAD-RUN", one)) is Skip.REGIME


def test_a_loss_scale_under_a_loss_name_is_not_judged_as_a_loss() -> None:
    scale = [8192.0, 16384.0, 32768.0, 512.0, 1024.0] * 20
    for rule in ("TP-DIVERGE", "TP-DEAD-RUN", "TP-FLAT", "TP-LOSS-SPIKE", "TP-ZERO-LOSS"):
        assert skipped(judge(rule, view(loss([*scale, *scale])))) is Skip.NOT_A_LOSS


@pytest.mark.parametrize("count", [7, 8, 10, 14, 20])
def test_an_unmistakable_fall_gives_grounds_from_seven_points_on(count: int) -> None:
    assert is_clean(judge("TP-DEAD-RUN", view(loss(falling(count)))))


def test_six_points_give_grounds_when_all_fall_and_by_a_third() -> None:
    assert is_clean(judge("TP-DEAD-RUN", view(loss([5.3, 3.6, 2.8, 2.1, 1.7, 1.5]))))
    for values in ([5.3, 5.1, 5.0, 4.9, 4.7, 4.6], [5.3, 2.8, 3.6, 2.1, 1.7, 1.5]):
        assert skipped(judge("TP-DEAD-RUN", view(loss(values)))) is Skip.LOW_POWER


def test_five_points_never_give_grounds() -> None:
    assert skipped(judge("TP-DEAD-RUN", view(loss(falling(5))))) is Skip.LOW_POWER


def test_many_epochs_without_any_progress_are_a_warning() -> None:
    """A loss that oscillates with an accuracy that does."""
    members = (
        loss(flat(60, 0.95, cv=0.08)),
        series("eval_loss", flat(60, 0.9, cv=0.2, seed=3).tolist()),
        series("accuracy", flat(60, 0.52, cv=0.06, seed=4).tolist()),
    )
    cell = judge("TP-DEAD-RUN", view(*members))
    assert level(cell) == (Level.WARN, "no-progress")
    improving = series("eval_accuracy", [0.3 + 0.005 * i for i in range(60)])
    assert skipped(judge("TP-DEAD-RUN", view(*members, improving))) is Skip.LOW_POWER
    sparse = (members[0], series("eval_loss", [0.9] * 6, range(10, 61, 10)))
    assert skipped(judge("TP-DEAD-RUN", view(*sparse))) is Skip.LOW_POWER


def test_ten_points_that_wander_down_give_no_grounds() -> None:
    wandering = [2.0, 2.3, 1.7, 2.1, 1.5, 2.2, 1.9, 1.6, 2.0, 1.7]
    assert skipped(judge("TP-DEAD-RUN", view(loss(wandering)))) is Skip.LOW_POWER


# --- a loss that begins low ---------------------------------------------------------------------


def filling(end: float = 9.0, *, start: float = 6.0, count: int = 60) -> Floats:
    """A queue of negatives fills: the loss rises within a few rows, and then falls slowly."""
    rows = np.arange(count)
    falls = np.linspace(9.6, end, count)
    return falls - (9.6 - start) * np.exp(-rows / 6) + 0.05 * noise(count)


@pytest.mark.parametrize("rule", ["TP-DIVERGE", "TP-DEAD-RUN"])
def test_a_loss_that_begins_low_and_falls_since_is_a_warning(rule: str) -> None:
    cell = judge(rule, view(loss(filling())))
    assert level(cell) == (Level.WARN, "falling-since")
    assert 9.0 < float(measured(cell)["half"]) < 9.6


@pytest.mark.parametrize("rule", ["TP-DIVERGE", "TP-DEAD-RUN"])
def test_one_that_stays_where_it_rose_to_fails(rule: str) -> None:
    assert level(judge(rule, view(loss(filling(9.6))))) == (Level.FAIL, "")


def test_a_start_of_a_quarter_is_no_filling_queue() -> None:
    assert level(judge("TP-DIVERGE", view(loss(filling(start=0.5))))) == (Level.FAIL, "")


# --- TP-LOSS-SPIKE -----------------------------------------------------------------------------


def spiky(runs: dict[int, int], count: int = 1_000, height: float = 3.0) -> Floats:
    values = learning(count, first=3, last=1, cv=0.02)
    for at, length in runs.items():
        values[at : at + length] += height
    return values


def test_a_spike_of_two_rows_warns_and_is_placed() -> None:
    cell = judge("TP-LOSS-SPIKE", view(loss(spiky({400: 2, 700: 4}))))
    assert level(cell) == (Level.WARN, "")
    where, numbers = cell.hits[0].evidence.where, cell.hits[0].evidence.measured
    assert (where.first_step, where.last_step) == (701, 704)
    assert (numbers["runs"], numbers["spikes"], numbers["longest"]) == (2, 6, 4)


def test_single_rows_are_clean_below_one_percent_and_warn_above() -> None:
    rare = {at: 1 for at in range(150, 1_000, 200)}
    assert is_clean(judge("TP-LOSS-SPIKE", view(loss(spiky(rare)))))
    often = {at: 1 for at in range(150, 1_000, 40)}
    assert level(judge("TP-LOSS-SPIKE", view(loss(spiky(often))))) == (Level.WARN, "rate")


def test_spikes_at_the_start_are_clean() -> None:
    assert is_clean(judge("TP-LOSS-SPIKE", view(loss(spiky({20: 10}, 3_000)))))


def test_a_rise_where_the_learning_rate_doubles_is_clean() -> None:
    values = spiky({500: 30})
    rate = [1e-4] * 500 + [1e-3] * 500
    one = view(loss(values), series("learning_rate", rate))
    assert is_clean(judge("TP-LOSS-SPIKE", one))


def test_less_than_150_rows_are_not_judged() -> None:
    one = view(loss(learning(149)))
    assert skipped(judge("TP-LOSS-SPIKE", one)) is Skip.NEED_TOO_SHORT


def test_noise_that_remembers_its_neighbours_is_no_divergence() -> None:
    """Running averages wander: without progress there is nothing to give back."""
    found = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        walk = np.zeros(200)
        for at, shock in enumerate(random.normal(size=200)):
            walk[at] = 0.7 * walk[at - 1] + 0.7141 * shock if at else shock
        judged = judge("TP-DIVERGE", view(series("loss", (2 + 0.1 * walk).tolist())))
        found += any(hit.level is Level.FAIL for hit in judged.hits)
    assert found == 0


def test_a_margin_that_is_mostly_met_does_not_spike() -> None:
    chance = np.random.default_rng(0)
    values = np.maximum(0.0, np.exp(-np.arange(500) / 60) + chance.normal(0, 0.15, 500))
    assert np.median(values[-100:]) == 0.0
    assert is_clean(judge("TP-LOSS-SPIKE", view(loss(values.tolist()))))


# --- TP-LEVEL-SHIFT ------------------------------------------------------------------------------

SHIFT = "TP-LEVEL-SHIFT"


def shifted(by: float, count: int = 400, at: int = 200) -> Floats:
    """A falling loss that is higher by ``by`` from row ``at`` on."""
    return learning(count, 4, 1.5) + by * (np.arange(count) >= at)


def test_a_rise_that_stays_is_a_warning_and_says_where() -> None:
    cell = judge(SHIFT, view(loss(shifted(1.0))))
    assert level(cell) == (Level.WARN, "")
    found = cell.hits[0].evidence.measured
    assert found["at_step"] == 201
    assert (found["stays"], found["blocks"]) == (10, 20)


@pytest.mark.parametrize("seed", range(10))
def test_learning_flat_noise_and_turning_points_are_no_shift(seed: int) -> None:
    turned = np.concatenate((learning(200, 4, 1, seed=seed), np.linspace(1, 3, 200)))
    for values in (learning(400, seed=seed), flat(400, cv=0.2, seed=seed), turned):
        assert is_clean(judge(SHIFT, view(loss(values))))
    wandering = view(loss(2 * (1 + 0.1 * remembering(400, 0.95, seed))))
    assert is_clean(judge(SHIFT, wandering))


def test_a_spike_and_a_fall_are_no_shift() -> None:
    spike = shifted(0.0)
    spike[200:220] += 3
    assert is_clean(judge(SHIFT, view(loss(spike))))
    assert is_clean(judge(SHIFT, view(loss(shifted(-0.8)))))


def test_a_restart_of_the_rate_or_a_resume_explains_it() -> None:
    rate = series("learning_rate", np.where(np.arange(400) < 195, 1e-4, 1e-3).tolist())
    assert skipped(judge(SHIFT, view(loss(shifted(1.0)), rate))) is Skip.UNDECIDED
    resumed = view(loss(shifted(1.0)), rewinds=(Rewind("log.jsonl", 200, 201, True),))
    assert skipped(judge(SHIFT, resumed)) is Skip.UNDECIDED
    elsewhere = view(loss(shifted(1.0)), rewinds=(Rewind("log.jsonl", 50, 51, True),))
    assert level(judge(SHIFT, elsewhere)) == (Level.WARN, "")
