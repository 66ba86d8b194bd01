"""Keras files (``.keras``): a ZIP file of the configuration, and of the weights in HDF5.

The configuration names the classes that loading imports, and may hold the code of a function.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Depth,
    Extent,
    GlobalUse,
    Safety,
    Scalar,
    Unread,
)

from .documents import LONGEST, parse
from .draft import Draft, Item
from .hdf5 import read_datasets
from .pickles.allowlist import classify
from .source import Damage
from .zip_checksums import verify
from .zipped import STORED, Archive

_CONFIG, _WEIGHTS, _METADATA = "config.json", "model.weights.h5", "metadata.json"
_OWN = ("keras", "tensorflow", "tf_keras", "builtins")
"""Packages whose classes a model is made of; ``builtins`` stands for plain values."""
_LAMBDA = "__lambda__"


def read_keras(draft: Draft, archive: Archive) -> Iterator[Item]:
    """Tensors, then facts."""
    _config(draft, archive)
    if draft.depth is not Depth.STRUCTURE:
        verify(draft, archive, archive.entries, {})
    yield from _weights(draft, archive)
    yield draft.done(None if draft.tensors else Extent.STRUCTURE_ONLY)


def _weights(draft: Draft, archive: Archive) -> Iterator[Item]:
    entry = archive.find(_WEIGHTS)
    if entry is None or entry.method != STORED:
        draft.reason = "its weights are compressed or missing"
        draft.unread.append(Unread(_WEIGHTS, draft.reason))
        return
    try:
        source = archive.source.part(entry.start, entry.size)
    except Damage as damage:
        draft.defects.append(Defect(DefectCode.TRUNCATED, damage.what, _WEIGHTS))
        return
    yield from read_datasets(draft, source, _WEIGHTS)


def _config(draft: Draft, archive: Archive) -> None:
    """What loading the model imports."""
    draft.survey.worsen(Safety.SAFE)
    entry = archive.find(_CONFIG)
    try:
        config = None if entry is None else parse(archive.read(entry, LONGEST), _CONFIG)
    except Damage as damage:
        draft.defects.append(Defect(DefectCode.HEADER, damage.what, _CONFIG))
        draft.survey.worsen(Safety.UNKNOWN)
        return
    draft.metadata = list(_metadata(draft, archive))
    draft.survey.merge(_imports(draft, config))


def _metadata(draft: Draft, archive: Archive) -> Iterator[Scalar]:
    entry = archive.find(_METADATA)
    try:
        given = None if entry is None else parse(archive.read(entry, LONGEST), _METADATA)
    except Damage as damage:
        draft.unread.append(Unread(_METADATA, damage.what))
        return
    for key, value in given.items() if isinstance(given, dict) else ():
        if isinstance(value, str):
            yield Scalar(str(key)[: draft.limits.label], value[: draft.limits.value])


def _imports(draft: Draft, config: object) -> Iterator[GlobalUse]:
    """Every class that is named anywhere, and functions that are kept as code."""
    stack = [config]
    for _ in range(draft.limits.visits):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            stack.extend(node.values())
            yield from _named(draft, node)
    draft.survey.worsen(Safety.UNKNOWN)


def _named(draft: Draft, node: dict[str, object]) -> Iterator[GlobalUse]:
    module, name = node.get("module"), node.get("class_name")
    if name == _LAMBDA:
        draft.code = (*draft.code, _CONFIG)[:1]
        yield GlobalUse("keras.layers.Lambda", Safety.UNKNOWN, _CONFIG)
    elif isinstance(module, str) and isinstance(name, str):
        path = f"{module}.{name}"[: draft.limits.label]
        own = module.partition(".")[0] in _OWN
        yield GlobalUse(path, Safety.SAFE if own else classify(module, name), _CONFIG)
