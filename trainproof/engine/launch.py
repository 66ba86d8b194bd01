"""Start worker processes, the first of them while the parent is still being imported.

A worker is ready not much sooner than a parent that only starts: begun together, nobody waits.
Imports little, as that comes before everything else.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, NamedTuple

from .beacon import Beacon


class Launched(NamedTuple):
    """A worker that waits for its first order on its standard input. ``roomy``: what it answers
    fits into its pipe for a while when nobody reads."""

    beacon: Beacon
    process: subprocess.Popen[bytes]
    roomy: bool


_WORKER = "import gc; gc.disable(); from trainproof.engine.worker import main; main()"
"""Nothing that is imported is garbage: looking for some takes a twentieth of the time."""
ROOM = 1 << 20
"""What a user may ask for at most where nobody has changed it (proc(5), pipe-max-size)."""
_waiting: list[Launched] = []
_likely = ["readers.table"]
"""Modules of this package that a worker imports before it is told what to do."""


def launch_early(modules: Sequence[str]) -> None:
    """Start the worker that the next ``launch`` returns. It ends with this process at last.

    ``modules`` of this package: those that it and all later ones are likely to need.
    """
    _likely[:] = modules
    atexit.register(dismiss)
    launch_ahead(1)


def launch_ahead(count: int) -> None:
    """Start workers until ``count`` wait to be launched, or dismissed."""
    with contextlib.suppress(OSError):  # whoever needs one will meet that again, and say so
        while len(_waiting) < count:
            _waiting.append(_launched())


def launch() -> Launched:
    """A worker. Raises OSError where the system lets none start."""
    return _next_waiting() or _launched()


def _next_waiting() -> Launched | None:
    """One that waits. Asked for and taken at once: audits may run in several threads."""
    try:
        return _waiting.pop()
    except IndexError:
        return None


def _launched() -> Launched:
    beacon = Beacon()
    told = [str(beacon.fileno), *_likely]
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _WORKER, *told],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=[beacon.fileno],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    return Launched(beacon, process, _widened(process.stdout))


def _widened(pipe: IO[bytes] | None) -> bool:
    """Whether the pipe holds a mebibyte now. Linux lets it, unless somebody has lowered the limit
    or uses very many."""
    if pipe is None or sys.platform != "linux":
        return False
    try:
        return fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, ROOM) >= ROOM
    except OSError:
        return False


def dismiss() -> None:
    """End the workers that nobody needed."""
    while launched := _next_waiting():
        launched.process.kill()
        launched.process.communicate()
        launched.beacon.close()
