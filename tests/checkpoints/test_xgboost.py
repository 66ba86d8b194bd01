import json

from tests.support.checkpoints import read
from tests.support.xgboost_files import floats, key, mapping, model
from trainproof.model.data import FaultCode
from trainproof.model.tensors import DefectCode, Extent, Kind, Layout


def test_arrays_of_the_binary_form_are_tensors():
    made = read(model(base_weights=floats(1.0, float("nan"))), "m.ubj")
    assert (made.facts.layout, made.facts.extent) == (Layout.XGBOOST, Extent.READ)
    name = "learner/gradient_booster/model/trees/0/base_weights"
    assert made.shown == {name: ("float32", (2,), 1)}
    assert made.tensors[name].kind is Kind.ARRAY
    assert {one.name: one.value for one in made.facts.metadata} == {
        "learner/gradient_booster/name": "gbtree",
        "learner/learner_model_param/num_feature": "3",
    }


def test_every_kind_of_value_is_passed_over():
    plain = b"[" + b"ZTFi\x01U\x01I\0\x01l\0\0\0\x01d\0\0\0\0D" + bytes(8) + b"Ca" + b"]"
    typed = b"{$i#i\x01" + key("x") + b"\x05"
    made = read(model(plain=plain, typed=typed), "m.ubj")
    assert made.faults == ()


def test_a_model_that_is_cut_says_so():
    made = read(model(base_weights=floats(1.0))[:-2], "m.ubj")
    assert made.codes == [DefectCode.TRUNCATED]
    assert len(made.tensors) == 1


def test_an_array_that_is_cut_says_so():
    whole = model(base_weights=floats(*range(100)))
    made = read(whole[: whole.index(b"[$d") + 50], "m.ubj")
    assert made.codes == [DefectCode.TRUNCATED]
    assert made.tensors == {}


def test_bytes_after_the_end_are_odd():
    assert read(model() + b"x", "m.ubj").codes == [DefectCode.CONTAINER_ODD]


def test_nesting_ends_at_a_limit():
    made = read(mapping(learner=b"[" * 1000), "m.ubj")
    assert [one.code for one in made.faults] == [FaultCode.TOO_LARGE]


def test_an_unknown_marker_is_damage():
    assert [one.code for one in read(mapping(a=b"?"), "m.ubj").faults] == [FaultCode.CORRUPT]


def test_of_json_the_frame_is_read():
    document = {"learner": {"learner_model_param": {"num_feature": "7"}}}
    made = read(json.dumps(document, separators=(",", ":")).encode(), "m.json")
    assert (made.facts.layout, made.facts.extent) == (Layout.XGBOOST, Extent.STRUCTURE_ONLY)
    assert made.facts.metadata[0].value == "7"


def test_json_that_is_cut_is_damage():
    made = read(b'{"learner":{"a"', "m.json")
    assert [one.code for one in made.faults] == [FaultCode.CORRUPT]
