"""``.npy`` and ``.npz``: arrays with a header in Python's notation, read without evaluating it."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator

import msgspec

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Depth,
    Extent,
    Integrity,
    Kind,
    Presence,
    TensorInfo,
    TensorStats,
    Unread,
)

from .draft import Draft, Item
from .dtypes import DTYPES
from .roles import group_of
from .scan import scan_of
from .source import Damage
from .torch_objects import NUMPY_TYPES
from .zipped import Archive, Entry, even

MAGIC = b"\x93NUMPY"
_LONGEST = 64 << 10

_DESCR = re.compile(r"'descr':\s*'([<>|=])([A-Za-z])(\d*)'")
_ORDER = re.compile(r"'fortran_order':\s*(True|False)")
_SHAPE = re.compile(r"'shape':\s*\(([\d,\s]*)\)")


class NpyHeader(msgspec.Struct, frozen=True):
    """``dtype``: None for types that are not measured; ``code``: numpy's name of the type."""

    dtype: str | None
    code: str
    big_endian: bool
    shape: tuple[int, ...]
    data: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * (DTYPES[self.dtype].size if self.dtype else 0)


def parse_npy(head: bytes) -> NpyHeader:
    """Raises Damage. ``head``: at least the first 64 KiB of the file, or all of it."""
    if head[:6] != MAGIC or len(head) < 12:
        raise Damage(FaultCode.CORRUPT, "no .npy header")
    wide = head[6] > 1
    length = int.from_bytes(head[8:12] if wide else head[8:10], "little")
    start = 12 if wide else 10
    if length > _LONGEST or start + length > len(head):
        raise Damage(FaultCode.TRUNCATED, "the .npy header is not whole")
    text = head[start : start + length].decode("latin-1")
    order, shape = _ORDER.search(text), _SHAPE.search(text)
    if order is None or shape is None:
        raise Damage(FaultCode.CORRUPT, "the .npy header is not in numpy's form")
    sizes = tuple(int(size[:20]) for size in re.findall(r"\d+", shape[1]))
    descr = _DESCR.search(text)
    code = f"{descr[2]}{descr[3]}" if descr else "structured"
    big = descr is not None and descr[1] == ">"
    return NpyHeader(NUMPY_TYPES.get(code), code, big, sizes, start + length)


def read_npy(draft: Draft) -> Iterator[Item]:
    """One array, then facts. Raises Damage."""
    draft.integrity = Integrity.ABSENT
    source = draft.source
    yield _array(draft, "", source.size, source.chunks(0, source.size))
    yield draft.done()


def read_npz(draft: Draft, archive: Archive) -> Iterator[Item]:
    """Every array of an archive; the caller has checked the archive itself."""
    for entry in archive.entries:
        try:
            yield _entry(draft, archive, entry)
        except Damage as damage:
            draft.unread.append(Unread(entry.name, damage.what))
            draft.defects.append(Defect(DefectCode.HEADER, damage.what, entry.name))
    yield draft.done(None if draft.tensors else Extent.NOT_CHECKED)


def _entry(draft: Draft, archive: Archive, entry: Entry) -> Item:
    return _array(draft, entry.name.removesuffix(".npy"), entry.size, archive.pieces(entry))


def _array(draft: Draft, name: str, size: int, pieces: Iterator[memoryview]) -> TensorInfo:
    first = bytes(next(pieces, memoryview(b"")))
    header = parse_npy(first)
    there = size - header.data
    stats, unread, presence = None, "", Presence.WHOLE
    if header.dtype is None:
        unread = f"an array of numpy type {header.code}"
        if header.code.startswith("O"):
            draft.survey.pickle(first, name, header.data)
    elif there < header.nbytes:
        unread, presence = "its bytes are not all in the file", Presence.CUT
        what = f"{there} bytes of {header.nbytes}"
        draft.defects.append(Defect(DefectCode.TRUNCATED, what, name))
    elif draft.depth is Depth.TENSORS:
        stats = _stats(header, itertools.chain([memoryview(first)[header.data :]], pieces))
    return draft.tensor(
        TensorInfo(
            name,
            header.dtype or header.code,
            header.shape,
            header.nbytes,
            draft.artifact,
            stats,
            unread,
            Kind.ARRAY,
            group_of(name, draft.artifact),
            presence,
        )
    )


def _stats(header: NpyHeader, pieces: Iterator[memoryview]) -> TensorStats:
    dtype = DTYPES[header.dtype or ""]
    scan, left = scan_of(dtype, header.big_endian), header.nbytes
    for piece in even(pieces, 1 << 20):
        scan.add(piece[:left])
        left -= min(left, len(piece))
    return scan.stats()
