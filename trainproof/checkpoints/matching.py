"""Which tensors of two checkpoints are the same one, by name. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from trainproof.model.tensors import Group, TensorInfo

_PART = re.compile(r"[^./]*[./]")
_DEEP = 8
"""Parts of a common prefix that are tried: wrappers are not nested deeper."""
_ENOUGH = 0.5
"""Share of names in common from which on no prefix is looked for."""


class Matched(msgspec.Struct, frozen=True, eq=False):
    """``pairs``: (tensor, the same one before). The rest has no counterpart."""

    pairs: tuple[tuple[TensorInfo, TensorInfo], ...]
    added: tuple[TensorInfo, ...]
    gone: tuple[TensorInfo, ...]
    prefix: str = ""
    prefix_before: str = ""


def match(tensors: Iterable[TensorInfo], before: Iterable[TensorInfo]) -> Matched:
    """By the name alone where it occurs once in both, else by the name and that of the file.

    A prefix that all weights of one side have, and those of the other do not, is taken off.
    """
    ours, theirs = list(tensors), list(before)
    prefix, other = _prefixes(_weights(ours), _weights(theirs))
    here, there = _by_key(ours, prefix), _by_key(theirs, other)
    pairs = tuple((here[key], there[key]) for key in here if key in there)
    added = tuple(one for key, one in here.items() if key not in there)
    gone = tuple(one for key, one in there.items() if key not in here)
    return Matched(pairs, added, gone, prefix, other)


_Key = tuple[str, str]


def _by_key(tensors: Sequence[TensorInfo], prefix: str) -> Mapping[_Key, TensorInfo]:
    """Name, and file where several files have a tensor of that name."""
    named: defaultdict[str, list[TensorInfo]] = defaultdict(list)
    for one in tensors:
        weights = one.group is Group.MODEL
        named[one.name.removeprefix(prefix) if weights else one.name].append(one)
    return {
        (name, "" if len(found) == 1 else one.artifact.rpartition("/")[2]): one
        for name, found in named.items()
        for one in found
    }


def _weights(tensors: Iterable[TensorInfo]) -> list[str]:
    return [one.name for one in tensors if one.group is Group.MODEL]


def _prefixes(ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, str]:
    """The shortest prefixes without which most names are in common; none where they are anyway."""
    least = min(len(ours), len(theirs))
    most, best = len(set(ours) & set(theirs)), ("", "")
    if not least or most >= _ENOUGH * least:
        return best
    for prefix in _wrappers(ours):
        stripped = {name.removeprefix(prefix) for name in ours}
        for other in _wrappers(theirs):
            common = len(stripped & {name.removeprefix(other) for name in theirs})
            if common > most:
                most, best = common, (prefix, other)
    return best if most >= _ENOUGH * least else ("", "")


def _wrappers(names: Sequence[str]) -> Iterator[str]:
    """Each beginning that all names share, up to a separator, from none on."""
    yield ""
    first, last = min(names), max(names)
    end = 0
    for part in _PART.findall(first)[:_DEEP]:
        end += len(part)
        if not last.startswith(first[:end]):
            return
        yield first[:end]
