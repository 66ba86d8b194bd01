"""Judge one run: read its artifacts, assemble the view, apply the rules. Shared by the worker
process and by the in-process twin, so that both do exactly the same."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO, Protocol, cast

import msgspec
import numpy as np
from msgspec.structs import replace

from trainproof.assembly import Reading, assemble, strangers
from trainproof.model.artifact import Artifact, Kind, Run, Unjudged
from trainproof.model.data import (
    Attempt,
    Column,
    Facts,
    Fault,
    FaultCode,
    Floats,
    Item,
    NotJudgeable,
    Parts,
    Role,
    RunView,
    Series,
)
from trainproof.model.outcome import Cell
from trainproof.model.progress import Amount
from trainproof.model.report import ArtifactEntry, Comparison, Segment, SeriesSummary
from trainproof.model.rule import SubjectKind
from trainproof.model.tensors import Depth
from trainproof.model.text import curve, printable, spell
from trainproof.model.wire import RunResult, Settings, Task
from trainproof.readers import reader
from trainproof.readers.interface import Options
from trainproof.rules import REGISTRY
from trainproof.rules.pairs import Pair, differences, pairs
from trainproof.rules.statistics import greatest_of, least_of
from trainproof.stores import Store, open_store
from trainproof.stores.compressed import decompressed, place_of, trouble_of
from trainproof.stores.interface import StoreError
from trainproof.stores.regular import Loaded

from .beacon import Phase
from .cells import not_checked
from .evaluate import cell_of, silent

_ERROR_LENGTH = 500
INSPECTED = frozenset(
    {SubjectKind.DATASET, SubjectKind.TOKENIZER, SubjectKind.SPEECH, SubjectKind.ENVIRONMENT}
)
"""Kinds of subjects that are looked at before a run."""
_COMPARED = 5
"""Baselines beside which a loss is shown."""


class Progress(Protocol):
    def at(self, phase: Phase, item: int = 0, amount: Amount | None = None) -> None:
        """Said before each step that hostile input could make the last one, with what was read of
        the task where that is known."""
        ...


Through = Callable[[Artifact, BinaryIO, Options], Iterator[Item]]
"""How the stream of an artifact becomes items."""


def at_once(artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
    """The artifact's reader, from the start of the stream."""
    return reader(artifact.reader).read(artifact, stream, options)


Keep = Callable[[Run, Depth, RunView], None]
"""Given what was read of a checkpoint, which the next one may be compared with."""


def judge(
    task: Task,
    settings: Settings,
    progress: Progress,
    baselines: tuple[RunView, ...] = (),
    through: Through = at_once,
    *,
    keep: Keep | None = None,
    stores: Stores | None = None,
) -> RunResult:
    """Everything about one run, compared with ``baselines``. Raises nothing about the data."""
    if task.run.subject is SubjectKind.CHECKPOINT:
        from .checkpoints import judge_checkpoint  # noqa: PLC0415 - audits of logs do without

        return judge_checkpoint(task, settings, progress, baselines, keep)
    if task.run.subject in INSPECTED:
        from .inspections import judge_inspected  # noqa: PLC0415 - and these

        return judge_inspected(task, settings, progress)
    readings = list(_readings(task, settings, progress, through, stores or Stores()))
    progress.at(Phase.ASSEMBLING)
    tags = {tag: role for role, tag in settings.tags}
    view = assemble(task.run.id, readings, task.known_faults, tags)
    view = replace(view, baselines=baselines, kept=task.kept)
    cells = cells_of(task, settings, view, progress)
    progress.at(Phase.ASSEMBLING)
    return RunResult(
        cells=cells,
        artifacts=tuple(_entry(reading) for reading in readings),
        unjudged=tuple(_unjudged(readings)),
        segments=tuple(segment(attempt) for attempt in view.attempts),
        rewinds=tuple(one for one in view.rewinds if one.back),
        series=tuple(summary(attempt, one) for attempt in view.attempts for one in attempt.series),
        comparisons=tuple(_comparisons(view)),
        baseline_faults=tuple(fault for one in baselines for fault in one.faults),
        unknown=tuple(sorted({s.tag for s in view.series if s.role is Role.UNKNOWN})),
        facts=view.facts,
        faults=view.faults,
        parts={one.artifact.path: one.parts for one in readings if one.parts},
        strangers=strangers(task.run.id, readings),
    )


# --- reading --------------------------------------------------------------------------------


