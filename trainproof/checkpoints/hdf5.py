"""HDF5, as Keras writes it: groups of datasets.

Source: the HDF5 File Format Specification, version 3.0. Read are the superblocks of all versions,
both kinds of object headers, groups with symbol tables or with links in their header, and datasets
of plain numbers that are contiguous, compact, or in chunks. Whatever else there is, is listed with
the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Extent,
    Integrity,
    Presence,
    TensorInfo,
    Unread,
)

from .cursor import Cursor
from .draft import Draft, Item
from .dtypes import DTYPES
from .hdf5_chunks import Dataset, NotRead, chunks_of
from .hdf5_heaps import links
from .source import Damage, Source
from .stretches import Stretch, bounded, info_of, listed, listed_with

MARK = b"\x89HDF\r\n\x1a\n"
_UNDEFINED = (1 << 64) - 1
_DATASPACE, _LINK_INFO, _TYPE, _LINK, _LAYOUT, _FILTERS = 1, 2, 3, 6, 8, 11
_MORE, _SYMBOLS = 16, 17
_SHARED = 2
_LAYOUTS = (3, 4, 5)
_COMPACT, _CONTIGUOUS, _CHUNKED = 0, 1, 2
_INTEGER, _FLOAT, _ENUMERATION = 0, 1, 8

_FLOATS: Mapping[tuple[int, int, int], str] = {
    (2, 5, 10): "float16",
    (2, 8, 7): "bfloat16",
    (4, 8, 23): "float32",
    (8, 11, 52): "float64",
}
"""By bytes, bits of the exponent and bits of the mantissa."""


def read_hdf5(draft: Draft) -> Iterator[Item]:
    """Tensors, then facts."""
    draft.integrity = Integrity.ABSENT
    yield from read_datasets(draft, draft.source, "")
    yield draft.done(None if draft.tensors or not draft.reason else Extent.NOT_CHECKED)


def read_datasets(draft: Draft, source: Source, where: str) -> Iterator[Item]:
    """The tensors of an HDF5 file, which is the draft's or a part of it, and what is wrong with
    it. ``where``: its name there.
    """
    try:
        yield from map(draft.tensor, _Reading(draft, source).tensors())
    except Damage as damage:
        cut = damage.code is FaultCode.TRUNCATED
        draft.reason = damage.what
        if damage.code is not FaultCode.TOO_LARGE:
            code = DefectCode.TRUNCATED if cut else DefectCode.HEADER
            draft.defects.append(Defect(code, damage.what, where))
        yield draft.fault(damage, fatal=not draft.tensors)


class _Object(msgspec.Struct):
    """The messages of one object's header that matter here. ``index``: the addresses of the heap
    and the tree of a group's links.
    """

    dataspace: bytes = b""
    type: bytes = b""
    layout: bytes = b""
    layout_at: int = 0
    filters: bytes = b""
    symbols: bytes = b""
    links: list[bytes] = msgspec.field(default_factory=list)
    index: tuple[int, int] | None = None
    shared: bool = False


class _Reading:
    def __init__(self, draft: Draft, source: Source) -> None:
        self.draft, self.source = draft, source
        self.base = 0
        self.cut: Damage | None = None

    def tensors(self) -> Iterator[TensorInfo]:
        """Every dataset below the root. Raises Damage."""
        root = self._superblock()
        stack, seen = [("", root)], set[int]()
        while stack:
            name, address = stack.pop()
            if address in seen:
                continue
            seen.add(address)
            if (
                len(seen) > self.draft.limits.entries
                or name.count("/") > self.draft.limits.object_depth
            ):
                raise Damage(FaultCode.TOO_LARGE, "more objects than the limit")
            one = self._object(address)
            if one.layout:
                yield from self._dataset(name, one)
            children = list(self._children(one))
            stack += [(f"{name}/{key}" if name else key, at) for key, at in reversed(children)]
        if self.cut is not None:
            raise self.cut

    def _superblock(self) -> int:
        """The address of the root. A file shorter than it says is read as far as it goes."""
        head = self.source.head(96)
        version = head[8] if len(head) > 48 else -1
        if not head.startswith(MARK) or version not in _PLACES:
            raise Damage(FaultCode.CORRUPT, "the HDF5 superblock is damaged")
        widths, base, end, root = _PLACES[version]
        if head[widths : widths + 2] != b"\x08\x08" or root + 8 > len(head):
            raise Damage(FaultCode.TOO_LARGE, "addresses of another width than 8 bytes")
        self.base = _integer(head, base)
        length = _integer(head, end)
        if length > self.source.size:
            what = f"{self.source.size} bytes of the {length} that the superblock tells"
            self.cut = Damage(FaultCode.TRUNCATED, what)
        return _integer(head, root)

    def _read(self, at: int, count: int) -> bytes:
        return self.source.read(self.base + at, count)

    # --- object headers ---

    def _object(self, address: int) -> _Object:
        made = _Object()
        head = self._read(address, min(64, self.source.size - self.base - address))
        if head.startswith(b"OHDR") and len(head) > 6:
            self._new_header(made, address, head)
        elif head[:1] == b"\x01" and len(head) >= 16:
            self._blocks(made, [(address + 16, int.from_bytes(head[8:12], "little"))], 0, False)
        else:
            raise Damage(FaultCode.CORRUPT, f"there is no object at byte {address}")
        return made

    def _new_header(self, made: _Object, address: int, head: bytes) -> None:
        flags = head[5]
        at = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        if at + width > len(head):
            raise Damage(FaultCode.TRUNCATED, f"the header of the object at {address} is cut")
        size = int.from_bytes(head[at : at + width], "little")
        self._blocks(made, [(address + at + width, size)], 2 if flags & 4 else 0, True)

    def _blocks(self, made: _Object, blocks: list[tuple[int, int]], extra: int, new: bool) -> None:
        """Messages, block after block. ``extra``: bytes that a new message has besides."""
        room = self.draft.limits.object_header
        for number in range(self.draft.limits.object_blocks):
            if number == len(blocks):
                return
            at, size = blocks[number]
            room -= size
            if room < 0:
                break
            data = self._read(at, size)
            blocks += self._messages(made, data, at, extra, new)
        raise Damage(FaultCode.TOO_LARGE, "the header of an object is over the limit")

    def _messages(
        self, made: _Object, data: bytes, base: int, extra: int, new: bool
    ) -> list[tuple[int, int]]:
        """Fill in one block's messages; the blocks that they say follow."""
        more, head = [], 4 + extra if new else 8
        at = 4 if data.startswith(b"OCHK") else 0
        while at + head <= len(data):
            kind = data[at] if new else int.from_bytes(data[at : at + 2], "little")
            size = int.from_bytes(data[at + 1 : at + 3] if new else data[at + 2 : at + 4], "little")
            shared = bool(data[at + 3 if new else at + 4] & _SHARED)
            body = data[at + head : at + head + size]
            if kind == _MORE and len(body) >= 16:
                start, length = _integer(body, 0), _integer(body, 8)
                # The last four bytes of a new block are its checksum.
                more.append((start, length - 4 if new else length))
            else:
                _keep(made, kind, body, base + at + head, shared)
            at += head + size
        return more

    # --- groups ---

    def _children(self, one: _Object) -> Iterator[tuple[str, int]]:
        yield from filter(None, map(_hard_link, one.links))
        if one.index is not None:
            heap, tree = one.index
            found = links(self._read, tree, heap, self.draft.limits.entries)
            yield from sorted(filter(None, map(_hard_link, found)))
        if len(one.symbols) >= 16:
            names = self._heap(_integer(one.symbols, 8))
            yield from self._table(_integer(one.symbols, 0), names)

    def _heap(self, address: int) -> bytes:
        """The names of a group."""
        head = self._read(address, 32)
        if head[:4] != b"HEAP":
            raise Damage(FaultCode.CORRUPT, f"there are no names at byte {address}")
        size = _integer(head, 8)
        if size > self.draft.limits.text:
            raise Damage(FaultCode.TOO_LARGE, "the names of a group are over the limit")
        return self._read(_integer(head, 24), size)

    def _table(self, address: int, heap: bytes) -> Iterator[tuple[str, int]]:
        """The members of a group, out of a tree of tables."""
        stack, seen = [address], set[int]()
        while stack:
            at = stack.pop()
            if at in seen or len(seen) > self.draft.limits.entries:
                raise Damage(FaultCode.CORRUPT, "the members of a group run in a circle")
            seen.add(at)
            head = self._read(at, 8)
            count = int.from_bytes(head[6:8], "little")
            if head[:4] == b"TREE":
                body = self._read(at + 24, 16 * count + 8)
                stack += [_integer(body, 16 * place + 8) for place in reversed(range(count))]
            elif head[:4] == b"SNOD":
                body = self._read(at + 8, 40 * count)
                for place in range(count):
                    start = _integer(body, 40 * place)
                    yield _name(heap, start), _integer(body, 40 * place + 8)
            else:
                raise Damage(FaultCode.CORRUPT, f"there are no members at byte {at}")

    # --- datasets ---

    def _dataset(self, name: str, one: _Object) -> Iterator[TensorInfo]:
        shape, label = _shape(one.dataspace), name[: self.draft.limits.label]
        if shape is None or not bounded(shape) or len(shape) > self.draft.limits.dims:
            self.draft.unread.append(Unread(label, "a dataset without a shape"))
            return
        dtype, big = _dtype(one.type) if not one.shared else ("of another object", False)
        if one.layout[0] in _LAYOUTS and one.layout[1] == _CHUNKED and dtype in DTYPES:
            yield self._chunked(Stretch(label, dtype, tuple(shape), 0, 0, big), one)
            return
        place = self._place(one)
        if isinstance(place, str):
            yield listed(self.draft, Stretch(label, dtype, tuple(shape), 0, 0), place)
        else:
            stretch = Stretch(label, dtype, tuple(shape), *place, big)
            yield info_of(self.draft, stretch, self.source)

    def _chunked(self, one: Stretch, found: _Object) -> TensorInfo:
        """A dataset whose chunks are put together, some rows at a time."""
        draft, size = self.draft, DTYPES[one.dtype].size
        one = replace(one, nbytes=math.prod(one.shape) * size)
        if not one.nbytes:
            return listed_with(draft, one, ())
        try:
            most = _most(found.dataspace, one.shape)
            stored = Dataset(found.layout, found.filters, one.shape, most, size)
            chunks = chunks_of(self._read, stored, draft.spend_chunks, draft.limits)
            if not draft.values:
                return listed(draft, one, "")
            if not draft.spend(one.nbytes):
                return listed(draft, one, "it unpacks to more bytes than the limit")
            return listed_with(draft, one, chunks.bands(self._read))
        except NotRead as error:
            return listed(draft, one, str(error))
        except Damage as damage:
            cut = damage.code is FaultCode.TRUNCATED
            code = DefectCode.TRUNCATED if cut else DefectCode.TENSOR_LAYOUT
            draft.defects.append(Defect(code, damage.what, one.name))
            return listed(draft, one, damage.what, Presence.CUT if cut else Presence.WHOLE)

    def _place(self, one: _Object) -> tuple[int, int] | str:
        """First byte and number of bytes of the values, or why they are nowhere in a row."""
        layout = one.layout
        if layout[0] not in _LAYOUTS or layout[1] not in (_COMPACT, _CONTIGUOUS):
            return "a dataset of a form that is not read"
        if layout[1] == _COMPACT:
            return self.base + one.layout_at + 4, int.from_bytes(layout[2:4], "little")
        if len(layout) < 18:
            raise Damage(FaultCode.CORRUPT, "the place of a dataset is cut")
        at, size = _integer(layout, 2), _integer(layout, 10)
        if at == _UNDEFINED:
            return "its values were never written" if size else (0, 0)
        return self.base + at, size


