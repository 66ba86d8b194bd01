"""Tensors whose elements lie in one row in a file, as most formats keep them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from trainproof.model.data import FaultCode
from trainproof.model.tensors import Defect, DefectCode, Kind, Presence, TensorInfo, TensorStats

from .checksum import crc32
from .draft import Draft
from .dtypes import DTYPES
from .parts import Values, measured
from .roles import group_of
from .scan import scan_of
from .source import Damage, Source

ELSEWHERE = "its values are in another file"


class Stretch(msgspec.Struct, frozen=True):
    """``dtype``: torch's name, or that of the format where torch has none. The bytes are ``start
    .. start + nbytes`` of a source.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int
    big_endian: bool = False
    kind: Kind = Kind.DENSE


def info_of(draft: Draft, one: Stretch, source: Source, unread: str = "") -> TensorInfo:
    """The tensor, measured where the depth asks for it. ``unread``: why it is not, if so."""
    presence = _presence(one, source.size)
    if presence is not Presence.WHOLE:
        unread = "its bytes are not all in the file"
    elif not unread:
        unread = _unfit(draft, one)
    stats = crc = None
    if draft.values and not unread:
        values = Values(one.dtype, one.start, one.nbytes, one.big_endian)
        stats, crc = measured(source, values, draft.limits.chunk)
    here = stats is not None and source is draft.source and not one.big_endian
    place = source.base + one.start if here else None
    return listed(draft, one, unread, presence, stats=stats, crc=crc, place=place)


def listed_with(draft: Draft, one: Stretch, pieces: Iterable[memoryview | bytes]) -> TensorInfo:
    """The tensor, measured by its bytes, which come from anywhere. Raises what these do."""
    scan, crc = scan_of(DTYPES[one.dtype], one.big_endian), 0
    for piece in pieces:
        crc = crc32(piece, crc)
        scan.add(piece)
    return listed(draft, one, "", stats=scan.stats(), crc=crc)


def listed(
    draft: Draft,
    one: Stretch,
    unread: str,
    presence: Presence = Presence.WHOLE,
    *,
    stats: TensorStats | None = None,
    crc: int | None = None,
    place: int | None = None,
) -> TensorInfo:
    """The tensor, without its values where none are given. Raises Damage beyond the limit."""
    draft.listed += 1
    if draft.listed > draft.limits.tensors:
        raise Damage(FaultCode.TOO_LARGE, "more tensors than the limit")
    return TensorInfo(
        one.name,
        one.dtype,
        one.shape,
        one.nbytes,
        draft.artifact,
        stats,
        unread,
        one.kind,
        group_of(one.name, draft.artifact),
        presence,
        crc=crc,
        place=place,
    )


def _presence(one: Stretch, size: int) -> Presence:
    if one.start + one.nbytes <= size:
        return Presence.WHOLE
    return Presence.CUT if one.start < size else Presence.ABSENT


def _unfit(draft: Draft, one: Stretch) -> str:
    """Why it cannot be measured: its type is not known, or its shape says something else."""
    if one.dtype not in DTYPES:
        return f"values of the type {one.dtype} are not measured"
    needed = math.prod(one.shape) * DTYPES[one.dtype].size
    if needed == one.nbytes:
        return "" if draft.spend(one.nbytes) else "more bytes than the limit are shared"
    what = f"the shape needs {needed} bytes, it has {one.nbytes}"
    draft.defects.append(Defect(DefectCode.TENSOR_LAYOUT, what[:200], one.name))
    return "its shape and its bytes disagree"


def bounded(sizes: list[int]) -> bool:
    """Whether a shape is one that a tensor can have."""
    return all(0 <= size < 1 << 63 for size in sizes) and math.prod(sizes) < 1 << 63
