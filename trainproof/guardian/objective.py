"""Count targets: numpy arrays, torch tensors and lists, without importing torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainproof import api
from trainproof.config import Config
from trainproof.model.artifact import Run
from trainproof.model.data import Ints, RunView
from trainproof.model.objective import TORCH_IGNORES, Alignment, Objective, Targets
from trainproof.model.report import Report
from trainproof.model.rule import SubjectKind

MAX_TARGETS = 1 << 26
"""Targets that are counted; what comes after them is left out."""
MAX_CLASSES = 1 << 24
NAMED = 10
"""Unseen classes that are named."""
MIN_POSITIONS = 32
"""Positions of a row at which inputs and labels must be comparable."""
AGREE = 0.95
"""Share of the compared positions of a row that make it speak for a hypothesis."""


def check_objective(
    num_classes: int,
    ignore_index: int | None = None,
    targets: Any = None,
    input_ids: Any = None,
    *,
    loss_shifts: bool | None = None,
    padding: int | None = None,
    complete: bool = False,
    config: Config | None = None,
) -> Report:
    """Judge whether targets, loss and output layer speak of the same classes.

    ``num_classes``: of the output layer. ``targets``: integers of any shape, or an iterable of
    batches of them. ``input_ids``: of the same shape, where the targets are the labels of a
    causal language model; ``loss_shifts``: whether its loss scores position i against label
    i + 1 (transformers' models do). ``padding``: a class that is left out on purpose.
    ``complete``: the targets are all of the training data, and not a sample.

    Raises ValueError for a number of classes below 1 or above 2**24, and for targets that are
    no whole numbers.
    """
    if not 1 <= num_classes <= MAX_CLASSES:
        raise ValueError(f"num_classes is {num_classes}, not between 1 and {MAX_CLASSES}")
    batches = [] if targets is None else list(islice(_bounded(batches_of(targets)), MAX_TARGETS))
    objective = Objective(
        num_classes,
        ignore_index,
        padding,
        complete,
        loss_shifts,
        None if targets is None else count(batches, num_classes, ignore_index, padding),
        None if input_ids is None else align(batches_of(input_ids), batches, ignore_index),
    )
    view = RunView("objective", inspected=objective)
    run = Run("objective", "", (), SubjectKind.OBJECTIVE)
    return api.judge(run, view, config or Config())


# --- arrays -----------------------------------------------------------------------------------


def batches_of(values: Any) -> Iterator[Ints]:
    """Each batch as int64 of one dimension or more. Raises ValueError for what is not whole."""
    if _is_array(values):
        yield _whole(values)
        return
    if isinstance(values, Sequence) and all(isinstance(one, int | np.integer) for one in values):
        yield _whole(np.asarray(values, np.int64))
        return
    for one in values:
        yield _whole(one if _is_array(one) else np.atleast_1d(np.asarray(one)))


def _is_array(values: Any) -> bool:
    return isinstance(values, np.ndarray) or hasattr(values, "detach")


def _whole(values: Any) -> Ints:
    """A tensor of torch answers to ``detach`` and ``cpu``; anything else is numpy's."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    array: NDArray[Any] = np.atleast_1d(values)
    if array.dtype.kind not in "iub":
        raise ValueError(f"targets are {array.dtype}, not whole numbers")
    return array.astype(np.int64)


def _bounded(batches: Iterable[Ints]) -> Iterator[Ints]:
    left = MAX_TARGETS
    for batch in batches:
        if batch.size > left:
            return
        left -= batch.size
        yield batch


# --- targets ----------------------------------------------------------------------------------


class _Counter(msgspec.Struct):
    counts: Ints
    total: int = 0
    masked: int = 0
    inside: int = 0
    outside: list[int] = msgspec.field(default_factory=list)
    torch_ignored: int = 0
    beyond: int = 0

    def add(self, batch: Ints, ignore_index: int | None) -> None:
        flat = batch.ravel()
        self.total += len(flat)
        if ignore_index is not None:
            ignored = batch == ignore_index
            self.masked += int(ignored.sum())
            self.inside += _inside(ignored)
            flat = batch[~ignored]
        valid = (flat >= 0) & (flat < len(self.counts))
        self.counts += np.bincount(flat[valid], minlength=len(self.counts))
        stray = flat[~valid]
        from_torch = int((stray == TORCH_IGNORES).sum()) if ignore_index is None else 0
        self.torch_ignored += from_torch
        self.beyond += len(stray)
        if len(stray) > from_torch and not self.outside:
            others = stray[stray != TORCH_IGNORES] if ignore_index is None else stray
            self.outside.append(int(others[0]))


def count(
    batches: Iterable[Ints], classes: int, ignore_index: int | None, padding: int | None = None
) -> Targets:
    """Counts of all batches."""
    counter = _Counter(np.zeros(classes, np.int64))
    for batch in batches:
        counter.add(batch, ignore_index)
    counts = counter.counts
    wanted = np.ones(classes, np.bool_)
    for left_out in (ignore_index, padding):
        if left_out is not None and 0 <= left_out < classes:
            wanted[left_out] = False
    unseen = np.flatnonzero((counts == 0) & wanted)
    seen = counts[counts > 0]
    return Targets(
        total=counter.total,
        classes=int(counts.sum()),
        seen=len(seen),
        rarest=int(seen.min(initial=np.iinfo(np.int64).max)) if len(seen) else 0,
        missing=len(unseen),
        unseen=tuple(unseen[:NAMED].tolist()),
        masked=counter.masked,
        inside=counter.inside,
        outside=counter.beyond,
        torch_ignored=counter.torch_ignored,
        first_outside=next(iter(counter.outside), None),
    )


def _inside(ignored: NDArray[np.bool_]) -> int:
    """Ignored targets where no padding stands: other targets of their row on both sides."""
    rows = ignored.reshape(-1, ignored.shape[-1])
    kept = ~rows
    before = np.logical_or.accumulate(kept, axis=1)
    after = np.logical_or.accumulate(kept[:, ::-1], axis=1)[:, ::-1]
    return int((rows & before & after).sum())


# --- labels beside inputs ---------------------------------------------------------------------


def align(inputs: Iterable[Ints], labels: Iterable[Ints], ignore_index: int | None) -> Alignment:
    """Compare labels with the inputs of the same positions. Raises ValueError where their shapes
    differ."""
    ignored = TORCH_IGNORES if ignore_index is None else ignore_index
    positions = rows = aligned = shifted = 0
    for ids, targets in zip(inputs, labels, strict=True):
        if ids.shape != targets.shape:
            raise ValueError(f"inputs are {ids.shape}, labels {targets.shape}")
        for row, label in zip(_rows(ids), _rows(targets), strict=True):
            here, after = row[:-1], row[1:]
            told = (label[:-1] != ignored) & (here != after)
            known = int(told.sum())
            if known < MIN_POSITIONS:
                continue
            positions, rows = positions + known, rows + 1
            aligned += _agrees(label[:-1][told], here[told])
            shifted += _agrees(label[:-1][told], after[told])
    return Alignment(positions, rows, aligned, shifted)


def _rows(batch: Ints) -> Ints:
    return batch.reshape(-1, batch.shape[-1])


def _agrees(labels: Ints, tokens: Ints) -> bool:
    return bool((labels == tokens).mean() >= AGREE)
