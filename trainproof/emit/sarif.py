"""SARIF 2.1.0 for code scanning.

What GitHub makes of a file decides what is in it. It opens an alert for every result whatever
its ``kind``, so only findings and holes in the coverage become results; it ignores
notifications, so a hole is both; it rejects the whole upload for one bad location, so locations
are relative paths and nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import orjson
import sarif_om as om

from trainproof.model.outcome import Level, Value
from trainproof.model.report import (
    ArtifactEntry,
    FailOn,
    Finding,
    Report,
    RuleEntry,
    SubjectReport,
    Verdict,
    exit_code,
)
from trainproof.model.text import printable, safe

from .coverage import AUDIT_ERROR, NOT_CHECKED, TRUNCATED
from .place import Place, place
from .sarif_encoding import plain
from .view import Hole, headline, holes, name, plural, shorten

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
CATEGORY = "trainproof/"
MAX_RESULTS = 5_000
"""What GitHub keeps of one run. It rejects files with more than 25,000."""
MESSAGE_CHARS = 4_000
DESCRIPTION_CHARS = 1_024
SMALL_BYTES = 1 << 20
LARGE_BYTES = 1 << 26
"""``upload-sarif`` hashes every character of a file that a result with a line points at, 2.75
million a second: a binary file gets a line below the one size, a text file below the other."""

_LEVEL = {Level.FAIL: "error", Level.WARN: "warning", Level.INFO: "note"}
_SEVERITY = {Level.FAIL: "error", Level.WARN: "warning", Level.INFO: "recommendation"}
_PRECISION = {Level.FAIL: "high", Level.WARN: "medium", Level.INFO: "low"}
_RANK = {"error": 0, "warning": 1, "note": 2}
_NOTES = (NOT_CHECKED, TRUNCATED, AUDIT_ERROR)
_ROOT = "%SRCROOT%"

Json = dict[str, Any]


def report_sarif(
    report: Report, fail_on: FailOn = FailOn.FAIL, *, rules_page: str | None = None
) -> bytes:
    """One SARIF run: every rule of the audit, and a result for each finding and each hole.

    ``rules_page``: absolute URI of a page that has an anchor for each rule id in lower case.
    Without it, rules carry their help text and no link.
    """
    rules = (*report.rules, *_NOTES[:2])
    index = {rule.id: number for number, rule in enumerate(rules)}
    kept, dropped = _capped(_entries(report))
    results = [*_results(kept, index)]
    notifications = list(_notifications(report, index, dropped))
    driver = om.ToolComponent(
        name="trainproof",
        version=report.trainproof_version,
        semantic_version=report.trainproof_version,
        information_uri=rules_page,
        rules=[_descriptor(rule, rules_page) for rule in rules],
        notifications=[_descriptor(rule, rules_page) for rule in _NOTES],
    )
    run = om.Run(
        tool=om.Tool(driver=driver),
        automation_details=om.RunAutomationDetails(id=CATEGORY),
        column_kind="unicodeCodePoints",
        original_uri_base_ids={
            _ROOT: om.ArtifactLocation(description=om.Message(text="The root of the repository."))
        },
        invocations=[
            om.Invocation(
                execution_successful=report.error is None,
                exit_code=int(exit_code(report, fail_on)),
                tool_execution_notifications=notifications,
            )
        ],
        results=[],
    )
    return _document(run, results)


def _document(run: Any, results: Iterable[Any]) -> bytes:
    """``$schema`` and ``version`` first, as SARIF asks for; one line for each result."""
    head = {key: value for key, value in plain(run).items() if key != "results"}
    lines = b",\n".join(_dumps(plain(result)) for result in results)
    opening = b'{"$schema":"%s","version":"2.1.0","runs":[' % SCHEMA.encode()
    return opening + _dumps(head)[:-1] + b',"results":[\n' + lines + b"\n]}]}\n"


def _dumps(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


# Results -----------------------------------------------------------------------------------


class _Entry(msgspec.Struct, frozen=True):
    """A result before it is numbered and written."""

    rule: str
    level: str
    message: str
    place: Place
    identity: tuple[str, ...]
    """What stays the same when the same thing is found again: names, never numbers."""
    logical: tuple[tuple[str, str], ...]
    """(name, kind) from the subject down to the series or tensor."""
    region: bool
    related: tuple[Place, ...] = ()
    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def order(self) -> tuple[int, str, str, tuple[str, ...], int]:
        return _RANK[self.level], self.rule, self.place.path, self.identity, self.place.line or 0


def _entries(report: Report) -> Iterator[_Entry]:
    for subject in report.reports:
        yield from _of_subject(report, subject)
    for hole in holes(report):
        yield _of_hole(report, hole)


def _of_subject(report: Report, subject: SubjectReport) -> Iterator[_Entry]:
    files = {artifact.path: artifact for artifact in subject.artifacts}
    copies = {(series.name, series.artifact): series.also_in for series in subject.series}
    for finding in subject.findings:
        path = finding.location.path or next(iter(files), subject.id)
        where = place(report, subject.root, path, finding.location.line)
        others = copies.get((finding.series or "", path), ())
        yield _Entry(
            rule=finding.id,
            level=_LEVEL[finding.level],
            message=_message(subject, finding, path),
            place=where,
            identity=(name(subject), path, finding.series or "", finding.tensor or ""),
            logical=_logical(subject, finding),
            region=_has_region(where, files.get(path)),
            related=tuple(place(report, subject.root, other) for other in others),
            properties=_properties(subject, finding, path),
        )


def _of_hole(report: Report, hole: Hole) -> _Entry:
    root = hole.subject.root if hole.subject else ""
    where = place(report, root, hole.path, hole.line)
    files = hole.subject.artifacts if hole.subject else ()
    artifact = next((one for one in files if one.path == hole.path), None)
    subject = name(hole.subject) if hole.subject else ""
    return _Entry(
        rule=NOT_CHECKED.id,
        level="warning",
        message=hole.sentence(),
        place=where,
        identity=(subject, hole.path, "" if hole.unreadable else hole.reason),
        logical=((subject, "run"),) if subject else (),
        region=_has_region(where, artifact),
        properties={"path": hole.path, "reason": hole.reason, "rules": list(hole.rules)},
    )


def _message(subject: SubjectReport, finding: Finding, path: str) -> str:
    """What was found, the numbers, and which run and file: an anchor does not tell them."""
    shown = [_sentence(finding.message), _sentence(finding.evidence)]
    if finding.superseded:
        shown.append("A later attempt of this run replaced this one.")
    line = finding.location.line
    at = "" if line is None else f", line {line}"
    shown.append(f"Run '{name(subject)}', file '{path}'{at}.")
    return " ".join(part for part in shown if part)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def _logical(subject: SubjectReport, finding: Finding) -> tuple[tuple[str, str], ...]:
    inner = [(finding.series, "series"), (finding.tensor, "tensor")]
    return ((name(subject), "run"), *((text, kind) for text, kind in inner if text))


def _properties(subject: SubjectReport, finding: Finding, path: str) -> Json:
    said: dict[str, Value | Mapping[str, Value] | None] = {
        "root": subject.root,
        "subject": subject.id,
        "path": path,
        "series": finding.series,
        "tensor": finding.tensor,
        "firstStep": finding.first_step,
        "lastStep": finding.last_step,
        "segment": finding.segment,
        "superseded": finding.superseded,
        "variant": finding.variant or None,
        "measured": finding.measured,
        "thresholds": finding.thresholds,
    }
    return {key: value for key, value in said.items() if value is not None}


def _has_region(where: Place, artifact: ArtifactEntry | None) -> bool:
    """Whether the result gets a line, the first one where the file has none to point at."""
    if not where.direct:
        return where.line is not None
    if where.line is not None:
        return artifact is None or artifact.size < LARGE_BYTES
    return artifact is not None and artifact.size < SMALL_BYTES


def _capped(entries: Iterable[_Entry]) -> tuple[list[_Entry], int]:
    """The most severe ``MAX_RESULTS`` in a fixed order; the last of them tells of the rest."""
    found = sorted(entries, key=lambda entry: entry.order)
    if len(found) <= MAX_RESULTS:
        return found, 0
    kept = found[: MAX_RESULTS - 1]
    dropped = len(found) - len(kept)
    notice = _Entry(
        rule=TRUNCATED.id,
        level="warning",
        message=_left_out(dropped, len(found)),
        place=kept[0].place,
        identity=(),
        logical=(),
        region=True,
        properties={"kept": len(kept), "total": len(found)},
    )
    return [*kept, notice], dropped


def _left_out(dropped: int, total: int) -> str:
    return (
        f"{plural(dropped, 'result')} of {total:,} are left out here, the least severe ones."
        " The JSON report holds all of them."
    )


def _results(entries: Iterable[_Entry], index: Mapping[str, int]) -> Iterator[Any]:
    seen: Counter[str] = Counter()
    for entry in entries:
        digest = _digest(entry)
        seen[digest] += 1
        own = f"{digest}:{seen[digest]}"
        prints = {"trainproof/v1": own}
        if not (entry.place.direct and entry.place.line is not None and entry.region):
            # On a line of a text file upload-sarif hashes the line itself, and warns where
            # the two differ. Everywhere else its hash would be of something unrelated.
            prints["primaryLocationLineHash"] = own
        yield om.Result(
            rule_id=entry.rule,
            rule_index=index.get(entry.rule),
            kind="fail",
            level=entry.level,
            message=om.Message(text=_text(entry.message)),
            locations=[_location(entry.place, entry.region, entry.logical)],
            related_locations=[
                _location(other, False, (), id=number)
                for number, other in enumerate(entry.related, 1)
            ]
            or None,
            partial_fingerprints=prints,
            properties=dict(entry.properties) or None,
        )


def _digest(entry: _Entry) -> str:
    parts = "\0".join(map(safe, (entry.rule, *entry.identity)))
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def _location(
    where: Place, region: bool, logical: tuple[tuple[str, str], ...], id: int = -1
) -> Any:
    names = [
        om.LogicalLocation(
            name=text,
            fully_qualified_name="::".join(part for part, _ in logical[: depth + 1]),
            kind=kind,
            parent_index=-1,
        )
        for depth, (text, kind) in enumerate(logical)
    ]
    return om.Location(
        id=id,
        physical_location=om.PhysicalLocation(
            artifact_location=om.ArtifactLocation(uri=where.uri, uri_base_id=_ROOT),
            region=om.Region(start_line=max(1, where.line or 1)) if region else None,
        ),
        logical_locations=names or None,
        message=om.Message(text="The same series is logged here.") if id > 0 else None,
    )


_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")
_PLACEHOLDER = re.compile(r"\{(\d+)\}")


def _text(message: str) -> str:
    """``message`` in which nothing that came from a file is a link or a placeholder."""
    unlinked = _LINK.sub(r"\\[", printable(message))
    return shorten(_PLACEHOLDER.sub(r"{{\1}}", unlinked), MESSAGE_CHARS)


# Notifications -----------------------------------------------------------------------------


def _notifications(report: Report, index: Mapping[str, int], dropped: int) -> Iterator[Any]:
    if report.error is not None:
        yield _notification(AUDIT_ERROR, "error", _sentence(report.error))
    if dropped:
        yield _notification(TRUNCATED, "warning", f"{plural(dropped, 'result')} left out.")
    lost = [(hole, rule) for hole in holes(report) for rule in hole.rules or ("",)]
    for hole, rule in lost[:MAX_RESULTS]:
        root = hole.subject.root if hole.subject else ""
        where = place(report, root, hole.path, hole.line)
        yield _notification(NOT_CHECKED, "warning", hole.sentence(), where, (rule, index.get(rule)))
    if len(lost) > MAX_RESULTS:
        more = plural(len(lost) - MAX_RESULTS, "further check")
        yield _notification(NOT_CHECKED, "warning", f"{more} not made and not listed here.")
    for subject in report.reports:
        if subject.verdict is Verdict.NOT_CHECKED:
            text = f"{name(subject)}: {_sentence(headline(subject))}"
            yield _notification(NOT_CHECKED, "note", text)
    counts = report.not_judged.counts
    if counts:
        kinds = ", ".join(f"{count:,} {content}" for content, count in sorted(counts.items()))
        text = f"{plural(sum(counts.values()), 'file')} seen and not judged: {kinds}."
        yield _notification(NOT_CHECKED, "note", text)


def _notification(
    descriptor: RuleEntry,
    level: str,
    message: str,
    where: Place | None = None,
    rule: tuple[str, int | None] = ("", None),
) -> Any:
    id, number = rule
    return om.Notification(
        message=om.Message(text=_text(message)),
        level=level,
        descriptor=om.ReportingDescriptorReference(
            id=descriptor.id, index=_NOTES.index(descriptor)
        ),
        associated_rule=om.ReportingDescriptorReference(id=id, index=number) if id else None,
        locations=None if where is None else [_location(where, where.line is not None, ())],
    )


# Rules -------------------------------------------------------------------------------------


def _descriptor(rule: RuleEntry, rules_page: str | None) -> Any:
    whole = f"{_sentence(rule.measures)} {_sentence(rule.means)}"
    return om.ReportingDescriptor(
        id=rule.id,
        name=_pascal(rule.id),
        short_description=_described(_sentence(rule.title)),
        full_description=_described(whole),
        help=om.MultiformatMessageString(text=_help(rule, ""), markdown=_help(rule, "**")),
        help_uri=None if rules_page is None else f"{rules_page}#{rule.id.lower()}",
        default_configuration=om.ReportingConfiguration(level=_LEVEL[rule.level]),
        properties={
            "tags": ["machine-learning", "training", rule.family],
            "precision": _PRECISION[rule.level],
            "problem.severity": _SEVERITY[rule.level],
        },
    )


def _described(text: str) -> Any:
    return om.MultiformatMessageString(text=shorten(text, DESCRIPTION_CHARS))


def _pascal(id: str) -> str:
    """``TP-LOSS-NAN`` as ``LossNan``."""
    return "".join(part.capitalize() for part in id.split("-")[1:]) or id


def _help(rule: RuleEntry, mark: str) -> str:
    sections = (
        ("Measures", (rule.measures,)),
        ("Means", (rule.means,)),
        ("Does not mean", (rule.does_not_mean,)),
        ("Guards", rule.guards),
        ("References", rule.references),
    )
    return "\n\n".join(
        f"{mark}{title}.{mark} {' '.join(map(_sentence, texts))}" for title, texts in sections
    )
