"""As strict as the reference library, and more exact about what is wrong."""

from __future__ import annotations

import json
import math
import struct
import zlib

import numpy as np
import pytest

from tests.support.checkpoints import read
from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    DefectCode,
    Extent,
    Group,
    Integrity,
    Layout,
    Presence,
    Scalar,
    TensorInfo,
    TensorStats,
)

W = np.array([1.0, math.nan], "<f4").tobytes()


def raw(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def made(header: dict[str, object], data: bytes = b"") -> bytes:
    return raw(json.dumps(header).encode(), data)


def entry(dtype: str, shape: list[int], start: int, stop: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def test_tensors_come_in_the_order_of_the_data() -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "b": entry("U8", [2], 8, 10),
        "optimizer/exp_avg": entry("F32", [2], 0, 8),
    }
    data = made(header, W + b"\0\7")
    got = read(data, "model.safetensors")
    assert list(got.tensors.values()) == [
        TensorInfo(
            "optimizer/exp_avg",
            "float32",
            (2,),
            8,
            "model.safetensors",
            TensorStats(2, 1, 0, 0, 0, 1.0, 1.0, 1.0, 1, bfloat16=True),
            group=Group.OPTIMIZER,
            crc=zlib.crc32(W),
            place=len(data) - 10,
        ),
        TensorInfo(
            "b",
            "uint8",
            (2,),
            2,
            "model.safetensors",
            TensorStats(2, 0, 0, 0, 1, 0, 7, 7),
            crc=zlib.crc32(b"\0\7"),
            place=len(data) - 2,
        ),
    ]
    facts = got.facts
    assert (facts.layout, facts.extent, facts.safety) == (Layout.SAFETENSORS, Extent.READ, None)
    assert (facts.integrity, facts.metadata) == (Integrity.ABSENT, (Scalar("format", "pt"),))


def test_elements_of_less_than_a_byte_are_listed_and_not_measured() -> None:
    got = read(made({"w": entry("F4", [4], 0, 2)}, b"ab"), "x.safetensors")
    assert got.tensors["w"].unread == "elements of less than a byte are not measured"
    assert got.facts.extent is Extent.STRUCTURE_ONLY


@pytest.mark.parametrize(
    "data",
    [
        raw(b"", b"a"),
        raw(b"[]"),
        raw(b" {}"),
        raw(b'{"a": NaN}'),
        raw(b'{"a": "\xff"}'),
        raw(b'{"w":' * 100_000),
        raw(
            b'{"w":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}',
            b"a",
        ),
        struct.pack("<Q", 100_000_001) + b"{}",
        made({"w": {"dtype": "U8", "shape": []}}, b"a"),
        made({"w": entry("XX", [1], 0, 1)}, b"a"),
        made({"w": entry("u8", [1], 0, 1)}, b"a"),
        made({"w": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}, b"a"),
        made({"w": {"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]}}, b"a"),
        made({"w": entry("U8", [-1], 0, 1)}, b"a"),
        made({"w": entry("U8", [2], 0, 1)}, b"a"),
        made({"w": entry("U8", [1], 1, 0)}, b"a"),
        made({"w": entry("F4", [1], 0, 1)}, b"a"),
        made({"w": entry("U8", [1 << 33, 1 << 33, 0], 0, 0)}),
        made({"__metadata__": {"a": 1}}),
    ],
)
def test_headers_that_the_reference_refuses(data: bytes) -> None:
    got = read(data, "x.safetensors")
    assert [f.code for f in got.faults] == [FaultCode.CORRUPT]
    assert got.codes == [DefectCode.HEADER]
    assert got.facts.extent is Extent.NOT_CHECKED


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ({"w": entry("U8", [1], 1, 2)}, b"ab"),
        ({"w": entry("U8", [2], 0, 2), "v": entry("U8", [2], 1, 3)}, b"abc"),
        ({"w": entry("U8", [1], 0, 1), "v": entry("U8", [1], 0, 1)}, b"a"),
        ({"w": entry("U8", [1], 0, 1)}, b"ab"),
    ],
    ids=["gap", "overlap", "same", "trailing"],
)
def test_data_that_are_not_covered_exactly(header: dict[str, object], data: bytes) -> None:
    assert read(made(header, data), "x.safetensors").codes == [DefectCode.HEADER]


def test_a_cut_file_names_the_tensors_that_are_whole() -> None:
    header = {key: entry("F32", [2], at, at + 8) for key, at in (("a", 0), ("b", 8), ("c", 16))}
    got = read(made(header, bytes(12)), "x.safetensors")
    assert [t.presence for t in got.tensors.values()] == [
        Presence.WHOLE,
        Presence.CUT,
        Presence.ABSENT,
    ]
    assert [t.stats is None for t in got.tensors.values()] == [False, True, True]
    assert [(f.code, f.fatal) for f in got.faults] == [(FaultCode.TRUNCATED, False)]


def test_a_cut_header() -> None:
    got = read(made({"w": entry("U8", [1], 0, 1)}, b"a")[:20], "x.safetensors")
    assert [f.code for f in got.faults] == [FaultCode.TRUNCATED]
    assert got.codes == [DefectCode.TRUNCATED]


def test_an_unknown_field_is_odd_and_no_more() -> None:
    header = {"w": {**entry("U8", [1], 0, 1), "note": "x"}}
    got = read(made(header, b"a"), "x.safetensors")
    assert got.codes == [DefectCode.CONTAINER_ODD]
    assert got.facts.extent is Extent.READ


def test_another_format_under_the_name_of_safetensors() -> None:
    got = read(b"version https://git-lfs.github.com/spec/v1\n", "x.safetensors")
    assert (got.facts.layout, got.codes) == (Layout.LFS_POINTER, [DefectCode.HEADER])


def test_json_text_is_not_taken_for_a_header() -> None:
    assert read(b'{"abc": {"d": 1}}', "config").facts.layout is Layout.JSON
