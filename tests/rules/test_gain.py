from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from trainproof.model.data import (
    Axis,
    Direction,
    Floats,
    Identity,
    Regime,
    Role,
    RunView,
    Series,
    Split,
)
from trainproof.model.outcome import Level, Skip
from trainproof.rules.examples import series, view

from .curves import learning, noise
from .judging import is_clean, judge, level, measured, prose, skipped

GAIN = "TP-NO-HELDOUT-GAIN"
CONTRADICT = "TP-LOSS-METRIC-CONTRADICT"
ZERO = "TP-METRIC-ZERO"
EVERY = list(range(5, 101, 5))


def metric(tag: str, values: Floats, direction: Direction = Direction.HIGHER) -> Series:
    identity = Identity(Role.METRIC, tag, Split.EVAL, direction=direction)
    return series(tag, values.tolist(), EVERY[: len(values)], identity=identity)


def held_out(values: Floats, steps: list[int] | None = None) -> Series:
    return series("eval_loss", values.tolist(), steps or EVERY[: len(values)])


def rising(count: int = 20) -> Floats:
    return 0.2 + 0.03 * np.arange(count) + 0.002 * noise(count)


# --- no gain --------------------------------------------------------------------------------------


def stuck(count: int = 20) -> Floats:
    return 2.0 + 0.01 * noise(count)


def test_a_held_out_loss_that_never_gets_better_is_a_warning() -> None:
    cell = judge(GAIN, view(held_out(stuck())))
    assert level(cell) == (Level.WARN, "")
    assert "its first evaluation, at step 5, gave 2" in prose(cell).message


def test_a_gain_that_was_lost_again_is_left_to_the_overfitting_rule() -> None:
    values = np.concatenate([np.linspace(2, 1.5, 10), np.linspace(1.5, 2.4, 10)])
    assert is_clean(judge(GAIN, view(held_out(values))))


def test_a_metric_that_improved_makes_it_clean() -> None:
    cell = judge(GAIN, view(held_out(stuck()), metric("eval_accuracy", rising())))
    assert is_clean(cell)
    assert measured(cell)["metric"] == "eval_accuracy"


def test_a_few_evaluations_of_a_wavering_rise_make_it_clean() -> None:
    accuracy = np.array([0.25, 0.25, 0.24, 0.33, 0.32, 0.31, 0.30, 0.37, 0.36, 0.35])
    one = view(held_out(stuck(10), list(range(5, 55, 5))), metric("eval_accuracy", accuracy))
    assert is_clean(judge(GAIN, one))


def test_a_wavering_rise_does_not_outweigh_a_loss_that_climbed() -> None:
    accuracy = np.array([0.25, 0.25, 0.24, 0.33, 0.32, 0.31, 0.30, 0.37, 0.36, 0.35])
    climbed = held_out(np.linspace(2, 3, 10), list(range(5, 55, 5)))
    cell = judge(GAIN, view(climbed, metric("eval_accuracy", accuracy)))
    assert level(cell) == (Level.WARN, "")


def test_an_accuracy_at_chance_does_not() -> None:
    accuracy = 0.125 + 0.01 * noise(20)
    cell = judge(GAIN, view(held_out(stuck()), metric("eval_accuracy", accuracy)))
    assert level(cell) == (Level.WARN, "")


def test_evaluations_that_begin_late_may_come_after_the_progress() -> None:
    cell = judge(GAIN, view(held_out(stuck(), list(range(50, 150, 5)))))
    assert skipped(cell) is Skip.START_MISSING


@pytest.mark.parametrize(("epochs", "fires"), [(20, True), (8, False)])
def test_the_first_epoch_counts_as_a_part_of_the_run(epochs: int, fires: bool) -> None:
    one = held_out(stuck(epochs), list(range(epochs)))
    cell = judge(GAIN, view(replace(one, column=replace(one.column, axis=Axis.EPOCH))))
    assert bool(cell.hits) is fires


def test_negative_losses_have_no_ratio() -> None:
    assert skipped(judge(GAIN, view(held_out(stuck() - 4)))) is Skip.NEED_DEGENERATE


def test_five_evaluations_are_too_few() -> None:
    assert skipped(judge(GAIN, view(held_out(stuck(5))))) is Skip.NEED_TOO_SHORT