_PLACES: Mapping[int, tuple[int, int, int, int]] = {
    0: (13, 24, 40, 64),
    1: (13, 28, 44, 68),
    2: (9, 12, 28, 36),
    3: (9, 12, 28, 36),
}
"""By version of the superblock, the bytes at which the widths of addresses, the base address, the
end of the file and the address of the root are."""


def _integer(data: bytes, at: int) -> int:
    """Eight bytes. Raises Damage where they are not there."""
    if at + 8 > len(data):
        raise Damage(FaultCode.CORRUPT, "a structure of HDF5 is cut")
    return int.from_bytes(data[at : at + 8], "little")


def _keep(made: _Object, kind: int, body: bytes, at: int, shared: bool) -> None:
    if kind == _DATASPACE:
        made.dataspace = body
    elif kind == _LINK_INFO:
        made.index = _index(body)
    elif kind == _TYPE:
        made.type, made.shared = body, shared
    elif kind == _LINK:
        made.links.append(body)
    elif kind == _LAYOUT and len(body) >= 2:
        made.layout, made.layout_at = body, at
    elif kind == _FILTERS and not shared:
        made.filters = body
    elif kind == _SYMBOLS:
        made.symbols = body


def _index(body: bytes) -> tuple[int, int] | None:
    """Heap and tree of a group's links, None where they are all in the header."""
    at = 2 + (8 if body[1:2] and body[1] & 1 else 0)
    if len(body) < at + 16 or _integer(body, at) == _UNDEFINED:
        return None
    return _integer(body, at), _integer(body, at + 8)


