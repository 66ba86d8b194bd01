"""Keras files around a superblock of HDF5."""

from __future__ import annotations

import json
import struct

from tests.support.zips import Part, archive

DENSE = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 3}}


def hdf5(end: int, size: int) -> bytes:
    """A superblock of version 0 that says where the file ends, in a file of ``size`` bytes."""
    head = b"\x89HDF\r\n\x1a\n" + bytes(8) + struct.pack("<HHI", 4, 16, 0) + bytes(16)
    return (head + struct.pack("<Q", end)).ljust(size, b"\0")


def keras(*layers: object, weights: bytes | None = None) -> bytes:
    config = {"module": "keras", "class_name": "Sequential", "config": {"layers": layers}}
    return archive(
        [
            Part("metadata.json", b'{"keras_version": "3.15.1"}'),
            Part("config.json", json.dumps(config).encode()),
            Part("model.weights.h5", hdf5(100, 100) if weights is None else weights),
        ]
    )
