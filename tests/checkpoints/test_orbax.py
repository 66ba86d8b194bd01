from __future__ import annotations

import json

from tests.support.checkpoints import read
from trainproof.model.tensors import DefectCode, Extent, Group, Layout


def tree(**leaves: object) -> bytes:
    """``_METADATA`` with a leaf for each name, whose keys are joined by two underscores."""
    made = {
        str(keys): {"key_metadata": [{"key": key} for key in keys], "value_metadata": value}
        for name, value in leaves.items()
        for keys in [name.split("__")]
    }
    return json.dumps({"tree_metadata": made, "use_ocdbt": True}).encode()


def array(*shape: int) -> dict[str, object]:
    return {"value_type": "jax.Array", "write_shape": list(shape)}


def test_arrays_are_listed_without_their_values() -> None:
    made = read(tree(params__w=array(4, 2), opt_state__mu=array(2)), "10/_METADATA")
    assert (made.facts.layout, made.facts.extent) == (Layout.OCDBT, Extent.STRUCTURE_ONLY)
    assert made.facts.reason == "the values of OCDBT are not read"
    assert made.shown == {
        "params/w": ("jax.Array", (4, 2), -1),
        "opt_state/mu": ("jax.Array", (2,), -1),
    }
    assert made.tensors["params/w"].group is Group.MODEL


def test_leaves_that_are_no_arrays_are_left_out() -> None:
    made = read(tree(a={"value_type": "Dict"}, b=array(-1), c=array(3)), "_METADATA")
    assert list(made.tensors) == ["c"]


def test_a_list_that_is_cut_is_not_read() -> None:
    whole = tree(a=array(3))
    assert read(whole[:-5], "_METADATA").facts.extent is Extent.NOT_CHECKED
    assert read(b"{}", "_METADATA").facts.reason == "it lists no arrays"


def test_the_database_alone_is_named() -> None:
    made = read(b"\x0c\xdb\x3a\x2a" + bytes(60), "manifest.ocdbt")
    assert made.facts.reason == "a database of Orbax: its arrays are listed in _METADATA"
    assert DefectCode.HEADER not in made.codes
