"""What the rules say of the runs: an audit end to end, reduced to what is counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainproof.api import audit, audit_checkpoints
from trainproof.config import Config
from trainproof.model.report import Report, SubjectReport

from .faults import FAULTS
from .runs import Run

LEVELS = ("FAIL", "WARN", "INFO")
PEER_DECIDED = "verdict"
"""In the place of a rule, for a tool of which only the verdict is known."""


@dataclass(slots=True)
class Judgement:
    """Of one run. ``fired``: rule to the gravest level of its findings. ``decided``: rules that
    were clean or fired. ``skipped``: rule to the reason it was not checked."""

    fired: dict[str, str] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)

    def at(self, *levels: str) -> bool:
        """A finding of one of these levels."""
        return any(level in levels for level in self.fired.values())

    def add(self, report: SubjectReport) -> None:
        for finding in report.findings:
            known = self.fired.get(finding.id, "INFO")
            self.fired[finding.id] = min(known, str(finding.level), key=LEVELS.index)
        for rule, detail in report.checks.details.items():
            if detail.state == "not-checked":
                self.skipped[rule] = detail.skip or ""
            else:
                self.decided.add(rule)


Judgements = Mapping[str, Judgement]
"""By path of the run below the root."""


def judge(root: Path, runs: Sequence[Run]) -> Judgements:
    """Audit all runs at once, as one would a directory of experiments; then checkpoints and
    comparisons of those whose fault is there."""
    judged = {run.case.path: Judgement() for run in runs}
    _add(judged, audit(_config(root)), "")
    for name, fault in FAULTS.items():
        if fault.checkpoint and (root / name).is_dir():
            _add(judged, audit_checkpoints(_config(root / name)), f"{name}/")
    for run in runs:
        if run.case.fault in FAULTS and FAULTS[run.case.fault].baseline:
            _compare(root, run, judged)
    return judged


def _compare(root: Path, run: Run, judged: Judgements) -> None:
    """With the same training without the fault."""
    control = f"none/{Path(run.case.path).name}"
    report = audit(_config(root / run.case.path, baseline=str(root / control)))
    for subject in report.reports:
        judged[run.case.path].add(subject)


def _config(root: Path, baseline: str | None = None) -> Config:
    """In this process: the files are our own, and a worker would only take time."""
    return Config(paths=(str(root),), baseline=baseline, isolation=False)


def _add(judged: Judgements, report: Report, prefix: str) -> None:
    for subject in report.reports:
        for path in {_run_of(prefix + artifact.path) for artifact in subject.artifacts}:
            judged[path].add(subject)


def _run_of(path: str) -> str:
    """The run's directory: the first two parts."""
    return "/".join(path.split("/")[:2])


def unread(judged: Judgements, runs: Iterable[Run]) -> list[str]:
    """Runs of which no subject came out: the tool did not recognise the log."""
    return [r.case.path for r in runs if not judged[r.case.path].decided]
