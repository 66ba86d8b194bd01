"""Room and permission to write below a directory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from trainproof.model.environment import Space


def space(directory: Path, *, written: bool = False) -> Space | None:
    """The file system under ``directory``, or under the nearest one above it that exists.

    ``written``: also whether a file can be made there. It has no name where the system can do that,
    and is gone at once. None where nothing could be measured.
    """
    home = nearest(directory)
    try:
        told = os.statvfs(home)
    except OSError:
        return None
    return Space(
        path=str(home),
        total=told.f_blocks * told.f_frsize,
        free=told.f_bavail * told.f_frsize,
        inodes=told.f_files,
        free_inodes=told.f_favail,
        unwritable=_obstacle(home) if written else "",
    )


def nearest(path: Path) -> Path:
    """The path itself, or the first one above it that exists."""
    absolute = Path(os.path.abspath(path))
    return next((one for one in (absolute, *absolute.parents) if one.exists()), absolute)


def _obstacle(home: Path) -> str:
    if not home.is_dir():
        return f"{home} is a file"
    try:
        with tempfile.TemporaryFile(dir=home):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__
