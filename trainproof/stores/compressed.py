"""Compressed files as the streams that they stand for: gzip, bzip2, xz and zstd.

Readers see what they would see of the file itself. What is wrong with the compression, or unfolds
to more than it may, ends the stream early and is told beside it: by then the reader has what came
before. Streams go forward; the first step back unfolds the whole into a temporary file.
"""

from __future__ import annotations

import bz2
import importlib
import io
import lzma
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import msgspec

from trainproof.model.compression import Method, method_of
from trainproof.model.data import FaultCode

from .interface import StoreError
from .regular import reason

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it from Python 3.12 on

_CHUNK = 1 << 16
"""Bytes read at a time."""

_BUFFER = 1 << 18
_SNIFFED = 1 << 20
"""Bytes of a compressed file that may be read for its head: bzip2 needs a block of 900 kB."""

_XZ_MEMORY = 256 << 20
"""``xz -9`` needs 65 MiB; a header may ask for 4 GiB."""


class Limits(msgspec.Struct, frozen=True):
    """What a file may unfold to: ``total`` bytes, and ``ratio`` times its own size beyond the
    ``floor`` that any file may reach. Logs of one line again and again reach 200 times."""

    total: int = 4 << 30
    ratio: int = 300
    floor: int = 64 << 20

    def budget(self, size: int) -> int:
        """Bytes that a file of this size may unfold to."""
        return min(self.total, max(self.floor, self.ratio * size))


LIMITS = Limits()


class Trouble(msgspec.Struct, frozen=True):
    """Why a stream ended before its end. ``fatal`` as in ``Fault``: a file that is cut is not."""

    code: FaultCode
    detail: str
    fatal: bool


class Decompressed(io.BufferedReader):
    """What a compressed file stands for. Closing it closes the file.

    Reading raises nothing: see ``trouble``. Seeking raises OSError where there is no room for a
    temporary file.
    """

    def __init__(self, stream: BinaryIO, method: Method, budget: int) -> None:
        self._inner = _Inner(stream, method, budget)
        super().__init__(self._inner, _BUFFER)

    @property
    def trouble(self) -> Trouble | None:
        """What ended the stream early, as far as it has been read."""
        return self._inner.trouble

    @property
    def place(self) -> int:
        """Bytes of the compressed file that were read so far."""
        return self._inner.place


def decompressed(stream: BinaryIO, path: str, limits: Limits = LIMITS) -> BinaryIO:
    """The seekable stream itself, or what it stands for where it is compressed.

    Raises StoreError where reading fails or the method is not supported here.
    """
    try:
        method = method_of(stream.read(16))
        if method is None:
            stream.seek(0)  # within its buffer: nothing is read twice
            return stream
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        if missing := unsupported(method):
            raise StoreError(path, missing)
        return cast(BinaryIO, Decompressed(stream, method, limits.budget(size)))
    except OSError as error:
        stream.close()
        raise StoreError(path, reason(error)) from error
    except StoreError:
        stream.close()
        raise


def trouble_of(stream: BinaryIO) -> Trouble | None:
    """What ended a stream of ``decompressed`` early."""
    return stream.trouble if isinstance(stream, Decompressed) else None


def place_of(stream: BinaryIO) -> int:
    """How many bytes of the file itself, compressed or not, a stream of ``decompressed`` has
    taken."""
    return stream.place if isinstance(stream, Decompressed) else stream.tell()


def unsupported(method: Method) -> str:
    """Why this method cannot be read here; empty where it can."""
    if _codec(method) is None:
        return f"{method}-compressed: needs the {method} extra, which is not installed"
    return ""


def head_of(stream: BinaryIO, method: Method, count: int) -> tuple[bytes, Trouble | None]:
    """The first ``count`` bytes of what a compressed file stands for, at a bounded cost."""
    inner = _Inner(cast(BinaryIO, _Capped(stream, _SNIFFED)), method, count)
    head = bytearray()
    while len(head) < count and (data := inner.next(count - len(head))):
        head += data
    return bytes(head), inner.trouble


