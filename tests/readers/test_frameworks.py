"""Logs that the frameworks themselves wrote (``data/make_fixtures.py``), with exact numbers.

Those of trackers and of boosting have tests beside their readers.
"""

from __future__ import annotations

import pytest

from trainproof.discover import discover
from trainproof.grouping import group
from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Axis, Regime
from trainproof.readers import READERS, reader
from trainproof.readers.interface import HEAD
from trainproof.stores import open_store

from .readings import DATA, Readout, read, survives

Point = tuple[int, float]
Expected = tuple[str, str, str, Axis, int, Point, Point]
"""File, reader, tag, axis, points, first and last step with their values."""

SB3 = "stable_baselines3"
EVENTS = "lightning/events.out.tfevents.1700000000.host.1.0"
EXPECTED: tuple[Expected, ...] = (
    ("clearml/metrics.jsonl", "clearml", "loss/train", Axis.STEP, 6, (0, 2.0), (50, 1.0)),
    ("clearml/metrics.jsonl", "clearml", "accuracy", Axis.STEP, 6, (0, 0.0), (50, 0.5)),
    ("neptune/data-1.log", "neptune", "train/loss", Axis.STEP, 4, (0, 2.0), (50, 1.0)),
    ("neptune/data-1.log", "neptune", "val/acc", Axis.INDEX, 6, (0, 0.0), (5, 0.5)),
    (
        *("keras/training.log", "csv", "loss", Axis.EPOCH, 5),
        *((0, 1.0014631748199463), (4, 0.9229422807693481)),
    ),
    (
        *("keras/history.json", "json", "val_loss", Axis.INDEX, 5),
        *((0, 0.9119694828987122), (4, 0.8353986144065857)),
    ),
    ("keras/console.log", "text", "loss", Axis.EPOCH, 5, (1, 1.0015), (5, 0.9229)),
    ("keras/console.log", "text", "val_accuracy", Axis.EPOCH, 5, (1, 0.4167), (5, 0.4833)),
    (
        *("lightning/metrics.csv", "csv", "train_loss", Axis.STEP, 15),
        *((1, 0.7004848122596741), (29, 0.45418888330459595)),
    ),
    (
        EVENTS,
        "tfevents",
        "val_loss",
        Axis.STEP,
        3,
        (9, 0.6022313237190247),
        (29, 0.45630568265914917),
    ),
    (
        *("transformers/trainer_state.json", "hf-trainer", "loss", Axis.STEP, 6),
        *((5, 0.7459912776947022), (30, 0.7168463706970215)),
    ),
    (
        *("transformers/trainer_state.json", "hf-trainer", "eval_loss", Axis.STEP, 3),
        *((10, 0.7425105571746826), (30, 0.7423368096351624)),
    ),
    ("transformers/console.log", "text", "loss", Axis.INDEX, 6, (0, 0.746), (7, 0.7168)),
    (f"{SB3}/progress.csv", "csv", "rollout/ep_rew_mean", Axis.STEP, 5, (64, 25.0), (320, 155 / 6)),
    (f"{SB3}/console.log", "text", "rollout/ep_rew_mean", Axis.STEP, 5, (64, 25.0), (320, 25.8)),
    (f"{SB3}/console.log", "text", "train/loss", Axis.STEP, 4, (128, 52.8), (320, 18.4)),
    (f"{SB3}/monitor.csv", "monitor", "r", Axis.INDEX, 12, (0, 25.0), (11, 65.0)),
    ("skorch/console.log", "text", "train_loss", Axis.EPOCH, 5, (1, 0.7954), (5, 0.5777)),
    (
        *("ultralytics/results.csv", "csv", "train/cls_loss", Axis.EPOCH, 3),
        *((1, 0.34512), (3, 0.3195)),
    ),
    (
        *("ultralytics/console.log", "text", "train/cls_loss", Axis.EPOCH, 3),
        *((1, 0.3451), (3, 0.3195)),
    ),
)
FILES = sorted({(name, told) for name, told, *_ in EXPECTED})


def made(name: str, told: str) -> Readout:
    """The file, read by the first reader that claims it, which must be that one."""
    data = (DATA / name).read_bytes()
    one = next(one for one in READERS if one.claims(name, data[:HEAD]))
    assert one.name == told
    return read(one, name, data)


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda one: f"{one[0]} {one[2]}")
def test_what_the_framework_wrote(expected: Expected) -> None:
    name, told, tag, axis, points, first, last = expected
    got = made(name, told)
    assert got.faults == ()
    assert got[tag].axis is axis
    at = list(zip(got.steps(tag), got.values(tag), strict=True))
    assert (len(at), at[0], at[-1]) == (points, first, last)


@pytest.mark.parametrize(("name", "told"), FILES)
def test_whatever_happened_to_the_file(name: str, told: str) -> None:
    survives(reader(told), name, (DATA / name).read_bytes())


def test_what_the_frameworks_declare() -> None:
    trainer = made("transformers/trainer_state.json", "hf-trainer").facts
    assert (trainer.max_steps, trainer.logging_steps, trainer.finished) == (30, 5, True)
    assert made(f"{SB3}/monitor.csv", "monitor").facts.regime is Regime.REINFORCEMENT
    queue = made("neptune/data-1.log", "neptune").facts
    assert (queue.learning_rate, queue.max_epochs) == (0.001, 3)


def test_the_state_in_a_checkpoint_is_the_beginning_of_that_at_the_end() -> None:
    whole = made("transformers/trainer_state.json", "hf-trainer").values("loss")
    part = made("transformers/checkpoint-20/trainer_state.json", "hf-trainer").values("loss")
    assert part == whole[:4]


def test_the_two_runs_of_a_database_of_mlflow() -> None:
    got = made("mlflow/mlflow.db", "mlflow-db")
    assert (got.content, got.parts) == (Content.UNSUPPORTED, (f"{0:032x}", f"{1:032x}"))
    data = (DATA / "mlflow/mlflow.db").read_bytes()
    for run, finished in zip(got.parts, (True, False), strict=True):
        one = read(reader("mlflow-db"), "mlflow/mlflow.db", data, part=run)
        assert one.steps("train/loss") == [0, 10, 20, 30, 40, 50]
        assert repr(one.values("train/loss")) == "[2.0, 1.5, nan, 1.25, inf, 1.0]"
        assert (one["no_step"].axis, len(one["no_step"])) == (Axis.INDEX, 6)
        assert (one.facts.finished, one.facts.learning_rate) == (finished, 0.001)


@pytest.mark.parametrize(
    ("folder", "files"),
    [
        (SB3, ["console.log", "monitor.csv", "progress.csv"]),
        ("lightning", ["events.out.tfevents.1700000000.host.1.0", "metrics.csv"]),
        ("keras", ["console.log", "history.json", "training.log"]),
        ("ultralytics", ["console.log", "results.csv"]),
        ("transformers", ["checkpoint-20/trainer_state.json", "console.log", "trainer_state.json"]),
    ],
)
def test_what_one_training_wrote_is_one_run(folder: str, files: list[str]) -> None:
    root = str(DATA / folder)
    found = list(discover(open_store(root), root, READERS))
    (run,) = group(one for one in found if isinstance(one, Artifact) and one.kind is Kind.LOG)
    assert [artifact.path for artifact in run.artifacts] == files
