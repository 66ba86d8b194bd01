"""TFRecord framing: ``uint64 length, uint32 crc(length), payload, uint32 crc(payload)``.

Little-endian. Both checksums are CRC-32C, rotated and offset ("masked"), as in TensorFlow's
``core/lib/io/record_writer.h``.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import google_crc32c

from trainproof.model.data import FaultCode

HEADER = 12
FOOTER = 4
FRAME = HEADER + FOOTER
"""Bytes of a record besides its payload."""

MASK_DELTA = 0xA282EAD8
_PIECE = 1 << 20

_head = struct.Struct("<QI").unpack_from
_foot = struct.Struct("<I").unpack_from
_crc = google_crc32c.value


class Damage(Exception):
    """Reading cannot go on at the record that begins at byte ``at`` of the data in hand.

    Never leaves the package: the reader turns it into a ``Fault``.
    """

    def __init__(self, code: FaultCode, at: int, what: str) -> None:
        super().__init__(what)
        self.code, self.at, self.what = code, at, what


def masked(crc: int) -> int:
    """The form in which a record stores a checksum."""
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


@lru_cache(maxsize=4096)
def length_crc(length: int) -> int:
    """The masked checksum that a record of this payload length carries in its header."""
    return masked(_crc(length.to_bytes(8, "little")))


def payload_end(data: bytes, at: int, limit: int) -> int:
    """Where the payload of the record at ``at`` ends; that may be beyond ``data``.

    ``data`` holds at least the header. The length is believed only once its own checksum
    agrees: otherwise a flipped bit in it looks like a file that was cut short.
    Raises Damage when it does not, or when the payload is longer than ``limit`` bytes.
    """
    length, stored = _head(data, at)
    if stored != length_crc(length):
        raise Damage(FaultCode.CORRUPT, at, "the checksum of the record length does not match")
    if length > limit:
        what = f"the record has {length} bytes, more than the limit of {limit}"
        raise Damage(FaultCode.TOO_LARGE, at, what)
    return at + HEADER + int(length)


def verify_payload(data: bytes, start: int, end: int) -> None:
    """Raise Damage when the checksum behind ``data[start:end]`` does not match it."""
    crc = _crc(data[start:end]) if end - start <= _PIECE else _crc_in_pieces(data, start, end)
    # masked(), written out: this runs once per record.
    if ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF != _foot(data, end)[0]:
        what = "the checksum of the record data does not match"
        raise Damage(FaultCode.CORRUPT, start - HEADER, what)


def _crc_in_pieces(data: bytes, start: int, end: int) -> int:
    """The checksum without a second copy of a large payload."""
    crc = 0
    for at in range(start, end, _PIECE):
        crc = google_crc32c.extend(crc, data[at : min(at + _PIECE, end)])
    return int(crc)
