"""Small checkpoints on disk, as their writers leave them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.pickles import dict_, pickle, tensor
from tests.support.zips import torch_zip

Values = Mapping[str, Sequence[float]]
HEALTHY: Values = {"fc.weight": [0.5, -1.0, 2.0, 0.0], "fc.bias": [0.25, 0.5]}


def torch_bytes(values: Values = HEALTHY) -> bytes:
    """What ``torch.save`` writes of one-dimensional tensors of float32."""
    tensors = {
        name: tensor(str(key), [len(numbers)]) for key, (name, numbers) in enumerate(values.items())
    }
    storages = {str(key): _floats(numbers) for key, numbers in enumerate(values.values())}
    return torch_zip(pickle(dict_(tensors)), storages)


def safetensors_bytes(values: Values = HEALTHY) -> bytes:
    header, at = {}, 0
    for name, numbers in values.items():
        end = at + 4 * len(numbers)
        header[name] = {"dtype": "F32", "shape": [len(numbers)], "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(map(_floats, values.values()))


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _floats(numbers: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)
