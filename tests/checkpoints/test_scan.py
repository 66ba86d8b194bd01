"""Statistics from integer reductions equal those of the numbers themselves."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainproof.checkpoints.dtypes import DTYPES, TABLES, decode
from trainproof.checkpoints.scan import combined, repeated, scan_of
from trainproof.model.tensors import TensorStats

KINDS = ("float16", "float32", "float64")


def measured(name: str, *pieces: bytes, big: bool = False) -> TensorStats:
    scan = scan_of(DTYPES[name], big)
    for piece in pieces:
        scan.add(piece)
    return scan.stats()


def naive(values: np.ndarray) -> TensorStats:
    finite = [float(v) for v in values if math.isfinite(v)]
    bad = [i for i, v in enumerate(values) if not math.isfinite(v)]
    return TensorStats(
        len(values),
        sum(math.isnan(v) for v in values),
        sum(v == math.inf for v in values),
        sum(v == -math.inf for v in values),
        sum(v == 0 for v in values),
        min(finite, default=None),
        max(finite, default=None),
        max(map(abs, finite), default=None),
        bad[0] if bad else None,
        bfloat16=values.dtype == np.float32 and len(values) > 0 and _narrow(values),
        largest=sum(abs(float(v)) == 65504 for v in values) * (values.dtype == np.float16),
    )


def _narrow(values: np.ndarray) -> bool:
    return not any(struct.unpack("<I", struct.pack("<f", v))[0] & 0xFFFF for v in values)


@given(
    st.sampled_from(KINDS),
    st.lists(
        st.one_of(
            st.sampled_from(
                [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 65504.0, -65504.0]
            ),
            st.floats(width=16),
        ),
        max_size=12,
    ),
    st.integers(0, 12),
    st.booleans(),
)
def test_any_floats_in_any_pieces(kind: str, values: list[float], cut: int, big: bool) -> None:
    array = np.array(values, kind)
    data = array.byteswap().tobytes() if big else array.tobytes()
    at = min(cut, len(values)) * array.itemsize
    assert measured(kind, data[:at], data[at:], big=big) == naive(array)


def test_a_tensor_of_negative_zeros_is_all_zero() -> None:
    stats = measured("float32", np.full(5, -0.0, np.float32).tobytes())
    assert (stats.zeros, stats.all_zero, stats.constant) == (5, True, True)


def test_an_empty_tensor_is_all_zero_and_not_constant() -> None:
    stats = measured("bfloat16")
    assert stats == TensorStats(0, 0, 0, 0, 0, None, None, None)
    assert stats.all_zero
    assert not stats.constant


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    values = np.array([1.5, -2.0, math.inf, -math.inf, math.nan, 0.0], np.float32)
    data = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    assert measured("bfloat16", data) == TensorStats(6, 1, 1, 1, 1, -2.0, 1.5, 2.0, 2)


@pytest.mark.parametrize(
    ("name", "pattern", "value"),
    [
        ("float8_e4m3fn", 0x7E, 448.0),
        ("float8_e4m3fn", 0x81, -(2.0**-9)),
        ("float8_e5m2", 0x7B, 57344.0),
        ("float8_e5m2", 0x01, 2.0**-16),
        ("bfloat16", 0xBF80, -1.0),
    ],
)
def test_bit_patterns_decode_to_the_values_of_the_standard(
    name: str, pattern: int, value: float
) -> None:
    assert decode(DTYPES[name], pattern) == value


def test_the_eight_bit_types_with_one_nan() -> None:
    assert TABLES["float8_e4m3fnuz"][0x7F] == 240.0
    assert TABLES["float8_e5m2fnuz"][0x7F] == 57344.0
    assert TABLES["float8_e8m0fnu"][127] == 1.0
    got = measured("float8_e4m3fnuz", bytes([0, 0x08, 0x80, 0x7F]))
    assert got == TensorStats(4, 1, 0, 0, 1, 0.0, 240.0, 240.0, 2)


def test_e4m3fn_has_a_nan_and_no_infinity() -> None:
    got = measured("float8_e4m3fn", bytes([0x38, 0x7F, 0xFF, 0x80]))
    assert got == TensorStats(4, 2, 0, 0, 1, 0.0 * -1, 1.0, 1.0, 1)


def test_integers_keep_their_full_width() -> None:
    data = np.array([0, 2**63, 2**64 - 1], np.uint64).tobytes()
    assert measured("uint64", data) == TensorStats(3, 0, 0, 0, 1, 0, 2**64 - 1, 2**64 - 1)
    swapped = np.array([-2, 1], ">i4").tobytes()
    assert measured("int32", swapped, big=True) == TensorStats(2, 0, 0, 0, 0, -2, 1, 2)


def test_a_complex_number_is_not_finite_where_a_part_is_not() -> None:
    values = np.array([1 + 2j, complex(math.nan, 1), complex(0, math.inf), 0], np.complex64)
    got = measured("complex64", values.tobytes())
    assert got == TensorStats(4, 1, 1, 0, 1, None, None, 2.0, 1)


def test_packed_types_count_zero_bytes_only() -> None:
    assert measured("float4_e2m1fn_x2", b"\0\x7f\0") == TensorStats(3, 0, 0, 0, 2, None, None, None)


def test_an_expanded_tensor_repeats_its_elements_and_loses_the_place() -> None:
    once = measured("float32", np.array([math.nan, 0.0], np.float32).tobytes())
    assert repeated(once, 3) == TensorStats(6, 3, 0, 0, 3, 0.0, 0.0, 0.0, bfloat16=True)


def test_one_element_in_the_middle_shows_that_a_tensor_was_not_rounded() -> None:
    values = np.ones(10_000, np.float32)
    assert measured("float32", values.tobytes()).bfloat16
    values[5_000] = 1.0001
    assert not measured("float32", values.tobytes()).bfloat16


def test_two_parts_of_a_tensor() -> None:
    first = measured("int8", bytes([1, 2]))
    second = measured("int8", bytes([0, 0xFD]))
    assert combined(first, second) == TensorStats(4, 0, 0, 0, 1, -3, 2, 3)


@pytest.mark.parametrize(
    ("dtype", "bits"), [("float16", 0x0400), ("bfloat16", 0x0080)], ids=["float16", "bfloat16"]
)
def test_numbers_below_the_least_normal_one_are_counted(dtype: str, bits: int) -> None:
    patterns = [0, 0x8000, 1, 0x8001, bits - 1, bits, 0x8000 | bits, bits + 1]
    stats = measured(dtype, np.array(patterns, np.uint16).tobytes())
    assert (stats.sampled, stats.subnormal, stats.zeros) == (6, 3, 2)


def test_of_many_numbers_some_are_looked_at_in_every_column() -> None:
    rows = np.full((512, 1024), 0.5, np.float16)
    rows[:, :256] = 1e-6
    stats = measured("float16", rows.tobytes())
    assert 1000 < stats.sampled < 2050
    assert stats.subnormal / stats.sampled == pytest.approx(0.25, abs=0.02)


def test_equal_tensors_are_equal_however_they_were_cut() -> None:
    data = np.random.default_rng(0).standard_normal(5000).astype(np.float16).tobytes()
    whole, cut = measured("float16", data), measured("float16", data[:3000], data[3000:])
    assert whole.sampled != cut.sampled
    assert whole == cut


def test_values_that_are_not_finite_are_not_looked_at_for_their_size() -> None:
    stats = measured("float16", np.array([0x7C00, 0x7E00, 0xFC00, 1], np.uint16).tobytes())
    assert (stats.sampled, stats.subnormal) == (1, 1)
