"""GGUF: typed keys and values, then the place of every tensor, then the tensors.

Source: ``docs/gguf.md`` of ggml. Quantised tensors are listed and not measured.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping

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

from .cursor import Cursor
from .draft import Draft, Item
from .dtypes import DTYPES
from .parts import Values, measured
from .source import Damage

_VERSIONS = (2, 3)
_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_DIMS = 4
_ALIGNMENT = 32

_TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("float32", 1, 4),
    1: ("float16", 1, 2),
    2: ("q4_0", 32, 18),
    3: ("q4_1", 32, 20),
    6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24),
    8: ("q8_0", 32, 34),
    9: ("q8_1", 32, 36),
    10: ("q2_k", 256, 84),
    11: ("q3_k", 256, 110),
    12: ("q4_k", 256, 144),
    13: ("q5_k", 256, 176),
    14: ("q6_k", 256, 210),
    15: ("q8_k", 256, 292),
    16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74),
    18: ("iq3_xxs", 256, 98),
    19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18),
    21: ("iq3_s", 256, 110),
    22: ("iq2_s", 256, 82),
    23: ("iq4_xs", 256, 136),
    24: ("int8", 1, 1),
    25: ("int16", 1, 2),
    26: ("int32", 1, 4),
    27: ("int64", 1, 8),
    28: ("float64", 1, 8),
    29: ("iq1_m", 256, 56),
    30: ("bfloat16", 1, 2),
    34: ("tq1_0", 256, 54),
    35: ("tq2_0", 256, 66),
    39: ("mxfp4", 32, 17),
}
"""Name, elements and bytes of one block of each ggml type."""


class _Placed(msgspec.Struct, frozen=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def read_gguf(draft: Draft) -> Iterator[Item]:
    """Tensors, then facts. Raises Damage."""
    draft.integrity = Integrity.ABSENT
    cursor = Cursor(draft.source, 4)
    version = cursor.number("I")
    if version not in _VERSIONS:
        draft.reason = f"version {version} of the format"
        yield draft.done(Extent.NOT_CHECKED)
        return
    tensors, keys = cursor.number("Q"), cursor.number("Q")
    _bounded(tensors + keys, draft.limits.entries)
    draft.metadata = list(_metadata(draft, cursor, keys))
    placed = [_placed(draft, cursor) for _ in range(tensors)]
    alignment = dict((one.name, one.value) for one in draft.metadata).get("general.alignment")
    step = alignment if isinstance(alignment, int) and alignment > 0 else _ALIGNMENT
    data = -(-cursor.at // step) * step
    infos = [_measured(draft, one, data) for one in placed]
    missing = [one for one in infos if one.presence is not Presence.WHOLE]
    if missing:
        what = f"the file ends early: of {len(infos)} tensors {len(missing)} are not whole"
        draft.defects.append(Defect(DefectCode.TRUNCATED, what))
        yield draft.fault(Damage(FaultCode.TRUNCATED, what), fatal=False)
    yield from infos
    yield draft.done()


def _bounded(count: int, limit: int) -> int:
    if count > limit:
        raise Damage(FaultCode.TOO_LARGE, f"{count} tensors, keys or elements are over the limit")
    return count


def _text(draft: Draft, cursor: Cursor) -> str:
    length = cursor.number("Q")
    if length > draft.limits.strings:
        raise Damage(FaultCode.TOO_LARGE, f"a text of {length} bytes is over the limit")
    return cursor.take(length).decode("utf-8", "backslashreplace")


def _metadata(draft: Draft, cursor: Cursor, count: int) -> Iterator[Scalar]:
    for _ in range(count):
        key = _text(draft, cursor)[: draft.limits.label]
        value = _value(draft, cursor, cursor.number("I"))
        if value is not None:
            yield Scalar(key, value[: draft.limits.value] if isinstance(value, str) else value)


def _value(draft: Draft, cursor: Cursor, kind: int) -> int | float | bool | str | None:
    """One value; None for an array, which is passed over."""
    if kind == _STRING:
        return _text(draft, cursor)
    if kind == _ARRAY:
        _pass_array(draft, cursor)
        return None
    return _number(cursor, kind)


def _number(cursor: Cursor, kind: int) -> int | float | bool:
    code = _NUMBERS.get(kind)
    if code is None:
        raise Damage(FaultCode.CORRUPT, f"the value type {kind} does not exist")
    value: int | float | bool = struct.unpack("<" + code, cursor.take(struct.calcsize(code)))[0]
    return value


def _pass_array(draft: Draft, cursor: Cursor) -> None:
    kind, count = cursor.number("I"), _bounded(cursor.number("Q"), draft.limits.items)
    if kind == _STRING:
        for _ in range(count):
            _text(draft, cursor)
        return
    code = _NUMBERS.get(kind)
    if code is None:
        raise Damage(FaultCode.CORRUPT, f"an array of the value type {kind}")
    cursor.take(count * struct.calcsize(code))


def _placed(draft: Draft, cursor: Cursor) -> _Placed:
    name = _text(draft, cursor)
    dims = cursor.number("I")
    if dims > _DIMS:
        raise Damage(FaultCode.CORRUPT, f"{name[:80]}: {dims} dimensions")
    sizes = [cursor.number("Q") for _ in range(dims)]
    kind, offset = cursor.number("I"), cursor.number("Q")
    if kind not in _TYPES:
        raise Damage(FaultCode.CORRUPT, f"{name[:80]}: the tensor type {kind} does not exist")
    dtype, block, size = _TYPES[kind]
    elements = math.prod(sizes)
    if elements >= 1 << 63 or elements % block:
        raise Damage(FaultCode.CORRUPT, f"{name[:80]}: {elements} elements of {dtype}")
    return _Placed(name, dtype, tuple(reversed(sizes)), offset, elements // block * size)


def _measured(draft: Draft, one: _Placed, data: int) -> TensorInfo:
    start, size = data + one.offset, draft.source.size
    presence = Presence.WHOLE if start + one.nbytes <= size else Presence.CUT
    if start >= size and one.nbytes:
        presence = Presence.ABSENT
    stats, unread = None, ""
    if presence is not Presence.WHOLE:
        unread = "its bytes are not all in the file"
    elif one.dtype not in DTYPES:
        unread = "quantised values are not measured"
    elif draft.values:
        stats, _ = measured(draft.source, Values(one.dtype, start, one.nbytes))
    return draft.tensor(
        TensorInfo(
            one.name,
            one.dtype,
            one.shape,
            one.nbytes,
            draft.artifact,
            stats,
            unread,
            presence=presence,
            place=None if stats is None else start,
        )
    )
