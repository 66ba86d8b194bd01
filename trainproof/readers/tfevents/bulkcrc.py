"""CRC-32C of many equally long messages at once.

A CRC is affine over GF(2). For messages of one length, ``crc(a) ^ crc(b)`` depends only on
``a ^ b``, and the difference that two bytes make depends only on them and on how many bytes
follow. So the checksum of a message that differs from a known one in a few bytes is the known
checksum, XORed with one table entry for each two of them.
"""

from __future__ import annotations

from functools import cache, lru_cache

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from .framing import MASK_DELTA

U16s = NDArray[np.uint16]
U32s = NDArray[np.uint32]

_crc = google_crc32c.value


@lru_cache(maxsize=128)
def pair_table(distance: int) -> U32s:
    """What two bytes change in a checksum: uint32 (65536,), indexed by the little-endian pair.

    ``distance`` is the number of bytes from the first of them to the message's last byte; at
    least 1. A table is 256 KiB, the cache at most 32 MiB.
    """
    zeros = _crc(bytes(distance + 1))
    table = np.zeros(1, np.uint32)
    for bit in range(16):
        message = (1 << bit).to_bytes(2, "little") + bytes(distance - 1)
        table = np.concatenate((table, table ^ np.uint32(_crc(message) ^ zeros)))
    table.flags.writeable = False
    return table


def change(values: NDArray[np.generic], distance: int, width: int) -> U32s:
    """What the first ``width`` bytes of each value change, against zeros: uint32 (n,).

    ``values`` is contiguous, its items of an even number of bytes; bytes from ``width`` on are
    zero. ``distance`` is the number of bytes from the first byte to the message's last.
    """
    pairs: U16s = values.view(np.uint16).reshape(len(values), values.itemsize // 2)
    total = pair_table(distance).take(pairs[:, 0])
    for index in range(1, (width + 1) // 2):
        total ^= pair_table(distance - 2 * index).take(pairs[:, index])
    return total


def mask_all(crcs: U32s) -> U32s:
    """``framing.masked`` of each."""
    return (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(MASK_DELTA)


@cache
def length_crcs() -> U32s:
    """The masked checksum of every record length below 65536: uint32 (65536,)."""
    return mask_all(pair_table(7) ^ np.uint32(_crc(bytes(8))))
