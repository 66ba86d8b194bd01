"""The public report, schema version 4: field names are JSON keys, and emitters need nothing else.

Numbers that JSON cannot spell are the strings "NaN", "Infinity" and "-Infinity"; text holds no
lone surrogates. Once released, a field is never removed or given another meaning within one
schema version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import overload

import msgspec
from msgspec.structs import replace

from .outcome import Application, Level, Public, Value

SCHEMA_VERSION = 4
COVERAGE_SCHEMA = "notchecked/1"
REFUSAL = "TP-CMP-UNCOMPARABLE"
"""The rule whose finding says that a comparison was asked for and could not be made."""
Number = int | float | str
"""A number, or the spelling of one that JSON lacks."""


class Verdict(StrEnum):
    """Ordered by severity: FAIL > WARN > NOT-CHECKED > PASS."""

    FAIL = "FAIL"
    WARN = "WARN"
    NOT_CHECKED = "NOT-CHECKED"
    PASS = "PASS"

    @property
    def severity(self) -> int:
        """0 for PASS up to 3 for FAIL."""
        return len(Verdict) - 1 - list(Verdict).index(self)


class ExitCode(IntEnum):
    """0 judged, no FAIL; 1 at least one FAIL (or what --fail-on names); 2 could not judge."""

    OK = 0
    FAIL = 1
    CANNOT_JUDGE = 2


class FailOn(StrEnum):
    """The lowest verdict that makes the exit code 1."""

    FAIL = "fail"
    WARN = "warn"
    NOT_CHECKED = "not-checked"
    NEVER = "never"


class Location(msgspec.Struct, frozen=True):
    """``path`` is relative to the audited root; ``line`` is 1-based, None for binary files."""

    path: str
    line: int | None = None


class Finding(msgspec.Struct, frozen=True):
    id: str
    level: Level
    message: str
    evidence: str
    source: str
    measured: Mapping[str, Value]
    thresholds: Mapping[str, Value]
    location: Location
    variant: str = ""
    series: str | None = None
    tensor: str | None = None
    segment: int = 0
    superseded: bool = False
    first_step: int | None = None
    last_step: int | None = None


class CheckDetail(msgspec.Struct, frozen=True):
    """One cell of the subject x rule matrix, in full."""

    state: str
    skip: str | None
    owner: str | None
    applications: tuple[Application, ...]


class CoverageBlock(msgspec.Struct, frozen=True):
    """The ``notchecked/1`` block that consumers of 0.22 parse."""

    schema: str
    states: Mapping[str, str]
    counts: Mapping[str, int]
    total: int
    checked: int
    checked_pct: float


class Checks(msgspec.Struct, frozen=True):
    """``ran``: rule ids that were applied. ``skipped``: rule id to the reason it was not."""

    ran: tuple[str, ...]
    skipped: Mapping[str, str]
    coverage: CoverageBlock
    details: Mapping[str, CheckDetail]


class ArtifactEntry(msgspec.Struct, frozen=True):
    path: str
    reader: str
    kind: str
    size: int
    status: str = "read"


class Segment(msgspec.Struct, frozen=True):
    """One execution within a run, with the steps it covers."""

    index: int
    first_step: int | None
    last_step: int | None
    superseded: bool = False


class SeriesSummary(msgspec.Struct, frozen=True):
    """``curve`` is a text picture of the values, a cross where a value is not finite."""

    name: str
    artifact: str
    role: str
    split: str
    scope: str
    component: str | None
    direction: str
    segment: int
    points: int
    nonfinite: int
    first: Number
    last: Number
    min: Number
    max: Number
    first_step: int
    last_step: int
    curve: str = ""
    also_in: tuple[str, ...] = ()


class Comparison(msgspec.Struct, frozen=True):
    """One series of the run beside the same series of a baseline, over the steps of both.

    ``start``, ``floor`` and ``end`` are medians of blocks of steps: the first, the lowest and the
    last one. Both curves show those medians on one scale. ``differences``: what the two runs
    declare differently.
    """

    baseline: str
    series: str
    baseline_series: str
    split: str
    segment: int
    first_step: int
    last_step: int
    points: int
    baseline_points: int
    start: Number
    floor: Number
    end: Number
    baseline_start: Number
    baseline_floor: Number
    baseline_end: Number
    curve: str = ""
    baseline_curve: str = ""
    differences: tuple[str, ...] = ()


class CheckpointSummary(msgspec.Struct, frozen=True):
    """One file of a checkpoint. ``extent``: how much of it was read; ``reason``: why not more.

    ``parameters``: elements of its weights, those that share memory counted once. ``measured``:
    elements whose values were read, ``nonfinite`` and ``zeros`` of them.
    """

    path: str
    layout: str
    size: int
    extent: str
    reason: str
    integrity: str
    safety: str | None
    weights_only: bool | None
    tensors: int
    parameters: int
    measured: int
    nonfinite: int
    zeros: int


class TensorSummary(msgspec.Struct, frozen=True):
    """One tensor of a checkpoint. ``unread``: why its values are not known, "" where they are.

    ``min``, ``max`` and ``absmax`` are over finite elements, null where there are none.
    """

    name: str
    path: str
    group: str
    dtype: str
    shape: tuple[int, ...] | None
    elements: int
    nan: int = 0
    inf: int = 0
    zeros: int = 0
    min: Number | None = None
    max: Number | None = None
    absmax: Number | None = None
    unread: str = ""


class TensorDifference(msgspec.Struct, frozen=True):
    """One tensor beside the same one of the reference; or one that only either of them has.

    ``change``: same, moved, retyped, reshaped, unknown, added or gone. ``compared``: elements whose
    values were compared, ``identical`` of them bit by bit. The norms are over these, null where
    they were not computed; ``distance`` is the norm of the difference. ``unread``: why values were
    not compared.
    """

    name: str
    path: str
    group: str
    change: str
    dtype: str | None
    dtype_before: str | None
    shape: tuple[int, ...] | None
    shape_before: tuple[int, ...] | None
    compared: int = 0
    identical: int = 0
    norm: Number | None = None
    norm_before: Number | None = None
    distance: Number | None = None
    unread: str = ""


class CheckpointDrift(msgspec.Struct, frozen=True):
    """What is between a checkpoint and its reference. ``changes``: number of tensors by change.

    ``prefix``: what names begin with in the checkpoint alone, ``prefix_before``: in the reference.
    """

    reference: str
    step: int | None
    step_before: int | None
    changes: Mapping[str, int]
    tensors: tuple[TensorDifference, ...]
    prefix: str = ""
    prefix_before: str = ""


class KeptCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint of a run; it has a report of its own, of this id."""

    id: str
    step: int | None
    verdict: Verdict
    files: int
    size: int


