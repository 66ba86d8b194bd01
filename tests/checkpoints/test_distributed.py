"""A list of tensors, and chunks of them in other files."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Mapping

import numpy as np
import pytest

from tests.support import pickles as p
from tests.support.checkpoints import read
from tests.support.distributed_files import chunk, metadata, tensor
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
    files: Mapping[str, bytes], depth: Depth = Depth.TENSORS, name: str = "run/step-1"
) -> tuple[list[TensorInfo], CheckpointFacts | None, list[Fault]]:
    def opened(name: str) -> io.BytesIO:
        if name not in files:
            raise FileNotFoundError(2, "No such file or directory")
        return io.BytesIO(files[name])

    items = list(read_distributed(opened, name, depth))
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


# --- where the values lie -------------------------------------------------------------------------

TWO = {"w": tensor((4,), [(2,), (2,)])}
PLACES = [("w", "__0_0.distcp", 3, len(FIRST)), ("w", "__1_0.distcp", 0, len(SECOND))]


def pieces_of(info: TensorInfo, files: Mapping[str, bytes]) -> bytes:
    return b"".join(files[one.artifact][one.start : one.start + one.nbytes] for one in info.pieces)


def test_chunks_that_are_rows_are_the_tensor_one_after_the_other() -> None:
    files = {**FILES, ".metadata": metadata(TWO, PLACES[::-1], [(2,), (0,)])}
    (info,), _, _ = read_all(files, name=".metadata")
    values = np.array([1.0, -2.0, float("nan"), 0.0], "<f4").tobytes()
    assert pieces_of(info, files) == values
    assert info.crc == zlib.crc32(values)


@pytest.mark.parametrize("begins", [None, [(0, 0), (0, 2)], [(0,), (3,)], [(0,), (0,)]], ids=str)
def test_chunks_in_another_order_have_no_place(begins: list[tuple[int, ...]] | None) -> None:
    files = {**FILES, ".metadata": metadata(TWO, PLACES, begins)}
    (info,), _, _ = read_all(files)
    assert info.stats is not None
    assert (info.pieces, info.crc) == ((), None)


def test_a_tensor_in_one_chunk_needs_no_index() -> None:
    listed = metadata({"w": tensor((2,), [(2,)])}, [("w", "__0_0.distcp", 3, len(FIRST))])
    files = {**FILES, ".metadata": listed}
    (info,), _, _ = read_all(files, name="step-1/.metadata")
    (piece,) = info.pieces
    assert piece.artifact == "step-1/__0_0.distcp"
    values = np.array([1.0, -2.0], "<f4").tobytes()
    assert FILES["__0_0.distcp"][piece.start :][: piece.nbytes] == values
    assert info.crc == zlib.crc32(values)


def test_without_values_chunks_have_no_place() -> None:
    files = {**FILES, ".metadata": metadata(TWO, PLACES, [(0,), (2,)])}
    (info,), _, _ = read_all(files, Depth.STRUCTURE)
    assert info.pieces == ()
