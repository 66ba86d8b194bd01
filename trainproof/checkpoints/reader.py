"""One function for every file: what it is, what is in it, what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import BinaryIO

from trainproof.model.data import FaultCode
from trainproof.model.tensors import Defect, DefectCode, Depth, Extent, Layout, Scalar

from .beside import Beside, Open
from .draft import Draft, Item
from .limits import LIMITS, Limits
from .recognise import HEAD, layout_of
from .source import Beat, Damage, Source

_Read = Callable[[Draft], Iterator[Item]]


def _by(module: str, name: str) -> _Read:
    """A function of a module of this package, which is imported for the first file that needs it:
    all of them together take as long as reading half a gigabyte."""

    def read(draft: Draft) -> Iterator[Item]:
        function: _Read = getattr(import_module(f".{module}", __package__), name)
        return function(draft)

    return read


_read_tree = _by("orbax", "read_tree")


def _ocdbt(draft: Draft) -> Iterator[Item]:
    """The list of arrays, or the database that holds them."""
    return _read_tree(draft) if draft.source.head(1) == b"{" else _not_read(draft)


_READERS: Mapping[Layout, _Read] = {
    Layout.TORCH_ZIP: _by("zip_files", "read_zip"),
    Layout.ZIP: _by("zip_files", "read_zip"),
    Layout.PICKLE: _by("torch_legacy", "read_legacy"),
    Layout.SAFETENSORS: _by("safetensors", "read_safetensors"),
    Layout.GGUF: _by("gguf", "read_gguf"),
    Layout.NPY: _by("numpy_files", "read_npy"),
    Layout.HDF5: _by("hdf5", "read_hdf5"),
    Layout.ONNX: _by("onnx", "read_onnx"),
    Layout.MSGPACK: _by("flax", "read_flax"),
    Layout.TF_INDEX: _by("tensorflow", "read_index"),
    Layout.XGBOOST: _by("xgboost", "read_xgboost"),
    Layout.COMPRESSED: _by("compressed", "read_compressed"),
    Layout.OCDBT: _ocdbt,
}

_NOT_READ: Mapping[Layout, str] = {
    Layout.EMPTY: "the file has no bytes",
    Layout.ZEROS: "every byte at the start of the file is zero",
    Layout.LFS_POINTER: "a Git LFS pointer: the file itself was never downloaded",
    Layout.MARKUP: "a web page or an error message of a server, in place of the file",
    Layout.JSON: "JSON text",
    Layout.TORCH_TAR: "the tar format of torch before 0.1.10",
    Layout.TORCH_CHUNKS: "its tensors are listed in .metadata",
    Layout.TF_DATA: "its tensors are listed in the .index file",
    Layout.OCDBT: "a database of Orbax: its arrays are listed in _METADATA",
    Layout.UNKNOWN: "no known format",
}


def read_checkpoint(
    stream: BinaryIO,
    path: str,
    depth: Depth = Depth.TENSORS,
    limits: Limits = LIMITS,
    beside: Open | None = None,
    *,
    beat: Beat | None = None,
) -> Iterator[Item]:
    """The tensors and faults of one file, and last its facts.

    ``path`` is the artifact's name in everything that is yielded. ``beside`` opens other files of
    its directory, for formats that keep values there. ``beat`` is called before each read. Nothing
    is raised about the data: what is wrong with them is a defect among the facts, or a fault.
    """
    try:
        source = Source.of(stream, beat)
        head = source.head(HEAD)
    except (Damage, OSError) as error:
        draft = Draft(path, Source(_Nothing(), 0, 0), depth, Layout.UNKNOWN, limits)
        yield from _broken(draft, error)
        return
    draft = Draft(path, source, depth, layout_of(path, head), limits)
    draft.beside = None if beside is None else Beside(beside, beat)
    if path.endswith(".safetensors") and draft.layout is not Layout.SAFETENSORS:
        what = f"it is named as safetensors, and its content is {draft.layout}"
        draft.defects.append(Defect(DefectCode.HEADER, what))
    read = _pointer if draft.layout is Layout.LFS_POINTER else _READERS.get(draft.layout, _not_read)
    try:
        yield from read(draft)
    except (Damage, OSError) as error:
        yield from _broken(draft, error)
    finally:
        if draft.beside is not None:
            draft.beside.close()


class _Nothing:
    """Stands for a file that could not be read at all."""

    shared = False

    def into(self, buffer: memoryview, at: int) -> int:
        return 0

    def some(self, at: int, count: int) -> bytes:
        return b""


def _pointer(draft: Draft) -> Iterator[Item]:
    """A Git LFS pointer says which file is meant, and how long that one is."""
    text = draft.source.head(HEAD).decode("utf-8", "replace")
    fields = (line.partition(" ") for line in text.splitlines())
    draft.metadata = [
        Scalar(key, value[: draft.limits.value]) for key, _, value in fields if key in _LFS_FIELDS
    ]
    yield from _not_read(draft)


_LFS_FIELDS = ("oid", "size")


def _not_read(draft: Draft) -> Iterator[Item]:
    draft.reason = _NOT_READ.get(draft.layout, f"the layout {draft.layout} is not read")
    yield draft.done(Extent.NOT_CHECKED)


def _broken(draft: Draft, error: Damage | OSError) -> Iterator[Item]:
    if isinstance(error, OSError):
        error = Damage(FaultCode.IO, error.strerror or type(error).__name__)
    yield from draft.broken(error)
