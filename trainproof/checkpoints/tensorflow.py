"""Checkpoints of TensorFlow: an index of tensors, and files of their bytes beside it.

Source: ``tensor_bundle.proto`` and ``tensor_bundle.cc`` of TensorFlow. Each tensor has a CRC-32C.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import google_crc32c
import msgspec
from msgspec.structs import replace

from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Depth,
    Extent,
    Integrity,
    Presence,
    TensorInfo,
    Unread,
)

from .cursor import Cursor
from .draft import Draft, Item
from .leveldb import pairs
from .protobuf import Field, fields, signed
from .source import Damage, Source
from .stretches import ELSEWHERE, Stretch, bounded, info_of, listed

_SUFFIX = ".index"
_TEXT = "string"
_TAIL = "/.ATTRIBUTES/VARIABLE_VALUE"

_TYPES: Mapping[int, str] = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    11: "qint8",
    12: "quint8",
    13: "qint32",
    14: "bfloat16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
}
"""``DataType`` of ``types.proto``."""


class _Entry(msgspec.Struct):
    """``BundleEntryProto``. ``crc``: masked, as it is written."""

    type: int = 0
    sizes: list[int] = msgspec.field(default_factory=list)
    shard: int = 0
    offset: int = 0
    size: int = 0
    crc: int | None = None
    slices: int = 0


def read_index(draft: Draft) -> Iterator[Item]:
    """Tensors, then facts."""
    reading = _Reading(draft)
    try:
        for key, value in pairs(draft.source, draft.limits.table_block):
            yield from map(draft.tensor, reading.pair(key, value))
    except Damage as damage:
        yield from draft.broken(damage)
        return
    if reading.broken:
        draft.integrity = Integrity.BROKEN
    elif reading.verified and reading.verified == reading.found:
        draft.integrity = Integrity.VERIFIED
    if draft.beside is None:
        draft.reason = ELSEWHERE
    yield draft.done(Extent.STRUCTURE_ONLY if draft.beside is None else None)


class _Reading:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.found = self.verified = self.broken = 0
        self._shards, self._big = 1, False
        self._absent: set[str] = set()

    def pair(self, key: bytes, value: bytes) -> Iterator[TensorInfo]:
        """The empty key is the header; every other one is a tensor."""
        cursor = Cursor(Source.over(value))
        if not key:
            self._header(cursor, len(value))
            return
        name = key.decode("utf-8", "backslashreplace").removesuffix(_TAIL)
        entry = _entry(cursor, len(value))
        if not bounded(entry.sizes) or len(entry.sizes) > self.draft.limits.dims:
            what = f"the shape {entry.sizes[:8]}"
            self.draft.defects.append(Defect(DefectCode.TENSOR_LAYOUT, what[:200], name))
            return
        self.found += 1
        yield self._tensor(name[: self.draft.limits.label], entry)

    def _header(self, cursor: Cursor, end: int) -> None:
        for one in fields(cursor, end):
            if one.number == 1:
                self._shards = one.value
            elif one.number == 2:
                self._big = one.value == 1

    def _tensor(self, name: str, entry: _Entry) -> TensorInfo:
        dtype = _TYPES.get(entry.type, f"type {entry.type}")
        stretch = Stretch(name, dtype, tuple(entry.sizes), entry.offset, entry.size, self._big)
        if entry.slices:
            self.draft.unread.append(Unread(name, "a variable in several slices"))
            return listed(self.draft, stretch, "a variable in several slices")
        if self.draft.beside is None:
            return listed(self.draft, stretch, ELSEWHERE)
        source = self._shard(entry.shard)
        if source is None:
            return listed(self.draft, stretch, "its data file is not there", Presence.ABSENT)
        info = replace(info_of(self.draft, stretch, source), crc=None)
        if info.presence is not Presence.WHOLE:
            what = f"{name} would end at byte {entry.offset + entry.size} of {source.size}"
            self.draft.defects.append(Defect(DefectCode.TRUNCATED, what))
        elif self.draft.depth is not Depth.STRUCTURE and entry.crc is not None:
            self._verify(name, entry, source)
        return info

    def _shard(self, number: int) -> Source | None:
        own = self.draft.artifact.rpartition("/")[2].removesuffix(_SUFFIX)
        path = f"{own}.data-{number:05d}-of-{self._shards:05d}"
        if self.draft.beside is None or path in self._absent:
            return None
        try:
            return self.draft.beside.source(path)
        except OSError as error:
            self._absent.add(path)
            what = error.strerror or type(error).__name__
            self.draft.defects.append(Defect(DefectCode.SHARD_MISSING, what, path))
            return None

    def _verify(self, name: str, entry: _Entry, source: Source) -> None:
        if not self.draft.spend(entry.size):
            return
        crc, start = _lengths(entry, source) if _TYPES.get(entry.type) == _TEXT else (0, 0)
        rest = entry.size - start
        for piece in source.chunks(entry.offset + start, rest, self.draft.limits.chunk):
            crc = google_crc32c.extend(crc, bytes(piece))
        if _masked(crc) == entry.crc:
            self.verified += 1
            return
        self.broken += 1
        what = f"the index says {entry.crc:08x}, the data are something else"
        self.draft.defects.append(Defect(DefectCode.CRC, what, name))


def _lengths(entry: _Entry, source: Source) -> tuple[int, int]:
    """Texts begin with their lengths, which count with four or eight bytes each, and with a
    checksum of these: the checksum so far, and the bytes before the first text.
    """
    cursor, crc = Cursor(source, entry.offset), 0
    for _ in range(min(math.prod(entry.sizes), entry.size)):
        length = cursor.varint()
        crc = google_crc32c.extend(crc, length.to_bytes(4 if length < 1 << 32 else 8, "little"))
    at = cursor.at - entry.offset
    return google_crc32c.extend(crc, cursor.take(4)), at + 4


def _masked(crc: int) -> int:
    """As the index has it, so that a checksum of checksums says something."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF


def _entry(cursor: Cursor, end: int) -> _Entry:
    made = _Entry()
    for one in fields(cursor, end):
        match one.number:
            case 1:
                made.type = one.value
            case 2:
                made.sizes += _sizes(cursor, one)
            case 3:
                made.shard = one.value
            case 4:
                made.offset = one.value
            case 5:
                made.size = one.value
            case 6:
                made.crc = one.value
            case 7:
                made.slices += 1
    return made


def _sizes(cursor: Cursor, shape: Field) -> Iterator[int]:
    """``TensorShapeProto``: a message for each dimension, with its size."""
    cursor.at = shape.start
    for dim in fields(cursor, shape.end):
        if dim.number == 2 and dim.size >= 0:
            cursor.at = dim.start
            yield sum(signed(one.value) for one in fields(cursor, dim.end) if one.number == 1)
