"""OCDBT, the database of TensorStore that Orbax keeps arrays in: a tree of keys, in several files.

Source: TensorStore documentation, "ocdbt Key-Value Store driver": storage format. Read is the
newest version of a manifest that lists its versions itself. The checksum of every node is verified;
values have none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

import google_crc32c
import msgspec

from trainproof.model.data import FaultCode

from .limits import LIMITS, Limits
from .source import Damage, Source
from .zstandard import unpack

MANIFEST = "manifest.ocdbt"
_MANIFEST, _NODE = 0x0CDB3A2A, 0x0CDB20DE
_MISSING = (1 << 64) - 1
_DEPTH = 32
_MASK = (1 << 64) - 1

Spend = Callable[[int], bool]
"""Whether so many more bytes may be unpacked."""


class Value(msgspec.Struct, frozen=True):
    """Where a value lies: ``length`` bytes from ``offset`` on of the file ``path``; or, where that
    is "", the bytes themselves."""

    path: str
    offset: int
    length: int
    inline: bytes = b""


class _Place(msgspec.Struct, frozen=True):
    """Of a node. ``base``: what comes before the paths of files that it names."""

    path: str
    offset: int
    length: int
    base: str


Files = Callable[[str], Source]
"""A file of the database by its path there. Raises OSError."""


def read_database(files: Files, spend: Spend, limits: Limits = LIMITS) -> dict[str, Value]:
    """All keys with their values. Raises Damage, OSError, NoZstandard."""
    manifest = files(MANIFEST)
    body = _body(manifest, _MANIFEST, limits)
    root = _root(body)
    found: dict[str, Value] = {}
    stack = [] if root is None else [(root, b"", 0)]
    room = limits.keys
    for _ in range(limits.chunks):
        if not stack:
            return found
        place, prefix, depth = stack.pop()
        node = _body(files(place.path).part(place.offset, place.length), _NODE, limits)
        if depth > _DEPTH or not spend(node.size):
            raise Damage(FaultCode.TOO_LARGE, "the tree of keys is larger than the limit")
        if node.byte():
            below = [(child, prefix + key, depth + 1) for child, key in _children(node, place)]
            room -= sum(len(key) for _, key, _ in below)
            stack += below
        else:
            here = {_text(prefix + key): value for key, value in _entries(node, place)}
            room -= sum(len(key) + _ENTRY for key in here)
            found |= here
        if room < 0:
            break
    raise Damage(FaultCode.TOO_LARGE, "more keys than the limit")


_ENTRY = 64
"""Bytes that an entry counts for, besides its key."""


# --- nodes --------------------------------------------------------------------------------------


class _Body:
    """The fields of a node, one after the other. Raises Damage where it ends."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def size(self) -> int:
        return len(self._data)

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise Damage(FaultCode.CORRUPT, "a node of the database is cut")
        self._at += count
        return self._data[self._at - count : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        """Seven bits a byte, the lowest first."""
        value = shift = 0
        while shift < 70:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _MASK
            shift += 7
        raise Damage(FaultCode.CORRUPT, "a number of the database has no end")

    def numbers(self, count: int) -> list[int]:
        """Each takes a byte at least."""
        if count > len(self._data) - self._at:
            raise Damage(FaultCode.CORRUPT, "a node of the database is cut")
        return [self.number() for _ in range(count)]


def _body(source: Source, magic: int, limits: Limits) -> _Body:
    """Of a node, or of the manifest, whose checksum is verified."""
    if source.size > limits.table_block:
        raise Damage(FaultCode.TOO_LARGE, "a node of the database is over the limit")
    data = source.read(0, source.size)
    if len(data) < 18 or struct.unpack(">I", data[:4])[0] != magic:
        raise Damage(FaultCode.CORRUPT, "there is no node of the database where one is said to be")
    if int.from_bytes(data[4:12], "little") != len(data):
        raise Damage(FaultCode.TRUNCATED, "a node of the database has not the length it says")
    if google_crc32c.value(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise Damage(FaultCode.CORRUPT, "a node of the database has not the checksum it says")
    version, compression = data[12], data[13]
    if version or compression > 1:
        raise Damage(FaultCode.TOO_LARGE, f"version {version} of the database is not read")
    packed = data[14:-4]
    return _Body(unpack(packed, limits.table_block) if compression else packed)


def _root(body: _Body) -> _Place | None:
    """The newest version of the manifest; None where there is nothing in it."""
    body.take(16)
    if body.number():
        raise Damage(FaultCode.TOO_LARGE, "a manifest in several files is not read")
    body.numbers(2)
    body.byte()
    if body.number():
        body.take(4)
    table = _Table.of(body, "")
    count = body.number()
    body.numbers(count)
    body.take(count)
    files, offsets, lengths = (body.numbers(count) for _ in range(3))
    if not count or offsets[-1] == _MISSING:
        return None
    return table.place(files[-1], offsets[-1], lengths[-1])


class _Table(msgspec.Struct, frozen=True):
    """The files that a node names: path of each, and what of it comes before the paths of files
    that its own nodes name."""

    paths: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, body: _Body, above: str) -> _Table:
        names, bases = _names(body, 1)
        return cls(
            [
                (above + _text(name), above + _text(name[:base]))
                for name, base in zip(names, bases[0], strict=True)
            ]
        )

    def place(self, file: int, offset: int, length: int) -> _Place:
        if file >= len(self.paths):
            raise Damage(FaultCode.CORRUPT, "the database names a file that it does not list")
        path, base = self.paths[file]
        return _Place(path, offset, length, base)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _names(body: _Body, columns: int) -> tuple[list[bytes], list[list[int]]]:
    """Names that were cut by what each has in common with the one before, and so many columns of
    numbers that stand between their lengths and their ends."""
    count = body.number()
    common, lengths = [0, *body.numbers(max(count - 1, 0))], body.numbers(count)
    more = [body.numbers(count) for _ in range(columns)]
    names, name, room = [], b"", LIMITS.keys
    for shared, length in zip(common, lengths, strict=False):
        name = name[:shared] + body.take(length)
        names.append(name)
        room -= len(name)
        if room < 0:
            raise Damage(FaultCode.TOO_LARGE, "the keys of a node are over the limit")
    return names, more


def _children(body: _Body, place: _Place) -> Iterator[tuple[_Place, bytes]]:
    """Of an interior node: where each child is, and what all keys below it begin with."""
    table = _Table.of(body, place.base)
    keys, (common,) = _names(body, 1)
    files, offsets, lengths = (body.numbers(len(keys)) for _ in range(3))
    for key, shared, *where in zip(keys, common, files, offsets, lengths, strict=True):
        yield table.place(*where), key[:shared]


def _entries(body: _Body, place: _Place) -> Iterator[tuple[bytes, Value]]:
    """Of a leaf."""
    table = _Table.of(body, place.base)
    keys, _ = _names(body, 0)
    lengths, kinds = body.numbers(len(keys)), body.numbers(len(keys))
    apart = sum(map(bool, kinds))
    files, offsets = iter(body.numbers(apart)), iter(body.numbers(apart))
    for key, length, kind in zip(keys, lengths, kinds, strict=True):
        if kind:
            found = table.place(next(files), next(offsets), length)
            yield key, Value(found.path, found.offset, length)
        else:
            yield key, Value("", 0, length, body.take(length))