@pytest.mark.parametrize("count", [5, 8])
def test_a_rise_is_one_wherever_the_evaluations_begin(count: int) -> None:
    values = np.concatenate(([2.6], np.linspace(6, 51, count - 1)))
    one = view(held_out(values, list(range(100, 100 * count + 1, 100))))
    cell = judge(GAIN, one)
    assert level(cell) == (Level.WARN, "risen")
    assert "the last three no less than" in prose(cell).message


def test_a_rise_by_a_tenth_after_a_late_first_evaluation_is_not_judged() -> None:
    one = view(held_out(np.linspace(2.0, 2.2, 8), list(range(100, 801, 100))))
    assert skipped(judge(GAIN, one)) is Skip.START_MISSING


def test_one_lucky_evaluation_of_many_is_no_gain() -> None:
    values = stuck(60)
    values[30] = 1.7
    steps = list(range(5, 305, 5))
    assert level(judge(GAIN, view(held_out(values, steps)))) == (Level.WARN, "")
    assert is_clean(judge(GAIN, view(held_out(values[20:45], steps[:25]))))


# Where the first evaluation comes late, the training loss shows where the model began.


LATE = list(range(40, 201, 40))


def begun(first: float, last: float = 0.2) -> Series:
    return series("loss", learning(200, first, last).tolist())


def test_late_evaluations_at_the_level_at_which_training_began_are_a_warning() -> None:
    cell = judge(GAIN, view(begun(2.0), held_out(np.array([2.0, 2.01, 2.0, 2.02, 2.01]), LATE)))
    assert level(cell) == (Level.WARN, "as-at-the-start")
    assert prose(cell).message.endswith("ends at 2.01; loss began at 2.002.")


def test_the_first_row_counts_where_the_next_ones_fell_already() -> None:
    rows = series("loss", [2.0, 1.0, 0.9, 0.8, 0.7, *[0.6, 0.62] * 98])
    cell = judge(GAIN, view(rows, held_out(np.array([0.9, 0.92, 0.91, 0.9, 0.92]), LATE)))
    assert is_clean(cell)
    assert measured(cell)["began"] == 2.0


@pytest.mark.parametrize("fall", [0.02, 0.2])
def test_late_evaluations_that_fall_are_a_gain(fall: float) -> None:
    one = view(begun(2.0), held_out(2.1 - fall * np.arange(5) / 4, LATE))
    assert not judge(GAIN, one).hits


def test_losses_that_may_be_averaged_differently_are_not_compared() -> None:
    one = view(begun(2.0), held_out(np.array([8.0, 8.1, 8.0, 8.2, 8.1]), LATE))
    assert skipped(judge(GAIN, one)) is Skip.NEED_TOO_SHORT


def test_evaluations_ten_times_above_the_whole_training_loss_are_a_warning() -> None:
    one = view(begun(2.0), held_out(np.array([51.0, 53.5, 52.8, 48.7, 51.7]), LATE))
    cell = judge(GAIN, one)
    assert level(cell) == (Level.WARN, "far-above")
    assert prose(cell).message.startswith("eval_loss, measured on held-out data, is never below")


@pytest.mark.parametrize(
    "other",
    [
        series("loss", [2.0] * 19),
        series("loss", [float("nan"), *[2.0] * 199]),
        series("loss", [-1.0, *[2.0] * 199]),
        series("loss", [2.0] * 200, list(range(1000, 3000, 10))),
        series("loss_cls", [2.0] * 200),
    ],
)
def test_a_training_loss_without_its_start_shows_nothing(other: Series) -> None:
    one = view(other, held_out(np.array([2.0, 2.01, 2.0, 2.02, 2.01]), LATE))
    assert skipped(judge(GAIN, one)) is Skip.NEED_TOO_SHORT


def test_what_was_learned_before_the_first_evaluation_is_a_gain() -> None:
    rows = series("loss", [2.0, 1.4, 1.0, 0.9, *(0.5 + 0.05 * noise(196)).tolist()])
    assert is_clean(judge(GAIN, view(rows, held_out(0.5 + 0.001 * noise(20)))))


