"""Datasets in chunks: every index, every filter, and what is wrong with them."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.checkpoints import read
from tests.support.hdf5_chunks import (
    ALL,
    DEFLATE,
    NO_FILTERS,
    Chunked,
    Encode,
    Matrix,
    deflated,
    file_of,
    filters,
    plain,
    shuffled,
)
from tests.support.hdf5_files import UNDEFINED, File
from trainproof.checkpoints.limits import LIMITS
from trainproof.checkpoints.reader import read_checkpoint
from trainproof.model.tensors import DefectCode, Presence, TensorInfo, TensorStats

VALUES: Matrix = np.arange(35, dtype="f4").reshape(7, 5) - 3
"""In chunks of three by two, some of which reach beyond it."""


def whole(values: Matrix = VALUES, sizes: tuple[int, int] = (3, 2), **fields: object) -> Chunked:
    return Chunked(File(), values, sizes, **fields)  # type: ignore[arg-type]


def tensor(made: Chunked, address: int) -> TensorInfo:
    return read(file_of({"w": address}, made.file), "m.h5").tensors["w"]


def is_whole(one: TensorInfo) -> bool:
    """The elements in order, as the checksum says."""
    expected = TensorStats(35, 0, 0, 0, 1, -3.0, 31.0, 31.0, bfloat16=True)
    return (one.stats, one.crc, one.unread) == (expected, zlib.crc32(VALUES.tobytes()), "")


@pytest.mark.parametrize(
    ("encode", "pipeline"),
    [
        (plain, NO_FILTERS),
        (deflated, DEFLATE),
        (deflated, filters((1, (6,)), version=1)),
        (shuffled, ALL),
    ],
    ids=["plain", "deflated", "old pipeline", "all"],
)
@pytest.mark.parametrize(
    "index", [Chunked.old_tree, Chunked.fixed, Chunked.new_tree], ids=lambda one: one.__name__
)
def test_chunks_are_put_together_in_order(
    index: Callable[[Chunked], int], encode: Encode, pipeline: bytes
) -> None:
    made = whole(encode=encode, filters=pipeline)
    assert is_whole(tensor(made, index(made)))


def test_one_chunk_may_be_all() -> None:
    for encode, pipeline in ((plain, NO_FILTERS), (deflated, DEFLATE)):
        made = whole(sizes=(7, 5), encode=encode, filters=pipeline)
        assert is_whole(tensor(made, made.single()))


def test_chunks_may_lie_one_after_the_other() -> None:
    made = whole()
    assert is_whole(tensor(made, made.implicit()))


def test_many_chunks_are_listed_in_pages() -> None:
    made = whole()
    assert is_whole(tensor(made, made.fixed(page_bits=1)))


def test_a_dataset_that_may_grow_has_entries_for_all_that_it_may_have() -> None:
    made = whole(VALUES[:6])
    part = tensor(made, whole_of(made, rows=9))
    assert part.crc == zlib.crc32(VALUES[:6].tobytes())


def whole_of(made: Chunked, rows: int) -> int:
    """The array of a dataset that may grow to so many rows, of which the last are not written."""
    grown = replace(made, values=np.resize(made.values, (rows, made.values.shape[1])))
    grown.values[: len(made.values)] = made.values
    address = grown.fixed(most=struct.pack("<2Q", rows, 5))
    body, space = made.file.body, struct.pack("<2Q", rows, 5)
    at = body.index(space, address)
    body[at : at + 16] = struct.pack("<2Q", *made.values.shape)
    return address


def test_the_first_value_that_is_not_finite_is_found_in_its_place() -> None:
    values = VALUES.copy()
    values[4, 1] = np.nan
    made = whole(values)
    stats = tensor(made, made.old_tree()).stats
    assert stats is not None
    assert (stats.nan, stats.first_nonfinite) == (1, 21)


@pytest.mark.parametrize("leave_out", [1, 9])
def test_chunks_that_were_never_written_are_no_values(leave_out: int) -> None:
    made = whole()
    one = tensor(made, made.old_tree(leave_out))
    assert one.unread == "a dataset in chunks, some of which were never written"
    made = whole()
    one = tensor(made, made.fixed(page_bits=1, absent=leave_out))
    assert one.unread == "a dataset in chunks, some of which were never written"


@pytest.mark.parametrize(
    ("pipeline", "name"), [(filters((4, ())), "szip"), (filters((309, ())), "number 309")]
)
def test_a_filter_that_cannot_be_undone_is_named(pipeline: bytes, name: str) -> None:
    pipeline = pipeline.replace(struct.pack("<HHH", 309, 0, 0), struct.pack("<HHHH", 309, 0, 0, 0))
    made = whole(filters=pipeline)
    assert tensor(made, made.old_tree()).unread == f"a dataset in chunks of the filter {name}"


def test_a_filter_that_a_chunk_was_spared_is_not_undone() -> None:
    made = whole(filters=DEFLATE)
    address = made.old_tree()
    key = struct.pack("<II", 24, 0)
    made.file.body[:] = made.file.body.replace(key, struct.pack("<II", 24, 1))
    assert is_whole(tensor(made, address))


@pytest.mark.parametrize(
    ("encode", "what"),
    [
        (lambda data: data, "a chunk cannot be inflated"),
        (lambda data: zlib.compress(data[:-1]), "a chunk has 23 bytes of 24"),
        (lambda data: zlib.compress(data * 1000), "a chunk has 29 bytes of 24"),
        (lambda data: zlib.compress(data) + bytes(2000), "a chunk takes more bytes"),
    ],
    ids=["no deflate", "short", "bomb", "long"],
)
def test_a_chunk_that_is_damaged_is_a_defect_of_its_dataset(encode: Encode, what: str) -> None:
    bad, good = whole(encode=encode, filters=DEFLATE), whole()
    good.file = bad.file
    made = read(file_of({"bad": bad.old_tree(), "good": good.old_tree()}, bad.file), "m.h5")
    assert made.tensors["bad"].unread.startswith(what)
    assert [defect.code for defect in made.facts.defects] == [DefectCode.TENSOR_LAYOUT]
    assert is_whole(made.tensors["good"])


def test_a_chunk_beyond_the_end_of_the_file_makes_its_dataset_cut() -> None:
    made = whole()
    address = made.old_tree()
    (at, *_) = [place for _, place, _ in whole().chunks()]
    data = file_of({"w": address}, made.file).replace(
        struct.pack("<Q", at), struct.pack("<Q", 1 << 40), 1
    )
    got = read(data, "m.h5")
    assert got.tensors["w"].presence is Presence.CUT
    assert DefectCode.TRUNCATED in got.codes


def test_a_tree_that_runs_in_a_circle_is_damaged() -> None:
    made = whole()
    address = made.old_tree()
    root = made.file.body.index(b"TREE\x01\x01")
    leaf = made.file.body.index(b"TREE\x01\x00")
    made.file.body[:] = made.file.body.replace(struct.pack("<Q", leaf), struct.pack("<Q", root))
    assert tensor(made, address).unread == "the chunks of a dataset run in a circle"


@pytest.mark.parametrize("field", ["chunk_unpacked", "band", "chunks"])
def test_what_is_over_a_limit_is_not_read(field: str) -> None:
    made = whole()
    data = file_of({"w": made.old_tree()}, made.file)
    limits = replace(LIMITS, **{field: 7})
    (one, *_) = read_checkpoint(io.BytesIO(data), "m.h5", limits=limits)
    assert isinstance(one, TensorInfo)
    assert "limit" in one.unread


def test_chunks_of_all_datasets_together_are_limited() -> None:
    made = whole()
    members = {name: made.old_tree() for name in ("a", "b")}
    limits = replace(LIMITS, chunks=12)
    one, two, *_ = read_checkpoint(io.BytesIO(file_of(members, made.file)), "m.h5", limits=limits)
    assert isinstance(one, TensorInfo)
    assert isinstance(two, TensorInfo)
    assert (one.unread, two.unread) == ("", "a dataset in more chunks than the limit")


def test_an_index_that_grows_is_not_read() -> None:
    made = whole()
    layout = (
        bytes([4, 2, 0, 3, 2]) + struct.pack("<3H", 3, 2, 4) + bytes([4]) + bytes(5) + UNDEFINED
    )
    assert tensor(made, made.dataset(layout)).unread == "a dataset in chunks of an index that grows"


@pytest.mark.parametrize("length", range(2, 24, 3))
def test_a_layout_that_is_cut_is_damaged(length: int) -> None:
    for layout in (
        b"\x03\x02\x03" + struct.pack("<Q3I", 96, 3, 2, 4),
        bytes([4, 2, 0, 3, 2]) + struct.pack("<3H", 3, 2, 4) + bytes([5]) + bytes(14),
    ):
        made = whole()
        assert tensor(made, made.dataset(layout[:length])).stats is None


# --- the library itself


@pytest.mark.parametrize("version", ["earliest", "latest"])
@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (3, 2)},
        {"chunks": (3, 2), "compression": "gzip", "shuffle": True, "fletcher32": True},
        {"chunks": (7, 5), "compression": "gzip"},
        {"chunks": (1, 1), "maxshape": (None, None)},
        {"chunks": (3, 2), "maxshape": (70, 50), "compression": "gzip"},
    ],
    ids=str,
)
def test_what_the_library_wrote_is_read(options: dict[str, Any], version: str) -> None:
    h5py = pytest.importorskip("h5py")
    stream = io.BytesIO()
    with h5py.File(stream, "w", libver=version) as file:
        file.create_dataset("w", data=VALUES, **options)
    assert is_whole(read(stream.getvalue(), "m.h5").tensors["w"])
