"""Questions that several emitters ask of a finished report, each answered once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from trainproof.model.data import Role, Split
from trainproof.model.outcome import Level, Owner, Skip, State
from trainproof.model.report import (
    REFUSAL,
    CheckDetail,
    ExitCode,
    FailOn,
    Finding,
    Problem,
    Report,
    SeriesSummary,
    SubjectReport,
    Verdict,
    exit_code,
)
from trainproof.model.rule import SubjectKind
from trainproof.model.text import safe

NAMED_RULES = 8
"""Rule ids that a sentence about a hole names before it says how many more there are."""
_LEVELS = tuple(Level)
_CURVE_ROLES = (Role.LOSS, Role.REWARD, Role.METRIC)
_OWED = frozenset({str(Owner.TOOL), str(Owner.FILE)})


def shorten(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` characters; a cut is visible."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def distinct(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` characters, so that different long texts stay different."""
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(safe(text).encode()).hexdigest()[:8]
    return f"{text[: limit - 9]}…{digest}"


def plural(count: int, noun: str) -> str:
    """``count`` with thousands separators and ``noun`` in the right number."""
    many = noun.removesuffix("us") + "ora" if noun.endswith("corpus") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def full_path(root: str, path: str) -> str:
    """The path as the caller would spell it: below ``root``, or ``root`` itself where the
    caller named a single file (its store then holds one path, the file's own name)."""
    if root in ("", "."):
        return path or "."
    root = root.rstrip("/") or "/"
    if path in ("", ".") or path == root.rpartition("/")[2]:
        return root
    return f"{root if root != '/' else ''}/{path}"


def name(subject: SubjectReport) -> str:
    """What a person calls the subject: its path from where the audit was started; a root that
    is one file has a run named after it."""
    if [file.path for file in subject.artifacts] == [subject.root.rpartition("/")[2]]:
        return subject.root
    return full_path(subject.root, subject.id)


def ranking(report: Report) -> list[int]:
    """Places of the subjects in the report: the worst first, runs before what they keep, then by
    root and id."""
    keys = [
        (-one.verdict.severity, one.kind != SubjectKind.RUN, one.root, one.id)
        for one in report.heads
    ]
    return sorted(range(len(keys)), key=keys.__getitem__)


def ranked(report: Report) -> list[SubjectReport]:
    """The subjects in the order of their ranking."""
    return [report.reports[place] for place in ranking(report)]


def by_severity(findings: Sequence[Finding]) -> list[Finding]:
    """Worst first; what a later attempt replaced comes after what stands."""
    return sorted(findings, key=lambda f: (_LEVELS.index(f.level), f.superseded))


def tally(report: Report) -> dict[Verdict, int]:
    """Number of subjects by verdict, worst first, without those that no subject has."""
    counts = Counter(one.verdict for one in report.heads)
    return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}


def tallied(report: Report) -> str:
    """``3 runs: 1 FAIL, 2 PASS``; ``2 runs and 1 checkpoint: …``."""
    kinds = Counter(one.kind for one in report.heads) or {str(SubjectKind.RUN): 0}
    what = " and ".join(plural(count, _NOUNS.get(kind, kind)) for kind, count in kinds.items())
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in tally(report).items())
    return what + (f": {counts}" if counts else "")


def noun(report: Report) -> str:
    """What the subjects of the report are."""
    kinds = {one.kind for one in report.heads} or {str(SubjectKind.RUN)}
    return _NOUNS.get(kind := kinds.pop(), kind) if len(kinds) == 1 else "subject"


_NOUNS = {str(SubjectKind.SPEECH): "speech corpus"}
"""Where the kind of a subject is not its name."""


def checked(report: Report) -> tuple[int, int]:
    """Cells of the subject x rule matrix in which the rule was applied, and all cells."""
    blocks = [one.checks.coverage for one in report.heads]
    return sum(b.checked for b in blocks), sum(b.total for b in blocks)


def principal(subject: SubjectReport) -> SeriesSummary | None:
    """The series that pictures the run: a total before a component, training before
    evaluation, the latest segment before an earlier one, then most points."""
    for role in _CURVE_ROLES:
        found = [one for one in subject.series if one.role == role]
        if found:
            return max(found, key=_prominence)
    return None


def _prominence(series: SeriesSummary) -> tuple[bool, bool, int, int]:
    total, training = series.component is None, series.split == Split.TRAIN
    return total, training, series.segment, series.points


def headline(subject: SubjectReport) -> str:
    """The worst finding in one sentence; without one, what the verdict rests on."""
    found = by_severity(subject.findings)
    if found and found[0].level is not Level.INFO:
        return f"{found[0].id}: {found[0].message}"
    if subject.verdict is Verdict.NOT_CHECKED:
        return f"not judged: {_why_not(subject)}"
    coverage = subject.checks.coverage
    return f"{coverage.checked} of {coverage.total} rules checked, none fired above INFO"