def test_what_was_learned_before_does_not_hide_a_rise() -> None:
    rows = series("loss", [2.0, 1.4, 1.0, 0.9, *(0.5 + 0.05 * noise(196)).tolist()])
    one = view(rows, held_out(np.array([0.5, 0.6, 0.65, 0.7, 0.72]), LATE))
    assert level(judge(GAIN, one)) == (Level.WARN, "risen")


def test_a_fall_that_is_small_but_certain_is_left_open() -> None:
    values = 3.5 - 0.0015 * np.arange(20) + 1e-4 * noise(20)
    assert skipped(judge(GAIN, view(held_out(values)))) is Skip.UNDECIDED


def test_a_fall_to_the_second_evaluation_only_is_no_gain_that_goes_on() -> None:
    """Labels at random: their frequencies are learned at once, and nothing else."""
    values = [2.7958, 2.7598, 2.7529, 2.7555, 2.7536, 2.7527, 2.7515, 2.7505, 2.7485, 2.7496]
    one = view(series("eval_loss", values, range(40, 401, 40)))
    assert level(judge(GAIN, one)) == (Level.WARN, "")


@pytest.mark.parametrize("steps", [EVERY[:8], [*LATE, 240, 280, 320]])
def test_two_digits_cannot_show_a_gain_of_two_percent(steps: list[int]) -> None:
    one = view(begun(2.2), held_out(np.array([2.2, 2.3, 2.2, 2.2, 2.3, 2.2, 2.2, 2.2]), steps))
    assert skipped(judge(GAIN, one)) is Skip.LOW_POWER


def test_preference_tuning_is_out_of_scope() -> None:
    one = view(held_out(stuck()), regime=Regime.PREFERENCE)
    assert skipped(judge(GAIN, one)) is Skip.REGIME


# --- loss and metric ------------------------------------------------------------------------------


def falling_loss() -> Series:
    return held_out(learning(20, 2, 1, cv=0.005))


def test_an_accuracy_that_falls_with_the_loss_is_a_warning() -> None:
    cell = judge(CONTRADICT, view(falling_loss(), metric("eval_accuracy", 1 - rising())))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message.startswith("eval_accuracy got worse, from 0.7376 to 0.2904,")


def test_a_metric_on_one_held_out_set_and_the_loss_on_another_contradict_nothing() -> None:
    def on(dataset: str, one: Series) -> Series:
        return replace(one, identity=replace(one.identity, dataset=dataset))

    worse = on("code", metric("eval_accuracy", 1 - rising()))
    assert skipped(judge(CONTRADICT, view(on("wiki", falling_loss()), worse))) is Skip.UNDECIDED
    same = judge(CONTRADICT, view(on("code", falling_loss()), worse))
    assert level(same) == (Level.WARN, "")


def test_a_loss_that_was_not_logged_any_more_contradicts_nothing() -> None:
    worse = metric("eval_accuracy", 1 - rising())
    loss = falling_loss()
    early = replace(loss, column=loss.column.take(slice(12)))
    assert skipped(judge(CONTRADICT, view(early, worse))) is Skip.UNDECIDED


def test_an_error_that_rises_while_the_loss_falls_is_a_warning() -> None:
    error = metric("eval_wer", rising(), Direction.LOWER)
    assert level(judge(CONTRADICT, view(falling_loss(), error))) == (Level.WARN, "")


def test_an_accuracy_that_rises_with_the_loss_is_a_drift_of_confidence() -> None:
    one = view(held_out(learning(20, 2, 1)[::-1].copy()), metric("eval_accuracy", rising()))
    assert is_clean(judge(CONTRADICT, one))


def test_a_trade_off_between_metrics_is_clean() -> None:
    recall, precision = metric("eval_recall", 1 - rising()), metric("eval_precision", rising())
    cell = judge(CONTRADICT, view(falling_loss(), recall, precision))
    assert not cell.hits
    assert is_clean(cell)


def test_a_metric_that_falls_with_a_rising_loss_contradicts_nothing() -> None:
    worse = view(held_out(learning(20, 2, 1)[::-1].copy()), metric("eval_accuracy", 1 - rising()))
    assert skipped(judge(CONTRADICT, worse)) is Skip.UNDECIDED


