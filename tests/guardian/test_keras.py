"""The callback inside a real fit of Keras."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")

from trainproof.guardian import core
from trainproof.guardian.keras import TrainproofCallback
from trainproof.model.data import RunView
from trainproof.model.report import Verdict

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def fit(callback: Any, *, lr: float = 0.05, epochs: int = 4, **options: Any) -> tuple[Any, Any]:
    keras.utils.set_random_seed(5)
    inputs = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(16, "relu"),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(lr), "mse")
    history = model.fit(
        inputs,
        inputs.sum(1),
        batch_size=8,
        epochs=epochs,
        shuffle=True,
        verbose=0,
        callbacks=[] if callback is None else [callback],
        **options,
    )
    return model, history


def test_a_run_is_bit_identical_with_and_without_the_callback() -> None:
    plain, before = fit(None, epochs=2, validation_split=0.25)
    watched, after = fit(TrainproofCallback(policy="stop_on_fail"), epochs=2, validation_split=0.25)
    for one, other in zip(plain.get_weights(), watched.get_weights(), strict=True):
        assert np.array_equal(one, other)
    assert before.history == after.history


def test_the_report_is_written_where_it_was_asked_for(tmp_path: Path) -> None:
    fit(TrainproofCallback(tmp_path), validation_split=0.25)
    report = json.loads((tmp_path / "trainproof-report.json").read_text())
    (run,) = report["reports"]
    names = {one["name"]: one["points"] for one in run["series"]}
    assert names["batch_loss"] == 24
    assert names["epoch_loss"] == names["val_loss"] == 4
    assert names["step_time"] == 24
    assert run["facts"]["max_steps"] == 24


def test_a_resumed_training_counts_on_from_its_first_epoch() -> None:
    callback = TrainproofCallback()
    fit(callback, epochs=6, initial_epoch=2)
    (run,) = callback.guardian.report.reports
    loss = next(one for one in run.series if one.name == "batch_loss")
    assert (loss.points, loss.first_step, loss.last_step) == (32, 17, 48)
    assert run.facts["max_steps"] == 48


def test_the_loss_of_a_batch_is_what_moved_the_mean() -> None:
    callback = TrainproofCallback()
    callback.set_params({"steps": 3, "epochs": 1})
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    for batch, mean in enumerate((4.0, 3.0, 4.0)):
        callback.on_train_batch_begin(batch)
        callback.on_train_batch_end(batch, {"loss": mean})
    callback.on_train_end()
    assert callback.guardian is not None
    assert callback.guardian.report is not None
    (run,) = callback.guardian.report.reports
    loss = next(one for one in run.series if one.name == "batch_loss")
    assert (loss.first, loss.min, loss.last) == (4.0, 2.0, 6.0)


def test_a_training_that_diverges_is_stopped() -> None:
    callback = TrainproofCallback(policy="stop_on_fail")
    _, history = fit(callback, lr=30.0, epochs=40)
    assert len(history.history["loss"]) < 20
    assert callback.guardian is not None
    assert callback.guardian.verdict is Verdict.FAIL


def test_a_fault_in_the_callback_does_not_stop_the_training(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> RunView:
        raise RuntimeError("a bug")

    monkeypatch.setattr(core.Journal, "view", broken)
    _, history = fit(TrainproofCallback(policy="stop_on_fail"))
    assert len(history.history["loss"]) == 4
    assert "RuntimeError in log: the training goes on" in caplog.text


def batches() -> Iterator[tuple[Any, Any]]:
    """Without an end, as generators of data are."""
    generator = np.random.default_rng(1)
    while True:
        inputs = generator.normal(size=(8, 8)).astype(np.float32)
        yield inputs, inputs.sum(1)


def stream(callback: Any) -> tuple[Any, Any]:
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    history = model.fit(
        batches(),
        steps_per_epoch=6,
        epochs=3,
        validation_data=batches(),
        validation_steps=2,
        verbose=0,
        callbacks=[] if callback is None else [callback],
    )
    return model, history


def test_steps_of_an_epoch_may_be_counted_off_a_stream(tmp_path: Path) -> None:
    plain, before = stream(None)
    watched, after = stream(TrainproofCallback(tmp_path, policy="stop_on_fail"))
    for one, other in zip(plain.get_weights(), watched.get_weights(), strict=True):
        assert np.array_equal(one, other)
    assert before.history == after.history
    (run,) = json.loads((tmp_path / "trainproof-report.json").read_text())["reports"]
    names = {one["name"]: one["points"] for one in run["series"]}
    assert (names["batch_loss"], names["epoch_loss"], names["val_loss"]) == (18, 3, 3)
    assert run["facts"]["max_steps"] == 18


class Breaking(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 5:
            raise MemoryError


def test_a_training_that_raises_leaves_its_report(tmp_path: Path) -> None:
    callback = TrainproofCallback(tmp_path)
    with pytest.raises(MemoryError):
        fit(keras.callbacks.CallbackList([callback, Breaking()]))
    assert callback.guardian is not None
    callback.guardian.leave()  # as when the program ends
    (run,) = json.loads((tmp_path / "trainproof-report.json").read_text())["reports"]
    assert next(one["points"] for one in run["series"] if one["name"] == "batch_loss") == 6


def test_batches_that_are_executed_at_once_have_one_loss_and_their_steps() -> None:
    """As the backends do that allow it: Keras names the last batch, and the mean so far."""
    callback = TrainproofCallback()
    callback.set_params({"steps": 10, "epochs": 2})
    callback.on_train_begin()
    for epoch in range(2):
        callback.on_epoch_begin(epoch)
        for batch, mean in ((3, 4.0), (7, 3.0), (9, 2.8)):
            callback.on_train_batch_begin(batch)
            callback.on_train_batch_end(batch, {"loss": mean})
    assert callback.guardian is not None
    columns = {one.tag: one for one in callback.guardian.journal.columns()}
    assert columns["batch_loss"].values.tolist() == pytest.approx([4.0, 2.0, 2.0] * 2)
    assert columns["batch_loss"].steps.tolist() == [4, 8, 10, 14, 18, 20]
