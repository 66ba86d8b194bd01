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

    Bytes are read into one buffer that stays: asking the system for fresh memory, block after
    block, takes four times as long as the reading. ``data`` is a copy, since it is sliced and
    hashed; the one before it is given back first, so its memory is used again.
    """

    def __init__(self, stream: BinaryIO, block: int) -> None:
        self._stream = cast(_ReadsInto, stream)
        self._buffer = _room(max(block, _LEAST))
        self.base = 0
        self.data = b""

    def advance(self, done: int) -> bool:
        """Drop the first ``done`` bytes and read on behind the others.

        False when the stream has no more: ``data`` is what is left then. A record longer than
        a block is held by doubling the buffer, so what is allocated follows what was read and
        never what a length says. Raises OSError.
        """
        rest = len(self.data) - done
        if rest > len(self._buffer) // 2:
            self._buffer = _room(2 * len(self._buffer))
        self._buffer[:rest] = self.data[done:]
        self.data = b""
        self.base += done
        filled, size = rest, len(self._buffer)
        while filled < size and (count := self._stream.readinto(self._buffer[filled:])):
            filled += count
        self.data = bytes(self._buffer[:filled])
        return filled > rest


def _room(size: int) -> memoryview:
    """Memory of which only what is written to becomes real; a bytearray is filled with zeros."""
    return np.empty(size, np.uint8).data
