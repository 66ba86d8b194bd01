"""Single rows of an embedding, read again where they lie: how far they are from one another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainproof.model.tensors import TensorInfo

from .dtypes import DTYPES
from .elements import DECODED, Elements, Open, obstacle, values_of

Rows = NDArray[np.float64]

LONGEST = 64 << 10
"""Bytes of a row: the widest embeddings have a quarter of that."""


def has_rows(one: TensorInfo) -> bool:
    """Whether it is a matrix whose rows can be read."""
    shape = one.shape or ()
    plain = len(shape) == 2 and min(shape) > 0 and one.dtype in DECODED and not obstacle(one)
    return plain and one.stats is not None and _width(one) <= LONGEST


def read_rows(open_file: Open, one: TensorInfo, places: Sequence[int]) -> list[bytes]:
    """The bytes of each row. Raises Damage, OSError."""
    width, elements = _width(one), Elements(open_file, one)
    return [elements.read(place * width, width) for place in places]


def _width(one: TensorInfo) -> int:
    assert one.shape is not None
    return one.shape[1] * DTYPES[one.dtype].size


def numbers(one: TensorInfo, rows: Sequence[bytes]) -> Rows:
    """float64 (rows, columns)."""
    dtype = DTYPES[one.dtype]
    array = np.frombuffer(b"".join(rows), dtype.integer)
    return values_of(dtype, array).astype(np.float64).reshape(len(rows), -1)


def nearest(rows: Rows) -> list[float]:
    """Euclidean distance of each row to the nearest other one; NaN where there is none that is
    finite."""
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
        apart = squares[:, None] + squares[None, :] - 2 * (rows @ rows.T)
    np.fill_diagonal(apart, np.nan)
    finite = np.where(np.isfinite(apart), np.maximum(apart, 0.0), np.inf)
    least = finite.min(axis=1, initial=np.inf)
    return [math.sqrt(one) if math.isfinite(one) else math.nan for one in least]
