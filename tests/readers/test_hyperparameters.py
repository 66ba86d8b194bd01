"""Settings as trackers keep them, and what they declare."""

from __future__ import annotations

import pytest

from trainproof.model.data import Facts
from trainproof.readers.hyperparameters import declares, facts_of, fields_of, nested


@pytest.mark.parametrize(
    ("name", "value", "facts"),
    [
        ("num_train_epochs", "3.0", Facts(max_epochs=3.0)),
        ("max_steps", 1000, Facts(max_steps=1000)),
        ("max_steps", -1, Facts()),
        ("max_steps", "12.5", Facts()),
        ("optimizer/lr", "1e-3", Facts(learning_rate=0.001)),
        ("optim.learning-rate", 2e-5, Facts(learning_rate=2e-5)),
        ("learning_rate", "auto", Facts()),
        ("learning_rate", "nan", Facts()),
        ("batch_size", True, Facts()),
        ("batch_size", 10**400, Facts()),
        ("seed", 0, Facts(seed=0)),
        ("seed", "None", Facts()),
        ("fp16", "True", Facts(precision="fp16")),
        ("bf16", False, Facts()),
        ("precision", "16-mixed", Facts(precision="16-mixed")),
        ("precision", 16, Facts(precision="16")),
        ("lr_scheduler_type", "cosine", Facts(scheduler="cosine")),
        ("scheduler", "x" * 1000, Facts()),
        ("gradient_clip_val", 1, Facts(max_grad_norm=1.0)),
        ("max_iter", 100, Facts()),
        ("train_iters", 500, Facts(max_steps=500)),
        ("world_size", 8, Facts(world_size=8)),
        ("steps_per_epoch", "120", Facts(steps_per_epoch=120)),
        ("use_amp", True, Facts(precision="amp")),
        ("mixed_precision", "bf16", Facts(precision="bf16")),
        ("mixed_precision", "no", Facts(precision="fp32")),
        ("mixed_precision", False, Facts(precision="fp32")),
        ("mixed_precision", True, Facts()),
        ("scheduler", "false", Facts()),
        ("metric_for_best_model", "wer", Facts(best_metric_name="wer")),
        ("greater_is_better", "False", Facts(greater_is_better=False)),
        ("greater_is_better", None, Facts()),
    ],
)
def test_a_setting_is_a_fact_where_its_name_and_value_say_one(
    name: str, value: object, facts: Facts
) -> None:
    assert facts_of([(name, value)]) == facts


def test_settings_that_contradict_each_other_say_nothing() -> None:
    both = [("generator/lr", 1e-3), ("discriminator/lr", 4e-3), ("seed", 1)]
    assert facts_of(both) == Facts(seed=1)
    assert facts_of([("lr", 1e-3), ("learning_rate", "0.001")]) == Facts(learning_rate=1e-3)
    assert facts_of([("mixed_precision", False), ("precision", "fp16")]) == Facts()  # Coqui
    assert fields_of(both) == {"learning_rate", "seed"}


def test_nested_settings_are_found_to_a_depth() -> None:
    settings = {"optim": {"lr": 0.1}, "a": {"b": {"c": {"d": {"seed": 5}}}}, "epochs": 2}
    assert list(nested(settings)) == [("lr", 0.1), ("epochs", 2)]


def test_names_that_say_nothing_are_known_as_such() -> None:
    assert [declares(n) for n in ("lr", "model/num_classes", "fp16", "activation")] == [
        True,
        True,
        True,
        False,
    ]
