"""Reading checkpoint bytes in a test."""

from __future__ import annotations

import io
from dataclasses import dataclass

from trainproof.checkpoints import LIMITS, Limits, read_checkpoint
from trainproof.model.data import Fault
from trainproof.model.tensors import CheckpointFacts, DefectCode, Depth, TensorInfo


@dataclass(frozen=True)
class Read:
    tensors: dict[str, TensorInfo]
    facts: CheckpointFacts
    faults: tuple[Fault, ...]

    @property
    def codes(self) -> list[DefectCode]:
        return [defect.code for defect in self.facts.defects]


def read(
    data: bytes, path: str = "model.pt", depth: Depth = Depth.TENSORS, limits: Limits = LIMITS
) -> Read:
    items = list(read_checkpoint(io.BytesIO(data), path, depth, limits))
    facts = items.pop()
    assert isinstance(facts, CheckpointFacts)
    return Read(
        {one.name: one for one in items if isinstance(one, TensorInfo)},
        facts,
        tuple(one for one in items if isinstance(one, Fault)),
    )
