from tests.support.checkpoints import read
from tests.support.flax_files import ONE_NAN, array, mapping
from trainproof.checkpoints import Limits
from trainproof.model.data import FaultCode
from trainproof.model.tensors import DefectCode, Extent, Layout


def test_arrays_are_read_where_they_lie():
    tree = mapping(params=mapping(kernel=array([2], "float32", ONE_NAN)), step=b"\x03")
    made = read(tree, "flax_model.msgpack")
    assert (made.facts.layout, made.facts.extent) == (Layout.MSGPACK, Extent.READ)
    assert made.shown == {"params/kernel": ("float32", (2,), 1)}
    assert made.tensors["params/kernel"].place == tree.index(ONE_NAN)
    assert [(one.name, one.value) for one in made.facts.scalars] == [("step", 3)]


def test_numbers_of_numpy_are_arrays_without_a_shape():
    made = read(mapping(lr=array([], "bfloat16", b"\x80\x3f", code=3)), "m.msgpack")
    assert made.shown == {"lr": ("bfloat16", (), 0)}


def test_chunks_of_a_large_array_are_one_tensor():
    parts = {"0": array([2], "float32", ONE_NAN), "1": array([1], "float32", bytes(4))}
    shape = mapping(**{"0": b"\x03", "1": b"\x01"})
    chunked = mapping(__msgpack_chunked_array__=b"\xc3", shape=shape, chunks=mapping(**parts))
    made = read(mapping(w=chunked), "m.msgpack")
    assert made.shown == {"w": ("float32", (3, 1), 1)}


def test_every_kind_of_value_is_passed_over():
    values = [
        b"\xc0",
        b"\xc2",
        b"\xca" + bytes(4),
        b"\xd3" + bytes(8),
        b"\xff",
        b"\xc4\x02ab",
        b"\xa2ab",
        b"\xdc\x00\x01\x01",
        b"\xdf\x00\x00\x00\x00",
        b"\xd4\x05z",
    ]
    made = read(mapping(all=bytes([0x90 | len(values)]) + b"".join(values)), "m.msgpack")
    assert made.faults == ()
    assert [one.reason for one in made.facts.unread] == ["the extension 5"]


def test_a_file_that_is_cut_keeps_what_was_read():
    first = mapping(a=array([2], "float32", ONE_NAN), b=array([2], "float32", ONE_NAN))
    made = read(first[:-1], "m.msgpack")
    assert made.shown == {"a": ("float32", (2,), 1), "b": ("float32", (2,), -1)}
    assert made.codes == [DefectCode.TRUNCATED]
    assert made.facts.extent is Extent.STRUCTURE_ONLY


def test_a_shape_that_is_not_that_of_the_bytes_is_a_defect():
    made = read(mapping(w=array([3], "float32", ONE_NAN)), "m.msgpack")
    assert made.codes == [DefectCode.TENSOR_LAYOUT]


def test_bytes_after_the_end_are_odd():
    assert read(mapping(a=b"\x01") + b"\x00", "m.msgpack").codes == [DefectCode.CONTAINER_ODD]


def test_nesting_and_counts_end_at_limits():
    deep = b"\x81\xa1a" + b"\x91" * 1000
    assert [one.code for one in read(deep, "m.msgpack").faults] == [FaultCode.TOO_LARGE]
    many = read(
        b"\x81\xa1a\xdd\x00\x00\x10\x00" + bytes(4096), "m.msgpack", limits=Limits(fields=100)
    )
    assert [one.code for one in many.faults] == [FaultCode.TOO_LARGE]


def test_a_code_that_does_not_exist_is_damage():
    assert [one.code for one in read(b"\x81\xa1a\xc1", "m.msgpack").faults] == [FaultCode.CORRUPT]
