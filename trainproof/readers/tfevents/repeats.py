"""Files too small for tables: a period of records is seen ahead, and many are taken at once.

Most loggers write the same tags in the same order again and again. Where the next records are of
known layouts up to one like the first, what is behind them is compared with them in place, as
rows at a constant distance: lengths, their checksums and all bytes around the numbers have to be
the same. So each record begins where the one before it ends, and its layout is known as if it had
been looked up; what is left is to verify the checksum of each payload and to gather the numbers.

In the first row that is not like that, ``RecordDecoder`` goes on and decides what is there.
"""

from __future__ import annotations

import struct
import sys
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from trainproof.model.data import Ints

from .bulkcrc import mask_all
from .framing import FOOTER, FRAME, HEADER
from .points import TagPoints, as_doubles
from .records import STEP_AT, WALL_AT, Known, RecordDecoder
from .template import varints

_WALL = HEADER + WALL_AT
_STEP = HEADER + STEP_AT
_DOUBLE, _FLOAT = 8, 4

_LASTS, _ROWS = 6144, 4
"""Over so many bytes and then so many rows a period must last, or arrays bring nothing."""
_WORTHWHILE, _PER_MEMBER = 128, 4
"""The same in records: those that a leap must bring, and how many more for each of a period."""
_SPAN = 1 << 14
"""Bytes of the longest period."""
_CANDIDATES = 16
"""Distances tried in one look."""
_FIRST_BLOCK = 1 << 14
_BLOCK = 1 << 18
"""Bytes compared at a time: few at first, never more than a processor's cache holds."""
_MOST = 1 << 16
"""Records of a leap, of 100 bytes of memory each meanwhile."""

# What takes time, as the bytes that are decoded singly meanwhile, in records of the usual size.
_USUAL = 48
_LOOK, _TRY, _FIT = 64, 16, 768
"""A look for a period, each distance tried in it, and comparing rows."""
_SEARCH = 128
"""Bytes that are searched in the time in which one is decoded."""
_LEAP = 10 << 10
"""What a leap takes besides, whatever it brings, as seen from decoding by shapes."""

_STRIDE = 512
"""Bytes decoded singly between two looks, at the least."""
_SHARE, _ALLOWANCE = 32, 6 << 10
"""Of so many bytes decoded, one may be wasted; that many decoded ones can be saved up."""


class Budget:
    """When to look for a period. What nearly repeats costs hardly more than what does not."""

    def __init__(self) -> None:
        self.wait = _STRIDE
        """Bytes from the next record to the next look."""
        self._debt = -_ALLOWANCE
        """Bytes that have to be decoded for what was wasted."""

    def decoded(self, count: int) -> None:
        self.wait -= count
        self._debt = max(self._debt - count, -_ALLOWANCE)

    def leapt(self, count: int) -> None:
        self.decoded(count)
        self.wait = _STRIDE

    def wasted(self, cost: int) -> None:
        self._debt += _SHARE * cost
        self.wait = max(_STRIDE, self._debt)


