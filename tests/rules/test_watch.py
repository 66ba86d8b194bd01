"""TP-STALL."""

from __future__ import annotations

import pytest

from trainproof.model.data import RunView
from trainproof.model.following import Following
from trainproof.model.outcome import Cell, Level

from .judging import is_clean, judge, level, prose


def stall(following: Following, **thresholds: float) -> Cell:
    return judge("TP-STALL", RunView("run", inspected=following), **thresholds)


def test_a_log_that_is_silent_for_the_limit_is_a_warning() -> None:
    found = stall(Following(300.0, "run/log.csv"))
    assert level(found) == (Level.WARN, "")
    assert prose(found).message == "No file of the run has changed for 300 s."
    assert prose(found).evidence == "The last one to change was run/log.csv (limit 300 s)."


@pytest.mark.parametrize(
    "following", [Following(299.0, "log.csv"), Following(9999.0, "log.csv", finished=True)]
)
def test_a_log_that_grows_and_a_run_that_is_over_are_clean(following: Following) -> None:
    assert is_clean(stall(following))


def test_the_limit_is_the_callers() -> None:
    assert level(stall(Following(6.0, "log.csv"), seconds=5.0)) == (Level.WARN, "")
