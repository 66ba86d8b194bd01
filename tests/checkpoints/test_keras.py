from tests.support.checkpoints import Read, read
from tests.support.keras_files import DENSE, hdf5, keras
from tests.support.zips import Part, archive
from trainproof.model.tensors import DefectCode, Extent, Layout, Safety


def imported(made: Read) -> list[tuple[str, Safety]]:
    return [(use.name, use.safety) for use in made.facts.globals if use.safety is not Safety.SAFE]


def test_the_frame_is_read_and_the_weights_are_not():
    made = read(keras(DENSE), "model.keras")
    assert made.facts.layout is Layout.KERAS
    assert made.facts.extent is Extent.STRUCTURE_ONLY
    assert made.facts.reason == "the datasets of HDF5 are not read"
    assert [(one.name, one.value) for one in made.facts.metadata] == [("keras_version", "3.15.1")]
    assert made.facts.safety is Safety.SAFE


def test_weights_that_end_early_are_cut():
    made = read(keras(DENSE, weights=hdf5(101, 100)), "model.keras")
    assert made.codes == [DefectCode.TRUNCATED]


def test_a_function_kept_as_code_is_told():
    function = {"class_name": "__lambda__", "config": {"code": "4wEAAAA="}}
    layer = {"module": "keras.layers", "class_name": "Lambda", "config": {"function": function}}
    made = read(keras(layer), "model.keras")
    assert imported(made) == [("keras.layers.Lambda", Safety.UNKNOWN)]
    assert made.facts.code == ("config.json",)


def test_a_class_of_the_operating_system_is_unsafe():
    """CVE-2025-1550: loading imports and calls what the configuration names."""
    made = read(keras({"module": "os", "class_name": "system", "config": {}}), "model.keras")
    assert imported(made) == [("os.system", Safety.UNSAFE)]


def test_a_class_of_ones_own_is_unknown():
    made = read(keras({"module": "mine", "class_name": "Layer", "config": {}}), "model.keras")
    assert imported(made) == [("mine.Layer", Safety.UNKNOWN)]


def test_a_configuration_that_is_no_json_is_a_defect():
    parts = [Part("config.json", b"["), Part("model.weights.h5", hdf5(100, 100))]
    made = read(archive(parts), "model.keras")
    assert made.codes == [DefectCode.HEADER]
    assert made.facts.safety is Safety.UNKNOWN
