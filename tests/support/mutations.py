"""Small whole files of every layout that is read, and ways to damage them."""

from __future__ import annotations

import gzip
import io
import random

import msgspec
import numpy as np

from tests.support import (
    export_files,
    flax_files,
    hdf5_files,
    joblib_files,
    keras_files,
    onnx_files,
    tensorflow_files,
    xgboost_files,
)
from tests.support import pickles as p
from tests.support.saved import safetensors_bytes, torch_bytes
from tests.support.zips import Part, archive, torch_parts, torch_zip
from trainproof.checkpoints import LIMITS, Limits
from trainproof.checkpoints.reader import read_checkpoint
from trainproof.model.tensors import CheckpointFacts

SMALL = Limits(ops=200_000, nodes=50_000, visits=50_000, stack=50_000, memo=50_000)
"""So that what a mutation makes large ends soon."""


class Seed(msgspec.Struct, frozen=True):
    """A file by the name that it is read under, with the files beside it."""

    name: str
    data: bytes
    beside: dict[str, bytes] = msgspec.field(default_factory=dict)


def _state() -> bytes:
    tensors = {
        "w": p.tensor("0", (2, 3)),
        "view": p.tensor("0", (2,), stride=(3,), count=6),
        "typed": p.typed_tensor("1", 4, "float8_e4m3fn", 1),
        "step": p.integer(3),
        "evil": p.EVIL,
    }
    return p.pickle(p.dict_(tensors))


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.arange(6, dtype=np.float32).reshape(2, 3))
    return stream.getvalue()


def _indexed() -> bytes:
    file = hdf5_files.File()
    members = {f"w{number}": file.dataset([1.0], new=True) for number in range(9)}
    return file.new(file.indexed_group(members))


def _seeds() -> list[Seed]:
    weight = onnx_files.tensor("w", onnx_files.external(location="m.data", length="8"))
    onnx = onnx_files.model(
        onnx_files.tensor("a", onnx_files.block(9, bytes(8))),
        weight,
        nodes=onnx_files.constant("c", onnx_files.tensor("k", onnx_files.block(4, bytes(8)))),
    )
    storages = {"0": bytes(24), "1": bytes(4)}
    values = tensorflow_files.VALUES
    entry = tensorflow_files.entry(tensorflow_files.FLOAT, [3], 0, values)
    flax = flax_files.mapping(p=flax_files.array([2], "float32", bytes(8)), step=b"\x03")
    listed = {"w": export_files.listed("weight_0", [3], [1])}
    exported = export_files.export(
        listed,
        Part("ep/data/weights/weight_0", bytes(12)),
        Part("ep/data/sample_inputs/m.pt", torch_bytes()),
    )
    joblib = joblib_files.dumped(a=joblib_files.announced([2], "f8") + bytes(16))
    return [
        Seed("m.pt", torch_zip(_state(), storages)),
        Seed("wide.pt", archive(torch_parts(_state(), storages), wide=True)),
        Seed("packed.pt", archive([Part("m/data.pkl", _state(), deflate=True)])),
        Seed("m.safetensors", safetensors_bytes()),
        Seed("m.pkl", _state()),
        Seed("old.pkl", p.pickle(p.list_(p.text("a"), p.number(1.5), p.EVIL), b"")),
        Seed("m.onnx", onnx, {"m.data": bytes(8)}),
        Seed("m.msgpack", flax),
        Seed("ckpt-1.index", tensorflow_files.index(a=entry), {tensorflow_files.DATA: values}),
        Seed("m.ubj", xgboost_files.model(base_weights=xgboost_files.floats(1.0, 2.0))),
        Seed("m.joblib", joblib),
        Seed("m.joblib", gzip.compress(joblib, mtime=0)),
        Seed("m.h5", hdf5_files.one()),
        Seed("indexed.h5", _indexed()),
        Seed("m.keras", keras_files.keras(keras_files.DENSE)),
        Seed("m.pt2", exported),
        Seed("a.npy", _npy()),
        Seed("a.npz", archive([Part("a.npy", _npy())])),
    ]


SEEDS = tuple(_seeds())

_EDGES = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    bytes(8),
    b"\x80",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"cposix\nsystem\n",
)


def mutated(data: bytes, dice: random.Random) -> bytes:
    """Some bytes changed, inserted, repeated or removed; now and then the end cut off."""
    made = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 5, 20))):
        if not made:
            break
        at = dice.randrange(len(made))
        match dice.randrange(6):
            case 0 | 1:
                made[at] = dice.randrange(256)
            case 2:
                edge = dice.choice(_EDGES)
                made[at : at + len(edge)] = edge
            case 3:
                del made[at : at + dice.randrange(1, 30)]
            case 4:
                start = dice.randrange(len(made))
                made[at:at] = made[start : start + dice.randrange(1, 40)]
            case 5:
                del made[at:]
    return bytes(made)


def check(seed: Seed, data: bytes) -> None:
    """Reading must end with facts, whatever the bytes are."""

    def opened(name: str) -> io.BytesIO:
        if name not in seed.beside:
            raise FileNotFoundError(2, "No such file or directory")
        return io.BytesIO(seed.beside[name])

    *_, last = read_checkpoint(io.BytesIO(data), seed.name, limits=SMALL, beside=opened)
    assert isinstance(last, CheckpointFacts)
    assert len(last.defects) <= LIMITS.defects
