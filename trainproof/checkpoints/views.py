"""Tensors as views of storages: which bytes they cover, and how to measure them.

A dense view covers one stretch of its storage, in whatever order of dimensions; it is measured
while the storage passes by. Any other view is read on its own, block by block.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
from msgspec.structs import replace

from trainproof.model.tensors import TensorStats

from .dtypes import DTYPES
from .limits import LIMITS, Limits
from .scan import Scan, repeated, scan_of

MAX_ELEMENTS = 1 << 63


class BadLayout(Exception):
    """A view that no tensor can have; torch refuses to build it."""


class View(msgspec.Struct, frozen=True):
    """``shape`` and ``stride`` of equal length; ``offset`` and ``stride`` in elements.

    ``capacity``: elements of the storage. Raises BadLayout where the numbers are impossible or
    an element lies outside of the storage.
    """

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    storage: str
    capacity: int

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.stride):
            raise BadLayout(f"{len(self.shape)} sizes and {len(self.stride)} strides")
        if min((*self.shape, *self.stride, self.offset)) < 0:
            raise BadLayout("a size, a stride or the offset is negative")
        if math.prod(self.shape) >= MAX_ELEMENTS or self.offset >= MAX_ELEMENTS:
            raise BadLayout("more elements than can be counted")
        if self.elements and self.last >= self.capacity:
            what = f"element {self.last} of a storage of {self.capacity}"
            raise BadLayout(f"it reaches {what}")

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype].size

    @property
    def nbytes(self) -> int:
        return self.elements * self.itemsize

    @property
    def last(self) -> int:
        """Index in the storage of the element that lies furthest on."""
        pairs = zip(self.shape, self.stride, strict=True)
        return self.offset + sum((size - 1) * step for size, step in pairs)

    @property
    def times(self) -> int:
        """How often each element of the storage is shown: the expanded dimensions."""
        pairs = zip(self.shape, self.stride, strict=True)
        return math.prod(size for size, step in pairs if step == 0)

    def dimensions(self) -> list[tuple[int, int]]:
        """(stride, size) of the dimensions that move, innermost first."""
        pairs = zip(self.stride, self.shape, strict=True)
        return sorted((step, size) for step, size in pairs if size > 1 and step)

    def dense(self) -> tuple[int, int] | None:
        """First byte and number of bytes where the view is one stretch without holes."""
        run = 1
        for step, size in self.dimensions():
            if step != run:
                return None
            run *= size
        return self.offset * self.itemsize, run * self.itemsize

    def in_order(self) -> bool:
        """Whether the storage has the elements in the order of the flattened tensor."""
        run = 1
        for size, step in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if size > 1 and step != run:
                return False
            run *= size
        return True


class Block(msgspec.Struct, frozen=True):
    """Elements that are read together: a view with its own place, sizes and strides."""

    offset: int
    dimensions: tuple[tuple[int, int], ...]

    @property
    def span(self) -> int:
        """Elements from the first to the last one, those between included."""
        return 1 + sum((size - 1) * step for step, size in self.dimensions)


def blocks(view: View, limits: Limits = LIMITS) -> tuple[int, Iterator[Block]]:
    """How many bytes reading the view block by block takes, and the blocks."""
    most = max(1, limits.chunk // view.itemsize)
    dimensions = view.dimensions()
    inner = 0
    while inner < len(dimensions) and Block(0, (*dimensions[: inner + 1],)).span <= most:
        inner += 1
    outer = dimensions[inner + 1 :]
    cut = dimensions[inner : inner + 1]
    whole = Block(0, (*dimensions[:inner],))
    pieces = [*_pieces(cut[0], most - whole.span)] if cut else [(0, ())]
    count = len(pieces) * math.prod(size for _, size in outer)
    cost = count * max(whole.span, min(most, view.elements)) * view.itemsize
    made = (
        Block(view.offset + at + sum(place), (*whole.dimensions, *rest))
        for place in itertools.product(*(range(0, size * step, step) for step, size in outer))
        for at, rest in pieces
    )
    return max(cost, count * 4096, view.nbytes // max(view.times, 1)), made


def _pieces(
    dimension: tuple[int, int], room: int
) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
    """Cut one dimension so that each piece spans at most ``room`` more elements."""
    step, size = dimension
    each = 1 + max(0, room) // step
    for first in range(0, size, each):
        yield first * step, ((step, min(each, size - first)),)


Read = Callable[[int, int], bytes]
"""Bytes of the storage, from the given byte on, so many."""


def measure_blocks(view: View, made: Iterator[Block], read: Read, big: bool) -> TensorStats:
    """The statistics of a view that is read on its own. Raises Damage as ``read`` does."""
    dtype = DTYPES[view.dtype]
    scan = scan_of(dtype, big)
    for block in made:
        data = read(block.offset * dtype.size, block.span * dtype.size)
        scan.add(_picked(data, block, dtype.size))
    return replace(repeated(scan.stats(), view.times), first_nonfinite=None)


def _picked(data: bytes, block: Block, itemsize: int) -> bytes:
    """The elements of the block, gathered."""
    if len(data) == itemsize:
        return data
    array = np.frombuffer(data, f"V{itemsize}")
    shape = tuple(size for _, size in block.dimensions)
    strides = tuple(step * itemsize for step, _ in block.dimensions)
    return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=False).tobytes()


def shown(view: View, stats: TensorStats) -> TensorStats:
    """The statistics of a dense view, from those of the elements of the storage that it covers."""
    stats = repeated(stats, view.times)
    return stats if view.in_order() else replace(stats, first_nonfinite=None)


class Passing:
    """``count`` bytes of a dense view, which are measured while its storage passes by in pieces."""

    __slots__ = ("scan", "start", "stop", "view")

    def __init__(self, view: View, start: int, count: int, big: bool) -> None:
        self.view, self.start, self.stop = view, start, start + count
        self.scan: Scan = scan_of(DTYPES[view.dtype], big)

    def see(self, at: int, piece: memoryview) -> None:
        """The bytes of the storage from ``at`` on: whole elements, as pieces are."""
        first, last = max(self.start - at, 0), min(self.stop - at, len(piece))
        if first < last:
            self.scan.add(piece[first:last])

    def stats(self) -> TensorStats:
        """Of the elements of the storage, whatever the view makes of them."""
        return self.scan.stats()
