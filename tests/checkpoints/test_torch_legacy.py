"""Five pickles and then the storages; and pickles that are only pickles."""

from __future__ import annotations

import struct

import numpy as np

from tests.support import pickles as p
from tests.support.checkpoints import read
from trainproof.checkpoints.torch_legacy import MAGIC
from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    DefectCode,
    Extent,
    Integrity,
    Layout,
    Presence,
    Safety,
    TensorStats,
)

DATA = {"1": np.array([1.0, np.nan], "<f4"), "2": np.array([0.0, 0.0, -4.0], "<f4")}


def legacy(tensors: dict[str, bytes], little: bool = True, version: int = 1001) -> bytes:
    flag = b"\x88" if little else b"\x89"
    parts = [
        p.pickle(p.integer(MAGIC)),
        p.pickle(p.integer(version)),
        p.pickle(p.dict_({"protocol_version": p.integer(version), "little_endian": flag})),
        p.pickle(p.dict_(tensors)),
        p.pickle(p.list_(*map(p.text, DATA))),
    ]
    for array in DATA.values():
        data = array.tobytes() if little else array.byteswap().tobytes()
        parts.append(struct.pack("<q", len(array)) + data)
    return b"".join(parts)


TENSORS = {"a": p.tensor("1", (2,)), "b": p.tensor("2", (3,))}


def test_tensors_are_read_from_behind_the_pickles() -> None:
    for little in (True, False):
        got = read(legacy(TENSORS, little))
        assert got.tensors["a"].stats == TensorStats(2, 1, 0, 0, 0, 1.0, 1.0, 1.0, 1, bfloat16=True)
        assert got.tensors["b"].stats == TensorStats(3, 0, 0, 0, 2, -4.0, 0.0, 4.0, bfloat16=True)
        facts = got.facts
        assert (facts.layout, facts.extent) == (Layout.TORCH_LEGACY, Extent.READ)
        assert (facts.integrity, facts.safety) == (Integrity.ABSENT, Safety.SAFE)
        assert facts.defects == ()


def test_a_cut_file_names_what_is_whole() -> None:
    got = read(legacy(TENSORS)[:-2])
    assert [t.presence for t in got.tensors.values()] == [Presence.WHOLE, Presence.CUT]
    assert got.tensors["b"].unread == "its bytes are not all in the file"
    assert [(f.code, f.fatal) for f in got.faults] == [(FaultCode.TRUNCATED, False)]
    assert got.codes == [DefectCode.TRUNCATED]


def test_a_length_that_is_not_the_one_of_the_pickle() -> None:
    data = legacy(TENSORS)
    at = len(data) - 12 - 8
    got = read(data[:at] + struct.pack("<q", -466) + data[at + 8 :])
    assert DefectCode.STORAGE_SIZE in got.codes


def test_bytes_after_the_last_storage() -> None:
    assert read(legacy(TENSORS) + b"xx").codes == [DefectCode.CONTAINER_ODD]


def test_a_payload_behind_the_magic_number_is_unsafe() -> None:
    assert read(legacy({"x": p.EVIL})).facts.safety is Safety.UNSAFE


def test_a_magic_number_that_is_computed_is_only_a_pickle() -> None:
    got = read(p.pickle(p.EVIL) + p.pickle(p.integer(1001)), "model.pth")
    assert (got.facts.layout, got.facts.safety) == (Layout.PICKLE, Safety.UNSAFE)


def test_a_bare_pickle_of_arrays() -> None:
    dtype = p.call("numpy", "dtype", p.text("f8")) + p.tuple_(p.integer(3), p.text("<")) + p.BUILD
    raw = np.array([1.0, 2.5]).tobytes()
    state = p.tuple_(
        p.integer(1), p.tuple_(p.integer(2)), dtype, b"\x89", b"C" + bytes([len(raw)]) + raw
    )
    made = p.call("numpy._core.multiarray", "_reconstruct") + state + p.BUILD
    got = read(p.pickle(p.dict_({"a": made})), "model.pkl")
    assert got.tensors["a"].stats == TensorStats(2, 0, 0, 0, 0, 1.0, 2.5, 2.5)
    assert (got.facts.extent, got.facts.safety) == (Extent.READ, Safety.SAFE)
    assert got.facts.weights_only is False


def test_a_cut_pickle_is_a_fault() -> None:
    got = read(legacy(TENSORS)[:60])
    assert [f.code for f in got.faults] == [FaultCode.TRUNCATED]
    assert got.facts.extent is Extent.NOT_CHECKED
