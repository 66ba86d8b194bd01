import json
import struct

from tests.support.checkpoints import Read, read
from tests.support.zips import Part, archive
from trainproof.model.tensors import DefectCode, Extent, Layout, Safety

DENSE = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 3}}


def hdf5(end: int, size: int) -> bytes:
    """A superblock of version 0 that says where the file ends, in a file of ``size`` bytes."""
    head = b"\x89HDF\r\n\x1a\n" + bytes(8) + struct.pack("<HHI", 4, 16, 0) + bytes(16)
    return (head + struct.pack("<Q", end)).ljust(size, b"\0")


def keras(*layers: object, weights: bytes | None = None) -> bytes:
    config = {"module": "keras", "class_name": "Sequential", "config": {"layers": layers}}
    return archive(
        [
            Part("metadata.json", b'{"keras_version": "3.15.1"}'),
            Part("config.json", json.dumps(config).encode()),
            Part("model.weights.h5", hdf5(100, 100) if weights is None else weights),
        ]
    )


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
