"""Streams that tell how far they have been read."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it from Python 3.12 on

_BUFFER = 1 << 18
"""Bytes between two calls, at least, where a file is read from its start to its end."""


def watched(stream: BinaryIO, told: Callable[[int], None]) -> BinaryIO:
    """The same stream. ``told`` is called whenever more of it is taken, with the bytes before.

    A stream of small lines is as fast as without: whole buffers are taken.
    """
    return cast(BinaryIO, io.BufferedReader(_Watched(stream, told), _BUFFER))


class _Watched(io.RawIOBase):
    def __init__(self, stream: BinaryIO, told: Callable[[int], None]) -> None:
        self._stream, self._told, self._place = stream, told, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        self._told(self._place)
        taken = cast(io.BufferedIOBase, self._stream).readinto(buffer)
        self._place += taken
        return taken

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = self._stream.seek(offset, whence)
        return self._place

    def tell(self) -> int:
        return self._place

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
