"""ZIP files: what kind of one it is, and who reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainproof.model.tensors import Depth, Layout

from .draft import Draft, Item
from .torch_zip import Read, opened, read_package, read_saved
from .zip_checksums import verify
from .zipped import Archive

OLD_PROGRAM = "serialized_exported_program.json"
"""The graph in archives of ``torch.export`` before torch 2.8, which have no top directory."""


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


# Most files need none of these modules.


def _keras(draft: Draft, archive: Archive) -> Iterator[Item]:
    from .keras import read_keras  # noqa: PLC0415

    return read_keras(draft, archive)


def _arrays(draft: Draft, archive: Archive) -> Iterator[Item]:
    from .numpy_files import read_npz  # noqa: PLC0415

    if draft.depth is not Depth.STRUCTURE:
        verify(draft, archive, archive.entries, {})
    yield from read_npz(draft, archive)


def _exported(draft: Draft, archive: Archive) -> Iterator[Item]:
    from .torch_export import read_export, read_old_export  # noqa: PLC0415

    return (read_old_export if archive.find(OLD_PROGRAM) else read_export)(draft, archive)


_READERS: Mapping[Layout, Read] = {
    Layout.TORCH_EXPORT: _exported,
    Layout.TORCH_PACKAGE: read_package,
    Layout.KERAS: _keras,
    Layout.NPZ: _arrays,
}
