"""Tiny checkpoints for the examples that rules carry and for tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trainproof.model.checkpoint import Checkpoint, SavedFile
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
