"""Formats of which only the frame is read: enough to tell a whole file from a cut one."""

from __future__ import annotations

from collections.abc import Iterator

from trainproof.model.data import FaultCode
from trainproof.model.tensors import Defect, DefectCode, Extent

from .draft import Draft, Item
from .source import Damage, Source

HDF5_REASON = "the datasets of HDF5 are not read"
_HDF5_MARK = b"\x89HDF\r\n\x1a\n"
_HDF5_VERSION = 8
_HDF5_END = {0: 40, 1: 44, 2: 28, 3: 28}
"""Where the superblock of each version says at which byte the file ends."""


def read_hdf5(draft: Draft) -> Iterator[Item]:
    """Facts. Raises Damage."""
    draft.reason = HDF5_REASON
    try:
        check_hdf5(draft.source)
    except Damage as damage:
        if damage.code is not FaultCode.TRUNCATED:
            raise
        draft.defects.append(Defect(DefectCode.TRUNCATED, damage.what))
        yield draft.fault(damage)
    yield draft.done(Extent.STRUCTURE_ONLY)


def check_hdf5(source: Source) -> None:
    """Compare the length that the superblock tells with the file's. Raises Damage."""
    head = source.head(64)
    place = _HDF5_END.get(head[_HDF5_VERSION] if len(head) > _HDF5_VERSION else -1)
    if not head.startswith(_HDF5_MARK) or place is None or place + 8 > len(head):
        raise Damage(FaultCode.CORRUPT, "the HDF5 superblock is damaged")
    end = int.from_bytes(head[place : place + 8], "little")
    if end > source.size:
        what = f"{source.size} bytes of the {end} that the superblock tells"
        raise Damage(FaultCode.TRUNCATED, what)
