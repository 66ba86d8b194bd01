"""Start worker processes, the first of them while the parent is still being imported.

A worker is ready not much sooner than a parent that only starts: begun together, nobody waits.
Imports little, as that comes before everything else.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
from typing import NamedTuple

from .beacon import Beacon


class Launched(NamedTuple):
    """A worker that waits for its first order on its standard input."""

    process: subprocess.Popen[bytes]
    beacon: Beacon


LOGS = "logs"
"""Told to a worker that is going to read some."""

_waiting: list[Launched] = []


def launch_early(logs: bool = True) -> None:
    """Start the worker that the next ``launch`` returns. It ends with this process at last.

    ``logs``: whether it is likely to read some, so that it imports their readers meanwhile.
    """
    with contextlib.suppress(OSError):  # whoever needs it will meet that again, and say so
        _waiting.append(_launched(logs))
        atexit.register(_dismiss)


def launch() -> Launched:
    """A worker. Raises OSError where the system lets none start."""
    return _waiting.pop() if _waiting else _launched(logs=True)


def _launched(logs: bool) -> Launched:
    beacon = Beacon()
    told = [str(beacon.fileno), *([LOGS] if logs else [])]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "trainproof.engine.worker", *told],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=[beacon.fileno],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    return Launched(process, beacon)


def _dismiss() -> None:
    """End the worker that nobody needed."""
    while _waiting:
        process, _ = _waiting.pop()
        process.kill()
        process.communicate()
