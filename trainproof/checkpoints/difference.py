"""Two tensors of the same type and shape, element by element, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from trainproof.model.tensors import Kind, Piece, TensorInfo

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


Open = Callable[[str], BinaryIO]
"""A file of a checkpoint by its artifact's name. What it raises but OSError is the caller's."""


def difference(
    ours: Open, tensor: TensorInfo, theirs: Open, before: TensorInfo, budget: int
) -> Difference:
    """Compare at most ``budget`` bytes of each (at least one chunk), spread evenly over them.

    ``ours`` and ``theirs`` open the files that the two are in. Nothing is raised about them.
    """
    why = _obstacle(tensor) or _obstacle(before)
    if why:
        return Difference(unread=why)
    tally = _Tally(DTYPES[tensor.dtype])
    one, two = _Bytes(ours, tensor), _Bytes(theirs, before)
    try:
        for start, count in _stretches(tensor.nbytes, budget, DTYPES[tensor.dtype].size):
            for here, there in zip(one.chunks(start, count), two.chunks(start, count), strict=True):
                tally.add(here, there)
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
    found = one.place is not None or one.pieces
    return "" if found else "its elements do not lie in one stretch of the file"


class _Bytes:
    """The bytes of a tensor, in whichever files they lie. The last of these stays open."""

    def __init__(self, open_file: Open, one: TensorInfo) -> None:
        self._open = open_file
        self._pieces = one.pieces or (Piece(one.artifact, one.place or 0, one.nbytes),)
        self._held: tuple[str, Source] | None = None

    def chunks(self, at: int, count: int) -> Iterator[memoryview]:
        """Equal cuts for any two tensors of one size. Raises Damage, OSError."""
        if len(self._pieces) == 1:
            (piece,) = self._pieces
            yield from self._source(piece.artifact).chunks(piece.start + at, count)
            return
        for first in range(at, at + count, LIMITS.chunk):
            yield memoryview(self._read(first, min(LIMITS.chunk, at + count - first)))

    def _read(self, at: int, count: int) -> bytes:
        parts = []
        for piece in self._pieces:
            first, last = max(at, 0), min(at + count, piece.nbytes)
            if first < last:
                parts.append(self._source(piece.artifact).read(piece.start + first, last - first))
            at -= piece.nbytes
        return b"".join(parts)

    def _source(self, artifact: str) -> Source:
        if self._held is None or self._held[0] != artifact:
            self._held = artifact, Source.of(self._open(artifact))
        return self._held[1]


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
