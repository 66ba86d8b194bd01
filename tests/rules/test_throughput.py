from __future__ import annotations

import numpy as np
import pytest

from trainproof.model.data import Floats, Identity, Role, RunView, Split
from trainproof.model.outcome import Level, Skip
from trainproof.rules.examples import series, view

from .curves import noise
from .judging import is_clean, judge, level, measured, prose, skipped


def times(count: int = 200, seconds: float = 0.1) -> Floats:
    return seconds * np.exp(0.1 * noise(count))


# --- TP-STEP-CLIFF -----------------------------------------------------------------------------


def test_steps_that_take_twice_as_long_at_the_end_warn() -> None:
    values = times()
    values[140:] *= 2
    cell = judge("TP-STEP-CLIFF", view(series("step_time", values.tolist())))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message.startswith("By step_time, training ran at 5")


def test_throughput_is_judged_the_other_way_round() -> None:
    values = 1 / times()
    values[140:] /= 2
    assert level(judge("TP-STEP-CLIFF", view(series("samples_per_second", values.tolist())))) == (
        Level.WARN,
        "",
    )
    faster = 1 / times()
    faster[140:] *= 2
    assert is_clean(judge("TP-STEP-CLIFF", view(series("samples_per_second", faster.tolist()))))


@pytest.mark.parametrize("kind", ["evaluations", "compilation", "a quarter slower"])
def test_these_are_no_cliff(kind: str) -> None:
    values = times()
    if kind == "evaluations":
        values[::10] *= 40
    elif kind == "compilation":
        values[:10] *= 100
    else:
        values[140:] *= 1.25
    assert is_clean(judge("TP-STEP-CLIFF", view(series("step_time", values.tolist()))))


@pytest.mark.parametrize("tag", ["step_time", "samples_per_second"])
def test_steps_that_take_longer_at_a_changed_setting_are_not_judged(tag: str) -> None:
    values = times()
    values[140:] *= 4
    speed = series(tag, (values if tag == "step_time" else 1 / values).tolist())

    def beside(change: int) -> RunView:
        lengths = [512.0] * change + [2048.0] * (200 - change)
        return view(speed, series("seq_len", lengths, identity=Identity(Role.OTHER, "seq_len")))

    assert skipped(judge("TP-STEP-CLIFF", beside(140))) is Skip.UNDECIDED
    assert level(judge("TP-STEP-CLIFF", beside(200))) == (Level.WARN, "")


def test_the_speed_of_evaluation_is_not_judged() -> None:
    identity = Identity(Role.THROUGHPUT, "samples_per_second", Split.EVAL)
    one = view(series("eval_samples_per_second", [9.0] * 50, identity=identity))
    assert skipped(judge("TP-STEP-CLIFF", one)) is Skip.NEED_ABSENT


def test_times_of_zero_decide_nothing() -> None:
    one = view(series("step_time", [0.0] * 50))
    assert skipped(judge("TP-STEP-CLIFF", one)) is Skip.UNDECIDED


# --- TP-LOADER-BOUND ---------------------------------------------------------------------------


@pytest.mark.parametrize(("wait", "fires"), [(0.02, False), (0.06, True), (0.2, True)])
def test_waiting_for_half_a_step_warns(wait: float, fires: bool) -> None:
    one = view(
        series("loader_time", times(60, wait).tolist()), series("step_time", times(60).tolist())
    )
    assert bool(judge("TP-LOADER-BOUND", one).hits) == fires


def test_the_first_batch_of_an_epoch_does_not_count() -> None:
    waits = times(100, 0.005)
    waits[::20] = 9
    one = view(series("loader_time", waits.tolist()), series("step_time", times(100).tolist()))
    assert is_clean(judge("TP-LOADER-BOUND", one))


def test_rows_that_do_not_hold_both_decide_nothing() -> None:
    one = view(
        series("loader_time", [0.1] * 30, range(0, 30)),
        series("step_time", [0.1] * 30, range(100, 130)),
    )
    assert skipped(judge("TP-LOADER-BOUND", one)) is Skip.UNDECIDED
    assert measured(judge("TP-LOADER-BOUND", one))["points"] == 0


# --- notes -------------------------------------------------------------------------------------


def test_throughput_is_noted_with_its_spread() -> None:
    cell = judge("TP-THROUGHPUT", view(series("step_time", [float(i) for i in range(1, 102)])))
    assert level(cell) == (Level.INFO, "")
    assert cell.hits[0].evidence.measured == {"points": 101, "middle": 51, "low": 6, "high": 96}


def test_a_busy_accelerator_is_clean_in_percent_and_in_shares() -> None:
    assert is_clean(judge("TP-GPU-UTIL", view(series("gpu_util", [95.0] * 30))))
    assert is_clean(judge("TP-GPU-UTIL", view(series("gpu_util", [0.95] * 30))))


def test_an_idle_accelerator_is_a_note() -> None:
    cell = judge("TP-GPU-UTIL", view(series("gpu_util", [0.2] * 30)))
    assert level(cell) == (Level.INFO, "")
    assert prose(cell).message == "gpu_util is 20 % in the median, from step 1 to 30."


# --- growth ---------------------------------------------------------------------------------------

GROWTH = "TP-STEP-TIME-GROWTH"


def stepping(values: Floats) -> RunView:
    return view(series("step_time", (values * (1 + 0.05 * noise(len(values)))).tolist()))


def test_steps_that_take_longer_and_longer_are_a_warning() -> None:
    cell = judge(GROWTH, stepping(np.linspace(0.1, 0.2, 300)))
    assert level(cell) == (Level.WARN, "")
    assert cell.hits[0].evidence.measured["times"] == pytest.approx(1.9, abs=0.1)
    assert cell.hits[0].evidence.measured["slope"] == pytest.approx(0.33, abs=0.05)


@pytest.mark.parametrize(
    "values",
    [
        np.full(300, 0.1),
        np.linspace(0.1, 0.12, 300),  # a fifth
        np.linspace(0.2, 0.1, 300),  # faster
        np.where(np.arange(300) < 250, 0.1, 0.2),  # one change, late
        np.where(np.arange(300) < 157, 0.1, 0.4),  # one change, half-way
        np.where(np.arange(300) < 10, 0.01, 0.1),  # compilation
    ],
)
def test_these_step_times_do_not_grow_all_along(values: Floats) -> None:
    assert is_clean(judge(GROWTH, stepping(values)))


def test_a_hundred_rows_are_too_few() -> None:
    assert skipped(judge(GROWTH, stepping(np.linspace(0.1, 0.2, 100)))) is Skip.NEED_TOO_SHORT
