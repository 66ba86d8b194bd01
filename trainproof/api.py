"""The composition root: the one function that the CLI, the Action and notebooks call."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from . import __version__, readers
from .checkpointing import (
    counterparts,
    files_of,
    find,
    find_among,
    homes,
    is_promised,
    is_saved,
    predecessors,
)
from .config import NO_CHECKPOINTS, Config
from .discover import discover
from .engine import publish
from .engine.evaluate import evaluate
from .engine.launch import dismiss, launch_ahead
from .engine.limits import Limits
from .engine.reporting import matrix, of_kinds
from .engine.spool import spooled
from .engine.supervisor import Pool, supervise
from .grouping import group, taken_apart, tracked_run
from .model.artifact import Artifact, Content, Kind, Run, Unjudged
from .model.checkpoint import Kept
from .model.data import Facts, Fault, FaultCode, RunView
from .model.following import Following
from .model.inspection import Requests
from .model.progress import Amount, Progress
from .model.report import (
    SCHEMA_VERSION,
    Invocation,
    KeptCheckpoint,
    NotJudged,
    Report,
    RuleEntry,
    SubjectReport,
    Subjects,
    Verdict,
    heads,
    worst,
)
from .model.rule import RuleInfo, SubjectKind
from .model.tensors import Depth
from .model.wire import RunResult, Settings, Task
from .readers.interface import Reader
from .rules import REGISTRY
from .stores import open_store
from .stores.interface import StoreError

if TYPE_CHECKING:
    from .engine.local import Bench

Watcher = Callable[[Progress], None]
"""Told whenever a subject is judged, and now and then while large ones are read."""


class _Found(msgspec.Struct):
    """What the walks of all roots brought together. ``kinds``: of the rules of the matrix.
    ``baselines``: the runs to compare with. ``references``: the checkpoint that each one is
    compared with. ``kept``: the checkpoints of each run that has any, ``limited``: those that are
    too large to be read in full. ``sift``: checkpoints were found by their names alone.
    ``readers`` recognise it."""

    kinds: frozenset[SubjectKind]
    readers: tuple[Reader, ...] = ()
    runs: list[Run] = msgspec.field(default_factory=list)
    baselines: tuple[Run, ...] = ()
    references: dict[Run, Run] = msgspec.field(default_factory=dict)
    kept: dict[Run, list[Run]] = msgspec.field(default_factory=dict)
    limited: set[Run] = msgspec.field(default_factory=set)
    sift: bool = False
    unjudged: list[Unjudged] = msgspec.field(default_factory=list)
    faults: list[Fault] = msgspec.field(default_factory=list)
    spools: dict[str, str] = msgspec.field(default_factory=dict)


def audit(config: Config, watcher: Watcher | None = None) -> Report:
    """Walk, group, read, judge, report: runs, and checkpoints, whether a run keeps them or not.
    Raises nothing about the data: that is in the report."""
    if config.checkpoints == NO_CHECKPOINTS:
        return _audited(config, _find, watcher)
    return _audited(config, _find_with_saved, watcher, Depth(config.checkpoints))


def audit_checkpoints(
    config: Config, depth: Depth = Depth.TENSORS, watcher: Watcher | None = None
) -> Report:
    """The same for checkpoints: one subject for each file, or for files that are one together.

    Each is compared with that of the config's baseline, or else with the one that was saved before
    it. ``depth``: how much of each file is read.
    """
    return _audited(config, _find_checkpoints, watcher, depth)


def inspect(
    config: Config, kind: SubjectKind, requests: Requests, watcher: Watcher | None = None
) -> Report:
    """Judge what each path of the config names as a subject of ``kind``: a dataset, a tokenizer,
    a speech corpus; an environment is the place itself, under one of its paths."""
    if kind is SubjectKind.ENVIRONMENT:
        # A module that is imported must meet no limit of ours; its own deadline is in the request.
        config = replace(config, memory_limit=0, timeout=max(config.timeout, Config().timeout))
    kinds = {kind}
    if kind is SubjectKind.DATASET and requests.dataset.tokenizer is not None:
        kinds.add(SubjectKind.TOKENIZER)  # it is looked at with the dataset
    seek = partial(_find_subjects, kind, frozenset(kinds))
    return _audited(config, seek, watcher, requests)


def judge(run: Run, view: RunView, config: Config) -> Report:
    """Judge what is in memory already, as a subject of the run's kind, in this process."""
    found = _Found(frozenset({run.subject}), runs=[run])
    infos = of_kinds(found.kinds)
    from .engine.memory import judge_view  # noqa: PLC0415 - nothing else is judged in this process

    result = judge_view(view, [id for id in config.rules if id in infos], config.thresholds)
    reports = _published(found, {0: result})
    return _report(config, found, {0: result}, reports, Invocation(isolated=False, jobs=1))


