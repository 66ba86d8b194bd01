"""Pickles written opcode by opcode, among them those that no pickler writes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

MARK, STOP, REDUCE, TUPLE, BUILD, NONE = b"(", b".", b"R", b"t", b"b", b"N"
EMPTY_DICT, SETITEMS, SETITEM, EMPTY_LIST, EMPTY_TUPLE = b"}", b"u", b"s", b"]", b")"
STACK_GLOBAL, BINPERSID, APPENDS = b"\x93", b"Q", b"e"
PROTO2, PROTO4 = b"\x80\x02", b"\x80\x04"


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def integer(value: int) -> bytes:
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(16, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def number(value: float) -> bytes:
    return b"G" + struct.pack(">d", value)


def global_(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def tuple_(*values: bytes) -> bytes:
    return MARK + b"".join(values) + TUPLE


def list_(*values: bytes) -> bytes:
    return EMPTY_LIST + MARK + b"".join(values) + APPENDS


def dict_(items: Mapping[str, bytes] | Sequence[tuple[bytes, bytes]]) -> bytes:
    pairs = [(text(k), v) for k, v in items.items()] if isinstance(items, Mapping) else items
    return EMPTY_DICT + MARK + b"".join(k + v for k, v in pairs) + SETITEMS


def call(module: str, name: str, *arguments: bytes) -> bytes:
    return global_(module, name) + tuple_(*arguments) + REDUCE


def storage(key: str, kind: str, count: int) -> bytes:
    module = "torch.storage" if kind == "UntypedStorage" else "torch"
    parts = text("storage"), global_(module, kind), text(key), text("cpu"), integer(count)
    return tuple_(*parts) + BINPERSID


def tensor(
    key: str,
    shape: Sequence[int],
    *,
    kind: str = "FloatStorage",
    count: int | None = None,
    offset: int = 0,
    stride: Sequence[int] | None = None,
) -> bytes:
    """``_rebuild_tensor_v2`` of a view, contiguous unless ``stride`` says otherwise."""
    run, contiguous = 1, []
    for size in reversed(shape):
        contiguous.insert(0, run)
        run *= size
    return call(
        "torch._utils",
        "_rebuild_tensor_v2",
        storage(key, kind, run if count is None else count),
        integer(offset),
        tuple_(*map(integer, shape)),
        tuple_(*map(integer, contiguous if stride is None else stride)),
        b"\x89",
        call("collections", "OrderedDict"),
    )


def typed_tensor(key: str, count: int, dtype: str, itemsize: int) -> bytes:
    """``_rebuild_tensor_v3``: an untyped storage and the element type beside it."""
    return call(
        "torch._utils",
        "_rebuild_tensor_v3",
        storage(key, "UntypedStorage", count * itemsize),
        integer(0),
        tuple_(integer(count)),
        tuple_(integer(1)),
        b"\x89",
        call("collections", "OrderedDict"),
        global_("torch", dtype),
    )


def pickle(value: bytes, start: bytes = PROTO2) -> bytes:
    return start + value + STOP


EVIL = call("posix", "getpid")
"""A harmless function that stands for any other one of its module."""
