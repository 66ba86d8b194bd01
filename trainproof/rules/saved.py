"""What rules about checkpoints share: their need, and the rule that nothing unread is clean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from trainproof.model.checkpoint import Checkpoint, SavedFile
from trainproof.model.outcome import (
    Clean,
    Evidence,
    Fired,
    Outcome,
    Skip,
    Undecided,
    Value,
    Where,
)
from trainproof.model.tensors import (
    CheckpointFacts,
    Depth,
    Extent,
    Group,
    Layout,
    OptimizerState,
    TensorInfo,
    TensorStats,
)

from .interface import Missing, Place, absent

UNREAD: Mapping[str, str] = {
    "unread": "files or tensors that it could not look into",
    "first_unread": "the first of them, and why",
}
"""Measures of an outcome that is open because something was not read."""
MOST = 50
"""Places of one rule that are told for one checkpoint; its measures count all of them."""
NAMED = 3
_MAX_INT = 2**63 - 1

WEIGHTS = frozenset({Group.MODEL, Group.AVERAGE})
FLOATS = ("float", "bfloat", "complex")
_REBUILDS = (
    "torch.",
    "joblib.numpy_pickle.NumpyArrayWrapper: an array of numpy type V",
    "joblib.numpy_pickle.NumpyArrayWrapper: an array of numpy type O",
)
"""How the reasons of objects begin that may hold numbers and were not read: objects of torch's own
classes, most often a kind of tensor, and the records of a tree or forest."""


class Saved(msgspec.Struct, frozen=True):
    """The checkpoint, with at least one file that could be opened or one set of files."""

    def describe(self) -> str:
        return "a checkpoint"

    def bind(self, place: Place) -> Checkpoint | Missing:
        saved = place.view.checkpoint
        if saved is None or not (saved.files or saved.directories):
            return absent(place.view, None)
        return saved


def settle(
    saved: Checkpoint,
    found: Iterable[Evidence],
    measured: Mapping[str, Value],
    unread: Iterable[str],
    depth: Depth = Depth.STRUCTURE,
    *,
    there: bool = True,
) -> Outcome:
    """Fired where anything was found; clean only where nothing was left unread.

    ``depth``: the least one at which the rule can look at all; the caller may have chosen less.
    ``there``: whether the checkpoint holds what the rule is about.
    """
    told = tuple(found)[:MOST]
    if told:
        return Fired(told)
    if _ORDER.index(saved.depth) < _ORDER.index(depth):
        return Undecided(measured, Skip.BUDGET if saved.limited else Skip.DISABLED)
    left = [*saved.lost, *unread]
    if left:
        rest: dict[str, Value] = {"unread": len(left), "first_unread": left[0]}
        return Undecided({**measured, **rest}, Skip.NEED_UNREADABLE)
    return Clean(measured) if there else Undecided(measured, Skip.NOT_SAVED)


def settle_values(checkpoint: Checkpoint, found: Iterable[Evidence], looked: int) -> Outcome:
    """Of a rule about values. ``looked``: tensors that it is about."""
    unread = unmeasured(checkpoint)
    measured: dict[str, Value] = {"tensors": looked}
    return settle(checkpoint, found, measured, unread, Depth.TENSORS, there=looked > 0)


_ORDER = (Depth.STRUCTURE, Depth.INTEGRITY, Depth.TENSORS)

HOLLOW = frozenset({Layout.EMPTY, Layout.ZEROS, Layout.LFS_POINTER, Layout.MARKUP})
"""Layouts of files that stand where a checkpoint was expected."""


def unopened(saved: Checkpoint) -> Iterator[str]:
    """Files of which not even the structure was read."""
    for file in saved.files:
        if file.facts.extent is Extent.NOT_CHECKED:
            yield _told(file.facts.artifact, file.facts.reason)


def is_float(tensor: TensorInfo) -> bool:
    return tensor.dtype.startswith(FLOATS)


def unmeasured(saved: Checkpoint) -> Iterator[str]:
    """Files that were not opened, and tensors of floating-point numbers without statistics."""
    yield from unopened(saved)
    for file in saved.files:
        for one in file.facts.unread:
            if one.reason.startswith(_REBUILDS):
                yield _told(f"{file.facts.artifact}: {one.name}", one.reason)
    for tensor in saved.tensors:
        if tensor.stats is None and is_float(tensor):
            yield _told(f"{tensor.artifact}: {tensor.name}", tensor.unread)


def _told(what: str, why: str) -> str:
    return f"{what} ({why})" if why else what


def weights(file: SavedFile) -> Iterator[TensorInfo]:
    """Measured tensors of floating-point numbers that belong to a model."""
    for tensor in file.tensors:
        if tensor.stats is not None and tensor.group in WEIGHTS and is_float(tensor):
            yield tensor


def stats_of(tensor: TensorInfo) -> TensorStats:
    """Of a tensor that was measured."""
    assert tensor.stats is not None  # only measured tensors are asked
    return tensor.stats


def facts_of(checkpoint: Checkpoint) -> Iterator[CheckpointFacts]:
    return (file.facts for file in checkpoint.files)


def leaf_of(name: str) -> str:
    """The last part of a tensor's name."""
    return name.replace("/", ".").rpartition(".")[2]


_BETAS = re.compile(r"param_groups/\d+/betas/0")


def keeps_means(facts: CheckpointFacts, optimizer: OptimizerState) -> bool:
    """Whether it has betas, as only optimizers of Adam's family do: they keep means of each
    parameter from the first step on."""
    inside = f"{optimizer.name}/" if optimizer.name else ""
    return any(
        one.name.startswith(inside) and _BETAS.fullmatch(one.name, len(inside))
        for one in facts.scalars
    )


def untrained(file: SavedFile) -> int:
    """Scales of normalisation layers, where all of them are as at the start: one value each.

    The first step of an optimizer moves each value by another amount. 0 where one of them has
    moved, or fewer than two are there.
    """
    scales = [one for one in weights(file) if _is_scale(one)]
    even = all(stats_of(one).constant for one in scales)
    return len(scales) if even and len(scales) > 1 else 0


def _is_scale(one: TensorInfo) -> bool:
    vector = len(one.shape or ()) == 1 and stats_of(one).elements > 1
    return vector and leaf_of(one.name) in ("weight", "gamma", "scale")


def place_of(tensor: TensorInfo) -> Where:
    return Where(tensor.artifact, tensor=tensor.name)


def total(numbers: Iterable[int]) -> int:
    """Their sum, as far as 64 bits go: a view may claim to repeat its elements without end."""
    return min(sum(numbers), _MAX_INT)


def named(names: Iterable[str]) -> str:
    """The first few of them, and how many more there are."""
    listed = list(names)
    shown = ", ".join(listed[:NAMED])
    more = len(listed) - NAMED
    return f"{shown} and {more:,} more" if more > 0 else shown