def _audited(
    config: Config,
    find: Callable[[Config, ExitStack], _Found],
    watcher: Watcher | None,
    asked: Depth | Requests = Depth.TENSORS,
) -> Report:
    """``asked``: what the caller wants beyond the config."""
    started, begin = datetime.now(UTC), time.monotonic()
    with ExitStack() as stack:
        found = find(config, stack)
        judged = _judge(found, config, watcher, asked)
    invocation = Invocation(
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - begin, 3),
        jobs=judged.jobs,
        isolated=config.isolation,
        memory_limit_enforced=judged.memory_limited,
    )
    encoded = (one.report for _, one in sorted(judged.results.items()))
    reports = Subjects(one for one in encoded if one is not None)
    return _report(config, found, judged.results, reports, invocation)


def failed(error: str) -> Report:
    """The report of an audit that could not be carried out at all."""
    rules = _rules({id: rule.info for id, rule in REGISTRY.items()})
    return Report(SCHEMA_VERSION, __version__, (), Verdict.NOT_CHECKED, error, NotJudged({}), rules)


def _find(config: Config, stack: ExitStack) -> _Found:
    plugins = readers.third_party()
    pairs = {SubjectKind.PAIR} if config.baseline is not None else set()
    found = _Found(frozenset({SubjectKind.RUN} | pairs), (*plugins.readers, *readers.READERS))
    for root in config.paths:
        found.runs += _runs(root, config, found, stack)
    if config.baseline is not None:
        found.baselines = _baselines(config.baseline, config, found, stack)
    found.faults += plugins.faults()
    return found


def _find_with_saved(config: Config, stack: ExitStack) -> _Found:
    """Also the checkpoints among the files that no reader of logs knows: those that runs keep, and
    those of no run. Where no name promises one, nothing more is done."""
    found = _find(config, stack)
    passed: defaultdict[str, list[str]] = defaultdict(list)
    for file in found.unjudged:
        by_name = file.content is Content.NOT_A_LOG and is_saved(file.path)
        if by_name and file.root in config.paths:
            passed[file.root].append(file.path)
    saved: list[Run] = []
    for root, paths in passed.items():
        here = list(_among(root, paths, found, config))
        runs = [run for run in found.runs if run.root == root]
        kept = homes(here, runs)
        for checkpoint, home in kept.items():
            found.kept.setdefault(home, []).append(checkpoint)
        # of a set without a file of weights, only a log beside it tells that it is one
        saved += (one for one in here if one in kept or one.artifacts)
    if saved:
        _add(saved, found, config)
    return found


def _add(saved: Sequence[Run], found: _Found, config: Config) -> None:
    found.sift = True
    found.kinds |= {SubjectKind.CHECKPOINT, SubjectKind.CHECKPOINT_PAIR}
    if found.kept:
        found.kinds |= {SubjectKind.KEPT}
    kept = {one for ones in found.kept.values() for one in ones}
    by_worth = sorted(saved, key=lambda one: (one not in kept, not is_promised(one)))
    found.limited = large = set(_too_large(by_worth, config.checkpoint_limit))
    chains = predecessors(saved).items()
    # what is read in full must not make a large one be read in full
    found.references = {one: ref for one, ref in chains if one in large or ref not in large}
    found.runs += saved
    judged = {(one.root, artifact.path) for one in saved for artifact in one.artifacts}
    found.unjudged = [file for file in found.unjudged if (file.root, file.path) not in judged]


