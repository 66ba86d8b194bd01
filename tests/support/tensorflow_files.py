"""The two files of a TensorFlow checkpoint."""

from __future__ import annotations

import struct

import google_crc32c

from tests.support.tfevents import block, fixed32, masked, number, varint

FLOAT, TEXT = 1, 7
VALUES = struct.pack("<3f", 1.0, float("nan"), -2.0)
DATA = "ckpt-1.data-00000-of-00001"


def entry(dtype: int, shape: list[int], offset: int, data: bytes, crc: int | None = None) -> bytes:
    dims = b"".join(block(2, number(1, size)) for size in shape)
    checksum = google_crc32c.value(data) if crc is None else crc
    place = number(4, offset) + number(5, len(data))
    return (
        number(1, dtype) + block(2, dims) + place + fixed32(6, struct.pack("<I", masked(checksum)))
    )


def table(pairs: dict[bytes, bytes]) -> bytes:
    """One data block, an empty meta block, an index, a footer."""
    data = _block(pairs)
    meta = _block({})
    handle = varint(0) + varint(len(data) - 5)
    index = _block({b"\xff": handle})
    footer = varint(len(data)) + varint(len(meta) - 5)
    footer += varint(len(data) + len(meta)) + varint(len(index) - 5)
    magic = struct.pack("<Q", 0xDB4775248B80FB57)
    return data + meta + index + footer.ljust(40, b"\0") + magic


def _block(pairs: dict[bytes, bytes]) -> bytes:
    """Every key shares with the one before it what it can."""
    made, last = b"", b""
    for key, value in pairs.items():
        shared = next((n for n in range(len(last), 0, -1) if key[:n] == last[:n]), 0)
        rest = key[shared:]
        made += varint(shared) + varint(len(rest)) + varint(len(value)) + rest + value
        last = key
    return made + struct.pack("<II", 0, 1) + bytes(5)


def index(**entries: bytes) -> bytes:
    named = {f"{name}/.ATTRIBUTES/VARIABLE_VALUE".encode(): one for name, one in entries.items()}
    return table({b"": number(1, 1), **dict(sorted(named.items()))})
