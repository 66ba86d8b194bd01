"""What was seen and not judged is told by the summary and by the full report alike."""

from __future__ import annotations

import pytest

from tests.support.report import report, subject
from trainproof.emit.console import summary
from trainproof.emit.doctor import LIMITS, doctor
from trainproof.model.report import NotJudged, NotJudgedFile, Problem, Report

MISSING = Problem("io", "nope", "No such file or directory", fatal=True)


def texts(made: Report) -> tuple[str, str]:
    return summary(made).decode(), doctor(made).decode()


@pytest.mark.parametrize("which", [0, 1])
def test_a_path_that_is_not_there_is_told(which: int) -> None:
    told = texts(report(problems=(MISSING,)))[which]
    assert (
        "Could not be read\n  ! 'nope' could not be read: io (No such file or directory)." in told
    )
    assert told.endswith("exit code 2: could not judge: nothing was found that could be judged\n")
    assert LIMITS[:20] not in told


@pytest.mark.parametrize("which", [0, 1])
def test_files_that_are_no_logs_are_told(which: int) -> None:
    files = NotJudged({"empty": 1, "not-a-log": 2}, (NotJudgedFile("x.csv", "empty"),))
    told = texts(report(not_judged=files))[which]
    assert "Seen and not judged: 3 files\n  1 empty, 2 not-a-log\n  x.csv: empty\n" in told
    assert "--format-hint NAME" in told
    assert "--format-hint" not in texts(report(subject(), not_judged=files))[which]


@pytest.mark.parametrize("which", [0, 1])
def test_what_makes_numbers_a_loss_is_told_where_nothing_else_is(which: int) -> None:
    files = NotJudged({"unnamed-numbers": 3})
    told = texts(report(not_judged=files))[which]
    assert "3 unnamed-numbers" in told
    assert "--format-hint numbers" in told
    assert "--format-hint numbers" not in texts(report(subject(), not_judged=files))[which]


@pytest.mark.parametrize("which", [0, 1])
def test_who_judges_tensors_that_are_no_model_is_told(which: int) -> None:
    files = NotJudged({"saved-data": 2})
    told = texts(report(subject(), not_judged=files))[which]
    hint = "saved-data: tensors that no layer is named by; trainproof checkpoint judges them too."
    assert f"Seen and not judged: 2 files\n  2 saved-data\n  {hint}\n" in told


@pytest.mark.parametrize("which", [0, 1])
def test_how_an_archive_is_looked_into_is_told(which: int) -> None:
    told = texts(report(subject(), not_judged=NotJudged({"archive": 1})))[which]
    hint = "archive: looked into where it is a PATH of its own."
    assert f"Seen and not judged: 1 file\n  1 archive\n  {hint}\n" in told


@pytest.mark.parametrize("which", [0, 1])
def test_a_blemish_beside_the_runs_is_told(which: int) -> None:
    odd = Problem("skipped-link", "runs/x", "leads out of the root", fatal=False)
    told = texts(report(subject(), problems=(odd,)))[which]
    assert "Read with blemishes: 1 place\n  runs/x: skipped-link: leads out of the root\n" in told
