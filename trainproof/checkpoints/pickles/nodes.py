"""What a pickle would build, as records. Keys are never hashed, names never resolved."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Global(msgspec.Struct, eq=False):
    """An imported name."""

    module: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


class Items(msgspec.Struct, eq=False):
    """A tuple, list, set or frozenset."""

    kind: str
    values: list[Node] = msgspec.field(default_factory=list)


class Pairs(msgspec.Struct, eq=False):
    """A dict: its items in order, duplicates included."""

    values: list[tuple[Node, Node]] = msgspec.field(default_factory=list)


class Call(msgspec.Struct, eq=False):
    """Something that is called when the pickle is loaded, and what is then put into the result.

    ``states``: arguments of BUILD. ``items``: appended. ``pairs``: set by key.
    """

    function: Node
    arguments: Node
    states: list[Node] = msgspec.field(default_factory=list)
    items: list[Node] = msgspec.field(default_factory=list)
    pairs: list[tuple[Node, Node]] = msgspec.field(default_factory=list)


class Persistent(msgspec.Struct, eq=False):
    """A reference to something outside of the pickle: a storage, in torch's files."""

    id: Node


class Large(msgspec.Struct, eq=False):
    """An integer too long to be a size of anything; ``length`` bytes or digits."""

    length: int


Node: TypeAlias = (
    bool | int | float | str | bytes | Global | Items | Pairs | Call | Persistent | Large | None
)


def path_of(node: Node) -> str | None:
    """The dotted name of a global, None for anything else."""
    return f"{node.module}.{node.name}" if isinstance(node, Global) else None


def arguments(call: Call) -> list[Node]:
    """Positional arguments, empty where they are no tuple."""
    return call.arguments.values if isinstance(call.arguments, Items) else []
