"""What is left of a torch ZIP file that lost its directory: cut while it was saved or copied.

The pickle is the first entry, and it says how long every storage is. So a walk over the entries'
own headers tells which tensors are whole, which one is cut, and which were never written.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Depth,
    Extent,
    Presence,
    Safety,
    TensorInfo,
)

from .draft import Draft, Item
from .limits import LIMITS
from .measure import Block, Measured, measure, stretches
from .source import Damage, Source
from .torch_contents import contents_of
from .torch_objects import Contents
from .zipped import DESCRIPTOR, LOCAL, LOCAL_SIZE, STORED, local_header

_LOOK = 8192
"""Bytes within which the entry after a small one must begin."""

_DESCRIPTORS = (0, 16, 24)
"""Bytes between the data of an entry and the next header: sizes and checksum, or nothing."""


class _Local(msgspec.Struct, frozen=True):
    name: str
    method: int
    size: int | None
    start: int


class _Found(msgspec.Struct):
    """``places``: first byte and bytes present of each storage, by key."""

    contents: Contents | None = None
    places: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)


def salvage(draft: Draft, damage: Damage) -> Iterator[Item]:
    """The tensors of a file that has no readable directory, and its facts."""
    yield draft.fault(damage)
    found = _Found()
    _scan(draft, found)
    draft.reason = damage.what
    if found.contents is None:
        draft.defects.append(Defect(DefectCode.TRUNCATED, damage.what))
        yield draft.done(Extent.NOT_CHECKED)
        return
    tensors = list(_tensors(draft, found.contents, found.places))
    if damage.code is FaultCode.TRUNCATED:
        draft.defects.append(Defect(DefectCode.TRUNCATED, _summary(tensors)))
    else:
        draft.defects.append(Defect(DefectCode.CONTAINER_LIE, damage.what))
        draft.survey.worsen(Safety.UNKNOWN)
    yield from tensors
    yield draft.done(Extent.STRUCTURE_ONLY)


def _tensors(
    draft: Draft, contents: Contents, places: dict[str, tuple[int, int]]
) -> Iterator[TensorInfo]:
    presence: dict[str, Presence] = {}
    for key, storage in contents.storages.items():
        there = places.get(key, (0, 0))[1]
        if there < storage.nbytes:
            presence[key] = Presence.CUT if there else Presence.ABSENT
    measured = Measured()
    if draft.depth is Depth.TENSORS:
        blocks = {key: _block(draft.source, *place) for key, place in places.items()}
        tensors = contents.tensors.values()
        measured = measure(tensors, blocks, False, draft.budget, draft.limits)
    yield from draft.contents(contents, measured, presence)


def _summary(tensors: list[TensorInfo]) -> str:
    counts = {one: sum(info.presence is one for info in tensors) for one in Presence}
    return (
        f"the directory is missing: of {len(tensors)} tensors {counts[Presence.WHOLE]} are whole, "
        f"{counts[Presence.CUT]} cut and {counts[Presence.ABSENT]} absent"
    )


def _block(source: Source, start: int, size: int) -> Block:
    return Block(
        size,
        lambda: source.chunks(start, size),
        lambda at, count: source.read(start + at, count),
        shared=source.shared,
        stretch=stretches(source, start, size, LIMITS.chunk),
    )


def _scan(draft: Draft, found: _Found) -> None:
    """Follow the entries from byte 0 on, as far as their lengths are known."""
    at: int | None = 0
    for _ in range(draft.limits.entries):
        local = None if at is None else _header(draft.source, at)
        if local is None:
            return
        size = _size(draft, local, found)
        if size is None:
            at = _next_near(draft.source, local.start)
            continue
        if local.start + size > draft.source.size:
            return
        at = _next_after(draft.source, local.start + size)


def _header(source: Source, at: int) -> _Local | None:
    if at + LOCAL_SIZE > source.size:
        return None
    data = source.read(at, LOCAL_SIZE)
    if data[:4] != LOCAL:
        return None
    _, flags, method, _, _, _, _, size, name_length, extra_length = local_header.unpack(data)
    start = at + LOCAL_SIZE + name_length + extra_length
    if start > source.size:
        return None
    name = source.read(at + LOCAL_SIZE, name_length).decode("utf-8", "replace")
    return _Local(name.partition("/")[2], method, None if flags & DESCRIPTOR else size, start)


def _size(draft: Draft, local: _Local, found: _Found) -> int | None:
    """Bytes of an entry's data, as its header, the pickle or itself tells; None where none does."""
    if local.method != STORED:
        return local.size
    if local.name == "data.pkl" and found.contents is None:
        return _pickle(draft, local, found)
    key = local.name.removeprefix("data/")
    storage = found.contents.storages.get(key) if found.contents and key != local.name else None
    if storage is None:
        return local.size
    there = min(storage.nbytes, draft.source.size - local.start)
    found.places[key] = (local.start, max(there, 0))
    return storage.nbytes


def _pickle(draft: Draft, local: _Local, found: _Found) -> int | None:
    rest = min(draft.source.size - local.start, draft.limits.pickle_bytes)
    walked = draft.survey.pickle(draft.source.read(local.start, rest), local.name)
    if walked.damage is not None:
        return local.size
    found.contents = contents_of(walked.root, draft.limits)
    return walked.end


def _next_near(source: Source, at: int) -> int | None:
    """The next header after an entry of unknown length: the small ones torch adds."""
    window = source.read(at, min(_LOOK, source.size - at))
    place = window.find(LOCAL)
    return None if place < 0 else at + place


def _next_after(source: Source, end: int) -> int | None:
    """The next header after data that end at ``end``."""
    for gap in _DESCRIPTORS:
        at = end + gap
        if at + LOCAL_SIZE <= source.size and source.read(at, len(LOCAL)) == LOCAL:
            return at
    return None
