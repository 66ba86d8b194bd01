"""Do the same with several stretches of a file at once.

Reading, checksums and reductions do not hold the interpreter's lock, and each thread has what it
reads in the cache of its own core: two take half the time where two cores are free, and no more of
the processor where they are not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from threading import Lock, Thread
from typing import Generic, TypeVar

MOST = 4
"""More wait for one another and for the memory."""
LARGE = 1 << 20
"""Bytes of a stretch from which on threads do not get into each other's way."""

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


def in_threads(work: Callable[[_Item], _Made], items: Iterable[_Item], count: int) -> list[_Made]:
    """What becomes of the ``count`` items, in their order, in which they are asked for one by one.

    Raises what the first of the items raises for which ``work`` raises anything.
    """
    shared = _Shared(work, iter(items))
    helpers = [Thread(target=shared.run, daemon=True) for _ in range(min(_cores(), count) - 1)]
    try:
        for helper in helpers:
            helper.start()
    except RuntimeError:  # no more threads are allowed: those that are there do it all
        pass
    shared.run()
    for helper in helpers:
        if helper.ident is not None:
            helper.join()
    return shared.made()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return min(MOST, len(os.sched_getaffinity(0)))
    return min(MOST, os.cpu_count() or 1)


class _Shared(Generic[_Item, _Made]):
    """What the threads take from and lay down."""

    def __init__(self, work: Callable[[_Item], _Made], items: Iterator[_Item]) -> None:
        self._work, self._items = work, enumerate(items)
        self._lock = Lock()
        self._made: dict[int, _Made] = {}
        self._failed: dict[int, BaseException] = {}

    def run(self) -> None:
        while (taken := self._take()) is not None:
            number, item = taken
            try:
                self._made[number] = self._work(item)
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits
                self._failed[number] = error

    def _take(self) -> tuple[int, _Item] | None:
        with self._lock:
            return None if self._failed else next(self._items, None)

    def made(self) -> list[_Made]:
        for number in sorted(self._failed):
            raise self._failed[number]
        return [self._made[number] for number in sorted(self._made)]
