"""The table format of LevelDB, as far as TensorFlow writes it: sorted keys with their values.

Source: ``doc/table_format.md`` of LevelDB. A footer names an index block, the index block names
data blocks; each is followed by its compression and its checksum.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainproof.model.data import FaultCode

from .cursor import Cursor
from .source import Damage, Source

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5


def is_table(source: Source) -> bool:
    """Whether the last bytes are those of a table."""
    tail = source.read(max(source.size - 8, 0), min(source.size, 8))
    return int.from_bytes(tail, "little") == _MAGIC


def pairs(source: Source, most: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values in order. ``most``: bytes of one block. Raises Damage."""
    if source.size < _FOOTER or not is_table(source):
        raise Damage(FaultCode.TRUNCATED, "the footer of the table is missing")
    footer = Cursor(source, source.size - _FOOTER)
    for _ in range(2):  # of the meta index, which TensorFlow leaves empty
        footer.varint()
    index = _block(source, footer.varint(), footer.varint(), most)
    last = -1
    for _, handle in _entries(index):
        place = Cursor(Source.over(handle))
        start, size = place.varint(), place.varint()
        if start <= last:
            raise Damage(FaultCode.CORRUPT, "the blocks of the table are not in order")
        last = start
        yield from _entries(_block(source, start, size, most))


def _block(source: Source, start: int, size: int, most: int) -> bytes:
    if size > most:
        raise Damage(FaultCode.TOO_LARGE, f"a block of {size} bytes is over the limit")
    data = source.read(start, size + _TRAILER)
    if data[size]:
        raise Damage(FaultCode.TOO_LARGE, "a compressed block, which is not read")
    return data[:size]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each key shares its first bytes with the one before it."""
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * restarts
    if len(block) < 4 or end < 0:
        raise Damage(FaultCode.CORRUPT, "a block of the table is damaged")
    cursor, key = Cursor(Source.over(block)), b""
    while cursor.at < end:
        shared, rest, size = cursor.varint(), cursor.varint(), cursor.varint()
        if shared > len(key):
            raise Damage(FaultCode.CORRUPT, "a key of the table is damaged")
        key = key[:shared] + cursor.take(rest)
        yield key, cursor.take(size)
