"""User code that must type-check: the public API as people write against it."""

from __future__ import annotations

from pathlib import Path

from trainproof import Config, ExitCode, FailOn, Report, Verdict, audit, exit_code


def gate(path: str) -> ExitCode:
    report: Report = audit(path, select=("TP-NAN",), jobs=1)
    for subject, finding in report.findings():
        place: str = finding.location.path
        line: int | None = finding.location.line
        measured: object = finding.measured["points"]
        assert [subject.id, finding.id, finding.level, place, line, measured]
    if report.worst_verdict is Verdict.NOT_CHECKED:
        return ExitCode.CANNOT_JUDGE
    return exit_code(report, FailOn.WARN)


def configured() -> Report:
    return audit(Path("runs"), config=Config(exclude=("**/tmp/**",), timeout=10.0))
