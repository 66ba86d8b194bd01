"""Pickles of joblib: the bytes of an array follow the object that announces it."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable

import pytest

from tests.support import pickles as p
from tests.support.checkpoints import read
from tests.support.joblib_files import ONE_NAN, PLAIN, announced, dumped
from trainproof.checkpoints import Limits
from trainproof.model.data import FaultCode
from trainproof.model.tensors import DefectCode, Extent, Layout, Safety


def test_arrays_between_opcodes_are_read():
    second = announced([2], "f4") + bytes(8)
    made = read(dumped(a=announced([2], "f8") + ONE_NAN, b=second), "m.joblib")
    assert (made.facts.layout, made.facts.extent) == (Layout.JOBLIB, Extent.READ)
    assert made.shown == {"a": ("float64", (2,), 1), "b": ("float32", (2,), 0)}
    assert made.facts.safety is Safety.SAFE


def test_padding_before_an_array_is_passed_over():
    assert read(PLAIN, "m.joblib").shown == {"coef_": ("float64", (2,), 1)}


def test_arrays_of_objects_are_pickles_and_are_walked():
    made = read(dumped(a=announced([1], "O8") + p.pickle(p.list_(p.EVIL))), "m.joblib")
    assert made.facts.safety is Safety.UNSAFE
    assert made.shown == {}


def test_an_array_that_is_cut_is_a_defect():
    made = read(PLAIN[:-20], "m.joblib")
    assert made.codes == [DefectCode.PICKLE]
    assert made.facts.extent is Extent.NOT_CHECKED


def test_opcodes_that_pose_as_an_array_are_found():
    """pickle.load knows of no arrays and would run them."""
    posing = p.EVIL + p.STOP
    made = read(dumped(a=announced([len(posing)], "u1") + posing), "m.joblib")
    assert made.facts.safety is Safety.UNSAFE
    assert made.facts.globals[0].name == "posix.getpid"


@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress, bz2.compress, lzma.compress])
def test_packed_pickles_are_read(pack: Callable[[bytes], bytes]):
    made = read(pack(PLAIN), "m.joblib")
    assert made.shown == {"coef_": ("float64", (2,), 1)}
    assert made.facts.size == len(pack(PLAIN))
    assert made.tensors["coef_"].place is None


def test_what_is_hidden_by_packing_is_found():
    assert read(zlib.compress(p.pickle(p.EVIL)), "m.pkl").facts.safety is Safety.UNSAFE


def test_a_packed_file_that_is_cut_is_a_defect():
    made = read(gzip.compress(PLAIN)[:-12], "m.joblib")
    assert made.codes == [DefectCode.TRUNCATED]


def test_what_unpacks_without_end_is_left():
    packed = zlib.compress(bytes(1 << 20))
    made = read(packed, "m.joblib", limits=Limits(inflate=1 << 16))
    assert [one.code for one in made.faults] == [FaultCode.TOO_LARGE]


def test_other_packed_content_is_named():
    made = read(gzip.compress(b"%PDF-1.4"), "m.joblib")
    assert made.facts.reason == "compressed as a whole, and its content is unknown"


def test_a_pickle_longer_than_the_limit_is_no_damage():
    data = dumped(a=p.text("x" * 1000))
    made = read(data, "m.pkl", limits=Limits(pickle_bytes=100))
    assert made.codes == []
    assert [one.code for one in made.faults] == [FaultCode.TOO_LARGE]
    assert made.facts.safety is Safety.UNKNOWN


def test_a_type_without_its_byte_order_is_little_endian() -> None:
    whole = announced([2], "f8")
    order = p.tuple_(p.integer(3), p.text("<"), p.NONE, p.NONE, p.NONE)
    bare = whole.replace(order, p.tuple_())
    assert read(dumped(a=bare + ONE_NAN), "m.joblib").shown == {"a": ("float64", (2,), 1)}


def test_records_and_texts_are_passed_over_by_their_size() -> None:
    nodes = announced([2], "V24") + bytes(48)
    names = announced([2], "U3") + bytes(24)
    last = announced([2], "f8") + ONE_NAN
    made = read(dumped(nodes=nodes, names=names, values=last), "m.joblib")
    assert made.shown == {"values": ("float64", (2,), 1)}
    assert [one.name for one in made.facts.unread] == ["nodes", "names"]


def test_a_type_without_a_size_ends_the_reading() -> None:
    made = read(dumped(a=announced([2], "V") + bytes(8)), "m.joblib")
    assert made.facts.extent is Extent.NOT_CHECKED
    assert made.facts.safety is Safety.UNKNOWN
    assert made.codes == []


@pytest.mark.parametrize("inner", [ONE_NAN * 40, p.pickle(p.list_(p.text("x" * 600)))])
def test_an_array_beyond_the_limit_is_no_damage(inner: bytes) -> None:
    kind = announced([80], "f8") if inner.startswith(ONE_NAN) else announced([1], "O8")
    data = dumped(a=kind + inner)
    made = read(data, "m.joblib", limits=Limits(pickle_bytes=len(data) - 100))
    assert made.codes == []
    assert made.facts.extent is Extent.NOT_CHECKED
