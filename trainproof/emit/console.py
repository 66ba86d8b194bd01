"""The summary that a person reads first: which runs are bad, why, and what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from trainproof.model.outcome import Level
from trainproof.model.report import FailOn, Finding, Problem, Report, SubjectReport, Verdict
from trainproof.model.text import printable

from .doctor import doctor
from .leftovers import NAMED, blemishes, more, not_judged
from .terminal import Style, cells, finding_lines, fit
from .view import (
    by_severity,
    checked,
    headline,
    holes_at_large,
    holes_of,
    meaning,
    name,
    noun,
    plural,
    principal,
    ranking,
    tallied,
)

__all__ = ["doctor", "summary"]

LISTED = {Verdict.FAIL: 500, Verdict.WARN: 100, Verdict.NOT_CHECKED: 50, Verdict.PASS: 20}
"""Runs of each verdict that get a line of their own."""
DETAILED = 50
"""Runs whose findings are told in full."""
_VERDICT_CELLS = max(map(len, Verdict))
_NAME_CELLS = 40
_WIDE = 110


def summary(
    report: Report,
    *,
    color: bool = False,
    width: int = 100,
    verbose: bool = False,
    quiet: bool = False,
    fail_on: FailOn = FailOn.FAIL,
    ascii: bool = False,
) -> bytes:
    """One line for each run, worst first; the findings; what was not checked; the exit code.

    ``quiet``: the runs that are not PASS, what could not be read at all, and the exit code.
    ``verbose``: nothing is capped,
    and INFO findings are told. ``ascii``: for terminals without UTF-8.
    """
    style = Style(color, width, ascii)
    lines = list(_header(style, report))
    lines += _runs(style, report, verbose, quiet)
    if quiet:
        lines += _unread(style, report)
    else:
        lines += _findings(style, report, verbose)
        lines += _not_checked(style, report, verbose)
        lines += blemishes(style, _all_problems(report), every=verbose)
        lines += not_judged(style, report, every=verbose)
        lines += _unknown(style, report, verbose)
    lines += ["", *style.wrap(meaning(report, fail_on), "")]
    return style.encode(lines)


def _header(style: Style, report: Report) -> Iterator[str]:
    verdict = style.word(report.worst_verdict)
    yield f"trainproof {printable(report.trainproof_version)}: {verdict}. {tallied(report)}."
    if report.error is not None:
        yield from style.wrap(f"The audit itself failed: {report.error}", "")


# Runs --------------------------------------------------------------------------------------


def _runs(style: Style, report: Report, verbose: bool, quiet: bool) -> Iterator[str]:
    verdicts = [one.verdict for one in report.heads]
    places = ranking(report)
    shown: list[SubjectReport] = []
    left: dict[Verdict, int] = {}
    for verdict in (one for one in Verdict if not (quiet and one is Verdict.PASS)):
        these = [place for place in places if verdicts[place] is verdict]
        cap = len(these) if verbose else LISTED[verdict]
        shown += (report.reports[place] for place in these[:cap])
        left[verdict] = len(these) - len(these[:cap])
    if not shown:
        return
    yield ""
    longest = max(cells(printable(name(subject))) for subject in shown)
    curves = any(subject.series for subject in shown)
    for position, subject in enumerate(shown):
        yield _run_line(style, subject, min(longest, _NAME_CELLS), curves=curves)
        last = position + 1 == len(shown) or shown[position + 1].verdict is not subject.verdict
        if last and (more := left[subject.verdict]):
            yield f"{'':{_VERDICT_CELLS}}  and {more:,} more {subject.verdict}"


def _run_line(style: Style, subject: SubjectReport, name_cells: int, *, curves: bool) -> str:
    """``curves``: whether any of the subjects has one."""
    if style.width < _WIDE:
        name_cells = min(name_cells, max(12, style.width // 3))
    line = f"  {fit(printable(name(subject)), name_cells, keep_end=True)}"
    line += _course(style, subject) if curves else ""
    room = style.width - _VERDICT_CELLS - cells(line) - 2
    if room >= 8:
        line += f"  {fit(printable(headline(subject)), room)}"
    return style.word(subject.verdict, _VERDICT_CELLS) + line


def _course(style: Style, subject: SubjectReport) -> str:
    """The curve of the run, and the number of its points."""
    series = principal(subject)
    curve, points = ("", "") if series is None else (printable(series.curve), f"{series.points:,}")
    curve_cells = 24
    if style.width < _WIDE:
        curve, curve_cells = curve[1::2] if len(curve) > 12 else curve, 12
    return f"  {fit(curve, curve_cells)} {points:>7}"


# Findings ----------------------------------------------------------------------------------


def _findings(style: Style, report: Report, verbose: bool) -> Iterator[str]:
    found = [one.findings for one in report.heads]
    worth = ((place, _worth_telling(found[place], verbose)) for place in ranking(report))
    told = [(place, findings) for place, findings in worth if findings]
    silent = 0 if verbose else sum(one.level is Level.INFO for one in chain.from_iterable(found))
    if not told and not silent:
        return
    yield ""
    yield style.title("Findings")
    for place, findings in told if verbose else told[:DETAILED]:
        subject = report.reports[place]
        yield ""
        yield from style.wrap(name(subject), "")
        for finding in findings:
            yield from finding_lines(style, subject, finding)
    yield from _also(style, told if not verbose else (), silent)


def _worth_telling(findings: Sequence[Finding], verbose: bool) -> list[Finding]:
    found = by_severity(findings)
    return found if verbose else [one for one in found if one.level is not Level.INFO]


def _also(style: Style, told: Sequence[object], silent: int) -> Iterator[str]:
    if len(told) > DETAILED:
        more = plural(len(told) - DETAILED, "more run")
        yield from ("", *style.wrap(f"{more} with findings: -v or the JSON report tells them.", ""))
    if silent:
        yield from ("", *style.wrap(f"{plural(silent, 'INFO finding')} more: -v tells them.", ""))


# What is not known -------------------------------------------------------------------------


def _not_checked(style: Style, report: Report, verbose: bool) -> Iterator[str]:
    applied, total = checked(report)
    if applied == total and not report.problems:
        return
    yield ""
    title = f"Not checked: {total - applied:,} of {plural(total, 'check')}"
    yield style.title(title if total else "Could not be read")
    owed = list(holes_at_large(report))
    reasons: Counter[str] = Counter()
    rules: dict[str, set[str]] = {}
    subjects: Counter[str] = Counter()
    for subject in report.reports:
        owed += holes_of(subject)
        skipped = subject.checks.skipped
        reasons.update(skipped.values())
        subjects.update(set(skipped.values()))
        for rule, reason in skipped.items():
            rules.setdefault(reason, set()).add(rule)
    shown = owed if verbose else owed[:NAMED]
    for hole in shown:
        yield from style.wrap(f"! {hole.sentence()}", "  ", "    ")
    if len(shown) < len(owed):
        yield f"  ! and {len(owed) - len(shown):,} more that should have been checked"
    what = noun(report)
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        which = f"{plural(len(rules[reason]), 'rule')} in {plural(subjects[reason], what)}"
        yield from style.wrap(f"{count:>7,}  {reason} ({which})", "  ", " " * 11)


def _unread(style: Style, report: Report) -> Iterator[str]:
    """What no run is about that could be named."""
    for place, hole in enumerate(holes_at_large(report)):
        if place == 0:
            yield ""
        yield from style.wrap(f"! {hole.sentence()}", "  ", "    ")


def _all_problems(report: Report) -> Iterator[tuple[str, Problem]]:
    yield from (("", problem) for problem in report.problems)
    yield from ((one.root, problem) for one in report.heads for problem in one.problems)


def _unknown(style: Style, report: Report, verbose: bool) -> Iterator[str]:
    counts = Counter(column for one in report.heads for column in one.unknown_columns)
    if not counts:
        return
    yield ""
    yield style.title(f"Logged names of unknown meaning, not judged: {len(counts):,}")
    ordered = sorted(counts, key=lambda column: (-counts[column], column))
    shown = ordered if verbose else ordered[:NAMED]
    yield from style.wrap(", ".join(shown), "  ")
    yield from style.wrap("--map ROLE=COLUMN says what one of them is.", "  ")
    yield from more(len(ordered) - len(shown))
