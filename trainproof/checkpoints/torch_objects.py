"""What a torch pickle means: its tensors, where their bytes are, and what it says besides.

Reads the records of ``pickles`` and knows torch's and numpy's rebuild functions by name. Nothing
is recursive over the pickle's own nesting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Kind,
    OptimizerState,
    Scalar,
    Unread,
)

from .dtypes import DTYPES, itemsize
from .limits import LIMITS, Limits
from .pickles.allowlist import INERT, STORAGES
from .pickles.nodes import Call, Items, Node, Pairs, Persistent, arguments, path_of
from .views import BadLayout, View


class NotRead(Exception):
    """An object that is not read, with the reason."""


class Storage(msgspec.Struct, frozen=True):
    """A block of bytes that the pickle refers to: its type and its number of elements."""

    key: str
    dtype: str
    count: int

    @property
    def nbytes(self) -> int:
        return self.count * itemsize(self.dtype)


class Tensor(msgspec.Struct, frozen=True):
    """A tensor before it is measured.

    ``views``: what holds its values; several for a subclass, none for one that has no data.
    ``data``: the bytes of an array that is inside the pickle. ``shape`` None: see TensorInfo.
    """

    dtype: str
    shape: tuple[int, ...] | None
    kind: Kind
    views: tuple[View, ...] = ()
    data: bytes | None = None
    big_endian: bool = False
    subclass: str = ""
    unread: str = ""

    @property
    def nbytes(self) -> int:
        if self.shape is None or self.kind in (Kind.SPARSE, Kind.NESTED, Kind.SUBCLASS):
            return sum(view.nbytes for view in self.views)
        return math.prod(self.shape) * itemsize(self.dtype)


class Contents(msgspec.Struct):
    """Everything that one pickle holds; names as in ``TensorInfo``."""

    tensors: dict[str, Tensor] = msgspec.field(default_factory=dict)
    storages: dict[str, Storage] = msgspec.field(default_factory=dict)
    scalars: list[Scalar] = msgspec.field(default_factory=list)
    steps: dict[str, list[int | float]] = msgspec.field(default_factory=dict)
    optimizers: list[OptimizerState] = msgspec.field(default_factory=list)
    unread: list[Unread] = msgspec.field(default_factory=list)
    defects: list[Defect] = msgspec.field(default_factory=list)
    keys: tuple[str, ...] = ()


# --- tensors ----------------------------------------------------------------------------------

_Rebuild = Callable[["Tensors", list[Node]], Tensor]


class Tensors:
    """Rebuilds tensors from their calls and collects the storages that they refer to."""

    def __init__(self, contents: Contents, limits: Limits = LIMITS) -> None:
        self._contents, self._limits = contents, limits

    def tensor(self, call: Call, depth: int = 0) -> Tensor | None:
        """The tensor that a call rebuilds, None where it rebuilds something else.

        Raises NotRead, BadLayout.
        """
        rebuild = _REBUILDS.get((path_of(call.function) or "").rpartition(".")[2])
        if rebuild is None or path_of(call.function) not in INERT:
            return None
        if depth > len(_REBUILDS):
            raise NotRead("tensors inside of tensors")
        try:
            return rebuild(self, arguments(call))
        except (IndexError, ValueError):
            raise NotRead("the call that rebuilds it has other arguments") from None

    def inner(self, node: Node) -> Tensor:
        """A tensor that is an argument of another one."""
        made = self.tensor(node) if isinstance(node, Call) else None
        if made is None:
            raise NotRead("a part of it is no tensor")
        return made

    def storage(self, node: Node) -> tuple[Storage, int]:
        """A storage, and the offset that an old view of it adds, in elements."""
        if not isinstance(node, Persistent) or not isinstance(node.id, Items):
            raise NotRead("its storage is not kept as one")
        tag, kind, key, _, count, *rest = (*node.id.values, *[None] * 5)[:6]
        dtype = STORAGES.get((path_of(kind) or "").rpartition(".")[2])
        if tag != "storage" or dtype is None or not (path_of(kind) or "").startswith("torch."):
            raise NotRead(f"its storage is a {path_of(kind) or 'thing without a name'}")
        if type(count) is not int or not isinstance(key, str | int):
            raise NotRead("its storage has no size or no key")
        made = Storage(str(key)[: self._limits.label], dtype, count)
        self._declare(made)
        return made, _view_offset(rest[0])

    def _declare(self, made: Storage) -> None:
        known = self._contents.storages.setdefault(made.key, made)
        if known != made:
            what = f"{known.count} of {known.dtype} here, {made.count} of {made.dtype} there"
            self._defect(DefectCode.STORAGE_CONFLICT, what, made.key)
        if made.count < 0:
            self._defect(DefectCode.STORAGE_SIZE, f"it has {made.count} elements", made.key)

    def _defect(self, code: DefectCode, detail: str, where: str) -> None:
        defect = Defect(code, detail, where)
        defects = self._contents.defects
        if len(defects) < self._limits.defects and defect not in defects:
            defects.append(defect)

    def view(self, given: list[Node], dtype: str | None = None) -> Tensor:
        """``storage, offset, size, stride``; the type where it is not that of the storage."""
        storage, base = self.storage(given[0])
        offset, shape, stride = given[1], _sizes(given[2]), _sizes(given[3])
        if type(offset) is not int:
            raise NotRead("its offset is no number")
        dtype = dtype or storage.dtype
        capacity = storage.nbytes // itemsize(dtype)
        view = View(dtype, shape, stride, offset + base, storage.key, capacity)
        return Tensor(dtype, shape, Kind.DENSE, (view,))


def _view_offset(node: Node) -> int:
    """Of the sixth part of a storage's id in old files: ``(key, offset, size)``."""
    if node is None:
        return 0
    values = node.values if isinstance(node, Items) else []
    if len(values) != 3 or type(values[1]) is not int:
        raise NotRead("its storage is an odd view")
    return values[1]