class Repeating:
    """Decodes by leaps over whole periods, and record by record where there is none."""

    def __init__(self, records: RecordDecoder, patience: int = sys.maxsize) -> None:
        """``patience``: bytes that may be decoded singly, beyond those that leaps save, before
        ``advance`` gives up."""
        self._records = records
        self._budget = Budget()
        self._patience = self._left = patience
        self._again = False
        """Whether the next look is from the record that broke a period."""
        self.gave_up = False
        """Whether the last ``advance`` stopped because leaps do not pay in this data."""

    def advance(self, data: bytes, at: int) -> int:
        """Decode from ``at``; returns where the first record begins that was not decoded.

        Unless ``gave_up``, ``data`` holds only the beginning of that one.
        Raises Damage at the first bad record.
        """
        self.gave_up = False
        while self._left > 0:
            stop = at + self._budget.wait
            if len(data) - stop < _LASTS:
                stop = len(data)
            after = self._records.advance(data, at, stop)
            self._left -= after - at
            self._budget.decoded(after - at)
            if after < stop or stop == len(data):
                return after
            at = self._leap(data, after)
        self._left, self.gave_up = self._patience, True
        return at

    def _leap(self, data: bytes, at: int) -> int:
        """Take the whole periods from ``at`` on, if there are many; returns where they end."""
        first = self._records.known(data, at)
        if first is None:
            self._budget.wasted(0)
            return at
        size, cost = _distance(data, at, first)
        members = self._members(data, at, size)
        period = Period(data, at, members) if members else None
        end = period.leap() if period else at
        if end > at:
            self._left = min(self._left + end - at - _LEAP, self._patience)
            self._budget.leapt(end - at)
            return end
        cost += size + _FIT if size else 0
        self._budget.wasted(cost * first.size // _USUAL)
        self._again = not self._again and period is not None and period.odd_at > 0
        if period and self._again:
            # The true period is longer, and shows itself at once from what is rarer in it.
            self._budget.wait = period.odd_at
        return at

    def _members(self, data: bytes, at: int, size: int) -> list[Known]:
        """The records in these ``size`` bytes; none unless all are known and end just there."""
        members: list[Known] = []
        end = at + size
        while at < end and (one := self._records.known(data, at)):
            members.append(one)
            at += one.size
        return members if at == end else []


def _distance(data: bytes, at: int, first: Known) -> tuple[int, int]:
    """How far behind the record at ``at`` others like it come again and again; and what it cost.

    0 when that is not seen. Only a glance: what is between them is not looked at.
    """
    tag_at = _STEP + first.width
    tag = data[at + tag_at : at + first.float_at]
    head = data[at : at + _WALL]
    span = min(_SPAN, (len(data) - at - _LASTS) // _ROWS)
    place, cost = at, _LOOK + span // _SEARCH
    if data.find(head, at + _LASTS, at + _LASTS + span) < 0:  # steps take more bytes there, say
        return 0, cost
    for _ in range(_CANDIDATES):
        place = data.find(tag, place + tag_at + 1, at + span) - tag_at
        if place < at:
            break
        cost += _TRY
        if _comes_again(data, at, place - at, ((0, head), (tag_at, tag))):
            return place - at, cost
    return 0, cost


def _comes_again(data: bytes, at: int, distance: int, marks: tuple[tuple[int, bytes], ...]) -> bool:
    """These bytes, at these offsets, are in the next rows and as far away as rows must last."""
    for row in (_ROWS + _LASTS // distance, 1, 2, 3):
        for offset, mark in marks:
            if not data.startswith(mark, at + row * distance + offset):
                return False
    return True


class Period:
    """Records of known layouts one behind the other, and the rows like them from ``at`` on."""

    def __init__(self, data: bytes, at: int, members: list[Known]) -> None:
        self._data, self._at = data, at
        self._members = members
        *self._starts, self._size = accumulate([one.size for one in members], initial=0)
        self.odd_at = 0
        """The offset of the first record that is another one in the row behind the last."""

    def leap(self) -> int:
        """Add the points of all these rows up to a wrong checksum, unless they are few.

        Returns where those end that were added.
        """
        rows, count = self._fitting(), len(self._members)
        if rows * count < _WORTHWHILE + _PER_MEMBER * count:
            return self._at
        rows = self._intact(rows)
        if rows:
            self._add(rows)
        return self._at + rows * self._size

    def _fitting(self) -> int:
        """How many rows, from the first one on, differ from it in numbers and checksums only."""
        masks = [_mask(one.size, one.width, one.float_at) for one in self._members]
        mask = np.frombuffer(b"".join(masks), np.uint8)
        fixed = np.frombuffer(self._data, np.uint8, self._size, self._at) & mask
        most = max(_MOST // len(masks), 1)
        rows, done = min((len(self._data) - self._at) // self._size, most), 0
        block = max(_FIRST_BLOCK // self._size, 1)
        while done < rows:
            block = min(block, rows - done)
            start = self._at + done * self._size
            same = np.ndarray((block, self._size), np.uint8, self._data, start) & mask == fixed
            if not same.all():
                row, offset = divmod(int(same.argmin()), self._size)
                self.odd_at = self._starts[bisect_right(self._starts, offset) - 1]
                return done + row
            done += block
            block = min(4 * block, max(_BLOCK // self._size, 1))
        return done

    def _intact(self, rows: int) -> int:
        """How many rows there are before the first in which a data checksum does not match."""
        count = len(self._members)
        form = "".join([f"{HEADER}x{one.size - FRAME}s{FOOTER}x" for one in self._members])
        view = memoryview(self._data)[self._at : self._at + rows * self._size]
        payloads = chain.from_iterable(struct.iter_unpack(form, view))
        crcs = np.fromiter(map(google_crc32c.value, payloads), np.uint32, rows * count)
        ends = np.array([*self._starts[1:], self._size])
        footers = self._places(ends - FOOTER, rows).T.ravel()
        good = mask_all(crcs) == _numbers(self._data, "<u4", footers)
        return rows if good.all() else int(good.argmin()) // count

    def _add(self, rows: int) -> None:
        """Add the points of these rows."""
        places: dict[TagPoints, list[int]] = {}
        for place, one in enumerate(self._members):
            places.setdefault(one.points, []).append(place)
        order = list(chain.from_iterable(places.values()))
        members = [self._members[place] for place in order]
        starts = self._places(np.array([self._starts[place] for place in order]), rows)
        floats = np.array([one.float_at for one in members])
        walls = _numbers(self._data, "<f8", starts + _WALL)
        values = as_doubles(_numbers(self._data, "<f4", starts + floats[:, None]))
        steps = _steps(self._data, starts + _STEP, [one.width for one in members])
        first = 0
        for points, mine in places.items():
            lines = slice(first, first + len(mine))
            # Transposed: a tag that is in the period several times comes in log order.
            points.append_all(
                steps[lines].T.tobytes(), walls[lines].T.tobytes(), values[lines].T.tobytes()
            )
            first += len(mine)

    def _places(self, offsets: Ints, rows: int) -> Ints:
        """Where these offsets of the period are in each of the rows: (offsets, rows)."""
        return (offsets + self._at)[:, None] + np.arange(0, rows * self._size, self._size)


def _numbers(data: bytes, form: str, places: Ints) -> NDArray[Any]:
    """The numbers of this numpy type at these places, aligned or not."""
    size = int(form[-1])
    everywhere = np.ndarray((len(data) - size + 1,), form, data, 0, (1,))
    return everywhere[places]


def _steps(data: bytes, places: Ints, widths: list[int]) -> Ints:
    """The steps at these places, those of each line of so many bytes: (lines, rows)."""
    # Behind a step there are at least 13 bytes of its record, so eight can be taken.
    words = _numbers(data, "<u8", places)
    widest = max(widths)
    if widest > min(widths) or not widest:  # a word holds more than one of the steps
        words &= np.array([(1 << 8 * width) - 1 for width in widths], np.uint64)[:, None]
    return varints(words, widest)


@lru_cache(maxsize=1024)
def _mask(size: int, width: int, float_at: int) -> bytes:
    """The bits of a record of this form that are the same in all records of its layout.

    That is all but wall time, float and data checksum, and of a step those that say where it ends.
    """
    mask = bytearray(b"\xff" * size)
    mask[_WALL : _WALL + _DOUBLE] = bytes(_DOUBLE)
    mask[_STEP : _STEP + width] = b"\x80" * width
    mask[float_at : float_at + _FLOAT] = bytes(_FLOAT)
    mask[-FOOTER:] = bytes(FOOTER)
    return bytes(mask)
