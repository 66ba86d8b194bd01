"""ZIP files written byte by byte, as torch does and as nobody should."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence

import msgspec


class Part(msgspec.Struct, frozen=True):
    """One entry. What is None is filled in truthfully; the rest are lies."""

    name: str
    data: bytes
    crc: int | None = None
    local_name: str | None = None
    flags: int = 0
    local_flags: int | None = None
    deflate: bool = False
    method: int | None = None
    local_method: int | None = None
    size: int | None = None
    attributes: int = 0
    wide: bool = False
    descriptor: bool = False


def archive(
    parts: Sequence[Part], comment: bytes = b"", entries: int | None = None, wide: bool = False
) -> bytes:
    """Local entries, directory and end record; ``wide``: a 64-bit end record before it."""
    body, directory = bytearray(), bytearray()
    for part in parts:
        at = len(body)
        body += _local(part)
        directory += _central(part, at)
    count = len(parts) if entries is None else entries
    if wide:
        numbers = (count, count, len(directory), len(body))
        place = len(body) + len(directory)
        directory += struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 0, 0, 0, 0, *numbers)
        directory += struct.pack("<4sIQI", b"PK\6\7", 0, place, 1)
        end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, *[0xFFFF] * 2, *[0xFFFFFFFF] * 2, 0)
        return bytes(body + directory + end)
    end = struct.pack(
        "<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), len(comment)
    )
    return bytes(body + directory + end + comment)


def _stored(part: Part) -> bytes:
    if not part.deflate:
        return part.data
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return squeezer.compress(part.data) + squeezer.flush()


def _crc(part: Part) -> int:
    return zlib.crc32(part.data) if part.crc is None else part.crc


def _method(part: Part) -> int:
    return (8 if part.deflate else 0) if part.method is None else part.method


def _local(part: Part) -> bytes:
    name = (part.name if part.local_name is None else part.local_name).encode()
    flags = part.flags if part.local_flags is None else part.local_flags
    method = _method(part) if part.local_method is None else part.local_method
    data = _stored(part)
    numbers = (_crc(part), len(data), len(part.data) if part.size is None else part.size)
    tail = b""
    if part.descriptor:
        flags |= 8
        tail = struct.pack("<4sIII", b"PK\7\x08", *numbers)
        numbers = (0, 0, 0)
    head = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 0, flags, method, 0, 0, *numbers, len(name), 0)
    return head + name + data + tail


def _central(part: Part, at: int) -> bytes:
    name, data = part.name.encode(), _stored(part)
    size = len(part.data) if part.size is None else part.size
    extra = b""
    sizes = (len(data), size, at)
    if part.wide:
        extra = struct.pack("<HHQQQ", 1, 24, size, len(data), at)
        sizes = (0xFFFFFFFF,) * 3
    flags = part.flags | (8 if part.descriptor else 0)
    fixed = (0x0300, 0, flags, _method(part), 0, 0, _crc(part), sizes[0], sizes[1])
    rest = (len(name), len(extra), 0, 0, 0, part.attributes, sizes[2])
    return struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", *fixed, *rest) + name + extra


def torch_parts(pickle: bytes, storages: Mapping[str, bytes], root: str = "m") -> list[Part]:
    """What ``torch.save`` writes, without the padding."""
    return [
        Part(f"{root}/data.pkl", pickle, descriptor=True),
        Part(f"{root}/byteorder", b"little", descriptor=True),
        *(Part(f"{root}/data/{key}", data, descriptor=True) for key, data in storages.items()),
        Part(f"{root}/version", b"3\n", descriptor=True),
    ]


def torch_zip(pickle: bytes, storages: Mapping[str, bytes], root: str = "m") -> bytes:
    return archive(torch_parts(pickle, storages, root))
