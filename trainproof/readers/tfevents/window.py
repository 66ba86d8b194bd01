"""The part of a stream that is being decoded."""

from __future__ import annotations

from typing import BinaryIO, Protocol, cast

import numpy as np

_LEAST = 4096


class _ReadsInto(Protocol):
    """What every binary stream of ``io`` has and ``typing.BinaryIO`` does not mention."""

    def readinto(self, buffer: memoryview, /) -> int | None: ...


class Window:
    """``data``: the bytes of a stream from its byte ``base`` on, a block at a time.

    ``size`` is what the stream is said to hold, and no promise: files grow, and a compressed one
    holds more than it takes. What is no more than that and a block is read with one call. The
    rest goes through one buffer that stays: asking the system for fresh memory, block after block,
    takes four times as long as the reading. ``data`` is a copy, since it is sliced and hashed; the
    one before it is given back first, so its memory is used again.
    """

    def __init__(self, stream: BinaryIO, block: int, size: int) -> None:
        self._stream = stream
        self._block = max(block, _LEAST)
        # One byte more, so that the end of the stream is met.
        self._first = min(size + 1, self._block)
        self._buffer: memoryview | None = None
        self._ended = False
        self.base = 0
        self.data = b""

    def advance(self, done: int) -> bool:
        """Drop the first ``done`` bytes and read on behind the others.

        False when the stream has no more: ``data`` is what is left then. A record longer than
        a block is held by doubling the buffer, so what is allocated follows what was read and
        never what a length says. Raises OSError.
        """
        self.base += done
        if self._first:
            self.data = self._begin()
            return bool(self.data)
        if self._ended:
            self.data = self.data[done:]
            return False
        return self._go_on(done)

    def _begin(self) -> bytes:
        """Up to so many bytes from the start, and whether that is all."""
        pieces, missing = [], self._first
        while missing and (piece := self._stream.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
        self._first, self._ended = 0, missing > 0
        return b"".join(pieces)

    def _go_on(self, done: int) -> bool:
        rest = len(self.data) - done
        if self._buffer is None:
            self._buffer = _room(self._block)
        if rest > len(self._buffer) // 2:
            self._buffer = _room(2 * len(self._buffer))
        self._buffer[:rest] = self.data[done:]
        self.data = b""
        filled, size = rest, len(self._buffer)
        read_into = cast(_ReadsInto, self._stream).readinto
        while filled < size and (count := read_into(self._buffer[filled:])):
            filled += count
        self.data = bytes(self._buffer[:filled])
        return filled > rest


def _room(size: int) -> memoryview:
    """Memory of which only what is written to becomes real; a bytearray is filled with zeros."""
    return np.empty(size, np.uint8).data
