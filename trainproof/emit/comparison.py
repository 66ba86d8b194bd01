"""The text of a comparison: the runs ranked against the baseline, pictured, and what was found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from trainproof.model.data import Split
from trainproof.model.outcome import Level
from trainproof.model.report import (
    REFUSAL,
    Comparison,
    FailOn,
    Finding,
    Number,
    Report,
    SubjectReport,
    Verdict,
)
from trainproof.model.text import printable

from .terminal import Style, cells, finding_lines, fit, number, span
from .view import by_severity, holes, meaning, name, plural, tallied

PICTURED = 20
"""Runs that are pictured beside their baseline; all are in the table."""
_VERDICT_CELLS = max(map(len, Verdict))
_NAME_CELLS = 48
_BASELINE = "BASELINE"
_COLUMNS = ("start", "floor", "end", "to baseline")


def comparison(
    report: Report,
    *,
    color: bool = False,
    width: int = 100,
    verbose: bool = False,
    quiet: bool = False,
    fail_on: FailOn = FailOn.FAIL,
    ascii: bool = False,
) -> bytes:
    """The table, best run first; each run beside its baseline on one scale; the findings.

    ``quiet``: the table and the exit code. ``verbose``: nothing is capped. ``ascii``: for
    terminals without UTF-8.
    """
    style = Style(color, width, ascii)
    subjects = sorted(report.reports, key=_rank)
    lines = [
        f"trainproof {printable(report.trainproof_version)}: {style.word(report.worst_verdict)}."
        f" {tallied(report)}, compared with {plural(len(_baselines(report)), 'baseline')}."
    ]
    if report.error is not None:
        lines += style.wrap(f"The comparison itself failed: {report.error}", "")
    lines += _table(style, subjects)
    if not quiet:
        lines += _pictures(style, subjects if verbose else subjects[:PICTURED])
        lines += _findings(style, subjects)
        lines += _not_checked(style, report)
    lines += ["", *style.wrap(meaning(report, fail_on), "")]
    return style.encode(lines)


def _baselines(report: Report) -> set[str]:
    return {one.baseline for subject in report.reports for one in subject.comparisons}


def principal(subject: SubjectReport) -> Comparison | None:
    """The comparison that stands for the run: of the training loss before the held-out one, of
    the latest execution, with the baseline that speaks most for the run."""
    return min(
        subject.comparisons,
        key=lambda one: (one.split != Split.TRAIN, -one.segment, _distance(one)),
        default=None,
    )


def _rank(subject: SubjectReport) -> tuple[float, str, str]:
    """Best first: by the distance to the baseline at the end; what was not compared comes last."""
    shown = principal(subject)
    return (math.inf if shown is None else _distance(shown), subject.root, subject.id)


def _distance(shown: Comparison) -> float:
    return _least(shown.end) - _least(shown.baseline_end)


def _least(value: Number) -> float:
    """The number, or infinity for one that JSON lacks: worse than any."""
    return math.inf if isinstance(value, str) else float(value)


# The table ---------------------------------------------------------------------------------


def _table(style: Style, subjects: Sequence[SubjectReport]) -> Iterator[str]:
    if not subjects:
        return
    shown = [(subject, principal(subject)) for subject in subjects]
    bases = {one.baseline: one for _, one in shown if one is not None}
    names = [name(subject) for subject in subjects] + list(bases)
    wide = min(_NAME_CELLS, max(cells(printable(text)) for text in names))
    head = " ".join(f"{title:>11}" for title in _COLUMNS)
    yield ""
    yield style.paint(f"{'':{_VERDICT_CELLS}}  {fit('run', wide)} {head}", "faint")
    for base, one in bases.items():
        levels = (one.baseline_start, one.baseline_floor, one.baseline_end)
        yield f"{_BASELINE:{_VERDICT_CELLS}}  {_row(base, wide, levels, '')}"
    for subject, compared in shown:
        word = style.word(subject.verdict, _VERDICT_CELLS)
        if compared is None:
            why = "refused" if _refused(subject) else "nothing to compare it with"
            why = "is the baseline" if name(subject) in bases else why
            yield f"{word}  {fit(printable(name(subject)), wide, keep_end=True)}  {why}"
        else:
            levels = (compared.start, compared.floor, compared.end)
            yield f"{word}  {_row(name(subject), wide, levels, _against(compared))}"


def _row(label: str, wide: int, levels: Sequence[Number], against: str) -> str:
    numbers = " ".join(f"{number(level):>11}" for level in levels)
    return f"{fit(printable(label), wide, keep_end=True)} {numbers} {against:>11}"


def _against(shown: Comparison) -> str:
    """The end over the baseline's where both are positive, else the difference."""
    end, base = _least(shown.end), _least(shown.baseline_end)
    if math.isinf(end):
        return "not finite"
    return f"{end / base:.3g}x" if end > 0 and base > 0 else f"{end - base:+.4g}"


# Pictures, findings, gaps --------------------------------------------------------------------


def _pictures(style: Style, subjects: Sequence[SubjectReport]) -> Iterator[str]:
    for subject in subjects:
        shown = principal(subject)
        if shown is None:
            continue
        yield ""
        steps = span(shown.first_step, shown.last_step)
        title = f"{printable(name(subject))}: {printable(shown.series)}, {steps}"
        yield from style.wrap(title, "")
        yield f"  run       {printable(shown.curve)}  {number(shown.end)}"
        yield f"  baseline  {printable(shown.baseline_curve)}  {number(shown.baseline_end)}"
        if shown.differences:
            yield from style.wrap(f"differs in {'; '.join(shown.differences)}", "  ", "    ")


def _findings(style: Style, subjects: Sequence[SubjectReport]) -> Iterator[str]:
    """Those at FAIL and WARN of every run; the notes, where they are all there is to say."""
    told = [(subject, _worth_telling(subject)) for subject in subjects]
    told = [(subject, findings) for subject, findings in told if findings]
    if told:
        yield from ("", style.title("Findings"))
    for subject, findings in told:
        yield ""
        yield from style.wrap(name(subject), "")
        for finding in findings:
            yield from finding_lines(style, subject, finding)


def _worth_telling(subject: SubjectReport) -> list[Finding]:
    found = by_severity(subject.findings)
    return [one for one in found if one.level is not Level.INFO] or found


def _refused(subject: SubjectReport) -> bool:
    """The finding says why no rule was applied."""
    return any(finding.id == REFUSAL for finding in subject.findings)


def _not_checked(style: Style, report: Report) -> Iterator[str]:
    owed = [hole for hole in holes(report) if hole.subject is None or not _refused(hole.subject)]
    if owed:
        yield from ("", style.title("Could not be checked"))
    for hole in owed:
        yield from style.wrap(f"! {hole.sentence()}", "  ", "    ")
