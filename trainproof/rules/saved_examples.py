"""Tiny checkpoints for the examples that rules carry and for tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trainproof.model.checkpoint import Change, Checkpoint, Drift, SavedFile, Twin
from trainproof.model.data import RunView
from trainproof.model.tensors import (
    CheckpointDirectory,
    CheckpointFacts,
    Defect,
    DefectCode,
    Depth,
    DirectoryKind,
    Extent,
    Group,
    Integrity,
    Layout,
    OptimizerState,
    Presence,
    Safety,
    TensorInfo,
    TensorStats,
)

PATH = "model.pt"


def tensor(
    name: str,
    shape: Sequence[int] = (4, 4),
    *,
    dtype: str = "float32",
    nan: int = 0,
    inf: int = 0,
    zeros: int = 0,
    low: float = -1.0,
    high: float = 1.0,
    group: Group = Group.MODEL,
    presence: Presence = Presence.WHOLE,
    measured: bool = True,
) -> TensorInfo:
    """A tensor whose finite elements lie between ``low`` and ``high``."""
    elements = math.prod(shape)
    limits = (low, high, max(abs(low), abs(high))) if elements > nan + inf else (None, None, None)
    stats = TensorStats(elements, nan, inf, 0, zeros, *limits) if measured else None
    nbytes, unread = 4 * elements, "" if measured else "it was not read"
    return TensorInfo(
        name,
        dtype,
        tuple(shape),
        nbytes,
        PATH,
        stats,
        unread,
        group=group,
        presence=presence,
    )


def zero(name: str, shape: Sequence[int] = (4, 4), **fields: Any) -> TensorInfo:
    return tensor(name, shape, zeros=math.prod(shape), low=0.0, high=0.0, **fields)


def saved(
    *tensors: TensorInfo,
    depth: Depth = Depth.TENSORS,
    directories: Sequence[CheckpointDirectory] = (),
    lost: Sequence[str] = (),
    **facts: Any,
) -> RunView:
    """A checkpoint of one torch file that is whole, safe and checked, but for ``facts``."""
    said: dict[str, Any] = {
        "artifact": PATH,
        "layout": Layout.TORCH_ZIP,
        "size": 1000,
        "extent": Extent.READ,
        "tensors": len(tensors),
        "integrity": Integrity.VERIFIED,
        "safety": Safety.SAFE,
        "weights_only": True,
    }
    file = SavedFile(CheckpointFacts(**{**said, **facts}), tensors)
    checkpoint = Checkpoint((file,), depth, tuple(directories), tuple(lost))
    return RunView(PATH, checkpoint=checkpoint)


def directory(kind: DirectoryKind, *defects: Defect, step: int | None = None) -> RunView:
    """A set of files with what is wrong with it."""
    one = CheckpointDirectory("checkpoint-10", kind, (PATH,), step, defects)
    return saved(tensor("fc.weight"), directories=(one,))


def clocked(clock: float, step: int) -> RunView:
    """A trainer's directory of the given step, whose optimizer counts ``clock`` steps."""
    path = f"checkpoint-{step}"
    one = CheckpointDirectory(path, DirectoryKind.TRAINER, (PATH,), step)
    optimizer = OptimizerState("", 1, 2, 2, 0, (clock,))
    return saved(tensor("state/0/exp_avg"), directories=(one,), optimizers=(optimizer,))


def defect(code: DefectCode, detail: str, where: str = "") -> RunView:
    return saved(tensor("fc.weight"), defects=(Defect(code, detail, where),))


def twin(
    name: str,
    change: Change = Change.SAME,
    *,
    share: float = 0.0,
    norm: float = 1.0,
    crc: int | None = None,
    before: TensorInfo | None = None,
    **fields: Any,
) -> Twin:
    """A tensor beside that of an earlier checkpoint, whose norm was 1. ``share``: of its elements,
    those that changed; 0 where a tensor that moved was not compared."""
    one = replace(tensor(name, **fields), crc=crc)
    elements = math.prod(one.shape or ())
    made = Twin(one, before or one, change)
    if change is not Change.MOVED or not share:
        return made
    identical = elements - max(1, round(share * elements))
    return replace(
        made,
        compared=elements,
        identical=identical,
        norm=norm,
        norm_before=1.0,
        distance=abs(norm - 1.0),
    )


def drifted(
    *twins: Twin,
    added: Sequence[TensorInfo] = (),
    gone: Sequence[TensorInfo] = (),
    steps: int | None = 500,
    before: RunView | None = None,
    depth: Depth = Depth.TENSORS,
    **fields: Any,
) -> RunView:
    """A checkpoint beside one of ``steps`` steps before. ``fields``: of what is between them."""
    view = saved(*(one.tensor for one in twins), *added, depth=depth)
    earlier = before or saved(*(one.before for one in twins), *gone, depth=depth)
    assert earlier.checkpoint is not None
    found = Drift(
        "checkpoint-500",
        earlier.checkpoint,
        twins,
        tuple(added),
        tuple(gone),
        distance=steps,
        **fields,
    )
    return replace(view, drift=found)
