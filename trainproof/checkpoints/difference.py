"""Two tensors of the same type and shape, element by element, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np

from trainproof.model.tensors import TensorInfo

from .dtypes import DTYPES, DType
from .elements import DECODED, Elements, Open, Reals, obstacle, values_of
from .limits import LIMITS
from .source import Damage

_BLOCK = 1 << 13
"""Elements whose squares are summed in their own precision: few enough for the cache, and for
single precision."""


class Difference(msgspec.Struct, frozen=True):
    """See ``Twin`` for the fields. ``unread``: why nothing was compared."""

    compared: int = 0
    identical: int = 0
    norm: float = math.nan
    norm_before: float = math.nan
    distance: float = math.nan
    unread: str = ""


def difference(
    ours: Open, tensor: TensorInfo, theirs: Open, before: TensorInfo, budget: int
) -> Difference:
    """Compare at most ``budget`` bytes of each (at least one chunk), spread evenly over them.

    ``ours`` and ``theirs`` open the files that the two are in. Nothing is raised about them.
    """
    why = obstacle(tensor) or obstacle(before)
    if why:
        return Difference(unread=why)
    tally = _Tally(DTYPES[tensor.dtype])
    one, two = Elements(ours, tensor), Elements(theirs, before)
    try:
        for start, count in _stretches(tensor.nbytes, budget, DTYPES[tensor.dtype].size):
            for here, there in zip(one.chunks(start, count), two.chunks(start, count), strict=True):
                tally.add(here, there)
    except Damage as damage:
        return Difference(unread=damage.what)
    except OSError as error:
        return Difference(unread=error.strerror or type(error).__name__)
    return tally.done()


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
        self._decoded = dtype.name in DECODED  # of other types, only whether elements are equal
        self._compared = self._identical = 0
        self._norm = self._before = self._distance = 0.0

    def add(self, ours: memoryview, theirs: memoryview) -> None:
        one, two = (np.frombuffer(data, self._dtype.integer) for data in (ours, theirs))
        self._compared += len(one)
        self._identical += int(np.count_nonzero(one == two))
        if self._decoded:
            for at in range(0, len(one), _BLOCK):
                block = slice(at, at + _BLOCK)
                self._measure(
                    values_of(self._dtype, one[block]), values_of(self._dtype, two[block])
                )

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


def _squares(one: Reals, two: Reals) -> tuple[float, float, float]:
    apart = one - two
    return float(one @ one), float(two @ two), float(apart @ apart)
