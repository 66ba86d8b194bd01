from __future__ import annotations

import io
import struct

import pytest

from tests.support.checkpoints import read
from tests.support.hdf5_files import FLOAT, UNDEFINED, File, link, one
from trainproof.model.data import FaultCode
from trainproof.model.tensors import DefectCode, Extent, Integrity, Layout

W = ("float32", (2,), 1)
NAN = float("nan")


def test_datasets_of_old_groups_are_read_where_they_lie() -> None:
    data = one()
    made = read(data, "model.h5")
    assert (made.facts.layout, made.facts.extent) == (Layout.HDF5, Extent.READ)
    assert made.facts.integrity is Integrity.ABSENT
    assert made.shown == {"layers/w": W}
    assert made.tensors["layers/w"].place == data.index(struct.pack("<2f", 1.0, NAN))


@pytest.mark.parametrize("group", [File.new_group, File.indexed_group])
def test_datasets_of_new_groups_are_read(group) -> None:
    file = File()
    members = {f"w{number}": file.dataset([1.0, NAN], new=True) for number in range(12)}
    made = read(file.new(group(file, members)), "model.h5")
    assert made.shown == dict.fromkeys(sorted(members), W)


def test_a_header_goes_on_in_another_block() -> None:
    file = File()
    data = struct.pack("<2f", 1.0, NAN)
    layout = b"\x03\x01" + struct.pack("<QQ", file.put(data), len(data))
    more = struct.pack("<HHB3x", 8, 24, 0) + layout.ljust(24, b"\0")
    space = b"\x01\x01\0\0\0\0\0\0" + struct.pack("<Q", 2)
    go_on = struct.pack("<QQ", file.put(more), len(more))
    dataset = file.old_object((1, space), (3, FLOAT), (16, go_on))
    assert read(file.old(file.old_group({"w": dataset})), "m.h5").shown == {"w": W}


def test_values_in_the_header_are_read() -> None:
    file = File()
    compact = b"\x03\x00" + struct.pack("<H2f", 8, 1.0, NAN)
    root = file.old_group({"w": file.described(2, compact)})
    assert read(file.old(root), "m.h5").shown == {"w": W}


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        (b"\x02\x01" + bytes(16), "a dataset of a form that is not read"),
        (b"\x03\x01" + UNDEFINED + struct.pack("<Q", 8), "its values were never written"),
    ],
)
def test_values_that_are_elsewhere_are_listed(layout: bytes, why: str) -> None:
    file = File()
    made = read(file.old(file.old_group({"w": file.described(2, layout)})), "m.h5")
    assert made.tensors["w"].unread == why
    assert made.codes == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (b"\x10\x08\0\0" + struct.pack("<I", 4), "int32"),
        (b"\x10\x00\0\0" + struct.pack("<I", 4), "uint32"),
        (b"\x16\x00\0\0" + struct.pack("<I", 4), "class 6 of 4 bytes"),
    ],
)
def test_types_have_the_names_of_torch(kind: bytes, name: str) -> None:
    file = File()
    root = file.old_group({"w": file.dataset([1.0, 2.0], kind=kind)})
    assert read(file.old(root), "m.h5").tensors["w"].dtype == name


def test_links_to_other_files_are_not_followed() -> None:
    file = File()
    outside = b"\x01\x08\x40\x01x" + struct.pack("<H", 2) + b"\0\0"
    group = file.new_object((6, outside), (6, link("w", file.dataset([1.0, NAN]))))
    assert read(file.old(group), "m.h5").shown == {"w": W}


def test_an_object_with_two_names_is_read_once() -> None:
    file = File()
    inner = file.old_group({"w": file.dataset([1.0, NAN])})
    made = read(file.old(file.old_group({"a": inner, "b": inner})), "m.h5")
    assert made.shown == {"a/w": W}


def test_a_group_inside_of_itself_ends() -> None:
    file = File()
    group = file.new_group({"self": 0, "w": file.dataset([1.0, NAN])})
    data = bytearray(file.new(group))
    at = data.index(b"self") + 4
    data[at : at + 8] = struct.pack("<Q", group)
    assert read(bytes(data), "m.h5").shown == {"w": W}


def test_a_file_shorter_than_its_superblock_says_is_cut() -> None:
    whole = one()
    made = read(one(end=len(whole) + 1), "m.h5")
    assert made.codes == [DefectCode.TRUNCATED]
    assert made.shown == {"layers/w": W}
    assert [fault.code for fault in made.faults] == [FaultCode.TRUNCATED]


def test_a_damaged_superblock_is_damage() -> None:
    assert read(b"\x89HDF\r\n\x1a\n" + bytes(80), "m.h5").facts.extent is Extent.NOT_CHECKED
    broken = bytearray(one())
    broken[8] = 9
    assert read(bytes(broken), "m.h5").codes == [DefectCode.HEADER]


def test_an_object_that_is_none_is_damage() -> None:
    file = File()
    assert read(file.old(file.old_group({"w": 40})), "m.h5").codes == [DefectCode.HEADER]


def test_files_that_h5py_wrote_are_as_h5py_has_them() -> None:
    h5py = pytest.importorskip("h5py")
    for version in ("earliest", "v108", "latest"):
        stream = io.BytesIO()
        with h5py.File(stream, "w", libver=version) as file:
            for number in range(2000):
                file[f"layers/{'x' * (number % 40)}{number}"] = [float(number), NAN]
        made = read(stream.getvalue(), "m.h5")
        assert len(made.tensors) == 2000
        for name, info in made.tensors.items():
            assert info.stats is not None
            assert (info.stats.nan, info.stats.max) == (
                1,
                float(name.rpartition("x")[2].rpartition("/")[2]),
            )
