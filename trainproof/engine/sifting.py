"""What a file is in truth that was taken for a checkpoint by its name: a state of a training, or
data of some other kind in one of the formats that trainings save in."""

from __future__ import annotations

from collections.abc import Sequence

from trainproof.checkpoints.pickles.walker import EXTENSION
from trainproof.checkpoints.roles import names_a_model
from trainproof.model.artifact import Content
from trainproof.model.checkpoint import SavedFile
from trainproof.model.tensors import HARMLESS, CheckpointFacts, Extent, Group, Layout, Safety

_MODELS = frozenset(
    {
        Layout.TORCH_SCRIPT,
        Layout.TORCH_EXPORT,
        Layout.TORCH_PACKAGE,
        Layout.TORCH_METADATA,
        Layout.KERAS,
        Layout.GGUF,
        Layout.ONNX,
        Layout.XGBOOST,
    }
)
"""Formats for nothing else."""
_CONTAINERS = frozenset(
    {Layout.TORCH_ZIP, Layout.TORCH_LEGACY, Layout.TORCH_TAR, Layout.SAFETENSORS}
)
"""Formats whose mark is in the file: what is wrong with one of them is no other format."""
_HOLLOW = {Layout.EMPTY: Content.EMPTY, Layout.MARKUP: Content.MARKUP_PAGE}
_KEYS = frozenset(
    ("state_dict", "model_state_dict", "optimizer_state_dict", "optimizer_states", "param_groups")
)


def content_of(files: Sequence[SavedFile]) -> Content | None:
    """What the files are, None where they are a state of a training, are damaged, or would harm
    whoever loads them. ``files``: with their structure at least."""
    if any(_is_state(file) for file in files) or not files:
        return None
    if any(file.facts.extent is not Extent.NOT_CHECKED for file in files):
        return Content.SAVED_DATA
    return _HOLLOW.get(files[0].facts.layout, Content.NOT_A_LOG)


def _is_state(file: SavedFile) -> bool:
    facts = file.facts
    if facts.layout in _MODELS or _runs_code(facts):
        return True
    if facts.layout in _CONTAINERS and _is_damaged(facts):
        return True
    if facts.optimizers or not _KEYS.isdisjoint(facts.keys):
        return True
    tensors = file.tensors
    beside = any(tensor.group in (Group.OPTIMIZER, Group.AVERAGE) for tensor in tensors)
    return beside or names_a_model([tensor.name for tensor in tensors])


def _is_damaged(facts: CheckpointFacts) -> bool:
    closed = facts.extent is Extent.NOT_CHECKED
    return closed or any(one.code not in HARMLESS for one in facts.defects)


def _runs_code(facts: CheckpointFacts) -> bool:
    """Bytes that are no pickle are read as one that calls something by a number, but by no name."""
    if facts.safety is not Safety.UNSAFE:
        return False
    named = (use for use in facts.globals if not use.name.startswith(EXTENSION))
    whole = facts.extent is not Extent.NOT_CHECKED
    return whole or any(use.safety is Safety.UNSAFE for use in named)