def _among(root: str, paths: Sequence[str], found: _Found, config: Config) -> Iterator[Run]:
    store = open_store(root, config.follow_symlinks, spool=found.spools.get(root))
    seen = {one.path for one in found.unjudged if one.root == root}
    seen.update(file.path for run in found.runs if run.root == root for file in run.artifacts)
    named: dict[str, Unjudged] = {}
    for item in find_among(store, root, paths, sorted(seen.difference(paths))):
        match item:
            case Run():
                yield item
            case Unjudged():
                named[item.path] = item
            case StoreError():
                found.faults.append(_fault(item, root))
    if named:
        known = found.unjudged
        found.unjudged = [named.get(f.path, f) if f.root == root else f for f in known]


IN_FULL = 16
"""How many times the limit of one checkpoint an audit reads of all together."""


def _too_large(kept: Iterable[Run], limit: int) -> Iterator[Run]:
    """Checkpoints that are larger than the limit, and those for which nothing is left."""
    left = IN_FULL * limit
    for one in kept:
        size = sum(artifact.size for artifact in one.artifacts)
        if limit and size > min(limit, left):
            yield one
        else:
            left -= size


def _find_checkpoints(config: Config, _: ExitStack) -> _Found:
    found = _Found(frozenset({SubjectKind.CHECKPOINT, SubjectKind.CHECKPOINT_PAIR}))
    for root in config.paths:
        found.runs += _saved(root, config, found)
    if config.baseline is None:
        found.references = predecessors(found.runs)
        return found
    references = _saved(config.baseline, config, _Found(found.kinds, faults=found.faults))
    found.references = counterparts(found.runs, references)
    for run in found.runs:
        if run not in found.references and files_of(run) not in map(files_of, references):
            detail = f"{config.baseline} holds nothing to compare it with"
            fault = Fault(FaultCode.IO, run.name, detail, fatal=True)
            found.faults.append(fault)
    return found


def _find_subjects(
    kind: SubjectKind, kinds: frozenset[SubjectKind], config: Config, _: ExitStack
) -> _Found:
    """One for each path; what is below a directory is looked up by whoever inspects it."""
    found = _Found(kinds)
    for path in config.paths:
        home, name = _split(path)
        if kind is SubjectKind.ENVIRONMENT:
            found.runs.append(Run(str(kind), path, (), kind))
        elif not os.path.exists(path):
            found.faults.append(Fault(FaultCode.IO, path, "no such file or directory", fatal=True))
        else:
            size = 0 if os.path.isdir(path) else os.path.getsize(path)
            artifact = Artifact(home, name, size, Kind(kind), str(kind))
            found.runs.append(Run(name, home, (artifact,), kind))
    return found


def _split(path: str) -> tuple[str, str]:
    """The directory and the name of a path, relative where the path is: reports are read in a
    repository, and the same wherever that lies."""
    home, name = os.path.split(os.path.normpath(path))
    if name in ("", ".", ".."):
        home, name = os.path.split(os.path.abspath(path))
    return home or ".", name


def _saved(root: str, config: Config, found: _Found) -> tuple[Run, ...]:
    """The checkpoints below a root. An archive is no store here: most checkpoints are archives
    themselves."""
    runs: list[Run] = []
    try:
        follow, include, exclude = config.follow_symlinks, config.include, config.exclude
        store = open_store(root, follow, include=include, exclude=exclude)
        for item in find(store, root):
            match item:
                case Run():
                    runs.append(item)
                case Unjudged():
                    found.unjudged.append(item)
                case StoreError():
                    found.faults.append(_fault(item, root))
    except StoreError as error:
        found.faults.append(_fault(error, root))
    return tuple(runs)


def _runs(root: str, config: Config, found: _Found, stack: ExitStack) -> tuple[Run, ...]:
    artifacts: list[Artifact] = []
    begin = len(found.unjudged)
    for item in _walk(root, config, found, stack):
        match item:
            case Artifact():
                artifacts.append(item)
            case Unjudged():
                found.unjudged.append(item)
            case StoreError():
                found.faults.append(_fault(item, root))
    runs = _with_logs(group(artifacts), found)
    found.unjudged[begin:] = _named(found.unjudged[begin:], runs)
    return runs