class Problem(msgspec.Struct, frozen=True):
    """Something that went wrong while reading."""

    code: str
    path: str
    detail: str
    fatal: bool
    line: int | None = None


class RewindEntry(msgspec.Struct, frozen=True):
    path: str
    from_step: int
    to_step: int
    resume: bool
    line: int | None = None
    counted_as: int | None = None


class SubjectReport(msgspec.Struct, frozen=True):
    """Everything about one judged subject. ``because``: for NOT-CHECKED, what stood in the way of
    the rules that would have given grounds for a PASS. ``measured``: of a subject that is no run,
    what is known of it as a whole."""

    id: str
    kind: str
    root: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    checks: Checks
    artifacts: tuple[ArtifactEntry, ...]
    segments: tuple[Segment, ...] = ()
    rewinds: tuple[RewindEntry, ...] = ()
    series: tuple[SeriesSummary, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    checkpoints: tuple[CheckpointSummary, ...] = ()
    tensors: tuple[TensorSummary, ...] = ()
    drift: CheckpointDrift | None = None
    kept: tuple[KeptCheckpoint, ...] = ()
    unknown_columns: tuple[str, ...] = ()
    facts: Mapping[str, Value] | None = None
    measured: Mapping[str, Value] | None = None
    problems: tuple[Problem, ...] = ()
    because: str | None = None


class HeadCoverage(msgspec.Struct, frozen=True):
    """Of a ``CoverageBlock``, how many cells there are, and in what states."""

    counts: Mapping[str, int]
    total: int
    checked: int


class HeadChecks(msgspec.Struct, frozen=True):
    """Of ``Checks``, the numbers alone."""

    coverage: HeadCoverage


class Head(msgspec.Struct, frozen=True):
    """The fields of a subject's report that the exit code and the summary of all subjects ask for,
    at their places."""

    id: str
    kind: str
    root: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    checks: HeadChecks
    unknown_columns: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class EncodedSubject(msgspec.Struct, frozen=True):
    """A subject's report as the JSON that it becomes, in UTF-8 on one line, and its head."""

    head: Head
    text: bytes

    def decoded(self) -> SubjectReport:
        """The report as an object. Raises msgspec.MsgspecError where the text is none: of one that
        a worker sent, only the head was checked."""
        return msgspec.json.decode(self.text, type=SubjectReport)


def head_of(text: bytes) -> Head:
    """The head of an encoded report. Raises msgspec.MsgspecError where the text is no JSON, or has
    no such fields; what it passes over must be JSON, and is not looked at."""
    return msgspec.json.decode(text, type=Head)


class Subjects(Sequence[SubjectReport]):
    """Reports of many subjects, kept encoded: each is decoded whenever it is asked for. As objects,
    they take several times the memory."""

    __slots__ = ("encoded",)
    __hash__ = None  # type: ignore[assignment] # as of a tuple of what cannot be hashed

    def __init__(self, encoded: Iterable[EncodedSubject]) -> None:
        self.encoded = tuple(encoded)

    def __len__(self) -> int:
        return len(self.encoded)

    @overload
    def __getitem__(self, index: int) -> SubjectReport: ...

    @overload
    def __getitem__(self, index: slice) -> Subjects: ...

    def __getitem__(self, index: int | slice) -> SubjectReport | Subjects:
        if isinstance(index, slice):
            return Subjects(self.encoded[index])
        return self.encoded[index].decoded()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Subjects | tuple):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))


