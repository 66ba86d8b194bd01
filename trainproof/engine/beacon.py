"""A page of shared memory in which a worker says what it is at, and how far it has come.

A frame per step would cost more than the step. The worker writes a counter, the task, the phase
and the item with one store into a file without a name, and with another what it has read; the
supervisor reads them when the worker dies, when its deadline nears, and while somebody watches. The
content is a hint from a process that may be corrupt: it is checked against what was asked before
anyone is blamed.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from enum import IntEnum

import msgspec

from trainproof.model.progress import Amount

_STEP = struct.Struct("<QIII")
_AMOUNT = struct.Struct("<QQQ")
_AMOUNT_AT = 24
_SIZE = mmap.PAGESIZE
_MOST = 2**64 - 1


class Phase(IntEnum):
    """What a worker is at, as its supervisor sees it.

    The item that goes with it: of READING the artifact, of CHECKING the rule, of BASELINE the
    artifact among those of all baselines of the task.
    """

    IDLE = 0
    READING = 1
    ASSEMBLING = 2
    CHECKING = 3
    BASELINE = 4


class Sighting(msgspec.Struct, frozen=True):
    """``count`` grows with every step, so two equal sightings mean no progress. ``amount``: of
    the task, as far as it was told."""

    count: int
    task: int
    phase: int
    item: int
    amount: Amount


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
        self.at(Phase.IDLE, amount=Amount())

    def at(self, phase: Phase, item: int = 0, amount: Amount | None = None) -> None:
        self._count += 1
        if amount is not None:
            _AMOUNT.pack_into(self._page, _AMOUNT_AT, *(min(one, _MOST) for one in amount))
        _STEP.pack_into(self._page, 0, self._count, self._task, phase, item)

    def sighting(self) -> Sighting:
        count, task, phase, item = _STEP.unpack_from(self._page, 0)
        amount = Amount(*_AMOUNT.unpack_from(self._page, _AMOUNT_AT))
        return Sighting(count, task, phase, item, amount)

    def close(self) -> None:
        self._page.close()
        os.close(self.fileno)


def _nameless_file() -> int:
    """In memory where the system offers it: a read-only container has no temporary directory."""
    if sys.platform == "linux":
        return os.memfd_create("trainproof")
    import tempfile  # noqa: PLC0415 - takes as long to import as all else here

    with tempfile.TemporaryFile(buffering=0) as file:
        return os.dup(file.fileno())
