"""Rules about settings: what fires, at which level, and what is left alone."""

from __future__ import annotations

import pytest

from trainproof.engine.evaluate import evaluate
from trainproof.model.data import RunView
from trainproof.model.environment import Environment, Plan
from trainproof.model.outcome import Cell, Level, Skip, State
from trainproof.rules import REGISTRY


def cell(id: str, *plans: Plan) -> Cell:
    view = RunView("environment", inspected=Environment(plans=plans))
    return evaluate(REGISTRY[id], view, {})


def levels(id: str, **settings: object) -> list[Level] | Skip | None:
    """The levels of what fired; why not, where the rule was not applied."""
    one = cell(id, Plan("args.json", **settings))  # type: ignore[arg-type]
    return one.skip if one.state is State.NOT_CHECKED else [hit.level for hit in one.hits]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"max_steps": 300, "save_steps": 301}, [Level.WARN]),
        ({"max_steps": 300, "save_steps": 301, "save_strategy": "steps"}, [Level.INFO]),
        ({"max_steps": 300, "eval_steps": 301, "eval_strategy": "steps"}, [Level.INFO]),
        ({"max_steps": 300, "logging_steps": 301, "logging_strategy": "steps"}, [Level.WARN]),
        ({"max_steps": 300, "save_steps": 300}, []),
        ({"max_steps": 300, "save_steps": 500, "eval_steps": 500}, [Level.WARN, Level.WARN]),
        ({"max_steps": 300, "logging_steps": 500}, [Level.WARN]),
        ({"max_steps": 300, "save_steps": 500, "save_strategy": "epoch"}, Skip.NEED_ABSENT),
        ({"max_steps": 300, "save_steps": 500, "save_strategy": "no"}, Skip.NEED_ABSENT),
        ({"save_steps": 500}, Skip.NEED_ABSENT),
        ({"max_steps": 300}, Skip.NEED_ABSENT),
    ],
)
def test_cadence(settings: dict[str, object], expected: object) -> None:
    assert levels("TP-CONFIG-CADENCE", **settings) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"max_steps": 300, "warmup_steps": 300}, [Level.WARN]),
        ({"max_steps": 300, "warmup_steps": 299}, []),
        ({"max_steps": 300, "warmup_steps": 10, "warmup_ratio": 1.0}, []),
        ({"warmup_ratio": 1.0}, [Level.WARN]),
        ({"warmup_ratio": 0.1}, []),
        ({"warmup_steps": 300}, Skip.NEED_ABSENT),
        ({"max_steps": 300}, Skip.NEED_ABSENT),
    ],
)
def test_warmup(settings: dict[str, object], expected: object) -> None:
    assert levels("TP-CONFIG-WARMUP", **settings) == expected


@pytest.mark.parametrize(
    ("metric", "greater", "expected"),
    [
        ("loss", True, [Level.FAIL]),
        ("eval_loss", True, [Level.FAIL]),
        ("eval_wer", True, [Level.FAIL]),
        ("eval_mape", True, Skip.NEED_ABSENT),
        ("eval_loss", False, []),
        ("eval_accuracy", False, [Level.FAIL]),
        ("eval_f1", False, [Level.FAIL]),
        ("mAP50-95", False, [Level.FAIL]),
        ("eval_accuracy", True, []),
        ("neg_loss", True, Skip.NEED_ABSENT),
        ("negative_log_loss", True, Skip.NEED_ABSENT),
        ("eval_score", False, Skip.NEED_ABSENT),
        ("eval_loss", None, Skip.NEED_ABSENT),
    ],
)
def test_the_direction_of_a_metric(metric: str, greater: bool | None, expected: object) -> None:
    settings = {"best_metric": metric, "greater_is_better": greater, "load_best": True}
    assert levels("TP-CONFIG-BEST-DIRECTION", **settings) == expected


@pytest.mark.parametrize("load_best", [False, None])
def test_a_best_checkpoint_that_is_not_loaded_is_a_warning(load_best: bool | None) -> None:
    settings = {"best_metric": "loss", "greater_is_better": True, "load_best": load_best}
    assert levels("TP-CONFIG-BEST-DIRECTION", **settings) == [Level.WARN]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [Level.FAIL]),
        ({"save_steps": 600}, []),
        ({"save_strategy": "epoch"}, Skip.NEED_ABSENT),
        ({"eval_strategy": None}, Skip.NEED_ABSENT),
        ({"load_best": False}, Skip.NEED_ABSENT),
        ({"eval_steps": None}, Skip.NEED_ABSENT),
    ],
)
def test_the_best_must_be_saved(changed: dict[str, object], expected: object) -> None:
    settings = {"load_best": True, "save_steps": 500, "eval_steps": 300, "eval_strategy": "steps"}
    assert levels("TP-CONFIG-BEST-UNSAVED", **{**settings, **changed}) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [Level.WARN]),
        ({"adam_epsilon": 2.0**-25}, [Level.WARN]),
        ({"adam_epsilon": 2.0**-24}, []),
        ({"adam_epsilon": 1e-4}, []),
        ({"pure_half": None}, Skip.NEED_ABSENT),
        ({"adam_epsilon": None}, Skip.NEED_ABSENT),
        ({"lora": True}, Skip.NEED_ABSENT),
    ],
)
def test_an_epsilon_in_half_precision(changed: dict[str, object], expected: object) -> None:
    settings = {"adam_epsilon": 1e-8, "pure_half": "16-true"}
    assert levels("TP-CONFIG-HALF-EPSILON", **{**settings, **changed}) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [Level.WARN]),
        ({"use_reentrant": False}, []),
        ({"quantized": True}, []),
        ({"use_reentrant": None}, Skip.NEED_ABSENT),
        ({"lora": None}, Skip.NEED_ABSENT),
        ({"gradient_checkpointing": False}, Skip.NEED_ABSENT),
    ],
)
def test_reentrant_checkpointing(changed: dict[str, object], expected: object) -> None:
    settings = {"gradient_checkpointing": True, "use_reentrant": True, "lora": True}
    assert levels("TP-CONFIG-REENTRANT-LORA", **{**settings, **changed}) == expected


def test_each_file_is_judged_and_counted() -> None:
    good, bad = Plan("a", max_steps=300, save_steps=100), Plan("b", max_steps=300, save_steps=500)
    (check,) = cell("TP-CONFIG-CADENCE", good, good, Plan("c")).checks
    assert check.measured == {"files": 2}
    (hit,) = cell("TP-CONFIG-CADENCE", good, bad).hits
    assert hit.evidence.where.artifact == "b"
