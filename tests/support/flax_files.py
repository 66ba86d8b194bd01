"""What flax.serialization writes."""

from __future__ import annotations

import struct

ONE_NAN = struct.pack("<2f", 1.0, float("nan"))


def text(value: str) -> bytes:
    return bytes([0xD9, len(value)]) + value.encode()


def mapping(**items: bytes) -> bytes:
    return bytes([0x80 | len(items)]) + b"".join(text(k) + v for k, v in items.items())


def array(shape: list[int], dtype: str, data: bytes, code: int = 1) -> bytes:
    sizes = bytes([0x90 | len(shape)]) + b"".join(struct.pack(">BI", 0xCE, n) for n in shape)
    body = b"\x93" + sizes + text(dtype) + struct.pack(">BI", 0xC6, len(data)) + data
    return struct.pack(">BIB", 0xC9, len(body), code) + body
