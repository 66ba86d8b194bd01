"""One HTML page for people: no script, nothing loaded from elsewhere, readable without a server."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping

from trainproof.model.outcome import State
from trainproof.model.report import (
    FailOn,
    Finding,
    Report,
    RuleEntry,
    SeriesSummary,
    SubjectReport,
    Verdict,
)
from trainproof.model.text import BARS, GAP, safe

from .terminal import number, span
from .view import (
    by_severity,
    checked,
    full_path,
    headline,
    holes,
    meaning,
    name,
    noun,
    plural,
    principal,
    ranked,
    shorten,
    tallied,
)

IN_FULL = 200
"""Subjects that are told in full, worst first; the rest have their line in the table."""
ROWS = 5_000
SERIES = 200
FINDINGS = 200
TEXT_CHARS = 2_000
_CURVE_HEIGHT = 24
_CURVE_STEP = 4

_STYLE = """
:root{color-scheme:light dark;--line:#8886;--faint:#888}
body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1rem 0 .3rem}
table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid var(--line);padding:.25rem .5rem;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
code{font-family:ui-monospace,monospace;font-size:.9em;overflow-wrap:anywhere}
.b{border-radius:.3rem;padding:.05rem .4rem;font-weight:600;font-size:.8rem;white-space:nowrap}
.FAIL{background:#c62828;color:#fff}.WARN{background:#f9a825;color:#000}
.PASS{background:#2e7d32;color:#fff}.NOT-CHECKED{background:#6a1b9a;color:#fff}
.INFO{background:#455a64;color:#fff}
.faint{color:var(--faint)}details{border-bottom:1px solid var(--line);padding:.5rem 0}
summary{cursor:pointer}svg{display:block}polyline{fill:none;stroke:currentColor;stroke-width:1.5}
circle{fill:#c62828}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_html(report: Report, fail_on: FailOn = FailOn.FAIL) -> bytes:
    """The whole report as one page. What is left out is counted, never silent."""
    title = f"trainproof: {report.worst_verdict}"
    lines = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
        *_opening(report, fail_on),
        *_table(report),
        *_subjects(report),
        *_holes(report),
        *_not_judged(report),
        "</body></html>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _text(text: str) -> str:
    """``text`` in which nothing is markup and nothing is invisible."""
    return html.escape(safe(shorten(text, TEXT_CHARS)))


def _badge(word: str) -> str:
    return f'<span class="b {word}">{word}</span>'


def _opening(report: Report, fail_on: FailOn) -> Iterator[str]:
    yield f"<h1>{_badge(report.worst_verdict)} trainproof {_text(report.trainproof_version)}</h1>"
    if report.error is not None:
        yield f"<p><strong>The audit itself failed: {_text(report.error)}</strong></p>"
    applied, total = checked(report)
    yield f"<p>{_text(tallied(report))}. {applied:,} of {plural(total, 'check')} made.</p>"
    yield f"<p>{_text(meaning(report, fail_on))}.</p>"


def _table(report: Report) -> Iterator[str]:
    subjects = ranked(report)
    if not subjects:
        return
    head = f"<th>Verdict</th><th>{noun(report).capitalize()}</th><th>Curve</th>"
    yield f'<table><tr>{head}<th class="n">Points</th><th>Headline</th></tr>'
    for place, subject in enumerate(subjects[:ROWS]):
        series, called = principal(subject), f"<code>{_text(name(subject))}</code>"
        if place < IN_FULL:
            called = f'<a href="#s{place}">{called}</a>'
        curve, points = ("", "") if series is None else (_curve(series), f"{series.points:,}")
        cells = f"<td>{_badge(subject.verdict)}</td><td>{called}</td><td>{curve}</td>"
        told = _text(headline(subject))
        yield f'<tr>{cells}<td class="n">{points}</td><td>{told}</td></tr>'
    yield "</table>"
    yield from _more(len(subjects) - ROWS, noun(report))


def _curve(series: SeriesSummary) -> str:
    """The picture of a series as a line; a dot where a value is not finite."""
    lines, dots, line = list[list[str]](), list[str](), list[str]()
    for place, sign in enumerate(series.curve):
        x, height = _CURVE_STEP * place + 2, BARS.find(sign)
        if height >= 0:
            line.append(f"{x},{_CURVE_HEIGHT - 2 - round(height * (_CURVE_HEIGHT - 4) / 7)}")
            continue
        lines, line = [*lines, line], []
        if sign == GAP:
            dots.append(f'<circle cx="{x}" cy="4" r="2"/>')
    drawn = [f'<polyline points="{" ".join(one)}"/>' for one in (*lines, line) if one]
    size = f'width="{_CURVE_STEP * len(series.curve) + 4}" height="{_CURVE_HEIGHT}"'
    return f'<svg {size} role="img" aria-label="curve">{"".join(drawn + dots)}</svg>'


# --- one subject --------------------------------------------------------------------------------


def _subjects(report: Report) -> Iterator[str]:
    subjects = ranked(report)
    rules = {rule.id: rule for rule in report.rules}
    if subjects:
        yield "<h2>In full</h2>"
    for place, subject in enumerate(subjects[:IN_FULL]):
        opened = " open" if subject.verdict is Verdict.FAIL else ""
        yield f'<details id="s{place}"{opened}><summary>{_badge(subject.verdict)}'
        yield f"<code>{_text(name(subject))}</code></summary>"
        yield from _findings(subject, rules)
        yield from _facts("Measured", subject.measured)
        yield from _facts("Declared by the run", subject.facts)
        yield from _series(subject)
        yield from _coverage(subject, rules)
        yield "</details>"
    yield from _more(len(subjects) - IN_FULL, noun(report))


def _findings(subject: SubjectReport, rules: Mapping[str, RuleEntry]) -> Iterator[str]:
    for finding in by_severity(subject.findings)[:FINDINGS]:
        yield from _finding(subject, finding, rules.get(finding.id))
    yield from _more(len(subject.findings) - FINDINGS, "finding")


def _finding(subject: SubjectReport, finding: Finding, rule: RuleEntry | None) -> Iterator[str]:
    replaced = " (replaced by a later attempt)" if finding.superseded else ""
    yield f"<h3>{_badge(finding.level)} <code>{_text(finding.id)}</code>"
    yield f"{_text(finding.message)}{replaced}</h3>"
    place = full_path(subject.root, finding.location.path)
    line = "" if finding.location.line is None else f":{finding.location.line}"
    steps = span(finding.first_step, finding.last_step)
    yield f"<p>{_text(finding.evidence)}<br><code>{_text(place + line)}</code> {_text(steps)}</p>"
    if rule is not None:
        yield f'<p class="faint">Means: {_text(rule.means)}<br>'
        yield f"Does not mean: {_text(rule.does_not_mean)}</p>"


def _facts(title: str, facts: Mapping[str, object] | None) -> Iterator[str]:
    if facts:
        told = ", ".join(f"{key}={value}" for key, value in facts.items())
        yield f"<h3>{title}</h3><p><code>{_text(told)}</code></p>"


def _series(subject: SubjectReport) -> Iterator[str]:
    if not subject.series:
        return
    numbers = "".join(f'<th class="n">{w}</th>' for w in ("points", "first", "last", "min", "max"))
    yield "<h3>Series</h3><table><tr><th>name</th><th>role</th><th>split</th>"
    yield f"{numbers}<th>curve</th></tr>"
    for one in subject.series[:SERIES]:
        values = (f"{one.points:,}", *(number(v) for v in (one.first, one.last, one.min, one.max)))
        cells = "".join(f'<td class="n">{_text(value)}</td>' for value in values)
        words = f"<td><code>{_text(one.name)}</code></td><td>{_text(one.role)}</td>"
        yield f"<tr>{words}<td>{_text(one.split)}</td>{cells}<td>{_curve(one)}</td></tr>"
    yield "</table>"
    yield from _more(len(subject.series) - SERIES, "logged value")


def _coverage(subject: SubjectReport, rules: Mapping[str, RuleEntry]) -> Iterator[str]:
    block = subject.checks.coverage
    yield f"<details><summary>{block.checked} of {plural(block.total, 'rule')} checked</summary>"
    reasons: dict[str, list[str]] = {}
    clean: list[str] = []
    for id, detail in subject.checks.details.items():
        if detail.state == State.NOT_CHECKED:
            reasons.setdefault(subject.checks.skipped.get(id, detail.skip or ""), []).append(id)
        elif detail.state == State.CLEAN:
            title = rules[id].title if id in rules else ""
            clean.append(f"<li><code>{_text(id)}</code> did not fire: {_text(title)}</li>")
    yield f"<ul>{''.join(clean)}"
    for reason, ids in sorted(reasons.items()):
        yield f'<li class="faint">not checked, {_text(reason)}: {_text(", ".join(ids))}</li>'
    yield "</ul></details>"


# --- what is not known --------------------------------------------------------------------------


def _holes(report: Report) -> Iterator[str]:
    yield from _list("Should have been checked and was not", (h.sentence() for h in holes(report)))


def _not_judged(report: Report) -> Iterator[str]:
    files = report.not_judged
    told = [f"{count:,} {content}" for content, count in sorted(files.counts.items())]
    told += [f"{file.path}: {file.content} {file.detail}".strip() for file in files.files[:ROWS]]
    yield from _list("Seen and not judged", told)


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    listed = list(items)
    if not listed:
        return
    yield f"<h2>{title}</h2><ul>"
    yield from (f"<li>{_text(item)}</li>" for item in listed[:ROWS])
    yield "</ul>"
    yield from _more(len(listed) - ROWS, "line")


def _more(count: int, what: str) -> Iterator[str]:
    if count > 0:
        yield f'<p class="faint">and {plural(count, f"more {what}")}: the JSON report has them.</p>'
