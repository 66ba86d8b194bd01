"""The number in a rank-0 ``TensorProto``, whatever its type and encoding.

Field and type numbers: TensorFlow's ``core/framework/tensor.proto`` and ``types.proto``.
"""

from __future__ import annotations

import struct

import msgspec

from .wire import BYTES, FIXED32, FIXED64, VARINT, Malformed, fields, key, varint

_DTYPE = key(1, VARINT)
_SHAPE = key(2, BYTES)
_CONTENT = key(4, BYTES)


class DType(msgspec.Struct, frozen=True):
    """A numeric type: the struct code and width of its bytes, its ``*_val`` field.

    ``kind``: the wire type of one value of that field; they may also be packed.
    """

    code: str
    width: int
    field: int
    kind: int = VARINT

    @property
    def fixed(self) -> bool:
        return self.kind != VARINT


_BFLOAT16 = 14
_DTYPES = {
    1: DType("<f", 4, 5, FIXED32),
    2: DType("<d", 8, 6, FIXED64),
    3: DType("<i", 4, 7),
    4: DType("<B", 1, 7),
    5: DType("<h", 2, 7),
    6: DType("<b", 1, 7),
    9: DType("<q", 8, 10),
    10: DType("<?", 1, 11),
    _BFLOAT16: DType("<f", 2, 13),
    17: DType("<H", 2, 7),
    19: DType("<e", 2, 13),
    22: DType("<I", 4, 16),
    23: DType("<Q", 8, 17),
}


class Number(msgspec.Struct, frozen=True):
    """A value and, where its bytes are a plain float, their place and numpy type."""

    value: float
    at: int = -1
    form: str = ""


def scalar(data: bytes, at: int, end: int) -> Number | None:
    """The number in the tensor ``data[at:end]``; None when it is no numeric scalar.

    An absent shape is rank 0; a tensor without any value is zero, as TensorFlow reads both.
    Raises Malformed or IndexError on bytes that are no message.
    """
    number, content, shaped = 0, (0, 0), False
    values: list[tuple[int, int, int]] = []
    for tag, start, stop in fields(data, at, end):
        if tag == _DTYPE:
            number = varint(data, start)[0]
        elif tag == _SHAPE:
            shaped = shaped or stop > start
        elif tag == _CONTENT:
            content = start, stop
        elif stop > start:
            values.append((tag, start, stop))
    dtype = _DTYPES.get(number)
    if dtype is None or shaped:
        return None
    if content[1] > content[0]:
        return _in_place(data, number, dtype, *content)
    return _listed(data, number, dtype, values)


def _in_place(data: bytes, number: int, dtype: DType, start: int, stop: int) -> Number | None:
    """The value whose own bytes are ``data[start:stop]``."""
    if stop - start != dtype.width:
        return None
    value = _unpack(number, dtype, data[start:stop])
    return Number(value, start, f"<f{dtype.width}") if dtype.fixed else Number(value)


def _listed(
    data: bytes, number: int, dtype: DType, values: list[tuple[int, int, int]]
) -> Number | None:
    """The one value of the type's ``*_val`` field, packed or not; several are no scalar."""
    keys = key(dtype.field, dtype.kind), key(dtype.field, BYTES)
    mine = [(start, stop) for tag, start, stop in values if tag in keys]
    if not mine:
        return Number(0.0)
    if len(mine) > 1:
        return None
    start, stop = mine[0]
    if dtype.fixed:
        return _in_place(data, number, dtype, start, stop)
    value, after = varint(data, start)
    if after > stop:
        raise Malformed("a packed value leaves its field")
    if after < stop:
        return None
    low = value & ((1 << 8 * dtype.width) - 1)
    return Number(_unpack(number, dtype, low.to_bytes(dtype.width, "little")))


def _unpack(number: int, dtype: DType, raw: bytes) -> float:
    if number == _BFLOAT16:  # the upper half of a float
        raw = b"\0\0" + raw
    return float(struct.unpack(dtype.code, raw)[0])
