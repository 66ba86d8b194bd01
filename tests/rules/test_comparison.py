"""Runs against baselines: what fails, what is refused, and what must never fail."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.rules.curves import flat, learning
from tests.rules.curves import noise as seeded
from tests.rules.judging import is_clean, judge, level, measured, prose, skipped
from trainproof.model.data import (
    Attempt,
    Axis,
    Column,
    Facts,
    Fault,
    FaultCode,
    Floats,
    Regime,
    RunView,
    Series,
)
from trainproof.model.outcome import Level, Skip, State
from trainproof.model.rule import SubjectKind
from trainproof.rules import REGISTRY
from trainproof.rules.examples import IDENTITIES, beside, falling, series, view
from trainproof.rules.multiples import multiple
from trainproof.rules.pairs import Obstacle, Pair, Unmatched, differences, match

PAIRS = [id for id, rule in REGISTRY.items() if rule.info.subject is SubjectKind.PAIR]
JUDGING = [id for id in PAIRS if REGISTRY[id].info.level in (Level.FAIL, Level.WARN)]


def run(values: Floats | list[float], tag: str = "loss", **facts: object) -> RunView:
    one = series(tag, [float(value) for value in values])
    return view(one, facts=Facts(**facts) if facts else None)  # type: ignore[arg-type]


def against(base: Floats | list[float], values: Floats | list[float]) -> RunView:
    return beside(run(values), run(base))


def fired(one: RunView) -> set[str]:
    return {id for id in JUDGING if judge(id, one).state is State.FIRED}


def refusal(one: RunView) -> str:
    (hit,) = judge("TP-CMP-UNCOMPARABLE", one).hits
    return hit.evidence.variant


# --- matching -----------------------------------------------------------------------------------


def matched(one: Series, other: Series) -> Pair | Unmatched:
    return match(one, view(other))


def paired(one: Series, other: Series) -> Pair:
    found = matched(one, other)
    assert isinstance(found, Pair)
    return found


def test_levels_are_block_medians_over_the_steps_that_both_cover() -> None:
    here = series("loss", [9.0] * 10 + [3.0] * 10 + [1.0] * 10, range(1, 31))
    there = series("loss", [4.0] * 10 + [2.0] * 10, range(11, 31))
    pair = paired(here, there)
    assert (pair.begin, pair.stop, pair.blocks) == (10, 30, 4)
    assert pair.levels.tolist() == [3.0, 3.0, 1.0, 1.0]
    assert pair.base.tolist() == [4.0, 4.0, 2.0, 2.0]


def test_runs_that_log_at_different_intervals_are_compared_block_by_block() -> None:
    dense = series("loss", [float(step) for step in range(100)], range(100))
    sparse = series("loss", [float(step) for step in range(0, 100, 5)], range(0, 100, 5))
    pair = paired(dense, sparse)
    assert pair.blocks == 4
    assert np.abs(pair.levels - pair.base).max() <= 2.5
    turned = paired(sparse, dense)
    assert turned.levels.tolist() == pair.base.tolist()
    assert turned.base.tolist() == pair.levels.tolist()


def test_a_longer_baseline_is_cut_to_the_run() -> None:
    half = learning(200)[:100]
    one = beside(run(half), run(learning(200, seed=3)))
    assert fired(one) == set()
    assert measured(judge("TP-END-RATIO", one))["points"] == 100


@pytest.mark.parametrize(
    ("other", "obstacle"),
    [
        (series("eval_loss", falling(60)), Obstacle.NO_SERIES),
        (series("loss_cls", falling(60)), Obstacle.NO_SERIES),
        (series("loss", falling(60), range(1000, 1060)), Obstacle.STEPS),
        (series("loss", falling(9)), Obstacle.STEPS),
        (series("loss", falling(20)), Obstacle.COVER),
        (series("loss", [*falling(30), math.nan, *falling(29)]), Obstacle.NOT_FINITE),
    ],
)
def test_what_has_no_counterpart_says_why(other: Series, obstacle: Obstacle) -> None:
    found = matched(series("loss", falling(60)), other)
    assert isinstance(found, Unmatched)
    assert found.obstacle is obstacle


def test_epochs_are_not_compared_with_steps() -> None:
    steps = np.arange(60, dtype=np.int64)
    by_epoch = Column("loss", steps, np.array(falling(60)), Axis.EPOCH)
    epochs = Series("log.csv", IDENTITIES["loss"], by_epoch)
    assert refusal(beside(run(falling(60)), view(epochs))) == "axes"


def test_only_declarations_of_the_set_up_count_as_differences() -> None:
    ours = Facts(learning_rate=0.1, seed=1, last_step=10, batch_size=8)
    theirs = Facts(learning_rate=0.2, seed=1, last_step=20, world_size=2)
    assert differences(ours, theirs) == ("learning_rate 0.1, baseline 0.2",)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("obstacle", list(Obstacle))
def test_every_obstacle_has_its_words(obstacle: Obstacle) -> None:
    variants = REGISTRY["TP-CMP-UNCOMPARABLE"].info.variants
    assert (obstacle in variants) != (obstacle is Obstacle.NO_SERIES)  # the main form


def test_a_refusal_names_the_series_and_judges_nothing() -> None:
    one = beside(run(falling(60)), run(falling(9)))
    cell = judge("TP-CMP-UNCOMPARABLE", one)
    assert level(cell) == (Level.INFO, "steps")
    assert "loss and the baseline's loss share too few points" in prose(cell).message
    assert "the run has 9 values" in prose(cell).evidence
    assert skipped(judge("TP-END-RATIO", one)) is Skip.UNCOMPARABLE
    assert fired(one) == set()


def test_the_nearest_miss_speaks_for_several() -> None:
    one = beside(run(falling(60)), run(falling(60), "eval_loss"), run(falling(20)))
    assert refusal(one) == "cover"


def test_one_sound_baseline_of_several_is_enough() -> None:
    broken = replace(run(falling(60, 4, 9)), failed=("TP-DIVERGE",))
    one = beside(run(falling(60)), broken, run(falling(60)))
    assert is_clean(judge("TP-CMP-UNCOMPARABLE", one))
    assert level(judge("TP-BAD-BASELINE", one)) == (Level.INFO, "")
    assert measured(judge("TP-END-RATIO", one))["baselines"] == 1


def test_no_sound_baseline_is_a_refusal() -> None:
    broken = replace(run(falling(60, 4, 9)), failed=("TP-DIVERGE", "TP-NAN"))
    one = beside(run(falling(60)), broken)
    assert refusal(one) == "bad-baseline"
    assert "TP-DIVERGE, TP-NAN" in prose(judge("TP-BAD-BASELINE", one)).message


def test_a_baseline_that_could_not_be_read_is_a_refusal() -> None:
    lost = RunView("b", faults=(Fault(FaultCode.CRASHED, "log", "SIGSEGV", fatal=True),))
    assert refusal(beside(run(falling(60)), lost)) == "unreadable"


@pytest.mark.parametrize("regime", [Regime.REINFORCEMENT, Regime.ADVERSARIAL])
def test_losses_that_measure_no_progress_are_not_compared(regime: Regime) -> None:
    one = replace(against(falling(60), falling(60, 40, 30)), regime=regime)
    assert refusal(one) == "regime"
    assert fired(one) == set()


# --- healthy pairs ------------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("count", [20, 60, 400, 3000])
def test_two_seeds_of_one_training_never_fail(count: int, cv: float) -> None:
    for seed in range(10):
        base, other = (learning(count, cv=cv, seed=2 * seed + k) for k in (0, 1))
        assert fired(against(base, other)) == set()


@pytest.mark.parametrize("shift", [-2.0, -4.0])
def test_two_seeds_of_a_loss_that_crosses_zero_never_fail(shift: float) -> None:
    for seed in range(10):
        base, other = (learning(200, seed=2 * seed + k) + shift for k in (0, 1))
        one = against(base, other)
        assert fired(one) == set()
        assert is_clean(judge("TP-END-RATIO", one))


def test_two_converged_losses_of_a_thousandth_do_not_differ() -> None:
    def converged(last: float, seed: int) -> Floats:
        return np.concatenate((learning(200, 2.3, last, seed=seed), flat(100, last, seed=seed)))

    one = against(converged(0.001, 1), converged(0.003, 2))
    assert float(measured(judge("TP-END-RATIO", one))["ratio"]) > 2
    assert fired(one) == set()


def test_a_ratio_that_is_a_third_of_the_fall_warns() -> None:
    one = against(learning(300, 0.6, 0.1, cv=0.01), learning(300, 0.6, 0.26, cv=0.01, seed=5))
    for rule in ("TP-FLOOR-RATIO", "TP-END-RATIO"):
        assert level(judge(rule, one)) == (Level.WARN, "partial")


def test_a_run_that_is_better_passes() -> None:
    one = against(learning(100, 4, 2), learning(100, 4, 0.5, seed=2))
    assert fired(one) == set()
    assert level(judge("TP-CMP-PASS", one)) == (Level.INFO, "")


def test_a_slow_noisy_fine_tune_is_undecided_rather_than_failed() -> None:
    base, idle = learning(60, 1.4, 1.1, cv=0.07), flat(60, 1.4, cv=0.09, seed=4)
    one = against(base, idle)
    assert fired(one) == set()
    assert is_clean(judge("TP-CMP-PASS", one))  # the statement is not made


# --- what fails ---------------------------------------------------------------------------------


def test_a_floor_five_times_as_high_fails_and_names_both_series() -> None:
    one = against(learning(100, 2, 1), learning(100, 18, 5, seed=2))
    assert {"TP-FLOOR-RATIO", "TP-END-RATIO"} <= fired(one)
    said = prose(judge("TP-END-RATIO", one))
    assert "the baseline's loss" in said.evidence
    assert "steps 1 to 100" in said.evidence


def test_a_run_that_diverged_late_fails_at_the_end_only() -> None:
    late = [*falling(80, 4.0, 1.0), *([9.0] * 20)]
    one = against(falling(100, 4.0, 1.0), late)
    assert "TP-END-RATIO" in fired(one)
    assert "TP-FLOOR-RATIO" not in fired(one)


def test_losses_below_zero_are_compared_by_distance() -> None:
    base, stuck = learning(200) - 3, learning(200, 4, 3.8, seed=2) - 3
    one = against(base, stuck)
    assert level(judge("TP-END-RATIO", one)) == (Level.FAIL, "distance")
    assert "TP-IMPROVE-DEFICIT" in fired(one)


def test_a_shift_of_both_changes_no_difference() -> None:
    for shift in (0.0, 10.0, -10.0):
        one = against(learning(200) + shift, learning(200, 4, 3.8, seed=2) + shift)
        assert "TP-IMPROVE-DEFICIT" in fired(one)


def test_a_loss_that_rises_where_the_baseline_falls_fails_once() -> None:
    one = against(learning(100), learning(100, 4, 6, seed=2))
    assert "TP-NEG-IMPROVE" in fired(one)
    assert skipped(judge("TP-IMPROVE-DEFICIT", one)) is Skip.UNDECIDED


def test_a_run_that_starts_lower_has_less_to_gain() -> None:
    one = against(learning(100, 4, 1), learning(100, 1.2, 1.0, seed=2))
    assert fired(one) == set()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_run_that_ends_not_finite_fails_against_a_finite_baseline(value: float) -> None:
    one = against(falling(60), [*falling(40), *([value] * 20)])
    assert level(judge("TP-END-RATIO", one)) == (Level.FAIL, "not-finite")
    assert skipped(judge("TP-FLOOR-RATIO", one)) is Skip.NOT_FINITE


def test_one_value_that_is_not_finite_in_between_is_undecided() -> None:
    values = falling(60)
    values[30] = math.nan
    assert skipped(judge("TP-END-RATIO", against(falling(60), values))) is Skip.NOT_FINITE


def test_of_several_baselines_the_run_must_be_worse_than_every_one() -> None:
    poor, good = run(learning(100, 8, 5)), run(learning(100, 4, 1, seed=2))
    bad = run(learning(100, 8, 5.2, seed=3))
    assert fired(beside(bad, good)) >= {"TP-END-RATIO"}
    assert "TP-END-RATIO" not in fired(beside(bad, good, poor))


def test_an_execution_that_a_later_one_replaced_only_warns() -> None:
    old = Attempt(0, (series("loss", [*falling(60, 8, 6)]),), superseded=True)
    one = beside(view(series("loss", falling(80)), earlier=[old]), run(falling(80)))
    (hit,) = judge("TP-END-RATIO", one).hits
    assert (hit.level, hit.superseded) == (Level.WARN, True)


# --- a multiple ---------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_a_loss_summed_over_accumulation_steps_is_named(factor: int) -> None:
    base = run(learning(300), grad_accumulation=1)
    summed = run(factor * learning(300, seed=5), grad_accumulation=factor)
    cell = judge("TP-LOSS-SCALED", beside(summed, base))
    assert level(cell) == (Level.FAIL, "")
    assert f"{factor} times the baseline's all along" in prose(cell).message
    assert "the gradient accumulation of the run" in prose(cell).message
    assert fired(beside(summed, base)) == {"TP-LOSS-SCALED"}


def test_a_fraction_is_named_too_and_a_product_of_two_values() -> None:
    base = run(learning(300), grad_accumulation=4, world_size=2)
    part = run(learning(300, seed=5) / 8)
    cell = judge("TP-LOSS-SCALED", beside(part, base))
    assert level(cell) == (Level.FAIL, "")
    assert "world size times gradient accumulation of the baseline" in prose(cell).message
    assert "that part of it" in prose(cell).message


def apart(factor: float, first: float = 1.0) -> tuple[Floats, Floats]:
    """A baseline and a run that begins at a multiple of it, and goes its own way soon."""
    base = learning(300)
    values = factor * learning(300, last=0.3, seed=5)
    values[:3] = factor * base[:3]
    values[0] *= first
    return base, values


@pytest.mark.parametrize(("factor", "words"), [(4.0, "multiple"), (0.125, "part")])
def test_a_run_that_begins_at_a_multiple_is_a_warning(factor: float, words: str) -> None:
    base, values = apart(factor)
    cell = judge("TP-LOSS-SCALED", against(base, values))
    assert level(cell) == (Level.WARN, "opening")
    assert f"(that {words} of it), on each of its first" in prose(cell).message


@pytest.mark.parametrize(("factor", "words"), [(4.0, "multiple"), (0.125, "part")])
def test_a_first_value_that_is_exactly_a_multiple_is_a_warning(factor: float, words: str) -> None:
    base, values = learning(300), factor * learning(300, last=0.3, seed=5)
    values[0] = factor * base[0]
    cell = judge("TP-LOSS-SCALED", against(base, values))
    assert level(cell) == (Level.WARN, "exact")
    assert f"times the baseline's (that {words} of it)." in prose(cell).message


@pytest.mark.parametrize("first", [1.0, 0.5, 2.25])
def test_round_first_values_are_none_of_a_scale(first: float) -> None:
    """The hinge loss of a model that says nothing yet is its margin."""
    base, values = learning(300), learning(300, last=0.3, seed=5)
    base[0], values[0] = first, 2 * first
    assert not judge("TP-LOSS-SCALED", against(base, values)).hits


def test_first_values_of_rounding_noise_have_no_ratio() -> None:
    base, values = learning(300), learning(300, last=0.3, seed=5)
    base[0], values[0] = 2.0**-26, 2.0**-23
    assert not judge("TP-LOSS-SCALED", against(base, values)).hits


def rewarded(loss: Floats, grad: Floats) -> RunView:
    rewards = series("reward", np.linspace(0.0, 1.0, len(loss)).tolist())
    tags = [series("loss", loss.tolist()), series("grad_norm", grad.tolist())]
    return replace(view(rewards, *tags), regime=Regime.REINFORCEMENT)


def test_only_the_beginning_is_compared_where_a_loss_is_no_progress() -> None:
    signed, norms = learning(300) - 1.5, learning(300, seed=3)
    other, larger = learning(300, seed=5) - 1.4, 9 * learning(300, seed=7)
    other[0], larger[0] = 2 * signed[0], 4 * norms[0]
    both = beside(rewarded(other, larger), rewarded(signed, norms))
    assert level(judge("TP-LOSS-SCALED", both)) == (Level.WARN, "exact")
    assert level(judge("TP-GRADNORM-RATIO", both)) == (Level.WARN, "exact")
    larger[0] *= 1.1
    apart = beside(rewarded(other, larger), rewarded(signed, norms))
    assert skipped(judge("TP-GRADNORM-RATIO", apart)) is Skip.UNCOMPARABLE
    assert skipped(judge("TP-END-RATIO", apart)) is Skip.UNCOMPARABLE


@pytest.mark.parametrize(("factor", "first"), [(1.0, 1.0), (2.5, 1.0), (4.0, 1.01)])
def test_other_ratios_at_the_start_say_nothing(factor: float, first: float) -> None:
    base, values = apart(factor, first)
    assert not judge("TP-LOSS-SCALED", against(base, values)).hits


def test_two_digits_make_whole_ratios_by_rounding() -> None:
    base, values = np.full(300, 0.01), np.full(300, 0.02)
    base[100:], values[50:] = 0.005, 0.03
    assert not judge("TP-LOSS-SCALED", against(base, values)).hits


def test_an_undeclared_multiple_is_a_warning() -> None:
    cell = judge("TP-LOSS-SCALED", against(learning(300), 3 * learning(300, seed=5)))
    assert level(cell) == (Level.WARN, "undeclared")


@pytest.mark.parametrize(
    ("base", "other"),
    [
        (learning(300), 2.5 * learning(300, seed=5)),  # not a whole number
        (flat(300, 1.0), flat(300, 2.0, seed=5)),  # flat by nature: nothing to be in step with
        (learning(300), learning(300, 8, 3, seed=5)),  # twice at the start only
        (learning(300), 17.5 * learning(300, seed=5)),  # large ratios always have one near by
    ],
)
def test_what_is_no_multiple(base: Floats, other: Floats) -> None:
    pair = paired(series("loss", other.tolist()), series("loss", base.tolist()))
    assert multiple(pair) is None


# --- gradients, siblings, seeds -----------------------------------------------------------------


@pytest.mark.parametrize(("factor", "variant"), [(10.0, ""), (0.1, "below")])
def test_a_gradient_norm_far_off_warns(factor: float, variant: str) -> None:
    base = run(learning(100), "grad_norm")
    one = beside(run(factor * learning(100, seed=2), "grad_norm"), base)
    assert level(judge("TP-GRADNORM-RATIO", one)) == (Level.WARN, variant)
    near = beside(run(2 * learning(100, seed=2), "grad_norm"), base)
    assert is_clean(judge("TP-GRADNORM-RATIO", near))


def family(count: int, first: int = 0) -> list[RunView]:
    return [run(learning(200, seed=first + k)) for k in range(count)]


def test_fewer_than_five_siblings_make_no_envelope() -> None:
    one = beside(run(learning(200, seed=90)), *family(4))
    assert skipped(judge("TP-OUTSIDE-ENVELOPE", one)) is Skip.NEED_TOO_SHORT


def test_a_sixth_sibling_is_inside() -> None:
    for seed in range(20):
        one = beside(run(learning(200, seed=900 + seed)), *family(5, 10 * seed))
        assert is_clean(judge("TP-OUTSIDE-ENVELOPE", one))


@pytest.mark.parametrize(
    ("scale", "expected"), [(1.4, (Level.WARN, "")), (0.6, (Level.INFO, "below"))]
)
def test_a_run_outside_of_its_siblings_is_told(scale: float, expected: tuple[Level, str]) -> None:
    one = beside(run(scale * learning(200, seed=90)), *family(5))
    assert level(judge("TP-OUTSIDE-ENVELOPE", one)) == expected


def test_the_same_seed_must_start_alike() -> None:
    base = run(learning(60), seed=7)
    other = run(learning(60, first=5.0), seed=7)
    assert level(judge("TP-SEED-START", beside(other, base))) == (Level.WARN, "")
    same = run([*learning(60)[:3], *learning(60, seed=2)[3:]], seed=7)
    assert is_clean(judge("TP-SEED-START", beside(same, base)))
    another = run(learning(60, first=5.0), seed=8)
    assert skipped(judge("TP-SEED-START", beside(another, base))) is Skip.NEED_ABSENT


def test_a_declared_difference_that_changes_the_start_is_no_surprise() -> None:
    base, other = run(learning(60), seed=7, batch_size=8), run(learning(60, 5.0), seed=7)
    one = beside(replace(other, facts=Facts(seed=7, batch_size=16)), base)
    assert skipped(judge("TP-SEED-START", one)) is Skip.UNDECIDED


def test_a_first_row_far_into_the_run_tells_nothing_of_the_start() -> None:
    steps = range(100, 6100, 100)
    base = view(series("loss", falling(60), steps), facts=Facts(seed=7))
    other = view(series("loss", falling(60, 5.0), steps), facts=Facts(seed=7))
    assert skipped(judge("TP-SEED-START", beside(other, base))) is Skip.UNDECIDED


# --- every pair rule ----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", PAIRS)
def test_without_a_baseline_nothing_is_compared(rule: str) -> None:
    cell = judge(rule, view(series("loss", falling(60)), series("grad_norm", falling(60))))
    assert skipped(cell) is Skip.NEED_ABSENT


numbers = st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e308, -1e308, 5e-324, math.nan, math.inf, -1.0])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(numbers, min_size=1, max_size=6),
    st.lists(numbers, min_size=1, max_size=6),
    st.integers(1, 120),
    st.integers(1, 120),
    st.integers(-3, 60),
)
def test_no_values_break_a_comparison(
    ours: list[float], theirs: list[float], count: int, others: int, start: int
) -> None:
    def made(few: list[float], length: int, first: int) -> RunView:
        values = np.resize(np.array(few), length).tolist()
        steps = range(first, first + length)
        tags = ("loss", "eval_loss", "grad_norm")
        return view(*(series(tag, values, steps) for tag in tags), facts=Facts(seed=1))

    base = made(theirs, others, start)
    one = beside(made(ours, count, 0), base, base, base, base, base)
    for rule in PAIRS:
        cell = judge(rule, one)
        assert cell.skip is not Skip.CHECKER_FAILED, (rule, cell.checks)


def test_noise_without_a_trend_never_fails() -> None:
    for seed in range(30):
        base, other = 2 + 0.3 * seeded(200, 2 * seed), 2 + 0.3 * seeded(200, 2 * seed + 1)
        assert fired(against(base, other)) == set()
