"""The checksum of every entry of a ZIP file, against what its directory says."""

from __future__ import annotations

from collections.abc import Iterable

from trainproof.model.data import FaultCode
from trainproof.model.tensors import Defect, DefectCode, Integrity, Unread

from .draft import Draft
from .measure import run
from .source import Damage
from .zipped import Archive, Entry


def verify(draft: Draft, archive: Archive, entries: Iterable[Entry], known: dict[str, int]) -> None:
    """Compare the checksum of every entry; those in ``known``, by name, are computed already."""
    checked = 0
    wrong: list[Entry] = []
    for entry in entries:
        if not entry.size:
            continue
        try:
            crc = known[entry.name] if entry.name in known else run(archive.pieces(entry), [])
        except Damage as damage:
            unverified(draft, entry, damage)
            continue
        checked += 1
        if crc != entry.crc:
            wrong.append(entry)
    _judge(draft, archive, checked, wrong)


def unverified(draft: Draft, entry: Entry, damage: Damage) -> None:
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