def _sizes(node: Node) -> tuple[int, ...]:
    """A tuple of integers, or a ``torch.Size`` of one."""
    if isinstance(node, Call) and path_of(node.function) == "torch.Size":
        node = arguments(node)[0]
    if not isinstance(node, Items) or len(node.values) > LIMITS.dims:
        raise NotRead("its shape is no tuple")
    sizes = [value for value in node.values if type(value) is int]
    if len(sizes) != len(node.values):
        raise NotRead("its shape has sizes that are no numbers")
    return tuple(sizes)


def _dtype(node: Node) -> str:
    path = path_of(node) or ""
    name = path.removeprefix("torch.")
    if path == name or name not in DTYPES:
        raise NotRead(f"its element type is {path or 'no type'}")
    return name


def _dense(tensors: Tensors, given: list[Node]) -> Tensor:
    return tensors.view(given)


def _typed(tensors: Tensors, given: list[Node]) -> Tensor:
    """Version 3: an untyped storage and the type on its own."""
    return tensors.view(given, _dtype(given[6]))


def _first(tensors: Tensors, given: list[Node]) -> Tensor:
    return tensors.inner(given[0])


def _quantized(tensors: Tensors, given: list[Node]) -> Tensor:
    return replace(tensors.view(given), kind=Kind.QUANTIZED)


def _sparse(tensors: Tensors, given: list[Node]) -> Tensor:
    """``layout, (indices…, values, size, …)``: measured by its values."""
    parts = given[1].values if isinstance(given[1], Items) else []
    made = [tensors.tensor(part) for part in parts if isinstance(part, Call)]
    tensor = [one for one in made if one is not None][-1]
    sizes = [
        part
        for part in parts
        if isinstance(part, Items)
        or (isinstance(part, Call) and path_of(part.function) == "torch.Size")
    ]
    return replace(tensor, shape=_sizes(sizes[-1]), kind=Kind.SPARSE)


def _nested(tensors: Tensors, given: list[Node]) -> Tensor:
    return replace(tensors.inner(given[0]), shape=None, kind=Kind.NESTED)


