from __future__ import annotations

import numpy as np

from trainproof.model.data import Floats, Regime, Rewind, RunView
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


def test_a_second_warm_up_is_named() -> None:
    values = decaying()
    values[AT : AT + 20] *= np.linspace(0.01, 1, 20)
    cell = judge(JUMP, resumed("learning_rate", values))
    assert level(cell) == (Level.WARN, "warm-up")


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
