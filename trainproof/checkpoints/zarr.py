"""Arrays of Zarr, versions 2 and 3, as Orbax writes them: chunks under keys of their own.

Source: the Zarr storage specifications, versions 2 and 3, and the codec "sharding_indexed". Read
are numbers in the order of rows, plain or compressed by zstandard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainproof.model.data import FaultCode

from .chunk_grid import Grid, Index, counts
from .documents import below
from .dtypes import DTYPES
from .limits import LIMITS, Limits
from .source import Damage, Source
from .stretches import bounded
from .zstandard import unpacked

_TYPES: Mapping[str, str] = {
    **{f"<f{size}": f"float{8 * size}" for size in (2, 4, 8)},
    **{f"<i{size}": f"int{8 * size}" for size in (2, 4, 8)},
    **{f"<u{size}": f"uint{8 * size}" for size in (2, 4, 8)},
    **{"|i1": "int8", "|u1": "uint8", "|b1": "bool"},
}
"""Torch's names of the types of version 2; those of version 3 have them anyway."""

Get = Callable[[str], Source | None]
"""What is kept under a key, None where there is nothing. Raises Damage, OSError."""


class NotRead(Exception):
    """The values are stored in a way that is not read; the argument says in which."""


class Array(msgspec.Struct, frozen=True):
    """``grid``: of at least one dimension. ``key``: of a stored chunk. ``zstandard``: whether
    chunks are compressed. ``shard``: chunks along each dimension of what lies under one key, with
    a table of them at its end; None where each has a key. ``zeros``: whether a chunk that is not
    there is zero.
    """

    dtype: str
    shape: tuple[int, ...]
    grid: Grid
    key: Callable[[Index], str]
    zstandard: bool
    shard: tuple[int, ...] | None
    zeros: bool

    def pieces(self, get: Get, limits: Limits = LIMITS) -> Iterator[bytes | memoryview]:
        """The bytes of the elements in order. Raises Damage, OSError, NotRead, NoZstandard."""
        if self.grid.sizes[1:] == self.grid.shape[1:]:
            for index in self.grid.indices():
                yield from self._rows(get, index)
            return
        if self.grid.band_bytes > limits.band or self.grid.chunk_bytes > limits.chunk_unpacked:
            raise NotRead("an array in chunks that are larger than the limit")
        yield from self.grid.bands(lambda index: self._chunk(get, index))

    def _rows(self, get: Get, index: Index) -> Iterator[bytes | memoryview]:
        """Of a chunk that has whole rows, of which the last may be none of the array."""
        row = self.grid.chunk_bytes // self.grid.sizes[0]
        left = min(self.grid.sizes[0], self.grid.shape[0] - index[0] * self.grid.sizes[0]) * row
        for piece in self._stored(get, index):
            if left:
                yield piece[:left]
            left -= min(left, len(piece))

    def _chunk(self, get: Get, index: Index) -> NDArray[Any]:
        data = b"".join(self._stored(get, index))
        return np.frombuffer(data, f"u{self.grid.itemsize}").reshape(self.grid.sizes)

    def _stored(self, get: Get, index: Index) -> Iterator[bytes | memoryview]:
        """All bytes of a chunk, and no others."""
        source, wanted = self._source(get, index), self.grid.chunk_bytes
        made: Iterator[bytes | memoryview] = _zeros(wanted)
        if source is not None:
            raw = source.chunks(0, source.size)
            made = unpacked(raw) if self.zstandard else raw
        for piece in made:
            wanted -= len(piece)
            if wanted < 0 or len(piece) % self.grid.itemsize:
                break
            yield piece
        if wanted:  # never zero after a part of an element
            raise Damage(FaultCode.CORRUPT, "a chunk has another size than its elements")

    def _source(self, get: Get, index: Index) -> Source | None:
        """None for a chunk of zeros that was not stored."""
        shard = self.shard or (1,) * len(index)
        found = get(self.key(tuple(at // size for at, size in zip(index, shard, strict=True))))
        if found is not None and self.shard is not None:
            found = _inside(found, index, self.shard)
        if found is None and not self.zeros:
            raise NotRead("an array in chunks, some of which are not there")
        return found


def _zeros(count: int) -> Iterator[bytes]:
    for at in range(0, count, LIMITS.chunk):
        yield bytes(min(LIMITS.chunk, count - at))


def _inside(source: Source, index: Index, shard: tuple[int, ...]) -> Source | None:
    """The chunk by the table at the end of its shard: begin and length of each, and a checksum."""
    count = math.prod(shard)
    end = source.size - 4 - 16 * count
    number = 0
    for at, size in zip(index, shard, strict=True):
        number = number * size + at % size
    entry = source.read(end + 16 * number, 16)
    begin, length = (int.from_bytes(entry[at : at + 8], "little") for at in (0, 8))
    return None if begin == length == (1 << 64) - 1 else source.part(begin, length)


# --- what an array says of itself -----------------------------------------------------------------


def array_of(get: Get, name: str, parse: Callable[[bytes, str], object]) -> Array:
    """The array of that name. Raises Damage, OSError, NotRead."""
    for leaf, read in ((".zarray", _second), ("zarr.json", _third)):
        source = get(f"{name}/{leaf}")
        if source is not None:
            if source.size > LIMITS.text:
                break
            return read(name, parse(source.read(0, source.size), leaf))
    raise NotRead("its description is not there")


def _second(name: str, said: object) -> Array:
    dtype, given = below(said, "dtype"), below(said, "compressor")
    if below(said, "filters") or below(said, "order") != "C":
        raise NotRead("an array of Zarr with filters, or in the order of columns")
    kind = below(given, "id")
    if given is not None and kind != "zstd":
        raise NotRead(f"an array of Zarr that is compressed by {kind}")
    separator = str(below(said, "dimension_separator") or ".")

    def key(index: Index) -> str:
        return f"{name}/{separator.join(map(str, index)) or '0'}"

    label = _TYPES.get(str(dtype), str(dtype))
    form = _Form(label, _sizes(said, "shape"), _sizes(said, "chunks"), key)
    return form.array(kind == "zstd", None, below(said, "fill_value"))


def _third(name: str, said: object) -> Array:
    grid = below(said, "chunk_grid")
    shape, sizes = _sizes(said, "shape"), _sizes(below(grid, "configuration"), "chunk_shape")
    coding = below(said, "chunk_key_encoding")
    separator = str(below(coding, "configuration", "separator") or "/")
    if below(grid, "name") != "regular" or below(coding, "name") != "default":
        raise NotRead("an array of Zarr in chunks of several sizes, or under other keys")

    def key(index: Index) -> str:
        return f"{name}/{separator.join(('c', *map(str, index)))}"

    codecs, shard = below(said, "codecs"), None
    inner = _sharded(codecs)
    if inner is not None:
        parts = _sizes(inner, "chunk_shape")
        if len(parts) != len(sizes) or any(
            size % part for size, part in zip(sizes, parts, strict=True)
        ):
            raise Damage(FaultCode.CORRUPT, "the shards of an array are no whole chunks")
        shard, sizes, codecs = counts(sizes, parts), parts, below(inner, "codecs")
    form = _Form(str(below(said, "data_type")), shape, sizes, key)
    return form.array(_compressed(codecs), shard, below(said, "fill_value"))


class _Form(msgspec.Struct, frozen=True):
    """What both versions say."""

    dtype: str
    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    key: Callable[[Index], str]

    def array(self, zstandard: bool, shard: tuple[int, ...] | None, fill: object) -> Array:
        if self.dtype not in DTYPES or DTYPES[self.dtype].size not in (1, 2, 4, 8):
            raise NotRead(f"values of the type {self.dtype[:50]} are not measured")
        if len(self.shape) != len(self.sizes) or len(self.shape) > LIMITS.dims:
            raise Damage(FaultCode.CORRUPT, "the chunks of an array have another shape")
        if not bounded(list(self.shape)):
            raise Damage(FaultCode.CORRUPT, "an array has more elements than can be counted")
        scalar = not self.shape
        grid = Grid(self.shape or (1,), self.sizes or (1,), DTYPES[self.dtype].size)

        def key(index: Index) -> str:
            return self.key(() if scalar else index)

        if scalar and shard is not None:
            shard = (1,)
        zeros = fill is None or fill in (0, False)
        return Array(self.dtype, self.shape, grid, key, zstandard, shard, zeros)


def _sizes(said: object, key: str) -> tuple[int, ...]:
    given = below(said, key)
    sizes = given if isinstance(given, list) else [None]
    least = 0 if key == "shape" else 1
    if not all(type(size) is int and least <= size < 1 << 63 for size in sizes):
        raise Damage(FaultCode.CORRUPT, f"{key} of an array is no list of sizes")
    return tuple(sizes)


def _sharded(codecs: object) -> object:
    """The configuration of shards whose table is at their end, None where there are none."""
    first = codecs[0] if isinstance(codecs, list) and len(codecs) == 1 else None
    if below(first, "name") != "sharding_indexed":
        return None
    inner = below(first, "configuration")
    names = _codec_names(below(inner, "index_codecs"))
    if below(inner, "index_location") not in (None, "end") or names != ["bytes", "crc32c"]:
        raise NotRead("an array of Zarr in shards of another form")
    return inner


def _compressed(codecs: object) -> bool:
    """Whether by zstandard. Raises NotRead for all else."""
    names = _codec_names(codecs)
    first = codecs[0] if isinstance(codecs, list) and codecs else None
    little = below(first, "configuration", "endian") in (None, "little")
    if not little or names not in (["bytes"], ["bytes", "zstd"]):
        raise NotRead(f"an array of Zarr with the codecs {', '.join(names)}"[:200])
    return "zstd" in names


def _codec_names(codecs: object) -> list[str]:
    listed = codecs if isinstance(codecs, list) else []
    return [str(below(one, "name")) for one in listed]