def _why_not(subject: SubjectReport) -> str:
    fatal = next((problem for problem in subject.problems if problem.fatal), None)
    if fatal is not None:
        return f"{fatal.path} could not be read ({fatal.code})"
    return subject.because or "no rule that could judge it was selected"


class Hole(msgspec.Struct, frozen=True):
    """Something that should have been checked and was not.

    ``subject`` is None for a problem that belongs to no run. ``rules`` are those that were not
    applied because of it. ``path`` is relative to the subject's root.
    """

    subject: SubjectReport | None
    path: str
    line: int | None
    reason: str
    rules: tuple[str, ...] = ()
    unreadable: bool = False

    def sentence(self) -> str:
        """The hole in one sentence, ended by a full stop."""
        if self.subject is None:
            return f"'{self.path}' could not be read: {self.reason}."
        if not self.unreadable:
            return f"{name(self.subject)}: {self._lost()} not checked: {self.reason}."
        lost = f"; {self._lost()} not checked because of it" if self.rules else ""
        return f"{name(self.subject)}: '{self.path}' could not be read: {self.reason}{lost}."

    def _lost(self) -> str:
        named = ", ".join(self.rules[:NAMED_RULES])
        more = len(self.rules) - NAMED_RULES
        named += f" and {more} more" if more > 0 else ""
        verb = "was" if len(self.rules) == 1 else "were"
        return f"{plural(len(self.rules), 'rule')} ({named}) {verb}"


def holes_at_large(report: Report) -> Iterator[Hole]:
    """Those of no subject."""
    for problem in report.problems:
        if problem.fatal:
            yield Hole(None, problem.path, problem.line, _told(problem), unreadable=True)


def holes(report: Report) -> Iterator[Hole]:
    """What the tool or a file kept from being checked, in the order of the report."""
    yield from holes_at_large(report)
    for subject in report.reports:
        yield from holes_of(subject)


def holes_of(subject: SubjectReport) -> Iterator[Hole]:
    """Those of one subject: first the files that could not be read."""
    fatal: dict[str, Problem] = {}
    for problem in subject.problems:
        if problem.fatal:
            fatal.setdefault(problem.path, problem)
    lost: dict[str, list[str]] = {path: [] for path in fatal}
    other: dict[tuple[str, str], list[str]] = {}
    home = subject.artifacts[0].path if subject.artifacts else ""
    for rule, detail in subject.checks.details.items():
        if not owed(detail):
            continue
        cited = cause(detail)
        if cited in lost:
            lost[cited].append(rule)
        else:
            reason = subject.checks.skipped.get(rule, detail.skip or "")
            other.setdefault((cited or home, reason), []).append(rule)
    for path, problem in fatal.items():
        yield Hole(subject, path, problem.line, _told(problem), tuple(lost[path]), True)
    for (path, reason), rules in other.items():
        yield Hole(subject, path, None, reason, tuple(rules))


def owed(detail: CheckDetail) -> bool:
    """Whether the cell is a check that the run was owed: not the run's doing, nor the caller's;
    or a comparison that was asked for."""
    refused = detail.skip == Skip.UNCOMPARABLE
    return detail.state == State.NOT_CHECKED and (detail.owner in _OWED or refused)


def cause(detail: CheckDetail) -> str:
    """The artifact that a cell which was not checked cites as the cause, or ""."""
    for application in detail.applications:
        if application.measured and "artifact" in application.measured:
            return str(application.measured["artifact"])
    return ""


def _told(problem: Problem) -> str:
    return f"{problem.code} ({problem.detail})" if problem.detail else problem.code


_GATES = {
    FailOn.FAIL: "at least one {} is FAIL",
    FailOn.WARN: "at least one {} is FAIL or WARN",
    FailOn.NOT_CHECKED: "at least one {} is FAIL, WARN or NOT-CHECKED",
    FailOn.NEVER: "",
}
_OPEN = {
    FailOn.FAIL: "no {} that was judged is FAIL",
    FailOn.WARN: "no {} that was judged is FAIL or WARN",
    FailOn.NOT_CHECKED: "every {} was judged and is PASS",
    FailOn.NEVER: "verdicts do not count, by the caller's choice",
}


def meaning(report: Report, fail_on: FailOn) -> str:
    """The exit code with its meaning for this report."""
    code = exit_code(report, fail_on)
    if code is ExitCode.FAIL:
        return f"exit code 1: {_GATES[fail_on].format(noun(report))}"
    if code is ExitCode.OK:
        return f"exit code 0: {_OPEN[fail_on].format(noun(report))}"
    return f"exit code 2: could not judge: {_obstacle(report)}"


def _obstacle(report: Report) -> str:
    if report.error is not None:
        return f"the audit itself failed: {report.error}"
    if any(finding.id == REFUSAL for one in report.heads for finding in one.findings):
        return "a comparison that was asked for could not be made"
    if not report.reports:
        return "nothing was found that could be judged"
    if all(one.verdict is Verdict.NOT_CHECKED for one in report.heads):
        return f"no {noun(report)} was judged"
    return "something recognised could not be read, or a check did not finish"
