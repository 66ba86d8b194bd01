"""One record at a time, in plain Python: the decoder that decides what a file holds."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import google_crc32c

from .event import STEP, Event, decode_event
from .framing import FOOTER, HEADER, MASK_DELTA, payload_end, verify_payload
from .limits import Limits
from .points import Points, TagPoints
from .wire import signed, varint

WALL_AT = 1
STEP_KEY_AT = 9
STEP_AT = 10
"""Offsets in a payload that begins as every writer begins it: wall time, then step."""

_crc = google_crc32c.value

_KEY = HEADER + WALL_AT
"""Bytes of a record up to its wall time: length and checksum, and the key of the wall time."""
_DOUBLE, _FLOAT = 8, 4
_WORD = 8
_MAX_LAYOUT = 1024
_MAX_LAYOUTS = 8192

Unpack = Callable[[bytes, int], tuple[Any, ...]]

Layout = tuple[Callable[[int], None], Callable[[float], None], Callable[[float], None], TagPoints]
"""Where records with the same bytes around their float go: what appends a step, a wall time and a
value, and the points that these append to."""

Form = tuple[Unpack, int, int, int | bytes, dict[bytes, Layout]]
"""Records of one size whose numbers stand at the same places: see ``_unpacker``; that size; bytes
of the step; what stands before it; layouts by the bytes around the float.

Plain tuples, both: every record takes them apart, which is a tenth of its time with named ones."""


class Known(NamedTuple):
    """A record of a known layout: only its numbers and its data checksum were not looked at.

    ``size``: of the whole record. ``width``: bytes of its step, 0 without one. ``float_at``: where
    in the record its float is.
    """

    size: int
    width: int
    float_at: int
    layout: Layout

    @property
    def points(self) -> TagPoints:
        return self.layout[-1]


class RecordDecoder:
    """Decodes records into ``points``.

    Most records of a file differ only in wall time, step and one float. So once a record has
    been decoded field by field, the bytes around its float (its *layout*) lead straight to the
    points of its tag: equal bytes parse equally, whatever the numbers between them.
    """

    def __init__(self, points: Points, limits: Limits) -> None:
        self._points = points
        self._limits = limits
        # the first ``_KEY`` bytes of a record -> the form of the last one that began so
        self._forms: dict[bytes, Form] = {}
        # these bytes, the width of the step, the bytes behind the float -> the form
        self._known_forms: dict[tuple[bytes, int, int], Form] = {}
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

    def known(self, data: bytes, at: int) -> Known | None:
        """What the record at ``at`` is, if ``data`` holds all of it and its layout is known."""
        form = self._forms.get(data[at : at + _KEY])
        if form is None:
            return None
        unpack, size, width, key, layouts = form
        if at + size > len(data):
            return None
        _, step_key, step, before, _, behind, _ = unpack(data, at)
        layout = layouts.get(before + behind)
        if layout is None or step_key != key or not _is_short_step(step, width):
            return None
        return Known(size, width, size - FOOTER - len(behind) - _FLOAT, layout)

    def _known(self, data: bytes, at: int, stop: int) -> int:
        """Decode records while their layouts are known; returns where that ends.

        Decides nothing: whatever is out of the ordinary is left to ``_any``. One flat loop
        without calls, since everything in it is paid per record.
        """
        form_of, crc_of, last_end = self._forms.get, _crc, len(data)
        while at < stop and (form := form_of(data[at : at + _KEY])) is not None:
            unpack, size, width, key, layouts = form
            after = at + size
            if after > last_end:
                break
            wall, step_key, step, before, value, behind, stored = unpack(data, at)
            layout = layouts.get(before + behind)
            if layout is None or step_key != key or (width == 1 and step > 127):
                break
            if width == 2 and step & 0x8080 == 0x80:
                step = step & 0x7F | step >> 8 << 7
            elif width != 1 and (step := _step(step)) is None:
                break
            crc = crc_of(data[at + HEADER : after - FOOTER])
            if ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF != stored:
                break
            add_step, add_wall, add_value, _ = layout
            add_step(step)
            add_wall(wall)
            add_value(value)
            at = after
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
        if end - body > _MAX_LAYOUT or not self._room:
            return
        self._room -= 1
        width = body - start - STEP_AT if event.step_at > 0 else 0
        one = event.scalars[0]
        behind = one.at + _FLOAT
        at = start - HEADER
        *_, layouts = self._form(data[at : at + _KEY], end + FOOTER - at, width, end - behind)
        mine = self._points.of(one.tag)
        layout = mine.steps.append, mine.walls.append, mine.values.append, mine
        layouts[data[body : one.at] + data[behind:end]] = layout

    def _form(self, key: bytes, size: int, width: int, behind: int) -> Form:
        """The form of such records, which is new if it was not seen before, for the next ones."""
        form = self._known_forms.get((key, width, behind))
        if form is None:
            step_key = STEP if width else b""
            form = _unpacker(size, width, behind), size, width, step_key, {}
            self._known_forms[key, width, behind] = form
        self._forms[key] = form
        return form


@lru_cache(maxsize=1024)
def _unpacker(size: int, width: int, behind: int) -> Unpack:
    """Takes a record apart: wall time, key of the step, step, bytes before the float, float, bytes
    behind it, checksum. A step of one or two bytes becomes a number; it is not decoded."""
    step_key = "B" if width else "0s"
    step = {1: "B", 2: "H"}.get(width, f"{width}s")
    before = size - _KEY - _DOUBLE - bool(width) - width - _FLOAT - behind - FOOTER
    return struct.Struct(f"<{_KEY}xd{step_key}{step}{before}sf{behind}sI").unpack_from


def _one_float(event: Event, start: int) -> bool:
    """The event is a wall time, perhaps a step, and one 32-bit float, each stated where it is
    looked for and nowhere else (a field that is repeated later would count instead)."""
    return (
        event.wall_at == start + WALL_AT
        and event.step_at in (start + STEP_AT, -1)
        and len(event.scalars) == 1
        and event.scalars[0].form == "<f4"
    )


def _is_short_step(raw: bytes | int, width: int) -> bool:
    """Whether what an unpacker gave for a step of so many bytes is a varint of all of them, and
    these are no more than a word has."""
    if isinstance(raw, int):
        return raw < 128 if width == 1 else raw & 0x8080 == 0x80
    return width <= _WORD and _step(raw) is not None


def _step(raw: bytes | int) -> int | None:
    """The step that these bytes are, none or three and more of them; None if they, or two of which
    there is a number, are no varint."""
    if isinstance(raw, int) or (raw and (raw[-1] > 127 or min(raw[:-1]) < 128)):
        return None
    step = 0
    for byte in reversed(raw):
        step = step << 7 | byte & 0x7F
    return signed(step & 0xFFFF_FFFF_FFFF_FFFF)
