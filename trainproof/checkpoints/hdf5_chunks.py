"""Datasets of HDF5 that are stored in chunks: where these are, and their bytes in order.

Source: the HDF5 File Format Specification, version 3.0: "Data Layout Message", "Version 1 B-trees",
"Version 2 B-trees", "Fixed Array Index", "Filter Pipeline Message". Read are chunks that are plain
or were filtered by deflate, shuffle and Fletcher's checksum, which is left unverified.
"""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainproof.model.data import FaultCode

from .chunk_grid import Grid, Index, counts
from .hdf5_heaps import Read, records
from .limits import LIMITS, Limits
from .source import Damage

_UNDEFINED = (1 << 64) - 1
_DEFLATE, _SHUFFLE, _FLETCHER = 1, 2, 3
_NAMES: Mapping[int, str] = {4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf", 32015: "zstd"}
_PARTIAL_UNFILTERED, _SINGLE_FILTERED = 1, 2
_CHUNK_NODE = 1
_TOO_MANY = "a dataset in more chunks than the limit"
_DIMENSIONS = 32
"""As many as HDF5 allows."""


class Place(msgspec.Struct, frozen=True):
    """``mask``: bit i says that filter i was not applied."""

    address: int
    size: int
    mask: int = 0


class Filter(msgspec.Struct, frozen=True):
    id: int
    values: tuple[int, ...]


class NotRead(Exception):
    """The values are stored in a way that is not read; the argument says in which."""


class Chunks(msgspec.Struct, frozen=True):
    """``raw_ends``: chunks that reach beyond the dataset were not filtered."""

    grid: Grid
    places: Mapping[Index, Place]
    filters: tuple[Filter, ...]
    raw_ends: bool

    def bands(self, read: Read) -> Iterator[memoryview]:
        """The elements in order. Raises Damage."""
        return self.grid.bands(lambda index: self._chunk(read, index))

    def _chunk(self, read: Read, index: Index) -> NDArray[Any]:
        place, wanted = self.places[index], self.grid.chunk_bytes
        if place.size > wanted + wanted // 100 + _SPARE:
            raise Damage(FaultCode.CORRUPT, "a chunk takes more bytes than its elements")
        data = read(place.address, place.size)
        if not (self.raw_ends and self.grid.reaches_beyond(index)):
            for number, one in reversed(list(enumerate(self.filters))):
                if not place.mask >> number & 1:
                    data = _UNDO[one.id](data, one, wanted)
        if len(data) != wanted:
            raise Damage(FaultCode.CORRUPT, f"a chunk has {len(data)} bytes of {wanted}")
        return np.frombuffer(data, f"u{self.grid.itemsize}").reshape(self.grid.sizes)


_SPARE = 1024
"""Bytes by which compression and checksums may make a small chunk longer."""


class Dataset(msgspec.Struct, frozen=True):
    """``layout`` and ``filters``: its messages. ``most``: the shape that it may grow to."""

    layout: bytes
    filters: bytes
    shape: tuple[int, ...]
    most: tuple[int, ...]
    itemsize: int


Spend = Callable[[int], bool]
"""Whether so many more chunks, or nodes of an index, may be looked at."""


def chunks_of(read: Read, one: Dataset, spend: Spend, limits: Limits = LIMITS) -> Chunks:
    """Raises Damage, NotRead."""
    shape, itemsize, filters = one.shape, one.itemsize, tuple(_filters(one.filters))
    found = _old(one.layout) if one.layout[0] == 3 else _new(one.layout)
    if len(found.sizes) != len(shape) + 1 or not shape or min(found.sizes) < 1:
        raise Damage(FaultCode.CORRUPT, "the chunks of a dataset have another shape")
    grid = Grid(shape, found.sizes[:-1], itemsize)
    if grid.band_bytes > limits.band or grid.chunk_bytes > limits.chunk_unpacked:
        raise NotRead("a dataset in chunks that are larger than the limit")
    total = math.prod(grid.counts)
    if not spend(total):
        raise NotRead(_TOO_MANY)
    all_of_it = counts(one.most, grid.sizes)
    whole = _Whole(read, grid.sizes, itemsize, all_of_it, grid.counts, bool(filters), spend)
    listed = () if found.address == _UNDEFINED else found.places(whole)
    places = dict(itertools.islice(listed, total))
    if any(index not in places for index in grid.indices()):
        raise NotRead("a dataset in chunks, some of which were never written")
    return Chunks(grid, places, filters, found.raw_ends)


class _Whole(msgspec.Struct, frozen=True):
    """What finding chunks needs to know of a dataset. ``grid``: of all chunks that it may have;
    ``present``: of those that it has."""

    read: Read
    sizes: tuple[int, ...]
    itemsize: int
    grid: tuple[int, ...]
    present: tuple[int, ...]
    filtered: bool
    spend: Spend

    @property
    def nbytes(self) -> int:
        """Of a chunk that is not filtered."""
        return math.prod(self.sizes) * self.itemsize

    def index(self, number: int) -> Index:
        """Of a chunk by its number in row-major order."""
        index = []
        for count in reversed(self.grid):
            number, rest = divmod(number, count)
            index.append(rest)
        return tuple(reversed(index))


_Find = Callable[[_Whole, int], Iterator[tuple[Index, Place]]]


class _Found(msgspec.Struct, frozen=True):
    """``sizes``: of a chunk, and last the bytes of an element. ``find``: given the address."""

    sizes: tuple[int, ...]
    address: int
    find: _Find
    raw_ends: bool = False

    def places(self, whole: _Whole) -> Iterator[tuple[Index, Place]]:
        return self.find(whole, self.address)


# --- the layout -----------------------------------------------------------------------------------


def _old(layout: bytes) -> _Found:
    """Version 3: a tree of the first version."""
    rank = layout[2] if len(layout) > 2 else 0
    if len(layout) < 11 + 4 * rank or rank > _DIMENSIONS + 1:
        raise Damage(FaultCode.CORRUPT, "the layout of a dataset is cut")
    address, *sizes = struct.unpack_from(f"<Q{rank}I", layout, 3)
    return _Found(tuple(sizes), address, _old_tree)


def _new(layout: bytes) -> _Found:
    """Version 4 or 5: one of several indices. They differ in the width of sizes in the indices."""
    flags, rank, width = layout[2:5].ljust(3, b"\0")
    at = 5 + rank * width
    if width not in range(1, 9) or rank > _DIMENSIONS + 1 or len(layout) < at + 9:
        raise Damage(FaultCode.CORRUPT, "the layout of a dataset is cut")
    sizes = tuple(
        int.from_bytes(layout[place : place + width], "little") for place in range(5, at, width)
    )
    kind, at = layout[at], at + 1
    find: _Find
    match kind:
        case 1:
            filtered = flags & _SINGLE_FILTERED
            size, mask = struct.unpack_from("<QI", layout.ljust(at + 12, b"\0"), at)
            at += 12 if filtered else 0
            find = _single(size if filtered else None, mask)
        case 2:
            find = _implicit
        case 3:
            at, find = at + 1, _fixed
        case 5:
            at, find = at + 6, _new_tree
        case _:
            raise NotRead("a dataset in chunks of an index that grows")
    if len(layout) < at + 8:
        raise Damage(FaultCode.CORRUPT, "the layout of a dataset is cut")
    address = int.from_bytes(layout[at : at + 8], "little")
    return _Found(sizes, address, find, bool(flags & _PARTIAL_UNFILTERED))


# --- the indices ----------------------------------------------------------------------------------


def _single(size: int | None, mask: int) -> _Find:
    def find(whole: _Whole, address: int) -> Iterator[tuple[Index, Place]]:
        count = whole.nbytes if size is None else size
        yield (0,) * len(whole.grid), Place(address, count, mask if size is not None else 0)

    return find


def _implicit(whole: _Whole, address: int) -> Iterator[tuple[Index, Place]]:
    for index in itertools.product(*map(range, whole.present)):
        number = 0
        for at, count in zip(index, whole.grid, strict=True):
            number = number * count + at
        yield index, Place(address + number * whole.nbytes, whole.nbytes)


def _old_tree(whole: _Whole, address: int) -> Iterator[tuple[Index, Place]]:
    rank = len(whole.sizes)
    key = 8 + 8 * (rank + 1)
    stack, seen = [address], set[int]()
    while stack:
        at = stack.pop()
        if at in seen:
            raise Damage(FaultCode.CORRUPT, "the chunks of a dataset run in a circle")
        if not whole.spend(1):
            raise NotRead(_TOO_MANY)
        seen.add(at)
        head = whole.read(at, 24)
        count = int.from_bytes(head[6:8], "little")
        if head[:4] != b"TREE" or head[4] != _CHUNK_NODE:
            raise Damage(FaultCode.CORRUPT, f"there are no chunks at byte {at}")
        body = whole.read(at + 24, count * (key + 8))
        for place in range(0, len(body), key + 8):
            size, mask, *offsets = struct.unpack_from(f"<II{rank + 1}Q", body, place)
            child = int.from_bytes(body[place + key : place + key + 8], "little")
            if head[5]:
                stack.append(child)
            else:
                yield _scaled(offsets[:-1], whole.sizes), Place(child, size, mask)


def _scaled(offsets: Sequence[int], sizes: Sequence[int]) -> Index:
    return tuple(offset // size for offset, size in zip(offsets, sizes, strict=True))


def _new_tree(whole: _Whole, address: int) -> Iterator[tuple[Index, Place]]:
    rank = len(whole.sizes)
    for record in records(whole.read, address):
        width = len(record) - 8 - 8 * rank - (4 if whole.filtered else 0)
        if width < 0 or width > 8 or (width > 0) != whole.filtered:
            raise Damage(FaultCode.CORRUPT, "the chunks of a dataset are listed otherwise")
        size = int.from_bytes(record[8 : 8 + width], "little") if width else whole.nbytes
        mask = int.from_bytes(record[8 + width : 12 + width], "little") if width else 0
        index = struct.unpack_from(f"<{rank}Q", record, len(record) - 8 * rank)
        yield index, Place(int.from_bytes(record[:8], "little"), size, mask)


def _fixed(whole: _Whole, address: int) -> Iterator[tuple[Index, Place]]:
    head = whole.read(address, 28)
    mark, _, client, width, bits, count, block = struct.unpack("<4sBBBBQQ", head[:24])
    plain = 8 if client == 0 else 12
    if mark != b"FAHD" or bool(client) != whole.filtered or not plain <= width <= 24 or bits > 32:
        raise Damage(FaultCode.CORRUPT, f"there are no chunks at byte {address}")
    if count != math.prod(whole.grid):
        raise Damage(FaultCode.CORRUPT, f"there are {count} chunks at byte {address}")
    if not whole.spend(count):
        raise NotRead(_TOO_MANY)
    for number, entry in enumerate(_entries(whole, block, width, bits, count)):
        place = int.from_bytes(entry[:8], "little")
        if place != _UNDEFINED:
            size = int.from_bytes(entry[8:-4], "little") if client else whole.nbytes
            mask = int.from_bytes(entry[-4:], "little") if client else 0
            yield whole.index(number), Place(place, size, mask)


def _entries(whole: _Whole, block: int, width: int, bits: int, count: int) -> Iterator[bytes]:
    """Of the block of an array, which has them in pages where they are many."""
    if whole.read(block, 4) != b"FADB":
        raise Damage(FaultCode.CORRUPT, f"there are no chunks at byte {block}")
    at, page = block + 14, 1 << bits
    if count <= page:
        data = whole.read(at, count * width)
        yield from (data[place : place + width] for place in range(0, len(data), width))
        return
    pages = -(-count // page)
    used = whole.read(at, (pages + 7) // 8)
    at += len(used) + 4
    for number in range(pages):
        here = min(page, count - number * page)
        there = used[number // 8] & 128 >> number % 8
        data = whole.read(at, here * width) if there else b"\xff" * (here * width)
        yield from (data[place : place + width] for place in range(0, len(data), width))
        at += here * width + 4


# --- the filters ----------------------------------------------------------------------------------


def _filters(message: bytes) -> Iterator[Filter]:
    """In the order in which they were applied. Raises NotRead for one that cannot be undone."""
    if not message:
        return
    version, count = message[0], message[1] if len(message) > 1 else 0
    at = 8 if version == 1 else 2
    for _ in range(count):
        id, at, values = _filter_head(message, at, version)
        if id not in _UNDO:
            name = _NAMES.get(id, f"number {id}")
            raise NotRead(f"a dataset in chunks of the filter {name}")
        if len(message) < at + 4 * values:
            raise Damage(FaultCode.CORRUPT, "the filters of a dataset are cut")
        yield Filter(id, struct.unpack_from(f"<{values}I", message, at))
        at += 4 * (values + (values & 1 if version == 1 else 0))


def _filter_head(message: bytes, at: int, version: int) -> tuple[int, int, int]:
    """Number, where its values begin, and how many they are."""
    named = version == 1 or int.from_bytes(message[at : at + 2], "little") >= 256
    form = struct.Struct("<HHHH" if named else "<HHH")
    if len(message) < at + form.size:
        raise Damage(FaultCode.CORRUPT, "the filters of a dataset are cut")
    fields = form.unpack_from(message, at)
    length = fields[1] if named else 0
    return fields[0], at + form.size + length, fields[-1]


def _inflated(data: bytes, _: Filter, wanted: int) -> bytes:
    """Fletcher's four bytes may follow; one more byte is too much."""
    stream = zlib.decompressobj()
    try:
        made = stream.decompress(data, wanted + 5)
    except zlib.error as error:
        raise Damage(FaultCode.CORRUPT, f"a chunk cannot be inflated: {error}") from None
    return made


def _unshuffled(data: bytes, one: Filter, _: int) -> bytes:
    """All first bytes, all second bytes, … of the elements; what is left over is at the end."""
    width = one.values[0] if one.values else 1
    whole = len(data) // width if width > 1 else 0
    if not whole:
        return data
    array = np.frombuffer(data, np.uint8, whole * width).reshape(width, whole)
    return array.T.tobytes() + data[whole * width :]


def _without_checksum(data: bytes, _: Filter, __: int) -> bytes:
    return data[:-4]


_UNDO: Mapping[int, Callable[[bytes, Filter, int], bytes]] = {
    _DEFLATE: _inflated,
    _SHUFFLE: _unshuffled,
    _FLETCHER: _without_checksum,
}
