"""Formats that are told whole from cut by their frame."""

from __future__ import annotations

from tests.support.checkpoints import read
from trainproof.model.data import FaultCode
from trainproof.model.tensors import DefectCode, Extent, Layout


def hdf5(version: int, place: int, end: int) -> bytes:
    head = bytearray(b"\x89HDF\r\n\x1a\n" + bytes([version])).ljust(64, b"\0")
    head[place : place + 8] = end.to_bytes(8, "little")
    return bytes(head)


def test_a_whole_hdf5_file_is_structure_only() -> None:
    for version, place in ((0, 40), (1, 44), (2, 28), (3, 28)):
        got = read(hdf5(version, place, 64), "m.h5")
        assert (got.facts.layout, got.facts.extent) == (Layout.HDF5, Extent.STRUCTURE_ONLY)
        assert got.faults == ()


def test_an_hdf5_file_shorter_than_its_superblock_says() -> None:
    got = read(hdf5(2, 28, 65), "m.h5")
    assert [f.code for f in got.faults] == [FaultCode.TRUNCATED]
    assert got.codes == [DefectCode.TRUNCATED]
