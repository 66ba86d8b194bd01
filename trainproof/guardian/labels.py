"""Labels of the first rows of a training set, read without disturbing the training."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trainproof.config import Config
from trainproof.model.data import Ints
from trainproof.model.objective import TORCH_IGNORES
from trainproof.model.report import Report

from .objective import check_objective

_CAUSAL = "ForCausalLM"
"""End of the class names of most models that shift labels themselves; the table of transformers
names the others."""
_TABLE = "transformers.models.auto.modeling_auto"


def check_labels(model: Any, loader: Any, rows: int, config: Config) -> Report | None:
    """Judge the labels of the first ``rows`` rows of a loader's data set, which must be one that
    is indexed; None where there are no labels or the model does not say its number of classes."""
    classes = _classes(model) if _is_classifier(model) else None
    data = getattr(loader, "dataset", None)
    if classes is None or data is None or not hasattr(data, "__len__"):
        return None
    with untouched():
        labels, inputs = _read(data, min(rows, len(data)))
    if not labels:
        return None
    shifts = True if _is_causal(model) else None
    return check_objective(
        classes,
        TORCH_IGNORES,
        labels,
        inputs if shifts and len(inputs) == len(labels) else None,
        loss_shifts=shifts,
        complete=len(labels) == len(data),
        config=config,
    )


def _read(data: Any, rows: int) -> tuple[list[Ints], list[Ints]]:
    labels: list[Ints] = []
    inputs: list[Ints] = []
    for at in range(rows):
        row = data[at]
        if not hasattr(row, "get"):
            break
        label = next((row[key] for key in ("labels", "label") if key in row), None)
        if label is None:
            break
        labels.append(_array(label))
        ids = row.get("input_ids")
        if ids is not None and np.shape(ids) == np.shape(label):
            inputs.append(_array(ids))
    if labels and all(label.shape == (1,) for label in labels):  # one class a row: rows of a batch
        return [np.concatenate(labels)], []
    return labels, inputs


def _array(values: Any) -> Ints:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.atleast_1d(np.asarray(values)).astype(np.int64, casting="same_kind")


def _classes(model: Any) -> int | None:
    """The width of the output layer: what the configuration says may be older than the model."""
    while hasattr(model, "module"):
        model = model.module
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    weight = getattr(head, "weight", None)
    if weight is not None and len(weight.shape) == 2:
        return int(weight.shape[0])
    settings = getattr(model, "config", None)
    if _is_causal(model):
        return getattr(settings, "vocab_size", None)
    return getattr(settings, "num_labels", None) if settings is not None else None


def _is_classifier(model: Any) -> bool:
    """Whether labels are indices of classes: not so for a regression, nor where a label is a
    vector with a place for each class."""
    while hasattr(model, "module"):
        model = model.module
    settings = getattr(model, "config", None)
    kind = getattr(settings, "problem_type", None)
    if kind is not None:
        return bool(kind == "single_label_classification")
    return _is_causal(model) or getattr(settings, "num_labels", None) != 1


def _is_causal(model: Any) -> bool:
    while hasattr(model, "module"):
        model = model.module
    names = {kind.__name__ for kind in type(model).__mro__}
    table = getattr(sys.modules.get(_TABLE), "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", {})
    return any(name.endswith(_CAUSAL) for name in names) or not names.isdisjoint(table.values())


@contextmanager
def untouched() -> Iterator[None]:
    """Put the global random number generators back where they were."""
    torch: Any = sys.modules.get("torch")
    cuda = torch is not None and torch.cuda.is_initialized()
    python, numpy = random.getstate(), np.random.get_state()
    state = None if torch is None else torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if cuda else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None:
            torch.set_rng_state(state)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
