"""Stretches of a file, measured part by part in several threads.

What is found out does not depend on the parts: they end where the pieces end that a stretch is read
in, counts add up, extremes are extremes of extremes, and the checksum of two stretches follows from
those of both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce

import msgspec

from trainproof.model.tensors import TensorStats

from .checksum import crc32, joined_crc32
from .dtypes import DTYPES
from .limits import LIMITS
from .scan import joined, scan_of
from .source import Source
from .threads import LARGE, in_threads

PART = 8 << 20
"""Bytes of a part, a multiple of those of a piece: enough that threads need not wait for one
another, few enough that none is left with much to do when the others are done."""


def parts(count: int) -> Iterator[tuple[int, int]]:
    """Where each part of ``count`` bytes begins, and how long it is. No bytes are one part."""
    for at in range(0, max(count, 1), PART):
        yield at, min(PART, count - at)


class Values(msgspec.Struct, frozen=True):
    """Elements in one row: their type, first byte and number of bytes."""

    dtype: str
    start: int
    nbytes: int
    big_endian: bool = False


Measured = tuple[TensorStats, int]
"""Statistics and checksum."""


def measured(source: Source, one: Values, chunk: int = LIMITS.chunk) -> Measured:
    """Raises Damage, OSError."""
    return all_measured(source, [one], chunk)[0]


def all_measured(
    source: Source, several: Sequence[Values], chunk: int = LIMITS.chunk
) -> list[Measured]:
    """Of each, in their order: large ones in threads where the source is one that may be read so.

    Raises Damage, OSError.
    """

    for one in several:
        source.part(one.start, one.nbytes)  # before anything is cut: a size may be any number

    def measure(one: Values) -> Measured:
        scan, crc = scan_of(DTYPES[one.dtype], one.big_endian), 0
        for piece in source.chunks(one.start, one.nbytes, chunk):
            crc = crc32(piece, crc)
            scan.add(piece)
        return scan.stats(), crc

    least = LARGE if source.shared else math.inf
    cut = [part for one in several if one.nbytes >= least for part in _cut(one)]
    made = iter(in_threads(measure, cut, len(cut)))
    return [_joined(one, made) if one.nbytes >= least else measure(one) for one in several]


def _cut(one: Values) -> Iterator[Values]:
    for at, count in parts(one.nbytes):
        yield Values(one.dtype, one.start + at, count, one.big_endian)


def _joined(one: Values, made: Iterator[Measured]) -> Measured:
    """What the next of the parts say together."""
    cut = [(count, *next(made)) for _, count in parts(one.nbytes)]
    crc = reduce(lambda crc, part: joined_crc32(crc, part[2], part[0]), cut, 0)
    return reduce(joined, (stats for _, stats, _ in cut)), crc
