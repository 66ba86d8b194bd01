"""A list of tensors, and chunks of them in other files."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping

import numpy as np

from tests.support import pickles as p
from tests.support.checkpoints import read
from tests.support.zips import torch_zip
from trainproof.checkpoints.distributed import read_distributed
from trainproof.model.data import Fault, FaultCode
from trainproof.model.tensors import (
    CheckpointFacts,
    DefectCode,
    Depth,
    Extent,
    Integrity,
    Layout,
    Presence,
    Safety,
    TensorInfo,
    TensorStats,
)

PLACE = "torch.distributed.checkpoint.metadata"


def record(module: str, name: str, fields: Mapping[str, bytes]) -> bytes:
    return p.global_(module, name) + p.EMPTY_TUPLE + b"\x81" + p.dict_(fields) + p.BUILD


def size(*sizes: int) -> bytes:
    return p.call("torch", "Size", p.tuple_(*map(p.integer, sizes)))


def tensor(shape: tuple[int, ...], chunks: list[tuple[int, ...]]) -> bytes:
    properties = p.global_(PLACE, "TensorProperties") + p.EMPTY_TUPLE + b"\x81"
    properties += p.tuple_(p.global_("torch", "float32"), b"\x89") + p.BUILD
    made = [record(PLACE, "ChunkStorageMetadata", {"sizes": size(*chunk)}) for chunk in chunks]
    return record(
        PLACE,
        "TensorStorageMetadata",
        {"properties": properties, "size": size(*shape), "chunks": p.list_(*made)},
    )


def metadata(tensors: Mapping[str, bytes], places: list[tuple[str, str, int, int]]) -> bytes:
    stored = [
        (
            record(PLACE, "MetadataIndex", {"fqn": p.text(name), "index": p.integer(i)}),
            record(
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
    return p.pickle(record(PLACE, "Metadata", fields))


def chunk(*values: float) -> bytes:
    state = p.pickle(p.tensor("0", (len(values),)))
    return torch_zip(state, {"0": np.array(values, "<f4").tobytes()}, "archive")


FIRST, SECOND = chunk(1.0, -2.0), chunk(float("nan"), 0.0)
LIST = metadata(
    {"w": tensor((4,), [(2,), (2,)])},
    [
        ("w", "__0_0.distcp", 3, len(FIRST)),
        ("w", "__1_0.distcp", 0, len(SECOND)),
    ],
)
FILES = {".metadata": LIST, "__0_0.distcp": b"xyz" + FIRST, "__1_0.distcp": SECOND}


def read_all(
    files: Mapping[str, bytes], depth: Depth = Depth.TENSORS
) -> tuple[list[TensorInfo], CheckpointFacts | None, list[Fault]]:
    def opened(name: str) -> io.BytesIO:
        if name not in files:
            raise FileNotFoundError(2, "No such file or directory")
        return io.BytesIO(files[name])

    items = list(read_distributed(opened, "run/step-1", depth))
    facts = next((one for one in items if isinstance(one, CheckpointFacts)), None)
    return (
        [one for one in items if isinstance(one, TensorInfo)],
        facts,
        [one for one in items if isinstance(one, Fault)],
    )


def test_the_chunks_of_a_tensor_are_measured_together() -> None:
    (info,), facts, faults = read_all(FILES)
    assert (info.name, info.dtype, info.shape, info.nbytes) == ("w", "float32", (4,), 16)
    assert info.stats == TensorStats(4, 1, 0, 0, 1, -2.0, 1.0, 2.0, bfloat16=True)
    assert faults == []
    assert facts is not None
    assert (facts.extent, facts.safety) == (Extent.READ, Safety.SAFE)
    assert (facts.integrity, facts.defects) == (Integrity.VERIFIED, ())


def test_a_missing_file_makes_its_tensors_absent() -> None:
    files = {name: data for name, data in FILES.items() if name != "__1_0.distcp"}
    (info,), facts, _ = read_all(files)
    assert (info.presence, info.unread) == (Presence.ABSENT, "__1_0.distcp is not there")
    assert facts is not None
    assert [d.code for d in facts.defects] == [DefectCode.SHARD_MISSING]


def test_a_cut_file_makes_its_tensors_cut() -> None:
    (info,), facts, _ = read_all({**FILES, "__1_0.distcp": SECOND[:-1]})
    assert info.presence is Presence.CUT
    assert facts is not None
    assert [d.code for d in facts.defects] == [DefectCode.TRUNCATED]


def test_chunks_that_do_not_cover_their_tensor() -> None:
    short = metadata({"w": tensor((5,), [(2,), (2,)])}, [("w", "__1_0.distcp", 0, len(SECOND))])
    _, facts, _ = read_all({**FILES, ".metadata": short})
    assert facts is not None
    assert [d.code for d in facts.defects] == [DefectCode.TENSOR_LAYOUT]


def test_a_path_out_of_the_directory_is_never_opened() -> None:
    outside = metadata({"w": tensor((2,), [(2,)])}, [("w", "../other", 0, len(SECOND))])
    (info,), facts, _ = read_all({".metadata": outside, "../other": SECOND})
    assert info.stats is None
    assert facts is not None
    assert [d.code for d in facts.defects] == [DefectCode.ENTRY_NAME]


def test_a_payload_inside_of_a_chunk_is_unsafe() -> None:
    evil = torch_zip(p.pickle(p.EVIL), {}, "archive")
    listed = metadata({"w": tensor((2,), [(2,)])}, [("w", "__0_0.distcp", 0, len(evil))])
    _, facts, _ = read_all({".metadata": listed, "__0_0.distcp": evil})
    assert facts is not None
    assert facts.safety is Safety.UNSAFE


def test_chunks_in_one_safetensors_file() -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    blob = struct.pack("<Q", len(header)) + header + np.array([1.0, 3.0], "<f4").tobytes()
    listed = metadata({"w": tensor((2,), [(2,)])}, [("w", "__0_0.distcp", 5, 8)])
    (info,), facts, _ = read_all({".metadata": listed, "__0_0.distcp": b"12345" + blob})
    assert info.stats == TensorStats(2, 0, 0, 0, 0, 1.0, 3.0, 3.0, bfloat16=True)
    assert facts is not None
    assert facts.integrity is Integrity.ABSENT


def test_no_list_is_a_fault() -> None:
    _, facts, faults = read_all({})
    assert facts is None
    assert [f.code for f in faults] == [FaultCode.IO]
    _, facts, faults = read_all({".metadata": p.pickle(p.NONE)})
    assert facts is not None
    assert facts.extent is Extent.NOT_CHECKED


def test_the_list_alone_gives_the_structure() -> None:
    got = read(LIST, "run/.metadata")
    assert (got.tensors["w"].shape, got.tensors["w"].stats) == ((4,), None)
    assert (got.facts.layout, got.facts.extent) == (Layout.TORCH_METADATA, Extent.STRUCTURE_ONLY)
    assert read(FILES["__0_0.distcp"], "__0_0.distcp").facts.layout is Layout.TORCH_CHUNKS
