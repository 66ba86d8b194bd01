import pytest

from tests.support.checkpoints import read
from tests.support.onnx_files import HALF, ONE_NAN, STRING, constant, external, model, tensor
from tests.support.tfevents import block, number
from trainproof.checkpoints import Limits
from trainproof.model.data import FaultCode
from trainproof.model.tensors import DefectCode, Extent, Group, Layout, Presence


def test_initializers_are_read_where_they_lie():
    made = read(model(tensor("fc.w", block(9, ONE_NAN))), "model.onnx")
    assert (made.facts.layout, made.facts.extent) == (Layout.ONNX, Extent.READ)
    assert made.shown == {"fc.w": ("float32", (2,), 1)}
    assert [(one.name, one.value) for one in made.facts.metadata] == [
        ("ir_version", 10),
        ("producer", "pytorch"),
    ]


def test_packed_floats_are_elements_as_well():
    assert read(model(tensor("w", block(4, ONE_NAN))), "m.onnx").shown["w"] == ("float32", (2,), 1)


def test_half_precision_may_be_kept_as_numbers_of_variable_length():
    values = b"\x80\x78" + b"\x81\xfc\x01"  # 0x3c00 is 1, 0x7e01 is NaN
    made = read(model(tensor("w", block(5, values), dtype=HALF)), "m.onnx")
    assert made.shown == {"w": ("float16", (2,), 1)}


def test_constants_of_nodes_are_no_weights():
    made = read(model(nodes=constant("mask", tensor("k", block(9, ONE_NAN)))), "m.onnx")
    assert made.shown == {"mask/k": ("float32", (2,), 1)}
    assert made.tensors["mask/k"].group is Group.STATE


def test_texts_are_listed_and_not_read():
    made = read(model(tensor("t", block(6, b"a"), block(6, b"b"), dtype=STRING)), "m.onnx")
    assert made.shown == {"t": ("string", (2,), -1)}
    assert made.codes == []


def test_a_tensor_without_its_values_is_a_defect():
    assert read(model(tensor("w")), "m.onnx").codes == [DefectCode.TENSOR_LAYOUT]


def test_values_in_a_file_beside_the_model_are_read_there():
    data = {"m.data": bytes(8) + ONE_NAN}
    weights = tensor("w", external(location="m.data", offset="8", length="8"))
    made = read(model(weights), "m.onnx", beside=data)
    assert made.shown == {"w": ("float32", (2,), 1)}
    assert made.tensors["w"].place is None


def test_without_the_other_files_their_values_are_not_read():
    made = read(model(tensor("w", external(location="m.data"))), "m.onnx")
    assert made.tensors["w"].unread == "its values are in another file"
    assert made.facts.extent is Extent.STRUCTURE_ONLY


def test_a_file_that_is_missing_is_a_defect():
    made = read(model(tensor("w", external(location="m.data"))), "m.onnx", beside={})
    assert made.codes == [DefectCode.SHARD_MISSING]
    assert made.tensors["w"].presence is Presence.ABSENT


def test_a_file_that_is_too_short_is_a_defect():
    weights = tensor("w", external(location="m.data", offset="4", length="8"))
    made = read(model(weights), "m.onnx", beside={"m.data": ONE_NAN})
    assert made.codes == [DefectCode.TRUNCATED]
    assert made.tensors["w"].presence is Presence.CUT


@pytest.mark.parametrize("place", ["../secret", "/etc/passwd", "a\\b"])
def test_a_file_outside_of_the_directory_is_not_opened(place: str):
    weights = tensor("w", external(location=place))
    made = read(model(weights), "m.onnx", beside={place: ONE_NAN})
    assert made.codes == [DefectCode.ENTRY_NAME]


def test_a_model_that_is_cut_says_so():
    whole = model(tensor("w", block(9, ONE_NAN)))
    made = read(whole[:-3], "m.onnx")
    assert made.codes == [DefectCode.TRUNCATED]
    assert made.facts.extent is Extent.NOT_CHECKED


def test_graphs_in_graphs_end_at_a_limit():
    graph = b""
    for _ in range(12):
        graph = block(1, block(4, b"If") + block(5, block(6, graph)))
    assert [one.reason for one in read(model(nodes=graph), "m.onnx").facts.unread] == [
        "graphs in graphs beyond the limit"
    ]


def test_a_file_without_a_graph_is_not_checked():
    assert read(number(1, 10), "m.onnx").facts.extent is Extent.NOT_CHECKED


def test_tensors_and_fields_end_at_limits():
    weights = [tensor(f"w{number}", block(9, ONE_NAN)) for number in range(5)]
    few = read(model(*weights), "m.onnx", limits=Limits(tensors=3))
    assert (len(few.tensors), few.facts.extent) == (3, Extent.STRUCTURE_ONLY)
    short = read(model(*weights), "m.onnx", limits=Limits(fields=9))
    assert [one.code for one in short.faults] == [FaultCode.TOO_LARGE]
    assert few.codes == short.codes == []
