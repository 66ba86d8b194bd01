"""The checkpoint that a training is going to start from."""

from __future__ import annotations

import os
from collections.abc import Callable

from trainproof.checkpoints.reader import read_checkpoint
from trainproof.model.checkpoint import SavedFile
from trainproof.model.data import Fault, FaultCode
from trainproof.model.tensors import CheckpointFacts, Depth, Layout, TensorInfo


def read(path: str, beat: Callable[[], None]) -> tuple[SavedFile | None, tuple[Fault, ...]]:
    """One file, with its checksums and without the values of its tensors."""
    if os.path.isdir(path):
        detail = "a directory: trainproof checkpoint judges those"
        return None, (Fault(FaultCode.IO, path, detail, fatal=True),)
    tensors: list[TensorInfo] = []
    faults: list[Fault] = []
    facts: CheckpointFacts | None = None
    try:
        with open(path, "rb") as stream:
            for item in read_checkpoint(stream, path, Depth.INTEGRITY):
                beat()
                match item:
                    case TensorInfo():
                        tensors.append(item)
                    case CheckpointFacts():
                        facts = item
                    case Fault():
                        faults.append(item)
    except OSError as error:
        detail = error.strerror or type(error).__name__
        return None, (Fault(FaultCode.IO, path, detail, fatal=True),)
    if facts is None:
        return None, tuple(faults)
    if facts.layout is Layout.UNKNOWN and not faults:
        faults.append(Fault(FaultCode.CORRUPT, path, "no known format of checkpoints", fatal=True))
    return SavedFile(facts, tuple(tensors)), tuple(faults)
