"""What ``torch.save`` writes since torch 1.6, and the other ZIP files that torch makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    CheckpointFacts,
    Defect,
    DefectCode,
    Depth,
    Extent,
    Layout,
    Presence,
    Safety,
    TensorInfo,
    Unread,
)

from .draft import Draft, Item
from .measure import Block, Measured, measure, stretches
from .pickles.walker import Walked
from .salvage import salvage
from .source import Damage, Source
from .torch_contents import contents_of
from .torch_objects import Contents, Storage
from .zip_checksums import unverified, verify
from .zipped import LOCAL, STORED, Archive, Entry, read_directory

_MARKERS = frozenset(
    {"version", "byteorder", ".data/serialization_id", ".format_version", ".storage_alignment"}
)
"""All that is in the file when ``torch.save`` failed before it wrote the pickle."""

_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_CODE = (".py", ".debug_pkl")
_SMALL = 64 << 10


Read = Callable[[Draft, Archive], Iterator[Item]]


def read_torch_zip(draft: Draft) -> Iterator[Item]:
    """A file in which nothing but ``data.pkl`` and its storages is expected."""
    yield from opened(draft, read_saved)


def opened(draft: Draft, read: Read) -> Iterator[Item]:
    """What ``read`` finds in the archive; what is left of one that has lost its directory."""
    try:
        archive = read_directory(draft.source, draft.limits)
    except Damage as damage:
        yield from salvage(draft, damage)
        return
    draft.defects.extend(archive.defects)
    if any(one.code is DefectCode.CONTAINER_LIE for one in archive.defects):
        draft.survey.worsen(Safety.UNSAFE)
    yield from read(draft, archive)


def read_saved(draft: Draft, archive: Archive) -> Iterator[Item]:
    """What ``torch.save`` or ``torch.jit.save`` wrote."""
    draft.code = tuple(e.name for e in archive.entries if e.name.endswith(_CODE))[:_SMALL]
    entry = archive.find(f"{archive.root}/data.pkl")
    if entry is not None:
        yield from _with_pickle(draft, archive, entry)
        return
    inside = {entry.name.partition("/")[2] for entry in archive.entries}
    if inside and inside <= _MARKERS and "version" in inside:
        what = "torch.save failed before it wrote the first tensor"
        draft.defects.append(Defect(DefectCode.SAVE_FAILED, what))
        draft.reason = "nothing was saved"
    else:
        draft.layout, draft.reason = Layout.ZIP, "a ZIP file without data.pkl"
        look_inside(draft, archive)
    if draft.depth is not Depth.STRUCTURE:
        verify(draft, archive, archive.entries, {})
    yield draft.done(Extent.NOT_CHECKED)


def read_package(draft: Draft, archive: Archive) -> Iterator[Item]:
    """What ``torch.package`` wrote: code, and any number of pickles."""
    draft.code = tuple(e.name for e in archive.entries if e.name.endswith(_CODE))[:_SMALL]
    yield from tensors_of(draft, archive, _package(draft, archive))


def _with_pickle(draft: Draft, archive: Archive, entry: Entry) -> Iterator[Item]:
    if entry.name != f"{archive.root}/data.pkl":
        what = "only a reader that ignores case finds it"
        draft.defects.append(Defect(DefectCode.CONTAINER_LIE, what, entry.name))
        draft.survey.worsen(Safety.UNSAFE)
    walked = _walk(draft, archive, entry)
    _other_pickles(draft, archive, entry)
    if walked is None or walked.damage is not None:
        yield from _unfollowed(draft, archive, walked)
        return
    contents = contents_of(walked.root, draft.limits)
    if draft.layout is Layout.TORCH_SCRIPT:
        contents.tensors = {_script_name(name): one for name, one in contents.tensors.items()}
    yield from tensors_of(draft, archive, contents)


def tensors_of(draft: Draft, archive: Archive, contents: Contents) -> Iterator[Item]:
    big = _big_endian(draft, archive)
    presence = _check_storages(draft, archive, contents)
    measured = _measure(draft, archive, contents, big)
    yield from draft.contents(contents, measured, presence)
    yield draft.done()


def _script_name(name: str) -> str:
    """``.fc/.weight`` of the object that was saved is ``fc.weight`` of the module."""
    return ".".join(part.removeprefix(".") for part in name.split("/"))


def _walk(draft: Draft, archive: Archive, entry: Entry) -> Walked | None:
    """The main pickle. None, and a reason, where it cannot be had."""
    try:
        data = archive.read(entry, draft.limits.pickle_bytes)
    except Damage as damage:
        draft.reason = f"data.pkl: {damage.what}"
        draft.survey.worsen(Safety.UNKNOWN)
        if damage.code is not FaultCode.TOO_LARGE:
            draft.defects.append(Defect(DefectCode.PICKLE, damage.what, entry.name))
        return None
    walked = draft.survey.pickle(data, entry.name)
    if walked.damage is None:
        draft.survey.rest(data, walked.end, entry.name)
    return walked


def _unfollowed(draft: Draft, archive: Archive, walked: Walked | None) -> Iterator[Item]:
    """The pickle is damaged or too large; its checksum may say since when."""
    if walked is not None and walked.damage is not None:
        draft.reason = f"data.pkl: {walked.damage.what}"
        yield draft.fault(walked.damage)
    else:
        yield draft.fault(Damage(FaultCode.CORRUPT, draft.reason))
    if draft.depth is not Depth.STRUCTURE:
        verify(draft, archive, archive.entries, {})
    yield draft.done(Extent.NOT_CHECKED)


def _big_endian(draft: Draft, archive: Archive) -> bool:
    entry = archive.find(f"{archive.root}/byteorder")
    if entry is None:
        return False
    try:
        order = archive.read(entry, _SMALL)
    except Damage as damage:
        order = damage.what.encode()
    if order not in (b"little", b"big"):
        draft.defects.append(Defect(DefectCode.BYTE_ORDER, repr(order[:40]), entry.name))
    return order == b"big"


# --- storages ---------------------------------------------------------------------------------


def _place(draft: Draft, archive: Archive, key: str) -> Entry | None:
    """The entry that holds a storage."""
    if draft.layout is Layout.TORCH_PACKAGE:
        return archive.find(f"{archive.root}/.data/{key}.storage")
    return archive.find(f"{archive.root}/data/{key}")


_STORAGES = {Layout.TORCH_EXPORT: "data/weights/weight_"}
"""Where the storages are, and nothing else, where that is not ``data/``."""


def _check_storages(draft: Draft, archive: Archive, contents: Contents) -> dict[str, Presence]:
    """Compare what the pickle says of each storage with the entry that holds it."""
    presence: dict[str, Presence] = {}
    mentioned = (_place(draft, archive, key) for key in draft.survey.storages)
    held = {entry.name for entry in mentioned if entry is not None}
    data = _STORAGES.get(draft.layout, "data/")
    for key, storage in contents.storages.items():
        entry = _place(draft, archive, key)
        found = _check_storage(draft, key, storage, entry)
        if found is not Presence.WHOLE:
            presence[key] = found
    for entry in archive.entries:
        if entry.name.startswith(f"{archive.root}/{data}") and entry.name not in held:
            what = "no tensor refers to it"
            draft.defects.append(Defect(DefectCode.STORAGE_ORPHAN, what, entry.name))
    return presence


def _check_storage(draft: Draft, key: str, storage: Storage, entry: Entry | None) -> Presence:
    if entry is None:
        draft.defects.append(Defect(DefectCode.STORAGE_MISSING, "it is not in the archive", key))
        return Presence.ABSENT
    if entry.method != STORED:
        what = "torch.load(mmap=True) would take the compressed bytes for values"
        draft.defects.append(Defect(DefectCode.COMPRESSED_STORAGE, what, key))
    if entry.size == storage.nbytes:
        return Presence.WHOLE
    what = f"{entry.size} bytes of {storage.nbytes}"
    draft.defects.append(Defect(DefectCode.STORAGE_SIZE, what, key))
    return Presence.CUT if entry.size < storage.nbytes else Presence.WHOLE


def _measure(draft: Draft, archive: Archive, contents: Contents, big: bool) -> Measured:
    """Statistics and checksums, in one pass over the archive."""
    if draft.depth is Depth.STRUCTURE:
        return Measured()
    blocks: dict[str, Block] = {}
    entries: dict[str, Entry] = {}
    for key in contents.storages:
        entry = _place(draft, archive, key)
        if entry is not None:
            entries[key], blocks[key] = entry, _block(archive, entry)
    tensors = contents.tensors.values() if draft.values else ()
    measured = measure(tensors, blocks, big, draft.budget, draft.limits)
    known = {entries[key].name: crc for key, crc in measured.crcs.items()}
    for key, damage in measured.broken.items():
        unverified(draft, entries[key], damage)
    done = {entries[key].name for key in measured.broken}
    verify(draft, archive, [e for e in archive.entries if e.name not in done], known)
    return measured


def _block(archive: Archive, entry: Entry) -> Block:
    source = archive.source

    def read(at: int, count: int) -> bytes:
        return source.read(entry.start + at, count)

    stored = entry.method == STORED
    return Block(
        entry.size,
        lambda: archive.pieces(entry),
        read if stored else None,
        entry.start if stored else None,
        source.shared,
        stretches(source, entry.start, entry.size, archive.limits.chunk) if stored else None,
    )


# --- packages -----------------------------------------------------------------------------------


def _package(draft: Draft, archive: Archive) -> Contents:
    """The tensors of every pickle of a package, under the name of its entry."""
    together = Contents()
    for entry in archive.entries:
        if not entry.name.endswith(".pkl") or entry.size > draft.limits.pickle_bytes:
            continue
        walked = _walk(draft, archive, entry)
        if walked is None or walked.damage is not None:
            continue
        contents = contents_of(walked.root, draft.limits)
        name = entry.name.partition("/")[2]
        together.tensors.update({f"{name}/{key}": one for key, one in contents.tensors.items()})
        together.storages.update(contents.storages)
        together.unread += contents.unread
        together.defects += contents.defects
    return together


# --- pickles beside the one that torch loads ------------------------------------------------------


def _other_pickles(draft: Draft, archive: Archive, main: Entry) -> None:
    """Pickles that something else than ``torch.load`` may load: the same names, other roots."""
    for entry in archive.entries:
        if entry is not main and entry.name.lower().endswith((".pkl", ".pickle", ".pt", ".pth")):
            side_pickle(draft, archive, entry)


def look_inside(draft: Draft, archive: Archive) -> None:
    """Every entry that is a pickle or a torch file, whatever it is called."""
    for entry in archive.entries:
        if _starts_as_pickle(archive, entry):
            side_pickle(draft, archive, entry)


def _starts_as_pickle(archive: Archive, entry: Entry) -> bool:
    try:
        head = bytes(next(archive.pieces(entry), memoryview(b""))[:4])
    except Damage:
        return False
    by_name = entry.name.lower().endswith((".pkl", ".pickle"))
    return by_name or head == LOCAL or head[:2] in _PICKLES


def side_pickle(draft: Draft, archive: Archive, entry: Entry) -> None:
    """What loading one entry, a pickle or a torch file, would import."""
    try:
        data = archive.read(entry, draft.limits.pickle_bytes)
    except Damage as damage:
        draft.unread.append(Unread(entry.name, damage.what))
        draft.survey.worsen(Safety.UNKNOWN)
        return
    if data[:4] == LOCAL:
        nested(draft, entry.name, Source.over(data), Depth.STRUCTURE)
    else:
        draft.survey.pickle(data, entry.name)


def nested(draft: Draft, name: str, source: Source, depth: Depth) -> list[TensorInfo]:
    """The tensors of a torch file that is a part of this one. What it imports counts here, and so
    do its defects.
    """
    if draft.level >= draft.limits.levels:
        draft.unread.append(Unread(name, "a file in a file in a file"))
        draft.survey.worsen(Safety.UNKNOWN)
        return []
    limits = replace(draft.limits, unpacked=draft.limits.level_unpacked)
    inner = Draft(name, source, depth, Layout.TORCH_ZIP, limits, level=draft.level + 1)
    made: list[TensorInfo] = []
    for item in read_torch_zip(inner):
        match item:
            case TensorInfo():
                made.append(item)
            case CheckpointFacts():
                draft.defects.extend(replace(one, where=name) for one in item.defects)
                draft.survey.merge(replace(use, entry=name) for use in item.globals)
                draft.survey.worsen(item.safety or Safety.UNKNOWN)
    return made
