from __future__ import annotations

import numpy as np
import pytest

from trainproof.model.data import Facts, Floats, RunView
from trainproof.model.outcome import Level, Skip
from trainproof.rules.examples import beside, falling, series, view

from .curves import flat, learning, noise
from .judging import is_clean, judge, level, measured, prose, skipped

STEPS = "TP-STEPS-TO-TARGET"
SLOWER = "TP-SLOWER-THAN-SIBLINGS"
COPIED = "TP-COPIED-SERIES"


def run(values: Floats, **facts: int) -> RunView:
    return view(series("loss", values.tolist()), facts=Facts(**facts))  # type: ignore[arg-type]


def seeds(count: int = 5, cv: float = 0.03) -> list[RunView]:
    return [run(learning(200, 4, 1 + 0.01 * k, cv, seed=k)) for k in range(count)]


# --- steps to a target ----------------------------------------------------------------------------


def test_a_run_that_learns_half_as_fast_again_is_named_with_both_steps() -> None:
    slow = run(learning(320, 4, 1, 0.005, seed=9))
    cell = judge(STEPS, beside(slow, *seeds(cv=0.005)))
    assert level(cell) == (Level.WARN, "")
    found = cell.hits[0].evidence.measured
    assert 1.3 < float(found["ratio"]) < 1.9
    assert float(found["reached"]) > float(found["slowest"])


def test_a_run_that_never_gets_there_is_a_warning() -> None:
    cell = judge(STEPS, beside(run(learning(320, 4, 2, seed=9)), *seeds()))
    assert level(cell) == (Level.WARN, "never")
    assert "never reaches" in prose(cell).message


@pytest.mark.parametrize("seed", range(20, 40))
def test_another_seed_is_clean(seed: int) -> None:
    assert not judge(STEPS, beside(run(learning(200, 4, 1.02, seed=seed)), *seeds())).hits


def test_a_run_that_was_not_followed_long_enough_is_not_judged() -> None:
    """The siblings fall to the end: nine tenths of it come late, and 1.2 times that is later."""
    steady = [run(np.linspace(4, 1, 200) + 0.01 * noise(200, k)) for k in range(5)]
    slow = run(np.linspace(4, 2, 200) + 0.01 * noise(200, 9))
    assert skipped(judge(STEPS, beside(slow, *steady))) is Skip.UNDECIDED


def test_four_siblings_are_too_few() -> None:
    one = beside(run(learning(320, 4, 1, seed=9)), *seeds(4))
    assert skipped(judge(STEPS, one)) is Skip.NEED_TOO_SHORT


def test_siblings_that_did_not_fall_set_no_target() -> None:
    idle = [run(flat(200, seed=k)) for k in range(5)]
    assert skipped(judge(STEPS, beside(run(learning(200)), *idle))) is Skip.LOW_POWER


# --- speed ----------------------------------------------------------------------------------------


def timed(seconds: float, seed: int = 1, **facts: int) -> RunView:
    values = seconds * (1 + 0.05 * noise(60, seed))
    return view(series("step_time", values.tolist()), facts=Facts(**facts))  # type: ignore[arg-type]


def test_a_run_that_is_slower_than_each_of_four_is_a_warning() -> None:
    cell = judge(SLOWER, beside(timed(0.13), *(timed(0.1, k) for k in range(4))))
    assert level(cell) == (Level.WARN, "")
    assert "goes at 77% of the median speed of its 4 siblings" in prose(cell).message


def test_throughput_is_read_the_other_way_round() -> None:
    def fast(speed: float) -> RunView:
        return view(series("samples_per_second", [speed, 1.1 * speed] * 20))

    assert level(judge(SLOWER, beside(fast(70), *(fast(100 + k) for k in range(4))))) == (
        Level.WARN,
        "",
    )
    assert is_clean(judge(SLOWER, beside(fast(130), *(fast(100 + k) for k in range(4)))))


def test_a_sibling_that_is_as_slow_makes_it_clean() -> None:
    others = [timed(0.1, 1), timed(0.1, 2), timed(0.1, 3), timed(0.14, 4)]
    assert is_clean(judge(SLOWER, beside(timed(0.13), *others)))


def test_a_declared_difference_in_the_work_of_a_step_is_not_judged() -> None:
    others = [timed(0.1, k, batch_size=16) for k in range(4)]
    cell = judge(SLOWER, beside(timed(0.13, batch_size=32), *others))
    assert skipped(cell) is Skip.UNDECIDED
    assert measured(cell)["differences"] == "batch_size 32, baseline 16"


def test_three_siblings_are_too_few() -> None:
    one = beside(timed(0.13), *(timed(0.1, k) for k in range(3)))
    assert skipped(judge(SLOWER, one)) is Skip.NEED_TOO_SHORT


# --- copies ---------------------------------------------------------------------------------------


def test_thirty_equal_rows_are_a_warning_and_their_steps_are_named() -> None:
    mine, theirs = learning(100), learning(100, seed=2)
    mine[20:50] = theirs[20:50]
    cell = judge(COPIED, beside(run(mine), run(theirs)))
    assert level(cell) == (Level.WARN, "")
    place = cell.hits[0].evidence.where
    assert (place.first_step, place.last_step) == (21, 50)


def test_an_equal_seed_may_replay_them() -> None:
    one = beside(run(learning(100), seed=1), run(learning(100), seed=1))
    assert level(judge(COPIED, one)) == (Level.INFO, "replayed")


@pytest.mark.parametrize(
    ("values", "skip"),
    [
        (np.full(60, 1.25), None),  # a constant
        (np.round(learning(60), 2), Skip.LOW_POWER),  # two decimals coincide
        (np.concatenate((learning(19), 9 + learning(41, seed=3))), None),  # nineteen rows
    ],
)
def test_rows_that_may_be_equal_by_chance_are_no_copy(values: Floats, skip: Skip | None) -> None:
    other = values.copy()
    other[19:] += 1 if skip is None else 0
    cell = judge(COPIED, beside(run(values), run(other)))
    assert not cell.hits
    assert skipped(cell) is skip


def test_two_seeds_share_nothing() -> None:
    cell = judge(COPIED, beside(run(learning(100)), run(learning(100, seed=2))))
    assert is_clean(cell)
    assert measured(cell)["equal"] == 0


def test_a_baseline_without_the_series_is_not_compared() -> None:
    other = view(series("eval_loss", falling(40)))
    assert skipped(judge(COPIED, beside(run(learning(40)), other))) is Skip.UNCOMPARABLE
