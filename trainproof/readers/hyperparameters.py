"""Names and values that a run was configured with -> what it declares about itself.

Trackers and frameworks keep the same settings under much the same names, as text (MLflow) or as
JSON (W&B). Only names that mean one thing everywhere are read: scikit-learn's ``max_iter`` counts
no optimizer steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from trainproof.model.data import Facts

MAX_DEPTH = 4
"""Levels of nested settings that are looked into (``optimizer.lr``)."""

MAX_COUNT = 2**53
MAX_TEXT = 80

TRUE = frozenset({"true", "1"})
NOTHING = frozenset({"none", "null", "true", "false"})
"""Words that name no method."""

SWITCHES: Mapping[str, str] = {"fp16": "fp16", "bf16": "bf16", "amp": "amp", "use_amp": "amp"}
"""Names that switch a precision on."""


def positive(value: object) -> float | None:
    """A positive number, also one written as text; ``-1`` stands for none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 < number < MAX_COUNT else None


def count(value: object) -> int | None:
    number = positive(value)
    return int(number) if number is not None and number.is_integer() else None


def seed(value: object) -> int | None:
    return 0 if str(value) == "0" else count(value)


def text(value: object) -> str | None:
    said = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return said if 0 < len(said) <= MAX_TEXT and said.lower() not in NOTHING else None


def mixed(value: object) -> str | None:
    """The precision that ``mixed_precision`` names. Accelerate's ``no`` and Coqui's ``false`` are
    full precision; ``true`` does not say which half."""
    return "fp32" if str(value).lower() in ("no", "false") else text(value)


def truth(value: object) -> bool | None:
    return {"true": True, "false": False}.get(str(value).lower())


Parser = Callable[[object], float | int | str | bool | None]

FIELDS: Mapping[str, tuple[str, Parser]] = {
    spelling: (field, parser)
    for field, parser, spellings in (
        (
            "max_steps",
            count,
            "max_steps max_train_steps num_train_steps total_steps max_iters train_iters"
            " max_update",
        ),
        ("max_epochs", positive, "epochs max_epochs num_epochs n_epochs num_train_epochs"),
        ("steps_per_epoch", count, "steps_per_epoch iters_per_epoch"),
        ("warmup_steps", count, "warmup_steps num_warmup_steps lr_warmup_steps"),
        ("logging_steps", count, "logging_steps log_every_n_steps"),
        ("batch_size", count, "batch_size batch train_batch_size per_device_train_batch_size"),
        (
            "grad_accumulation",
            count,
            "gradient_accumulation_steps accumulate_grad_batches grad_accum_steps",
        ),
        ("world_size", count, "world_size"),
        ("seed", seed, "seed random_seed manual_seed training_seed"),
        ("precision", text, "precision"),
        ("precision", mixed, "mixed_precision"),
        ("scheduler", text, "lr_scheduler_type lr_scheduler scheduler"),
        ("learning_rate", positive, "learning_rate lr"),
        ("max_grad_norm", positive, "max_grad_norm grad_clip gradient_clip_val clip_grad_norm"),
        ("num_classes", count, "num_classes n_classes num_labels"),
        ("best_metric_name", text, "metric_for_best_model"),
        ("greater_is_better", truth, "greater_is_better"),
    )
    for spelling in spellings.split()
}


def declares(name: str) -> bool:
    """Whether a setting of this name says something that ``Facts`` has a place for."""
    last = _last(name)
    return last in FIELDS or last in SWITCHES


def facts_of(settings: Iterable[tuple[str, object]]) -> Facts:
    """What the settings declare; nothing where two of them contradict each other (the learning
    rates of a generator and of a discriminator)."""
    found = _found(settings)
    agreed: dict[str, Any] = {k: v.pop() for k, v in found.items() if len(v) == 1}
    return Facts(**agreed)


def fields_of(settings: Iterable[tuple[str, object]]) -> frozenset[str]:
    """The fields of ``Facts`` about which the settings say something, be it a contradiction."""
    return frozenset(_found(settings))


def _found(settings: Iterable[tuple[str, object]]) -> dict[str, set[float | int | str]]:
    found: dict[str, set[float | int | str]] = {}
    for name, value in settings:
        told = _declared(_last(name), value)
        if told is not None:
            found.setdefault(told[0], set()).add(told[1])
    return found


def nested(settings: Mapping[str, object], depth: int = MAX_DEPTH) -> Iterator[tuple[str, object]]:
    """Names and values of nested settings, with the innermost name."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            if depth > 1:
                yield from nested(value, depth - 1)
        else:
            yield str(name), value


def _last(name: str) -> str:
    inner = name.replace(".", "/").rpartition("/")[2]
    return inner.replace("-", "_").lower()


def _declared(name: str, value: object) -> tuple[str, float | int | str] | None:
    if name in SWITCHES:
        return ("precision", SWITCHES[name]) if str(value).lower() in TRUE else None
    field, parser = FIELDS.get(name, ("", text))
    parsed = parser(value) if field else None
    return None if parsed is None else (field, parsed)
