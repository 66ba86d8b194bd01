"""Exported programs of torch (``.pt2``): a graph, and every weight as an entry of its own.

Source: ``torch/export/pt2_archive`` and ``torch/_export/serde/schema.py`` of torch 2.13. Weights
that are no plain tensors, constants and sample inputs are pickles, which ``torch.export.load``
loads without restrictions: all of them are walked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Extent,
    Kind,
    Safety,
    TensorInfo,
    Unread,
)

from .documents import LONGEST, below, integer, parse
from .draft import Draft, Item
from .dtypes import DTYPES
from .roles import group_of
from .source import Damage, Source
from .torch_objects import Contents, Storage, Tensor
from .torch_zip import look_inside, nested, tensors_of
from .views import BadLayout, View
from .zipped import STORED, Archive, Entry

_OLD_WEIGHTS = ("serialized_state_dict.pt", "serialized_constants.pt")
_FOLDERS = ("weights", "constants")
_CONFIG = "_config.json"
_STRIDED = 7
_ODD = "torch.export: its type, shape or layout is none that is read"

_TYPES: Mapping[int, str] = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    9: "complex32",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz",
    33: "float8_e8m0fnu",
    34: "uint32",
    35: "uint64",
}
"""``ScalarType`` of the schema."""


def read_export(draft: Draft, archive: Archive) -> Iterator[Item]:
    """Tensors, then facts."""
    look_inside(draft, archive)
    contents, pickled = Contents(), list[TensorInfo]()
    for folder in _FOLDERS:
        prefix = f"{archive.root}/data/{folder}/"
        for config in archive.entries:
            if config.name.startswith(prefix) and config.name.endswith(_CONFIG):
                reading = _Reading(draft, archive, folder, contents, pickled)
                reading.config(config, prefix)
    draft.defects += contents.defects
    contents.defects = []
    yield from map(draft.tensor, pickled)
    yield from tensors_of(draft, archive, contents)


class _Reading:
    """One list of weights or constants: where the bytes of each are, and what they mean."""

    def __init__(
        self,
        draft: Draft,
        archive: Archive,
        folder: str,
        contents: Contents,
        pickled: list[TensorInfo],
    ) -> None:
        self.draft, self.archive, self.folder = draft, archive, folder
        self.contents, self.pickled = contents, pickled

    def config(self, config: Entry, prefix: str) -> None:
        try:
            given = parse(self.archive.read(config, LONGEST), config.name)
            listed = below(given, "config")
            if not isinstance(listed, dict):
                raise Damage(FaultCode.CORRUPT, "it lists no weights")
        except Damage as damage:
            self.draft.defects.append(Defect(DefectCode.HEADER, damage.what, config.name))
            self.draft.unread.append(Unread(config.name, damage.what))
            return
        for name, fields in list(listed.items())[: self.draft.limits.entries]:
            self._listed(str(name)[: self.draft.limits.label], fields, prefix)

    def _listed(self, name: str, fields: object, prefix: str) -> None:
        path = below(fields, "path_name")
        entry = self.archive.find(f"{prefix}{path}")
        if not isinstance(path, str) or entry is None:
            what = "the entry that the list names is not in the archive"
            self.draft.defects.append(Defect(DefectCode.STORAGE_MISSING, what, name))
        elif below(fields, "use_pickle"):
            self._pickled(name, entry)
        else:
            self._plain(name, f"{self.folder}/{path}", entry, below(fields, "tensor_meta"))

    def _plain(self, name: str, key: str, entry: Entry, meta: object) -> None:
        dtype = _TYPES.get(integer(meta, "dtype") or 0, "")
        shape, stride = _sizes(below(meta, "sizes")), _sizes(below(meta, "strides"))
        offset = integer(meta, "storage_offset", "as_int")
        strided = integer(meta, "layout") == _STRIDED
        if not dtype or shape is None or stride is None or offset is None or not strided:
            self.draft.unread.append(Unread(name, _ODD))
            return
        itemsize = DTYPES[dtype].size
        self.draft.survey.storages.add(key)
        self.contents.storages[key] = Storage(key, "uint8", entry.size)
        try:
            view = View(dtype, shape, stride, offset, key, entry.size // itemsize)
        except BadLayout as why:
            self.draft.defects.append(Defect(DefectCode.TENSOR_LAYOUT, str(why), name))
        else:
            self.contents.tensors[name] = Tensor(dtype, shape, Kind.DENSE, (view,))

    def _pickled(self, name: str, entry: Entry) -> None:
        """A weight that is a torch file; look_inside has walked its pickle already."""
        try:
            source = _source(self.archive, entry)
        except Damage as damage:
            self.draft.unread.append(Unread(name, damage.what))
            return
        for info in nested(self.draft, entry.name, source, self.draft.depth):
            full = f"{name}/{info.name}" if info.name else name
            self.pickled.append(replace(info, name=full, artifact=self.draft.artifact))


def _source(archive: Archive, entry: Entry) -> Source:
    """An entry as a file. Raises Damage where its bytes are not in the file as they are."""
    if entry.method != STORED:
        raise Damage(FaultCode.TOO_LARGE, "a compressed file inside of the archive")
    return archive.source.part(entry.start, entry.size)


def _sizes(given: object) -> tuple[int, ...] | None:
    """``[{"as_int": 3}, …]``; None where a size is a symbol."""
    if not isinstance(given, list):
        return None
    sizes = [size for one in given if (size := integer(one, "as_int")) is not None]
    return tuple(sizes) if len(sizes) == len(given) else None


def read_old_export(draft: Draft, archive: Archive) -> Iterator[Item]:
    """Of torch before 2.8: the weights are one torch file."""
    look_inside(draft, archive)
    for name in _OLD_WEIGHTS:
        entry = archive.find(name)
        if entry is None or not entry.size:
            continue
        try:
            source = _source(archive, entry)
        except Damage as damage:
            draft.unread.append(Unread(name, damage.what))
            draft.survey.worsen(Safety.UNKNOWN)
            continue
        for info in nested(draft, name, source, draft.depth):
            made = replace(info, artifact=draft.artifact, group=group_of(info.name, draft.artifact))
            yield draft.tensor(made)
    yield draft.done(None if draft.tensors else Extent.NOT_CHECKED)
