"""Unfold an archive of runs in a child process, so that a hostile one costs only itself."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack

from trainproof.stores import StoreError, local_path
from trainproof.stores.regular import open_regular

from .limits import Limits, limit_this_process

_MAGIC = (b"PK\3\4", b"PK\5\6", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")
_NOT_AN_ARCHIVE = 3
"""Exit status of the child that says so; whatever else goes wrong is in the spool's index."""
_STEPS = 10
"""An archive holds many files: it may take this many times as long as one."""


def spooled(root: str, stack: ExitStack, limits: Limits) -> str | None:
    """The directory that ``root`` was unfolded into, None when it is not an archive of runs.

    The directory goes when ``stack`` is closed. A child that dies leaves an index without an
    end, which the store that reads it reports. Raises StoreError for a root of another scheme.
    """
    path = local_path(root)
    if not _looks_like_one(path):
        return None
    import tempfile  # noqa: PLC0415 - few roots are archives

    target = stack.enter_context(tempfile.TemporaryDirectory(prefix="trainproof-"))
    arguments = ["-P", "-m", "trainproof.engine.spool", path, target, str(limits.memory_bytes)]
    try:
        child = subprocess.run(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=limits.startup_seconds + _STEPS * limits.step_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return target
    return None if child.returncode == _NOT_AN_ARCHIVE else target


def _looks_like_one(path: str) -> bool:
    """By magic only: this is the process that decides the exit code."""
    try:
        with open_regular(os.path.realpath(path)) as stream:  # a root may be a link
            head = stream.read(512)
    except (OSError, ValueError):
        return False
    return head.startswith(_MAGIC) or head[257:262] == b"ustar"


def main(path: str, target: str, memory_bytes: int) -> int:
    from trainproof.stores.archive import archive_format, spool  # noqa: PLC0415 - the child alone

    limit_this_process(memory_bytes)
    if archive_format(path) is None:
        return _NOT_AN_ARCHIVE
    for item in spool(path, target):
        if isinstance(item, StoreError) and item.path == ".":
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
