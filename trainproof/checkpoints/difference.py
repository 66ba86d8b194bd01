"""Two tensors of the same type and shape, element by element, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from trainproof.model.tensors import Kind, TensorInfo

from .dtypes import DTYPES, DType
from .limits import LIMITS
from .source import Damage, Source

_DECODED = frozenset({"float64", "float32", "float16", "bfloat16"})
"""Types of which norms are computed; of others, only whether elements are equal."""


Reals = NDArray[np.float32] | NDArray[np.float64]

_BLOCK = 1 << 13
"""Elements whose squares are summed in their own precision: few enough for the cache, and for
single precision."""


@dataclass(frozen=True, slots=True)
class Difference:
    """See ``Twin`` for the fields. ``unread``: why nothing was compared."""

    compared: int = 0
    identical: int = 0
    norm: float = math.nan
    norm_before: float = math.nan
    distance: float = math.nan
    unread: str = ""


def difference(
    stream: BinaryIO, tensor: TensorInfo, other: BinaryIO, before: TensorInfo, budget: int
) -> Difference:
    """Compare at most ``budget`` bytes of each (at least one chunk), spread evenly over them.

    ``stream`` and ``other`` are the files that the two are in. Nothing is raised about them.
    """
    why = _obstacle(tensor) or _obstacle(before)
    if why:
        return Difference(unread=why)
    assert tensor.place is not None and before.place is not None
    tally = _Tally(DTYPES[tensor.dtype])
    try:
        ours, theirs = Source.of(stream), Source.of(other)
        for start, count in _stretches(tensor.nbytes, budget, DTYPES[tensor.dtype].size):
            here = ours.chunks(tensor.place + start, count)
            there = theirs.chunks(before.place + start, count)
            for one, two in zip(here, there, strict=True):
                tally.add(one, two)
    except Damage as damage:
        return Difference(unread=damage.what)
    except OSError as error:
        return Difference(unread=error.strerror or type(error).__name__)
    return tally.done()


def _obstacle(one: TensorInfo) -> str:
    if one.unread:
        return one.unread
    if one.kind is not Kind.DENSE or one.dtype not in DTYPES or not DTYPES[one.dtype].integer:
        return f"values of {one.kind} {one.dtype} tensors are not compared"
    return "" if one.place is not None else "its elements do not lie in one stretch of the file"


def _stretches(nbytes: int, budget: int, itemsize: int) -> Iterator[tuple[int, int]]:
    """First byte and number of bytes of what is compared."""
    chunk = LIMITS.chunk
    count = max(1, budget // chunk)
    if nbytes <= count * chunk:
        yield 0, nbytes
        return
    room = (nbytes - chunk) // itemsize
    for number in range(count):
        yield room * number // max(1, count - 1) * itemsize, chunk


class _Tally:
    """What has been seen so far."""

    def __init__(self, dtype: DType) -> None:
        self._dtype = dtype
        self._decoded = dtype.name in _DECODED
        self._compared = self._identical = 0
        self._norm = self._before = self._distance = 0.0

    def add(self, ours: memoryview, theirs: memoryview) -> None:
        one, two = (np.frombuffer(data, self._dtype.integer) for data in (ours, theirs))
        self._compared += len(one)
        self._identical += int(np.count_nonzero(one == two))
        if self._decoded:
            for at in range(0, len(one), _BLOCK):
                block = slice(at, at + _BLOCK)
                self._measure(_values(self._dtype, one[block]), _values(self._dtype, two[block]))

    def _measure(self, one: Reals, two: Reals) -> None:
        with np.errstate(all="ignore"):
            sums = _squares(one, two)
            if not all(map(math.isfinite, sums)):
                finite = np.isfinite(one) & np.isfinite(two)
                sums = _squares(one[finite].astype("f8"), two[finite].astype("f8"))
        self._norm += sums[0]
        self._before += sums[1]
        self._distance += sums[2]

    def done(self) -> Difference:
        if not self._decoded:
            return Difference(self._compared, self._identical)
        return Difference(
            self._compared,
            self._identical,
            math.sqrt(self._norm),
            math.sqrt(self._before),
            math.sqrt(self._distance),
        )


def _values(dtype: DType, array: NDArray[Any]) -> Reals:
    if dtype.name == "bfloat16":
        wide = array.view(np.uint16).astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    values: Reals = array.view(dtype.name)
    return values.astype(np.float32) if dtype.name == "float16" else values


def _squares(one: Reals, two: Reals) -> tuple[float, float, float]:
    apart = one - two
    return float(one @ one), float(two @ two), float(apart @ apart)
