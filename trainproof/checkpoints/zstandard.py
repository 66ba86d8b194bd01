"""Zstandard, where this installation has it: from Python 3.14 on, or by the extra ``zstd``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from trainproof.model.data import FaultCode

from .limits import LIMITS
from .source import Damage

_WINDOW_LOG = 26
"""A frame may want 2 to the power of so many bytes of memory. Level 22 takes 27."""


class NoZstandard(Exception):
    """This installation cannot unpack it."""

    def __init__(self) -> None:
        super().__init__("compressed by zstandard, which the extra trainproof[zstd] unpacks")


@cache
def _module() -> Any:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def unpacked(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """What one frame holds, in pieces of ``LIMITS.chunk`` bytes but for the last. Raises Damage,
    NoZstandard."""
    zstd, held = _module(), bytearray()
    if zstd is None:
        raise NoZstandard
    try:
        options = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
        decoder = zstd.ZstdDecompressor(options=options)
        for piece in pieces:
            if decoder.eof:
                break
            held += decoder.decompress(bytes(piece), LIMITS.chunk)
            while not (decoder.eof or decoder.needs_input):
                yield from _whole(held)
                held += decoder.decompress(b"", LIMITS.chunk)
            yield from _whole(held)
    except zstd.ZstdError as error:
        raise Damage(FaultCode.CORRUPT, f"zstandard: {error}") from None
    if not decoder.eof:
        raise Damage(FaultCode.TRUNCATED, "a frame of zstandard has no end")
    if held:
        yield bytes(held)


def _whole(held: bytearray) -> Iterator[bytes]:
    """Take whole pieces off the front."""
    while len(held) >= LIMITS.chunk:
        yield bytes(held[: LIMITS.chunk])
        del held[: LIMITS.chunk]


def unpack(data: bytes, most: int) -> bytes:
    """All of a short frame. Raises Damage, also where it is longer; NoZstandard."""
    made = bytearray()
    for piece in unpacked([data]):
        made += piece
        if len(made) > most:
            raise Damage(FaultCode.TOO_LARGE, f"a frame of zstandard is longer than {most} bytes")
    return bytes(made)
