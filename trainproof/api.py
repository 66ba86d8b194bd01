"""The composition root: the one function that the CLI, the Action and notebooks call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

from . import __version__
from .config import Config
from .discover import discover
from .engine import publish
from .engine.limits import Limits
from .engine.local import judge_here
from .engine.spool import spooled
from .engine.supervisor import supervise
from .grouping import group
from .model.artifact import Artifact, Run, Unjudged
from .model.data import Fault, FaultCode
from .model.report import (
    SCHEMA_VERSION,
    Invocation,
    NotJudged,
    Report,
    RuleEntry,
    SubjectReport,
    Verdict,
    worst,
)
from .model.rule import SubjectKind
from .model.wire import RunResult, Settings, Task
from .readers import READERS
from .rules import REGISTRY
from .stores import open_store
from .stores.interface import StoreError

Progress = Callable[[int, int], None]
"""Called with the number of runs judged and the number of runs."""


@dataclass(slots=True)
class _Found:
    """What the walks of all roots brought together."""

    runs: list[Run] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    spools: dict[str, str] = field(default_factory=dict)


def audit(config: Config, progress: Progress | None = None) -> Report:
    """Walk, group, read, judge, report. Raises nothing about the data: that is in the report."""
    started, begin = datetime.now(UTC), time.monotonic()
    with ExitStack() as stack:
        found = _find(config, stack)
        judged = _judge(found, config, progress)
    invocation = Invocation(
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - begin, 3),
        jobs=judged.jobs,
        isolated=config.isolation,
        memory_limit_enforced=judged.memory_limited,
    )
    return _report(config, found, judged.results, invocation)


def failed(error: str) -> Report:
    """The report of an audit that could not be carried out at all."""
    return Report(
        SCHEMA_VERSION, __version__, (), Verdict.NOT_CHECKED, error, NotJudged({}), _rules()
    )


def _find(config: Config, stack: ExitStack) -> _Found:
    found = _Found()
    for root in config.paths:
        artifacts: list[Artifact] = []
        for item in _walk(root, config, found, stack):
            match item:
                case Artifact():
                    artifacts.append(item)
                case Unjudged():
                    found.unjudged.append(item)
                case StoreError():
                    found.faults.append(_fault(item))
        found.runs += group(artifacts)
    return found


def _walk(
    root: str, config: Config, found: _Found, stack: ExitStack
) -> Sequence[Artifact | Unjudged | StoreError]:
    try:
        spool = spooled(root, stack, Limits(config.timeout, memory_bytes=config.memory_limit))
        if spool is not None:
            found.spools[root] = spool
        store = open_store(
            root,
            config.follow_symlinks,
            include=config.include,
            exclude=config.exclude,
            spool=spool,
        )
        return list(discover(store, root, READERS, config.format_hint))
    except StoreError as error:
        return [error]


def _fault(error: StoreError) -> Fault:
    return Fault(FaultCode.IO, error.path, error.detail, fatal=True)


@dataclass(slots=True)
class _Judged:
    results: dict[int, RunResult]
    jobs: int = 1
    memory_limited: bool = False


def _judge(found: _Found, config: Config, progress: Progress | None) -> _Judged:
    """Results by number of the run: their order says nothing about when each came in."""
    tasks = [Task(number, run) for number, run in enumerate(found.runs)]
    settings = Settings(
        rules=config.rules,
        thresholds=config.thresholds,
        tags=config.tags,
        spools=found.spools,
        follow_symlinks=config.follow_symlinks,
        plugins=config.plugins,
        memory_bytes=config.memory_limit,
    )
    judged = _Judged({})

    def finished(number: int, result: RunResult) -> None:
        judged.results[number] = result
        if progress is not None:
            progress(len(judged.results), len(tasks))

    if not config.isolation:
        judge_here(tasks, settings, finished)
        return judged
    judged.jobs = min(config.jobs or os.cpu_count() or 1, max(1, len(tasks)))
    limits = Limits(config.timeout, memory_bytes=config.memory_limit)
    judged.memory_limited = supervise(tasks, settings, limits, judged.jobs, finished)
    return judged


def _report(
    config: Config, found: _Found, results: dict[int, RunResult], invocation: Invocation
) -> Report:
    infos = {id: r.info for id, r in REGISTRY.items() if r.info.subject is SubjectKind.RUN}
    reports: list[SubjectReport] = []
    unjudged = list(found.unjudged)
    for number, run in enumerate(found.runs):
        result = results[number]
        unjudged += result.unjudged
        if publish.has_subject(result):
            reports.append(publish.subject_report(run, result, infos))
    return Report(
        schema_version=SCHEMA_VERSION,
        trainproof_version=__version__,
        reports=tuple(reports),
        worst_verdict=worst(report.verdict for report in reports),
        error=None,
        not_judged=publish.not_judged(unjudged),
        rules=_rules(),
        problems=tuple(publish.problem(fault) for fault in found.faults),
        anchors=dict(config.anchors) or None,
        invocation=invocation,
    )


def _rules() -> tuple[RuleEntry, ...]:
    return tuple(publish.rule_entry(rule.info) for rule in REGISTRY.values())