def _baselines(root: str, config: Config, found: _Found, stack: ExitStack) -> tuple[Run, ...]:
    """The runs of the baseline. There being none is a fault: nothing can be compared then."""
    if root in config.paths:
        return tuple(run for run in found.runs if run.root == root)
    known = len(found.faults)
    runs = _runs(root, config, found, stack)
    if not runs and len(found.faults) == known:
        detail = "holds no run to compare with"
        found.faults.append(Fault(FaultCode.IO, root, detail, fatal=True))
    return runs


def _with_logs(runs: Iterable[Run], found: _Found) -> tuple[Run, ...]:
    """The runs that hold more than settings: those alone are no run."""
    judgeable: list[Run] = []
    for run in runs:
        if any(artifact.kind is not Kind.CONFIG for artifact in run.artifacts):
            judgeable.append(run)
        else:
            found.unjudged += (Unjudged(a.root, a.path, Content.NOT_A_LOG) for a in run.artifacts)
    return tuple(judgeable)


def _named(unjudged: Iterable[Unjudged], runs: Iterable[Run]) -> Iterator[Unjudged]:
    """One file of each directory that a tracker made for a run of which no log is there is named
    for that; the others are what they were."""
    known = {run.id for run in runs}
    for one in unjudged:
        home = tracked_run(one.path)
        if home is None or home in known or one.content is not Content.NOT_A_LOG:
            yield one
            continue
        known.add(home)
        yield replace(
            one, content=Content.HEADER_ONLY, detail="nothing that the run logged is here"
        )


def _walk(root: str, config: Config, found: _Found, stack: ExitStack) -> Sequence[_Seen]:
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
        items = discover(store, root, found.readers, config.format_hint)
        return list(_with_workers(items, config, stack))
    except StoreError as error:
        return [error]


