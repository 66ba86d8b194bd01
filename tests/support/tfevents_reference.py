"""What an event file holds, told record by record by the plainest possible decoder.

Shares no code with the reader: messages are parsed to lists of fields, tensors through numpy.
"""

from __future__ import annotations

import struct

import google_crc32c
import msgspec
import numpy as np

from tests.support.tfevents import masked

FIXED = {1: 8, 5: 4}
DTYPES = {
    1: ("<f4", 5),
    2: ("<f8", 6),
    3: ("<i4", 7),
    4: ("<u1", 7),
    5: ("<i2", 7),
    6: ("<i1", 7),
    9: ("<i8", 10),
    10: ("<u1", 11),
    14: ("<V2", 13),  # bfloat16
    17: ("<u2", 7),
    19: ("<f2", 13),
    22: ("<u4", 16),
    23: ("<u8", 17),
}


class Reference(msgspec.Struct):
    """Points by tag, ``(step, wall, value)`` each; ``fault``: None, "corrupt" or "truncated"."""

    points: dict[str, list[tuple[int, float, float]]] = msgspec.field(default_factory=dict)
    fault: str | None = None
    at: int = 0


class Bad(Exception):
    pass


def decode(data: bytes) -> Reference:
    """Everything before the first bad or incomplete record of a file."""
    out = Reference()
    while out.at < len(data):
        rest = data[out.at :]
        if len(rest) < 12:
            out.fault = "truncated" if out.at else "corrupt"
            break
        length = int.from_bytes(rest[:8], "little")
        if not _checked(rest[:8], rest[8:12]):
            out.fault = "corrupt"
            break
        if len(rest) < length + 16:
            out.fault = "truncated"
            break
        payload = rest[12 : 12 + length]
        try:
            if not _checked(payload, rest[12 + length : 16 + length]):
                raise Bad
            found = _event(payload)
        except Bad:
            out.fault = "corrupt"
            break
        for tag, step, wall, value in found:
            out.points.setdefault(tag, []).append((step, wall, value))
        out.at += length + 16
    return out


def _checked(data: bytes, crc: bytes) -> bool:
    return masked(google_crc32c.value(data)).to_bytes(4, "little") == crc


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= len(data):
            raise Bad
        value += (data[at + place] % 128) * 128**place
        if data[at + place] < 128:
            return value % 2**64, at + place + 1
    raise Bad


def _message(data: bytes) -> list[tuple[int, int, object]]:
    out: list[tuple[int, int, object]] = []
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        number, wire = divmod(head, 8)
        value: object
        if wire == 0:
            value, at = _varint(data, at)
        else:
            if wire == 2:
                size, at = _varint(data, at)
            elif wire in FIXED:
                size = FIXED[wire]
            else:
                raise Bad
            value, at = data[at : at + size], at + size
        if at > len(data) or number == 0:
            raise Bad
        out.append((number, wire, value))
    return out


def _event(data: bytes) -> list[tuple[str, int, float, float]]:
    wall, step = 0.0, 0
    values: list[tuple[str, float]] = []
    for number, wire, value in _message(data):
        if (number, wire) == (1, 1):
            (wall,) = struct.unpack("<d", value)
        elif (number, wire) == (2, 0):
            step = value - 2**64 if value >= 2**63 else value
        elif (number, wire) == (5, 2):
            for inner, kind, one in _message(value):
                if (inner, kind) == (1, 2):
                    values += _value(one)
    return [(tag, step, wall, value) for tag, value in values]


def _value(data: bytes) -> list[tuple[str, float]]:
    tag, plugin, last = b"", b"", None
    for number, wire, value in _message(data):
        if (number, wire) == (1, 2):
            tag = value
        elif (number, wire) == (9, 2):
            plugin = _plugin(value)
        elif (number, wire) in {(2, 5), (3, 2), (4, 2), (5, 2), (6, 2), (8, 2)}:
            last = number, value
    name = tag.decode("utf-8", "backslashreplace")
    if last and last[0] == 2:
        return [(name, struct.unpack("<f", last[1])[0])]
    if last and last[0] == 8 and plugin in {b"", b"scalars"}:
        return [(name, number) for number in _tensor(last[1])]
    return []


def _plugin(data: bytes) -> bytes:
    name = b""
    for number, wire, value in _message(data):
        if (number, wire) == (1, 2):
            for inner, kind, one in _message(value):
                if (inner, kind) == (1, 2):
                    name = one
    return name


def _tensor(data: bytes) -> list[float]:
    """The value of a rank-0 numeric tensor as a list of one, else an empty list."""
    fields = _message(data)
    number = next((v for n, w, v in reversed(fields) if (n, w) == (1, 0)), 0)
    if any((n, w) == (2, 2) and v for n, w, v in fields) or number not in DTYPES:
        return []
    form, place = DTYPES[number]
    content = next((v for n, w, v in reversed(fields) if (n, w) == (4, 2)), b"")
    if content:
        return _one(content, form)
    single = {"<f4": 5, "<f8": 1}.get(form, 0)
    raw = [(w, v) for n, w, v in fields if n == place and w in (2, single) and v != b""]
    if not raw:
        return [0.0]
    if len(raw) > 1:
        return []
    wire, value = raw[0]
    if form in {"<f4", "<f8"}:
        return _one(value, form)
    if wire == 2:
        value, after = _varint(value, 0)
        if after < len(raw[0][1]):
            return []
    return _one((value % 2**64).to_bytes(8, "little")[: np.dtype(form).itemsize], form)


def _one(raw: bytes, form: str) -> list[float]:
    if len(raw) != np.dtype(form).itemsize:
        return []
    if form == "<V2":
        raw, form = b"\0\0" + raw, "<f4"
    return [float(number) for number in np.frombuffer(raw, form)]
