"""Results to the public report. The only place where evidence becomes sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trainproof.model.artifact import Content, Kind, Run, Unjudged
from trainproof.model.data import Facts, Fault
from trainproof.model.outcome import (
    SKIPS,
    Cell,
    Hit,
    Level,
    Public,
    Skip,
    State,
    Value,
)
from trainproof.model.report import (
    COVERAGE_SCHEMA,
    LISTED_FILES,
    CheckDetail,
    Checks,
    CoverageBlock,
    Finding,
    Head,
    KeptCheckpoint,
    Location,
    NotJudged,
    NotJudgedFile,
    Problem,
    RewindEntry,
    RuleEntry,
    SubjectReport,
    Verdict,
)
from trainproof.model.rule import RuleInfo, SubjectKind, render
from trainproof.model.text import printable, spell_values
from trainproof.model.wire import RunResult

from .cells import not_checked

SOURCES = {SubjectKind.RUN: "single_run", SubjectKind.PAIR: "compare"}
"""What the rules about a kind of subject look at, in 0.22's words; all others by its name."""
_ORDER = {Level.FAIL: 0, Level.WARN: 1, Level.INFO: 2}
_QUIET = frozenset(
    {
        Content.NOT_A_LOG,
        Content.SAVED_DATA,
        Content.UNNAMED_NUMBERS,
        Content.ARCHIVE,
        Content.EXCLUDED,
    }
)
"""Contents that are counted and not listed: nobody expected them to be judged."""


def has_subject(result: RunResult) -> bool:
    """Whether there is anything to report on: a run whose logs hold no series and no fault is
    listed under what was not judged instead. Its settings make no difference to that. A run that
    nobody could judge has no artifacts in its result."""
    settings = {entry.path for entry in result.artifacts if entry.kind == Kind.CONFIG}
    logs = {entry.path for entry in result.artifacts} - settings
    faulty = any(fault.artifact not in settings for fault in result.faults)
    hollow = logs <= {file.path for file in result.unjudged}
    return bool(result.series) or faulty or not hollow or not result.artifacts


def subject_report(
    run: Run,
    result: RunResult,
    rules: Mapping[str, RuleInfo],
    kept: tuple[KeptCheckpoint, ...] = (),
) -> SubjectReport:
    """One run's public report. Its matrix has one cell per rule of ``rules``: those that were
    not asked for are out of scope by the caller's choice. ``kept``: its checkpoints."""
    done = {cell.rule: cell for cell in result.cells}
    if len(done) != len(result.cells) or not done.keys() <= rules.keys():
        raise ValueError(f"{run.id}: cells of unknown rules, or twice of one")
    cells = tuple(done.get(id) or not_checked(id, Skip.DISABLED) for id in rules)
    judged = verdict(cells, rules)
    hits = [(rules[cell.rule], hit) for cell in cells for hit in cell.hits]
    hits.sort(key=lambda pair: (_ORDER[pair[1].level], pair[1].superseded))
    return SubjectReport(
        id=printable(run.id),
        kind=str(run.subject),
        root=printable(run.root),
        verdict=judged,
        findings=tuple(_finding(info, hit) for info, hit in hits),
        checks=_checks(cells),
        artifacts=result.artifacts,
        segments=result.segments,
        rewinds=tuple(
            RewindEntry(
                printable(r.artifact), r.from_step, r.to_step, r.resume, r.line, r.counted_as
            )
            for r in result.rewinds
        ),
        series=result.series,
        comparisons=result.comparisons,
        checkpoints=result.checkpoints,
        tensors=result.tensors,
        drift=result.drift,
        kept=kept,
        unknown_columns=tuple(printable(name) for name in result.unknown),
        facts=_facts(result.facts),
        measured=spell_values(result.measured) or None,
        problems=tuple(problem(fault) for fault in result.faults),
        because=_because(cells, rules) if judged is Verdict.NOT_CHECKED else None,
    )


def kept_checkpoint(run: Run, report: Head, step: int | None) -> KeptCheckpoint:
    """A checkpoint as the report of its run lists it."""
    size = sum(artifact.size for artifact in run.artifacts)
    return KeptCheckpoint(report.id, step, report.verdict, len(run.artifacts), size)


