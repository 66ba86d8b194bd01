"""Faults of the log and of what is saved, on trainings that went well: true by construction."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from . import logs
from .logs import Files
from .networks import Array, Rng
from .training import History

Spoil = Callable[[History, History, Rng], Files]
"""From a training and another one of the same setting, to what lies on disk."""


def truncated(history: History, other: History, rng: Rng) -> Files:
    """The last file ends within a line or record."""
    contents = dict(logs.files(history))
    name = max(contents)
    whole = contents[name]
    end = int(len(whole) * rng.uniform(0.5, 0.9))
    if name.endswith((".csv", ".log", ".jsonl")):
        end = whole.rindex(b"\n", 0, end) + 4  # within a line, never between two
    elif history.setting.writer == "tfevents":
        end = _record_before(whole, end) + 7
    contents[name] = whole[:end]
    return contents


def _record_before(events: bytes, end: int) -> int:
    """Where the record begins in which byte ``end`` lies."""
    at = 0
    while at + (size := 16 + int.from_bytes(events[at : at + 8], "little")) <= end:
        at += size
    return at


def prefix_lost(history: History, other: History, rng: Rng) -> Files:
    """The first 30 to 60 % of the rows are gone."""
    first = int(len(history.rows) * rng.uniform(0.3, 0.6))
    return logs.files(replace(history, rows=history.rows[first:], resumed_at=None))


def rows_lost(history: History, other: History, rng: Rng) -> Files:
    """A fifth of the rows is gone, in one piece, from the middle."""
    n = len(history.rows)
    first = int(n * rng.uniform(0.3, 0.5))
    kept = history.rows[:first] + history.rows[first + n // 5 :]
    return logs.files(replace(history, rows=kept, resumed_at=None))


def two_runs(history: History, other: History, rng: Rng) -> Files:
    """A second training is appended to the log of the first."""
    rows = history.rows + other.rows
    return logs.files(replace(history, rows=rows, resumed_at=None))


def two_writers(history: History, other: History, rng: Rng) -> Files:
    """Two trainings write into one log at the same time."""
    rows = [row for pair in zip(history.rows, other.rows, strict=False) for row in pair]
    return logs.files(replace(history, rows=tuple(rows), resumed_at=None))


def wrong_best(history: History, other: History, rng: Rng) -> Files:
    return logs.files(history, wrong_best=True)


def shard_missing(history: History, other: History, rng: Rng) -> Files:
    """A checkpoint in four shards of which the index names one that is not there."""
    parts = np.array_split(history.weights, 4)
    names = [f"model-{i + 1:05d}-of-00004.safetensors" for i in range(4)]
    contents = {
        name: safetensors({f"layers.{i}.weight": part})
        for i, (name, part) in enumerate(zip(names, parts, strict=True))
    }
    del contents[names[int(rng.integers(4))]]
    weights = {f"layers.{i}.weight": name for i, name in enumerate(names)}
    index = {"metadata": {"total_size": 4 * history.weights.size}, "weight_map": weights}
    contents["model.safetensors.index.json"] = json.dumps(index).encode()
    return {f"checkpoint/{name}": content for name, content in contents.items()}


def adapter(history: History, other: History, rng: Rng) -> Files:
    """The log, and the adapter as PEFT saves it: a matrix ``A`` and a matrix ``B``."""
    a, b = history.weights[: 8 * 2].reshape(8, 2).T, history.weights[8 * 2 :].reshape(2, -1).T
    layer = "base_model.model.model.layers.0.mlp.up_proj"
    saved = safetensors({f"{layer}.lora_A.weight": a, f"{layer}.lora_B.weight": b})
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "init_lora_weights": True}
    return {
        **logs.files(history),
        "checkpoint/adapter_model.safetensors": saved,
        "checkpoint/adapter_config.json": json.dumps(config).encode(),
    }


def safetensors(tensors: Mapping[str, Array]) -> bytes:
    """The format: a header of JSON behind its length, then the values."""
    header: dict[str, object] = {}
    at = 0
    for name, values in tensors.items():
        end = at + 4 * values.size
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(np.ascontiguousarray(values, "<f4").tobytes() for values in tensors.values())
    return struct.pack("<Q", len(text)) + text + body
