"""Files that are compressed as a whole: pickles of joblib, most often. Unpacked within a limit."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from msgspec.structs import replace

from trainproof.model.data import FaultCode
from trainproof.model.tensors import CheckpointFacts, Extent, Layout, TensorInfo

from .draft import Draft, Item
from .limits import LIMITS
from .recognise import HEAD, layout_of
from .source import Damage, Source
from .torch_legacy import read_legacy


class _Unpacks(Protocol):
    """``zlib``, ``bz2`` and ``lzma`` agree on this much."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


_UNPACKERS: Mapping[bytes, Callable[[], _Unpacks]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
    b"\x78": zlib.decompressobj,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, LIMITS.unpack_memory),
}
"""By the first bytes. 7z, lz4 and zstandard are not unpacked."""


def read_compressed(draft: Draft) -> Iterator[Item]:
    """The pickle that was compressed, as if it were the file. Raises Damage."""
    data = _unpacked(draft)
    layout = Layout.UNKNOWN if data is None else layout_of("", data[:HEAD])
    if data is None or layout is not Layout.PICKLE:
        draft.reason = f"compressed as a whole, and its content is {layout}"
        yield draft.done(Extent.NOT_CHECKED)
        return
    inner = Draft(draft.artifact, Source.over(data), draft.depth, layout, draft.limits)
    for item in read_legacy(inner):
        yield _of_the_file(item, draft.source.size)


def _of_the_file(item: Item, size: int) -> Item:
    """The file has another size, and no tensor lies in it as it is."""
    match item:
        case CheckpointFacts():
            return replace(item, size=size)
        case TensorInfo():
            return replace(item, place=None)
        case _:
            return item


def _unpacked(draft: Draft) -> bytes | None:
    """None where the program that packed it is not known. Raises Damage."""
    head = draft.source.head(8)
    made = next((make() for mark, make in _UNPACKERS.items() if head.startswith(mark)), None)
    if made is None:
        return None
    most, parts = draft.limits.inflate, list[bytes]()
    try:
        for piece in draft.source.chunks(0, draft.source.size, _PIECE):
            most -= _unpack(made, bytes(piece), most, parts)
            if most < 0:
                raise Damage(FaultCode.TOO_LARGE, "what it unpacks to is over the limit")
            if made.eof:
                break
    except (zlib.error, OSError, EOFError, lzma.LZMAError):
        raise Damage(FaultCode.CORRUPT, "it does not unpack") from None
    if not made.eof:
        raise Damage(FaultCode.TRUNCATED, "what is compressed ends early")
    return b"".join(parts)


_PIECE = 64 << 10


def _unpack(made: _Unpacks, data: bytes, most: int, parts: list[bytes]) -> int:
    """Unpack one piece, and one byte more than may be; how many there were."""
    count = 0
    while count <= most:
        part = made.decompress(data, most + 1 - count)
        data = getattr(made, "unconsumed_tail", b"")
        parts.append(part)
        count += len(part)
        if made.eof or not (data or _holds_more(made)):
            return count
    return count


def _holds_more(made: _Unpacks) -> bool:
    """Whether it has more to give without more data: bz2 and xz keep the rest themselves."""
    return not getattr(made, "needs_input", True)
