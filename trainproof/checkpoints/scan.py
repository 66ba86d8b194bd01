"""Statistics of the elements of a tensor, in one pass over its bytes.

The bytes of an IEEE number, taken as an integer, order magnitudes; the sign bit is on top. So
four integer reductions, each at the speed of the cache and without a temporary array, say all
there is to know about a chunk without NaN and infinities:

* the signed maximum is the bit pattern of the largest value, unless all are negative;
* the unsigned maximum is that of the smallest value, unless none is negative;
* the unsigned minimum is what stands in for either of them in the one-signed cases, and zero
  where there is a zero;
* the signed minimum is the sign bit alone exactly where there is a -0.0;
* and either maximum reaches the exponent of the infinities where a value is not finite.

Only a chunk in which the last test fires is looked at element by element.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from trainproof.model.tensors import Number, TensorStats

from .dtypes import DTYPES, TABLES, DType, Family, decode

Integers = NDArray[Any]


class Scan(Protocol):
    def add(self, data: memoryview | bytes) -> None:
        """Whole elements that follow the ones already seen."""
        ...

    def stats(self) -> TensorStats: ...


def scan_of(dtype: DType, big_endian: bool = False) -> Scan:
    """An empty scan for elements of the type."""
    match dtype.family:
        case Family.IEEE:
            return (_HalfScan if dtype.bits == 16 else _IeeeScan)(dtype, big_endian)
        case Family.TABLE:
            return _TableScan(dtype)
        case Family.COMPLEX:
            return _ComplexScan(dtype, big_endian)
        case Family.INTEGER | Family.OPAQUE:
            return _IntegerScan(dtype, big_endian)


class _Range:
    """The smallest and the largest value so far."""

    __slots__ = ("max", "min")

    def __init__(self) -> None:
        self.min: Number | None = None
        self.max: Number | None = None

    def add(self, low: Number, high: Number) -> None:
        self.min = low if self.min is None else min(self.min, low)
        self.max = high if self.max is None else max(self.max, high)

    @property
    def absmax(self) -> Number | None:
        return None if self.min is None or self.max is None else max(abs(self.min), abs(self.max))


def _native(array: Integers, big_endian: bool) -> Integers:
    swapped: Integers = array.byteswap() if big_endian and array.itemsize > 1 else array
    return swapped


class _IeeeScan:
    """Floating point numbers of 64, 32, 16 or 8 bits."""

    def __init__(self, dtype: DType, big_endian: bool) -> None:
        self._dtype, self._big_endian = dtype, big_endian
        self._sign = 1 << dtype.bits - 1
        self._nan = self._posinf = self._neginf = self._zeros = self._elements = 0
        self._first: int | None = None
        self._range = _Range()
        self._bfloat16 = dtype.name == "float32"

    def add(self, data: memoryview | bytes) -> None:
        signed = _native(np.frombuffer(data, self._dtype.integer), self._big_endian)
        if not len(signed):
            return
        unsigned = signed.view(f"u{self._dtype.integer}")
        self._bfloat16 = self._bfloat16 and _fits_bfloat16(unsigned)
        smax, umax = int(signed.max()), int(unsigned.max())
        infinity = self._dtype.infinity
        if smax >= infinity or umax >= self._sign | infinity:
            unsigned = self._without_nonfinite(unsigned)
            signed = unsigned.view(self._dtype.integer)
            if len(signed):
                smax, umax = int(signed.max()), int(unsigned.max())
        self._elements += len(data) // self._dtype.size
        if len(signed):
            self._finite(signed, unsigned, smax, umax)

    def _finite(self, signed: Integers, unsigned: Integers, smax: int, umax: int) -> None:
        umin = int(unsigned.min())
        if smax >= 0 and umax >= self._sign:
            low, high = umax, smax
        else:
            low, high = (umin, smax) if smax >= 0 else (umax, umin)
        self._range.add(decode(self._dtype, low), decode(self._dtype, high))
        if not umin:  # counting takes longer than the reduction that says there is nothing to count
            self._zeros += len(unsigned) - int(np.count_nonzero(unsigned))
        if umax >= self._sign and int(signed.min()) == -self._sign:
            self._zeros += int(np.count_nonzero(unsigned == self._sign))

    def _without_nonfinite(self, unsigned: Integers) -> Integers:
        """Count NaN and infinities; the finite rest."""
        magnitude = unsigned & unsigned.dtype.type(self._sign - 1)
        bad = magnitude >= self._dtype.infinity
        if self._first is None:
            self._first = self._elements + int(bad.argmax())
        infinite = magnitude == self._dtype.infinity if self._dtype.has_infinity else bad & False
        negative = unsigned >= self._sign
        infinities = int(np.count_nonzero(infinite))
        neginf = int(np.count_nonzero(infinite & negative))
        self._nan += int(np.count_nonzero(bad)) - infinities
        self._neginf += neginf
        self._posinf += infinities - neginf
        finite: Integers = unsigned[~bad]
        return finite

    def stats(self) -> TensorStats:
        return TensorStats(
            self._elements,
            self._nan,
            self._posinf,
            self._neginf,
            self._zeros,
            self._range.min,
            self._range.max,
            self._range.absmax,
            self._first,
            self._bfloat16 and self._elements > 0,
        )


def _fits_bfloat16(unsigned: Integers) -> bool:
    """Whether the lower half of every element is zero. Numbers that were not rounded show it in
    the first few, so that all of them are looked at only where it is so."""
    few = int(np.bitwise_or.reduce(unsigned[:_FEW])) & _LOWER == 0
    return few and int(np.bitwise_or.reduce(unsigned)) & _LOWER == 0


_FEW = 256
_LOWER = 0xFFFF


class _HalfScan(_IeeeScan):
    """Numbers of 16 bits, whose range is narrow: also how many are at either end of it.

    Too small ones are counted among a few of each chunk: counting all takes longer than all else.
    """

    def __init__(self, dtype: DType, big_endian: bool) -> None:
        super().__init__(dtype, big_endian)
        unsigned = np.dtype(dtype.integer.replace("int", "uint")).type
        self._mask = unsigned(self._sign - 1)
        self._one, self._normal = unsigned(1), unsigned((dtype.infinity & -dtype.infinity) - 1)
        self._largest = self._sampled = self._subnormal = 0

    def _finite(self, signed: Integers, unsigned: Integers, smax: int, umax: int) -> None:
        super()._finite(signed, unsigned, smax, umax)
        last = self._dtype.infinity - 1
        if smax == last or umax == self._sign | last:
            self._largest += int(np.count_nonzero(unsigned & self._mask == last))
        # An odd stride, for the rows of most matrices are a multiple of a power of two.
        some = unsigned[:: len(unsigned) // _SOME | 1] & self._mask
        self._sampled += int(np.count_nonzero(some))
        some -= self._one  # zero becomes the largest number
        self._subnormal += int(np.count_nonzero(some < self._normal))

    def stats(self) -> TensorStats:
        return replace(
            super().stats(),
            largest=self._largest,
            sampled=self._sampled,
            subnormal=self._subnormal,
        )


_SOME = 1024
"""Values of a chunk that are looked at, up to twice as many."""


class _TableScan:
    """One-byte numbers: how often each of the 256 occurs says everything but the place."""

    def __init__(self, dtype: DType) -> None:
        self._values = TABLES[dtype.name]
        self._counts = np.zeros(256, np.int64)
        self._first: int | None = None

    def add(self, data: memoryview | bytes) -> None:
        array = np.frombuffer(data, np.uint8)
        counts = np.bincount(array, minlength=256)
        bad = np.isnan(self._values)
        if self._first is None and counts[bad].any():
            self._first = int(self._counts.sum()) + int(bad[array].argmax())
        self._counts += counts

    def stats(self) -> TensorStats:
        bad = np.isnan(self._values)
        present = self._values[(self._counts > 0) & ~bad]
        low, high = (float(present.min()), float(present.max())) if len(present) else (None, None)
        return TensorStats(
            elements=int(self._counts.sum()),
            nan=int(self._counts[bad].sum()),
            posinf=0,
            neginf=0,
            zeros=int(self._counts[self._values == 0].sum()),
            min=low,
            max=high,
            absmax=None if low is None or high is None else max(abs(low), abs(high)),
            first_nonfinite=self._first,
        )


class _IntegerScan:
    """Integers, flags, and packed types of which only the bytes are known."""

    def __init__(self, dtype: DType, big_endian: bool) -> None:
        self._dtype, self._big_endian = dtype, big_endian
        self._elements = self._zeros = 0
        self._range = _Range()

    def add(self, data: memoryview | bytes) -> None:
        array = _native(np.frombuffer(data, self._dtype.integer), self._big_endian)
        if not len(array):
            return
        self._elements += len(array)
        self._zeros += len(array) - int(np.count_nonzero(array))
        if self._dtype.family is Family.INTEGER:
            self._range.add(int(array.min()), int(array.max()))

    def stats(self) -> TensorStats:
        low, high, most = self._range.min, self._range.max, self._range.absmax
        return TensorStats(self._elements, 0, 0, 0, self._zeros, low, high, most)


class _ComplexScan:
    """Complex numbers: not finite where either part is not."""

    def __init__(self, dtype: DType, big_endian: bool) -> None:
        self._part = np.dtype(DTYPES[dtype.part].name).newbyteorder(">" if big_endian else "<")
        self._elements = self._nan = self._inf = self._zeros = 0
        self._first: int | None = None
        self._absmax: float | None = None

    def add(self, data: memoryview | bytes) -> None:
        parts = np.frombuffer(data, self._part).reshape(-1, 2)
        if not len(parts):
            return
        finite = np.isfinite(parts)
        bad = ~finite.all(axis=1)
        if self._first is None and bad.any():
            self._first = self._elements + int(bad.argmax())
        self._nan += int(np.count_nonzero(np.isnan(parts).any(axis=1)))
        self._inf += int(np.count_nonzero(np.isinf(parts).any(axis=1)))
        self._zeros += int(np.count_nonzero((parts == 0).all(axis=1)))
        if finite.any():
            most = float(np.abs(parts[finite]).max())
            self._absmax = most if self._absmax is None else max(self._absmax, most)
        self._elements += len(parts)

    def stats(self) -> TensorStats:
        counts = (self._elements, self._nan, self._inf, 0, self._zeros)
        return TensorStats(*counts, None, None, self._absmax, self._first)


def repeated(stats: TensorStats, times: int) -> TensorStats:
    """The statistics where a view shows every element ``times`` times. The place is lost."""
    if times == 1:
        return stats
    return replace(
        stats,
        elements=stats.elements * times,
        nan=stats.nan * times,
        posinf=stats.posinf * times,
        neginf=stats.neginf * times,
        zeros=stats.zeros * times,
        largest=stats.largest * times,
        first_nonfinite=None,
    )


def combined(first: TensorStats, second: TensorStats) -> TensorStats:
    """The statistics of the elements of both. The place is lost."""
    return TensorStats(
        first.elements + second.elements,
        first.nan + second.nan,
        first.posinf + second.posinf,
        first.neginf + second.neginf,
        first.zeros + second.zeros,
        _of(min, first.min, second.min),
        _of(max, first.max, second.max),
        _of(max, first.absmax, second.absmax),
        bfloat16=first.bfloat16 and second.bfloat16,
        largest=first.largest + second.largest,
        sampled=first.sampled + second.sampled,
        subnormal=first.subnormal + second.subnormal,
    )


def joined(first: TensorStats, second: TensorStats) -> TensorStats:
    """The statistics of the elements of the first, followed by those of the second."""
    place = first.first_nonfinite
    if place is None and second.first_nonfinite is not None:
        place = first.elements + second.first_nonfinite
    return replace(combined(first, second), first_nonfinite=place)


def _of(choose: Any, first: Number | None, second: Number | None) -> Number | None:
    known = [value for value in (first, second) if value is not None]
    chosen: Number | None = choose(known) if known else None
    return chosen
