"""Reading a header from its start to its end, a window at a time."""

from __future__ import annotations

import struct

from trainproof.model.data import FaultCode

from .source import Damage, Source

_WINDOW = 1 << 20


class Cursor:
    """``at``: the byte of the file that is read next. Raises Damage where the file ends."""

    def __init__(self, source: Source, at: int = 0) -> None:
        self.at = at
        self._source, self._window, self._base = source, b"", at

    def take(self, count: int) -> bytes:
        start = self.at - self._base
        if start + count > len(self._window):
            left = self._source.size - self.at
            if count > left:
                what = f"the header wants {count} bytes at {self.at}, {left} are left"
                raise Damage(FaultCode.TRUNCATED, what)
            self._window = self._source.read(self.at, min(left, max(count, _WINDOW)))
            self._base, start = self.at, 0
        self.at += count
        return self._window[start : start + count]

    def number(self, code: str) -> int:
        """One little-endian integer; ``code`` as in ``struct``."""
        value = struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]
        return int(value)
