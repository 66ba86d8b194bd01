"""Settings beside a log: recognised by what they say, and what they declare."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from trainproof.model.artifact import Content
from trainproof.model.data import Facts
from trainproof.readers import READERS
from trainproof.readers.interface import HEAD
from trainproof.readers.settings import MAX_SETTINGS, JsonSettings, YamlSettings

from .readings import read, survives

JSON, YAML = JsonSettings(), YamlSettings()

TRAINING_ARGS = json.dumps(
    {
        "output_dir": "out",
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 4,
        "learning_rate": 5e-05,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "num_train_epochs": 3.0,
        "max_steps": -1,
        "lr_scheduler_type": "linear",
        "warmup_steps": 500,
        "logging_steps": 10,
        "seed": 42,
        "bf16": True,
        "fp16": False,
        "metric_for_best_model": "wer",
        "greater_is_better": False,
        "fsdp_config": {"min_num_params": 0},
    },
    indent=2,
).encode()

ULTRALYTICS = b"""task: detect
mode: train
model: yolov8n.pt
epochs: 75
time: null
batch: 16
device: '0'
seed: 0
amp: true
lr0: 0.01
save_dir: C:\\runs\\train
"""

LIGHTNING = b"""!!python/object:argparse.Namespace
max_epochs: 20
lr: 1.0e-05
callback: !!python/object:nowhere.Callback
  patience: 3
num_classes: 11
"""

HYDRA = b"""# saved by Hydra
trainer:
  _target_: lightning.pytorch.trainer.Trainer
  precision: bf16-mixed
  max_steps: 8080
  accumulate_grad_batches: 4
  gradient_clip_val: 1.0
data:
  batch_size: 1
seed: null
"""

WANDB = b"""wandb_version: 1

_wandb:
  desc: null
  value:
    cli_version: 0.16.6
    start_time: 1712802549.0
epochs:
  desc: null
  value: 100
batch_size:
  desc: null
  value: 16
hyp:
  desc: null
  value:
    lr: 0.001
