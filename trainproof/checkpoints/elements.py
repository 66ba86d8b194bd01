"""The elements of a tensor that was measured before, read again where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from trainproof.model.tensors import Kind, Piece, TensorInfo

from .dtypes import DTYPES, DType
from .limits import LIMITS
from .source import Source

DECODED = frozenset({"float64", "float32", "float16", "bfloat16"})
"""Types whose elements are read as numbers."""

Reals = NDArray[np.float32] | NDArray[np.float64]

Open = Callable[[str], BinaryIO]
"""A file of a checkpoint by its artifact's name. What it raises but OSError is the caller's."""


def obstacle(one: TensorInfo) -> str:
    """Why its elements cannot be read again, "" where they can."""
    if one.unread:
        return one.unread
    if one.kind is not Kind.DENSE or one.dtype not in DTYPES or not DTYPES[one.dtype].integer:
        return f"values of {one.kind} {one.dtype} tensors are not compared"
    found = one.place is not None or one.pieces
    return "" if found else "its elements do not lie in one stretch of the file"


class Elements:
    """The bytes of a tensor, in whichever files they lie. The last of these stays open."""

    def __init__(self, open_file: Open, one: TensorInfo) -> None:
        self._open = open_file
        self._pieces = one.pieces or (Piece(one.artifact, one.place or 0, one.nbytes),)
        self._held: tuple[str, Source] | None = None

    def chunks(self, at: int, count: int) -> Iterator[memoryview]:
        """Bytes from ``at`` on, cut in the same way for any two tensors. Raises Damage, OSError."""
        if len(self._pieces) == 1:
            (piece,) = self._pieces
            yield from self._source(piece.artifact).chunks(piece.start + at, count)
            return
        for first in range(at, at + count, LIMITS.chunk):
            yield memoryview(self.read(first, min(LIMITS.chunk, at + count - first)))

    def read(self, at: int, count: int) -> bytes:
        """Raises Damage, OSError."""
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


def values_of(dtype: DType, array: NDArray[Any]) -> Reals:
    """The numbers of integers of the same width, for a type of ``DECODED``."""
    if dtype.name == "bfloat16":
        wide = array.view(np.uint16).astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    values: Reals = array.view(dtype.name)
    return values.astype(np.float32) if dtype.name == "float16" else values
