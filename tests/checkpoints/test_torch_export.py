from tests.support import pickles as p
from tests.support.checkpoints import read
from tests.support.export_files import VALUES, export, listed
from tests.support.saved import torch_bytes
from tests.support.zips import Part, archive, torch_zip
from trainproof.model.tensors import DefectCode, Extent, Layout, Safety


def test_weights_are_read_from_their_entries():
    made = read(
        export({"fc.w": listed("weight_0", [3], [1])}, Part("ep/data/weights/weight_0", VALUES))
    )
    assert made.facts.layout is Layout.TORCH_EXPORT
    assert made.facts.extent is Extent.READ
    assert made.shown == {"fc.w": ("float32", (3,), 1)}
    assert made.facts.defects == ()


def test_tied_weights_share_an_entry():
    weights = {"a": listed("weight_0", [3], [1]), "b": listed("weight_0", [2], [1])}
    made = read(export(weights, Part("ep/data/weights/weight_0", VALUES)))
    assert made.shown == {"a": ("float32", (3,), 1), "b": ("float32", (2,), 0)}


def test_a_weight_larger_than_its_entry_is_a_defect():
    made = read(
        export({"w": listed("weight_0", [4], [1])}, Part("ep/data/weights/weight_0", VALUES))
    )
    assert made.codes == [DefectCode.TENSOR_LAYOUT]


def test_a_weight_without_its_entry_is_a_defect():
    assert read(export({"w": listed("weight_7", [4], [1])})).codes == [DefectCode.STORAGE_MISSING]


def test_an_entry_that_no_list_names_is_an_orphan():
    made = read(export({}, Part("ep/data/weights/weight_0", VALUES)))
    assert made.codes == [DefectCode.STORAGE_ORPHAN]


def test_an_unknown_type_is_not_read():
    weights = {"w": listed("weight_0", [3], [1], dtype=99)}
    made = read(export(weights, Part("ep/data/weights/weight_0", VALUES)))
    assert [one.name for one in made.facts.unread] == ["w"]
    assert made.facts.extent is Extent.STRUCTURE_ONLY


def test_a_list_that_is_no_json_is_a_defect():
    broken = Part("ep/data/weights/other_weights_config.json", b"{")
    assert read(export({}, broken)).codes == [DefectCode.HEADER]


def test_a_pickled_weight_is_a_torch_file_inside():
    tensor = torch_zip(p.pickle(p.tensor("0", [3])), {"0": VALUES})
    weights = {"sub": listed("weight_0", [3], [1], pickled=True)}
    made = read(export(weights, Part("ep/data/weights/weight_0", tensor)))
    assert made.shown == {"sub": ("float32", (3,), 1)}
    assert made.facts.safety is Safety.SAFE


def test_sample_inputs_that_call_something_are_unsafe():
    evil = torch_zip(p.pickle(p.EVIL), {})
    made = read(export({}, Part("ep/data/sample_inputs/model.pt", evil)))
    assert made.facts.safety is Safety.UNSAFE
    assert made.facts.globals[0].name == "posix.getpid"


def test_a_constant_that_is_a_bare_pickle_is_walked():
    made = read(export({}, Part("ep/data/constants/opaque_obj_0", p.pickle(p.EVIL))))
    assert made.facts.safety is Safety.UNSAFE


def test_programs_of_old_versions_keep_their_weights_in_one_torch_file():
    made = read(
        archive(
            [
                Part("serialized_exported_program.json", b"{}"),
                Part("serialized_state_dict.pt", torch_bytes({"fc.bias": [1.0, 2.0]})),
                Part("version", b"8.2"),
            ]
        )
    )
    assert made.facts.layout is Layout.TORCH_EXPORT
    assert made.shown == {"fc.bias": ("float32", (2,), 0)}


def test_files_in_files_in_files_are_not_followed():
    inner = torch_zip(p.pickle(p.EVIL), {})
    for _ in range(3):
        inner = archive([Part("m/other.pt", inner)])
    made = read(inner)
    assert made.facts.safety is Safety.UNKNOWN
