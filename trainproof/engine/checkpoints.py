"""Judge one checkpoint: read its files, see what sets they form and what is between it and an
earlier one, apply the rules."""

from __future__ import annotations

import contextlib
import errno
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from trainproof.checkpointing import is_promised
from trainproof.checkpoints import Contents, assemble, parts_among
from trainproof.checkpoints.distributed import read_distributed
from trainproof.checkpoints.draft import Item
from trainproof.checkpoints.reader import read_checkpoint
from trainproof.checkpoints.source import Beat
from trainproof.model.artifact import Artifact, Run, Unjudged
from trainproof.model.checkpoint import Checkpoint, SavedFile
from trainproof.model.data import Fault, FaultCode, RunView
from trainproof.model.outcome import Skip
from trainproof.model.progress import Amount
from trainproof.model.report import (
    LISTED_TENSORS,
    ArtifactEntry,
    CheckpointSummary,
    Number,
    TensorSummary,
)
from trainproof.model.tensors import (
    CheckpointDirectory,
    CheckpointFacts,
    Depth,
    Group,
    TensorInfo,
    TensorStats,
)
from trainproof.model.text import printable, spell
from trainproof.model.wire import RunResult, Settings, Task
from trainproof.stores import StoreError

from .beacon import Phase
from .cells import not_checked
from .keeping import kept_of
from .sifting import content_of
from .succession import drift_of, drift_summary, step_of
from .tokens import token_rows
from .work import Keep, Progress, cells_of, store_of

_ERROR_LENGTH = 500
_NAME_LENGTH = 300
_TEXT_BYTES = 64 << 20
_MAX_INT = 2**63 - 1
METADATA = ".metadata"


class _Reading(msgspec.Struct, frozen=True):
    """``file`` is None where the reader came to no end, or the file is a part of another one."""

    artifact: Artifact
    file: SavedFile | None = None
    faults: tuple[Fault, ...] = ()
    part: bool = False

    @property
    def lost(self) -> bool:
        return self.file is None and not self.part


At = Callable[[int, Amount], None]
"""Told the number of the artifact that is going to be read, and what was read of all by then."""


def judge_checkpoint(
    task: Task,
    settings: Settings,
    progress: Progress,
    references: Sequence[RunView] = (),
    keep: Keep | None = None,
) -> RunResult:
    """Everything about one checkpoint, compared with at most one other. Raises nothing about the
    data. ``keep`` is given what was read of it."""
    depth = settings.depth_of(task)
    at = partial(progress.at, Phase.READING)
    if settings.sift and (aside := _set_aside(task, settings, at)) is not None:
        return aside
    readings = list(_readings(task.run, task.known_faults, settings, depth, at))
    progress.at(Phase.ASSEMBLING)
    view = _view(task.run, task.known_faults, settings, depth, readings)
    saved = view.checkpoint
    assert saved is not None
    if keep is not None and not task.known_faults:
        keep(task.run, depth, view)
    if task.depth is not None:
        saved = replace(saved, limited=True)
        view = replace(view, checkpoint=saved)
    if references:
        view = replace(view, drift=drift_of(task, saved, references[0], settings, progress))
    judged = cells_of(task, settings, view, progress)
    progress.at(Phase.ASSEMBLING)
    return RunResult(
        cells=judged,
        artifacts=tuple(map(_entry, readings)),
        baseline_faults=tuple(fault for one in references for fault in one.faults),
        checkpoints=tuple(_summary(file, saved.limited) for file in saved.files),
        tensors=tuple(_listed(list(saved.tensors))),
        drift=None if view.drift is None else drift_summary(view.drift, saved),
        kept=kept_of(task.run, saved, judged),
        faults=view.faults,
    )


def _set_aside(task: Task, settings: Settings, at: At) -> RunResult | None:
    """The result where the files are no checkpoint, which their names leave open: of large data
    no more is read than that."""
    run = task.run
    if task.known_faults or is_promised(run):
        return None
    readings = list(_readings(run, (), settings, Depth.STRUCTURE, lambda one, _: at(one, Amount())))
    files = [one.file for one in readings if one.file is not None]
    content = content_of(files)
    if content is None or any(one.lost for one in readings):
        return None
    return RunResult(
        cells=tuple(not_checked(id, Skip.NEED_ABSENT) for id in settings.rules_of(task)),
        artifacts=tuple(map(_entry, readings)),
        unjudged=tuple(Unjudged(one.root, one.path, content) for one in run.artifacts),
    )


