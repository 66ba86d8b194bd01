from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from trainproof.model.data import Axis, Facts, RunView
from trainproof.model.outcome import Cell, Level, Skip
from trainproof.rules.examples import series, view

from .judging import is_clean, judge, level, measured, prose, skipped

EARLY = "TP-SCHEDULE-ENDED-EARLY"
DECAY = "TP-NEVER-DECAYED"
WARMUP = "TP-WARMUP-MISSING"
PEAK = 2e-4


def rates(values: list[float], stride: int = 10, **facts: Any) -> RunView:
    steps = [stride * (i + 1) for i in range(len(values))]
    return view(series("learning_rate", values, steps), facts=Facts(**facts))


def ending(at: int, count: int = 400, power: float = 1.0) -> list[float]:
    """A decay from the peak that reaches 0 at row ``at`` and stays."""
    return [PEAK * max(0.0, 1 - i / at) ** power for i in range(count)]


# --- the schedule ended early -------------------------------------------------------------------


@pytest.mark.parametrize(("at", "times"), [(200, 2), (100, 4), (50, 8)])
def test_an_end_at_a_fraction_of_the_plan_names_the_ratio(at: int, times: int) -> None:
    cell = judge(EARLY, rates(ending(at), max_steps=4000))
    assert level(cell) == (Level.FAIL, "whole")
    assert measured(cell)["times"] == times
    assert f"went {times} times as fast as the run" in prose(cell).message


def test_coarse_logging_does_not_hide_the_ratio() -> None:
    """Rows of a hundred steps around an end at step 1,250 of 5,000."""
    values = [PEAK * max(0.0, 1 - 100 * (i + 1) / 1250) for i in range(50)]
    cell = judge(EARLY, rates(values, stride=100, max_steps=5000))
    assert measured(cell)["times"] == 4


def test_an_end_at_two_thirds_fails_without_a_ratio() -> None:
    cell = judge(EARLY, rates(ending(267), max_steps=4000))
    assert level(cell) == (Level.FAIL, "")
    assert prose(cell).message == (
        "learning_rate had run out at step 2680; the run is planned to step 4000."
    )


@pytest.mark.parametrize("at", [370, 399])
def test_an_end_in_the_last_tenth_is_clean(at: int) -> None:
    assert is_clean(judge(EARLY, rates(ending(at), max_steps=4000)))


@pytest.mark.parametrize("power", [2.0, 4.0])
def test_a_polynomial_that_is_small_for_long_is_clean(power: float) -> None:
    assert is_clean(judge(EARLY, rates(ending(399, power=power), max_steps=4000)))


def test_an_exponential_decay_is_clean() -> None:
    values = (PEAK * 0.97 ** np.arange(400)).tolist()
    assert is_clean(judge(EARLY, rates(values, max_steps=4000)))


