"""Plans from files as trainers write them and as people write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainproof.environment.settings import MOST_FILES, given, lying_in, plans
from trainproof.model.data import Fault, FaultCode
from trainproof.model.environment import Plan

TRAINER = {
    "max_steps": 300,
    "num_train_epochs": 3.0,
    "save_strategy": "steps",
    "eval_strategy": "epoch",
    "save_steps": 500,
    "eval_steps": None,
    "logging_steps": 10,
    "warmup_steps": 0,
    "warmup_ratio": 0.1,
    "load_best_model_at_end": True,
    "metric_for_best_model": "eval_loss",
    "greater_is_better": True,
    "adam_epsilon": 1e-08,
    "gradient_checkpointing": True,
    "gradient_checkpointing_kwargs": {"use_reentrant": True},
    "fp16": True,
}
PEOPLES = """\
# a comment
model:
  torch_dtype: torch.float16
  load_in_4bit: true
peft:
  peft_type: LORA
  lora_r: 8
trainer:
  max_steps: 1_000
  max-train-steps: 1000
  save_strategy: no
  evaluation_strategy: steps
  eval_steps: 0.1
  logging_strategy: IntervalStrategy.EPOCH
"""


def read(home: Path, name: str, text: str) -> Plan:
    (home / name).write_text(text)
    found = given(home / name, name)
    assert isinstance(found, Plan)
    return found


def test_what_a_trainer_writes(tmp_path: Path) -> None:
    plan = read(tmp_path, "training_args.json", json.dumps(TRAINER, indent=2))
    assert (plan.max_steps, plan.save_steps, plan.logging_steps) == (300, 500, 10)
    assert (plan.eval_steps, plan.warmup_steps, plan.warmup_ratio) == (None, None, 0.1)
    assert (plan.save_strategy, plan.eval_strategy) == ("steps", "epoch")
    assert (plan.load_best, plan.best_metric, plan.greater_is_better) == (True, "eval_loss", True)
    assert (plan.gradient_checkpointing, plan.use_reentrant, plan.lora) == (True, True, None)
    assert (plan.adam_epsilon, plan.pure_half) == (1e-8, None)


def test_settings_have_the_lines_they_stand_on(tmp_path: Path) -> None:
    plan = read(tmp_path, "training_args.json", json.dumps(TRAINER, indent=2))
    assert (plan.lines["max_steps"], plan.lines["save_steps"]) == (2, 6)
    plan = read(tmp_path, "config.yaml", PEOPLES)
    assert (plan.lines["pure_half"], plan.lines["max_steps"]) == (3, 9)
    plan = read(tmp_path, "args.json", json.dumps(TRAINER))
    assert set(plan.lines.values()) == {1}


def test_what_people_write(tmp_path: Path) -> None:
    plan = read(tmp_path, "config.yaml", PEOPLES)
    assert (plan.max_steps, plan.eval_steps) == (1000, None)
    assert (plan.save_strategy, plan.eval_strategy) == ("no", "steps")
    assert plan.logging_strategy == "epoch"
    assert (plan.pure_half, plan.lora, plan.quantized) == ("float16", True, True)


def test_a_name_that_is_set_twice_says_nothing(tmp_path: Path) -> None:
    text = "generator:\n  max_steps: 10\ndiscriminator:\n  max_steps: 20\n"
    assert read(tmp_path, "config.yaml", text) == Plan("config.yaml")


@pytest.mark.parametrize(
    ("adapter", "lora", "quantized"), [("lora", True, False), ("qlora", True, True)]
)
def test_adapters(tmp_path: Path, adapter: str, lora: bool, quantized: bool) -> None:
    plan = read(tmp_path, "config.yaml", f"adapter: {adapter}\n")
    assert (plan.lora, plan.quantized) == (lora, quantized)


@pytest.mark.parametrize(
    ("setting", "half"),
    [
        ("precision: 16-true", "16-true"),
        ("precision: 16-mixed", None),
        ("precision: fp16", None),
        ("dtype: fp16", "fp16"),
        ("torch_dtype: bfloat16", None),
        ("fp16: true", None),
    ],
)
def test_mixed_precision_is_no_half_precision(
    tmp_path: Path, setting: str, half: str | None
) -> None:
    assert read(tmp_path, "config.yaml", setting).pure_half == half


def test_files_that_lie_there_count_where_they_are_settings(tmp_path: Path) -> None:
    for name in ("config.yaml", "training_args.json", "train_big.yml", "notes.yaml", "x.txt"):
        read(tmp_path, name, "max_steps: 5\n" if name[0] != "t" else '{"max_steps": 5}')
    (tmp_path / "config.json").write_text('{"hidden_size": 5}')
    (tmp_path / "args.json").write_text("{broken")
    (tmp_path / "args.yaml").mkdir()
    assert [plan.artifact for plan in lying_in(tmp_path)] == [
        "config.yaml",
        "train_big.yml",
        "training_args.json",
    ]
    assert list(lying_in(tmp_path / "nowhere")) == []


def test_a_directory_of_many_settings_is_read_in_part(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 5):
        (tmp_path / f"a{number:03}_config.yaml").write_text("max_steps: 5\n")
    assert len(list(lying_in(tmp_path))) == MOST_FILES


def test_files_that_are_named_are_the_only_ones(tmp_path: Path) -> None:
    read(tmp_path, "config.yaml", "max_steps: 5\n")
    path = tmp_path / "mine.yaml"
    path.write_text("max_steps: 7\n")
    found, faults = plans((str(path),), tmp_path)
    assert [plan.max_steps for plan in found] == [7]
    assert faults == ()


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.json", '{"max_steps": ', FaultCode.CORRUPT),
        ("a.json", "nonsense", FaultCode.CORRUPT),
        ("a.yaml", "a: [1\nb: {", FaultCode.CORRUPT),
        ("a.yaml", "a: " + "[" * 10_000, FaultCode.CORRUPT),
        ("a.yaml", "#" * (1 << 20) + "#", FaultCode.TOO_LARGE),
    ],
)
def test_a_named_file_that_cannot_be_read_is_a_fault(
    tmp_path: Path, name: str, text: str, code: FaultCode
) -> None:
    (tmp_path / name).write_text(text)
    found = given(tmp_path / name, name)
    assert isinstance(found, Fault)
    assert (found.code, found.fatal) == (code, True)


def test_a_named_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    _, faults = plans((str(tmp_path / "nowhere.json"),), tmp_path)
    assert [(fault.code, fault.detail) for fault in faults] == [
        (FaultCode.IO, "No such file or directory")
    ]


def test_a_tag_of_yaml_makes_nothing(tmp_path: Path) -> None:
    text = f"a: !!python/object/apply:os.system ['touch {tmp_path}/made']\nmax_steps: 5\n"
    assert read(tmp_path, "config.yaml", text).max_steps == 5
    assert not (tmp_path / "made").exists()