def view_of(
    run: Run, known_faults: tuple[Fault, ...], settings: Settings, depth: Depth, at: At
) -> RunView:
    """What the rules see of a checkpoint."""
    readings = list(_readings(run, known_faults, settings, depth, at))
    return _view(run, known_faults, settings, depth, readings)


def _view(
    run: Run,
    known_faults: tuple[Fault, ...],
    settings: Settings,
    depth: Depth,
    readings: Sequence[_Reading],
) -> RunView:
    faults = (*known_faults, *(fault for one in readings for fault in one.faults))
    return RunView(run.id, faults=faults, checkpoint=_checkpoint(run, settings, depth, readings))


# --- reading ------------------------------------------------------------------------------------


def _readings(
    run: Run, known_faults: Iterable[Fault], settings: Settings, depth: Depth, at: At
) -> Iterator[_Reading]:
    """Files that killed a worker before are not opened again."""
    broken = {fault.artifact for fault in known_faults}
    parts = parts_among(artifact.path for artifact in run.artifacts)
    gauge, passed = _Gauge(at, sum(artifact.size for artifact in run.artifacts)), 0
    for number, artifact in enumerate(run.artifacts):
        if artifact.path in broken:
            yield _Reading(artifact)
        elif artifact.path in parts:
            yield _Reading(artifact, part=True)
        else:
            gauge.file(number, passed)
            yield _read(artifact, settings, depth, gauge.beat)
        passed += artifact.size


class _Gauge:
    """Adds up what is read. Readers leave out parts of some files and read others twice: what is
    told is between the files that are done with and all of them."""

    def __init__(self, at: At, total: int) -> None:
        self._at, self._total = at, total
        self._number = self._read = 0

    def file(self, number: int, passed: int) -> None:
        """``passed``: bytes of the files before."""
        self._number, self._read = number, max(self._read, passed)
        self.beat(0)

    def beat(self, count: int) -> None:
        self._read = min(self._read + count, self._total)
        self._at(self._number, Amount(self._read, self._total))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _read(artifact: Artifact, settings: Settings, depth: Depth, beat: Beat) -> _Reading:
    """One file; whatever goes wrong is a fault of that file. ``beat`` renews the deadline."""
    tensors: list[TensorInfo] = []
    faults: list[Fault] = []
    facts: CheckpointFacts | None = None
    try:
        with contextlib.ExitStack() as stack:
            for item in _items(artifact, settings, depth, stack, beat):
                match item:
                    case TensorInfo():
                        tensors.append(item)
                    case CheckpointFacts():
                        facts = item
                    case Fault():
                        faults.append(item)
    except StoreError as error:
        faults.append(Fault(FaultCode.IO, artifact.path, error.detail, fatal=True))
    except MemoryError:
        faults.append(Fault(FaultCode.MEMORY, artifact.path, "memory limit", fatal=True))
    except Exception as error:  # noqa: BLE001 - a reader's bug is that file's fault
        detail = f"{type(error).__name__}: {error}"[:_ERROR_LENGTH]
        faults.append(Fault(FaultCode.READER_FAILED, artifact.path, detail, fatal=True))
    file = None if facts is None else SavedFile(facts, tuple(tensors))
    return _Reading(artifact, file, tuple(faults))


def _items(
    artifact: Artifact,
    settings: Settings,
    depth: Depth,
    stack: contextlib.ExitStack,
    beat: Beat,
) -> Iterator[Item]:
    store, path = store_of(artifact.root, settings), artifact.path
    name = _name(path)
    directory = path.removesuffix(name)

    def open_file(name: str) -> BinaryIO:
        try:
            return store.open(directory + name)
        except StoreError as error:
            raise OSError(errno.EIO, error.detail) from error

    if name == METADATA:
        return read_distributed(open_file, path, depth, beat=beat)
    stream = stack.enter_context(contextlib.closing(store.open(path)))
    return read_checkpoint(stream, path, depth, beside=open_file, beat=beat)


def _checkpoint(
    run: Run, settings: Settings, depth: Depth, readings: Sequence[_Reading]
) -> Checkpoint:
    files = tuple(one.file for one in readings if one.file is not None)
    lost = tuple(one.artifact.path for one in readings if one.lost)
    saved = Checkpoint(files, depth, tuple(_sets(run, settings, files)), lost)
    rows = token_rows(run, saved, store_of(run.root, settings))
    step = step_of(f"{run.root.rpartition('/')[2]}/{run.id}", saved)
    return replace(saved, step=step, rows=tuple(rows))


