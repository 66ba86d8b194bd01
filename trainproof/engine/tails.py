"""Files that are read again and again while they grow: what was read stays, what is new is added.

Kept in the worker, beside nothing else: what a hostile file does to its reader it does there. When
the worker dies, everything is read again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from trainproof.model.artifact import Artifact
from trainproof.model.data import Fault, Item
from trainproof.readers import reader
from trainproof.readers.interface import HEAD, Follower, Growing, Options
from trainproof.stores.regular import Loaded

MOST = 256
"""Files of which the state is kept; the one that was read longest ago goes first."""
_PRINT = 64
"""Bytes before the place up to which a file was read that must still be there."""


class _Mark(msgspec.Struct, frozen=True):
    """What the system says of a file. Two equal marks: nothing was written between them."""

    device: int
    inode: int
    size: int
    modified: int

    def is_same_file(self, other: _Mark) -> bool:
        return (self.device, self.inode) == (other.device, other.inode)


class _Tail(msgspec.Struct):
    """``offset``: how far the follower has read; ``head`` and ``before``: the first bytes of the
    file and those before the offset. ``doubted``: the file had faults that may be those of a
    writer at work, so ``items`` are still those from before."""

    mark: _Mark
    items: tuple[Item, ...]
    follower: Follower | None = None
    offset: int = 0
    head: bytes = b""
    before: bytes = b""
    doubted: bool = False


class Tails:
    """The readers of a process that watches."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], _Tail] = {}

    def items(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        """What the artifact's reader says of the whole file, for the price of what is new.

        A file that does not begin as before, or is shorter than it was, is read from its start.
        """
        mark = _mark(stream)
        if mark is None:
            yield from reader(artifact.reader).read(artifact, stream, options)
            return
        key = (artifact.root, artifact.path, artifact.part)
        tail = self._known.pop(key, None)
        if tail is None or tail.mark != mark or tail.doubted:
            tail = _read(artifact, stream, options, mark, tail)
        self._known[key] = tail
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        yield from tail.items


def _mark(stream: BinaryIO) -> _Mark | None:
    """None for what is no file of the system: a member of an archive, a compressed file."""
    try:
        told = stream.told if isinstance(stream, Loaded) else os.fstat(stream.fileno())
    except (AttributeError, OSError):
        return None
    return _Mark(told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns)


def _read(
    artifact: Artifact, stream: BinaryIO, options: Options, mark: _Mark, tail: _Tail | None
) -> _Tail:
    kind = reader(artifact.reader)
    if not isinstance(kind, Growing):
        return _rewritten(artifact, stream, options, mark, tail)
    if tail is None or tail.follower is None or not _goes_on(stream, mark, tail):
        stream.seek(0)
        tail = _Tail(mark, (), kind.follow(artifact, options), 0, stream.read(HEAD))
    assert tail.follower is not None
    stream.seek(tail.offset)
    tail.follower.feed(stream)
    tail.mark, tail.offset = mark, stream.tell()
    stream.seek(max(0, tail.offset - _PRINT))
    tail.before = stream.read(min(_PRINT, tail.offset))
    stream.seek(0)
    tail.head = stream.read(min(HEAD, tail.offset))
    tail.items = tuple(tail.follower.items())
    return tail


def _goes_on(stream: BinaryIO, mark: _Mark, tail: _Tail) -> bool:
    """Whether the file is the one that was read, with something behind it."""
    if not mark.is_same_file(tail.mark) or mark.size < tail.offset:
        return False
    stream.seek(0)
    if stream.read(len(tail.head)) != tail.head:
        return False
    stream.seek(tail.offset - len(tail.before))
    return stream.read(len(tail.before)) == tail.before


def _rewritten(
    artifact: Artifact, stream: BinaryIO, options: Options, mark: _Mark, tail: _Tail | None
) -> _Tail:
    """Read the whole file. Faults that it did not have before are believed only when the same
    bytes are met again: the writer may be in the middle of it."""
    stream.seek(0)
    items = tuple(reader(artifact.reader).read(artifact, stream, options))
    if tail is None or tail.mark == mark or not _faulty(items) or _faulty(tail.items):
        return _Tail(mark, items)
    return _Tail(mark, tail.items, doubted=True)


def _faulty(items: tuple[Item, ...]) -> bool:
    return any(isinstance(one, Fault) for one in items)
