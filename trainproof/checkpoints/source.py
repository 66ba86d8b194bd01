"""Random access to the bytes of one file, without mapping it.

A file that is cut while it is mapped kills the process that looks at it; a short read does not.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

from trainproof.model.data import FaultCode

from .limits import LIMITS


class Damage(Exception):
    """Reading cannot go on. Never leaves the package: it becomes a ``Fault`` or a defect."""

    def __init__(self, code: FaultCode, what: str) -> None:
        super().__init__(what)
        self.code, self.what = code, what


class Reads(Protocol):
    @property
    def shared(self) -> bool:
        """Whether several threads may read at once."""
        ...

    def into(self, buffer: memoryview, at: int) -> int:
        """Fill ``buffer`` from byte ``at`` on; the number of bytes got, 0 at the end."""
        ...

    def some(self, at: int, count: int) -> bytes:
        """At most ``count`` bytes from byte ``at`` on, none at the end."""
        ...


class _Descriptor:
    """Positioned reads on a file of the operating system; the stream keeps the file open."""

    shared = True

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._descriptor = stream, stream.fileno()

    def into(self, buffer: memoryview, at: int) -> int:
        return os.preadv(self._descriptor, [buffer], at)

    def some(self, at: int, count: int) -> bytes:
        return os.pread(self._descriptor, count, at)


class _Stream:
    """Any seekable stream."""

    shared = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def into(self, buffer: memoryview, at: int) -> int:
        got = self.some(at, len(buffer))
        buffer[: len(got)] = got
        return len(got)

    def some(self, at: int, count: int) -> bytes:
        self._stream.seek(at)
        return self._stream.read(count)


Beat = Callable[[int], None]
"""Told before each read how many bytes it is of: a large file takes longer than a step may."""


class _Beating:
    def __init__(self, reads: Reads, beat: Beat) -> None:
        self._reads, self._beat = reads, beat
        self.shared = reads.shared

    def into(self, buffer: memoryview, at: int) -> int:
        self._beat(len(buffer))
        return self._reads.into(buffer, at)

    def some(self, at: int, count: int) -> bytes:
        self._beat(count)
        return self._reads.some(at, count)


class Source:
    """``size`` bytes that begin at byte ``base`` of a file. Every read is inside them."""

    def __init__(self, reads: Reads, base: int, size: int) -> None:
        self._reads, self._base, self.size = reads, base, size

    @classmethod
    def of(cls, stream: BinaryIO, beat: Beat | None = None) -> Source:
        """All of a seekable stream. Raises OSError."""
        size = stream.seek(0, os.SEEK_END)
        raw = getattr(stream, "raw", stream)
        plain = isinstance(raw, io.FileIO) and hasattr(os, "preadv")
        reads: Reads = _Descriptor(stream) if plain else _Stream(stream)
        return cls(reads if beat is None else _Beating(reads, beat), 0, size)

    @classmethod
    def over(cls, data: bytes) -> Source:
        """Bytes that are no file."""
        return cls(_Stream(io.BytesIO(data)), 0, len(data))

    @property
    def base(self) -> int:
        """Its first byte in the file."""
        return self._base

    @property
    def shared(self) -> bool:
        """Whether several threads may read from it at once."""
        return self._reads.shared

    def part(self, at: int, count: int) -> Source:
        """A stretch of it. Raises Damage where it is not inside."""
        self._inside(at, count)
        return Source(self._reads, self._base + at, count)

    def read(self, at: int, count: int) -> bytes:
        """Exactly ``count`` bytes. Raises Damage where they are not there, OSError."""
        self._inside(at, count)
        data = self._reads.some(self._base + at, count)
        if len(data) == count:
            return data
        buffer = bytearray(count)
        self._fill(memoryview(buffer), at)
        return bytes(buffer)

    def head(self, count: int) -> bytes:
        """The first ``count`` bytes, fewer where the file is shorter."""
        return self.read(0, min(count, self.size))

    def chunks(self, at: int, count: int, size: int = LIMITS.chunk) -> Iterator[memoryview]:
        """The bytes ``at .. at + count`` in pieces, all but the last of ``size`` bytes.

        Each piece is valid until the next one is asked for.
        """
        self._inside(at, count)
        buffer = memoryview(bytearray(min(size, count)))
        end = at + count
        while at < end:
            piece = buffer[: min(size, end - at)]
            self._fill(piece, at)
            yield piece
            at += len(piece)

    def _inside(self, at: int, count: int) -> None:
        if at < 0 or count < 0 or at + count > self.size:
            what = f"bytes {at} to {at + count} are outside of {self.size} bytes"
            raise Damage(FaultCode.TRUNCATED, what)

    def _fill(self, buffer: memoryview, at: int) -> None:
        filled = 0
        while filled < len(buffer):
            got = self._reads.into(buffer[filled:], self._base + at + filled)
            if not got:
                raise Damage(
                    FaultCode.IO, f"the file ended at byte {at + filled} while it was read"
                )
            filled += got
