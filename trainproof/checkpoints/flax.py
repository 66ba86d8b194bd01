"""What ``flax.serialization`` writes: MessagePack, with arrays as an extension of it.

Source: ``flax/serialization.py`` (extension types, chunked arrays) and the MessagePack
specification. An array is the extension 1: ``[shape, type, bytes]`` in MessagePack again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import reduce

import msgspec
from msgspec.structs import replace

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Integrity,
    Presence,
    Scalar,
    TensorInfo,
    TensorStats,
    Unread,
)

from .cursor import Cursor
from .draft import Draft, Item
from .dtypes import DTYPES
from .scan import combined
from .source import Damage
from .stretches import Stretch, bounded, info_of

_ARRAY, _SCALAR = 1, 3
_NUMBERS = {
    0xCA: "f",
    0xCB: "d",
    0xCC: "B",
    0xCD: "H",
    0xCE: "I",
    0xCF: "Q",
    0xD0: "b",
    0xD1: "h",
    0xD2: "i",
    0xD3: "q",
}
"""Codes of numbers, as ``struct`` has them in big-endian order."""
_CONSTANTS: dict[int, bool | None] = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTHS = {1: "B", 2: "H", 4: "I"}
_CHUNKED = "__msgpack_chunked_array__"
_CHUNK = re.compile(r"(?P<array>.+)/chunks/\d+")


class _Head(msgspec.Struct, frozen=True):
    """What a value is: ``kind`` and, by kind, its number of items or bytes."""

    kind: str
    size: int = 0
    value: int | float | bool | None = None
    extension: int = 0


class _Open(msgspec.Struct):
    """A container of which ``left`` values are still to come."""

    name: str
    left: int
    mapping: bool
    next: int = 0


def read_flax(draft: Draft) -> Iterator[Item]:
    """Tensors, then facts. Raises Damage."""
    draft.integrity = Integrity.ABSENT
    reading = _Reading(draft)
    cut: Damage | None = None
    try:
        reading.run()
    except Damage as damage:
        cut = damage
    for info in reading.tensors():
        yield draft.tensor(info)
    draft.scalars = reading.scalars
    if cut is not None:
        yield from draft.broken(cut)
        return
    if reading.cursor.at < draft.source.size:
        what = f"{draft.source.size - reading.cursor.at} bytes after the end"
        draft.defects.append(Defect(DefectCode.CONTAINER_ODD, what))
    yield draft.done()


class _Reading:
    def __init__(self, draft: Draft) -> None:
        self.draft, self.cursor = draft, Cursor(draft.source)
        self.found: list[TensorInfo] = []
        self.scalars: list[Scalar] = []
        self.chunked: set[str] = set()
        self._stack: list[_Open] = []

    def run(self) -> None:
        """One value, and everything below it. Raises Damage."""
        self._value("")
        for _ in range(self.draft.limits.fields):
            while self._stack and not self._stack[-1].left:
                self._stack.pop()
            if not self._stack:
                return
            self._value(self._name(self._stack[-1]))
        raise Damage(FaultCode.TOO_LARGE, "more values than the limit")

    def _name(self, place: _Open) -> str:
        place.left -= 1
        if place.mapping:
            key = self._text(self._head())
        else:
            key, place.next = str(place.next), place.next + 1
        return f"{place.name}/{key}" if place.name else key

    def _text(self, head: _Head) -> str:
        """A key: text, or a number as text."""
        if head.kind == "number":
            return str(head.value)
        if head.kind != "text" or head.size > self.draft.limits.entry_name:
            raise Damage(FaultCode.CORRUPT, f"a key at byte {self.cursor.at} is no text")
        return self.cursor.take(head.size).decode("utf-8", "backslashreplace")

    def _value(self, name: str) -> None:
        head = self._head()
        if head.kind in ("map", "array"):
            self._enter(name, head)
        elif head.kind == "extension":
            self._extension(name, head)
        elif head.kind in ("text", "bytes"):
            self.cursor.skip(head.size)
        elif head.value is not None:
            self._scalar(name, head.value)

    def _enter(self, name: str, head: _Head) -> None:
        if len(self._stack) >= self.draft.limits.depth:
            raise Damage(FaultCode.TOO_LARGE, "nested more deeply than the limit")
        self._stack.append(_Open(name, head.size, head.kind == "map"))

    def _scalar(self, name: str, value: int | float | bool) -> None:
        if name.endswith(f"/{_CHUNKED}"):
            self.chunked.add(name.rpartition("/")[0])
        elif len(self.scalars) < self.draft.limits.scalars:
            self.scalars.append(Scalar(name[: self.draft.limits.label], value))

    def _extension(self, name: str, head: _Head) -> None:
        end = self.cursor.at + head.size
        if head.extension in (_ARRAY, _SCALAR):
            self._array(name, end)
        else:
            self.draft.unread.append(Unread(name, f"the extension {head.extension}"))
        self.cursor.skip(end - self.cursor.at)

    def _array(self, name: str, end: int) -> None:
        """``[shape, type, bytes]``, which fill the extension. Raises Damage."""
        if (outer := self._head()).kind != "array" or outer.size != 3:
            raise Damage(FaultCode.CORRUPT, f"{name[:80]}: an array is not in the format's form")
        sizes = [self._head().value for _ in range(min(self._head().size, self.draft.limits.dims))]
        shape = [size for size in sizes if type(size) is int]
        dtype = self._text(self._head())
        data = self._head()
        if data.kind != "bytes" or len(shape) != len(sizes) or not bounded(shape):
            raise Damage(FaultCode.CORRUPT, f"{name[:80]}: an array is not in the format's form")
        start, nbytes = self.cursor.at, data.size
        if start + nbytes != end:
            raise Damage(FaultCode.CORRUPT, f"{name[:80]}: an array does not fill its place")
        known = dtype if dtype in DTYPES else dtype[: self.draft.limits.value]
        stretch = Stretch(name[: self.draft.limits.label], known, tuple(shape), start, nbytes)
        info = info_of(self.draft, stretch, self.draft.source)
        self.found.append(info)
        if info.presence is not Presence.WHOLE:
            what = f"the file ends in {name[:200]}"
            raise Damage(FaultCode.TRUNCATED, what)

    # --- the code in front of each value ---

    def _head(self) -> _Head:
        code = self.cursor.take(1)[0]
        if code < 0x80 or code >= 0xE0:
            return _Head("number", value=code if code < 0x80 else code - 256)
        if code < 0xC0:
            kind = "map" if code < 0x90 else "array" if code < 0xA0 else "text"
            return _Head(kind, code & (0x1F if kind == "text" else 0x0F))
        if code in _NUMBERS:
            return _Head("number", value=self._big(_NUMBERS[code]))
        if code in _CONSTANTS:
            return _Head("constant", value=_CONSTANTS[code])
        return self._sized(code)

    def _sized(self, code: int) -> _Head:
        if code in range(0xC4, 0xC7):
            return _Head("bytes", self._length(1 << code - 0xC4))
        if code in range(0xC7, 0xCA):
            size = self._length(1 << code - 0xC7)
            return _Head("extension", size, extension=self._length(1))
        if code in range(0xD4, 0xD9):
            return _Head("extension", 1 << code - 0xD4, extension=self._length(1))
        if code in range(0xD9, 0xDC):
            return _Head("text", self._length(1 << code - 0xD9))
        if code in range(0xDC, 0xE0):
            kind = "array" if code < 0xDE else "map"
            return _Head(kind, self._length(4 if code & 1 else 2))
        raise Damage(FaultCode.CORRUPT, f"the code 0x{code:02x} does not exist")

    def _length(self, width: int) -> int:
        return int(self._big(_LENGTHS[width]))

    def _big(self, code: str) -> int | float:
        return self.cursor.big(code)

    # --- arrays in chunks ---

    def tensors(self) -> Iterator[TensorInfo]:
        """Arrays of a gigabyte and more are kept in chunks: each is one tensor again."""
        parts: defaultdict[str, list[TensorInfo]] = defaultdict(list)
        for info in self.found:
            match = _CHUNK.fullmatch(info.name)
            if match and match["array"] in self.chunked:
                parts[match["array"]].append(info)
            else:
                yield info
        for name, infos in parts.items():
            yield self._whole(name, infos)

    def _whole(self, name: str, infos: list[TensorInfo]) -> TensorInfo:
        prefix = f"{name}/shape/"
        sizes = tuple(
            one.value
            for one in self.scalars
            if one.name.startswith(prefix) and type(one.value) is int
        )
        measured = [info.stats for info in infos if info.stats is not None]
        complete = len(measured) == len(infos)
        stats: TensorStats | None = reduce(combined, measured) if complete else None
        nbytes = sum(info.nbytes for info in infos)
        unread = "" if complete else infos[-1].unread
        first = replace(infos[0], name=name, shape=sizes, nbytes=nbytes, stats=stats)
        return replace(first, unread=unread, presence=infos[-1].presence, crc=None, place=None)
