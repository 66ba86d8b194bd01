"""The verdict and the exit code are separate axes, and each has one definition."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from trainproof.model.outcome import SKIPS, Owner, Public, Skip
from trainproof.model.report import (
    CheckDetail,
    Checks,
    CoverageBlock,
    ExitCode,
    FailOn,
    NotJudged,
    Problem,
    Report,
    SubjectReport,
    Verdict,
    exit_code,
    worst,
)


def subject(verdict: Verdict, skip: Skip | None = None, *problems: Problem) -> SubjectReport:
    public = SKIPS[skip].public if skip else Public.CHECKED
    detail = CheckDetail("not-checked", skip, SKIPS[skip].owner, ()) if skip else CLEAN
    coverage = CoverageBlock("notchecked/1", {"TP-X": public}, {str(public): 1}, 1, 0, 0.0)
    checks = Checks((), {}, coverage, {"TP-X": detail})
    return SubjectReport("r", "run", ".", verdict, (), checks, (), problems=problems)


def report(*subjects: SubjectReport, error: str | None = None) -> Report:
    found = worst(s.verdict for s in subjects)
    return Report(4, "1", subjects, found, error, NotJudged({}), ())


CLEAN = CheckDetail("clean", None, None, ())
FATAL = Problem("corrupt", "log", "bad", fatal=True)
CUT = Problem("truncated", "log", "cut", fatal=False)


def test_severity_orders_fail_warn_not_checked_pass() -> None:
    order = [Verdict.PASS, Verdict.NOT_CHECKED, Verdict.WARN, Verdict.FAIL]
    assert sorted(Verdict, key=lambda v: v.severity) == order
    assert worst(iter([Verdict.PASS, Verdict.WARN])) is Verdict.WARN
    assert worst(iter([])) is Verdict.NOT_CHECKED


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (report(subject(Verdict.PASS)), ExitCode.OK),
        (report(subject(Verdict.WARN)), ExitCode.OK),
        (report(subject(Verdict.FAIL)), ExitCode.FAIL),
        (report(), ExitCode.CANNOT_JUDGE),
        (report(subject(Verdict.NOT_CHECKED)), ExitCode.CANNOT_JUDGE),
        (report(subject(Verdict.PASS), subject(Verdict.NOT_CHECKED)), ExitCode.OK),
        (report(subject(Verdict.PASS, None, CUT)), ExitCode.OK),
        (report(subject(Verdict.PASS, None, FATAL)), ExitCode.CANNOT_JUDGE),
        *(
            (
                report(subject(Verdict.PASS, skip)),
                ExitCode.CANNOT_JUDGE if info.owner is Owner.TOOL else ExitCode.OK,
            )
            for skip, info in SKIPS.items()
        ),
        (report(subject(Verdict.FAIL, Skip.WORKER_CRASHED, FATAL)), ExitCode.FAIL),
        (report(error="broken"), ExitCode.CANNOT_JUDGE),
        (replace(report(subject(Verdict.PASS)), problems=(FATAL,)), ExitCode.CANNOT_JUDGE),
    ],
)
def test_exit_code(made: Report, code: ExitCode) -> None:
    assert exit_code(made) is code


@pytest.mark.parametrize(
    ("fail_on", "codes"),
    [
        (FailOn.FAIL, [1, 0, 2, 0]),
        (FailOn.WARN, [1, 1, 2, 0]),
        (FailOn.NOT_CHECKED, [1, 1, 1, 0]),
        (FailOn.NEVER, [0, 0, 2, 0]),
    ],
)
def test_fail_on_moves_only_what_counts_as_failure(fail_on: FailOn, codes: list[int]) -> None:
    verdicts = (Verdict.FAIL, Verdict.WARN, Verdict.NOT_CHECKED, Verdict.PASS)
    assert [exit_code(report(subject(v)), fail_on) for v in verdicts] == codes