def _meta(_: Tensors, given: list[Node]) -> Tensor:
    return Tensor(
        _dtype(given[0]), _sizes(given[1]), Kind.META, unread="it was saved without its values"
    )


def _wrapper(_: Tensors, given: list[Node]) -> Tensor:
    """Only sizes: the values are tensors among the attributes of the subclass."""
    subclass = path_of(given[0]) or ""
    return Tensor(_dtype(given[1]), _sizes(given[2]), Kind.SUBCLASS, subclass=subclass)


def _subclass(tensors: Tensors, given: list[Node]) -> Tensor:
    """``function, type, arguments, state``: a tensor of a class of its own."""
    tensor = tensors.inner(Call(given[0], given[2]))
    state = given[3] if len(given) > 3 else None
    parts = [tensors.inner(value) for value in _tensors_in(state)]
    views = tensor.views or tuple(view for part in parts for view in part.views)
    return replace(tensor, subclass=path_of(given[1]) or "", views=views)


def _tensors_in(state: Node) -> Iterator[Node]:
    for part in state.values if isinstance(state, Items) else [state]:
        for _, value in part.values if isinstance(part, Pairs) else []:
            name = path_of(value.function) if isinstance(value, Call) else None
            if (name or "").rpartition(".")[2] in _REBUILDS:
                yield value


def _from_numpy(_: Tensors, given: list[Node]) -> Tensor:
    array = numpy_array(given[0])
    return replace(array, kind=Kind.DENSE, dtype=_dtype(given[1]))


_REBUILDS: Mapping[str, _Rebuild] = {
    "_rebuild_tensor": _dense,
    "_rebuild_tensor_v2": _dense,
    "_rebuild_tensor_v3": _typed,
    "_rebuild_parameter": _first,
    "_rebuild_parameter_with_state": _first,
    "_rebuild_device_tensor_from_cpu_tensor": _first,
    "_rebuild_device_tensor_from_numpy": _from_numpy,
    "_rebuild_xla_tensor": _from_numpy,
    "_rebuild_qtensor": _quantized,
    "_rebuild_sparse_tensor": _sparse,
    "_rebuild_sparse_csr_tensor": _sparse,
    "_rebuild_nested_tensor": _nested,
    "_rebuild_meta_tensor_no_storage": _meta,
    "_rebuild_wrapper_subclass": _wrapper,
    "_rebuild_from_type": _subclass,
    "_rebuild_from_type_v2": _subclass,
}

# --- numpy ------------------------------------------------------------------------------------

NUMPY_TYPES: Mapping[str, str] = {
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
    "b1": "bool",
    "c8": "complex64",
    "c16": "complex128",
}


def _numpy_code(node: Node) -> str:
    """numpy's letter and size of a type, "" where it is none."""
    typed = isinstance(node, Call) and path_of(node.function) == "numpy.dtype"
    code = next(iter(arguments(node)), "") if isinstance(node, Call) and typed else ""
    return code.decode("latin-1") if isinstance(code, bytes) else str(code)


def _numpy_dtype(node: Node) -> tuple[str, bool]:
    """Name of the type, and whether it is big-endian."""
    code = _numpy_code(node)
    name = NUMPY_TYPES.get(code)
    if not isinstance(node, Call) or name is None:
        raise NotRead(f"an array of numpy type {code[:20]}" if code else "the array has no type")
    order = [state.values[1:2] for state in node.states if isinstance(state, Items)]
    return name, order[:1] == [[">"]]


def _bytes(node: Node) -> bytes:
    """A bytes object, in any of the ways in which protocols write one."""
    if isinstance(node, bytes):
        return node
    name = path_of(node.function) if isinstance(node, Call) else None
    given = arguments(node) if isinstance(node, Call) else []
    if name == "_codecs.encode" and isinstance(given[0], str):
        try:
            return given[0].encode("latin-1")
        except UnicodeEncodeError:
            raise NotRead("the bytes of the array are no bytes") from None
    if name in ("builtins.bytearray", "__builtin__.bytearray"):
        return _bytes(given[0]) if given else b""
    raise NotRead("the bytes of the array are no bytes")


