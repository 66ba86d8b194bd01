"""How far the reading has come, for people who wait."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec


class Amount(NamedTuple):
    """``done`` of ``total`` bytes, as they lie on the disk; 0 of 0 where that is not known.

    ``rows``: how many were read, 0 where nobody counts them.
    """

    done: int = 0
    total: int = 0
    rows: int = 0


class Beat(Protocol):
    """Renews the deadline: called before each step that hostile input could make long, with how
    far the subject has been read where that is known."""

    def __call__(self, amount: Amount | None = None, /) -> None: ...


class Progress(msgspec.Struct, frozen=True):
    """``judged`` of ``subjects``, and what was read of all of them."""

    judged: int
    subjects: int
    read: Amount
