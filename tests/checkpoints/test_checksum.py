"""Checksums of stretches that are joined."""

from __future__ import annotations

import zlib
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainproof.checkpoints.checksum import crc32, fastest_crc32, joined_crc32


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_two_stretches_have_the_checksum_of_their_bytes(first: bytes, second: bytes) -> None:
    joined = joined_crc32(crc32(first, 0), crc32(second, 0), len(second))
    assert joined == zlib.crc32(first + second)


def test_a_long_stretch_takes_no_longer_than_a_short_one() -> None:
    first = b"weights"
    zeros = bytes(3 << 20)
    assert joined_crc32(zlib.crc32(first), zlib.crc32(zeros), 3 << 20) == zlib.crc32(first + zeros)
    assert joined_crc32(zlib.crc32(first), 0, 1 << 62) >= 0


def test_all_of_them_compute_the_same() -> None:
    def nothing_there(name: str) -> ModuleType:
        raise ModuleNotFoundError(name)

    data = memoryview(b"123456789")
    slow = fastest_crc32(nothing_there)
    assert slow is zlib.crc32
    assert slow(data, 0) == crc32(data, 0) == 0xCBF43926
    assert slow(data[4:], slow(data[:4], 0)) == crc32(data[4:], crc32(data[:4], 0)) == 0xCBF43926


def test_the_fast_one_is_taken_where_it_is() -> None:
    isal = pytest.importorskip("isal.isal_zlib")
    assert crc32 is isal.crc32