def numpy_array(node: Node) -> Tensor:
    """An array inside the pickle. Raises NotRead."""
    if not isinstance(node, Call):
        raise NotRead("no array")
    try:
        if (path_of(node.function) or "").endswith("._frombuffer"):
            buffer, dtype, shape = arguments(node)[:3]
        else:
            state = node.states[0]
            _, shape, dtype, _, buffer = state.values if isinstance(state, Items) else []
        name, big = _numpy_dtype(dtype)
        data, sizes = _bytes(buffer), _sizes(shape)
    except (IndexError, ValueError):
        raise NotRead("the array is built in an unknown way") from None
    if len(data) != math.prod(sizes) * itemsize(name):
        raise BadLayout(f"{len(data)} bytes for the shape {list(sizes)[:8]} of {name}")
    return Tensor(name, sizes, Kind.ARRAY, data=data, big_endian=big)


# --- joblib -----------------------------------------------------------------------------------

JOBLIB_ARRAY = "joblib.numpy_pickle.NumpyArrayWrapper"


class JoblibArray(msgspec.Struct, frozen=True):
    """An array whose bytes follow the object that announces it. ``dtype`` None: a type that is not
    measured, ``code`` in numpy. ``itemsize`` None: its elements are objects, and a pickle follows.
    ``aligned``: whether a byte says how many to pass over first.
    """

    dtype: str | None
    code: str
    itemsize: int | None
    shape: tuple[int, ...]
    big_endian: bool
    aligned: bool

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * (self.itemsize or 0)


def joblib_array(call: Call) -> JoblibArray:
    """Raises NotRead where it is not in the form that joblib gives it.

    Source: ``joblib/numpy_pickle.py``, NumpyArrayWrapper.read_array.
    """
    state = dict(_named_items(call.states[-1] if call.states else None))
    shape, aligned = _sizes(state.get("shape")), state.get("numpy_array_alignment_bytes")
    if math.prod(shape) >= 1 << 63 or min(shape, default=0) < 0:
        raise NotRead("an array of an impossible shape")
    node, code = state.get("dtype"), _numpy_code(state.get("dtype"))
    if code in NUMPY_TYPES:
        dtype, big = _numpy_dtype(node)
        return JoblibArray(dtype, code, itemsize(dtype), shape, big, aligned is not None)
    size = None if _holds_objects(node, code) else _numpy_size(code)
    return JoblibArray(None, code, size, shape, False, aligned is not None)


_UNITS = {"V": 1, "S": 1, "a": 1, "U": 4, "M": 1, "m": 1}
"""Bytes of the unit in which numpy gives the size of its other types."""
_HAS_OBJECT = 1


def _numpy_size(code: str) -> int:
    """Raises NotRead where the type says none."""
    digits = code[1:]
    if code[:1] not in _UNITS or not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        raise NotRead(f"an array of numpy type {code[:20]}" if code else "the array has no type")
    return _UNITS[code[0]] * int(digits)


def _holds_objects(node: Node, code: str) -> bool:
    """Objects themselves, or records with a field of them, as the flags of the type tell."""
    states = node.states if isinstance(node, Call) else []
    flags = [state.values[7:8] for state in states if isinstance(state, Items)]
    return code.startswith("O") or any(
        type(one) is int and bool(one & _HAS_OBJECT) for values in flags for one in values
    )


def _named_items(node: Node) -> Iterator[tuple[str, Node]]:
    for key, value in node.values if isinstance(node, Pairs) else []:
        if isinstance(key, str):
            yield key, value


def joblib_tensor(call: Call) -> Tensor:
    """The array that a call stands for, with the bytes that followed it. Raises NotRead."""
    array, data = joblib_array(call), next(iter(call.items), None)
    if array.dtype is None or not isinstance(data, bytes):
        raise NotRead(f"an array of numpy type {array.code[:20]}")
    if len(data) != array.nbytes:
        raise NotRead("an array that was changed after its bytes")
    return Tensor(array.dtype, array.shape, Kind.ARRAY, data=data, big_endian=array.big_endian)
