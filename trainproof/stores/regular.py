"""Opening a file of someone else's tree."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_regular(name: str, dir_fd: int | None = None) -> BinaryIO:
    """A buffered seekable stream of a regular file that is not a link.

    Raises OSError; ELOOP for a link. Never blocks: a pipe that took the place of the file since
    the walk is opened without waiting for a writer, seen for what it is, and closed.
    """
    descriptor = os.open(name, _FLAGS, dir_fd=dir_fd)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_below(base: str, path: str) -> BinaryIO:
    """The regular file at ``path`` below the directory ``base``, following no link on the way.

    Raises OSError; ELOOP or ENOTDIR where a link is in the way. Fastest where ``base`` is a
    resolved path.
    """
    full = os.path.join(base, path)
    stream = open_regular(full)
    if _opened(stream) == full:
        return stream
    stream.close()
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


def _opened(stream: BinaryIO) -> str | None:
    """Where the kernel found the file: one call, against two for each directory on the way."""
    try:
        return os.readlink(f"/proc/self/fd/{stream.fileno()}")
    except OSError:  # not Linux
        return None


def reason(error: Exception) -> str:
    """What went wrong, without the path: a local path is no part of a report."""
    told = error.strerror if isinstance(error, OSError) else None
    return told or str(error) or type(error).__name__
