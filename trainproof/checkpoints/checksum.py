"""CRC-32, as fast as this installation can."""

from __future__ import annotations

import zlib
from collections.abc import Callable

Crc32 = Callable[[bytes | memoryview, int], int]

__all__ = ["crc32"]


def _fastest() -> Crc32:
    """Ten times the speed of zlib's, where the ``fast`` extra is installed. Same result."""
    try:
        from isal import isal_zlib  # noqa: PLC0415 - optional
    except ImportError:
        return zlib.crc32
    fast: Crc32 = isal_zlib.crc32
    return fast


crc32 = _fastest()
