"""Lists of tensors and their chunks, as torch.distributed.checkpoint writes them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.support import pickles as p
from tests.support.zips import torch_zip

_PLACE = "torch.distributed.checkpoint.metadata"


def _record(module: str, name: str, fields: Mapping[str, bytes]) -> bytes:
    return p.global_(module, name) + p.EMPTY_TUPLE + b"\x81" + p.dict_(fields) + p.BUILD


def _size(*sizes: int) -> bytes:
    return p.call("torch", "Size", p.tuple_(*map(p.integer, sizes)))


def tensor(shape: tuple[int, ...], chunks: list[tuple[int, ...]]) -> bytes:
    """A tensor of float32, and the shapes of its chunks."""
    properties = p.global_(_PLACE, "TensorProperties") + p.EMPTY_TUPLE + b"\x81"
    properties += p.tuple_(p.global_("torch", "float32"), b"\x89") + p.BUILD
    made = [_record(_PLACE, "ChunkStorageMetadata", {"sizes": _size(*chunk)}) for chunk in chunks]
    return _record(
        _PLACE,
        "TensorStorageMetadata",
        {"properties": properties, "size": _size(*shape), "chunks": p.list_(*made)},
    )


def metadata(
    tensors: Mapping[str, bytes],
    places: list[tuple[str, str, int, int]],
    begins: list[tuple[int, ...]] | None = None,
) -> bytes:
    """``places``: the tensor, file, first byte and length of each chunk; ``begins``: the index of
    its first element."""

    def index(name: str, number: int) -> dict[str, bytes]:
        fields = {"fqn": p.text(name), "index": p.integer(number)}
        return fields if begins is None else {**fields, "offset": _size(*begins[number])}

    stored = [
        (
            _record(_PLACE, "MetadataIndex", index(name, i)),
            _record(
                "torch.distributed.checkpoint.filesystem",
                "_StorageInfo",
                {
                    "relative_path": p.text(path),
                    "offset": p.integer(offset),
                    "length": p.integer(length),
                },
            ),
        )
        for i, (name, path, offset, length) in enumerate(places)
    ]
    fields = {"state_dict_metadata": p.dict_(tensors), "storage_data": p.dict_(stored)}
    return p.pickle(_record(_PLACE, "Metadata", fields))


def chunk(*values: float) -> bytes:
    """The file of a chunk."""
    state = p.pickle(p.tensor("0", (len(values),)))
    return torch_zip(state, {"0": np.array(values, "<f4").tobytes()}, "archive")
