"""The full report of each run: what was read, what was measured, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainproof.model.outcome import Application, State
from trainproof.model.report import (
    CheckDetail,
    FailOn,
    Report,
    RewindEntry,
    RuleEntry,
    SeriesSummary,
    SubjectReport,
    Verdict,
)
from trainproof.model.text import printable

from .leftovers import blemishes, more, not_judged
from .terminal import Style, cells, finding_lines, fit, number, span
from .view import by_severity, headline, holes, meaning, name, plural, ranked, tallied

PASSED_IN_FULL = 20
"""Runs with the verdict PASS that are reported in full; the rest get one line each."""
PASSED_LISTED = 200
APPLICATIONS = 6
"""Applications of one rule that are shown with their numbers."""
SERIES = 200
NAMES = 100
_NAME_CELLS = 32

LIMITS = (
    "What a PASS cannot tell: it says that the rules which could be applied looked at the logged"
    " numbers and found none of the faults they know. It does not say that the model is good, that"
    " the data or the labels are right, that the metric measures what is wanted, or that the"
    " weights on disk are those the log describes. A quantity that was not logged was not judged,"
    " and a fault that moves no logged number leaves no trace. The rules listed as not checked are"
    " open questions, not answers."
)

LIMITED = frozenset({"run"})
"""Kinds of subjects that the paragraph is about."""


def doctor(
    report: Report,
    *,
    color: bool = False,
    width: int = 100,
    fail_on: FailOn = FailOn.FAIL,
    ascii: bool = False,
) -> bytes:
    """Every run in full, worst first; of the runs that passed, the first ``PASSED_IN_FULL``."""
    style = Style(color, width, ascii)
    subjects = ranked(report)
    passed = [subject for subject in subjects if subject.verdict is Verdict.PASS]
    brief = passed[PASSED_IN_FULL:]
    rules = {rule.id: rule for rule in report.rules}
    lines = [f"trainproof {printable(report.trainproof_version)}: {tallied(report)}."]
    if report.error is not None:
        lines += style.wrap(f"The audit itself failed: {report.error}", "")
    for subject in subjects[: len(subjects) - len(brief)]:
        lines += _subject(style, subject, rules)
    lines += _brief(style, brief)
    lines += _unread(style, report)
    lines += blemishes(style, (("", problem) for problem in report.problems))
    lines += not_judged(style, report)
    if any(subject.kind in LIMITED for subject in subjects):
        lines += ["", *style.wrap(LIMITS, "")]
    lines += ["", *style.wrap(meaning(report, fail_on), "")]
    return style.encode(lines)


def _brief(style: Style, subjects: list[SubjectReport]) -> Iterator[str]:
    if not subjects:
        return
    yield ""
    yield style.title(f"{plural(len(subjects), 'more run')} with the verdict PASS")
    for subject in subjects[:PASSED_LISTED]:
        yield from style.wrap(f"{name(subject)}: {headline(subject)}", "  ", "    ")
    if len(subjects) > PASSED_LISTED:
        yield f"  and {len(subjects) - PASSED_LISTED:,} more"


def _unread(style: Style, report: Report) -> Iterator[str]:
    """What belongs to no run and could not be read; of a run, its own report says it."""
    told = [hole.sentence() for hole in holes(report) if hole.subject is None]
    if told:
        yield from _section(style, "Could not be read")
    for sentence in told[:NAMES]:
        yield from style.wrap(f"! {sentence}", "  ", "    ")
    yield from more(len(told) - NAMES)


def _subject(style: Style, subject: SubjectReport, rules: Mapping[str, RuleEntry]) -> Iterator[str]:
    yield ""
    yield style.paint("─" * min(max(style.width, 1), 100), "faint")
    yield f"{style.word(subject.verdict)}  {style.title(printable(name(subject)))}"
    yield from _files(style, subject)
    yield from _course(style, subject)
    yield from _kept(style, subject)
    yield from _facts(style, subject)
    yield from _known(style, subject)
    yield from _series(style, subject)
    yield from _findings(style, subject)
    yield from _rules(style, subject, rules)


def _section(style: Style, title: str) -> tuple[str, str]:
    return "", style.title(title)


def _files(style: Style, subject: SubjectReport) -> Iterator[str]:
    if not subject.artifacts and not subject.problems:
        return
    yield from _section(style, "Files")
    for file in subject.artifacts[:NAMES]:
        told = f"{file.path}: {file.reader}, {file.kind}, {file.size:,} bytes, {file.status}"
        yield from style.wrap(told, "  ", "    ")
    yield from more(len(subject.artifacts) - NAMES)
    for problem in subject.problems[:NAMES]:
        place = f"{problem.path}:{problem.line}" if problem.line else problem.path
        mark = "could not be read" if problem.fatal else "blemish"
        yield from style.wrap(f"! {place}: {mark}: {problem.code}: {problem.detail}", "  ", "    ")
    yield from more(len(subject.problems) - NAMES)


def _course(style: Style, subject: SubjectReport) -> Iterator[str]:
    """The executions of the run, and where its step count falls back."""
    if len(subject.segments) < 2 and not subject.rewinds:
        return
    yield from _section(style, "Attempts")
    for segment in subject.segments[:NAMES]:
        replaced = ", replaced by a later one" if segment.superseded else ""
        steps = span(segment.first_step, segment.last_step)
        yield f"  {segment.index + 1}: {steps or 'no steps logged'}{replaced}"
    yield from more(len(subject.segments) - NAMES)
    for rewind in subject.rewinds[:NAMES]:
        place = f"{rewind.path}:{rewind.line}" if rewind.line else rewind.path
        told = f"{place}: {_went_back(rewind)} after step {rewind.from_step}"
        yield from style.wrap(told, "  ", "    ")
    yield from more(len(subject.rewinds) - NAMES)


def _went_back(rewind: RewindEntry) -> str:
    if rewind.counted_as is not None:
        return f"counted from step {rewind.to_step} again (taken for {rewind.counted_as})"
    return f"{'resumed' if rewind.resume else 'started over'} at step {rewind.to_step}"


def _kept(style: Style, subject: SubjectReport) -> Iterator[str]:
    """The checkpoints of the run; each is reported on by itself."""
    if not subject.kept:
        return
    yield from _section(style, f"Checkpoints: {len(subject.kept):,}")
    for one in subject.kept[:NAMES]:
        step = "" if one.step is None else f"step {one.step:,}, "
        told = f"{one.id}: {step}{plural(one.files, 'file')}, {one.size:,} bytes"
        yield f"  {style.word(one.verdict)}  {printable(told)}"
    yield from more(len(subject.kept) - NAMES)


def _facts(style: Style, subject: SubjectReport) -> Iterator[str]:
    if subject.facts:
        yield from _section(style, "Declared by the run")
        told = (f"{key}={number(value)}" for key, value in sorted(subject.facts.items()))
        yield from style.wrap(", ".join(told), "  ")
    if subject.unknown_columns:
        yield from _section(style, "Logged names of unknown meaning, not judged")
        yield from style.wrap(", ".join(subject.unknown_columns[:NAMES]), "  ")
        yield from more(len(subject.unknown_columns) - NAMES)


def _known(style: Style, subject: SubjectReport) -> Iterator[str]:
    """What was measured of a subject that is no run."""
    if subject.measured:
        yield from _section(style, "Measured")
        for key, value in subject.measured.items():
            yield from style.wrap(f"{key}: {number(value)}", "  ", "    ")


def _series(style: Style, subject: SubjectReport) -> Iterator[str]:
    if not subject.series:
        return
    yield from _section(style, "Series")
    shown = subject.series[:SERIES]
    names = [printable(series.name) for series in shown]
    wide = min(_NAME_CELLS, max(4, *map(cells, names)))
    head = (
        f"  {fit('name', wide)}  {'role':11} {'split':5} {'points':>7} {'first':>10} {'last':>10}"
    )
    yield style.paint(f"{head} {'least':>10} {'greatest':>10}  curve", "faint")
    for series in shown:
        yield _row(series, wide)
        yield from style.wrap(_aside(series), " " * (wide + 4))
    yield from more(len(subject.series) - len(shown))


def _row(series: SeriesSummary, wide: int) -> str:
    values = (series.first, series.last, series.min, series.max)
    numbers = " ".join(f"{number(value):>10}" for value in values)
    kind = f"{printable(series.role):11} {printable(series.split):5} {series.points:>7,}"
    return f"  {fit(printable(series.name), wide)}  {kind} {numbers}  {printable(series.curve)}"


def _aside(series: SeriesSummary) -> str:
    parts = [span(series.first_step, series.last_step)]
    if series.segment:
        parts.append(f"attempt {series.segment + 1}")
    if series.nonfinite:
        parts.append(f"{series.nonfinite:,} not finite")
    if series.also_in:
        parts.append(f"also in {', '.join(series.also_in)}")
    return "; ".join([*parts, series.artifact])


def _findings(style: Style, subject: SubjectReport) -> Iterator[str]:
    yield from _section(style, "Findings")
    if not subject.findings:
        yield "  none"
    for finding in by_severity(subject.findings):
        yield from finding_lines(style, subject, finding)


def _rules(style: Style, subject: SubjectReport, rules: Mapping[str, RuleEntry]) -> Iterator[str]:
    coverage = subject.checks.coverage
    yield from _section(style, f"Rules: {coverage.checked} of {coverage.total} checked")
    skipped: dict[str, list[str]] = {}
    for id, detail in subject.checks.details.items():
        if detail.state == State.NOT_CHECKED:
            skipped.setdefault(subject.checks.skipped.get(id, detail.skip or ""), []).append(id)
        else:
            yield from _applied(style, id, detail, rules.get(id), subject.kind)
    for reason, ids in sorted(skipped.items()):
        told = f"not checked, {reason}: {', '.join(ids)}"
        yield from (style.paint(line, "faint") for line in style.wrap(told, "  ", "    "))


def _applied(
    style: Style, id: str, detail: CheckDetail, rule: RuleEntry | None, kind: str
) -> Iterator[str]:
    title = f"{id}  {rule.title}" if rule else id
    yield from style.wrap(f"{detail.state}  {title}", "  ", "    ")
    applied = [one for one in detail.applications if one.state != State.NOT_CHECKED]
    for application in applied[:APPLICATIONS]:
        yield from style.wrap(_measured(application, kind), "      ")
    more = len(applied) - APPLICATIONS
    if more > 0:
        yield f"      and {more:,} more"
    apart = len(detail.applications) - len(applied)
    if apart:
        yield f"      not applicable to {apart:,} more"


def _measured(application: Application, kind: str) -> str:
    what = application.series or f"the {kind}"
    if application.segment:
        what += f" (attempt {application.segment + 1})"
    numbers = (application.measured or {}).items()
    return f"{what}: " + ", ".join(f"{key}={number(value)}" for key, value in numbers)
