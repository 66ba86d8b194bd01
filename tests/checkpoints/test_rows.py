"""Rows of an embedding, read where they lie."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from trainproof.checkpoints.rows import LONGEST, has_rows, nearest, numbers, read_rows
from trainproof.model.tensors import Kind, TensorInfo, TensorStats

VALUES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "f4")
STATS = TensorStats(6, 0, 0, 0, 0, 1.0, 6.0, 6.0)


def matrix(values: NDArray[np.generic] = VALUES, dtype: str = "float32") -> TensorInfo:
    return TensorInfo("w", dtype, values.shape, values.nbytes, "m", STATS, place=5)


def rows(values: NDArray[np.generic], dtype: str, *places: int) -> list[list[float]]:
    info, data = matrix(values, dtype), b"?" * 5 + values.tobytes()
    return numbers(info, read_rows(lambda _: io.BytesIO(data), info, places)).tolist()


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("float32", VALUES),
        ("float64", VALUES.astype("f8")),
        ("float16", VALUES.astype("f2")),
        ("bfloat16", (VALUES.view("u4") >> 16).astype("u2")),
    ],
)
def test_rows_of_every_type(dtype: str, values: NDArray[np.generic]) -> None:
    assert rows(values, dtype, 2, 0) == [[5.0, 6.0], [1.0, 2.0]]


@pytest.mark.parametrize(
    "odd",
    [
        replace(matrix(), shape=(6,)),
        replace(matrix(), shape=(0, 2)),
        replace(matrix(), shape=(1, LONGEST)),
        replace(matrix(), dtype="int8"),
        replace(matrix(), place=None),
        replace(matrix(), stats=None),
        replace(matrix(), kind=Kind.QUANTIZED),
    ],
    ids=["vector", "empty", "wide", "integers", "nowhere", "not measured", "quantised"],
)
def test_what_has_no_rows(odd: TensorInfo) -> None:
    assert has_rows(matrix())
    assert not has_rows(odd)


def test_each_row_has_a_nearest_other_one() -> None:
    found = nearest(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [9.0, 12.0]]))
    assert found == [5.0, 0.0, 0.0, 10.0]


def test_rows_that_are_not_finite_are_no_neighbours() -> None:
    found = nearest(np.array([[0.0], [1.0], [math.inf], [math.nan]]))
    assert found[:2] == [1.0, 1.0]
    assert all(map(math.isnan, found[2:]))


@pytest.mark.parametrize("count", [0, 1])
def test_a_row_alone_has_no_neighbour(count: int) -> None:
    assert all(map(math.isnan, nearest(np.ones((count, 3)))))
