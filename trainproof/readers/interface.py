"""Bytes to columns. Readers never raise on bad input; they yield a Fault and stop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol, runtime_checkable

import msgspec

from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Item

HEAD = 4096
"""How many bytes of a file ``claims`` sees."""


class Options(msgspec.Struct, frozen=True):
    """What the caller said about columns: the tag of each role (``--map loss=my_loss``)."""

    tags: tuple[tuple[str, str], ...] = ()

    def tag_for(self, role: str) -> str | None:
        return dict(self.tags).get(role) if self.tags else None


class Reader(Protocol):
    """One file format. ``name`` is public: it appears in reports and in ``--format-hint``."""

    name: str
    kind: Kind

    def claims(self, path: str, head: bytes) -> bool:
        """Decide from the name and the first ``HEAD`` bytes only; content beats name."""
        ...

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        """Yield columns, facts and faults; or one NotJudgeable when there is no series."""
        ...


class Follower(Protocol):
    """A reader half-way through a file that grows."""

    def feed(self, stream: BinaryIO) -> None:
        """Read the stream from its position to its end; what follows the last whole record is
        kept until the rest of it comes."""
        ...

    def items(self) -> Iterator[Item]:
        """What ``read`` would yield if the file ended with the last whole record."""
        ...


@runtime_checkable
class Growing(Protocol):
    """A reader of a format that writers append to."""

    def follow(self, artifact: Artifact, options: Options) -> Follower: ...
