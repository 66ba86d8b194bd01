"""The scalars of one ``Event`` message; everything else in it is stepped over undecoded.

Field numbers: TensorFlow's ``core/util/event.proto`` and ``core/framework/summary.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from trainproof.model.data import FaultCode

from .framing import HEADER, Damage
from .tensor import Number, scalar
from .wire import BYTES, FIXED32, FIXED64, VARINT, Malformed, fields, key, signed, varint

WALL_TIME = key(1, FIXED64)
STEP = key(2, VARINT)
_FILE_VERSION = key(3, BYTES)
_SUMMARY = key(5, BYTES)

_VALUE = key(1, BYTES)

_TAG = key(1, BYTES)
_SIMPLE_VALUE = key(2, FIXED32)
_TENSOR = key(8, BYTES)
_METADATA = key(9, BYTES)
_OTHER_VALUES = frozenset(key(field, BYTES) for field in (3, 4, 5, 6))
"""Old and new histograms, images, audio: with the two above, one ``oneof``."""

_PLUGIN_DATA = key(1, BYTES)
_PLUGIN_NAME = key(1, BYTES)
_SCALAR_PLUGINS = frozenset((b"", b"scalars"))
"""A tensor of another plugin (hparams, text, pr_curves) is no logged scalar; one that names
none may be, since some writers state the plugin only once."""

_f4 = struct.Struct("<f").unpack_from
_f8 = struct.Struct("<d").unpack_from


class Scalar(NamedTuple):
    """One logged number; ``at`` and ``form`` (numpy type) where its bytes are a plain float."""

    tag: bytes
    value: float
    at: int
    form: str


class Event(NamedTuple):
    """What the reader wants of a record. ``wall_at``, ``step_at``: the places of the bytes of
    the two, or -1 where the record does not state it (then it is 0)."""

    wall: float
    step: int
    scalars: list[Scalar]
    wall_at: int
    step_at: int
    file_version: bytes


def decode_event(data: bytes, at: int, end: int, limit: int) -> Event:
    """Decode the payload ``data[at:end]``.

    Raises Damage when it is no valid message or holds more than ``limit`` scalars.
    """
    try:
        return _event(data, at, end, limit)
    except (Malformed, IndexError, struct.error):
        what = "the record is not a valid Event message"
        raise Damage(FaultCode.CORRUPT, at - HEADER, what) from None


def _event(data: bytes, at: int, end: int, limit: int) -> Event:
    wall, step, wall_at, step_at, version = 0.0, 0, -1, -1, b""
    scalars: list[Scalar] = []
    for tag, start, stop in fields(data, at, end):
        if tag == WALL_TIME:
            wall, wall_at = _f8(data, start)[0], start
        elif tag == STEP:
            step, step_at = signed(varint(data, start)[0]), start
        elif tag == _SUMMARY:
            for one in _summary(data, start, stop):
                scalars.append(one)
                if len(scalars) > limit:
                    what = f"the record holds more than {limit} scalars"
                    raise Damage(FaultCode.TOO_LARGE, at - HEADER, what)
        elif tag == _FILE_VERSION:
            version = data[start:stop]
    return Event(wall, step, scalars, wall_at, step_at, version)


def _summary(data: bytes, at: int, end: int) -> Iterator[Scalar]:
    for tag, start, stop in fields(data, at, end):
        if tag == _VALUE and (one := _value(data, start, stop)):
            yield one


def _value(data: bytes, at: int, end: int) -> Scalar | None:
    """The scalar in a ``Summary.Value``. Of several members of its oneof the last counts."""
    name, plugin = b"", b""
    simple, tensor = -1, (-1, -1)
    for tag, start, stop in fields(data, at, end):
        if tag == _TAG:
            name = data[start:stop]
        elif tag == _SIMPLE_VALUE:
            simple, tensor = start, (-1, -1)
        elif tag == _TENSOR:
            simple, tensor = -1, (start, stop)
        elif tag in _OTHER_VALUES:
            simple, tensor = -1, (-1, -1)
        elif tag == _METADATA:
            plugin = _plugin(data, start, stop)
    if simple >= 0:
        return Scalar(name, _f4(data, simple)[0], simple, "<f4")
    if tensor[0] < 0 or plugin not in _SCALAR_PLUGINS:
        return None
    return _named(name, scalar(data, *tensor))


def _named(name: bytes, number: Number | None) -> Scalar | None:
    return None if number is None else Scalar(name, number.value, number.at, number.form)


def _plugin(data: bytes, at: int, end: int) -> bytes:
    """The plugin's name in a ``SummaryMetadata``."""
    name = b""
    for tag, start, stop in fields(data, at, end):
        if tag == _PLUGIN_DATA:
            for inner, first, last in fields(data, start, stop):
                if inner == _PLUGIN_NAME:
                    name = data[first:last]
    return name