class _Capped:
    """The beginning of a stream."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data


class _Inner(io.RawIOBase):
    """Decompressed bytes, and their number so far."""

    def __init__(self, stream: BinaryIO, method: Method, budget: int) -> None:
        self._stream = stream
        self._method = method
        self._decode = _Members(stream, method)
        self._left = self._budget = budget
        self._spooled: BinaryIO | None = None
        self.trouble: Trouble | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._after(len(view))
        view[: len(data)] = data
        return len(data)

    def _after(self, size: int) -> bytes:
        return self.next(size) if self._spooled is None else self._spooled.read(size)

    def next(self, size: int) -> bytes:
        """At most ``size`` further bytes; none at the end."""
        if self.trouble is not None:
            return b""
        try:
            data = self._decode.next(size)
        except _Stop as stop:
            self.trouble = Trouble(stop.code, f"{self._method}: {stop}", stop.fatal)
            return b""
        if len(data) > self._left:
            detail = f"{self._method}: unfolds to more than {self._budget} bytes"
            self.trouble = Trouble(FaultCode.TOO_LARGE, detail, fatal=True)
            data = data[: self._left]
        self._left -= len(data)
        return data

    def tell(self) -> int:
        return self._budget - self._left if self._spooled is None else self._spooled.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if self._spooled is None:
            here = self.tell()
            if (offset, whence) in ((here, os.SEEK_SET), (0, os.SEEK_CUR)):
                return here
            self._spool(here)
        assert self._spooled is not None
        return self._spooled.seek(offset, whence)

    def _spool(self, here: int) -> None:
        """Unfold everything, from the beginning, into a file without a name."""
        import tempfile  # noqa: PLC0415 - few readers go back

        self._stream.seek(0)
        self._decode = _Members(self._stream, self._method)
        self._left, self.trouble = self._budget, None
        with ExitStack() as stack:
            spooled = stack.enter_context(tempfile.TemporaryFile(prefix="trainproof-"))
            while data := self.next(_BUFFER):
                spooled.write(data)
            spooled.seek(here)
            stack.pop_all()
        self._spooled = cast(BinaryIO, spooled)

    @property
    def place(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            if self._spooled is not None:
                self._spooled.close()
        super().close()


class _Stop(Exception):
    def __init__(self, code: FaultCode, detail: str, fatal: bool = True) -> None:
        super().__init__(detail)
        self.code, self.fatal = code, fatal


class _Decoder(Protocol):
    """One member of a compressed file, as bz2, lzma and zstd decode it."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib's decoder in the manner of the others; checks the sum and the length."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _Codec(msgspec.Struct, frozen=True):
    """``errors``: what the decoder raises on damage."""

    decoder: Callable[[], _Decoder]
    errors: tuple[type[Exception], ...]


_CODECS: Mapping[Method, _Codec] = {
    Method.GZIP: _Codec(_Gzip, (zlib.error,)),
    Method.BZIP2: _Codec(bz2.BZ2Decompressor, (OSError, ValueError)),
    Method.XZ: _Codec(partial(lzma.LZMADecompressor, memlimit=_XZ_MEMORY), (lzma.LZMAError,)),
}


def _codec(method: Method) -> _Codec | None:
    """zstd is in the standard library from Python 3.14 on; before, its backport may be there."""
    if method is not Method.ZSTD:
        return _CODECS[method]
    for name in ("compression.zstd", "backports.zstd"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return _Codec(module.ZstdDecompressor, (module.ZstdError,))
    return None


class _Members:
    """What the members of a file hold, one after the other: logs are appended to."""

    def __init__(self, stream: BinaryIO, method: Method) -> None:
        self._stream = stream
        self._method = method
        codec = _codec(method)
        assert codec is not None
        self._codec = codec
        self._decoder = codec.decoder()
        self._input = b""

    def next(self, size: int) -> bytes:
        """At most ``size`` bytes, none at the end. Raises _Stop."""
        while not self._decoder.eof or self._another():
            if not self._input and self._decoder.needs_input:
                self._input = self._read()
                if not self._input:
                    raise _Stop(FaultCode.TRUNCATED, "the file is cut: the rest is missing", False)
            try:
                data = self._decoder.decompress(self._input, size)
            except self._codec.errors as error:
                raise _Stop(FaultCode.CORRUPT, f"damaged: {error}") from None
            self._input = b""
            if data:
                return data
        return b""

    def _another(self) -> bool:
        """Whether another member follows; zeros after the last one are padding."""
        rest = self._decoder.unused_data.lstrip(b"\0")
        while not rest and (data := self._read()):
            rest = data.lstrip(b"\0")
        if not rest:
            return False
        if len(rest) < 16:
            rest += self._read()
        if method_of(rest) is not self._method:
            raise _Stop(FaultCode.CORRUPT, "something else follows the compressed data", False)
        self._decoder, self._input = self._codec.decoder(), rest
        return True

    def _read(self) -> bytes:
        try:
            return self._stream.read(_CHUNK)
        except OSError as error:
            raise _Stop(FaultCode.IO, f"reading failed: {reason(error)}") from None
