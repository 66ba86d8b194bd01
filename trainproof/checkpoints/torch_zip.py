"""What ``torch.save`` writes since torch 1.6, and the other ZIP files that torch makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Depth,
    Extent,
    Integrity,
    Layout,
    Presence,
    Safety,
    Unread,
)

from .draft import Draft, Item
from .measure import Block, Measured, measure, run
from .numpy_files import read_npz
from .pickles.walker import Walked
from .salvage import salvage
from .source import Damage
from .torch_contents import contents_of
from .torch_objects import Contents, Storage
from .zipped import STORED, Archive, Entry, read_directory

_MARKERS = frozenset(
    {"version", "byteorder", ".data/serialization_id", ".format_version", ".storage_alignment"}
)
"""All that is in the file when ``torch.save`` failed before it wrote the pickle."""

_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_CODE = (".py", ".debug_pkl")
_SMALL = 64 << 10


def read_torch_zip(draft: Draft) -> Iterator[Item]:
    """Tensors, then facts."""
    try:
        archive = read_directory(draft.source, draft.limits)
    except Damage as damage:
        yield from salvage(draft, damage)
        return
    draft.defects.extend(archive.defects)
    if any(one.code is DefectCode.CONTAINER_LIE for one in archive.defects):
        draft.survey.worsen(Safety.UNSAFE)
    draft.layout = _layout(archive)
    draft.code = tuple(e.name for e in archive.entries if e.name.endswith(_CODE))[:_SMALL]
    entry = archive.find(f"{archive.root}/data.pkl")
    if entry is None:
        yield from _without_pickle(draft, archive)
    else:
        yield from _with_pickle(draft, archive, entry)


def _layout(archive: Archive) -> Layout:
    root = archive.root
    if archive.find(f"{root}/archive_format"):
        return Layout.TORCH_EXPORT
    if archive.find(f"{root}/.data/extern_modules"):
        return Layout.TORCH_PACKAGE
    if archive.find(f"{root}/constants.pkl"):
        return Layout.TORCH_SCRIPT
    if archive.find("model.weights.h5") and archive.find("config.json"):
        return Layout.KERAS
    if archive.entries and all(entry.name.endswith(".npy") for entry in archive.entries):
        return Layout.NPZ
    return Layout.TORCH_ZIP if archive.find(f"{root}/data.pkl") else Layout.ZIP


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
    yield from _tensors(draft, archive, contents)


def _tensors(draft: Draft, archive: Archive, contents: Contents) -> Iterator[Item]:
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
        _verify(draft, archive, archive.entries, {})
    yield draft.done(Extent.NOT_CHECKED)


def _other_pickles(draft: Draft, archive: Archive, main: Entry) -> None:
    """Pickles that something else than ``torch.load`` may load: the same names, other roots."""
    for entry in archive.entries:
        if entry is main or entry.size > draft.limits.pickle_bytes:
            continue
        if entry.name.lower().endswith((".pkl", ".pickle", ".pt", ".pth")):
            _side_pickle(draft, archive, entry)


def _side_pickle(draft: Draft, archive: Archive, entry: Entry) -> None:
    try:
        data = archive.read(entry, draft.limits.pickle_bytes)
    except Damage as damage:
        draft.unread.append(Unread(entry.name, damage.what))
        return
    if data[:4] != b"PK\x03\x04":
        draft.survey.pickle(data, entry.name)


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


def _check_storages(draft: Draft, archive: Archive, contents: Contents) -> dict[str, Presence]:
    """Compare what the pickle says of each storage with the entry that holds it."""
    presence: dict[str, Presence] = {}
    mentioned = (_place(draft, archive, key) for key in draft.survey.storages)
    held = {entry.name for entry in mentioned if entry is not None}
    for key, storage in contents.storages.items():
        entry = _place(draft, archive, key)
        found = _check_storage(draft, key, storage, entry)
        if found is not Presence.WHOLE:
            presence[key] = found
    for entry in archive.entries:
        if entry.name.startswith(f"{archive.root}/data/") and entry.name not in held:
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
        _unverified(draft, entries[key], damage)
    done = {entries[key].name for key in measured.broken}
    _verify(draft, archive, [e for e in archive.entries if e.name not in done], known)
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
    )


# --- checksums --------------------------------------------------------------------------------


def _verify(
    draft: Draft, archive: Archive, entries: Iterable[Entry], known: dict[str, int]
) -> None:
    """Compare the checksum of every entry; those in ``known`` are computed already."""
    checked = 0
    wrong: list[Entry] = []
    for entry in entries:
        if not entry.size:
            continue
        try:
            crc = known[entry.name] if entry.name in known else run(archive.pieces(entry), [])
        except Damage as damage:
            _unverified(draft, entry, damage)
            continue
        checked += 1
        if crc != entry.crc:
            wrong.append(entry)
    _judge(draft, archive, checked, wrong)


def _unverified(draft: Draft, entry: Entry, damage: Damage) -> None:
    """Its data cannot be had: a limit is no defect of the file."""
    if damage.code is FaultCode.TOO_LARGE:
        draft.unread.append(Unread(entry.name, damage.what))
    else:
        draft.defects.append(Defect(DefectCode.CRC, damage.what, entry.name))


def _judge(draft: Draft, archive: Archive, checked: int, wrong: list[Entry]) -> None:
    """A checksum of zero was not computed: for the whole file, or because nothing was written."""
    broken = [entry for entry in wrong if not entry.no_checksum]
    absent = [entry for entry in wrong if entry.no_checksum]
    for entry in broken:
        what = f"the file says {entry.crc:08x}, the data are something else"
        draft.defects.append(Defect(DefectCode.CRC, what, entry.name))
    if absent and checked > len(wrong) and all("/data/" in entry.name for entry in absent):
        what = f"{len(absent)} storages were never written (torch.serialization.skip_data)"
        draft.defects.append(Defect(DefectCode.PLACEHOLDER, what))
    elif absent and not broken:
        draft.integrity = Integrity.ABSENT
        return
    skipped = sum(entry.size > 0 for entry in archive.entries) > checked
    damaged = any(one.code in (DefectCode.CRC, DefectCode.PLACEHOLDER) for one in draft.defects)
    if damaged:
        draft.integrity = Integrity.BROKEN
    elif not skipped:
        draft.integrity = Integrity.VERIFIED


# --- other ZIP files ----------------------------------------------------------------------------


def _without_pickle(draft: Draft, archive: Archive) -> Iterator[Item]:
    """Not what ``torch.load`` reads: say what it is, and look at every pickle in it."""
    inside = {entry.name.partition("/")[2] for entry in archive.entries}
    if inside and inside <= _MARKERS and "version" in inside:
        draft.layout = Layout.TORCH_ZIP
        what = "torch.save failed before it wrote the first tensor"
        draft.defects.append(Defect(DefectCode.SAVE_FAILED, what))
    if draft.layout is Layout.TORCH_PACKAGE:
        yield from _tensors(draft, archive, _package(draft, archive))
        return
    if draft.layout is Layout.NPZ:
        if draft.depth is not Depth.STRUCTURE:
            _verify(draft, archive, archive.entries, {})
        yield from read_npz(draft, archive)
        return
    for entry in archive.entries:
        if entry.size <= draft.limits.pickle_bytes and _starts_as_pickle(archive, entry):
            _side_pickle(draft, archive, entry)
    if draft.depth is not Depth.STRUCTURE:
        _verify(draft, archive, archive.entries, {})
    draft.reason = _REASONS.get(draft.layout, "a ZIP file without data.pkl")
    yield draft.done(Extent.NOT_CHECKED)


_REASONS = {
    Layout.TORCH_ZIP: "nothing was saved",
    Layout.TORCH_EXPORT: "the weights of exported programs are not read",
    Layout.KERAS: "the weights are in HDF5, which is not read",
}


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


def _starts_as_pickle(archive: Archive, entry: Entry) -> bool:
    try:
        head = bytes(next(archive.pieces(entry), memoryview(b""))[:2])
    except Damage:
        return False
    return head in _PICKLES or entry.name.lower().endswith((".pkl", ".pickle"))
