"""ONNX: a graph in protocol buffers, with weights inside of it or in files beside it.

Source: ``onnx/onnx.proto`` and the external data document of ONNX. Read are the initializers of
the graph and the tensors of its Constant nodes; graphs inside of nodes (If, Loop) as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Extent,
    Group,
    Integrity,
    Presence,
    Scalar,
    TensorInfo,
    Unread,
)

from .beside import leaves
from .cursor import Cursor
from .draft import Draft, Item
from .protobuf import Field, fields, numbers, signed, text
from .source import Damage, Source
from .stretches import ELSEWHERE, Stretch, bounded, info_of, listed

_GRAPH, _PRODUCER, _IR_VERSION = 7, 2, 1
_NODE, _INITIALIZER = 1, 5
_NODE_NAME, _ATTRIBUTE = 3, 5
_TENSOR, _SUBGRAPH = 5, 6
_DIMS, _TYPE, _NAME, _EXTERNAL, _LOCATION = 1, 2, 8, 13, 14
_RAW, _FLOATS, _DOUBLES = 9, 4, 10
_VARINTS = (5, 7, 11)
_CONSTANT = (b"Constant", b"If", b"Loop", b"Scan")
"""Node types that may hold tensors: only nodes in which one of these words occurs are entered."""

_TYPES: Mapping[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1",
    24: "float8_e8m0fnu",
}
_WIDTHS = {"float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int32": 4, "int64": 8}
"""Bytes of the types that may be kept as variable-length numbers; one byte for all others."""


class _Tensor(msgspec.Struct):
    """``data``: where the elements lie as they are. ``numbers``: where they are varints."""

    dims: list[int] = msgspec.field(default_factory=list)
    type: int = 0
    name: str = ""
    data: Field | None = None
    numbers: Field | None = None
    external: dict[str, str] = msgspec.field(default_factory=dict)


def read_onnx(draft: Draft) -> Iterator[Item]:
    """Tensors, then facts. Raises Damage."""
    draft.integrity = Integrity.ABSENT
    reading = _Reading(draft)
    try:
        for info in reading.model():
            yield draft.tensor(info)
    except Damage as damage:
        yield from draft.broken(damage)
        return
    if not reading.graphs:
        draft.reason = "no graph is in it"
        yield draft.done(Extent.NOT_CHECKED)
        return
    yield draft.done()


class _Reading:
    def __init__(self, draft: Draft) -> None:
        self.draft, self.cursor = draft, Cursor(draft.source)
        self.graphs, self._room = 0, draft.limits.fields
        self._lost: set[str] = set()
        self._metadata: list[Scalar] = []

    def model(self) -> Iterator[TensorInfo]:
        for one in self._fields(self.draft.source.size):
            if one.number == _GRAPH and one.size >= 0:
                yield from self._graph(one, "", 0)
            elif one.number == _PRODUCER:
                self._say("producer", text(self.cursor, one, self.draft.limits.value))
            elif one.number == _IR_VERSION:
                self._say("ir_version", one.value)
        self.draft.metadata = self._metadata

    def _fields(self, end: int) -> Iterator[Field]:
        """Up to byte ``end``; all of a file together are bounded. Raises Damage."""
        for one in fields(self.cursor, end):
            self._room -= 1
            if self._room < 0:
                raise Damage(FaultCode.TOO_LARGE, "more fields than the limit")
            yield one

    def _say(self, name: str, value: str | int) -> None:
        self._metadata.append(Scalar(name, value))

    def _graph(self, place: Field, prefix: str, depth: int) -> Iterator[TensorInfo]:
        if depth > self.draft.limits.json_depth:
            self.draft.unread.append(Unread(prefix, "graphs in graphs beyond the limit"))
            return
        self.graphs += 1
        self.cursor.at = place.start
        for one in self._fields(place.end):
            if one.number == _INITIALIZER and one.size >= 0:
                yield from self._tensor(one, prefix)
            elif one.number == _NODE and one.size >= 0:
                yield from self._node(one, prefix, depth)

    def _node(self, place: Field, prefix: str, depth: int) -> Iterator[TensorInfo]:
        if place.size < self.draft.limits.node:
            self.cursor.at = place.start
            data = self.cursor.take(place.size)
            if not any(word in data for word in _CONSTANT):
                return
        self.cursor.at, name = place.start, ""
        for one in self._fields(place.end):
            if one.number == _NODE_NAME:
                name = text(self.cursor, one, self.draft.limits.label)
            elif one.number == _ATTRIBUTE and one.size >= 0:
                inner = "/".join(filter(None, (prefix, name or "constant")))
                yield from self._attribute(one, inner, depth)

    def _attribute(self, place: Field, prefix: str, depth: int) -> Iterator[TensorInfo]:
        self.cursor.at = place.start
        for one in self._fields(place.end):
            if one.number == _TENSOR and one.size >= 0:
                constants = self._tensor(one, prefix)
                yield from (replace(info, group=Group.STATE) for info in constants)
            elif one.number == _SUBGRAPH and one.size >= 0:
                yield from self._graph(one, prefix, depth + 1)

    # --- tensors ---

    def _tensor(self, place: Field, prefix: str) -> Iterator[TensorInfo]:
        given = _Tensor()
        self.cursor.at = place.start
        for one in self._fields(place.end):
            self._part(given, one)
        name = "/".join(filter(None, (prefix, given.name)))[: self.draft.limits.label]
        if not bounded(given.dims) or len(given.dims) > self.draft.limits.dims:
            what = f"the shape {given.dims[:8]}"
            self.draft.defects.append(Defect(DefectCode.TENSOR_LAYOUT, what[:200], name))
            return
        yield self._info(given, name)

    def _part(self, given: _Tensor, one: Field) -> None:
        limits = self.draft.limits
        if one.number == _DIMS:
            given.dims += map(signed, numbers(self.cursor, one, limits.line))
        elif one.number == _TYPE:
            given.type = one.value
        elif one.number == _NAME:
            given.name = text(self.cursor, one, limits.label)
        elif one.number in (_RAW, _FLOATS, _DOUBLES) and one.size >= 0:
            given.data = one
        elif one.number in _VARINTS and one.size >= 0:
            given.numbers = one
        elif one.number == _EXTERNAL and one.size >= 0:
            self._external(given, one)

    def _external(self, given: _Tensor, place: Field) -> None:
        """A pair of texts: ``location``, ``offset``, ``length``, ``checksum``."""
        key = value = ""
        self.cursor.at = place.start
        for one in self._fields(place.end):
            said = text(self.cursor, one, self.draft.limits.entry_name)
            key, value = (said, value) if one.number == 1 else (key, said)
        given.external[key] = value

    def _info(self, given: _Tensor, name: str) -> TensorInfo:
        dtype, shape = _TYPES.get(given.type, f"type {given.type}"), tuple(given.dims)
        if given.external:
            return self._outside(given, name, dtype, shape)
        source = self.draft.source
        if given.data is not None:
            stretch = Stretch(name, dtype, shape, given.data.start, given.data.size)
            return info_of(self.draft, stretch, source)
        if given.numbers is not None and given.numbers.size <= self.draft.limits.numbers:
            source = self._unpacked(given.numbers, _WIDTHS.get(dtype, 1))
            return info_of(self.draft, Stretch(name, dtype, shape, 0, source.size), source)
        unread = "" if given.numbers is None else "its values are numbers of variable length"
        return info_of(self.draft, Stretch(name, dtype, shape, 0, 0), source, unread)

    def _unpacked(self, place: Field, width: int) -> Source:
        values = numbers(self.cursor, place, self.draft.limits.numbers)
        mask = (1 << 8 * width) - 1
        data = b"".join((value & mask).to_bytes(width, "little") for value in values)
        return Source.over(data)

    # --- files beside the model ---

    def _outside(self, given: _Tensor, name: str, dtype: str, shape: tuple[int, ...]) -> TensorInfo:
        place = given.external.get("location", "")
        offset, length = (_number(given.external.get(key)) for key in ("offset", "length"))
        source = self._file(place)
        start = offset or 0
        whole = 0 if source is None else max(source.size - start, 0)
        stretch = Stretch(name, dtype, shape, start, whole if length is None else length)
        if source is None and self.draft.beside is None:
            return listed(self.draft, stretch, ELSEWHERE)
        if source is None:
            return listed(self.draft, stretch, f"{place[:200]} is not there", Presence.ABSENT)
        info = info_of(self.draft, stretch, source)
        if info.presence is not Presence.WHOLE:
            what = f"{place[:200]} has {source.size} bytes, {name[:200]} ends at"
            detail = f"{what} {stretch.start + stretch.nbytes}"
            self.draft.defects.append(Defect(DefectCode.TRUNCATED, detail))
        return info

    def _file(self, place: str) -> Source | None:
        """None where the file is not there, or would be outside of the model's directory."""
        if self.draft.beside is None or place in self._lost:
            return None
        try:
            if not leaves(place):
                return self.draft.beside.source(place)
            lost = Defect(DefectCode.ENTRY_NAME, "its values are outside of the directory", place)
        except OSError as error:
            what = error.strerror or type(error).__name__
            lost = Defect(DefectCode.SHARD_MISSING, what, place[: self.draft.limits.label])
        self._lost.add(place)
        self.draft.defects.append(lost)
        return None


def _number(said: str | None) -> int | None:
    plain = said is not None and said.isascii() and said.isdigit() and len(said) < 20
    return int(said) if plain and said is not None else None
