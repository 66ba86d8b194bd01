"""Every way in which torch and numpy write a tensor into a pickle."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import pickles as p
from tests.support.checkpoints import Read, read
from tests.support.zips import torch_zip
from trainproof.checkpoints import Limits
from trainproof.model.tensors import DefectCode, Kind, Safety, TensorInfo

FOUR = np.array([1.0, 2.0, 3.0, -4.0], "<f4").tobytes()
NO_HOOKS = b"\x89" + p.call("collections", "OrderedDict")


def saved(value: bytes, start: bytes = p.PROTO2) -> Read:
    return read(torch_zip(p.pickle(p.dict_({"x": value}), start), {"0": FOUR, "1": FOUR}))


def tensor(value: bytes) -> TensorInfo:
    got = saved(value)
    assert got.facts.safety is not Safety.UNSAFE
    return got.tensors["x"]


def rebuild(name: str, *arguments: bytes) -> bytes:
    return p.call("torch._utils", name, *arguments)


PLAIN = p.tensor("0", (4,))
OTHER = p.tensor("1", (4,))
SIZES = p.tuple_(p.integer(4)), p.tuple_(p.integer(1))


@pytest.mark.parametrize(
    ("value", "kind", "shape"),
    [
        (PLAIN, Kind.DENSE, (4,)),
        (rebuild("_rebuild_parameter", PLAIN, b"\x88", p.NONE), Kind.DENSE, (4,)),
        (
            rebuild("_rebuild_parameter_with_state", PLAIN, b"\x88", p.NONE, p.EMPTY_DICT),
            Kind.DENSE,
            (4,),
        ),
        (
            rebuild(
                "_rebuild_qtensor",
                p.storage("0", "QInt32Storage", 4),
                p.integer(0),
                *SIZES,
                p.tuple_(p.global_("torch", "per_tensor_affine"), p.number(0.1), p.integer(0)),
                NO_HOOKS,
            ),
            Kind.QUANTIZED,
            (4,),
        ),
        (rebuild("_rebuild_nested_tensor", PLAIN, PLAIN, PLAIN, PLAIN), Kind.NESTED, None),
        (p.storage("0", "FloatStorage", 4), Kind.STORAGE, (4,)),
        (
            p.call(
                "torch._tensor",
                "_rebuild_from_type_v2",
                p.global_("torch._utils", "_rebuild_tensor_v2"),
                p.global_("mymodel", "MyTensor"),
                p.tuple_(p.storage("0", "FloatStorage", 4), p.integer(0), *SIZES, NO_HOOKS),
                p.EMPTY_DICT,
            ),
            Kind.DENSE,
            (4,),
        ),
    ],
)
def test_tensors_of_every_kind_are_measured(
    value: bytes, kind: Kind, shape: tuple[int, ...] | None
) -> None:
    info = tensor(value)
    assert (info.kind, info.shape) == (kind, shape)
    assert info.stats is not None
    assert info.stats.elements == 4


def test_a_wrapper_is_measured_by_the_tensors_among_its_attributes() -> None:
    wrapper = p.tuple_(
        p.global_("torch.distributed.tensor", "DTensor"),
        p.global_("torch", "float32"),
        *SIZES,
    )
    info = tensor(
        p.call(
            "torch._tensor",
            "_rebuild_from_type_v2",
            p.global_("torch._utils", "_rebuild_wrapper_subclass"),
            p.global_("torch.distributed.tensor", "DTensor"),
            wrapper,
            p.dict_({"_local_tensor": PLAIN, "_spec": p.NONE, "_other": OTHER}),
        )
    )
    assert (info.kind, info.subclass) == (Kind.SUBCLASS, "torch.distributed.tensor.DTensor")
    assert info.stats is not None
    assert (info.stats.elements, info.stats.min) == (8, -4.0)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (rebuild("_rebuild_tensor_v2", p.integer(1)), "its storage is not kept as one"),
        (rebuild("_rebuild_tensor_v2"), "the call that rebuilds it has other arguments"),
        (rebuild("_rebuild_parameter", p.integer(1)), "a part of it is no tensor"),
        (
            rebuild("_rebuild_tensor_v2", p.storage("0", "OddStorage", 4), p.integer(0), *SIZES),
            "its storage is a torch.OddStorage",
        ),
        (
            rebuild("_rebuild_tensor_v2", p.storage("0", "FloatStorage", 4), p.NONE, *SIZES),
            "its offset is no number",
        ),
        (
            rebuild(
                "_rebuild_tensor_v2", p.storage("0", "FloatStorage", 4), p.integer(0), *[p.NONE] * 2
            ),
            "its shape is no tuple",
        ),
        (
            rebuild(
                "_rebuild_tensor_v2",
                p.storage("0", "FloatStorage", 4),
                p.integer(0),
                p.tuple_(p.text("4")),
                SIZES[1],
            ),
            "its shape has sizes that are no numbers",
        ),
        (
            rebuild(
                "_rebuild_meta_tensor_no_storage", p.global_("torch", "strange"), *SIZES, b"\x89"
            ),
            "its element type is torch.strange",
        ),
    ],
)
def test_what_is_not_understood_is_left_unread_with_a_reason(value: bytes, why: str) -> None:
    got = saved(value)
    assert "x" not in got.tensors
    assert why in got.facts.unread[0].reason


# --- numpy --------------------------------------------------------------------------------------


def dtype(code: str, order: str = "<") -> bytes:
    state = p.tuple_(p.integer(3), p.text(order), p.NONE, p.NONE, p.NONE)
    return p.call("numpy", "dtype", p.text(code), b"\x89", b"\x88") + state + p.BUILD


def array(code: str, shape: int, data: bytes, order: str = "<") -> bytes:
    made = p.call("numpy.core.multiarray", "_reconstruct", p.global_("numpy", "ndarray"))
    state = p.tuple_(p.integer(1), p.tuple_(p.integer(shape)), dtype(code, order), b"\x89", data)
    return made + state + p.BUILD


def encoded(data: bytes) -> bytes:
    """Bytes as protocol 2 writes them."""
    return p.call("_codecs", "encode", p.text(data.decode("latin-1")), p.text("latin1"))


@pytest.mark.parametrize("order", ["<", ">"])
def test_an_array_of_numpy_in_either_byte_order(order: str) -> None:
    raw = np.array([1.5, -2.0], f"{order}f8").tobytes()
    info = tensor(array("f8", 2, encoded(raw), order))
    assert (info.kind, info.dtype) == (Kind.ARRAY, "float64")
    assert info.stats is not None
    assert (info.stats.min, info.stats.max) == (-2.0, 1.5)


def test_an_array_of_protocol_5() -> None:
    raw = np.arange(3, dtype="<i4").tobytes()
    buffer = b"\x96" + len(raw).to_bytes(8, "little") + raw
    value = p.call(
        "numpy._core.numeric",
        "_frombuffer",
        buffer,
        dtype("i4"),
        p.tuple_(p.integer(3)),
        p.text("C"),
    )
    info = tensor(value)
    assert info.stats is not None
    assert info.stats.max == 2


def test_arrays_that_are_not_read_and_arrays_that_lie() -> None:
    assert saved(array("O8", 1, p.NONE)).facts.unread[0].reason.endswith("numpy type O8")
    assert saved(array("f8", 2, p.NONE)).facts.unread[0].reason.endswith("are no bytes")
    assert DefectCode.TENSOR_LAYOUT in saved(array("f8", 2, encoded(b"\x80abc"))).codes


# --- everything else ------------------------------------------------------------------------------


def test_attributes_of_objects_are_named_with_a_point() -> None:
    built = p.global_("mymodel", "Net") + p.EMPTY_TUPLE + b"\x81"
    built += p.tuple_(p.dict_({"_parameters": p.dict_({"w": PLAIN})}), p.NONE) + p.BUILD
    got = saved(built)
    assert list(got.tensors) == ["x/._parameters/w"]
    assert got.facts.unread[0].reason == "an object of mymodel.Net"
    assert got.facts.safety is Safety.UNKNOWN


def test_mappings_in_their_several_forms() -> None:
    pairs = p.list_(p.tuple_(p.text("a"), PLAIN), p.tuple_(p.integer(3), OTHER))
    ordered = p.call("collections", "OrderedDict", pairs)
    assert list(saved(ordered).tensors) == ["x/a", "x/3"]
    default = p.call("collections", "defaultdict", p.global_("__builtin__", "dict"))
    default += p.text("b") + PLAIN + p.SETITEM
    assert list(saved(default).tensors) == ["x/b"]


def test_names_are_bounded_together() -> None:
    data = torch_zip(p.pickle(p.dict_({"k" * 100: p.list_(PLAIN, OTHER)})), {"0": FOUR, "1": FOUR})
    got = read(data, limits=Limits(characters=150))
    assert got.tensors == {}
    assert got.facts.unread[0].reason == "more objects than the limit"


def test_a_nesting_without_end_is_left_unread() -> None:
    got = saved(p.EMPTY_LIST * 400 + b"a" * 399)
    assert got.facts.unread[0].reason == "nested more than 200 levels deep"


def test_long_lists_of_numbers_are_passed_over() -> None:
    got = saved(p.list_(*[b"K\x01"] * 100_001))
    assert got.facts.scalars == ()
    assert got.facts.unread == ()


def test_a_key_that_occurs_twice() -> None:
    pairs = [(p.text("a"), p.integer(1)), (p.text("a"), p.integer(2))]
    assert DefectCode.DUPLICATE_KEY in saved(p.dict_(pairs)).codes
