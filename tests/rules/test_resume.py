from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from trainproof.model.data import Facts, Floats, Regime, Rewind, RunView
from trainproof.model.outcome import Level, Skip
from trainproof.rules.examples import series, view

from .curves import learning, noise
from .judging import is_clean, judge, level, measured, prose, skipped

JUMP = "TP-LR-RESUME-JUMP"
LOST = "TP-RESUME-LOST-STATE"

AT = 100


def resumed(tag: str, values: Floats, at: int = AT, *, resume: bool = True) -> RunView:
    """Steps 1, 2, 3 … of which those from ``at`` on were written after a resume."""
    back = Rewind("log.jsonl", at + 15, at + 1, resume, at + 16)
    return view(series(tag, values.tolist()), rewinds=(back,))


# --- the learning rate ----------------------------------------------------------------------------


def decaying(count: int = 200) -> Floats:
    return 1e-3 * (1 - np.arange(count) / count)


def test_a_schedule_that_starts_over_is_a_warning() -> None:
    values = np.concatenate([decaying()[:AT], decaying()[:AT]])
    cell = judge(JUMP, resumed("learning_rate", values))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message == (
        "learning_rate is 0.000505 before the resume at step 101 and 0.001 after it."
    )


def test_a_schedule_that_starts_over_in_another_file_is_a_warning() -> None:
    values = np.concatenate([decaying()[:AT], decaying()[:AT]])
    goes_on = Rewind("log.jsonl", AT, AT + 1, True)
    one = view(series("learning_rate", values.tolist()), rewinds=(goes_on,))
    assert level(judge(JUMP, one)) == (Level.WARN, "")


def test_a_schedule_and_a_count_that_start_over_in_another_file_are_a_warning() -> None:
    values = np.concatenate([decaying()[:AT], decaying()[:AT]])
    anew = Rewind("log.jsonl", AT, 1, True, None, counted_as=AT + 1)
    cell = judge(JUMP, view(series("learning_rate", values.tolist()), rewinds=(anew,)))
    assert level(cell) == (Level.WARN, "")


def test_a_second_warm_up_is_named() -> None:
    values = decaying()
    values[AT : AT + 20] *= np.linspace(0.01, 1, 20)
    cell = judge(JUMP, resumed("learning_rate", values))
    assert level(cell) == (Level.WARN, "warm-up")


def warmed_up(rows: int) -> Floats:
    """A decay to zero after a linear warm-up of so many rows."""
    rate = decaying()
    return rate * np.minimum(1, (1 + np.arange(len(rate))) / rows)


@pytest.mark.parametrize(
    ("rows", "variant"), [(1, ""), (3, "warm-up"), (5, "warm-up"), (30, "warm-up")]
)
def test_a_schedule_that_starts_over_with_its_warm_up_is_a_warning(rows: int, variant: str) -> None:
    """The rows of the warm-up are as far apart as the jump is."""
    rate = np.concatenate([warmed_up(rows)[:AT], warmed_up(rows)[:AT]])
    cell = judge(JUMP, resumed("learning_rate", rate))
    assert level(cell) == (Level.WARN, variant)


def test_a_resume_within_a_warm_up_is_clean() -> None:
    assert is_clean(judge(JUMP, resumed("learning_rate", warmed_up(150))))


def in_steps(*rates: float, rows: int = 50) -> Floats:
    return np.repeat(rates, rows)


def test_a_rate_that_is_lowered_at_a_resume_and_stays_is_a_note() -> None:
    cell = judge(JUMP, resumed("learning_rate", in_steps(1e-3, 1e-3, 1e-4, 1e-4)))
    assert level(cell) == (Level.INFO, "lowered")
    assert prose(cell).message == (
        "learning_rate is 0.001 before the resume at step 101 and 0.0001 after it, each for several"
        " rows."
    )


def test_a_rate_that_is_raised_at_a_resume_and_stays_is_a_warning() -> None:
    cell = judge(JUMP, resumed("learning_rate", in_steps(1e-3, 1e-4, 1e-3, 1e-3)))
    assert level(cell) == (Level.WARN, "")


def test_a_rate_that_is_zero_from_a_resume_on_is_a_warning() -> None:
    rate = np.concatenate([decaying()[:AT], np.zeros(AT)])
    assert level(judge(JUMP, resumed("learning_rate", rate))) == (Level.WARN, "")


def test_a_rate_that_goes_to_zero_falls_by_any_factor_at_the_end() -> None:
    rate = np.concatenate([decaying()[:AT], 0.8 * decaying()[AT:]])
    cell = judge(JUMP, resumed("learning_rate", rate))
    assert level(cell) == (Level.WARN, "")


