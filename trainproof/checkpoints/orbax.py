"""What Orbax says of the arrays that it keeps in OCDBT: their names and shapes, in ``_METADATA``.

Source: ``orbax/checkpoint/_src/metadata/tree.py``. The values are Zarr chunks in a database, which
is not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainproof.model.data import FaultCode
from trainproof.model.tensors import Extent, Integrity, TensorInfo

from .documents import LONGEST, below, parse
from .draft import Draft, Item
from .roles import group_of
from .source import Damage
from .stretches import bounded

METADATA = "_METADATA"
_TREE = "tree_metadata"
_REASON = "the values of OCDBT are not read"


def read_tree(draft: Draft) -> Iterator[Item]:
    """Tensors without values, then facts. Raises Damage."""
    draft.integrity, draft.reason = Integrity.ABSENT, _REASON
    if draft.source.size > LONGEST:
        raise Damage(FaultCode.TOO_LARGE, f"{draft.source.size} bytes of JSON are over the limit")
    tree = below(parse(draft.source.read(0, draft.source.size), METADATA), _TREE)
    if not isinstance(tree, dict):
        raise Damage(FaultCode.CORRUPT, "it lists no arrays")
    for fields in list(tree.values())[: draft.limits.entries]:
        info = _info(draft, fields)
        if info is not None:
            yield draft.tensor(info)
    yield draft.done(Extent.STRUCTURE_ONLY)


def _info(draft: Draft, fields: object) -> TensorInfo | None:
    """None for a leaf that is no array: an empty mapping, a text."""
    keys, value = below(fields, "key_metadata"), below(fields, "value_metadata")
    sizes = below(value, "write_shape")
    shape = [size for size in sizes if type(size) is int] if isinstance(sizes, list) else None
    if shape is None or not bounded(shape) or not isinstance(keys, list):
        return None
    name = "/".join(str(below(key, "key")) for key in keys)[: draft.limits.label]
    kind = str(below(value, "value_type"))[: draft.limits.value]
    group = group_of(name, draft.artifact)
    return TensorInfo(name, kind, tuple(shape), 0, draft.artifact, None, _REASON, group=group)