def test_a_share_of_few_cases_moves_by_chance() -> None:
    """17 of 256 right at the start, 8 at the end: within three binomial errors."""
    counts = np.linspace(17, 8, 20).round()
    shares = [metric("eval_accuracy", counts / n) for n in (256, 25.6)]
    assert skipped(judge(CONTRADICT, view(falling_loss(), shares[0]))) is Skip.LOW_POWER
    assert level(judge(CONTRADICT, view(falling_loss(), shares[1]))) == (Level.WARN, "")


def test_a_wavering_metric_is_clean() -> None:
    one = view(falling_loss(), metric("eval_accuracy", 0.5 + 0.05 * noise(20)))
    assert is_clean(judge(CONTRADICT, one))


def test_a_metric_without_a_direction_is_not_judged() -> None:
    one = view(falling_loss(), metric("eval_thing", 1 - rising(), Direction.NONE))
    assert skipped(judge(CONTRADICT, one)) is Skip.NEED_DEGENERATE


# --- exactly zero ---------------------------------------------------------------------------------


def trained() -> Series:
    return series("loss", learning(100).tolist())


def test_a_metric_of_zero_beside_a_falling_loss_is_a_warning() -> None:
    cell = judge(ZERO, view(trained(), metric("eval_map", np.zeros(20))))
    assert level(cell) == (Level.WARN, "")
    assert "is exactly 0 on the last 20 evaluations" in prose(cell).message


def test_a_metric_that_drops_to_zero_is_a_warning_from_there_on() -> None:
    values = np.concatenate([np.full(10, 0.4), np.zeros(10)])
    cell = judge(ZERO, view(trained(), metric("eval_map", values)))
    assert measured(cell)["zeros"] == 10
    assert cell.hits[0].evidence.where.first_step == 55


def test_zeros_at_the_start_are_clean() -> None:
    values = np.concatenate([np.zeros(15), np.linspace(0.1, 0.4, 5)])
    assert is_clean(judge(ZERO, view(trained(), metric("eval_map", values))))


def test_minus_one_means_that_there_is_nothing_to_find() -> None:
    assert is_clean(judge(ZERO, view(trained(), metric("eval_map", np.full(20, -1.0)))))


def test_a_word_error_rate_of_zero_is_the_best_there_is() -> None:
    one = metric("eval_wer", np.zeros(20), Direction.LOWER)
    assert skipped(judge(ZERO, view(trained(), one))) is Skip.NEED_DEGENERATE


def test_another_metric_above_zero_makes_it_a_note() -> None:
    small = metric("eval_map_small", np.zeros(20))
    cell = judge(ZERO, view(trained(), small, metric("eval_map", rising())))
    assert level(cell) == (Level.INFO, "one-of-several")


def test_zeros_without_a_loss_that_fell_are_not_decided() -> None:
    one = view(series("loss", (2 + noise(100) / 9).tolist()), metric("eval_map", np.zeros(20)))
    assert skipped(judge(ZERO, one)) is Skip.UNDECIDED


def test_four_zeros_are_clean() -> None:
    values = np.concatenate([np.full(16, 0.4), np.zeros(4)])
    assert is_clean(judge(ZERO, view(trained(), metric("eval_map", values))))


def wrong(rates: list[float], tag: str = "wer") -> RunView:
    train = series("loss", learning(100).tolist())
    return view(train, metric(tag, np.array(rates), Direction.LOWER))


@pytest.mark.parametrize("worst", [1.0, 100.0])
def test_an_error_rate_at_its_worst_while_the_loss_falls_is_a_warning(worst: float) -> None:
    cell = judge(ZERO, wrong([worst] * 20))
    assert level(cell) == (Level.WARN, "all-wrong")
    assert f"exactly {worst:g}, all wrong" in prose(cell).message


def test_blanks_at_the_start_and_other_rates_are_clean() -> None:
    assert is_clean(judge(ZERO, wrong([100.0] * 6 + [80.0, 60.0, 50.0, 40.0])))
    assert is_clean(judge(ZERO, wrong([40.0] * 20)))
    assert is_clean(judge(ZERO, wrong([60.0] * 14 + [100.0] * 6)))


def test_other_metrics_that_should_fall_are_not_judged() -> None:
    assert skipped(judge(ZERO, wrong([1.0] * 20, "perplexity"))) is Skip.NEED_DEGENERATE
