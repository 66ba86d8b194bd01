"""Trees of HDF5, and the links of a large group: heap ids in a tree, and a heap of the links.

Source: the HDF5 File Format Specification, version 3.0: "Version 2 B-trees" and "Fractal Heap".
Heaps with filters, and objects that are not managed in blocks, are left out with a fault.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import msgspec

from trainproof.model.data import FaultCode

from .source import Damage

Read = Callable[[int, int], bytes]
"""Bytes of the file, from an address on, so many. Raises Damage."""

_TREE = struct.Struct("<4sBBIHHBBQHQ")
_HEAP = struct.Struct("<4xBHHBIQQQQQQQQQQQQHQQHHQH")
_PREFIX = 10
"""Bytes of a node beside its records: signature, version, type, checksum."""
_HASH = 4
_DEPTH = 16


def links(read: Read, tree: int, heap: int, most: int) -> Iterator[bytes]:
    """The link messages of a group. ``most``: their number. Raises Damage."""
    found = _Heap.at(read, heap)
    for number, record in enumerate(records(read, tree)):
        if number >= most:
            raise Damage(FaultCode.TOO_LARGE, "more links than the limit")
        yield found.object(record[_HASH:])


# --- the tree -----------------------------------------------------------------------------------


def _bytes_for(most: int) -> int:
    """Bytes in which a number up to ``most`` is written."""
    return max(1, (most.bit_length() + 7) // 8)


class _Shape(msgspec.Struct, frozen=True):
    """How the nodes of a tree are laid out. ``counts``: bytes of a count of records; ``totals``: of
    all records below a node, by its level.
    """

    record: int
    counts: int
    totals: tuple[int, ...]

    @classmethod
    def of(cls, node: int, record: int, depth: int) -> _Shape:
        if record <= _HASH or node <= _PREFIX + record:
            raise Damage(FaultCode.CORRUPT, "the nodes of a tree have no room for a record")
        leaf = (node - _PREFIX) // record
        counts, below, totals = _bytes_for(leaf), leaf, [0]
        for level in range(1, depth + 1):
            pointer = 8 + counts + totals[-1]
            records = max((node - _PREFIX - pointer) // (record + pointer), 0)
            totals.append(_bytes_for(below) if level > 1 else 0)
            below = (records + 1) * below + records
            if level < depth:
                totals[-1] = _bytes_for(below)
        return cls(record, counts, tuple(totals))


def records(read: Read, address: int) -> Iterator[bytes]:
    """Of a tree of the second version, in no order. Raises Damage."""
    head = read(address, _TREE.size)
    mark, _, _, node, record, depth, _, _, root, count, _ = _TREE.unpack(head)
    if mark != b"BTHD" or depth > _DEPTH:
        raise Damage(FaultCode.CORRUPT, f"there is no tree at byte {address}")
    shape, seen = _Shape.of(node, record, depth), set[int]()
    stack = [(root, count, depth)] if count else []
    while stack:
        at, records, level = stack.pop()
        if at in seen:
            raise Damage(FaultCode.CORRUPT, "a tree runs in a circle")
        seen.add(at)
        data = read(at, node)
        if data[:4] != (b"BTIN" if level else b"BTLF"):
            raise Damage(FaultCode.CORRUPT, f"there is no node of a tree at byte {at}")
        body = data[6 : 6 + records * record]
        yield from (body[place : place + record] for place in range(0, len(body), record))
        if level:
            children = _children(data, 6 + records * record, records + 1, shape, level)
            stack += [(child, held, level - 1) for child, held in children]


def _children(
    data: bytes, at: int, count: int, shape: _Shape, level: int
) -> Iterator[tuple[int, int]]:
    """Address and number of records of each child."""
    width = 8 + shape.counts + shape.totals[level - 1]
    for place in range(at, at + count * width, width):
        part = data[place : place + 8 + shape.counts]
        if len(part) < 8 + shape.counts:
            raise Damage(FaultCode.CORRUPT, "a node of a tree is cut")
        yield int.from_bytes(part[:8], "little"), int.from_bytes(part[8:], "little")


# --- the heap -----------------------------------------------------------------------------------


class _Heap(msgspec.Struct, frozen=True):
    """``rows`` 0: the root is a block of data; otherwise a table of ``rows`` times ``width``."""

    read: Read
    offset_bytes: int
    length_bytes: int
    width: int
    start: int
    direct: int
    root: int
    rows: int

    @classmethod
    def at(cls, read: Read, address: int) -> _Heap:
        head = read(address, _HEAP.size)
        fields = _HEAP.unpack(head)
        filters, managed = fields[2], fields[4]
        width, start, direct, bits, _, root, rows = fields[-7:]
        plain = not filters and 0 < start <= direct and width > 0 and bits <= 64
        if head[:4] != b"FRHP" or not plain or rows > _ROWS:
            raise Damage(FaultCode.CORRUPT, f"there is no heap that can be read at byte {address}")
        length = min(_bytes_for(direct), _bytes_for(managed))
        return cls(read, (bits + 7) // 8, length, width, start, direct, root, rows)

    def object(self, id: bytes) -> bytes:
        """The bytes that an id stands for."""
        if not id or id[0] & 0x30:
            raise Damage(FaultCode.TOO_LARGE, "a link that is not in a block of its heap")
        split = 1 + self.offset_bytes
        offset = int.from_bytes(id[1:split], "little")
        length = int.from_bytes(id[split : split + self.length_bytes], "little")
        block, at = self._block(offset)
        return self.read(block + offset - at, length)

    def _block(self, offset: int) -> tuple[int, int]:
        """Address of the block that holds an offset, and the offset of its first byte."""
        table, at, rows = self.root, 0, self.rows
        for _ in range(_DEPTH):
            if not rows:
                return table, at
            row, column, at = self._cell(offset, at)
            if row >= rows:
                break
            place = table + 13 + self.offset_bytes + 8 * (row * self.width + column)
            table = int.from_bytes(self.read(place, 8), "little")
            size = self._row(row)
            rows = 0 if size <= self.direct else self._rows_of(size)
        raise Damage(FaultCode.CORRUPT, "a link is outside of its heap")

    def _row(self, row: int) -> int:
        """Bytes of each block in a row: the first two rows have the same."""
        return self.start << max(0, row - 1)

    def _rows_of(self, size: int) -> int:
        """Rows of the table that stands for so many bytes."""
        return (size // (self.start * self.width)).bit_length()

    def _cell(self, offset: int, at: int) -> tuple[int, int, int]:
        """Row and column of the block that holds an offset, and the offset of its first byte."""
        for row in range(_ROWS):
            size = self._row(row)
            if offset < at + size * self.width:
                column = (offset - at) // size
                return row, column, at + column * size
            at += size * self.width
        raise Damage(FaultCode.CORRUPT, "a link is outside of its heap")


_ROWS = 64