class RuleEntry(msgspec.Struct, frozen=True):
    """What emitters need to know about a rule; copied from its declaration."""

    id: str
    family: str
    title: str
    level: Level
    measures: str
    means: str
    does_not_mean: str
    guards: tuple[str, ...]
    references: tuple[str, ...]


class NotJudgedFile(msgspec.Struct, frozen=True):
    path: str
    content: str
    detail: str = ""


class NotJudged(msgspec.Struct, frozen=True):
    """``counts``: content to number of files. ``files`` lists those worth naming, at most
    ``LISTED_FILES``; ``unlisted`` says how many were left out."""

    counts: Mapping[str, int]
    files: tuple[NotJudgedFile, ...] = ()
    unlisted: int = 0


class Anchor(msgspec.Struct, frozen=True):
    """A file in the repository that stands for a root outside of it in annotations."""

    path: str
    line: int = 1


class Invocation(msgspec.Struct, frozen=True):
    """The only place for clocks, machines and arguments."""

    started: str = ""
    seconds: float = 0.0
    jobs: int = 0
    isolated: bool = True
    memory_limit_enforced: bool = True


class Report(msgspec.Struct, frozen=True):
    schema_version: int
    trainproof_version: str
    reports: Sequence[SubjectReport]
    worst_verdict: Verdict
    error: str | None
    not_judged: NotJudged
    rules: tuple[RuleEntry, ...]
    problems: tuple[Problem, ...] = ()
    anchors: Mapping[str, Anchor] | None = None
    invocation: Invocation | None = None

    @property
    def heads(self) -> Iterator[Head | SubjectReport]:
        """What the exit code and a summary ask of each subject, in the order of the reports."""
        return heads(self.reports)

    def decoded(self) -> Report:
        """The same, with the reports of all subjects as objects: for who goes through them more
        than once."""
        if isinstance(self.reports, Subjects):
            return replace(self, reports=tuple(self.reports))
        return self

    def rule(self, id: str) -> RuleEntry:
        return next(entry for entry in self.rules if entry.id == id)

    def findings(self) -> Iterator[tuple[SubjectReport, Finding]]:
        for number, head in enumerate(self.heads):
            if head.findings:
                subject = self.reports[number]
                yield from ((subject, finding) for finding in subject.findings)


def heads(subjects: Sequence[SubjectReport]) -> Iterator[Head | SubjectReport]:
    """What is known of each without its report being decoded."""
    if isinstance(subjects, Subjects):
        return (one.head for one in subjects.encoded)
    return iter(subjects)


def worst(verdicts: Iterator[Verdict]) -> Verdict:
    """The most severe one; NOT-CHECKED where there is none."""
    return max(verdicts, key=lambda verdict: verdict.severity, default=Verdict.NOT_CHECKED)


LISTED_FILES = 1000
LISTED_TENSORS = 5000
"""Tensors of one subject that its report lists, those that are not finite first; the summaries of
the files count all of them."""
_LEAST = {
    FailOn.FAIL: Verdict.FAIL.severity,
    FailOn.WARN: Verdict.WARN.severity,
    FailOn.NOT_CHECKED: Verdict.NOT_CHECKED.severity,
    FailOn.NEVER: Verdict.FAIL.severity + 1,
}


def exit_code(report: Report, fail_on: FailOn = FailOn.FAIL) -> ExitCode:
    """The exit-code contract, in the one function that computes it.

    1 outranks 2: a run that failed has failed whatever else could not be read. 2 when the
    audit itself failed, when no subject was judged, or when something recognised could not
    be read, a check did not finish or a comparison could not be made.
    """
    if any(one.verdict.severity >= _LEAST[fail_on] for one in report.heads):
        return ExitCode.FAIL
    judged = any(one.verdict is not Verdict.NOT_CHECKED for one in report.heads)
    if report.error is not None or not judged or _unfinished(report):
        return ExitCode.CANNOT_JUDGE
    return ExitCode.OK


def _unfinished(report: Report) -> bool:
    at_large = any(problem.fatal for problem in report.problems)
    return at_large or any(map(_is_unfinished, report.heads))


def _is_unfinished(one: Head | SubjectReport) -> bool:
    return (
        Public.CHECKER_FAILED in one.checks.coverage.counts
        or any(problem.fatal for problem in one.problems)
        or any(finding.id == REFUSAL for finding in one.findings)
    )