"""


def claimed(path: str, data: bytes) -> str | None:
    """The reader that gets the file."""
    return next((one.name for one in READERS if one.claims(path, data[:HEAD])), None)


@pytest.mark.parametrize(
    ("path", "data", "facts"),
    [
        (
            "out/training_args.json",
            TRAINING_ARGS,
            Facts(
                max_epochs=3.0,
                batch_size=8,
                grad_accumulation=4,
                learning_rate=5e-5,
                max_grad_norm=1.0,
                scheduler="linear",
                warmup_steps=500,
                logging_steps=10,
                seed=42,
                precision="bf16",
                best_metric_name="wer",
                greater_is_better=False,
            ),
        ),
        (
            "runs/detect/train/args.yaml",
            ULTRALYTICS,
            Facts(max_epochs=75.0, batch_size=16, seed=0, precision="amp"),
        ),
        (
            "version_0/hparams.yaml",
            LIGHTNING,
            Facts(max_epochs=20.0, learning_rate=1e-5, num_classes=11),
        ),
        (
            "1/.hydra/config.yaml",
            HYDRA,
            Facts(
                precision="bf16-mixed",
                max_steps=8080,
                grad_accumulation=4,
                max_grad_norm=1.0,
                batch_size=1,
            ),
        ),
        (
            "wandb/run-20240411_102909-zu3sexb2/files/config.yaml",
            WANDB,
            Facts(max_epochs=100.0, batch_size=16, learning_rate=0.001),
        ),
    ],
)
def test_the_settings_of_the_frameworks_declare_facts(path: str, data: bytes, facts: Facts) -> None:
    reader = JSON if path.endswith("json") else YAML
    assert claimed(path, data) == reader.name
    got = read(reader, path, data)
    assert (got.facts, got.columns, got.faults, got.content) == (facts, (), (), None)


@pytest.mark.parametrize(
    ("path", "data", "is_setting"),
    [
        ("anything.json", b'{"batch_size": 8, "max_steps": 100}', True),
        ("anything.json", b'{"seed": 1, "text": "a sample"}', False),
        ("config.json", b'{"seed": 1, "text": "a sample"}', True),
        ("config.json", b'{"hidden_size": 768, "vocab_size": 50257}', False),
        ("config.json", b'[{"seed": 1, "lr": 0.1}]', False),
        ("config.txt", b'{"batch_size": 8, "max_steps": 100}', False),
        ("anything.yml", b"batch_size: 8\nmax_steps: 100\n", True),
        ("train_args.yml", b"batch_size: 8\n", True),
        ("docker-compose.yaml", b"services:\n  web:\n    image: nginx\n", False),
        ("config.yaml", b"lr is 0.1\nlr: 0.1\nseed: 1\n", False),
        ("config.yaml", b"{}\n", False),
        ("config.yaml", b"lr: auto\nseed:\n", False),
        ("config.log", b"batch_size: 8\nmax_steps: 100\n", False),
        ("config.yaml", b"\xff\xfe" + "lr: 0.1\nseed: 1\n".encode("utf-16-le"), True),
        ("config.yaml", b"lr: 0.1\r\nseed: 1\r\n" + b"#" * HEAD, True),
    ],
)
def test_settings_are_recognised_by_what_they_say(path: str, data: bytes, is_setting: bool) -> None:
    assert (JSON.claims(path, data[:HEAD]) or YAML.claims(path, data[:HEAD])) is is_setting


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("log.json", b'{"step": 1, "loss": 2.0, "lr": 0.1, "batch_size": 8, "seed": 1}\n' * 9),
        ("history.json", b'{"lr": [0.1, 0.1], "loss": [2.0, 1.0], "batch_size": [8, 8]}'),
        ("results.json", b'{"seed": 1, "batch_size": 8, "accuracy": 0.9}'),
        ("x/0123456789abcdef0123456789abcdef/params/batch_size", b"8"),
    ],
)
def test_logs_and_summaries_are_no_settings(path: str, data: bytes) -> None:
    assert claimed(path, data) not in (None, JSON.name, YAML.name)


def test_settings_that_contradict_each_other_say_nothing() -> None:
    data = b"generator:\n  lr: 1\ndiscriminator:\n  lr: 2\nseed: 3\n"
    assert read(YAML, "config.yaml", data).facts == Facts(seed=3)


def test_the_sections_of_the_tools_are_not_the_run() -> None:
    data = b"hydra:\n  sweeper:\n    seed: 123\nseed: 5\n"
    assert read(YAML, "config.yaml", data).facts == Facts(seed=5)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("config.json", b'{"seed": 1, "lr": 0.1'),
        ("config.json", b'{"seed": 1, "x": "' + b"y" * HEAD + b'", "lr": }'),
        ("config.yaml", b"seed: 1\nlr: [\n"),
        ("config.yaml", b"seed: 1\nlr: 0.1\n" + b"#" * HEAD + b"\n\0\0\0"),
        ("config.yaml", b"seed: 1\nlr: 0.1\n" + b"#" * MAX_SETTINGS),
        ("config.json", b'{"seed": 1, "lr": 0.1, "x": "' + b"y" * MAX_SETTINGS + b'"}'),
    ],
    ids=["cut", "broken", "unclosed", "nul", "long-yaml", "long-json"],
)
def test_settings_that_cannot_be_read_tell_nothing_and_are_no_fault(path: str, data: bytes) -> None:
    reader = JSON if path.endswith("json") else YAML
    assert reader.claims(path, data[:HEAD])
    got = read(reader, path, data)
    assert (got.facts, got.faults, got.content) == (Facts(), (), Content.UNSUPPORTED)


def test_every_accident_is_survived() -> None:
    survives(JSON, "config.json", TRAINING_ARGS)
    for data in (ULTRALYTICS, LIGHTNING, HYDRA, WANDB):
        survives(YAML, "config.yaml", data)


def test_the_yaml_library_is_loaded_only_where_it_is_needed() -> None:
    program = "import sys, trainproof.readers; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
