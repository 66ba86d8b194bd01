"""What a run is told of a checkpoint that it keeps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from trainproof.model.artifact import Run
from trainproof.model.checkpoint import Checkpoint, Kept
from trainproof.model.outcome import Cell, Level
from trainproof.model.text import printable
from trainproof.rules.saved import total, unmeasured, weights

UNUSABLE = frozenset(
    {"TP-CKPT-HOLLOW", "TP-CKPT-TRUNCATED", "TP-CKPT-CORRUPT", "TP-CKPT-INCOMPLETE"}
)
"""Rules whose FAIL means that the checkpoint cannot be loaded as it was saved."""
_FILES = 200


def kept_of(run: Run, saved: Checkpoint, cells: Iterable[Cell]) -> Kept:
    damaged = [
        cell.rule
        for cell in cells
        if cell.rule in UNUSABLE and any(hit.level is Level.FAIL for hit in cell.hits)
    ]
    return Kept(
        id=printable(run.id),
        step=saved.step,
        damaged=tuple(damaged),
        nonfinite=_nonfinite(saved),
        files=tuple(_beside(run)),
    )


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