def verdict(cells: Sequence[Cell], rules: Mapping[str, RuleInfo]) -> Verdict:
    """FAIL or WARN by the worst hit; PASS needs a clean cell of a rule that gives grounds."""
    levels = {hit.level for cell in cells for hit in cell.hits}
    if Level.FAIL in levels:
        return Verdict.FAIL
    if Level.WARN in levels:
        return Verdict.WARN
    looked = any(
        one.state == State.CLEAN
        for cell in cells
        if rules[cell.rule].grounds
        for one in cell.checks
    )
    return Verdict.PASS if looked else Verdict.NOT_CHECKED


def _because(cells: Sequence[Cell], rules: Mapping[str, RuleInfo]) -> str | None:
    """The reasons of the rules that give grounds, each once, with the first rule it kept back."""
    reasons: dict[str, str] = {}
    for cell in cells:
        if cell.skip is not None and rules[cell.rule].grounds and cell.skip is not Skip.DISABLED:
            reasons.setdefault(SKIPS[cell.skip].reason, cell.rule)
    return "; ".join(f"{reason} ({id})" for reason, id in reasons.items()) or None


def _finding(info: RuleInfo, hit: Hit) -> Finding:
    where, prose = hit.evidence.where, render(info, hit)
    return Finding(
        id=info.id,
        level=hit.level,
        message=printable(prose.message),
        evidence=printable(prose.evidence),
        source=SOURCES.get(info.subject, str(info.subject)),
        measured=spell_values(hit.evidence.measured),
        thresholds=spell_values(hit.thresholds),
        location=Location(printable(where.artifact), where.line),
        variant=hit.evidence.variant,
        series=None if where.series is None else printable(where.series),
        tensor=None if where.tensor is None else printable(where.tensor),
        segment=hit.attempt,
        superseded=hit.superseded,
        first_step=where.first_step,
        last_step=where.last_step,
    )


def _checks(cells: Sequence[Cell]) -> Checks:
    states = {cell.rule: _COVERAGE[cell.skip] for cell in cells}
    ran = tuple([cell.rule for cell in cells if cell.skip is None])
    return Checks(
        ran=ran,
        skipped={c.rule: SKIPS[c.skip].reason for c in cells if c.skip is not None},
        coverage=CoverageBlock(
            schema=COVERAGE_SCHEMA,
            states=states,
            counts=dict(sorted(Counter(states.values()).items())),
            total=len(cells),
            checked=len(ran),
            checked_pct=round(100 * len(ran) / len(cells), 1) if cells else 0.0,
        ),
        details={
            cell.rule: CheckDetail(cell.state, cell.skip, _OWNERS[cell.skip], cell.checks)
            for cell in cells
        },
    )


_COVERAGE: Mapping[Skip | None, str] = {
    None: str(Public.CHECKED),
    **{skip: str(info.public) for skip, info in SKIPS.items()},
}
_OWNERS: Mapping[Skip | None, str | None] = {
    None: None,
    **{skip: str(info.owner) for skip, info in SKIPS.items()},
}


def _facts(facts: Facts) -> dict[str, Value] | None:
    return spell_values(facts.said()) or None


def problem(fault: Fault) -> Problem:
    return Problem(
        str(fault.code), printable(fault.artifact), printable(fault.detail), fault.fatal, fault.line
    )


def not_judged(files: Iterable[Unjudged]) -> NotJudged:
    """Counts of everything, and the names of those that somebody may miss."""
    files = tuple(files)
    counts = Counter(str(file.content) for file in files)
    named = tuple(_named(files))
    listed = named[:LISTED_FILES]
    return NotJudged(dict(sorted(counts.items())), listed, len(named) - len(listed))


def _named(files: Iterable[Unjudged]) -> Iterator[NotJudgedFile]:
    for file in files:
        if file.content not in _QUIET:
            yield NotJudgedFile(printable(file.path), str(file.content), printable(file.detail))


def rule_entry(info: RuleInfo) -> RuleEntry:
    doc = info.doc
    return RuleEntry(
        id=info.id,
        family=info.family,
        title=info.title,
        level=info.level,
        measures=doc.measures,
        means=doc.means,
        does_not_mean=doc.does_not_mean,
        guards=doc.guards,
        references=doc.references,
    )