def test_a_jump_that_is_found_elsewhere_too_is_the_schedule() -> None:
    cycle = 1e-3 * np.cos(np.linspace(0, np.pi / 2, 50))
    for rate in (in_steps(1e-2, 1e-2, 1e-3, 1e-4), np.tile(cycle, 4)):
        assert is_clean(judge(JUMP, resumed("learning_rate", rate)))


def test_a_warm_up_at_the_start_is_no_jump_of_the_schedule() -> None:
    rate = np.concatenate([warmed_up(3)[:AT], decaying()[:AT]])
    assert level(judge(JUMP, resumed("learning_rate", rate))) == (Level.WARN, "")


def test_the_jumps_of_several_resumes_do_not_excuse_each_other() -> None:
    rate = np.concatenate([decaying()[:50]] * 4)
    rewinds = tuple(Rewind("log.jsonl", at, at + 1, True) for at in (50, 100, 150))
    cell = judge(JUMP, view(series("learning_rate", rate.tolist()), rewinds=rewinds))
    assert [hit.level for hit in cell.hits] == [Level.WARN] * 3


def test_a_declared_schedule_with_restarts_may_rise_at_a_resume() -> None:
    rate = np.concatenate([decaying()[:AT], decaying()[:AT]])
    one = resumed("learning_rate", rate)
    declared = replace(one, facts=Facts(scheduler="cosine_with_restarts"))
    assert is_clean(judge(JUMP, declared))


def test_a_schedule_that_goes_on_is_clean() -> None:
    assert is_clean(judge(JUMP, resumed("learning_rate", decaying())))


def test_a_rate_that_always_changes_so_much_is_clean() -> None:
    zigzag = np.where(np.arange(200) % 2 == 0, 1e-3, 5e-4)
    assert is_clean(judge(JUMP, resumed("learning_rate", zigzag)))


def test_a_jump_without_a_resume_is_left_alone() -> None:
    values = np.concatenate([decaying()[:AT], decaying()[:AT]])
    assert is_clean(judge(JUMP, view(series("learning_rate", values.tolist()))))
    restart = resumed("learning_rate", values, resume=False)
    assert is_clean(judge(JUMP, restart))


def test_a_resume_of_another_file_is_not_seen_here() -> None:
    values = np.concatenate([decaying()[:AT], decaying()[:AT]])
    other = Rewind("other.jsonl", 115, 101, True)
    one = view(series("learning_rate", values.tolist()), rewinds=(other,))
    assert skipped(judge(JUMP, one)) is Skip.NEED_ABSENT


def test_a_resume_from_zero_has_no_rate_to_compare_with() -> None:
    values = decaying()
    values[:AT] = 0
    assert is_clean(judge(JUMP, resumed("learning_rate", values)))


# --- the loss -------------------------------------------------------------------------------------


def lost(count: int = 200, rise: float = 1.5) -> Floats:
    values = learning(count, 4, 1)
    values[AT:] += rise * np.exp(-np.arange(count - AT) / 30)
    return values


def test_a_loss_that_jumps_up_is_a_warning_and_says_when_it_is_back() -> None:
    cell = judge(LOST, resumed("loss", lost()))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message == "loss rises from 1.274 to 2.291 at the resume at step 101."
    assert measured(cell)["back"] == "at step 160"


def test_a_loss_that_never_comes_back_says_so() -> None:
    values = lost()
    values[AT:] = 2.6 + 0.05 * noise(100)
    assert measured(judge(LOST, resumed("loss", values)))["back"] == "nowhere in the log"


def test_a_loss_that_goes_on_is_clean() -> None:
    assert is_clean(judge(LOST, resumed("loss", learning(200))))


def test_a_small_rise_is_clean() -> None:
    assert is_clean(judge(LOST, resumed("loss", lost(rise=0.3))))


def test_a_rise_within_the_noise_is_clean() -> None:
    values = learning(200, 4, 3, cv=0.4)
    values[AT:] += 0.4
    assert is_clean(judge(LOST, resumed("loss", values)))


def test_a_rise_elsewhere_is_left_to_other_rules() -> None:
    values = learning(200)
    values[150:] += 2
    assert is_clean(judge(LOST, resumed("loss", values)))


def test_a_resume_near_the_end_is_not_judged() -> None:
    assert skipped(judge(LOST, resumed("loss", learning(200), at=190))) is Skip.NEED_TOO_SHORT


def test_reinforcement_is_out_of_scope() -> None:
    one = view(series("loss", lost().tolist()), regime=Regime.REINFORCEMENT)
    assert skipped(judge(LOST, one)) is Skip.REGIME
