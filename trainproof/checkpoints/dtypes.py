"""Element types: how many bits, and how their bytes are measured."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec
import numpy as np
from numpy.typing import NDArray


class Family(StrEnum):
    """How the values of a type are found in its bytes.

    IEEE: sign, exponent, magnitude; larger magnitudes are larger integers. TABLE: one byte that
    a table decodes. INTEGER: a numpy integer. COMPLEX: two IEEE numbers. OPAQUE: packed parts of
    a byte, or bits without a meaning; only whole zero bytes are counted.
    """

    IEEE = "ieee"
    TABLE = "table"
    INTEGER = "integer"
    COMPLEX = "complex"
    OPAQUE = "opaque"


class DType(msgspec.Struct, frozen=True):
    """One element type under torch's name for it.

    ``bits`` of one element. ``integer``: numpy's name of the integer of that width, signed where
    the type is. ``infinity``: the bit pattern of the smallest non-finite magnitude, IEEE only.
    ``has_infinity``: False for the one type whose only non-finite pattern is NaN.
    ``part``: the type of the two parts, COMPLEX only.
    """

    name: str
    bits: int
    family: Family
    integer: str = ""
    infinity: int = 0
    has_infinity: bool = True
    part: str = ""

    @property
    def size(self) -> int:
        """Bytes of one element; 0 where elements share bytes."""
        return self.bits // 8


def _ieee(name: str, bits: int, infinity: int, has_infinity: bool = True) -> DType:
    return DType(name, bits, Family.IEEE, f"int{bits}", infinity, has_infinity)


def _integer(name: str, integer: str) -> DType:
    return DType(name, np.dtype(integer).itemsize * 8, Family.INTEGER, integer)


_ALL = (
    _ieee("float64", 64, 0x7FF << 52),
    _ieee("float32", 32, 0x7F80_0000),
    _ieee("float16", 16, 0x7C00),
    _ieee("bfloat16", 16, 0x7F80),
    _ieee("float8_e5m2", 8, 0x7C),
    _ieee("float8_e4m3fn", 8, 0x7F, has_infinity=False),
    DType("float8_e4m3fnuz", 8, Family.TABLE, "uint8"),
    DType("float8_e5m2fnuz", 8, Family.TABLE, "uint8"),
    DType("float8_e8m0fnu", 8, Family.TABLE, "uint8"),
    *(
        _integer(f"{sign}int{bits}", f"{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    ),
    _integer("bool", "uint8"),
    _integer("quint8", "uint8"),
    _integer("qint8", "int8"),
    _integer("qint32", "int32"),
    DType("complex32", 32, Family.COMPLEX, part="float16"),
    DType("complex64", 64, Family.COMPLEX, part="float32"),
    DType("complex128", 128, Family.COMPLEX, part="float64"),
    DType("bits8", 8, Family.OPAQUE, "uint8"),
    DType("bits16", 16, Family.OPAQUE, "uint16"),
    DType("float4_e2m1fn_x2", 8, Family.OPAQUE, "uint8"),
    DType("bits1x8", 8, Family.OPAQUE, "uint8"),
    DType("bits2x4", 8, Family.OPAQUE, "uint8"),
    DType("bits4x2", 8, Family.OPAQUE, "uint8"),
)

DTYPES: Mapping[str, DType] = {one.name: one for one in _ALL}
"""By torch's name, without ``torch.``"""


def itemsize(name: str) -> int:
    """Bytes of one element of a type of ``DTYPES``."""
    return DTYPES[name].size


def _eight_bits(exponent_bits: int, bias: int) -> NDArray[np.float64]:
    """Value of each byte: sign, exponent, mantissa; subnormal at exponent 0; 0x80 is NaN."""
    mantissa_bits = 7 - exponent_bits
    pattern = np.arange(256)
    sign = np.where(pattern & 0x80, -1.0, 1.0)
    exponent = (pattern & 0x7F) >> mantissa_bits
    fraction = (pattern & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    scale = np.exp2(np.maximum(exponent, 1) - bias)
    values: NDArray[np.float64] = sign * scale * (fraction + (exponent > 0))
    values[0x80] = np.nan
    return values


def _powers() -> NDArray[np.float64]:
    """E8M0: 2 to the power of the byte less 127; 0xff is NaN. It has neither sign nor zero."""
    values: NDArray[np.float64] = np.exp2(np.arange(256) - 127.0)
    values[0xFF] = np.nan
    return values


TABLES: Mapping[str, NDArray[np.float64]] = {
    "float8_e4m3fnuz": _eight_bits(4, 8),
    "float8_e5m2fnuz": _eight_bits(5, 16),
    "float8_e8m0fnu": _powers(),
}
"""The 256 values of each TABLE type, float64 (256,)."""


def decode(dtype: DType, pattern: int) -> float:
    """The value of one finite bit pattern of an IEEE type."""
    if dtype.name in ("float16", "float32", "float64"):
        return float(np.array([pattern], f"uint{dtype.bits}").view(dtype.name)[0])
    if dtype.name == "bfloat16":
        return float(np.array([pattern << 16], "uint32").view("float32")[0])
    if dtype.name == "float8_e5m2":
        return float(np.array([pattern << 8], "uint16").view("float16")[0])
    return _e4m3fn(pattern)


def _e4m3fn(pattern: int) -> float:
    """Sign, 4 exponent bits of bias 7, 3 mantissa bits."""
    exponent, mantissa = pattern >> 3 & 15, pattern & 7
    value = float(np.ldexp(mantissa + (8 if exponent else 0), max(exponent, 1) - 10))
    return -value if pattern & 0x80 else value
