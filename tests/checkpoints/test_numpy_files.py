"""Arrays as numpy saves them."""

from __future__ import annotations

import io

import numpy as np

from tests.support import pickles as p
from tests.support.checkpoints import read
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


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_one_array() -> None:
    got = read(npy(np.array([[1.0, np.inf], [-2.0, 0.0]], ">f8")), "a.npy")
    assert got.tensors[""].stats == TensorStats(4, 0, 1, 0, 1, -2.0, 1.0, 2.0, 1)
    assert got.tensors[""].shape == (2, 2)
    assert (got.facts.layout, got.facts.extent) == (Layout.NPY, Extent.READ)


def test_an_archive_of_arrays_plain_and_compressed() -> None:
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, a=np.arange(3), b=np.zeros(5, np.float16))
        got = read(stream.getvalue(), "a.npz")
        assert {n: t.stats.max for n, t in got.tensors.items() if t.stats} == {"a": 2, "b": 0.0}
        assert (got.facts.layout, got.facts.integrity) == (Layout.NPZ, Integrity.VERIFIED)
        assert got.facts.defects == ()


def test_a_cut_array() -> None:
    got = read(npy(np.arange(100))[:-1], "a.npy")
    assert got.tensors[""].presence is Presence.CUT
    assert got.codes == [DefectCode.TRUNCATED]


def test_objects_are_a_pickle_and_are_looked_at() -> None:
    head = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"
    data = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + p.pickle(p.EVIL)
    got = read(data, "a.npy")
    assert got.facts.safety is Safety.UNSAFE
    assert got.tensors[""].unread == "an array of numpy type O"
    assert got.facts.extent is Extent.STRUCTURE_ONLY


def test_a_damaged_header() -> None:
    got = read(b"\x93NUMPY\x01\x00\x04\x00abcd", "a.npy")
    assert [f.code for f in got.faults] == [FaultCode.CORRUPT]
