"""Opening a file of someone else's tree."""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import BinaryIO

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLACE = getattr(os, "O_PATH", 0)
"""Opens the name and not the file: needs no permission and waits for nobody. Linux only."""
_DIRECTORY = _PLACE | os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


_SMALL = 1 << 16
"""Bytes up to which a file is read at once: making a stream of it costs more than they do."""


class Loaded(io.BytesIO):
    """The content of a small file; ``told``: what the system said of it before it was read."""

    def __init__(self, content: bytes, told: os.stat_result) -> None:
        super().__init__(content)
        self.told = told


def open_regular(name: str, dir_fd: int | None = None) -> BinaryIO:
    """A buffered seekable stream of a regular file that is not a link.

    Raises OSError; ELOOP for a link. Never blocks: a pipe that took the place of the file since
    the walk is opened without waiting for a writer, seen for what it is, and closed.
    """
    return _stream(os.open(name, _FLAGS, dir_fd=dir_fd))


def open_below(base: str, path: str) -> BinaryIO:
    """The regular file at ``path`` below the directory ``base``, following no link on the way.

    Raises OSError; ELOOP or ENOTDIR where a link is in the way. Fastest where ``base`` is a
    resolved path.
    """
    full = f"{base.rstrip('/')}/{path}"
    descriptor = os.open(full, _FLAGS)
    if _opened(descriptor) == full:
        return _stream(descriptor)
    os.close(descriptor)
    *directories, name = path.split("/")
    descriptor = os.open(base, _DIRECTORY)
    try:
        for directory in directories:
            inner = os.open(directory, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        return open_regular(name, descriptor)
    finally:
        os.close(descriptor)


def _stream(descriptor: int) -> BinaryIO:
    """The file of a descriptor, which it takes over. Raises OSError."""
    try:
        small = _loaded(descriptor)
        if small is None:
            # open() would ask whether it is a terminal
            return io.BufferedReader(io.FileIO(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return small


def _loaded(descriptor: int) -> Loaded | None:
    """What is in a regular file; None where that is much, or is just being written."""
    told = os.fstat(descriptor)
    if not stat.S_ISREG(told.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if told.st_size > _SMALL:
        return None
    content = os.pread(descriptor, told.st_size + 1, 0)
    return Loaded(content, told) if len(content) == told.st_size else None


def resolved(path: str) -> tuple[int, str]:
    """The mode of what a path leads to, and its path without links. Raises OSError, ValueError."""
    if not _PLACE:
        return os.stat(path).st_mode, os.path.realpath(path, strict=True)
    descriptor = os.open(path, _PLACE | os.O_CLOEXEC)
    try:
        mode, real = os.fstat(descriptor).st_mode, _opened(descriptor)
    finally:
        os.close(descriptor)
    return mode, real or os.path.realpath(path, strict=True)


def _opened(descriptor: int) -> str | None:
    """Where the kernel found a file: one call, against two for each directory on the way. None
    where it does not tell, or the file has no place."""
    try:
        place = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # not Linux
        return None
    return place if place[:1] == "/" else None


def reason(error: Exception) -> str:
    """What went wrong, without the path: a local path is no part of a report."""
    told = error.strerror if isinstance(error, OSError) else None
    return told or str(error) or type(error).__name__
