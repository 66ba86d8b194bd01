"""What files of settings say of a training that has not begun.

``training_args.json`` and the YAML files of trainers. Only names that mean one thing everywhere are
read; a name that is set twice to different values says nothing.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from trainproof.model.data import Fault, FaultCode
from trainproof.model.environment import Plan
from trainproof.readers.hyperparameters import count, nested, positive, text, truth
from trainproof.readers.json_object import read_object
from trainproof.readers.settings import MAX_SETTINGS, NAMES
from trainproof.readers.text import FaultLog
from trainproof.readers.yaml_mapping import read_mapping

MOST_FILES = 20
"""Files of a directory that nobody named which are read."""
_LISTED = 10_000
"""Entries of a directory that are looked at for them."""
_SUFFIXES = (".json", ".yaml", ".yml")
_TRAINING = re.compile(r"train(?:ing)?(?:_.*)?|sft|dpo|finetune(?:_.*)?")

Value = int | float | bool | str


def _strategy(value: object) -> str | None:
    """``steps``, ``epoch`` or ``no``; YAML reads a bare ``no`` as false."""
    told = "no" if value is False else text(value)
    return None if told is None else told.lower().rpartition(".")[2]


def _half(value: object) -> str | None:
    """Weights and optimizer in 16 bits with five of exponent, and no copy in 32."""
    told = str(value).lower().removeprefix("torch.")
    return told if told in ("16-true", "fp16-true", "float16", "fp16", "half") else None


def _true_half(value: object) -> str | None:
    return _half(value) if str(value).endswith("-true") else None


def _adapter(value: object) -> bool | None:
    told = str(value).lower()
    return True if told in ("lora", "qlora") else None


def _switched(value: object) -> bool | None:
    return bool(positive(value)) if truth(value) is None else truth(value)


Parser = Callable[[object], Value | None]

FIELDS: Mapping[str, tuple[tuple[str, Parser], ...]] = {
    spelling: readings
    for readings, spellings in (
        (
            (("max_steps", count),),
            "max_steps max_train_steps num_train_steps total_steps max_iters train_iters",
        ),
        ((("warmup_steps", count),), "warmup_steps num_warmup_steps lr_warmup_steps warmup_iters"),
        ((("warmup_ratio", positive),), "warmup_ratio"),
        ((("save_steps", count),), "save_steps checkpointing_steps save_interval"),
        ((("eval_steps", count),), "eval_steps eval_interval"),
        ((("logging_steps", count),), "logging_steps log_interval log_every_n_steps"),
        ((("save_strategy", _strategy),), "save_strategy"),
        ((("eval_strategy", _strategy),), "eval_strategy evaluation_strategy"),
        ((("logging_strategy", _strategy),), "logging_strategy"),
        ((("load_best", truth),), "load_best_model_at_end"),
        ((("best_metric", text),), "metric_for_best_model"),
        ((("greater_is_better", truth),), "greater_is_better"),
        ((("pure_half", _true_half),), "precision"),
        ((("pure_half", _half),), "torch_dtype dtype"),
        ((("adam_epsilon", positive),), "adam_epsilon adam_eps"),
        ((("gradient_checkpointing", truth),), "gradient_checkpointing"),
        ((("use_reentrant", truth),), "use_reentrant use_reentrant_gc"),
        ((("lora", _adapter),), "peft_type finetuning_type"),
        (
            (("lora", _adapter), ("quantized", lambda told: _adapter(told) and told == "qlora")),
            "adapter",
        ),
        ((("lora", _switched),), "lora_r lora_rank lora_alpha use_lora use_peft"),
        ((("quantized", _switched),), "load_in_4bit load_in_8bit quantization_bit"),
    )
    for spelling in spellings.split()
}
"""Names of settings to fields of ``Plan``, and how their values are read."""


def given(path: Path, artifact: str) -> Plan | Fault:
    """The plan of a file that the caller named; why it could not be read, otherwise."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SETTINGS + 1)
    except OSError as error:
        detail = error.strerror or type(error).__name__
        return Fault(FaultCode.IO, artifact, detail, fatal=True)
    if len(data) > MAX_SETTINGS:
        detail = f"more than {MAX_SETTINGS:,} bytes are no settings"
        return Fault(FaultCode.TOO_LARGE, artifact, detail, fatal=True)
    try:
        return plan_of(artifact, _mapping(artifact, data), data)
    except ValueError as error:
        return Fault(FaultCode.CORRUPT, artifact, str(error), fatal=True)


def lying_in(directory: Path) -> Iterator[Plan]:
    """The plans of files that are named as settings. Those that cannot be read, or that say
    nothing about a training, are somebody else's."""
    try:
        with os.scandir(directory) as entries:
            names = sorted(one.name for one in islice(entries, _LISTED) if _promises(one))
    except OSError:
        return
    for name in names[:MOST_FILES]:
        plan = given(directory / name, name)
        if isinstance(plan, Plan) and plan.lines:
            yield plan


def _promises(entry: os.DirEntry[str]) -> bool:
    stem, suffix = os.path.splitext(entry.name.lower())
    named = NAMES.fullmatch(stem) or _TRAINING.fullmatch(stem)
    return suffix in _SUFFIXES and named is not None and entry.is_file()


def _mapping(artifact: str, data: bytes) -> Mapping[str, object]:
    """Raises ValueError."""
    if not artifact.lower().endswith(".json"):
        return read_mapping(data.decode("utf-8", "replace"))
    faults = FaultLog(artifact)
    members = read_object(io.BytesIO(data), faults, MAX_SETTINGS).members
    for fault in faults:
        raise ValueError(fault.detail)
    return members


def plan_of(artifact: str, settings: Mapping[str, object], data: bytes = b"") -> Plan:
    """``data``: the text of the file, for the lines."""
    found: dict[str, set[Value]] = {}
    spelled: dict[str, str] = {}
    for name, value in nested(settings):
        for field, parser in FIELDS.get(name.lower().replace("-", "_"), ()):
            parsed = parser(value)
            if parsed is not None:
                found.setdefault(field, set()).add(parsed)
                spelled.setdefault(field, name)
    agreed: dict[str, Any] = {k: v.pop() for k, v in found.items() if len(v) == 1}
    lines = {field: _line(data, spelled[field]) for field in agreed}
    return Plan(artifact, **agreed, lines=lines)


def _line(data: bytes, name: str) -> int:
    """Where ``name`` stands first as a key; 1 where that cannot be seen."""
    key = re.escape(name.encode())
    at = re.search(rb"(?:^|[\s{,\"'])" + key + rb"[\"']?\s*:", data)
    return 1 + (0 if at is None else data.count(b"\n", 0, at.end()))


def plans(configs: Iterable[str], directory: Path) -> tuple[tuple[Plan, ...], tuple[Fault, ...]]:
    """Those of the files that the caller named, or else of those that lie in the directory."""
    named = [given(Path(config), config) for config in configs]
    faults = tuple(one for one in named if isinstance(one, Fault))
    if named:
        return tuple(one for one in named if isinstance(one, Plan)), faults
    return tuple(lying_in(directory)), ()
