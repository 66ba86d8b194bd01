"""What a run is told of a checkpoint that it keeps."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import PurePosixPath

from trainproof.model.artifact import Run
from trainproof.model.checkpoint import Checkpoint, Kept
from trainproof.model.outcome import Cell, Level
from trainproof.model.tensors import DirectoryKind
from trainproof.model.text import printable
from trainproof.model.wire import Settings
from trainproof.rules.saved import total, unmeasured, weights
from trainproof.stores import StoreError, open_store

UNUSABLE = frozenset(
    {"TP-CKPT-HOLLOW", "TP-CKPT-TRUNCATED", "TP-CKPT-CORRUPT", "TP-CKPT-INCOMPLETE"}
)
"""Rules whose FAIL means that the checkpoint cannot be loaded as it was saved."""
STATE = "trainer_state.json"
_STATE_BYTES = 64 << 20
_FILES = 1000
_MAX_STEP = 2**53


def kept_of(run: Run, saved: Checkpoint, cells: Iterable[Cell], settings: Settings) -> Kept:
    damaged = [
        cell.rule
        for cell in cells
        if cell.rule in UNUSABLE and any(hit.level is Level.FAIL for hit in cell.hits)
    ]
    trainer = any(one.kind is DirectoryKind.TRAINER for one in saved.directories)
    return Kept(
        id=printable(run.id),
        step=saved.step,
        named=_named(saved),
        counted=_counted(run, settings) if trainer else None,
        clock=_clock(saved),
        damaged=tuple(damaged),
        nonfinite=_nonfinite(saved),
        files=tuple(_beside(run)),
    )


def _named(saved: Checkpoint) -> int | None:
    """The number of optimizer steps in the name of a trainer's directory."""
    for one in saved.directories:
        name = PurePosixPath(one.path).name
        if one.kind is DirectoryKind.TRAINER and name.startswith("checkpoint-"):
            return one.step
    return None


def _counted(run: Run, settings: Settings) -> int | None:
    """The global step of the trainer's state. None where there is none, or no sound one."""
    path = STATE if run.id == "." else f"{run.id}/{STATE}"
    if path not in run.beside:
        return None
    store = open_store(run.root, settings.follow_symlinks, spool=settings.spools.get(run.root))
    try:
        with contextlib.closing(store.open(path)) as stream:
            data = stream.read(_STATE_BYTES + 1)
        state = json.loads(data) if len(data) <= _STATE_BYTES else None
    except (StoreError, OSError, ValueError, RecursionError):
        return None
    step = state.get("global_step") if isinstance(state, dict) else None
    return step if type(step) is int and 0 <= step < _MAX_STEP else None


def _clock(saved: Checkpoint) -> int | None:
    counts = (
        int(step)
        for file in saved.files
        for optimizer in file.facts.optimizers
        for step in optimizer.steps
        if 0 <= step < _MAX_STEP
    )
    return max(counts, default=None)


def _nonfinite(saved: Checkpoint) -> int | None:
    stats = [one.stats for file in saved.files for one in weights(file) if one.stats is not None]
    whole = bool(stats) and next(unmeasured(saved), None) is None
    return total(one.nonfinite for one in stats) if whole else None


def _beside(run: Run) -> list[str]:
    """Of a set, names in its own directory; nothing of a file that is judged alone."""
    paths = [*(artifact.path for artifact in run.artifacts), *run.beside]
    home = "" if run.id == "." else run.id
    inside = [PurePosixPath(path).name for path in paths if path.rpartition("/")[0] == home]
    alone = [artifact.path for artifact in run.artifacts] == [run.id]
    return [] if alone else sorted(map(printable, inside))[:_FILES]
