"""The callback inside a real Lightning trainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pl = pytest.importorskip("lightning.pytorch")

from trainproof.guardian import core
from trainproof.guardian.lightning import TrainproofCallback, of_epoch
from trainproof.model.data import RunView
from trainproof.model.report import Verdict

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning"),
]


class Module(pl.LightningModule):
    def __init__(self, lr: float = 0.05) -> None:
        super().__init__()
        self.lr = lr
        self.body = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(16, 1)
        )
        self.order: list[float] = []

    def training_step(self, batch: Any, _: int) -> Any:
        inputs, targets = batch
        self.order += inputs[:, 0].tolist()
        loss = torch.nn.functional.mse_loss(self.body(inputs).squeeze(-1), targets)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, _: int) -> None:
        inputs, targets = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.body(inputs).squeeze(-1), targets))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def fit(
    home: Path, callback: TrainproofCallback | None, *, lr: float = 0.05, **options: Any
) -> tuple[Module, Any]:
    workers, kind = options.pop("workers", 0), options.pop("kind", Module)
    pl.seed_everything(5, verbose=False)
    inputs = torch.randn(64, 8)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=workers)
    module = kind(lr)
    settings: dict[str, Any] = {"max_epochs": 4, "log_every_n_steps": 1}
    trainer = pl.Trainer(
        default_root_dir=home,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[] if callback is None else [callback],
        **(settings | options),
    )
    validation = torch.utils.data.DataLoader(data, batch_size=32)
    trainer.fit(module, loader, validation)
    return module, trainer


def test_a_run_is_bit_identical_with_and_without_the_callback(tmp_path: Path) -> None:
    for workers in (0, 2):
        epochs = {"max_epochs": 2, "workers": workers}
        plain, _ = fit(tmp_path, None, **epochs)
        watched, _ = fit(tmp_path, TrainproofCallback("stop_on_fail"), **epochs)
        pairs = zip(plain.state_dict().values(), watched.state_dict().values(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
        assert plain.order == watched.order
        assert len(plain.order) == 128


def test_the_report_stands_beside_the_run(tmp_path: Path) -> None:
    callback = TrainproofCallback()
    fit(tmp_path, callback)
    report = json.loads((tmp_path / "trainproof-report.json").read_text())
    (run,) = report["reports"]
    names = {one["name"]: one["points"] for one in run["series"]}
    assert names["train_loss_step"] == 32
    assert names["train_loss_epoch"] == 4
    assert names["val_loss"] == 4
    assert names["step_time"] == names["loader_time"] == 32
    assert run["facts"]["max_steps"] == 32
    assert run["facts"]["steps_per_epoch"] == 8


def test_a_training_that_diverges_is_stopped(tmp_path: Path) -> None:
    callback = TrainproofCallback("stop_on_fail")
    _, trainer = fit(tmp_path, callback, lr=30.0, max_epochs=30)
    assert trainer.global_step < 120
    assert callback.guardian is not None
    assert callback.guardian.verdict is Verdict.FAIL


def test_accumulated_losses_are_those_of_a_batch(tmp_path: Path) -> None:
    callbacks = [TrainproofCallback(), TrainproofCallback()]
    for callback, batches in zip(callbacks, (1, 2), strict=True):
        fit(tmp_path, callback, lr=0.0, max_epochs=1, accumulate_grad_batches=batches)
    first = [guardian.report.reports[0].series for c in callbacks if (guardian := c.guardian)]
    losses = [next(one for one in series if one.name == "train_loss_step") for series in first]
    assert losses[0].first == pytest.approx(losses[1].first)
    assert losses[0].points == losses[1].points == 8


def test_a_fault_in_the_callback_does_not_stop_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> RunView:
        raise RuntimeError("a bug")

    monkeypatch.setattr(core.Journal, "view", broken)
    _, trainer = fit(tmp_path, TrainproofCallback("stop_on_fail"))
    assert trainer.global_step == 32
    assert "RuntimeError in log: the training goes on" in caplog.text


class Manual(Module):
    """Two steps of an optimizer for each batch, as adversarial training has."""

    automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> Any:
        for _ in range(2):
            loss = super().training_step(batch, index)
            self.optimizers().zero_grad()
            self.manual_backward(loss)
            self.optimizers().step()


def test_steps_of_optimizers_are_not_taken_for_batches(tmp_path: Path) -> None:
    callback = TrainproofCallback()
    _, trainer = fit(tmp_path, callback, kind=Manual)
    assert trainer.global_step == 64
    assert callback.guardian is not None
    assert callback.guardian.facts.max_steps is None
    assert callback.guardian.facts.steps_per_epoch is None


class Adversarial(Module):
    """Two optimizers that take turns, and no loss that is returned."""

    automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> None:
        for optimizer in self.optimizers():
            loss = Module.training_step(self, batch, index)
            self.toggle_optimizer(optimizer)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            self.untoggle_optimizer(optimizer)

    def configure_optimizers(self) -> Any:
        layers = self.body[0], self.body[3]
        return [torch.optim.Adam(layer.parameters(), lr=self.lr) for layer in layers]


@pytest.mark.parametrize("kind", [Manual, Adversarial])
def test_manual_optimization_is_bit_identical_too(tmp_path: Path, kind: type[Module]) -> None:
    options = {"kind": kind, "max_epochs": 2}
    plain, _ = fit(tmp_path, None, **options)
    callback = TrainproofCallback("stop_on_fail")
    watched, _ = fit(tmp_path, callback, **options)
    pairs = zip(plain.state_dict().values(), watched.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert plain.order == watched.order
    (run,) = json.loads((tmp_path / "trainproof-report.json").read_text())["reports"]
    names = {one["name"]: one["points"] for one in run["series"]}
    assert (names["train_loss_epoch"], names["val_loss"]) == (2, 2)


class Logging(Module):
    """Logs by step, by epoch and by both, and returns no loss: an epoch may have no end."""

    automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> None:
        loss = super().training_step(batch, index)
        self.optimizers().zero_grad()
        self.manual_backward(loss)
        self.optimizers().step()
        self.log("g_loss", loss)
        self.log("d_loss", 2 * loss, on_step=True, on_epoch=True)


class Returning(Logging):
    """Returns its loss, and logs other things beside it."""

    automatic_optimization = True

    def training_step(self, batch: Any, index: int) -> Any:
        loss = Module.training_step(self, batch, index)
        self.log_dict({"g_loss": loss, "accuracy": 1 / (1 + loss)})
        return loss


@pytest.mark.parametrize(
    ("kind", "steps", "epochs"),
    [
        (Logging, {"g_loss", "d_loss_step"}, {"train_loss_epoch", "d_loss_epoch", "val_loss"}),
        (Returning, {"train_loss_step", "accuracy"}, {"train_loss_epoch", "val_loss"}),
    ],
)
def test_what_a_step_logs_is_taken_at_the_step_and_not_for_the_epoch(
    tmp_path: Path, kind: type[Module], steps: set[str], epochs: set[str]
) -> None:
    callback = TrainproofCallback()
    fit(tmp_path, callback, kind=kind, max_epochs=2)
    assert callback.guardian is not None
    columns = {one.tag: one for one in callback.guardian.journal.columns()}
    assert columns.keys() == steps | epochs | {"step_time", "loader_time"}
    assert {tag: len(columns[tag].steps) for tag in steps} == dict.fromkeys(steps, 16)
    assert {tag: len(columns[tag].steps) for tag in epochs} == dict.fromkeys(epochs, 2)
    first = columns.get("g_loss", columns.get("train_loss_step"))
    assert first is not None
    twice = columns.get("d_loss_step")
    assert twice is None or twice.values.tolist() == pytest.approx(2 * first.values)


class Broken(Module):
    def training_step(self, batch: Any, index: int) -> Any:
        if len(self.order) == 160:
            raise MemoryError
        return super().training_step(batch, index)


def test_a_training_that_raises_leaves_its_report(tmp_path: Path) -> None:
    with pytest.raises(MemoryError):
        fit(tmp_path, TrainproofCallback(), kind=Broken)
    (run,) = json.loads((tmp_path / "trainproof-report.json").read_text())["reports"]
    names = {one["name"]: one["points"] for one in run["series"]}
    assert names["train_loss_step"] == 20


class Strategy:
    def __init__(self, others: bool) -> None:
        self.others, self.asked = others, 0

    def reduce_boolean_decision(self, decision: bool, all: bool) -> bool:
        assert not all
        self.asked += 1
        return decision or self.others


class Ranks:
    """What the callback sees of a trainer of two processes."""

    world_size, global_step, should_stop = 2, 1, False

    def __init__(self, others: bool) -> None:
        self.strategy = Strategy(others)


@pytest.mark.parametrize("others", [True, False])
def test_processes_stop_together(others: bool) -> None:
    callback, trainer = TrainproofCallback("stop_on_fail"), Ranks(others)
    callback.guardian = core.Guardian(policy="stop_on_fail")
    callback._take(trainer, lambda: {"loss": 1.0})
    assert trainer.should_stop is others
    assert trainer.strategy.asked == 1


def test_a_process_with_a_fault_still_gives_its_word() -> None:
    callback, trainer = TrainproofCallback("stop_on_fail"), Ranks(others=True)
    callback.guardian = core.Guardian(policy="stop_on_fail", first=1)

    def broken() -> dict[str, Any]:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        callback._take(trainer, broken)
    assert trainer.should_stop


def test_a_process_without_metrics_still_gives_its_word() -> None:
    """``rank_zero_only`` metrics are those of one process; the others must not leave it waiting."""
    callback, trainer = TrainproofCallback("stop_on_fail"), Ranks(others=True)
    callback.guardian = core.Guardian(policy="stop_on_fail")
    callback._take(trainer, dict)
    assert (trainer.strategy.asked, trainer.should_stop) == (1, True)
    assert callback.guardian.journal.rows == 0


def test_metrics_of_an_epoch_are_told_from_those_of_a_step() -> None:
    metrics = {
        "train_loss": 1,
        "train_loss_step": 2,
        "train_acc_epoch": 3,
        "val_loss": 4,
        "lr": 5,
    }
    assert of_epoch(metrics, held_out=False) == {"train_loss_epoch": 1, "train_acc_epoch": 3}
    assert of_epoch(metrics, held_out=True) == {"val_loss": 4}
