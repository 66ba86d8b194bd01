"""What is between a checkpoint and an earlier one: matched by name, equal by checksum, and where
they differ compared value by value."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from typing import BinaryIO

import msgspec

from trainproof.checkpoints.difference import Difference, difference
from trainproof.checkpoints.matching import match
from trainproof.model.checkpoint import Change, Checkpoint, Drift, RowDrift, Twin
from trainproof.model.data import RunView
from trainproof.model.report import (
    LISTED_TENSORS,
    CheckpointDrift,
    Number,
    TensorDifference,
)
from trainproof.model.tensors import Depth, Group, TensorInfo
from trainproof.model.text import printable, spell
from trainproof.model.wire import Settings, Task
from trainproof.stores import Store, StoreError

from .beacon import Phase
from .tokens import row_drift
from .work import Progress, store_of

BUDGET = 1 << 30
"""Bytes of each of the two checkpoints that are compared value by value, at most."""
_LEAST = 1 << 20
_MOST = 64 << 20
"""Of each tensor: between these, as many as all of them leave it."""
_NAME_LENGTH = 300
_VALUED = frozenset({Group.MODEL, Group.AVERAGE})
"""Of optimizer states it is enough to know that they changed."""


def drift_of(
    task: Task, saved: Checkpoint, reference: RunView, settings: Settings, progress: Progress
) -> Drift:
    """The checkpoint of a task against that of its only baseline."""
    (run,) = task.baselines
    before = reference.checkpoint or Checkpoint(())
    found = match(saved.tensors, before.tensors)
    numbers = {artifact.path: number for number, artifact in enumerate(run.artifacts)}
    with ExitStack() as stack:
        here = _Files(store_of(task.run.root, settings), stack)
        there = _Files(store_of(run.root, settings), stack)
        deep = settings.depth_of(task) is Depth.TENSORS
        twins: list[Twin] = []
        budget = _share(found.pairs)
        for one, other in found.pairs:
            progress.at(Phase.BASELINE, numbers.get(other.artifact, 0))
            twins.append(_twin(one, other, (here, there, budget) if deep else None))
        rows = tuple(_row_drifts(saved, twins, here, there))
    progress.at(Phase.ASSEMBLING)
    return Drift(
        reference.id,
        before,
        tuple(twins),
        found.added,
        found.gone,
        found.prefix,
        found.prefix_before,
        _distance(saved.step, before.step),
        rows,
    )


def _row_drifts(
    saved: Checkpoint, twins: Sequence[Twin], here: _Files, there: _Files
) -> Iterator[RowDrift]:
    moved = {id(twin.tensor): twin for twin in twins if twin.change is Change.MOVED}
    for rows in saved.rows:
        twin = moved.get(id(rows.tensor))
        if twin is not None:
            with suppress(StoreError):
                yield from row_drift(rows, twin, here.open, there.open)


def _distance(step: int | None, before: int | None) -> int | None:
    return None if step is None or before is None else step - before


class _Files(msgspec.Struct):
    """The open files of one checkpoint; the last one asked for stays open."""

    store: Store
    stack: ExitStack
    _held: dict[str, BinaryIO] = msgspec.field(default_factory=dict)

    def open(self, path: str) -> BinaryIO:
        """Raises StoreError."""
        if path not in self._held:
            for stream in self._held.values():
                stream.close()
            self._held = {path: self.stack.enter_context(closing(self.store.open(path)))}
        return self._held[path]


_Access = tuple[_Files, _Files, int]


def _twin(one: TensorInfo, other: TensorInfo, access: _Access | None) -> Twin:
    """``access``: where values may be compared, and how many bytes of each tensor."""
    if one.shape != other.shape:
        return Twin(one, other, Change.RESHAPED)
    if one.dtype != other.dtype:
        return Twin(one, other, Change.RETYPED)
    equal = _equal(one, other)
    if equal:
        return Twin(one, other, Change.SAME, *_all_equal(one))
    if access is None or (equal is not None and one.group not in _VALUED):
        return Twin(one, other, Change.UNKNOWN if equal is None else Change.MOVED)
    found = _difference(one, other, access)
    return Twin(
        one,
        other,
        _change(equal, found, one),
        found.compared,
        found.identical,
        found.norm,
        found.norm_before,
        found.distance,
        found.unread,
    )


def _equal(one: TensorInfo, other: TensorInfo) -> bool | None:
    """By checksum; or at least unequal, by what was measured."""
    if one.crc is not None and other.crc is not None:
        return one.crc == other.crc and one.nbytes == other.nbytes
    if one.stats is not None and other.stats is not None and one.stats != other.stats:
        return False
    return None


def _all_equal(one: TensorInfo) -> tuple[int, int]:
    elements = math.prod(one.shape or ())
    return elements, elements


def _difference(one: TensorInfo, other: TensorInfo, access: _Access) -> Difference:
    here, there, budget = access
    try:
        return difference(here.open, one, there.open, other, budget)
    except StoreError as error:
        return Difference(unread=error.detail)


def _change(equal: bool | None, found: Difference, one: TensorInfo) -> Change:
    """A part without a difference says nothing about the rest."""
    if equal is False or found.identical < found.compared:
        return Change.MOVED
    whole = 0 < found.compared == math.prod(one.shape or ())
    return Change.SAME if whole else Change.UNKNOWN


def _share(pairs: Sequence[tuple[TensorInfo, TensorInfo]]) -> int:
    """Bytes of each tensor that are compared: small ones leave to large ones what they need not."""
    sizes = sorted(
        one.nbytes for one, other in pairs if one.group in _VALUED and not _equal(one, other)
    )
    left = BUDGET
    for number, size in enumerate(sizes):
        each = left // (len(sizes) - number)
        if size > each:
            return max(_LEAST, min(_MOST, each))
        left -= size
    return _MOST


# --- how far the training had come ------------------------------------------------------------

_COUNTS = ("global_step", "global_steps", "iteration", "iter", "step", "num_updates")
_NUMBERED = re.compile(
    r"(?:checkpoint|ckpt|global_step|iter|iteration|step)[-_=]?0*(\d{1,15})(?!\d)"
)


def step_of(id: str, saved: Checkpoint) -> int | None:
    """What a file counts; else the number in the name; else what the optimizer counts."""
    said = {
        scalar.name: scalar.value
        for file in saved.files
        for scalar in file.facts.scalars
        if scalar.name in _COUNTS and type(scalar.value) is int and scalar.value >= 0
    }
    for name in _COUNTS:
        if name in said:
            return int(said[name])
    numbers = _NUMBERED.findall(id)
    if numbers:
        return int(numbers[-1])
    clocks = [
        int(step)
        for file in saved.files
        for optimizer in file.facts.optimizers
        for step in optimizer.steps
        if 0 <= step < 2**53
    ]
    return max(clocks, default=None)


# --- for the report -----------------------------------------------------------------------------


def drift_summary(drift: Drift, saved: Checkpoint) -> CheckpointDrift:
    """Tensors that changed most come first."""
    rows = [*_only(drift.added, "added"), *_only(drift.gone, "gone")]
    rows += map(_row, sorted(drift.twins, key=_prominence))
    counts = Counter(row.change for row in rows)
    return CheckpointDrift(
        reference=printable(drift.reference),
        step=saved.step,
        step_before=drift.before.step,
        changes=dict(sorted(counts.items())),
        tensors=tuple(rows[:LISTED_TENSORS]),
        prefix=printable(drift.prefix[:_NAME_LENGTH]),
        prefix_before=printable(drift.prefix_before[:_NAME_LENGTH]),
    )


_PROMINENCE = (Change.RESHAPED, Change.RETYPED, Change.MOVED, Change.UNKNOWN, Change.SAME)


def _prominence(twin: Twin) -> tuple[int, bool, float]:
    """By the kind of change; weights before the rest; by the relative change."""
    known = twin.norm_before > 0 and math.isfinite(twin.distance)
    relative = twin.distance / twin.norm_before if known else 0.0
    return _PROMINENCE.index(twin.change), twin.tensor.group is not Group.MODEL, -relative


def _only(tensors: Iterable[TensorInfo], change: str) -> Iterator[TensorDifference]:
    for one in tensors:
        shape, dtype = _shape(one), printable(one.dtype[:_NAME_LENGTH])
        added = change == "added"
        yield TensorDifference(
            name=printable(one.name[:_NAME_LENGTH]),
            path=printable(one.artifact),
            group=str(one.group),
            change=change,
            dtype=dtype if added else None,
            dtype_before=None if added else dtype,
            shape=shape if added else None,
            shape_before=None if added else shape,
        )


def _row(twin: Twin) -> TensorDifference:
    one, before = twin.tensor, twin.before
    return TensorDifference(
        name=printable(one.name[:_NAME_LENGTH]),
        path=printable(one.artifact),
        group=str(one.group),
        change=str(twin.change),
        dtype=printable(one.dtype[:_NAME_LENGTH]),
        dtype_before=printable(before.dtype[:_NAME_LENGTH]),
        shape=_shape(one),
        shape_before=_shape(before),
        compared=_bounded(twin.compared),
        identical=_bounded(twin.identical),
        norm=_number(twin.norm),
        norm_before=_number(twin.norm_before),
        distance=_number(twin.distance),
        unread=printable(twin.unread),
    )


def _shape(one: TensorInfo) -> tuple[int, ...] | None:
    return None if one.shape is None else tuple(map(_bounded, one.shape))


def _bounded(number: int) -> int:
    return min(number, 2**63 - 1)


def _number(value: float) -> Number | None:
    return None if math.isnan(value) else spell(value)
