"""safetensors: 8 bytes of header length, a JSON header, then the bytes of every tensor.

As strict as the reference library: the tensors must cover the data without gap or overlap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Extent,
    Integrity,
    Presence,
    Scalar,
    TensorInfo,
)

from .draft import Draft, Item
from .dtypes import DTYPES
from .limits import LIMITS, Limits
from .parts import Measured, Values, all_measured
from .roles import group_of
from .source import Damage, Source

_LENGTH = 8

BITS: Mapping[str, tuple[str, int]] = {
    "F64": ("float64", 64),
    "F32": ("float32", 32),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "I64": ("int64", 64),
    "I32": ("int32", 32),
    "I16": ("int16", 16),
    "I8": ("int8", 8),
    "U64": ("uint64", 64),
    "U32": ("uint32", 32),
    "U16": ("uint16", 16),
    "U8": ("uint8", 8),
    "BOOL": ("bool", 8),
    "C64": ("complex64", 64),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F6_E2M3": ("float6_e2m3", 6),
    "F6_E3M2": ("float6_e3m2", 6),
    "F4": ("float4_e2m1", 4),
}
"""Type and bits of one element, by the name in the header."""


class BadHeader(Exception):
    """The header is none that the reference library accepts."""


class Span(msgspec.Struct, frozen=True):
    """One tensor: its bytes are ``start .. stop`` of the data."""

    name: str
    dtype: str
    bits: int
    shape: tuple[int, ...]
    start: int
    stop: int


class Header(msgspec.Struct, frozen=True):
    """``spans`` in the order of the data, which begin at byte ``data`` of the file."""

    spans: tuple[Span, ...]
    metadata: tuple[tuple[str, str], ...]
    data: int
    extra_fields: bool


def read_header(source: Source, limits: Limits = LIMITS) -> Header:
    """Raises BadHeader, and Damage where the file ends before its header does."""
    length = int.from_bytes(source.read(0, _LENGTH), "little")
    if length > limits.header:
        raise BadHeader(f"a header of {length} bytes is over the limit of {limits.header}")
    raw = source.read(_LENGTH, length)
    if raw[:1] != b"{":
        raise BadHeader("the header does not begin with a brace")
    made = _parse(raw)
    metadata = _metadata(made.pop("__metadata__", None))
    spans = [_span(name, fields) for name, fields in made.items()]
    spans.sort(key=lambda span: (span.start, span.stop))
    extra = any(len(fields) > len(_FIELDS) for fields in made.values() if isinstance(fields, dict))
    return Header(tuple(spans), metadata, _LENGTH + length, extra)


def _parse(raw: bytes) -> dict[str, object]:
    try:
        made = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_without_copies, parse_constant=_refused
        )
    except UnicodeDecodeError:
        raise BadHeader("the header is not UTF-8") from None
    except RecursionError:
        raise BadHeader("the header is nested too deeply") from None
    except ValueError as error:
        raise BadHeader(f"the header is no JSON: {str(error)[:80]}") from None
    if not isinstance(made, dict):
        raise BadHeader("the header is no mapping")
    return made


def _without_copies(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise BadHeader("a key of the header occurs twice")
    return made


def _refused(constant: str) -> object:
    raise BadHeader(f"{constant} is no JSON number")


def _metadata(given: object) -> tuple[tuple[str, str], ...]:
    if given is None:
        return ()
    if not isinstance(given, dict) or not all(isinstance(v, str) for v in given.values()):
        raise BadHeader("the metadata are not all text")
    return tuple(given.items())


_FIELDS = ("dtype", "shape", "data_offsets")


def _span(name: str, fields: object) -> Span:
    if not isinstance(fields, dict) or not all(field in fields for field in _FIELDS):
        raise BadHeader(f"{name[:80]}: dtype, shape or data_offsets is missing")
    kind, shape, offsets = (fields[field] for field in _FIELDS)
    if not isinstance(kind, str) or kind not in BITS:
        raise BadHeader(f"{name[:80]}: the type {str(kind)[:20]!r} does not exist")
    dtype, bits = BITS[kind]
    sizes, places = _numbers(name, shape), _numbers(name, offsets)
    if len(places) != 2 or places[0] > places[1]:
        raise BadHeader(f"{name[:80]}: data_offsets are no stretch")
    needed = math.prod(sizes) * bits
    if _overflows(sizes, bits) or needed != 8 * (places[1] - places[0]):
        what = f"the shape needs {needed / 8:.6g} bytes, it has {places[1] - places[0]}"
        raise BadHeader(f"{name[:80]}: {what}")
    return Span(name, dtype, bits, sizes, places[0], places[1])


def _numbers(name: str, given: object) -> tuple[int, ...]:
    if not isinstance(given, list):
        raise BadHeader(f"{name[:80]}: shape or data_offsets is no list")
    numbers = [one for one in given if type(one) is int and 0 <= one < 1 << 64]
    if len(numbers) != len(given):
        raise BadHeader(f"{name[:80]}: a size or an offset is no number that fits in 64 bits")
    return tuple(numbers)


def _overflows(sizes: tuple[int, ...], bits: int) -> bool:
    """The product is taken from the left, in 64 bits, by the reference."""
    run = 1
    for size in sizes:
        run *= size
        if run >= 1 << 64:
            return True
    return run * bits >= 1 << 64


# --- reading ----------------------------------------------------------------------------------


def read_safetensors(draft: Draft) -> Iterator[Item]:
    """Tensors in the order of the data, then facts."""
    draft.integrity = Integrity.ABSENT
    try:
        header = read_header(draft.source, draft.limits)
    except BadHeader as why:
        draft.defects.append(Defect(DefectCode.HEADER, str(why)))
        draft.reason = str(why)
        yield draft.fault(Damage(FaultCode.CORRUPT, str(why)))
        yield draft.done(Extent.NOT_CHECKED)
        return
    draft.metadata = [
        Scalar(key[: draft.limits.label], value[: draft.limits.value])
        for key, value in header.metadata[: draft.limits.scalars]
    ]
    draft.keys = tuple(span.name for span in header.spans[: draft.limits.scalars])
    if header.extra_fields:
        draft.defects.append(Defect(DefectCode.CONTAINER_ODD, "a tensor has unknown fields"))
    overlapping = _check_cover(draft, header)
    reasons = [_obstacle(header, span, draft.source.size, overlapping) for span in header.spans]
    readable = [span for span, why in zip(header.spans, reasons, strict=True) if not why]
    values = _values(draft, header, readable) if draft.values else {}
    tensors = [
        _tensor(draft, header, span, why, values.get(span.name))
        for span, why in zip(header.spans, reasons, strict=True)
    ]
    yield from _cut(draft, tensors)
    yield from tensors
    yield draft.done()


def _check_cover(draft: Draft, header: Header) -> bool:
    """Whether tensors share bytes. Gaps, overlaps and bytes behind the last one are defects."""
    at, overlapping = 0, False
    for span in header.spans:
        if span.start != at:
            overlapping = overlapping or span.start < at
            what = "its bytes overlap those of another tensor" if span.start < at else "a gap"
            draft.defects.append(Defect(DefectCode.HEADER, f"{what} before it", span.name))
        at = max(at, span.stop)
    there = draft.source.size - header.data
    if there > at:
        what = f"{there - at} bytes after the last tensor"
        draft.defects.append(Defect(DefectCode.HEADER, what))
    return overlapping


def _cut(draft: Draft, tensors: list[TensorInfo]) -> Iterator[Item]:
    """Say how much of a file that ends early is there."""
    counts = {one: sum(info.presence is one for info in tensors) for one in Presence}
    if counts[Presence.WHOLE] == len(tensors):
        return
    what = (
        f"the file ends early: of {len(tensors)} tensors {counts[Presence.WHOLE]} are whole, "
        f"{counts[Presence.CUT]} cut and {counts[Presence.ABSENT]} absent"
    )
    draft.defects.append(Defect(DefectCode.TRUNCATED, what))
    yield draft.fault(Damage(FaultCode.TRUNCATED, what), fatal=False)


def _obstacle(header: Header, span: Span, size: int, overlapping: bool) -> str:
    """Why the values of a tensor are not read, "" where they are. ``size``: of the file."""
    if header.data + span.stop > size:
        return "its bytes are not all in the file"
    if span.dtype not in DTYPES:
        return "elements of less than a byte are not measured"
    return "its bytes may be those of another tensor" if overlapping else ""


def _values(draft: Draft, header: Header, spans: Sequence[Span]) -> dict[str, Measured]:
    """By name."""
    several = [Values(one.dtype, header.data + one.start, one.stop - one.start) for one in spans]
    made = all_measured(draft.source, several)
    return {span.name: values for span, values in zip(spans, made, strict=True)}


def _tensor(
    draft: Draft, header: Header, span: Span, unread: str, values: Measured | None
) -> TensorInfo:
    there = draft.source.size - header.data
    presence = Presence.WHOLE
    if span.stop > there:
        presence = Presence.CUT if span.start < there else Presence.ABSENT
    stats, crc = values or (None, None)
    return draft.tensor(
        TensorInfo(
            span.name,
            span.dtype,
            span.shape,
            span.stop - span.start,
            draft.artifact,
            stats,
            unread,
            group=group_of(span.name, draft.artifact),
            presence=presence,
            crc=crc,
            place=None if stats is None else draft.source.base + header.data + span.start,
        )
    )