def _with_workers(items: Iterable[_Seen], config: Config, stack: ExitStack) -> Iterator[_Seen]:
    """The same items. Workers start while they are found, one for every so many logs."""
    stack.callback(dismiss)
    logs = 0
    for item in items:
        yield item
        logs += isinstance(item, Artifact)
        if config.isolation and logs % _PER_WORKER == 0:
            launch_ahead(min(_jobs(config), logs // _PER_WORKER))


def _jobs(config: Config) -> int:
    return config.jobs or os.cpu_count() or 1


_Seen = Artifact | Unjudged | StoreError
_PER_WORKER = 64
"""Logs, which take longer to judge than a worker to start."""


def _fault(error: StoreError, root: str) -> Fault:
    """``.`` is one root among several: it is called as the caller called it."""
    path = root if error.path == "." else error.path
    return Fault(FaultCode.IO, path, error.detail, fatal=True)


def _bench(settings: Settings) -> Bench:
    """This process in the place of workers. Else it does without all that reads."""
    from .engine.local import Bench  # noqa: PLC0415

    return Bench(settings)


class _Judged(msgspec.Struct):
    """``kept``: what each checkpoint tells the run that keeps it, ``listed``: what the run's report
    tells of it."""

    results: dict[int, RunResult] = msgspec.field(default_factory=dict)
    kept: dict[Run, Kept] = msgspec.field(default_factory=dict)
    listed: dict[Run, KeptCheckpoint] = msgspec.field(default_factory=dict)
    jobs: int = 1
    memory_limited: bool = False


def _judge(
    found: _Found, config: Config, watcher: Watcher | None, asked: Depth | Requests
) -> _Judged:
    """Results by number of the run: their order says nothing about when each came in."""
    settings = _settings(found, config, asked)
    judged = _Judged()
    far = None if watcher is None else _Far(found.runs, watcher)

    def finished(number: int, result: RunResult) -> None:
        judged.results[number] = result
        _note(found.runs[number], result, judged)
        if far is not None:
            far.finished(number)

    def carry_out(numbers: Sequence[int]) -> None:
        tasks = [_task(number, found, settings, judged) for number in numbers]
        if not config.isolation:
            _bench(settings).judge(tasks, finished)
            return
        judged.jobs = max(judged.jobs, min(_jobs(config), len(tasks)))
        limits = Limits(config.timeout, memory_bytes=config.memory_limit)
        seen = None if far is None else far.seen
        judged.memory_limited = supervise(tasks, settings, limits, judged.jobs, finished, seen=seen)

    checkpoints, others = _in_order(found.runs)
    if checkpoints:
        carry_out(checkpoints)
        _sift(found, judged)
    carry_out(others)
    if apart := _taken_apart(found, judged):
        carry_out(apart)
    return judged


def _note(run: Run, result: RunResult, judged: _Judged) -> None:
    if result.kept is not None:
        judged.kept[run] = result.kept
    if run.subject is SubjectKind.CHECKPOINT and result.report is not None:
        step = None if result.kept is None else result.kept.step
        judged.listed[run] = publish.kept_checkpoint(run, result.report.head, step)


def _sift(found: _Found, judged: _Judged) -> None:
    """Nobody keeps what turned out to be no checkpoint."""
    for run, saved in list(found.kept.items()):
        left = [one for one in saved if one in judged.listed]
        if left:
            found.kept[run] = left
        else:
            del found.kept[run]


class _Far:
    """Adds up what has been read of all subjects, and tells it."""

    def __init__(self, runs: Sequence[Run], watcher: Watcher) -> None:
        self._runs, self._watcher = runs, watcher
        self._amounts = {number: Amount(total=_size(run)) for number, run in enumerate(runs)}
        self._sum = Amount(total=sum(amount.total for amount in self._amounts.values()))
        self._judged = 0

    def seen(self, amounts: Mapping[int, Amount]) -> None:
        """Of subjects that are being read."""
        before = self._sum
        for number, amount in amounts.items():
            self._is_now(number, amount)
        if self._sum != before:
            self._tell()

    def finished(self, number: int) -> None:
        self._judged += 1
        self._is_now(number, self._amounts.get(number, Amount()), finished=True)
        self._tell()

    def _is_now(self, number: int, amount: Amount, finished: bool = False) -> None:
        """A worker may know of more files than were named: of those of a directory."""
        old = self._amounts.get(number, Amount())
        total = max(old.total, amount.total)
        new = Amount(total if finished else amount.done, total, amount.rows)
        self._amounts[number] = new
        self._sum = Amount(*(s + b - a for s, a, b in zip(self._sum, old, new, strict=True)))

    def _tell(self) -> None:
        self._watcher(Progress(self._judged, len(self._runs), self._sum))


def _size(run: Run) -> int:
    return sum(artifact.size for artifact in run.artifacts)


def _settings(found: _Found, config: Config, asked: Depth | Requests) -> Settings:
    infos = of_kinds(found.kinds)
    return Settings(
        rules=tuple(id for id in config.rules if id in infos),
        kinds=found.kinds,
        baseline_rules=tuple(id for id, i in infos.items() if i.subject is SubjectKind.RUN),
        thresholds=config.thresholds,
        tags=config.tags,
        spools=found.spools,
        follow_symlinks=config.follow_symlinks,
        depth=asked if isinstance(asked, Depth) else Depth.TENSORS,
        requests=asked if isinstance(asked, Requests) else Requests(),
        plugins=config.plugins,
        memory_bytes=config.memory_limit,
        sift=found.sift,
    )


def _in_order(runs: Sequence[Run]) -> tuple[list[int], list[int]]:
    """Numbers of the checkpoints, which runs are told of, and of everything else."""
    checkpoints = [n for n, run in enumerate(runs) if run.subject is SubjectKind.CHECKPOINT]
    first = set(checkpoints)
    return checkpoints, [number for number in range(len(runs)) if number not in first]


def _task(number: int, found: _Found, settings: Settings, judged: _Judged) -> Task:
    """Rules go with a task where they are not those of all."""
    run = found.runs[number]
    rules = _rules_of(run.subject, found.kinds, run in found.kept, settings.rules)
    baselines = _others(run, found.baselines)
    if run.subject is SubjectKind.CHECKPOINT:
        baselines = (found.references[run],) if run in found.references else ()
    own = found.kept.get(run, ())
    listed = [judged.listed[one] for one in own]
    listed.sort(key=lambda one: (one.step is None, one.step or 0, one.id))
    return Task(
        number,
        run,
        baselines,
        rules=None if rules == settings.rules else rules,
        depth=Depth.STRUCTURE if run in found.limited else None,
        kept=tuple(judged.kept[one] for one in own if one in judged.kept),
        listed=tuple(listed),
    )


@cache
def _rules_of(
    subject: SubjectKind, kinds: frozenset[SubjectKind], keeps: bool, rules: tuple[str, ...]
) -> tuple[str, ...]:
    """Those of ``rules`` that the subject gets a cell of."""
    asked = matrix(subject, kinds, keeps)
    return tuple(id for id in rules if id in asked)


def _taken_apart(found: _Found, judged: _Judged) -> Sequence[int]:
    """Put in the place of a run those that it turned out to be: only who reads a file sees that it
    holds several. Returns the numbers of the runs that are to be judged now."""
    runs: list[Run] = []
    kept: dict[int, RunResult] = {}
    for number, run in enumerate(found.runs):
        result = judged.results[number]
        apart = taken_apart(run, result.parts, result.strangers)
        if apart == (run,):
            kept[len(runs)] = result
        else:
            found.faults += map(_set_apart, result.strangers)
        runs += apart
    found.runs, judged.results = runs, kept
    return [number for number in range(len(runs)) if number not in kept]


def _set_apart(path: str) -> Fault:
    detail = (
        "judged as a run of its own: nothing shows that it is about the training whose log lies"
        " beside it"
    )
    return Fault(FaultCode.APART, path, detail, fatal=False)


def _report(
    config: Config,
    found: _Found,
    results: dict[int, RunResult],
    reports: Sequence[SubjectReport],
    invocation: Invocation,
) -> Report:
    unjudged = list(found.unjudged)
    for number in range(len(found.runs)):
        unjudged += results[number].unjudged
    return Report(
        schema_version=SCHEMA_VERSION,
        trainproof_version=__version__,
        reports=reports,
        worst_verdict=worst(one.verdict for one in heads(reports)),
        error=None,
        not_judged=publish.not_judged(unjudged),
        rules=_rules(of_kinds(found.kinds)),
        problems=tuple(publish.problem(fault) for fault in _faults(found, results)),
        anchors=dict(config.anchors) or None,
        invocation=invocation,
    )


def _published(found: _Found, results: Mapping[int, RunResult]) -> tuple[SubjectReport, ...]:
    """Reports of runs of which none was made where they were judged."""
    return tuple(
        publish.subject_report(run, results[number], matrix(run.subject, found.kinds))
        for number, run in enumerate(found.runs)
        if publish.has_subject(results[number])
    )


def _others(run: Run, baselines: Sequence[Run]) -> tuple[Run, ...]:
    """What the run is compared with: never with itself."""
    if not baselines:
        return ()  # nothing asks where its files really are
    own = files_of(run)
    return tuple(one for one in baselines if files_of(one) != own)


def _faults(found: _Found, results: dict[int, RunResult]) -> list[Fault]:
    """Those of no run that was judged; a baseline's are met in every run compared with it."""
    judged = set(found.runs)
    of_baselines = {
        fault
        for number, result in results.items()
        if found.references.get(found.runs[number]) not in judged
        for fault in result.baseline_faults
    }
    return [*found.faults, *sorted(of_baselines, key=lambda fault: (fault.artifact, fault.code))]


def _rules(infos: Mapping[str, RuleInfo]) -> tuple[RuleEntry, ...]:
    return tuple(map(publish.rule_entry, infos.values()))


# --- again and again ------------------------------------------------------------------------

_STALL = "TP-STALL"
_Key = tuple[str, str]
"""Root and id of a run."""


class Session:
    """An audit of runs that is carried out again and again while they go on.

    Workers stay, with what they have read; the result of a run stays until it is judged again.
    """

    def __init__(self, config: Config) -> None:
        self._config = replace(config, jobs=1)  # what has been read stays with one worker
        self._stack = ExitStack()
        self._found = _Found(frozenset())
        self._results: dict[_Key, RunResult] = {}
        self._settings: Settings | None = None
        self._judges: Pool | Bench | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """Those that were found, also such as came to light when a file of several was read."""
        return tuple(self._found.runs)

    def find(self) -> None:
        """Walk all roots anew. A run of which the files are the same keeps its result."""
        before = {_key(run): _names(run) for run in self.runs}
        self._stack.close()
        self._stack = ExitStack()
        # while the worker stays, nothing is started ahead
        staying = self._judges is not None
        config = replace(self._config, isolation=False) if staying else self._config
        found = _find(config, self._stack)
        self._found = replace(found, kinds=found.kinds | {SubjectKind.WATCH})
        same = {_key(run) for run in self.runs if before.get(_key(run)) == _names(run)}
        self._results = {key: one for key, one in self._results.items() if key in same}
        settings = _settings(self._found, self._config, Depth.TENSORS)
        settings = replace(settings, live=True, kinds=frozenset())  # what only it sees is missing
        if settings != self._settings:
            self._dismiss()
            self._settings = settings

    def is_judged(self, run: Run) -> bool:
        return _key(run) in self._results

    def facts(self, run: Run) -> Facts:
        """What the run declares, by what was read of it last."""
        return self._results[_key(run)].facts

    def judge(self, runs: Sequence[Run]) -> None:
        """Renew the results of these runs, which are those that were found, or stand for them."""
        places = {_key(run): place for place, run in enumerate(self._found.runs)}
        for run in runs:
            self._found.runs[places[_key(run)]] = run
        self._results |= self._carry_out(runs)
        for run in runs:
            result = self._results[_key(run)]
            apart = taken_apart(run, result.parts, result.strangers)
            if apart != (run,):
                at = self._found.runs.index(run)
                self._found.runs[at : at + 1] = apart
                self._results |= self._carry_out(apart)

    def _carry_out(self, runs: Sequence[Run]) -> dict[_Key, RunResult]:
        assert self._settings is not None
        if self._judges is None:
            limits = Limits(self._config.timeout, memory_bytes=self._config.memory_limit)
            isolated = self._config.isolation
            self._judges = Pool(self._settings, limits, 1) if isolated else _bench(self._settings)
        baselines = self._found.baselines
        tasks = [Task(number, run, _others(run, baselines)) for number, run in enumerate(runs)]
        results: dict[_Key, RunResult] = {}

        def finished(number: int, result: RunResult) -> None:
            results[_key(runs[number])] = result

        self._judges.judge(tasks, finished)
        return results

    def report(self, following: Callable[[Run], Following]) -> Report:
        """On what was judged last. ``following``: what the watch itself knows of a run."""
        results = {
            number: self._followed(self._results[_key(run)], following(run))
            for number, run in enumerate(self._found.runs)
        }
        invocation = Invocation(jobs=1, isolated=self._config.isolation)
        reports = _published(self._found, results)
        return _report(self._config, self._found, results, reports, invocation)

    def _followed(self, result: RunResult, following: Following) -> RunResult:
        """With what only a watch can say: the worker has no clock."""
        view = RunView("", inspected=following)
        thresholds = self._config.thresholds.get(_STALL, {})
        cells = tuple(
            evaluate(REGISTRY[_STALL], view, thresholds) if cell.rule == _STALL else cell
            for cell in result.cells
        )
        return replace(result, cells=cells)

    def close(self) -> None:
        """End the workers."""
        self._dismiss()
        self._stack.close()

    def _dismiss(self) -> None:
        if self._judges is not None:
            self._judges.close()
            self._judges = None


def _key(run: Run) -> _Key:
    return run.root, run.id


def _names(run: Run) -> frozenset[tuple[str, str]]:
    return frozenset((one.path, one.reader) for one in run.artifacts)
