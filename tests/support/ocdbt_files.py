"""Databases of OCDBT and the arrays of Zarr that Orbax keeps in them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise

import google_crc32c
import msgspec
import numpy as np
from backports import zstd
from numpy.typing import NDArray

MANIFEST, NODE = 0x0CDB3A2A, 0x0CDB20DE
DATA = "d/" + "0" * 32
Array = NDArray[np.generic]


def varint(*numbers: int) -> bytes:
    made = bytearray()
    for number in numbers:
        left = number
        while left > 127:
            made.append(left & 127 | 128)
            left >>= 7
        made.append(left)
    return bytes(made)


def framed(magic: int, body: bytes, compressed: bool = False, version: int = 0) -> bytes:
    """With its length in front and its checksum behind."""
    body = zstd.compress(body) if compressed else body
    head = struct.pack(">I", magic) + struct.pack("<Q", 18 + len(body))
    data = head + bytes([version, compressed]) + body
    return data + struct.pack("<I", google_crc32c.value(data))


def names(keys: Sequence[str], *columns: Sequence[int]) -> bytes:
    """Each key cut by what it has in common with the one before."""
    common = [_common(one, two) for one, two in pairwise(keys)]
    cut = [key[shared:] for key, shared in zip(keys, [0, *common], strict=False)]
    made = varint(len(keys), *common, *map(len, cut))
    return made + b"".join(varint(*column) for column in columns) + "".join(cut).encode()


def _common(one: str, two: str) -> int:
    same = 0
    while same < min(len(one), len(two)) and one[same] == two[same]:
        same += 1
    return same


def files(*paths: str, bases: Sequence[int] = ()) -> bytes:
    return names(paths, bases or [0] * len(paths))


Place = tuple[int, int, int]
"""Number of a file, offset and length."""


def leaf(entries: Mapping[str, bytes | Place], table: bytes = files(DATA), **form: bool) -> bytes:
    keys = sorted(entries)
    values = [entries[key] for key in keys]
    apart = [one for one in values if isinstance(one, tuple)]
    lengths = [one[2] if isinstance(one, tuple) else len(one) for one in values]
    body = b"\0" + table + names(keys) + varint(*lengths)
    body += varint(*(isinstance(one, tuple) for one in values))
    body += varint(*(one[0] for one in apart), *(one[1] for one in apart))
    body += b"".join(one for one in values if not isinstance(one, tuple))
    return framed(NODE, body, **form)


def interior(children: Mapping[str, tuple[int, Place]], table: bytes = files(DATA)) -> bytes:
    """By the first key of each child: how much of it all keys below have, and where it is."""
    keys = sorted(children)
    found = [children[key] for key in keys]
    body = b"\1" + table + names(keys, [common for common, _ in found])
    for column in range(3):
        body += varint(*(place[column] for _, place in found))
    return framed(NODE, body + varint(*[0] * (3 * len(keys))))


def manifest(
    root: Place | None, table: bytes = files(DATA), kind: int = 0, compressed: bool = False
) -> bytes:
    """With one version, whose root is there."""
    config = bytes(16) + varint(kind, 1024, 100_000_000) + b"\4\1" + bytes(4)
    offset, length = (root[1], root[2]) if root else ((1 << 64) - 1, (1 << 64) - 1)
    version = varint(1, 1) + b"\0" + varint(root[0] if root else 0, offset, length, 0, 0, 0)
    body = config + table + version + bytes(8) + varint(0)
    return framed(MANIFEST, body, compressed)


class Database(msgspec.Struct):
    """One file of data, and its manifest. ``compressed``: nodes and chunks, by zstandard."""

    compressed: bool = False
    entries: dict[str, bytes | Place] = msgspec.field(default_factory=dict)
    data: bytearray = msgspec.field(default_factory=bytearray)

    def put(self, data: bytes) -> Place:
        at = len(self.data)
        self.data += data
        return 0, at, len(data)

    def array(
        self, name: str, values: Array, chunks: Sequence[int], *, left_out: Sequence[str] = ()
    ) -> None:
        """An array of the second version of Zarr, each chunk in the file of data."""
        self.entries[f"{name}/.zarray"] = described(
            values, chunks, {"compressor": {"id": "zstd"} if self.compressed else None}
        )
        for key, data in chunks_of(values, chunks).items():
            if key not in left_out:
                packed = zstd.compress(data) if self.compressed else data
                self.entries[f"{name}/{key}"] = self.put(packed)

    def files(self) -> dict[str, bytes]:
        root = self.put(leaf(self.entries, compressed=self.compressed))
        listed = manifest(root, compressed=self.compressed)
        return {"manifest.ocdbt": listed, DATA: bytes(self.data)}


def described(values: Array, chunks: Sequence[int], more: Mapping[str, object]) -> bytes:
    said = {
        "shape": list(values.shape),
        "chunks": list(chunks),
        "dtype": values.dtype.str,
        "order": "C",
        "filters": None,
        "compressor": None,
        "fill_value": None,
        "zarr_format": 2,
    }
    return json.dumps({**said, **more}).encode()


def chunks_of(values: Array, sizes: Sequence[int]) -> dict[str, bytes]:
    """The chunks by the numbers of each, filled up to their size."""
    made = {}
    counts = [-(-n // size) for n, size in zip(values.shape, sizes, strict=True)]
    for index in np.ndindex(*counts):
        chunk = np.zeros(sizes, values.dtype)
        where = tuple(slice(n * s, (n + 1) * s) for n, s in zip(index, sizes, strict=True))
        part = values[where]
        chunk[tuple(map(slice, part.shape))] = part
        made[".".join(map(str, index)) or "0"] = chunk.tobytes()
    return made


def tree(*arrays: str, database: bool = True) -> bytes:
    """``_METADATA`` with the arrays, the keys of whose names are joined by dots."""
    made = {
        str(keys): {
            "key_metadata": [{"key": key} for key in keys],
            "value_metadata": {"value_type": "jax.Array", "write_shape": [1]},
        }
        for keys in (name.split(".") for name in arrays)
    }
    return json.dumps({"tree_metadata": made, "use_ocdbt": database}).encode()
