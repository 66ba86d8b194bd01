"""Compressed files as streams: what is in them, within bounds, and what is wrong with them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Callable
from itertools import pairwise

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from trainproof.model.compression import Method, bare, method_of
from trainproof.model.data import FaultCode
from trainproof.stores.compressed import (
    Decompressed,
    Limits,
    decompressed,
    head_of,
    trouble_of,
    unsupported,
)
from trainproof.stores.interface import StoreError

COMPRESS: dict[Method, Callable[[bytes], bytes]] = {
    Method.GZIP: gzip.compress,
    Method.BZIP2: bz2.compress,
    Method.XZ: lzma.compress,
    Method.ZSTD: zstd.compress,
}
TEXT = b"".join(b'{"step": %d, "loss": %.6f}\n' % (i, 3 / (1 + i)) for i in range(9000))
ROOMY = Limits(floor=1 << 20)

each = pytest.mark.parametrize("method", Method)


def opened(data: bytes, limits: Limits = ROOMY) -> Decompressed:
    stream = decompressed(io.BytesIO(data), "a.log", limits)
    assert isinstance(stream, Decompressed)
    return stream


def told(stream: Decompressed) -> tuple[FaultCode, bool] | None:
    return None if stream.trouble is None else (stream.trouble.code, stream.trouble.fatal)


# --- recognition --------------------------------------------------------------------------------


@each
def test_the_method_is_seen_in_the_first_bytes(method: Method) -> None:
    assert method_of(COMPRESS[method](TEXT)) is method
    assert method_of(COMPRESS[method](b"")) is method
    assert unsupported(method) == ""


@pytest.mark.parametrize("data", [b"", b"loss", b"BZhello, world", b"\x1f\x8b\x07", b"\xfd7zXZ"])
def test_a_stream_that_is_not_compressed_stays_what_it_is(data: bytes) -> None:
    stream = io.BytesIO(data)
    assert decompressed(stream, "a.log") is stream
    assert (stream.tell(), trouble_of(stream)) == (0, None)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/train.log.gz", "a/train.log"),
        ("m.CSV.BZ2", "m.CSV"),
        ("x.xz", "x"),
        ("e.v2.zst", "e.v2"),
        ("a.gz/b.log", "a.gz/b.log"),
        (".gz", ".gz"),
        ("a/.xz", "a/.xz"),
        ("t.log", "t.log"),
    ],
)
def test_a_compressor_adds_one_suffix(path: str, name: str) -> None:
    assert bare(path) == name


# --- reading ------------------------------------------------------------------------------------


@each
def test_what_was_compressed_is_read(method: Method) -> None:
    stream = opened(COMPRESS[method](TEXT))
    assert stream.readline() == b'{"step": 0, "loss": 3.000000}\n'
    assert stream.tell() == 30
    assert stream.read() == TEXT[30:]
    assert (stream.read(), stream.trouble) == (b"", None)


@each
def test_members_that_were_appended_follow_one_another(method: Method) -> None:
    compress = COMPRESS[method]
    data = compress(TEXT[:100]) + compress(b"") + compress(TEXT[100:]) + bytes(512)
    stream = opened(data)
    assert (stream.read(), stream.trouble) == (TEXT, None)


@each
def test_a_step_back_and_the_end_are_found(method: Method) -> None:
    stream = opened(COMPRESS[method](TEXT))
    assert stream.seek(0, os.SEEK_END) == len(TEXT)
    assert (stream.seek(10), stream.read(20)) == (10, TEXT[10:30])
    assert stream.read() == TEXT[30:]
    assert (stream.seek(-5, os.SEEK_END), stream.read()) == (len(TEXT) - 5, TEXT[-5:])
    assert stream.trouble is None


@given(
    st.sampled_from(list(Method)),
    st.binary(max_size=3000),
    st.lists(st.tuples(st.integers(0, 3500), st.integers(0, 900)), max_size=6),
)
def test_reads_at_any_place_are_those_of_the_bytes(
    method: Method, data: bytes, places: list[tuple[int, int]]
) -> None:
    stream, plain = opened(COMPRESS[method](data)), io.BytesIO(data)
    for at, size in places:
        assert stream.seek(at) == plain.seek(at)
        assert stream.read(size) == plain.read(size)
        assert stream.tell() == plain.tell()


@each
def test_the_head_is_read_at_a_bounded_cost(method: Method) -> None:
    noise = os.urandom(3 << 20)
    assert head_of(io.BytesIO(COMPRESS[method](noise)), method, 4096) == (noise[:4096], None)
    source = io.BytesIO(COMPRESS[method](b"") * 100_000 + COMPRESS[method](TEXT))
    head, trouble = head_of(source, method, 4096)
    assert source.tell() <= 1 << 20
    assert head == b"" or trouble is None


def test_closing_closes_the_file() -> None:
    raw = io.BytesIO(gzip.compress(TEXT))
    stream = decompressed(raw, "a.log")
    stream.seek(9)
    stream.seek(3)
    stream.close()
    assert raw.closed


# --- damage -------------------------------------------------------------------------------------


@each
def test_a_cut_file_gives_what_there_is(method: Method) -> None:
    data = COMPRESS[method](TEXT)
    for size in range(20, len(data), 997):
        stream = opened(data[:size])
        assert TEXT.startswith(stream.read())
        assert told(stream) == (FaultCode.TRUNCATED, False)


@each
def test_damage_ends_the_stream_and_is_told(method: Method) -> None:
    data = bytearray(COMPRESS[method](TEXT))
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
    stream = opened(bytes(data))
    stream.read()
    assert told(stream) in ((FaultCode.CORRUPT, True), (FaultCode.TRUNCATED, False))


def test_a_wrong_checksum_is_damage() -> None:
    data = bytearray(gzip.compress(TEXT))
    data[-6] ^= 1
    stream = opened(bytes(data))
    assert TEXT.startswith(stream.read())
    assert told(stream) == (FaultCode.CORRUPT, True)


@each
def test_what_follows_the_compressed_data_is_told(method: Method) -> None:
    stream = opened(COMPRESS[method](TEXT) + b"Traceback (most recent call last):\n")
    assert stream.read() == TEXT
    assert told(stream) == (FaultCode.CORRUPT, False)


@given(st.sampled_from(list(Method)), st.data())
def test_no_damage_is_an_exception(method: Method, draw: st.DataObject) -> None:
    data = bytearray(COMPRESS[method](TEXT[:2000]))
    for at in draw.draw(st.lists(st.integers(12, len(data) - 1), max_size=5)):
        data[at] = draw.draw(st.integers(0, 255))
    stream = opened(bytes(data))
    stream.read(100)
    stream.seek(0)
    stream.read()


# --- bombs --------------------------------------------------------------------------------------


@each
def test_a_bomb_is_cut_at_its_budget(method: Method) -> None:
    bomb = COMPRESS[method](bytes(8 << 20))
    stream = opened(bomb, Limits(ratio=2, floor=1000))
    budget = max(1000, 2 * len(bomb))
    assert len(stream.read()) == budget
    assert told(stream) == (FaultCode.TOO_LARGE, True)
    assert stream.seek(0, os.SEEK_END) == budget
    assert told(stream) == (FaultCode.TOO_LARGE, True)


def test_the_budget_is_a_ratio_above_a_floor_and_below_a_total() -> None:
    limits = Limits(total=1000, ratio=10, floor=100)
    assert [limits.budget(size) for size in (0, 10, 11, 100, 101)] == [100, 100, 110, 1000, 1000]
    assert all(a <= b for a, b in pairwise(map(Limits().budget, (0, 1 << 20, 1 << 30, 1 << 40))))


def test_a_dictionary_that_does_not_fit_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    stream = opened(lzma.compress(b"x", lzma.FORMAT_XZ, filters=filters))
    assert stream.read() == b""
    assert told(stream) == (FaultCode.CORRUPT, True)


# --- the disk -----------------------------------------------------------------------------------


class Failing(io.BytesIO):
    """A stream whose disk fails after the first bytes."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if self.tell() > 30:
            raise OSError(5, "Input/output error")
        return data


def test_a_disk_that_fails_is_told_as_that() -> None:
    stream = decompressed(Failing(gzip.compress(TEXT)), "a.log")
    assert stream.read() == b""
    trouble = trouble_of(stream)
    assert trouble is not None
    assert (trouble.code, trouble.fatal) == (FaultCode.IO, True)
    assert trouble.detail == "gzip: reading failed: Input/output error"


def test_a_disk_that_fails_at_once_is_an_error_of_the_store() -> None:
    class Gone(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(StoreError, match="Input/output error"):
        decompressed(Gone(b"x"), "a.log")
