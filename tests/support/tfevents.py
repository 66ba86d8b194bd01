"""A tiny writer of TensorBoard event files, without tensorboard or protobuf.

Messages are put together from their fields, so a test can also write what no real writer does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import google_crc32c

WALL = 1_700_000_000.0
FLOAT, DOUBLE = 1, 2


def masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    """A TFRecord around a payload."""
    length = struct.pack("<Q", len(payload))
    return length + checksum(length) + payload + checksum(payload)


def checksum(data: bytes) -> bytes:
    """The masked checksum as a record stores it."""
    return struct.pack("<I", masked(google_crc32c.value(data)))


def varint(value: int) -> bytes:
    """Negative numbers take ten bytes, as protobuf writes them."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A varint field."""
    return varint(field << 3) + varint(value)


def fixed32(field: int, raw: bytes) -> bytes:
    return varint(field << 3 | 5) + raw


def fixed64(field: int, raw: bytes) -> bytes:
    return varint(field << 3 | 1) + raw


def block(field: int, raw: bytes) -> bytes:
    """A length-delimited field: bytes, text or a message."""
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def event(*parts: bytes, step: int = 0, wall: float = WALL) -> bytes:
    """A framed Event; proto3 does not write a step of zero."""
    head = fixed64(1, struct.pack("<d", wall)) + (number(2, step) if step else b"")
    return frame(head + b"".join(parts))


def version() -> bytes:
    """The record every writer begins a file with."""
    return event(block(3, b"brain.Event:2"))


def summary(*values: bytes) -> bytes:
    return block(5, b"".join(block(1, value) for value in values))


def simple(tag: str, value: float) -> bytes:
    """A ``Summary.Value`` as torch, Lightning, Keras 1 and CatBoost write it."""
    return block(1, tag.encode()) + fixed32(2, struct.pack("<f", value))


def simple_raw(tag: str, raw: bytes) -> bytes:
    """A simple value from its four bytes: Python cannot hold a signalling NaN."""
    return block(1, tag.encode()) + fixed32(2, raw)


def metadata(plugin: str) -> bytes:
    return block(9, block(1, block(1, plugin.encode())))


def tensor(tag: str, proto: bytes, plugin: str | None = "scalars") -> bytes:
    """A ``Summary.Value`` as TensorFlow 2 writes it."""
    return block(1, tag.encode()) + block(8, proto) + (metadata(plugin) if plugin else b"")


def tensor_content(dtype: int, raw: bytes) -> bytes:
    """A rank-0 TensorProto with the value's own bytes."""
    return number(1, dtype) + block(2, b"") + block(4, raw)


def histogram(tag: str, size: int) -> bytes:
    """A value whose buckets are ``size`` bytes of noise."""
    buckets = bytes(i * 7 & 255 for i in range(size))
    return block(1, tag.encode()) + block(5, block(6, buckets))


def image(tag: str, size: int) -> bytes:
    return block(1, tag.encode()) + block(4, number(1, 8) + block(4, b"\x89PNG" + bytes(size)))


def scalar(tag: str, value: float, step: int, wall: float = WALL) -> bytes:
    """A framed Event with one simple value."""
    return event(summary(simple(tag, value)), step=step, wall=wall)


def scalar2(tag: str, value: float, step: int, wall: float = WALL) -> bytes:
    """A framed Event with one rank-0 float tensor."""
    proto = tensor_content(FLOAT, struct.pack("<f", value))
    return event(summary(tensor(tag, proto)), step=step, wall=wall)


def event_file(records: Iterable[bytes]) -> bytes:
    return version() + b"".join(records)
