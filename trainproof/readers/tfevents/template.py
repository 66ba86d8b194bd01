"""Records that differ only in their numbers: what is fixed in them, and reading many at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import google_crc32c
import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from trainproof.model.data import Floats, Ints

from .bulkcrc import U32s, change, mask_all
from .event import STEP, WALL_TIME, Event, decode_event
from .framing import FOOTER, HEADER, Damage
from .limits import Limits
from .points import AnyFloats
from .records import STEP_AT, STEP_KEY_AT, WALL_AT

Bools = NDArray[np.bool_]
Words = NDArray[np.uint32] | NDArray[np.uint64]
Spans = tuple[tuple[int, int], ...]

MAX_LENGTH = 4096
"""Payload bytes of a record that is worth a template."""

_MAX_HOLES = 64
_MAX_STEP_WIDTH = 7
_MAX_TEMPLATES = 8192
_MAX_FORMS = 16
"""Ways in which the numbers of records of one length may be placed."""
_STEP_KEY = HEADER + STEP_KEY_AT


class Rows(msgspec.Struct, frozen=True):
    """``count`` records of one length at one distance, in a buffer that is not copied."""

    buffer: bytes | NDArray[np.uint8]
    start: int
    stride: int
    count: int

    def view(self, offset: int, dtype: DTypeLike) -> NDArray[Any]:
        """What stands at ``offset`` of each record, (count,), unaligned and in place."""
        return np.ndarray((self.count,), dtype, self.buffer, self.start + offset, (self.stride,))


class Hole(NamedTuple):
    """A logged float in a record: its tag, its offset from the record's first byte, its type."""

    tag: bytes
    offset: int
    form: str


class Word(NamedTuple):
    """Fixed bytes of a record as one little-endian number of a numpy type."""

    offset: int
    form: str
    value: int


