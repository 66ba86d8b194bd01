"""What passes between the supervisor and its workers: MessagePack, validated on the way in.

Never pickle: a worker has parsed hostile bytes, and what it says is checked against these types. Of
a report, which comes as the JSON that it becomes, the head is (see ``engine.reporting``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from .artifact import Run, Unjudged
from .checkpoint import Kept
from .data import Facts, Fault, Rewind
from .inspection import Requests
from .outcome import Cell, Skip, Value
from .report import (
    ArtifactEntry,
    CheckpointDrift,
    CheckpointSummary,
    Comparison,
    EncodedSubject,
    KeptCheckpoint,
    Segment,
    SeriesSummary,
    TensorSummary,
)
from .rule import SubjectKind
from .tensors import Depth

MAX_FRAME = 64 * 1024 * 1024
LENGTH = 4
"""Bytes of the big-endian length before each frame."""


class RunResult(msgspec.Struct, frozen=True):
    """Everything a worker found out about one run. Holds no arrays.

    ``report``: its public report, in the place of all that is told there; None where it was not
    made, or where there is nothing to report on.
    ``parts`` and ``strangers`` say that it is several: paths of files that hold several runs, with
    their names; and paths of files that another training left behind.
    """

    cells: tuple[Cell, ...]
    artifacts: tuple[ArtifactEntry, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    segments: tuple[Segment, ...] = ()
    rewinds: tuple[Rewind, ...] = ()
    series: tuple[SeriesSummary, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    baseline_faults: tuple[Fault, ...] = ()
    checkpoints: tuple[CheckpointSummary, ...] = ()
    tensors: tuple[TensorSummary, ...] = ()
    drift: CheckpointDrift | None = None
    kept: Kept | None = None
    unknown: tuple[str, ...] = ()
    facts: Facts = msgspec.field(default_factory=Facts)
    measured: Mapping[str, Value] = msgspec.field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    report: EncodedSubject | None = None
    parts: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    strangers: tuple[str, ...] = ()


class Task(msgspec.Struct, frozen=True):
    """One run to judge, beside its ``baselines``, which are all of one root; for a checkpoint, the
    one that it is compared with.

    ``rules`` and ``depth``: where they are not those of the settings. ``kept``: the checkpoints of
    the run, as they were judged before it, ``listed`` as its report lists them. ``known_faults``,
    ``baseline_faults`` and ``lost_rules``: what killed a worker before, and is not tried again.
    """

    number: int
    run: Run
    baselines: tuple[Run, ...] = ()
    rules: tuple[str, ...] | None = None
    depth: Depth | None = None
    kept: tuple[Kept, ...] = ()
    listed: tuple[KeptCheckpoint, ...] = ()
    known_faults: tuple[Fault, ...] = ()
    baseline_faults: tuple[Fault, ...] = ()
    lost_rules: tuple[tuple[str, Skip, str], ...] = ()


class Settings(msgspec.Struct, frozen=True):
    """What every task of an audit has in common. ``kinds``: of the rules that its reports have a
    cell of; without any, workers make no reports. ``baseline_rules``: those that a baseline must
    not fail. ``live``: runs are judged again and again while their files grow. ``sift``: what
    was taken for a checkpoint by its name and turns out to be none is not judged."""

    rules: tuple[str, ...]
    kinds: frozenset[SubjectKind] = frozenset()
    baseline_rules: tuple[str, ...] = ()
    thresholds: Mapping[str, Mapping[str, Value]] = msgspec.field(default_factory=dict)
    tags: tuple[tuple[str, str], ...] = ()
    spools: Mapping[str, str] = msgspec.field(default_factory=dict)
    follow_symlinks: bool = False
    depth: Depth = Depth.TENSORS
    requests: Requests = msgspec.field(default_factory=Requests)
    plugins: tuple[str, ...] = ()
    memory_bytes: int = 0
    live: bool = False
    sift: bool = False

    def rules_of(self, task: Task) -> tuple[str, ...]:
        """The rules that the task's cells are of, in their order."""
        return self.rules if task.rules is None else task.rules

    def depth_of(self, task: Task) -> Depth:
        return task.depth or self.depth


class Begin(msgspec.Struct, frozen=True, tag=True):
    """Parent to worker, once."""

    settings: Settings


class Batch(msgspec.Struct, frozen=True, tag=True):
    """Parent to worker: tasks to do, in order."""

    tasks: tuple[Task, ...]


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Worker to parent: imports and limits are in place; deadlines start now."""

    memory_limited: bool


class Done(msgspec.Struct, frozen=True, tag=True):
    """Worker to parent: one task finished."""

    number: int
    result: RunResult


Order = Begin | Batch
Answer = Ready | Done


class FrameError(Exception):
    """What arrived is not a frame of the expected type."""


_encode = msgspec.msgpack.Encoder().encode
_order = msgspec.msgpack.Decoder(Order).decode
_answer = msgspec.msgpack.Decoder(Answer).decode


_SPELLED = b"\x91"
"""First byte of a frame that holds text MessagePack has no form for: an array of one element."""


def pack(message: Order | Answer) -> bytes:
    """A file may have a name that is not UTF-8: then all text of the frame is spelled out."""
    try:
        body = _encode(message)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(message, builtin_types=(bytes,))
        body = _encode([_each_text(plain, _spelled)])
    return len(body).to_bytes(LENGTH, "big") + body


def unpack_order(body: bytes) -> Order:
    """Raises FrameError."""
    try:
        return msgspec.convert(_plain(body), Order) if _is_spelled(body) else _order(body)
    except msgspec.MsgspecError as error:
        raise FrameError(str(error)) from None


def unpack_answer(body: bytes) -> Answer:
    """Raises FrameError."""
    try:
        return msgspec.convert(_plain(body), Answer) if _is_spelled(body) else _answer(body)
    except msgspec.MsgspecError as error:
        raise FrameError(str(error)) from None


def _is_spelled(body: bytes) -> bool:
    return body.startswith(_SPELLED)


def _plain(body: bytes) -> object:
    """Half surrogates, which stand for the bytes of such a name (PEP 383), are back. Raises
    FrameError."""
    try:
        return _each_text(msgspec.msgpack.decode(body)[0], _unspelled)
    except (UnicodeError, TypeError, RecursionError) as error:
        raise FrameError(f"{type(error).__name__} in text") from None


def _each_text(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_each_text(k, change): _each_text(v, change) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_each_text(one, change) for one in value]
    return value


def _spelled(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _unspelled(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "surrogatepass")
