"""One saved checkpoint as rules see it: its files with their tensors, and the sets they form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .tensors import CheckpointDirectory, CheckpointFacts, Depth, TensorInfo


@dataclass(frozen=True, slots=True, eq=False)
class SavedFile:
    """One file that was read, as far as it could be."""

    facts: CheckpointFacts
    tensors: tuple[TensorInfo, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Files that are judged together.

    ``depth``: what the caller asked for. ``directories``: the sets that the files form. ``lost``:
    paths of files that could not be opened, or whose reading ended the process.
    """

    files: tuple[SavedFile, ...]
    depth: Depth = Depth.TENSORS
    directories: tuple[CheckpointDirectory, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def tensors(self) -> Iterator[TensorInfo]:
        for file in self.files:
            yield from file.tensors
