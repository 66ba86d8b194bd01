"""One record at a time, in plain Python: the decoder that decides what a file holds."""

from __future__ import annotations

import struct
from collections.abc import Callable

import google_crc32c

from .event import STEP, WALL_TIME, Event, decode_event
from .framing import FOOTER, HEADER, MASK_DELTA, length_crc, payload_end, verify_payload
from .limits import Limits
from .points import Points
from .wire import Malformed, signed, varint

WALL_AT = 1
STEP_KEY_AT = 9
STEP_AT = 10
"""Offsets in a payload that begins as every writer begins it: wall time, then step."""

_start = struct.Struct("<QIBdBB").unpack_from
_START = 23
"""A record up to the first byte of its step: length and checksum, key and wall time, key and
step."""
_foot = struct.Struct("<I").unpack_from
_float = struct.Struct("<f").unpack_from
_crc = google_crc32c.value

_FLOAT = 4
_MAX_LAYOUT = 1024
_MAX_LAYOUTS = 8192

Appends = tuple[Callable[[int], None], Callable[[float], None], Callable[[float], None]]
Layouts = dict[bytes, Appends]
_NO_LAYOUTS: tuple[int, Layouts] = (_FLOAT, {})


class RecordDecoder:
    """Decodes records into ``points``.

    Most records of a file differ only in wall time, step and one float. So once a record has
    been decoded field by field, the bytes around its float (its *layout*) lead straight to the
    points of its tag: equal bytes parse equally, whatever the numbers between them.
    """

    def __init__(self, points: Points, limits: Limits) -> None:
        self._points = points
        self._limits = limits
        self._length_crcs: dict[int, int] = {}
        # Bytes after the step -> how many of them the float and its successors are, layouts.
        self._layouts: dict[int, tuple[int, Layouts]] = {}
        self._room = _MAX_LAYOUTS

    def advance(self, data: bytes, at: int, stop: int) -> int:
        """Decode the records that begin in ``data[at:stop]``.

        Returns where the first record begins that was not decoded: at or after ``stop``, or
        one that ``data`` holds only the beginning of. Raises Damage at the first bad one.
        """
        stop = min(stop, len(data) - HEADER + 1)
        while at < stop:
            after = self._known(data, at, stop)
            if after == at:
                after = self._any(data, at)
            if after == at:
                break
            at = after
        return at

    def _known(self, data: bytes, at: int, stop: int) -> int:
        """Decode records while their layouts are known; returns where that ends.

        Decides nothing: whatever is out of the ordinary is left to ``_any``. One flat loop
        without calls, since everything in it is paid per record.
        """
        last_end = len(data) - FOOTER
        stop = min(stop, len(data) - _START + 1)
        length_crcs, layouts = self._length_crcs, self._layouts
        while at < stop:
            length, stored, wall_key, wall, step_key, step = _start(data, at)
            end = at + HEADER + length
            if length_crcs.get(length) != stored or end > last_end:
                break
            crc = _crc(data[at + HEADER : end])
            if ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF != _foot(data, end)[0]:
                break
            body = at + _START
            if step_key != STEP:
                step, body = 0, at + HEADER + STEP_KEY_AT
            elif step > 127 > data[body]:
                step += (data[body] - 1) << 7
                body += 1
            elif step > 127:
                step, body = _long_step(data, body - 1)
            tail, appends = layouts.get(end - body, _NO_LAYOUTS)
            value_at = end - tail
            known = appends.get(data[body:value_at] + data[value_at + _FLOAT : end])
            if known is None or wall_key != WALL_TIME:
                break
            add_step, add_wall, add_value = known
            add_step(step)
            add_wall(wall)
            add_value(_float(data, value_at)[0])
            at = end + FOOTER
        return at

    def _any(self, data: bytes, at: int) -> int:
        """Decode the record at ``at`` field by field; returns the index after it, or ``at``
        when it is not complete."""
        end = payload_end(data, at, self._limits.record)
        if end + FOOTER > len(data):
            return at
        start = at + HEADER
        verify_payload(data, start, end)
        event = decode_event(data, start, end, self._limits.tags)
        for one in event.scalars:
            self._points.of(one.tag).append(event.step, event.wall, one.value)
        if _one_float(event, start):
            self._remember(data, start, end, event)
        return end + FOOTER

    def _remember(self, data: bytes, start: int, end: int, event: Event) -> None:
        """Keep the layout of a payload with one float, while there is room."""
        body = varint(data, start + STEP_AT)[1] if event.step_at > 0 else start + STEP_KEY_AT
        one = event.scalars[0]
        size, tail = end - body, end - one.at
        if size > _MAX_LAYOUT or not self._room:
            return
        self._room -= 1
        self._length_crcs[end - start] = length_crc(end - start)
        if self._layouts.get(size, _NO_LAYOUTS)[0] != tail or size not in self._layouts:
            self._layouts[size] = tail, {}
        mine = self._points.of(one.tag)
        around = data[body : one.at] + data[one.at + _FLOAT : end]
        appends = mine.steps.append, mine.walls.append, mine.values.append
        self._layouts[size][1][around] = appends


def _one_float(event: Event, start: int) -> bool:
    """The event is a wall time, perhaps a step, and one 32-bit float, each stated where it is
    looked for and nowhere else (a field that is repeated later would count instead)."""
    return (
        event.wall_at == start + WALL_AT
        and event.step_at in (start + STEP_AT, -1)
        and len(event.scalars) == 1
        and event.scalars[0].form == "<f4"
    )


def _long_step(data: bytes, at: int) -> tuple[int, int]:
    """A step of three bytes or more and the index after it; ``len(data)``, where no layout
    ends, if it is no varint."""
    try:
        step, after = varint(data, at)
    except (Malformed, IndexError):
        return 0, len(data)
    return signed(step), after
