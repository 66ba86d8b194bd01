from tests.support import hdf5_files
from tests.support.checkpoints import Read, read
from tests.support.keras_files import DENSE, keras
from tests.support.zips import Part, archive
from trainproof.model.tensors import DefectCode, Extent, Integrity, Layout, Safety


def imported(made: Read) -> list[tuple[str, Safety]]:
    return [(use.name, use.safety) for use in made.facts.globals if use.safety is not Safety.SAFE]


def test_the_weights_are_read_out_of_the_archive():
    made = read(keras(DENSE), "model.keras")
    assert (made.facts.layout, made.facts.extent) == (Layout.KERAS, Extent.READ)
    assert made.shown == {"layers/w": ("float32", (2,), 1)}
    assert [(one.name, one.value) for one in made.facts.metadata] == [("keras_version", "3.15.1")]
    assert (made.facts.safety, made.facts.integrity) == (Safety.SAFE, Integrity.VERIFIED)


def test_weights_that_end_early_are_cut():
    whole = hdf5_files.one()
    made = read(keras(DENSE, weights=hdf5_files.one(end=len(whole) + 1)), "model.keras")
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
    parts = [Part("config.json", b"["), Part("model.weights.h5", hdf5_files.one())]
    made = read(archive(parts), "model.keras")
    assert made.codes == [DefectCode.HEADER]
    assert made.facts.safety is Safety.UNKNOWN
