"""Datasets of HDF5 in chunks, with each index that is read."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from .hdf5_files import FLOAT, UNDEFINED, File

Matrix = NDArray[np.float32]
Encode = Callable[[bytes], bytes]

NO_FILTERS = b""


def filters(*steps: tuple[int, tuple[int, ...]], version: int = 2) -> bytes:
    """A pipeline: the number of each filter and its values."""
    if version == 2:
        made = (struct.pack("<HHH", id, 0, len(v)) + _numbers(v) for id, v in steps)
        return bytes([2, len(steps)]) + b"".join(made)
    parts = (
        struct.pack("<HHHH", id, 8, 0, len(v)) + b"deflate\0" + _numbers(v) + bytes(len(v) % 2 * 4)
        for id, v in steps
    )
    return bytes([1, len(steps)]) + bytes(6) + b"".join(parts)


def _numbers(values: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


DEFLATE = filters((1, (6,)))
ALL = filters((2, (4,)), (1, (6,)), (3, ()))


def plain(data: bytes) -> bytes:
    return data


def deflated(data: bytes) -> bytes:
    return zlib.compress(data)


def shuffled(data: bytes) -> bytes:
    """Shuffled by four bytes, deflated, and with a checksum that nobody verifies."""
    parted = np.frombuffer(data, np.uint8).reshape(-1, 4).T.tobytes()
    return zlib.compress(parted) + b"sum!"


class Chunked(msgspec.Struct):
    """A matrix in chunks of ``sizes``, which are put into the file one by one."""

    file: File
    values: Matrix
    sizes: tuple[int, int]
    encode: Encode = plain
    filters: bytes = NO_FILTERS

    def chunks(self) -> Iterator[tuple[tuple[int, int], int, int]]:
        """Number along both dimensions, address and bytes of each."""
        for index in itertools.product(*map(range, self.grid)):
            chunk = np.zeros(self.sizes, self.values.dtype)
            rows, columns = (
                slice(n * s, (n + 1) * s) for n, s in zip(index, self.sizes, strict=True)
            )
            part = self.values[rows, columns]
            chunk[: part.shape[0], : part.shape[1]] = part
            data = self.encode(chunk.tobytes())
            yield index, self.file.put(data), len(data)

    @property
    def grid(self) -> tuple[int, int]:
        rows, columns = (-(-n // s) for n, s in zip(self.values.shape, self.sizes, strict=True))
        return rows, columns

    def dataset(self, layout: bytes, most: bytes = b"") -> int:
        """``most``: the sizes that it may grow to."""
        space = struct.pack("<BBBB", 2, 2, int(bool(most)), 1)
        space += struct.pack("<2Q", *self.values.shape) + most
        messages = [(1, space), (3, FLOAT), (8, layout)]
        return self.file.new_object(*messages, *([(11, self.filters)] if self.filters else []))

    # --- indices ---

    def old_tree(self, leave_out: int = 0) -> int:
        """A tree of the first version with a node above its leaf."""
        keys = b""
        for (row, column), address, size in list(self.chunks())[leave_out:]:
            keys += struct.pack("<II3Q", size, 0, row * self.sizes[0], column * self.sizes[1], 0)
            keys += struct.pack("<Q", address)
        leaf = self.file.put(self._node(0, len(keys) // 40, keys))
        above = struct.pack("<II3QQ", 0, 0, 0, 0, 0, leaf)
        root = self.file.put(self._node(1, 1, above))
        return self.dataset(b"\x03\x02\x03" + struct.pack("<Q3I", root, *self.sizes, 4))

    def _node(self, level: int, count: int, keys: bytes) -> bytes:
        return b"TREE\x01" + struct.pack("<BH", level, count) + UNDEFINED * 2 + keys + bytes(32)

    def single(self) -> int:
        ((_, address, size),) = self.chunks()
        filtered = bool(self.filters)
        more = struct.pack("<QI", size, 0) if filtered else b""
        return self.dataset(self._new(1, more, address, 2 if filtered else 0))

    def implicit(self) -> int:
        data = [self.file.body[at : at + size] for _, at, size in self.chunks()]
        return self.dataset(self._new(2, b"", self.file.put(b"".join(data))))

    def fixed(self, page_bits: int = 10, most: bytes = b"", absent: int = 0) -> int:
        """An array, in pages where it has more entries than one page; the first are not there."""
        width = 8 if not self.filters else 16
        entries = [self._entry(*one, width) for one in self.chunks()]
        entries[:absent] = [b"\xff" * width] * absent
        page, head = 1 << page_bits, b"FADB\0" + bytes([width != 8]) + bytes(8)
        if len(entries) <= page:
            block = head + b"".join(entries) + bytes(4)
        else:
            pages = [entries[at : at + page] for at in range(0, len(entries), page)]
            bits = "".join("0" if one[0][:8] == UNDEFINED else "1" for one in pages)
            used = int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8))
            block = head + used + b"".join(bytes(4) + b"".join(one) for one in pages)
        fields = struct.pack("<QQ", len(entries), self.file.put(block))
        kind = bytes([0, width != 8, width, page_bits])
        header = self.file.put(b"FAHD" + kind + fields + bytes(4))
        return self.dataset(self._new(3, bytes([page_bits]), header), most)

    def _entry(self, _: tuple[int, int], address: int, size: int, width: int) -> bytes:
        plainly = struct.pack("<Q", address)
        return plainly if width == 8 else plainly + struct.pack("<II", size, 0)

    def new_tree(self) -> int:
        """A tree of the second version with one node."""
        records = b""
        for index, address, size in self.chunks():
            filtered = struct.pack("<II", size, 0) if self.filters else b""
            records += struct.pack("<Q", address) + filtered + struct.pack("<2Q", *index)
        count = self.grid[0] * self.grid[1]
        width, kind = len(records) // count, 11 if self.filters else 10
        leaf = self.file.put((b"BTLF\0" + bytes([kind]) + records).ljust(4096, b"\0"))
        shape = struct.pack("<BBIHHBB", 0, kind, 4096, width, 0, 100, 40)
        root = self.file.put(b"BTHD" + shape + struct.pack("<QHQ", leaf, count, count) + bytes(4))
        return self.dataset(self._new(5, bytes(6), root))

    def _new(self, kind: int, more: bytes, address: int, flags: int = 0, version: int = 4) -> bytes:
        sizes = struct.pack("<3H", *self.sizes, 4)
        return (
            bytes([version, 2, flags, 3, 2])
            + sizes
            + bytes([kind])
            + more
            + struct.pack("<Q", address)
        )


def file_of(members: Mapping[str, int], file: File) -> bytes:
    return file.new(file.new_group(members))
