"""ZIP files: what kind of one it is, and who reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainproof.model.tensors import Depth, Layout

from .draft import Draft, Item
from .keras import read_keras
from .numpy_files import read_npz
from .torch_export import OLD_PROGRAM, read_export, read_old_export
from .torch_zip import Read, opened, read_package, read_saved
from .zip_checksums import verify
from .zipped import Archive


def read_zip(draft: Draft) -> Iterator[Item]:
    """Tensors, then facts."""
    yield from opened(draft, _members)


def _members(draft: Draft, archive: Archive) -> Iterator[Item]:
    draft.layout = _layout(archive)
    yield from _READERS.get(draft.layout, read_saved)(draft, archive)


def _layout(archive: Archive) -> Layout:
    root = archive.root
    if archive.find(f"{root}/archive_format") or archive.find(OLD_PROGRAM):
        return Layout.TORCH_EXPORT
    if archive.find(f"{root}/.data/extern_modules"):
        return Layout.TORCH_PACKAGE
    if archive.find(f"{root}/constants.pkl"):
        return Layout.TORCH_SCRIPT
    if archive.find("model.weights.h5") and archive.find("config.json"):
        return Layout.KERAS
    if archive.entries and all(entry.name.endswith(".npy") for entry in archive.entries):
        return Layout.NPZ
    return Layout.TORCH_ZIP


def _arrays(draft: Draft, archive: Archive) -> Iterator[Item]:
    if draft.depth is not Depth.STRUCTURE:
        verify(draft, archive, archive.entries, {})
    yield from read_npz(draft, archive)


def _exported(draft: Draft, archive: Archive) -> Iterator[Item]:
    read = read_old_export if archive.find(OLD_PROGRAM) else read_export
    yield from read(draft, archive)


_READERS: Mapping[Layout, Read] = {
    Layout.TORCH_EXPORT: _exported,
    Layout.TORCH_PACKAGE: read_package,
    Layout.KERAS: read_keras,
    Layout.NPZ: _arrays,
}
