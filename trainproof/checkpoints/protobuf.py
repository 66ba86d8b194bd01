"""The wire format of protocol buffers, without the definitions of its messages.

Source: protobuf.dev/programming-guides/encoding. Nothing of a message is held but what is asked
for: values that have a length are told by their place.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trainproof.model.data import FaultCode

from .cursor import Cursor
from .source import Damage

_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5


class Field(msgspec.Struct, frozen=True):
    """``value``: of a number, its bits. ``start``, ``size``: the place of anything longer, size
    -1 for a number.
    """

    number: int
    value: int
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + max(self.size, 0)


def fields(cursor: Cursor, end: int) -> Iterator[Field]:
    """The fields from where the cursor is up to byte ``end``. The caller may move the cursor while
    it looks at one. Raises Damage.
    """
    while cursor.at < end:
        key = cursor.varint()
        field = _field(cursor, key >> 3, key & 7)
        if field.end > end:
            what = f"a field of {field.size} bytes at {field.start} passes its end at {end}"
            raise Damage(FaultCode.TRUNCATED, what)
        yield field
        cursor.at = field.end


def _field(cursor: Cursor, number: int, wire: int) -> Field:
    if not number:
        raise Damage(FaultCode.CORRUPT, f"a field at byte {cursor.at} has no number")
    if wire == _BYTES:
        size = cursor.varint()
        return Field(number, 0, cursor.at, size)
    if wire == _VARINT:
        value = cursor.varint()
    elif wire in (_WIDE, _NARROW):
        value = cursor.number("Q" if wire == _WIDE else "I")
    else:
        raise Damage(FaultCode.CORRUPT, f"a field at byte {cursor.at} has the type {wire}")
    return Field(number, value, cursor.at, -1)


def numbers(cursor: Cursor, field: Field, most: int) -> list[int]:
    """A repeated number, packed or not. Raises Damage where there are more than ``most`` bytes."""
    if field.size < 0:
        return [field.value]
    if field.size > most:
        raise Damage(FaultCode.TOO_LARGE, f"{field.size} bytes of numbers are over the limit")
    cursor.at, found = field.start, list[int]()
    while cursor.at < field.end:
        found.append(cursor.varint())
    return found


def signed(value: int) -> int:
    """A number of 64 bits as a signed one."""
    return value - (1 << 64) if value >= 1 << 63 else value


def text(cursor: Cursor, field: Field, most: int) -> str:
    """At most ``most`` bytes of it."""
    cursor.at = field.start
    return cursor.take(min(max(field.size, 0), most)).decode("utf-8", "backslashreplace")
