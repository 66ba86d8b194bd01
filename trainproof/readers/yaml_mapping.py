"""A YAML mapping as plain values, from the events of the parser: nothing is ever constructed.

Only what a setting can be is kept: nested mappings of short texts, booleans and nulls. Sequences
are left out. Tags are not looked at, so ``!!python/object`` is the mapping that it stands before.
An alias shares its value and counts with all that is in it, so that a few lines cannot stand for
a billion nodes. https://yaml.org/spec/1.1/

Import this module where it is needed: few runs have such a file beside them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
)

MAX_NODES = 100_000
"""Scalars and collections of a document, those that aliases repeat among them."""

MAX_DEPTH = 64
MAX_SCALAR = 4096
"""Characters of a scalar; longer ones are no settings and become null."""

MERGE = "<<"
WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
    **dict.fromkeys(("null", "~", ""), None),
}
"""Scalars that are no text where they are not quoted."""


def read_mapping(text: str) -> Mapping[str, object]:
    """The first document; empty where it is no mapping. Numbers are left as text.

    Raises ValueError for what is no YAML and for what exceeds the limits.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = _Document()
    try:
        for event in yaml.parse(text, Loader=loader):
            document.take(event)
            if isinstance(event, DocumentEndEvent):
                break
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {_where(error)}") from None
    return document.root if isinstance(document.root, dict) else {}


def _where(error: Exception) -> str:
    """What is wrong and in which line; the parser's own message cites the text at length."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or type(error).__name__
    return problem if mark is None else f"{problem} in line {mark.line + 1}"


class _Collection(msgspec.Struct):
    """A mapping or a sequence that is being read. ``begin``: nodes seen before it."""

    anchor: str | None
    begin: int
    is_mapping: bool
    members: dict[str, object] = msgspec.field(default_factory=dict)
    has_key: bool = False
    key: str | None = None

    def add(self, value: object) -> None:
        if not self.is_mapping:
            return
        if not self.has_key:
            self.key = value if isinstance(value, str) else None
        elif self.key == MERGE and isinstance(value, dict):
            for name, inherited in value.items():
                self.members.setdefault(name, inherited)
        elif self.key is not None:
            self.members[self.key] = value
        self.has_key = not self.has_key


class _Document(msgspec.Struct):
    root: object = None
    _open: list[_Collection] = msgspec.field(default_factory=list)
    _anchors: dict[str, tuple[object, int]] = msgspec.field(default_factory=dict)
    _nodes: int = 0

    def take(self, event: Event) -> None:
        """Raises ValueError beyond the limits."""
        match event:
            case ScalarEvent():
                self._count(1)
                self._put(_scalar(event, is_key=self._awaits_key()), event.anchor, 1)
            case AliasEvent():
                value, size = self._anchors.get(event.anchor or "", (None, 1))
                self._count(size)
                self._put(value, None, size)
            case CollectionStartEvent():
                self._begin(event, isinstance(event, MappingStartEvent))
            case CollectionEndEvent():
                self._end()

    def _awaits_key(self) -> bool:
        return bool(self._open) and self._open[-1].is_mapping and not self._open[-1].has_key

    def _begin(self, event: CollectionStartEvent, is_mapping: bool) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
        self._open.append(_Collection(event.anchor, self._nodes, is_mapping))
        self._count(1)

    def _end(self) -> None:
        done = self._open.pop()
        value = done.members if done.is_mapping else None
        self._put(value, done.anchor, self._nodes - done.begin)

    def _put(self, value: object, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if self._open:
            self._open[-1].add(value)
        else:
            self.root = value

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} nodes, those that aliases repeat among them")


def _scalar(event: ScalarEvent, *, is_key: bool) -> str | bool | None:
    text: str = event.value
    if len(text) > MAX_SCALAR:
        return None
    plain = event.implicit[0] and not is_key
    return WORDS.get(text.lower(), text) if plain else text
