"""Arrays that are stored in chunks of equal sizes, put together in order, some rows at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Index = tuple[int, ...]
"""The number of a chunk along each dimension."""

Chunk = Callable[[Index], NDArray[Any]]
"""The elements of a chunk as unsigned integers, in the shape of all chunks."""


class Grid(msgspec.Struct, frozen=True):
    """``sizes`` of a chunk, in elements; those at the end of a dimension reach beyond ``shape``.
    At least one dimension.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    itemsize: int

    @property
    def counts(self) -> tuple[int, ...]:
        """Chunks along each dimension."""
        return counts(self.shape, self.sizes)

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.sizes) * self.itemsize

    @property
    def band_bytes(self) -> int:
        """Of the rows that a row of chunks holds."""
        return min(self.sizes[0], self.shape[0]) * math.prod(self.shape[1:]) * self.itemsize

    def indices(self) -> Iterator[Index]:
        return itertools.product(*map(range, self.counts))

    def reaches_beyond(self, index: Index) -> bool:
        three = zip(index, self.sizes, self.shape, strict=True)
        return any((at + 1) * size > end for at, size, end in three)

    def bands(self, chunk: Chunk) -> Iterator[memoryview]:
        """The bytes of the elements in order. Raises what ``chunk`` does."""
        first, *rest = self.counts
        for row in range(first):
            height = min(self.sizes[0], self.shape[0] - row * self.sizes[0])
            band = np.empty((height, *self.shape[1:]), f"u{self.itemsize}")
            for others in itertools.product(*map(range, rest)):
                into = tuple(
                    slice(at * size, min((at + 1) * size, end))
                    for at, size, end in zip(others, self.sizes[1:], self.shape[1:], strict=True)
                )
                inside = (height, *(one.stop - one.start for one in into))
                band[(slice(None), *into)] = chunk((row, *others))[tuple(map(slice, inside))]
            if band.size:
                yield band.data.cast("B")


def counts(shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Chunks along each dimension."""
    return tuple(-(-end // size) for end, size in zip(shape, sizes, strict=True))
