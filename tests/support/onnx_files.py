"""ONNX models, written field by field."""

from __future__ import annotations

import struct

from tests.support.tfevents import block, number

FLOAT, INT64, STRING, HALF = 1, 7, 8, 10
ONE_NAN = struct.pack("<2f", 1.0, float("nan"))


def tensor(name: str, *parts: bytes, dims: tuple[int, ...] = (2,), dtype: int = FLOAT) -> bytes:
    sizes = b"".join(number(1, size) for size in dims)
    return sizes + number(2, dtype) + block(8, name.encode()) + b"".join(parts)


def external(**said: str) -> bytes:
    pairs = (block(1, key.encode()) + block(2, value.encode()) for key, value in said.items())
    return b"".join(block(13, pair) for pair in pairs) + number(14, 1)


def model(*initializers: bytes, nodes: bytes = b"") -> bytes:
    graph = nodes + b"".join(block(5, one) for one in initializers)
    return number(1, 10) + block(2, b"pytorch") + block(7, graph)


def constant(name: str, value: bytes) -> bytes:
    attribute = block(1, b"value") + block(5, value)
    return block(1, block(3, name.encode()) + block(4, b"Constant") + block(5, attribute))