def _sets(
    run: Run, settings: Settings, files: Sequence[SavedFile]
) -> Iterator[CheckpointDirectory]:
    """Those of the checkpoint's own directory; a file that is judged alone is in none."""
    own_paths = [artifact.path for artifact in run.artifacts]
    if run.id in own_paths:
        return
    paths = (*own_paths, *run.beside)
    contents = Contents({file.facts.artifact: file.tensors for file in files})
    store = store_of(run.root, settings)

    def text(path: str) -> bytes | None:
        try:
            with contextlib.closing(store.open(path)) as stream:
                data = stream.read(_TEXT_BYTES + 1)
        except (StoreError, OSError):
            return None
        return data if len(data) <= _TEXT_BYTES else None

    own = "" if run.id == "." else run.id
    yield from (one for one in assemble(paths, text, contents) if one.path == own)


# --- summaries ----------------------------------------------------------------------------------


def _entry(reading: _Reading) -> ArtifactEntry:
    artifact = reading.artifact
    status = "part" if reading.part else "unread"
    if reading.file is not None:
        status = str(reading.file.facts.extent)
    return ArtifactEntry(artifact.path, artifact.reader, str(artifact.kind), artifact.size, status)


def _summary(file: SavedFile, limited: bool) -> CheckpointSummary:
    facts = file.facts
    reason = f"{facts.reason}: it is larger than the limit" if limited else facts.reason
    stats = [one.stats for one in file.tensors if one.stats is not None]
    return CheckpointSummary(
        path=printable(facts.artifact),
        layout=str(facts.layout),
        size=facts.size,
        extent=str(facts.extent),
        reason=printable(reason[:_ERROR_LENGTH]),
        integrity=str(facts.integrity),
        safety=None if facts.safety is None else str(facts.safety),
        weights_only=facts.weights_only,
        tensors=len(file.tensors),
        parameters=_parameters(file),
        measured=_bounded(sum(one.elements for one in stats)),
        nonfinite=_bounded(sum(one.nonfinite for one in stats)),
        zeros=_bounded(sum(one.zeros for one in stats)),
    )


def _parameters(file: SavedFile) -> int:
    """Elements of the model's tensors; tied ones, which are the same view, count once."""
    count, seen = 0, set[tuple[str, tuple[int, ...] | None, int | None]]()
    for one in file.tensors:
        if one.group is not Group.MODEL:
            continue
        view = None if one.storage is None else (one.storage, one.shape, one.crc)
        if view is None or view not in seen:
            count += _elements(one)
        if view is not None:
            seen.add(view)
    return _bounded(count)


def _elements(one: TensorInfo) -> int:
    if one.stats is not None:
        return one.stats.elements
    return 0 if one.shape is None else math.prod(one.shape)


def _bounded(number: int) -> int:
    """As far as 64 bits go: a tensor without data may claim any shape."""
    return min(number, _MAX_INT)


def _listed(tensors: Sequence[TensorInfo]) -> Iterator[TensorSummary]:
    """In the order of the files; where there are too many, those that are not finite first."""
    if len(tensors) > LISTED_TENSORS:
        tensors = sorted(tensors, key=lambda one: not (one.stats and one.stats.nonfinite))
    return map(_tensor, tensors[:LISTED_TENSORS])


def _tensor(one: TensorInfo) -> TensorSummary:
    stats = one.stats or TensorStats(_elements(one), 0, 0, 0, 0, None, None, None)
    shape = one.shape
    return TensorSummary(
        name=printable(one.name[:_NAME_LENGTH]),
        path=printable(one.artifact),
        group=str(one.group),
        dtype=printable(one.dtype[:_NAME_LENGTH]),
        shape=None if shape is None else tuple(map(_bounded, shape)),
        elements=_bounded(stats.elements),
        nan=_bounded(stats.nan),
        inf=_bounded(stats.inf),
        zeros=_bounded(stats.zeros),
        min=_number(stats.min),
        max=_number(stats.max),
        absmax=_number(stats.absmax),
        unread="" if one.stats else printable(one.unread[:_ERROR_LENGTH]) or "not asked for",
    )


def _number(value: int | float | None) -> Number | None:
    return None if value is None else spell(value) if isinstance(value, float) else value
