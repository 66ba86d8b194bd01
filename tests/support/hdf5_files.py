"""HDF5 files, structure by structure: old and new superblocks, headers and groups."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import msgspec

MARK = b"\x89HDF\r\n\x1a\n"
UNDEFINED = b"\xff" * 8
FLOAT = bytes([0x11, 0x20, 31, 0]) + struct.pack("<IHHBBBBI", 4, 0, 32, 23, 8, 0, 23, 127)
"""The type of little-endian numbers of 32 bits."""


def _words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


class File(msgspec.Struct):
    """``body`` begins behind the room for a superblock."""

    body: bytearray = msgspec.field(default_factory=lambda: bytearray(96))

    def put(self, data: bytes) -> int:
        """Where the data were put."""
        at = len(self.body)
        self.body += data.ljust(-(-len(data) // 8) * 8, b"\0")
        return at

    # --- objects ---

    def old_object(self, *messages: tuple[int, bytes]) -> int:
        body = b"".join(
            struct.pack("<HHB3x", kind, len(padded), 0) + padded
            for kind, data in messages
            for padded in [data.ljust(-(-len(data) // 8) * 8, b"\0")]
        )
        return self.put(struct.pack("<BxHIIxxxx", 1, len(messages), 1, len(body)) + body)

    def new_object(self, *messages: tuple[int, bytes]) -> int:
        body = b"".join(struct.pack("<BHB", kind, len(d), 0) + d for kind, d in messages)
        return self.put(b"OHDR\x02\x02" + struct.pack("<I", len(body)) + body + bytes(4))

    def dataset(self, values: Sequence[float], new: bool = False, kind: bytes = FLOAT) -> int:
        """Numbers of 32 bits that lie in one row."""
        data = struct.pack(f"<{len(values)}f", *values)
        layout = b"\x03\x01" + _words(self.put(data), len(data))
        return self.described(len(values), layout, new, kind)

    def described(self, count: int, layout: bytes, new: bool = False, kind: bytes = FLOAT) -> int:
        space = b"\x01\x01\0\0\0\0\0\0" + _words(count)
        make = self.new_object if new else self.old_object
        return make((1, space), (3, kind), (8, layout))

    # --- groups ---

    def old_group(self, members: Mapping[str, int]) -> int:
        """A table of symbols."""
        heap, places = b"\0" * 8, {}
        for name in members:
            places[name] = len(heap)
            heap += name.encode() + b"\0"
        names = self.put(b"HEAP\0\0\0\0" + _words(len(heap), 0, self.put(heap)))
        entries = b"".join(_words(places[n], at) + bytes(24) for n, at in members.items())
        table = self.put(b"SNOD\x01\0" + struct.pack("<H", len(members)) + entries)
        tree = b"TREE\0\0" + struct.pack("<H", 1) + UNDEFINED * 2 + _words(0, table, 8)
        return self.old_object((17, _words(self.put(tree), names)))

    def new_group(self, members: Mapping[str, int]) -> int:
        """Links in the header."""
        return self.new_object(*((6, link(name, at)) for name, at in members.items()))

    def indexed_group(self, members: Mapping[str, int]) -> int:
        """Links in a heap of one block, found by a tree of one node."""
        block, ids = b"FHDB".ljust(21, b"\0"), []
        for name, at in members.items():
            data = link(name, at)
            ids.append(b"\0" + struct.pack("<IH", len(block), len(data)))
            block += data
        root = self.put(block.ljust(512, b"\0"))
        sizes = struct.pack("<HQQHHQH", 4, 512, 65536, 32, 1, root, 0)
        heap = self.put(b"FRHP\0" + struct.pack("<HHBI", 7, 0, 0, 4096) + bytes(96) + sizes)
        records = b"".join(bytes(4) + one for one in ids)
        leaf = self.put((b"BTLF\0\x05" + records).ljust(512, b"\0"))
        shape = struct.pack("<BBIHHBB", 0, 5, 512, 11, 0, 100, 40)
        count = struct.pack("<QHQ", leaf, len(ids), len(ids))
        tree = self.put(b"BTHD" + shape + count + bytes(4))
        return self.new_object((2, b"\0\0" + _words(heap, tree)))

    # --- the whole ---

    def old(self, root: int, end: int | None = None) -> bytes:
        """With a superblock of version 0, which says where the file ends."""
        length = len(self.body) if end is None else end
        head = MARK + bytes(5) + b"\x08\x08\0" + struct.pack("<HHI", 4, 16, 0)
        head += _words(0) + UNDEFINED + _words(length) + UNDEFINED + _words(0, root)
        return bytes(head.ljust(96, b"\0") + self.body[96:])

    def new(self, root: int) -> bytes:
        """With a superblock of version 2."""
        head = MARK + b"\x02\x08\x08\0" + _words(0) + UNDEFINED + _words(len(self.body), root)
        return bytes(head.ljust(96, b"\0") + self.body[96:])


def link(name: str, at: int) -> bytes:
    return b"\x01\0" + bytes([len(name)]) + name.encode() + _words(at)


def one(values: Sequence[float] = (1.0, float("nan")), end: int | None = None) -> bytes:
    """A file with one dataset, ``layers/w``."""
    file = File()
    layers = file.old_group({"w": file.dataset(values)})
    return file.old(file.old_group({"layers": layers}), end)
