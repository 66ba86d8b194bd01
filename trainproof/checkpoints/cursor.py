"""Reading a header from its start to its end, a window at a time."""

from __future__ import annotations

import struct

from trainproof.model.data import FaultCode

from .source import Damage, Source

_WINDOW = 1 << 20
_VARINT = 70
_MASK = (1 << 64) - 1


class Cursor:
    """``at``: the byte of the file that is read next, which the caller may change. Raises Damage
    where the file ends.
    """

    def __init__(self, source: Source, at: int = 0) -> None:
        self.at = at
        self._source, self._window, self._base = source, b"", at

    def take(self, count: int) -> bytes:
        start = self.at - self._base
        if start < 0 or start + count > len(self._window):
            left = self._source.size - self.at
            if count > left:
                what = f"{count} bytes are wanted at {self.at}, {max(left, 0)} are left"
                raise Damage(FaultCode.TRUNCATED, what)
            self._window = self._source.read(self.at, min(left, max(count, _WINDOW)))
            self._base, start = self.at, 0
        self.at += count
        return self._window[start : start + count]

    def skip(self, count: int) -> None:
        """Past the end of the file is allowed: the next thing that is taken is not there."""
        self.at += count

    def big(self, code: str) -> int | float:
        """One big-endian number; ``code`` as in ``struct``."""
        value: int | float = struct.unpack(">" + code, self.take(struct.calcsize(code)))[0]
        return value

    def varint(self) -> int:
        """One number of protocol buffers: seven bits a byte, the lowest first."""
        value = shift = 0
        while shift < _VARINT:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _MASK
            shift += 7
        raise Damage(FaultCode.CORRUPT, f"a number at byte {self.at} has no end")

    def number(self, code: str) -> int:
        """One little-endian integer; ``code`` as in ``struct``."""
        value = struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]
        return int(value)