class Stores:
    """The stores that a process reads the runs of an audit from, each opened once: but for roots
    that are watched, which may come to lead elsewhere."""

    def __init__(self) -> None:
        self._opened: dict[str, Store] = {}

    def of(self, root: str, settings: Settings) -> Store:
        """Raises StoreError."""
        if settings.live:
            return store_of(root, settings)
        store = self._opened.get(root)
        if store is None:
            store = self._opened[root] = store_of(root, settings)
        return store


def _readings(
    task: Task,
    settings: Settings,
    progress: Progress,
    through: Through,
    stores: Stores,
) -> Iterator[Reading]:
    """Artifacts that killed a worker before are not opened again."""
    broken = {fault.artifact for fault in task.known_faults}
    total, before = sum(artifact.size for artifact in task.run.artifacts), 0
    for number, artifact in enumerate(task.run.artifacts):
        if artifact.path in broken:
            yield Reading(artifact)
        else:
            at = partial(progress.at, Phase.READING, number)
            at(Amount(before, total))
            renewed = _beating(through, _telling(at, before, total))
            yield read(artifact, settings, stores, renewed)
        before += artifact.size


def _telling(at: Callable[[Amount], None], before: int, total: int) -> Callable[[int], None]:
    """Given the place in a file, tells that in all files, of which ``before`` bytes lie before."""

    def beat(place: int) -> None:
        at(Amount(min(before + place, total), total))

    return beat


