"""Where artifacts live."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol

import msgspec

from trainproof.model.artifact import Content


class Entry(NamedTuple):
    """One regular file: ``path`` relative to the store, POSIX; ``size`` in bytes.

    ``size`` is None where the listing does not tell it: a directory does not, and asking for
    each file would cost several times the walk.
    """

    path: str
    size: int | None = None


class Passed(msgspec.Struct, frozen=True):
    """Something the walk saw and did not enter or open."""

    path: str
    content: Content
    detail: str = ""


class StoreError(Exception):
    """A store could not list or open something. Never means "empty"."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.path, self.detail = path, detail


class Store(Protocol):
    def walk(self) -> Iterator[Entry | Passed | StoreError]:
        """Every file below the root, in sorted order; a failure is yielded, never hidden."""
        ...

    def open(self, path: str) -> BinaryIO:
        """A seekable stream. Raises StoreError, and nothing else."""
        ...
