"""Reading checkpoint bytes in a test."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import BinaryIO

import msgspec

from trainproof.checkpoints import LIMITS, Limits
from trainproof.checkpoints.reader import read_checkpoint
from trainproof.model.data import Fault
from trainproof.model.tensors import CheckpointFacts, DefectCode, Depth, TensorInfo

Shown = dict[str, tuple[str, tuple[int, ...] | None, int]]
"""Type, shape, and number of NaN, -1 where the values were not read."""


class Read(msgspec.Struct, frozen=True):
    tensors: dict[str, TensorInfo]
    facts: CheckpointFacts
    faults: tuple[Fault, ...]

    @property
    def codes(self) -> list[DefectCode]:
        return [defect.code for defect in self.facts.defects]

    @property
    def shown(self) -> Shown:
        return {
            name: (one.dtype, one.shape, -1 if one.stats is None else one.stats.nan)
            for name, one in self.tensors.items()
        }


def read(
    data: bytes,
    path: str = "model.pt",
    depth: Depth = Depth.TENSORS,
    limits: Limits = LIMITS,
    beside: Mapping[str, bytes] | None = None,
) -> Read:
    def opened(name: str) -> BinaryIO:
        if beside is None or name not in beside:
            raise FileNotFoundError(2, "No such file or directory")
        return io.BytesIO(beside[name])

    given = None if beside is None else opened
    items = list(read_checkpoint(io.BytesIO(data), path, depth, limits, given))
    facts = items.pop()
    assert isinstance(facts, CheckpointFacts)
    return Read(
        {one.name: one for one in items if isinstance(one, TensorInfo)},
        facts,
        tuple(one for one in items if isinstance(one, Fault)),
    )
