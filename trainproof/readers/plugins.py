"""Readers of third parties: what installed packages register under ``trainproof.readers``.

A package adds a format with an entry point, in its ``pyproject.toml``::

    [project.entry-points."trainproof.readers"]
    curves = "trainproof_curves:Curves"

The value is a class without arguments, or an object, that has what ``interface.Reader`` says. Its
``name`` is public and must be its own; it is asked before the built-in readers. Installing the
package is consent to run it: ``claims`` runs in the process that decides the exit code, ``read`` in
a worker. What it yields is checked; what it raises costs the file that it was reading.

Entry points are looked for when an audit starts, never at import, and not in the working
directory: what is audited names no code to run.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import BinaryIO, TypeVar, cast

import msgspec
import numpy as np
from msgspec.structs import replace

from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import (
    Axis,
    Column,
    Declared,
    Facts,
    Fault,
    FaultCode,
    Item,
    NotJudgeable,
)

from .interface import Options, Reader

T = TypeVar("T", Facts, Fault, NotJudgeable)

GROUP = "trainproof.readers"
NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
KINDS = (Kind.LOG, Kind.CONFIG)
MAX_DETAIL = 500


class Broken(msgspec.Struct, frozen=True):
    """A plug-in that is not used, and why. ``entry`` is the name of its entry point."""

    entry: str
    detail: str

    def fault(self) -> Fault:
        path = f"{GROUP}/{self.entry}"
        return Fault(FaultCode.READER_FAILED, path, self.detail[:MAX_DETAIL], fatal=True)


class ThirdParty:
    """The readers of installed packages for one audit, and what is wrong with any of them."""

    def __init__(self, built_in: frozenset[str]) -> None:
        loaded = _installed(built_in, tuple(sys.path))
        self._broken = tuple(one for one in loaded if isinstance(one, Broken))
        self._guarded = tuple(one for one in map(_guarded, loaded) if one is not None)

    @property
    def readers(self) -> tuple[Reader, ...]:
        """By the names of their entry points."""
        return self._guarded

    def faults(self) -> Iterator[Fault]:
        """One for each that could not be loaded or, so far, failed to say what it claims."""
        broken = (*self._broken, *(one.failure for one in self._guarded if one.failure))
        for one in sorted(broken, key=lambda broken: broken.entry):
            yield one.fault()


class _Loaded(msgspec.Struct, frozen=True):
    """A reader and where it comes from: entry point, package and version."""

    entry: str
    origin: str
    reader: Reader


@cache
def _installed(built_in: frozenset[str], path: tuple[str, ...]) -> tuple[_Loaded | Broken, ...]:
    """Every plug-in on the path, loaded once in a process."""
    taken = set(built_in)
    found: list[_Loaded | Broken] = []
    for entry, origin in sorted(_entries(path), key=lambda pair: (pair[0].name, pair[0].value)):
        one = _loaded(entry, f"{origin.name} {origin.version}", taken)
        if isinstance(one, _Loaded):
            taken.add(one.reader.name)
        found.append(one)
    return tuple(found)


def _entries(path: Iterable[str]) -> Iterator[tuple[EntryPoint, Distribution]]:
    """The entry points of the group; of two copies of a package the first on the path counts."""
    here = os.path.realpath(os.curdir)
    places = [place for place in path if os.path.realpath(place) != here]
    seen: set[str] = set()
    for distribution in distributions(path=places):
        entries = [entry for entry in distribution.entry_points if entry.group == GROUP]
        if entries and distribution.name not in seen:
            seen.add(distribution.name)
            yield from ((entry, distribution) for entry in entries)


def _loaded(entry: EntryPoint, origin: str, taken: set[str]) -> _Loaded | Broken:
    try:
        found = entry.load()
        made = found() if isinstance(found, type) else found
        problem = _problem(made, taken)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it does is its own fault
        problem = f"{type(error).__name__}: {error}"
    if problem:
        return Broken(entry.name, f"{origin}, {entry.value}: {problem}")
    return _Loaded(entry.name, origin, cast(Reader, made))


def _problem(made: object, taken: set[str]) -> str:
    """What keeps an object from being a reader; empty where nothing does."""
    name = getattr(made, "name", None)
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        return f"the name {name!r} is not one of lower-case letters, digits and -._"
    if name in taken:
        return f"another reader is called {name!r}"
    if getattr(made, "kind", None) not in KINDS:
        return "its kind is neither Kind.LOG nor Kind.CONFIG"
    missing = [method for method in ("claims", "read") if not callable(getattr(made, method, None))]
    return f"it has no method {missing[0]!r}" if missing else ""


def _guarded(loaded: _Loaded | Broken) -> _Guarded | None:
    return None if isinstance(loaded, Broken) else _Guarded(loaded)


class _Guarded:
    """A third party's reader, held to the interface. After its first failure to say what it
    claims it is not asked again: it would say the same of each file."""

    def __init__(self, loaded: _Loaded) -> None:
        self._loaded = loaded
        self._reader = loaded.reader
        self.name, self.kind = str(loaded.reader.name), Kind(loaded.reader.kind)
        self.failure: Broken | None = None

    def claims(self, path: str, head: bytes) -> bool:
        if self.failure is not None:
            return False
        try:
            return bool(self._reader.claims(path, head))
        except Exception as error:  # noqa: BLE001 - as above
            told = f"{self._loaded.origin}: asked about {path}: {type(error).__name__}: {error}"
            self.failure = Broken(self._loaded.entry, told)
            return False

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        """Raises TypeError for an item that is not as the interface says."""
        for item in self._reader.read(artifact, stream, options):
            yield _checked(item, artifact.path)


def _checked(item: object, path: str) -> Item:
    match item:
        case Column():
            return _checked_column(item)
        case Fault():
            return replace(_validated(item), artifact=path)
        case Facts():
            return _validated(item)
        case NotJudgeable():
            return _validated(item)
    raise TypeError(f"it yields a {type(item).__name__}")


def _checked_column(column: Column) -> Column:
    arrays = {
        np.dtype(np.int64): (column.steps, column.lines),
        np.dtype(np.float64): (column.values, column.walls),
    }
    for dtype, members in arrays.items():
        for one in members:
            if one is not None and not (isinstance(one, np.ndarray) and one.dtype == dtype):
                raise TypeError(f"column {column.tag!r:.80} has an array that is not of {dtype}")
    placed = isinstance(column.tag, str) and isinstance(column.axis, Axis)
    if not placed or not isinstance(column.declared, Declared | None):
        raise TypeError(f"column {column.tag!r:.80} has a tag, an axis or a declaration of no type")
    return column


def _validated(item: T) -> T:
    """Raises msgspec.ValidationError where a field is not of its type."""
    return msgspec.convert(msgspec.to_builtins(item), type(item))
