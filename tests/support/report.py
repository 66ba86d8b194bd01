"""Small public reports, as ``engine.publish`` makes them, for the tests of the emitters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from trainproof.model.outcome import SKIPS, Level, Public, Skip, State, Value
from trainproof.model.report import (
    COVERAGE_SCHEMA,
    SCHEMA_VERSION,
    Application,
    ArtifactEntry,
    CheckDetail,
    Checks,
    CoverageBlock,
    Finding,
    Location,
    NotJudged,
    Problem,
    Report,
    RuleEntry,
    Segment,
    SeriesSummary,
    SubjectReport,
    Verdict,
    worst,
)

HOSTILE = (
    "plain\x00nul\x07bell",
    "\x1b[31mred\x1b[0m",
    "lone\udcffbyte and \ud800half",
    "cdata ]]> end",
    "line\n::error file=x::owned",
    "::error file=x,line=1,title=t::owned",
    "pipe | `tick` *star* _under_ <b>tag</b> [link](https://example.org)",
    "@everyone #1 $x$ https://example.org www.example.org",
    "{0} [a](0) %0A,:%",
    "right\u202eleft \u2028 line \ufffe end",
    "漢字 é e\u0301 🙂",
    "\\x1b &amp; &#10; \" '",
    "l" * 10_000,
)
"""Names that somebody can give to a file or to a logged scalar."""


def rule(id: str, level: Level = Level.FAIL, family: str = "finite") -> RuleEntry:
    return RuleEntry(
        id=id,
        family=family,
        title=f"What {id} finds",
        level=level,
        measures=f"Measures of {id}.",
        means="It means this.",
        does_not_mean="It does not mean that.",
        guards=("A guard.",),
        references=("A reference",),
    )


RULES = (
    rule("TP-NAN"),
    rule("TP-SPIKE", Level.WARN, "shape"),
    rule("TP-THROUGHPUT", Level.INFO, "speed"),
    rule("TP-LR-ZERO", Level.FAIL, "schedule"),
)
LOG = ArtifactEntry("a/log.jsonl", "jsonl", "log", 1_234)


def finding(id: str = "TP-NAN", level: Level = Level.FAIL, **changes: Any) -> Finding:
    made = Finding(
        id=id,
        level=level,
        message="loss is NaN or infinite from step 40 on.",
        evidence="6 of 10 logged values are not finite.",
        source="single_run",
        measured={"points": 10, "nonfinite": 6, "last_finite": "NaN"},
        thresholds={"in_a_row": 3},
        location=Location(LOG.path, 5),
        series="loss",
        first_step=40,
        last_step=100,
    )
    return replace(made, **changes)


def series(name: str = "loss", **changes: Any) -> SeriesSummary:
    made = SeriesSummary(
        name=name,
        artifact=LOG.path,
        role="loss",
        split="train",
        scope="step",
        component=None,
        direction="lower",
        segment=0,
        points=10,
        nonfinite=0,
        first=3.0,
        last=1.25,
        min=1.25,
        max=3.0,
        first_step=10,
        last_step=100,
        curve="█▆▅▄▃▂▁×▁▁",
    )
    return replace(made, **changes)


def subject(
    id: str = "a",
    verdict: Verdict | None = None,
    *,
    findings: Sequence[Finding] = (),
    skips: Mapping[str, Skip] | None = None,
    cited: Mapping[str, str] | None = None,
    problems: Sequence[Problem] = (),
    rules: Sequence[RuleEntry] = RULES,
    **changes: Any,
) -> SubjectReport:
    """A run with one cell for each rule: fired where there is a finding, not checked where
    ``skips`` says so (with the artifact that it blames in ``cited``), clean otherwise."""
    fired = {one.id for one in findings}
    details = {
        one.id: _detail(one.id in fired, (skips or {}).get(one.id), (cited or {}).get(one.id))
        for one in rules
    }
    made = SubjectReport(
        id=id,
        kind="run",
        root=".",
        verdict=verdict or _verdict(findings),
        findings=tuple(findings),
        checks=_checks(details),
        artifacts=(LOG,),
        segments=(Segment(0, 10, 100),),
        series=(series(),),
        problems=tuple(problems),
    )
    return replace(made, **changes)


def _detail(fired: bool, skip: Skip | None, cited: str | None) -> CheckDetail:
    measured: dict[str, Value] = {"points": 10} if cited is None else {"artifact": cited}
    state = State.NOT_CHECKED if skip else State.FIRED if fired else State.CLEAN
    name = None if skip is None else str(skip)
    application = Application(str(state), None if skip else "loss", 0, name, measured)
    owner = None if skip is None else str(SKIPS[skip].owner)
    return CheckDetail(str(state), name, owner, (application,))


def _checks(details: Mapping[str, CheckDetail]) -> Checks:
    skips = {id: Skip(detail.skip) for id, detail in details.items() if detail.skip}
    states = {id: str(SKIPS[skips[id]].public if id in skips else Public.CHECKED) for id in details}
    ran = tuple(id for id in details if id not in skips)
    return Checks(
        ran=ran,
        skipped={id: SKIPS[skip].reason for id, skip in skips.items()},
        coverage=CoverageBlock(
            schema=COVERAGE_SCHEMA,
            states=states,
            counts=dict(Counter(states.values())),
            total=len(details),
            checked=len(ran),
            checked_pct=round(100 * len(ran) / len(details), 1) if details else 0.0,
        ),
        details=details,
    )


def _verdict(findings: Sequence[Finding]) -> Verdict:
    levels = {one.level for one in findings}
    if Level.FAIL in levels:
        return Verdict.FAIL
    return Verdict.WARN if Level.WARN in levels else Verdict.PASS


def report(*subjects: SubjectReport, **changes: Any) -> Report:
    made = Report(
        schema_version=SCHEMA_VERSION,
        trainproof_version="1.0.0",
        reports=subjects,
        worst_verdict=worst(one.verdict for one in subjects),
        error=None,
        not_judged=NotJudged({}),
        rules=RULES,
    )
    return replace(made, **changes)


UNREADABLE = Problem("corrupt", LOG.path, "checksum differs at byte 7", fatal=True)


def unreadable(id: str = "broken") -> SubjectReport:
    """A run whose only file could not be read."""
    blamed = {one.id: Skip.NEED_UNREADABLE for one in RULES}
    return subject(
        id,
        Verdict.NOT_CHECKED,
        skips=blamed,
        cited=dict.fromkeys(blamed, LOG.path),
        problems=(UNREADABLE,),
        series=(),
    )


def hostile() -> Report:
    """A run for each hostile name, which is then everywhere a name can be."""
    return report(
        *(_hostile(number, name) for number, name in enumerate(HOSTILE)),
        problems=tuple(Problem("io", name, name, fatal=True) for name in HOSTILE),
        error=HOSTILE[4],
    )


def _hostile(number: int, name: str) -> SubjectReport:
    hit = finding(
        message=f"{name} is NaN",
        evidence=name,
        measured={name: name, "value": float("nan"), "huge": 2**70},
        location=Location(name, 1 if number % 2 else None),
        series=name,
        tensor=name,
    )
    return subject(
        f"{number}{name}",
        findings=(hit, replace(hit, superseded=True), replace(hit, id="TP-SPIKE", series=None)),
        skips={"TP-LR-ZERO": Skip.WORKER_CRASHED},
        problems=(Problem("truncated", name, name, fatal=False),),
        artifacts=(replace(LOG, path=name),),
        series=(series(name, artifact=name, first="NaN", last="Infinity", also_in=(name,)),),
        unknown_columns=(name,),
        facts={"framework": name, "seed": 2**70},
        root=name if number % 3 == 0 else ".",
    )


def many(count: int) -> Report:
    """``count`` findings in 50 runs: FAIL, WARN and INFO in turn."""
    levels = tuple(Level)
    subjects = []
    for run in range(50):
        found = [finding(level=levels[i % 3], series=f"loss_{i}") for i in range(run, count, 50)]
        subjects.append(subject(f"run{run:02}", findings=found))
    return report(*subjects)
