"""GitHub-flavoured Markdown for a job summary or a comment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from trainproof.model.report import FailOn, Finding, Report, SubjectReport, Verdict
from trainproof.model.text import printable

from .view import (
    by_severity,
    checked,
    full_path,
    headline,
    holes,
    meaning,
    name,
    plural,
    principal,
    ranked,
    shorten,
    tallied,
)

MAX_BYTES = 1 << 20
"""What GitHub takes for the summary of one step; it drops a longer one whole."""
ROWS = 100
TEXT_CHARS = 400
_RESERVE = 4_096
"""Bytes kept for the sections that end the summary and for the note on what was cut."""


def report_markdown(report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes:
    """Verdicts worst first, the findings with their numbers, and what was not checked.

    At most ``MAX_BYTES``. What is left out is counted, never silent; nothing that comes from a
    log or a file name can become markup.
    """
    end = "\n".join(_ending(report, fail_on)) + "\n"
    head = [*_opening(report), *_table(report)]
    body = [*_findings(report), *_holes(report)]
    room = MAX_BYTES - _RESERVE - len(end.encode())
    kept = list(_fitting([*head, *body], room))
    left = len(head) + len(body) - len(kept)
    if left:
        kept.append(f"\n{plural(left, 'line')} cut here; the JSON report is complete.\n")
    return ("\n".join(kept) + "\n" + end).encode()


def _fitting(lines: Iterable[str], room: int) -> Iterator[str]:
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            return
        yield line


def _opening(report: Report) -> Iterator[str]:
    verdict = report.worst_verdict if report.error is None else "the audit itself failed"
    yield f"## trainproof: {verdict}"
    yield ""
    if report.error is not None:
        yield f"**{_text(report.error)}**"
        yield ""
    yield f"{tallied(report)}."
    yield ""


def _table(report: Report) -> Iterator[str]:
    subjects = ranked(report)
    if not subjects:
        return
    passed = [subject for subject in subjects if subject.verdict is Verdict.PASS]
    shown = subjects[: max(ROWS, len(subjects) - len(passed))]
    yield "| Verdict | Run | Curve | Points | Headline |"
    yield "|---|---|---|--:|---|"
    for subject in shown:
        series = principal(subject)
        curve = "" if series is None else f"{_code(series.name)} {series.curve}"
        points = "" if series is None else f"{series.points:,}"
        cells = (f"**{subject.verdict}**", _code(name(subject)), curve, points)
        yield f"| {' | '.join(cells)} | {_text(headline(subject))} |"
    if len(shown) < len(subjects):
        yield f"\n{plural(len(subjects) - len(shown), 'more run')} with the verdict PASS."
    yield ""


def _findings(report: Report) -> Iterator[str]:
    subjects = [subject for subject in ranked(report) if subject.findings]
    if not subjects:
        return
    yield "### Findings"
    yield ""
    for subject in subjects:
        yield f"#### {_code(name(subject))}"
        yield ""
        for finding in by_severity(subject.findings):
            yield from _finding(subject, finding)
        yield ""


def _finding(subject: SubjectReport, finding: Finding) -> Iterator[str]:
    place = full_path(subject.root, finding.location.path)
    if finding.location.line is not None:
        place += f":{finding.location.line}"
    superseded = " *(replaced by a later attempt)*" if finding.superseded else ""
    rule, message = _code(finding.id), _text(finding.message)
    yield f"- **{finding.level}** {rule} {message}{superseded}"
    yield f"  <br>{_text(finding.evidence)}"
    yield f"  <br>{_code(place)}"


def _holes(report: Report) -> Iterator[str]:
    found = list(holes(report))
    if not found:
        return
    yield "### Should have been checked and was not"
    yield ""
    for hole in found:
        yield f"- {_text(hole.sentence())}"
    yield ""


def _ending(report: Report, fail_on: FailOn) -> Iterator[str]:
    applied, total = checked(report)
    share = f" ({applied / total:.0%})" if total else ""
    yield "### Coverage"
    yield ""
    yield f"{applied:,} of {plural(total, 'check')} made{share}."
    reasons = Counter(
        reason for subject in report.reports for reason in subject.checks.skipped.values()
    )
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    for reason, count in ordered[:20]:
        yield f"- {count:,} not made: {_text(reason)}"
    if len(ordered) > 20:
        yield f"- {sum(count for _, count in ordered[20:]):,} not made for other reasons"
    counts = report.not_judged.counts
    if counts:
        kinds = ", ".join(f"{count:,} {_text(kind)}" for kind, count in list(counts.items())[:20])
        yield ""
        yield f"{plural(sum(counts.values()), 'file')} seen and not judged: {kinds}."
    yield ""
    yield f"E{_text(meaning(report, fail_on)).removeprefix('e')}."


_MARKUP = re.compile(r"[\\`*_\[\]<>|~&@#$!{}]|(?<=[A-Za-z]):(?=//)|(?<=[wW]{3})\.")


def _text(text: str) -> str:
    """``text`` on one line in which nothing is Markdown, HTML, a mention or a link."""
    flat = shorten(printable(text), TEXT_CHARS)
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", flat)


def _code(text: str) -> str:
    """``text`` in code type. A code span cannot hold entities, so that this is HTML."""
    return f"<code>{_text(text)}</code>"
