"""The arrays of Orbax: names in ``_METADATA``, shapes and values as Zarr arrays in files beside it,
or in a database of OCDBT. The shapes in ``_METADATA`` are those of what one process wrote.

Source: ``orbax/checkpoint/_src/metadata/tree.py`` and ``orbax/checkpoint/_src/serialization``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Extent,
    Integrity,
    Presence,
    TensorInfo,
)

from .beside import leaves
from .documents import LONGEST, below, parse
from .draft import Draft, Item
from .ocdbt import MANIFEST, Value, read_database
from .roles import group_of
from .source import Damage, Source
from .stretches import Stretch, listed, listed_with
from .zarr import NotRead, array_of
from .zstandard import NoZstandard

METADATA = "_METADATA"
_TREE = "tree_metadata"
_ELSEWHERE = "its values are in other files"


def read_tree(draft: Draft) -> Iterator[Item]:
    """Tensors, then facts. Raises Damage."""
    draft.integrity = Integrity.ABSENT
    if draft.source.size > LONGEST:
        raise Damage(FaultCode.TOO_LARGE, f"{draft.source.size} bytes of JSON are over the limit")
    said = parse(draft.source.read(0, draft.source.size), METADATA)
    tree = below(said, _TREE)
    if not isinstance(tree, dict):
        raise Damage(FaultCode.CORRUPT, "it lists no arrays")
    values = _values(draft, below(said, "use_ocdbt") is not False)
    for fields in list(tree.values())[: draft.limits.entries]:
        info = _info(draft, fields, values)
        if info is not None:
            yield draft.tensor(info)
    yield draft.done(None if draft.read else Extent.STRUCTURE_ONLY)


def _info(draft: Draft, fields: object, values: _Values | None) -> TensorInfo | None:
    """None for a leaf that is no array: an empty mapping, a text."""
    keys, value = below(fields, "key_metadata"), below(fields, "value_metadata")
    if not isinstance(below(value, "write_shape"), list) or not isinstance(keys, list):
        return None
    names = [str(below(key, "key")) for key in keys]
    label = "/".join(names)[: draft.limits.label]
    if values is None:
        kind = str(below(value, "value_type"))[: draft.limits.value]
        return _unknown(draft, label, kind, draft.reason or _ELSEWHERE)
    return _grouped(values.tensor(".".join(names), label))


def _unknown(draft: Draft, label: str, kind: str, why: str) -> TensorInfo:
    """An array of which nothing but the name is known."""
    one = Stretch(label, kind, (), 0, 0)
    return _grouped(replace(listed(draft, one, why), shape=None))


def _grouped(info: TensorInfo) -> TensorInfo:
    return replace(info, group=group_of(info.name, info.artifact))


# --- values -------------------------------------------------------------------------------------


def _values(draft: Draft, database: bool) -> _Values | None:
    """None where they cannot be reached; the draft then says why."""
    if draft.beside is None:
        return None
    try:
        return _Values(draft, _database(draft) if database else None)
    except NoZstandard as error:
        draft.reason = f"the values are {error}"
    except OSError:
        draft.reason = f"{MANIFEST}, where its values are listed, is not there"
    except Damage as damage:
        draft.reason = f"{MANIFEST}: {damage.what}"
        if damage.code is not FaultCode.TOO_LARGE:
            code = DefectCode.TRUNCATED if _is_cut(damage) else DefectCode.HEADER
            draft.defects.append(Defect(code, damage.what, MANIFEST))
    return None


def _database(draft: Draft) -> dict[str, Value]:
    return read_database(lambda path: _file(draft, path), draft.spend, draft.limits)


def _file(draft: Draft, path: str) -> Source:
    """Raises OSError; Damage where it would be outside of the directory."""
    if leaves(path):
        raise Damage(FaultCode.CORRUPT, f"{path[:100]} is outside of the directory")
    assert draft.beside is not None
    return draft.beside.source(path)


class _Values:
    """``database``: its keys, None where each key is a file."""

    def __init__(self, draft: Draft, database: dict[str, Value] | None) -> None:
        self._draft, self._database = draft, database

    def tensor(self, name: str, label: str) -> TensorInfo:
        """The array of that name, with the reason where its values are not read."""
        draft = self._draft
        try:
            array = array_of(self._get, name, parse)
        except (NotRead, OSError, Damage) as error:
            return _unknown(draft, label, "unknown", self._said(error, label))
        nbytes = math.prod(array.shape) * array.grid.itemsize
        one = Stretch(label, array.dtype, array.shape, 0, nbytes)
        if not draft.values:
            return listed(draft, one, "")
        if not draft.spend_chunks(math.prod(array.grid.counts)):
            return listed(draft, one, "the arrays have more chunks than the limit")
        if not draft.spend(nbytes):
            return listed(draft, one, "it unpacks to more bytes than the limit")
        try:
            return listed_with(draft, one, array.pieces(self._get, draft.limits))
        except (NotRead, NoZstandard, OSError, Damage) as error:
            absent, cut = isinstance(error, OSError), _is_cut(error)
            presence = Presence.ABSENT if absent else Presence.CUT if cut else Presence.WHOLE
            return listed(draft, one, self._said(error, label), presence)

    def _said(self, error: Exception, label: str) -> str:
        """In words; what is wrong with the array is a defect too."""
        if isinstance(error, OSError):
            return error.strerror or type(error).__name__
        if not isinstance(error, Damage):
            return str(error)
        if error.code is not FaultCode.TOO_LARGE:
            code = DefectCode.TRUNCATED if _is_cut(error) else DefectCode.TENSOR_LAYOUT
            self._draft.defects.append(Defect(code, error.what, label))
        return error.what

    def _get(self, key: str) -> Source | None:
        if self._database is None:
            try:
                return _file(self._draft, key)
            except FileNotFoundError:
                return None
        value = self._database.get(key)
        if value is None:
            return None
        if not value.path:
            return Source.over(value.inline)
        try:
            return _file(self._draft, value.path).part(value.offset, value.length)
        except OSError as error:
            what = error.strerror or type(error).__name__
            self._draft.defects.append(Defect(DefectCode.SHARD_MISSING, what, value.path))
            raise


def _is_cut(error: Exception) -> bool:
    return isinstance(error, Damage) and error.code is FaultCode.TRUNCATED
