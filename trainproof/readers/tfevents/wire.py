"""The protobuf wire format: varints and fields, bounded and without recursion."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; the two group types are not written by proto3 and are refused."""

_MAX_VARINT = 10


class Malformed(ValueError):
    """The bytes are no protobuf message."""


def key(field: int, kind: int) -> int:
    """What stands in front of a field: its number and its wire type."""
    return field << 3 | kind


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned varint at ``at`` and the index after it.

    Raises Malformed when it has more than ten bytes, IndexError when ``data`` ends within it.
    """
    value = data[at]
    if value < 128:
        return value, at + 1
    value &= 127
    for place in range(1, _MAX_VARINT):
        byte = data[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + place + 1
    raise Malformed("a varint does not end")


def signed(value: int) -> int:
    """A 64-bit varint read as two's complement."""
    return value - (1 << 64) if value >= 1 << 63 else value


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """``(key, start, stop)`` of each field of the message ``data[at:end]``, in wire order.

    ``start:stop`` are the bytes of the value; a length prefix is not among them. Sub-messages
    are not entered. Raises Malformed when a field is invalid or leaves the message, IndexError
    when ``data`` ends within one.
    """
    while at < end:
        tag, start = data[at], at + 1
        if tag > 127:  # nearly never; a call per field would cost more than all the rest
            tag, start = varint(data, at)
        kind = tag & 7
        if kind == BYTES:
            size, start = data[start], start + 1
            if size > 127:
                size, start = varint(data, start - 1)
            at = start + size
        elif kind == VARINT:
            at = varint(data, start)[1]
        elif kind == FIXED32:
            at = start + 4
        elif kind == FIXED64:
            at = start + 8
        else:
            raise Malformed("an unknown wire type")
        if at > end or tag < 8:
            raise Malformed("a field leaves its message or has the number 0")
        yield tag, start, at