def test_a_step_decay_to_a_ten_thousandth_is_not_decided() -> None:
    values = [PEAK * 0.1 ** min(4, i // 60) for i in range(400)]
    assert skipped(judge(EARLY, rates(values, max_steps=4000))) is Skip.UNDECIDED


def test_a_floor_above_zero_is_a_warning() -> None:
    values = [max(PEAK / 2000, v) for v in ending(200)]
    assert level(judge(EARLY, rates(values, max_steps=4000))) == (Level.WARN, "floor")


def test_a_floor_at_a_tenth_is_clean() -> None:
    values = [max(PEAK / 10, v) for v in ending(200)]
    assert is_clean(judge(EARLY, rates(values, max_steps=4000)))


def test_a_stable_phase_and_a_cyclic_schedule_are_clean() -> None:
    stable = [PEAK] * 350 + [PEAK * (1 - i / 50) for i in range(50)]
    cyclic = [PEAK * (1 + np.cos(np.pi * (i % 100) / 99)) / 2 for i in range(400)]
    assert is_clean(judge(EARLY, rates(stable, max_steps=4000)))
    assert is_clean(judge(EARLY, rates(cyclic, max_steps=4000)))


def test_a_run_that_was_stopped_at_once_is_clean() -> None:
    """Three rows of 0 and then the log ends: nothing was wasted."""
    assert is_clean(judge(EARLY, rates(ending(200)[:203], max_steps=4000)))


def test_rates_printed_with_four_digits_are_not_judged() -> None:
    values = [round(0.02 * (1 + np.cos(np.pi * min(1, i / 200))) / 2, 4) for i in range(400)]
    assert skipped(judge(EARLY, rates(values, max_steps=4000))) is Skip.LOW_POWER


def test_nothing_is_judged_without_a_plan() -> None:
    assert skipped(judge(EARLY, rates(ending(200)))) is Skip.NEED_ABSENT


def test_epochs_are_compared_with_epochs() -> None:
    one = series("learning_rate", ending(20, 40))
    by_epoch = replace(one, column=replace(one.column, axis=Axis.EPOCH))
    cell = judge(EARLY, view(by_epoch, facts=Facts(max_epochs=40.0, max_steps=100_000)))
    assert measured(cell)["times"] == 2


# --- never decayed -------------------------------------------------------------------------------


def decay(values: list[float], **facts: Any) -> Cell:
    return judge(DECAY, rates(values, **facts))


def test_a_cosine_laid_out_for_a_longer_run_is_a_warning() -> None:
    values = [PEAK * (1 + np.cos(np.pi * i / 1200)) / 2 for i in range(400)]
    cell = decay(values, max_steps=4000, scheduler="SchedulerType.COSINE")
    assert level(cell) == (Level.WARN, "")
    assert "75% of its peak" in prose(cell).message


def test_a_run_cut_short_is_not_decided() -> None:
    cell = decay(ending(400)[:100], max_steps=4000, scheduler="linear")
    assert skipped(cell) is Skip.UNDECIDED


@pytest.mark.parametrize("name", ["constant", "cosine_with_restarts", "warmup_stable_decay"])
def test_schedules_that_need_not_fall_are_left_alone(name: str) -> None:
    cell = decay([PEAK] * 10 + [PEAK * 0.9] * 390, max_steps=4000, scheduler=name)
    assert skipped(cell) is Skip.NEED_DEGENERATE


def test_a_series_that_never_changes_may_be_the_configured_rate() -> None:
    cell = decay([PEAK] * 400, max_steps=4000, scheduler="linear")
    assert skipped(cell) is Skip.NEED_DEGENERATE


def test_a_schedule_carried_through_is_clean() -> None:
    assert is_clean(decay(ending(400), max_steps=4000, scheduler="linear"))


def test_a_decay_needs_a_plan() -> None:
    assert skipped(decay(ending(400), scheduler="linear")) is Skip.NEED_ABSENT


# --- warm-up -------------------------------------------------------------------------------------


def warming(steps: int, count: int = 400) -> list[float]:
    return [PEAK * min(1.0, (i + 1) * 10 / steps) for i in range(count)]


def test_a_peak_on_the_first_row_is_a_warning() -> None:
    cell = judge(WARMUP, rates(ending(400), max_steps=4000, warmup_steps=500))
    assert level(cell) == (Level.WARN, "")
    assert "though the run declares 500 steps of warm-up" in prose(cell).message


def test_a_warm_up_that_happens_is_clean() -> None:
    assert is_clean(judge(WARMUP, rates(warming(500), max_steps=4000, warmup_steps=500)))


def test_a_first_row_late_in_the_warm_up_cannot_tell() -> None:
    cell = judge(WARMUP, rates(ending(400), max_steps=4000, warmup_steps=20))
    assert skipped(cell) is Skip.UNDECIDED


def test_a_rate_that_never_changes_is_not_judged() -> None:
    cell = judge(WARMUP, rates([PEAK] * 400, max_steps=4000, warmup_steps=500))
    assert skipped(cell) is Skip.NEED_DEGENERATE


def test_a_warm_up_as_long_as_the_run_never_ends() -> None:
    cell = judge(WARMUP, rates(warming(5000), max_steps=4000, warmup_steps=5000))
    assert level(cell) == (Level.WARN, "endless")