def _hard_link(body: bytes) -> tuple[str, int] | None:
    """Name and address, None for a link of another kind."""
    cursor = Cursor(Source.over(body))
    _, flags = cursor.take(2)
    kind = cursor.take(1)[0] if flags & 8 else 0
    cursor.take((8 if flags & 4 else 0) + (1 if flags & 16 else 0))
    length = int.from_bytes(cursor.take(1 << (flags & 3)), "little")
    name = cursor.take(length).decode("utf-8", "backslashreplace")
    return (name, cursor.number("Q")) if kind == 0 else None


def _name(heap: bytes, start: int) -> str:
    end = heap.find(b"\0", start)
    return heap[start : end if end >= 0 else len(heap)].decode("utf-8", "backslashreplace")


def _shape(body: bytes) -> list[int] | None:
    """The sizes of a dataspace; [] for a scalar, None for none at all."""
    if len(body) < 4 or body[0] not in (1, 2):
        return None
    start = 8 if body[0] == 1 else 4
    if body[0] == 2 and body[3] == 2:
        return None
    return [_integer(body, start + 8 * place) for place in range(body[1])]


def _most(body: bytes, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes that a dataspace may grow to."""
    start = (8 if body[0] == 1 else 4) + 8 * len(shape)
    if not body[2] & 1:
        return shape
    return tuple(_integer(body, start + 8 * place) for place in range(len(shape)))


def _dtype(body: bytes) -> tuple[str, bool]:
    """Torch's name of the type, or one that says what it is; and whether it is big-endian."""
    if len(body) < 8:
        return "unknown", False
    kind, bits, size = body[0] & 15, body[1], int.from_bytes(body[4:8], "little")
    big = bool(bits & 1)
    if kind == _FLOAT and len(body) >= 16:
        return _FLOATS.get((size, body[13], body[15]), f"float of {size} bytes"), big
    if kind == _INTEGER and size in (1, 2, 4, 8):
        return f"{'' if bits & 8 else 'u'}int{8 * size}", big
    if kind == _ENUMERATION and size == 1:
        return "bool", False
    return f"class {kind} of {size} bytes", False