class Numbers(msgspec.Struct, frozen=True, eq=False):
    """What differs between rows. ``steps`` is raw: the varint's bytes as a number, (n,)."""

    walls: Floats
    steps: Words
    values: tuple[AnyFloats, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """The shape of a record that begins with wall time and step and holds floats only.

    ``length``: of its payload. ``step_width``: bytes of its step, 0 without one. ``fixed``:
    ``(offset, bytes)`` of all that is not wall time, step, float or data checksum, the frame's
    header included. ``blank_crc``: the payload's checksum with zeros for all its numbers.
    """

    length: int
    step_width: int
    holes: tuple[Hole, ...]
    fixed: tuple[tuple[int, bytes], ...]
    blank_crc: int
    words: tuple[Word, ...] = field(init=False)

    def __post_init__(self) -> None:
        words = [word for offset, raw in self.fixed for word in _words(offset, raw)]
        object.__setattr__(self, "words", tuple(words))

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return HEADER + self.length + FOOTER

    @property
    def spans(self) -> Spans:
        """Where the fixed bytes are."""
        return tuple((offset, offset + len(raw)) for offset, raw in self.fixed)

    def fits_rows(self, rows: Rows) -> Bools:
        """Which rows have this shape; (n,)."""
        good = _ends_alike(self._step_words(rows), self.step_width)
        for offset, form, value in self.words:
            good &= rows.view(offset, form) == value
        return good

    def numbers(self, rows: Rows) -> Numbers:
        """The numbers of rows that have this shape."""
        walls = rows.view(HEADER + WALL_AT, "<f8").copy()
        steps = self._step_words(rows)
        steps >>= steps.dtype.type(8)
        steps &= steps.dtype.type((1 << 8 * self.step_width) - 1)
        values = tuple(rows.view(hole.offset, hole.form).copy() for hole in self.holes)
        return Numbers(walls, steps, values)

    def intact_rows(self, rows: Rows, numbers: Numbers) -> Bools:
        """Which rows, all of this shape, agree with their data checksum; (n,)."""
        last = self.length - 1
        crcs = change(numbers.walls, last - WALL_AT, 8)
        crcs ^= change(numbers.steps, last - STEP_AT, self.step_width)
        for hole, values in zip(self.holes, numbers.values, strict=True):
            crcs ^= change(values, last - (hole.offset - HEADER), values.itemsize)
        crcs ^= np.uint32(self.blank_crc)
        stored: U32s = rows.view(HEADER + self.length, "<u4")
        intact: Bools = mask_all(crcs) == stored
        return intact

    def steps(self, numbers: Numbers) -> Ints:
        """The steps as numbers; (n,)."""
        return varints(numbers.steps, self.step_width)

    def _step_words(self, rows: Rows) -> Words:
        """The step's key and up to three or seven bytes from there, as numbers, copied."""
        words: Words = rows.view(_STEP_KEY, "<u4" if self.step_width <= 3 else "<u8").copy()
        return words


def _words(offset: int, raw: bytes) -> list[Word]:
    """Words that cover ``raw`` and nothing else; the last two may overlap."""
    size = next(size for size in (8, 4, 2, 1) if size <= len(raw))
    starts = [*range(0, len(raw) - size + 1, size)]
    if starts[-1] + size < len(raw):
        starts.append(len(raw) - size)
    pieces = ((start, raw[start : start + size]) for start in starts)
    return [Word(offset + start, f"<u{size}", int.from_bytes(p, "little")) for start, p in pieces]


def _ends_alike(words: Words, width: int) -> Bools:
    """Which words are the key of the step and a varint of exactly ``width`` bytes; any are
    when there is no step."""
    mask, want = (0xFF, STEP) if width else (0, 0)
    for place in range(1, width + 1):
        mask |= 0x80 << 8 * place
        want |= (0x80 if place < width else 0) << 8 * place
    number = words.dtype.type
    good: Bools = (words & number(mask)) == number(want)
    return good


def varints(raw: Words, width: int) -> Ints:
    """The numbers whose varints have these bytes."""
    number = raw.dtype.type
    total = raw & number(0x7F)
    for place in range(1, width):
        total |= (raw >> number(place)) & number(0x7F << 7 * place)
    return total.astype(np.int64)


class Templates:
    """The templates of a file, learnt from its records as they come."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # (length, step width) -> where fixed bytes are -> these bytes
        self._known: dict[tuple[int, int], dict[Spans, dict[bytes, Template]]] = {}
        self._room = _MAX_TEMPLATES

    def find(self, data: bytes, at: int, end: int) -> Template | None:
        """The template of the complete record ``data[at:end]``; None when it can have none."""
        length = end - at - HEADER - FOOTER
        start = at + HEADER
        if length > MAX_LENGTH or length <= STEP_AT or data[start] != WALL_TIME:
            return None
        width = _step_width(data, start)
        if width is None:
            return None
        forms = self._known.setdefault((length, width), {})
        for spans, templates in forms.items():
            found = templates.get(_fixed(data, at, spans))
            if found:
                return found
        return self._learn(data, at, end, width, forms)

    def _learn(
        self, data: bytes, at: int, end: int, width: int, forms: dict[Spans, dict[bytes, Template]]
    ) -> Template | None:
        if not self._room:
            return None
        made = _template(data, at, end, width, self._limits)
        if made is None or (made.spans not in forms and len(forms) == _MAX_FORMS):
            return None
        self._room -= 1
        forms.setdefault(made.spans, {})[_fixed(data, at, made.spans)] = made
        return made


def _fixed(data: bytes, at: int, spans: Spans) -> bytes:
    """The fixed bytes of the record at ``at``, if this is where they are."""
    return b"".join([data[at + start : at + stop] for start, stop in spans])


def _step_width(data: bytes, start: int) -> int | None:
    """Bytes of the step behind the wall time of a payload, 0 without one; None when it is too
    long for a template."""
    if data[start + STEP_KEY_AT] != STEP:
        return 0
    first = start + STEP_AT
    step = data[first : first + _MAX_STEP_WIDTH]
    return next((width for width, byte in enumerate(step, 1) if byte < 128), None)


def _template(data: bytes, at: int, end: int, width: int, limits: Limits) -> Template | None:
    """The template of a record, if it has floats only and states all numbers where they are
    looked for and nowhere else. Equal bytes around the numbers then mean the same parse."""
    start, stop = at + HEADER, end - FOOTER
    try:
        event = decode_event(data, start, stop, limits.tags)
    except Damage:
        return None
    if not _regular(event, start, width):
        return None
    holes = tuple(Hole(one.tag, one.at - at, one.form) for one in event.scalars)
    numbers = [(HEADER + WALL_AT, 8), (_STEP_KEY, 1 + width if width else 0)]
    numbers += [(hole.offset, int(hole.form[-1])) for hole in holes]
    blank = bytearray(data[at:stop])
    fixed, done = [], 0
    for offset, size in numbers:
        fixed.append((done, bytes(blank[done:offset])))
        done = offset + size
    fixed.append((done, bytes(blank[done:])))
    for offset, size in [numbers[0], (_STEP_KEY + 1, width), *numbers[2:]]:
        blank[offset : offset + size] = bytes(size)
    crc = google_crc32c.value(bytes(blank[HEADER:]))
    return Template(end - at - HEADER - FOOTER, width, holes, tuple(f for f in fixed if f[1]), crc)


def _regular(event: Event, start: int, width: int) -> bool:
    places = [one.at for one in event.scalars]
    return (
        event.wall_at == start + WALL_AT
        and event.step_at == (start + STEP_AT if width else -1)
        and 0 < len(places) <= _MAX_HOLES
        and all(one.form for one in event.scalars)
        and places == sorted(places)
    )