def _beating(through: Through, beat: Callable[[int], None]) -> Through:
    """The same, with a deadline that is renewed whenever the reader takes more of the stream, if it
    was not read at once."""

    def items(artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        if not isinstance(stream, Loaded):
            stream = cast(BinaryIO, _Beating(stream, beat))
        return through(artifact, stream, options)

    return items


class _Beating:
    """A stream that tells when it is read from, and how much of the file was read by then."""

    def __init__(self, stream: BinaryIO, beat: Callable[[int], None]) -> None:
        self._stream, self._beat = stream, beat

    def read(self, size: int = -1) -> bytes:
        self._beat(place_of(self._stream))
        return self._stream.read(size)

    def readinto(self, buffer: memoryview) -> int | None:
        self._beat(place_of(self._stream))
        return cast(io.BufferedIOBase, self._stream).readinto(buffer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Collected(msgspec.Struct):
    """What a reader has said so far of one artifact."""

    columns: list[Column] = msgspec.field(default_factory=list)
    facts: Facts = msgspec.field(default_factory=Facts)
    faults: list[Fault] = msgspec.field(default_factory=list)
    empty: NotJudgeable | None = None
    parts: tuple[str, ...] = ()

    def take(self, item: Item) -> None:
        match item:
            case Column():
                self.columns.append(item)
            case Facts():
                self.facts = item.over(self.facts)
            case Fault():
                self.faults.append(item)
            case NotJudgeable():
                self.empty = item
            case Parts():
                self.parts = item.names

    def reading(self, artifact: Artifact) -> Reading:
        faults = self.faults
        if self.empty is not None and not self.columns:
            # odd lines of what is no log are nobody's trouble
            faults = [fault for fault in faults if fault.fatal]
        columns = tuple(self.columns)
        return Reading(artifact, columns, self.facts, tuple(faults), self.empty, self.parts)


def store_of(root: str, settings: Settings) -> Store:
    """The store of a root of the audit. Raises StoreError."""
    return open_store(root, settings.follow_symlinks, spool=settings.spools.get(root))


def read(
    artifact: Artifact, settings: Settings, stores: Stores, through: Through = at_once
) -> Reading:
    """One artifact through its reader; whatever goes wrong is a fault of that file."""
    found = _Collected()
    try:
        store = stores.of(artifact.root, settings)
        opened = decompressed(store.open(artifact.path), artifact.path)
        with contextlib.closing(opened) as stream:
            for item in through(artifact, stream, Options(settings.tags)):
                found.take(item)
            found.faults.extend(_of_compression(stream, artifact.path))
    except StoreError as error:
        found.take(Fault(FaultCode.IO, artifact.path, error.detail, fatal=True))
    except MemoryError:
        found.take(Fault(FaultCode.MEMORY, artifact.path, "memory limit", fatal=True))
    except Exception as error:  # noqa: BLE001 - a reader's bug is that file's fault
        detail = f"{type(error).__name__}: {error}"[:_ERROR_LENGTH]
        found.take(Fault(FaultCode.READER_FAILED, artifact.path, detail, fatal=True))
    return found.reading(artifact)


def _of_compression(stream: BinaryIO, path: str) -> Iterator[Fault]:
    trouble = trouble_of(stream)
    if trouble is not None:
        yield Fault(trouble.code, path, trouble.detail, trouble.fatal)


def _unjudged(readings: list[Reading]) -> Iterator[Unjudged]:
    for reading in readings:
        if reading.not_judgeable is not None and not reading.columns:
            artifact, why = reading.artifact, reading.not_judgeable
            yield Unjudged(artifact.root, artifact.path, why.content, why.detail)


def _entry(reading: Reading) -> ArtifactEntry:
    artifact = reading.artifact
    if reading.columns:
        status = "cut" if any(f.fatal for f in reading.faults) else "read"
    elif reading.not_judgeable is not None:
        status = str(reading.not_judgeable.content)
    else:
        settings = artifact.kind is Kind.CONFIG and not reading.faults
        status = "facts" if settings or reading.facts != Facts() else "unread"
    return ArtifactEntry(artifact.path, artifact.reader, str(artifact.kind), artifact.size, status)


# --- checking -------------------------------------------------------------------------------


def cells_of(task: Task, settings: Settings, view: RunView, progress: Progress) -> tuple[Cell, ...]:
    """One cell per selected rule, in their order; rules that killed a worker are not re-run."""
    lost = {id: not_checked(id, skip, {"detail": detail}) for id, skip, detail in task.lost_rules}
    cells: list[Cell] = []
    with silent():
        for number, id in enumerate(settings.rules_of(task)):
            if id in lost:
                cells.append(lost[id])
                continue
            progress.at(Phase.CHECKING, number)
            cells.append(cell_of(REGISTRY[id], view, settings.thresholds.get(id, {})))
    return tuple(cells)


# --- summaries ------------------------------------------------------------------------------


def segment(attempt: Attempt) -> Segment:
    firsts = [int(s.steps[0]) for s in attempt.series]
    lasts = [int(s.steps[-1]) for s in attempt.series]
    return Segment(
        attempt.index, min(firsts, default=None), max(lasts, default=None), attempt.superseded
    )


def summary(attempt: Attempt, series: Series) -> SeriesSummary:
    values, identity = series.values, series.identity
    low, high, finite = _extent(values)
    return SeriesSummary(
        name=printable(series.tag),
        artifact=series.artifact,
        role=str(identity.role),
        split=str(identity.split),
        scope=str(identity.scope),
        component=identity.component,
        direction=str(identity.direction),
        segment=attempt.index,
        points=len(series),
        nonfinite=len(values) - finite,
        first=spell(float(values[0])),
        last=spell(float(values[-1])),
        min=spell(low),
        max=spell(high),
        first_step=int(series.steps[0]),
        last_step=int(series.steps[-1]),
        curve=curve(values),
        also_in=series.also_in,
    )


def _extent(values: Floats) -> tuple[float, float, int]:
    """Least and greatest of the finite values, NaN where there are none, and their number."""
    low, high = least_of(values), greatest_of(values)
    if math.isfinite(low) and math.isfinite(high):
        return low, high, len(values)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return math.nan, math.nan, 0
    return least_of(finite), greatest_of(finite), len(finite)


def _comparisons(view: RunView) -> Iterator[Comparison]:
    """Of each loss, with the baselines that speak most for the run."""
    for attempt in view.attempts:
        for series, found in pairs(attempt, view.baselines):
            nearest = sorted(found, key=lambda pair: pair.end - pair.base_end)
            for pair in nearest[:_COMPARED]:
                yield _comparison(attempt, series, pair, differences(view.facts, pair.facts))


def _comparison(
    attempt: Attempt, series: Series, pair: Pair, differing: tuple[str, ...]
) -> Comparison:
    both = curve(np.concatenate((pair.levels, pair.base)), 2 * pair.blocks)
    return Comparison(
        baseline=printable(pair.baseline),
        series=printable(series.tag),
        baseline_series=printable(pair.series),
        split=str(series.split),
        segment=attempt.index,
        first_step=int(series.steps[pair.begin]),
        last_step=int(series.steps[pair.stop - 1]),
        points=pair.stop - pair.begin,
        baseline_points=pair.points,
        start=spell(pair.start),
        floor=spell(pair.floor),
        end=spell(pair.end),
        baseline_start=spell(pair.base_start),
        baseline_floor=spell(pair.base_floor),
        baseline_end=spell(pair.base_end),
        curve=both[: pair.blocks],
        baseline_curve=both[pair.blocks :],
        differences=tuple(map(printable, differing)),
    )
