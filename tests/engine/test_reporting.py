"""What a worker says of a run is checked before it is believed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from trainproof import audit
from trainproof.engine.cells import not_checked
from trainproof.engine.reporting import checked, matrix, of_kinds, told
from trainproof.model.artifact import Artifact, Content, Kind, Run, Unjudged
from trainproof.model.encoding import encoded
from trainproof.model.outcome import Skip
from trainproof.model.report import ArtifactEntry, KeptCheckpoint, Subjects, Verdict
from trainproof.model.rule import SubjectKind
from trainproof.model.wire import FrameError, RunResult, Settings, Task

RUN = frozenset({SubjectKind.RUN})
RULES = tuple(of_kinds(RUN))
TASK = Task(0, Run("a", "runs", ()))
PLAIN, REPORTED = Settings(RULES), Settings(RULES, kinds=RUN)
LOG = Artifact("runs", "log.csv", 9, Kind.LOG, "csv")
RESULT = RunResult(tuple(not_checked(id, Skip.NEED_ABSENT) for id in RULES))


def test_without_kinds_the_result_is_told_as_it_is() -> None:
    assert told(TASK, RESULT, PLAIN) is RESULT
    assert checked(TASK, RESULT, PLAIN) is RESULT


def test_with_kinds_the_report_is_told_in_the_place_of_the_cells() -> None:
    result = told(TASK, RESULT, REPORTED)
    assert result.cells == ()
    assert result.report is not None
    assert result.report.head.verdict is Verdict.NOT_CHECKED
    assert tuple(result.report.decoded().checks.details) == tuple(sorted(RULES))
    assert checked(TASK, result, REPORTED) is result


def test_of_a_run_without_a_log_there_is_no_report() -> None:
    entry = ArtifactEntry("log.csv", "csv", "log", 9)
    hollow = Unjudged("runs", "log.csv", Content.HEADER_ONLY)
    settings = Artifact("runs", "config.json", 2, Kind.CONFIG, "settings")
    task = replace(TASK, run=Run("a", "runs", (LOG, settings)))
    result = told(task, replace(RESULT, artifacts=(entry,), unjudged=(hollow,)), REPORTED)
    assert (result.report, result.unjudged) == (None, (hollow,))
    assert checked(task, result, REPORTED) is result


@pytest.mark.parametrize("artifacts", [(), (LOG,)])
def test_a_run_of_which_nothing_is_said_is_refused(artifacts: tuple[Artifact, ...]) -> None:
    task = replace(TASK, run=Run("a", "runs", artifacts))
    with pytest.raises(FrameError, match="neither a report nor why there is none"):
        checked(task, RunResult(()), REPORTED)


def test_a_run_that_keeps_checkpoints_has_the_rules_about_these_and_lists_them() -> None:
    kept = KeptCheckpoint("a/checkpoint-1", 1, Verdict.PASS, 2, 90)
    kinds = RUN | {SubjectKind.KEPT}
    settings, task = Settings(RULES, kinds=kinds), replace(TASK, listed=(kept,))
    report = told(task, RESULT, settings).report
    assert report is not None
    assert report.decoded().kept == (kept,)
    rules = set(matrix(SubjectKind.RUN, frozenset(kinds), keeps=True))
    assert rules == {*RULES, *of_kinds({SubjectKind.KEPT})}
    assert set(report.decoded().checks.details) == rules


@pytest.mark.parametrize("cells", [(), RESULT.cells[1:], (*RESULT.cells, RESULT.cells[0])])
def test_cells_that_were_not_asked_for_are_refused(cells: tuple[object, ...]) -> None:
    with pytest.raises(FrameError, match="cells are not those asked for"):
        checked(TASK, replace(RESULT, cells=cells), PLAIN)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"{", b"[", "Expected `object`"),
        (b'"verdict":"NOT-CHECKED"', b'"verdict":"PASS"', "not that of the task"),
        (b'"verdict":"NOT-CHECKED"', b'"verdict":"FINE"', "FINE"),
        (b'"id":"a"', b'"id":"b"', "not that of the task"),
        (b'"id":"a"', b'"id":"a\xff"', "UTF-8"),
    ],
)
def test_a_report_that_is_none_or_another_one_is_refused(old: bytes, new: bytes, why: str) -> None:
    result = told(TASK, RESULT, REPORTED)
    assert result.report is not None
    text = result.report.text.replace(old, new, 1)
    with pytest.raises(FrameError, match=why):
        checked(TASK, replace(result, report=replace(result.report, text=text)), REPORTED)


def test_a_report_about_another_run_is_refused() -> None:
    result = told(TASK, RESULT, REPORTED)
    for run in (Run("b", "runs", ()), Run("a", "others", ())):
        with pytest.raises(FrameError, match="not that of the task"):
            checked(replace(TASK, run=run), result, REPORTED)


def test_a_report_without_a_cell_for_each_rule_is_refused() -> None:
    result = told(TASK, RESULT, REPORTED)
    more = replace(REPORTED, kinds=RUN | {SubjectKind.PAIR})
    with pytest.raises(FrameError, match="not that of the task"):
        checked(TASK, result, more)


def test_the_matrix_of_a_kind_holds_the_rules_about_it() -> None:
    kinds = frozenset({SubjectKind.RUN, SubjectKind.CHECKPOINT})
    assert set(matrix(SubjectKind.RUN, kinds)) == set(RULES)
    assert set(matrix(SubjectKind.CHECKPOINT, kinds)) == set(of_kinds({SubjectKind.CHECKPOINT}))
    assert matrix(SubjectKind.SPEECH, kinds) == {}


def test_what_is_published_needs_no_more_spelling(tmp_path: Path) -> None:
    rows = ["step,loss,lr,seed", "1,2.5,0.1,3", f"2,nan,inf,{10**30}", f"3,-inf,1e308,{-(10**30)}"]
    rows += [f"{n},nan,nan,nan" for n in range(4, 40)]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    report = audit(str(tmp_path), isolation=False)
    assert isinstance(report.reports, Subjects)
    assert report.reports[0].verdict is Verdict.FAIL
    assert [one.text for one in map(encoded, report.reports)] == [
        one.text for one in report.reports.encoded
    ]
    assert b'"NaN"' in report.reports.encoded[0].text
