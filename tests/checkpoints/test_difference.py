"""Two tensors, element by element."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from trainproof.checkpoints.difference import Difference, difference
from trainproof.checkpoints.limits import LIMITS
from trainproof.model.tensors import Kind, Piece, TensorInfo

CHUNK = LIMITS.chunk


def compared(
    ours: NDArray[np.generic],
    theirs: NDArray[np.generic],
    dtype: str = "float32",
    budget: int = 64 * CHUNK,
    offset: int = 0,
) -> Difference:
    info = TensorInfo("w", dtype, ours.shape, ours.nbytes, "m", place=0)
    one, two = io.BytesIO(ours.tobytes()), io.BytesIO(b"\xff" * offset + theirs.tobytes())
    return difference(lambda _: one, info, lambda _: two, replace(info, place=offset), budget)


def test_elements_and_norms_are_exact() -> None:
    one, two = np.array([3.0, 4.0, 1.0], "f4"), np.array([3.0, 0.0, 1.0], "f4")
    got = compared(one, two, offset=12)
    assert got == Difference(3, 2, math.sqrt(26), math.sqrt(10), 4.0)


def test_squares_beyond_the_range_of_the_type_are_summed_all_the_same() -> None:
    one, two = np.array([3e25, 4e25], "f4"), np.array([0.0, 0.0], "f4")
    got = compared(one, two)
    assert (round(got.norm / 1e25, 4), got.norm_before) == (5.0, 0.0)


def test_many_small_elements_are_summed_in_full_precision() -> None:
    one = np.full(1 << 20, 1e-3, "f4")
    assert abs(compared(one, np.zeros_like(one)).norm / (1024 * 1e-3) - 1) < 1e-6


def test_zeros_of_either_sign_are_not_bit_by_bit_the_same() -> None:
    assert compared(np.array([0.0], "f4"), np.array([-0.0], "f4")).identical == 0


def test_equal_nans_are_the_same_and_in_no_norm() -> None:
    one, two = np.array([np.nan, 3.0], "f4"), np.array([np.nan, 5.0], "f4")
    assert compared(one, two) == Difference(2, 1, 3.0, 5.0, 2.0)


@pytest.mark.parametrize(
    ("dtype", "array"),
    [
        ("float64", np.array([3.0, 4.0], "f8")),
        ("float16", np.array([3.0, 4.0], "f2")),
        ("bfloat16", (np.array([3.0, 4.0], "f4").view("u4") >> 16).astype("u2")),
    ],
)
def test_norms_of_every_width(dtype: str, array: NDArray[np.generic]) -> None:
    zero = np.zeros_like(array)
    assert compared(array, zero, dtype) == Difference(2, 0, 5.0, 0.0, 5.0)


def test_other_types_are_compared_without_norms() -> None:
    got = compared(np.array([1, 2, 3], "i8"), np.array([1, 2, 4], "i8"), "int64")
    assert (got.compared, got.identical) == (3, 2)
    assert math.isnan(got.norm)


def test_a_large_tensor_is_compared_in_stretches_from_its_first_to_its_last_byte() -> None:
    count = 5 * CHUNK // 4 + 3
    one = np.ones(count, "f4")
    two = one.copy()
    two[0] = two[-1] = two[count // 2] = 2
    got = compared(one, two, budget=3 * CHUNK)
    assert (got.compared, got.compared - got.identical) == (3 * CHUNK // 4, 3)


def test_a_file_that_ends_early_is_told() -> None:
    info = TensorInfo("w", "float32", (2,), 8, "m", place=0)
    one, two = io.BytesIO(b"\0" * 8), io.BytesIO(b"\0" * 7)
    got = difference(lambda _: one, info, lambda _: two, info, CHUNK)
    assert (got.compared, got.unread) == (0, "bytes 0 to 8 are outside of 7 bytes")


@pytest.mark.parametrize(
    "fields",
    [
        {"place": None},
        {"kind": Kind.SPARSE},
        {"dtype": "complex64"},
        {"dtype": "float6_e2m3"},
        {"unread": "cut"},
    ],
)
def test_what_cannot_be_compared_says_why(fields: dict[str, object]) -> None:
    info = TensorInfo("w", "float32", (2,), 8, "m", place=0)
    odd = replace(info, **fields)  # type: ignore[arg-type]
    data = io.BytesIO(b"\0" * 8)
    assert difference(lambda _: data, odd, lambda _: data, info, CHUNK).unread
    assert difference(lambda _: data, info, lambda _: data, odd, CHUNK).unread


def test_a_tensor_in_pieces_is_compared_with_a_whole_one() -> None:
    values = np.arange(3 * CHUNK // 8, dtype="f4")
    data = values.tobytes()
    cut = CHUNK // 4 + 12
    files = {"b": b"xyz" + data[cut:], "a": data[:cut]}
    opened: list[str] = []

    def ours(name: str) -> io.BytesIO:
        opened.append(name)
        return io.BytesIO(files[name])

    whole = TensorInfo("w", "float32", values.shape, len(data), "m", place=0)
    pieces = (Piece("a", 0, cut), Piece("b", 3, len(data) - cut))
    parted = replace(whole, place=None, pieces=pieces)
    got = difference(ours, parted, lambda _: io.BytesIO(data), whole, 64 * CHUNK)
    assert (got.compared, got.identical, got.distance) == (len(values), len(values), 0.0)
    assert opened == ["a", "b"]


def test_a_piece_whose_file_is_not_there_leaves_it_open() -> None:
    def gone(name: str) -> io.BytesIO:
        raise FileNotFoundError(2, "No such file or directory")

    whole = TensorInfo("w", "float32", (2,), 8, "m", pieces=(Piece("a", 0, 4), Piece("b", 0, 4)))
    got = difference(gone, whole, gone, whole, CHUNK)
    assert got.unread == "No such file or directory"
