"""A page of shared memory in which a worker says what it is at.

A frame per step would cost more than the step. The worker writes a counter, the task, the phase
and the item with one store into a file without a name; the supervisor reads it when the worker dies
or its deadline nears. Its content is a hint from a process that may be corrupt: it is checked
against what was asked before anyone is blamed.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import tempfile
from dataclasses import dataclass

from .work import Phase

_FORM = struct.Struct("<QIII")
_SIZE = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Sighting:
    """``count`` grows with every step, so two equal sightings mean no progress."""

    count: int
    task: int
    phase: int
    item: int


class Beacon:
    """One end of the page. ``fileno`` is inherited by the worker."""

    def __init__(self, fileno: int | None = None) -> None:
        if fileno is None:
            fileno = _nameless_file()
            os.ftruncate(fileno, _SIZE)
        self.fileno = fileno
        self._page = mmap.mmap(fileno, _SIZE)
        self._count = 0
        self._task = 0

    def task(self, number: int) -> None:
        self._task = number
        self.at(Phase.IDLE)

    def at(self, phase: Phase, item: int = 0) -> None:
        self._count += 1
        _FORM.pack_into(self._page, 0, self._count, self._task, phase, item)

    def sighting(self) -> Sighting:
        return Sighting(*_FORM.unpack_from(self._page, 0))

    def close(self) -> None:
        self._page.close()
        os.close(self.fileno)


def _nameless_file() -> int:
    """In memory where the system offers it: a read-only container has no temporary directory."""
    if sys.platform == "linux":
        return os.memfd_create("trainproof")
    with tempfile.TemporaryFile(buffering=0) as file:
        return os.dup(file.fileno())
