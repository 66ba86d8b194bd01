"""The second tier: fewer trainings, by frameworks and through the writers they come with.

    python -m benchmarks.calibration.frameworks [--drawn N] [--keep DIRECTORY]

Needs torch, transformers, lightning and tensorboard (the extras ``frameworks`` and ``bench``).
Writes ``FRAMEWORKS.md`` beside this file. Outcomes are judged as in the first tier, on a third
split that no log shows.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
import transformers
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

import trainproof
from trainproof.api import audit
from trainproof.config import Config
from trainproof.pages import fingerprint
from trainproof.rules import REGISTRY

from .outcomes import Outcome, absolute, relative
from .settings import generator
from .statistics import Rate

PAGE = Path(__file__).with_name("FRAMEWORKS.md")
HELD = 256
"""Examples of the evaluation split and of the third split."""

IGNORED = -100


# --- tasks --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A model and its three splits. The loss is a cross-entropy over classes or tokens, or the
    squared error where ``classes`` is 0. ``floor``: about the lowest loss that can be reached."""

    model: nn.Module
    train: TensorDataset
    evaluation: TensorDataset
    third: TensorDataset
    classes: int
    floor: float

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        out = self.model(x)
        if not self.classes:
            return functional.mse_loss(out, y)
        return functional.cross_entropy(out.reshape(-1, self.classes), y.reshape(-1))

    @torch.no_grad()
    def mean(self, split: TensorDataset) -> float:
        self.model.eval()
        loss = float(self.loss(*split.tensors))
        self.model.train()
        return loss


class Letters(nn.Module):
    """A causal transformer over 16 letters, one layer."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(16, width), nn.Embedding(length, width)
        self.block = nn.TransformerEncoderLayer(width, 2, 2 * width, 0.1, batch_first=True)
        self.head = nn.Linear(width, 16)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.embed(x) + self.place.weight
        out: Tensor = self.head(self.block(hidden, src_mask=self.mask, is_causal=True))
        return out


def _language(rng: np.random.Generator, examples: int) -> Task:
    """Text of a Markov chain of order 1, in pieces of 16 letters."""
    chain = rng.dirichlet(np.full(16, 0.2), 16)
    cumulative = chain.cumsum(1)
    text = np.zeros((examples + 2 * HELD, 17), np.int64)
    text[:, 0] = rng.integers(0, 16, len(text))
    for at in range(16):
        drawn = rng.random((len(text), 1))
        text[:, at + 1] = (drawn > cumulative[text[:, at]]).sum(1).clip(max=15)
    letters = torch.from_numpy(text)
    floor = float(-(chain * np.log(np.maximum(chain, 1e-12))).sum(1).mean())
    model = Letters(int(rng.choice([16, 32])), 16)
    return _split(model, letters[:, :-1].contiguous(), letters[:, 1:].contiguous(), 16, floor)


def _images(rng: np.random.Generator, examples: int) -> Task:
    """Noisy patterns of 8 by 8, five classes, by a convolutional network with batch norm."""
    patterns = rng.standard_normal((5, 1, 8, 8))
    y = rng.integers(0, 5, examples + 2 * HELD)
    x = patterns[y] + rng.uniform(0.5, 1.5) * rng.standard_normal((len(y), 1, 8, 8))
    width = int(rng.choice([4, 8]))
    model = nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(float(rng.choice([0, 0.2]))),
        nn.Linear(16 * width, 5),
    )
    return _split(model, torch.from_numpy(x).float(), torch.from_numpy(y), 5, 0.0)


def _curve(rng: np.random.Generator, examples: int) -> Task:
    """A noisy function of four variables."""
    weights, noise = rng.standard_normal((4, 8)), float(rng.uniform(0.05, 0.5))
    x = rng.standard_normal((examples + 2 * HELD, 4))
    y = np.tanh(x @ weights).sum(1, keepdims=True)
    y = y + noise * rng.standard_normal(y.shape)
    width = int(rng.choice([16, 32]))
    model = nn.Sequential(nn.Linear(4, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 1))
    return _split(model, torch.from_numpy(x).float(), torch.from_numpy(y).float(), 0, noise**2)


def _split(model: nn.Module, x: Tensor, y: Tensor, classes: int, floor: float) -> Task:
    def part(of: slice) -> TensorDataset:
        return TensorDataset(x[of], y[of])

    train, held, third = slice(2 * HELD, None), slice(0, HELD), slice(HELD, 2 * HELD)
    return Task(model, part(train), part(held), part(third), classes, floor)


TASKS: Mapping[str, Callable[[np.random.Generator, int], Task]] = {
    "language": _language,
    "images": _images,
    "curve": _curve,
}


# --- settings and faults ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    task: str
    framework: str
    number: int
    examples: int
    batch: int
    rate: float
    schedule: str
    rows: int
    every: int
    evaluations: int
    clip: float

    @property
    def steps(self) -> int:
        return self.rows * self.every

    @property
    def evaluated_every(self) -> int:
        """Steps between two evaluations, a multiple of the cadence."""
        return max(1, self.rows // self.evaluations) * self.every

    @property
    def name(self) -> str:
        return f"{self.framework}-{self.task}-{self.number:03d}"


def draw(task: str, framework: str, number: int) -> Setting:
    rng = generator(f"{framework} {task}", number, "framework")
    return Setting(
        task,
        framework,
        number,
        examples=int(rng.choice([512, 1024, 2048])),
        batch=int(rng.choice([8, 16, 32, 64])),
        rate=float(3e-3 * 10 ** rng.uniform(-0.5, 0.5)),
        schedule=str(rng.choice(["constant", "linear", "cosine"])),
        rows=int(rng.choice([40, 60, 80])),
        every=int(rng.choice([1, 2, 5])),
        evaluations=int(rng.choice([6, 10, 20])),
        clip=float(rng.choice([1.0, 0.0])),
    )


@dataclass(frozen=True, slots=True)
class Fault:
    """``rate`` multiplies the learning rate. ``detached``: the optimizer holds copies of the
    parameters. ``shuffled`` targets. ``ignored``: all labels are -100. ``ascends``: the loss is
    maximised."""

    text: str
    rate: float = 1.0
    detached: bool = False
    shuffled: bool = False
    ignored: bool = False
    ascends: bool = False


CLEAN = "none"
FAULTS = {
    CLEAN: Fault(""),
    "lr-zero": Fault("learning rate 0", rate=0.0),
    "lr-hot": Fault("learning rate 300 times too high", rate=300.0),
    "no-step": Fault("the optimizer holds copies of the parameters", detached=True),
    "targets-shuffled": Fault("targets belong to other inputs", shuffled=True),
    "unsupervised": Fault("all labels are -100", ignored=True),
    "sign-flipped": Fault("the loss is maximised", ascends=True),
}
CERTAIN = frozenset({"lr-zero", "no-step", "unsupervised"})


def _spoiled(task: Task, fault: Fault) -> Task:
    x, y = task.train.tensors
    if fault.shuffled:
        y = y[torch.randperm(len(y))]
    if fault.ignored:
        y = torch.full_like(y, IGNORED)
    train = TensorDataset(x, y)
    return Task(task.model, train, task.evaluation, task.third, task.classes, task.floor)


def _optimizer(task: Task, setting: Setting, fault: Fault) -> torch.optim.Optimizer:
    parameters = list(task.model.parameters())
    if fault.detached:
        parameters = [nn.Parameter(p.detach().clone()) for p in parameters]
        for p in parameters:
            p.grad = torch.zeros_like(p)
    return torch.optim.AdamW(
        parameters, setting.rate * fault.rate, weight_decay=0.0, maximize=fault.ascends
    )


def _scheduler(
    optimizer: torch.optim.Optimizer, setting: Setting
) -> torch.optim.lr_scheduler.LRScheduler:
    warmup = setting.steps // 20
    made: torch.optim.lr_scheduler.LRScheduler = transformers.get_scheduler(
        setting.schedule if setting.schedule != "constant" else "constant_with_warmup",
        optimizer,
        num_warmup_steps=warmup,
        num_training_steps=setting.steps,
    )
    return made


# --- frameworks ---------------------------------------------------------------------------------


class _Wrapped(nn.Module):
    """A task's model with the loss inside, as transformers expects."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.model, self.task = task.model, task

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": self.task.loss(x, labels), "logits": labels.new_zeros(len(labels))}


class _Judge(transformers.TrainerCallback):
    def __init__(self, task: Task, third: list[float], setting: Setting) -> None:
        self.task, self.third, self.every = task, third, setting.evaluated_every

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % self.every == 0:
            self.third.append(self.task.mean(self.task.third))


def _trainer(
    directory: Path, setting: Setting, task: Task, fault: Fault, third: list[float]
) -> None:
    """transformers' ``Trainer``: leaves ``trainer_state.json``."""
    optimizer = _optimizer(task, setting, fault)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = transformers.Trainer(
            model=_Wrapped(task),
            args=transformers.TrainingArguments(
                output_dir=scratch,
                max_steps=setting.steps,
                per_device_train_batch_size=setting.batch,
                per_device_eval_batch_size=HELD,
                logging_steps=setting.every,
                eval_strategy="steps",
                eval_steps=setting.evaluated_every,
                max_grad_norm=setting.clip,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
                remove_unused_columns=False,
                label_names=["labels"],
            ),
            train_dataset=task.train,
            eval_dataset=task.evaluation,
            data_collator=_collated,
            optimizers=(optimizer, _scheduler(optimizer, setting)),
            callbacks=[_Judge(task, third, setting)],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        trainer.save_state()
        state = Path(scratch) / "trainer_state.json"
        (directory / state.name).write_bytes(state.read_bytes())


def _collated(rows: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    return {"x": torch.stack([x for x, _ in rows]), "labels": torch.stack([y for _, y in rows])}


class _Module(lightning.LightningModule):
    def __init__(self, setting: Setting, task: Task, fault: Fault, third: list[float]) -> None:
        super().__init__()
        self.model, self.setting, self.task = task.model, setting, task
        self.fault, self.seen = fault, third

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        loss = self.task.loss(*batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        self.log("val_loss", self.task.loss(*batch))

    def on_validation_epoch_end(self) -> None:
        self.seen.append(self.task.mean(self.task.third))

    def configure_optimizers(self) -> Any:
        optimizer = _optimizer(self.task, self.setting, self.fault)
        scheduler = _scheduler(optimizer, self.setting)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


def _lightning(
    directory: Path, setting: Setting, task: Task, fault: Fault, third: list[float]
) -> None:
    """Lightning's loggers: leave ``metrics.csv`` or an event file, by the number of the run."""
    kinds = (CSVLogger, TensorBoardLogger)
    logger = kinds[setting.number % 2](directory, name="", version="")
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=setting.steps,
        max_epochs=-1,
        logger=logger,
        callbacks=[LearningRateMonitor(logging_interval="step")],
        log_every_n_steps=setting.every,
        val_check_interval=setting.evaluated_every,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=setting.clip or None,
    )
    loader = DataLoader(task.train, setting.batch, shuffle=True)
    trainer.fit(_Module(setting, task, fault, third), loader, DataLoader(task.evaluation, HELD))


def _loop(directory: Path, setting: Setting, task: Task, fault: Fault, third: list[float]) -> None:
    """A hand-written loop with torch's ``SummaryWriter``."""
    optimizer = _optimizer(task, setting, fault)
    scheduler = _scheduler(optimizer, setting)
    with SummaryWriter(str(directory)) as writer:
        for step, batch in enumerate(_batches(task, setting), 1):
            task.model.zero_grad()
            loss = task.loss(*batch)
            loss.backward()
            limit = setting.clip or float("inf")
            norm = nn.utils.clip_grad_norm_(task.model.parameters(), limit)
            optimizer.step()
            if step % setting.every == 0:
                writer.add_scalar("train/loss", loss.item(), step)
                writer.add_scalar("train/lr", scheduler.get_last_lr()[0], step)
                writer.add_scalar("train/grad_norm", norm.item(), step)
            scheduler.step()
            if step % setting.evaluated_every == 0:
                writer.add_scalar("val/loss", task.mean(task.evaluation), step)
                third.append(task.mean(task.third))


def _tuned(directory: Path, setting: Setting, task: Task, fault: Fault, third: list[float]) -> None:
    """The trainer once more, on the model that it has just trained, at a tenth of the rate: a loss
    that has nothing left to gain."""
    with tempfile.TemporaryDirectory() as before:
        _trainer(Path(before), setting, task, FAULTS[CLEAN], [])
    third[:] = [task.mean(task.third)]
    _trainer(directory, replace(setting, rate=setting.rate / 10), task, fault, third)


def _restarts(
    directory: Path, setting: Setting, task: Task, fault: Fault, third: list[float]
) -> None:
    """A loop whose learning rate restarts four times, with ``add_scalar`` of rounded numbers."""
    optimizer = _optimizer(task, setting, fault)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        optimizer, max(1, setting.steps // 4)
    )
    with SummaryWriter(str(directory)) as writer:
        for step, batch in enumerate(_batches(task, setting), 1):
            task.model.zero_grad()
            loss = task.loss(*batch)
            loss.backward()
            optimizer.step()
            if step % setting.every == 0:
                writer.add_scalar("train/loss", round(loss.item(), 2), step)
                writer.add_scalar("train/lr", scheduler.get_last_lr()[0], step)
            scheduler.step()
            if step % setting.evaluated_every == 0:
                writer.add_scalar("val/loss", round(task.mean(task.evaluation), 2), step)
                third.append(task.mean(task.third))


def _staged(
    directory: Path, setting: Setting, task: Task, fault: Fault, third: list[float]
) -> None:
    """A curriculum in two stages: an eighth of the examples first,
    then all of them. A line of text for each row."""
    optimizer = _optimizer(task, setting, fault)
    few = TensorDataset(*(part[: len(part) // 8] for part in task.train.tensors))
    half = replace(setting, rows=setting.rows // 2)
    batches = chain(_batches(replace(task, train=few), half), _batches(task, half))
    with (directory / "train.log").open("w") as log:
        for step, batch in enumerate(batches, 1):
            task.model.zero_grad()
            loss = task.loss(*batch)
            loss.backward()
            optimizer.step()
            if step % setting.every == 0:
                log.write(f"INFO trainer: step {step} | loss {loss.item():.3f}\n")
            if step % setting.evaluated_every == 0:
                held = task.mean(task.evaluation)
                log.write(f"INFO trainer: step {step} | val_loss {held:.3f}\n")
                third.append(task.mean(task.third))


def _batches(task: Task, setting: Setting) -> Iterator[list[Tensor]]:
    left = setting.steps
    while left > 0:
        for batch in DataLoader(task.train, setting.batch, shuffle=True):
            if left > 0:
                yield batch
            left -= 1


Framework = Callable[[Path, Setting, Task, Fault, list[float]], None]
FRAMEWORKS: Mapping[str, Framework] = {"trainer": _trainer, "lightning": _lightning, "torch": _loop}
SETUPS: Mapping[str, Framework] = {"tuned": _tuned, "restarts": _restarts, "staged": _staged}
"""Setups of which the loss looks odd and the training is sound; they get no faults."""


# --- the study ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """A training that happened. ``levels``: rule to the gravest level of its findings."""

    setting: Setting
    fault: str
    outcome: Outcome
    third: tuple[float, ...]
    levels: Mapping[str, str]

    def flagged(self, *levels: str) -> bool:
        return any(level in levels for level in self.levels.values())


def run(root: Path, setting: Setting, name: str, control: Run | None) -> Run:
    directory, fault = root / name / setting.name, FAULTS[name]
    directory.mkdir(parents=True)
    rng = generator(setting.name, setting.number, "data")
    torch.manual_seed(setting.number)
    task = _spoiled(TASKS[setting.task](rng, setting.examples), fault)
    third = [task.mean(task.third)]
    {**FRAMEWORKS, **SETUPS}[setting.framework](directory, setting, task, fault, third)
    third.append(task.mean(task.third))
    if name in CERTAIN:
        outcome = Outcome.FAULTY
    elif control is not None:
        outcome = relative(third, task.floor, control.third)
    else:
        outcome = absolute(third, task.floor, pretrained=setting.framework == "tuned")
    return Run(setting, name, outcome, tuple(third), _levels(directory))


def _levels(directory: Path) -> Mapping[str, str]:
    report = audit(Config(paths=(str(directory),), isolation=False))
    found = [(f.id, str(f.level)) for subject in report.reports for f in subject.findings]
    order = ["INFO", "WARN", "FAIL"]
    return dict(sorted(found, key=lambda finding: order.index(finding[1])))


def study(root: Path, drawn: int, faulty: int) -> list[Run]:
    """``drawn`` settings for each framework or setup and task; the first ``faulty`` of a framework
    get every fault too."""
    runs = []
    for framework in (*FRAMEWORKS, *SETUPS):
        for task in TASKS:
            for number in range(drawn):
                setting = draw(task, framework, number)
                control = run(root, setting, CLEAN, None)
                runs.append(control)
                healthy = framework in FRAMEWORKS and control.outcome is Outcome.HEALTHY
                if number < faulty and healthy:
                    runs += [run(root, setting, name, control) for name in _possible(task)]
    return runs


def _possible(task: str) -> Iterator[str]:
    """A squared error knows no label to ignore."""
    yield from (n for n in FAULTS if n != CLEAN and not (task == "curve" and FAULTS[n].ignored))


def page(runs: list[Run]) -> str:
    healthy = [r for r in runs if r.fault == CLEAN and r.outcome is Outcome.HEALTHY]
    fails, warns = (Rate.of([r.flagged(level) for r in healthy]) for level in ("FAIL", "WARN"))
    versions = ", ".join(f"{m.__name__} {m.__version__}" for m in (torch, transformers, lightning))
    named = Counter(id for r in healthy for id, level in r.levels.items() if level != "INFO")
    lines = [
        "<!-- Generated by benchmarks.calibration.frameworks. Do not edit. -->",
        "",
        "# Calibration with frameworks",
        "",
        f"Measured {datetime.now(UTC).date()} with trainproof {trainproof.__version__}, thresholds"
        f" `{fingerprint(REGISTRY)}`, {versions}.",
        f"{len(runs)} small trainings by {', '.join(FRAMEWORKS)} through their own writers, and by"
        f" setups with odd losses ({', '.join(SETUPS)});"
        " outcomes on a third split that no log shows. See CALIBRATION.md for the first tier.",
        "",
        f"- healthy runs with a FAIL: {_text(fails)}",
        f"- healthy runs with a WARN: {_text(warns)}"
        + "".join(f", {id} {count}" for id, count in sorted(named.items())),
        "",
        "| fault | what is wrong | harmed | FAIL | FAIL or WARN | impaired: FAIL or WARN |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(name, runs) for name in FAULTS if name != CLEAN]
    return "\n".join(lines) + "\n"


def _row(name: str, runs: list[Run]) -> str:
    mine = [r for r in runs if r.fault == name]
    harmed = [r for r in mine if r.outcome is Outcome.FAULTY]
    impaired = [r for r in mine if r.outcome is Outcome.IMPAIRED]
    fail = Rate.of([r.flagged("FAIL") for r in harmed])
    flagged = Rate.of([r.flagged("FAIL", "WARN") for r in harmed])
    less = f"{sum(r.flagged('FAIL', 'WARN') for r in impaired)}/{len(impaired)}"
    text = FAULTS[name].text
    cells = (name, text, f"{len(harmed)} of {len(mine)}", _text(fail), _text(flagged), less)
    return f"| {' | '.join(cells)} |"


def _text(rate: Rate) -> str:
    low, high = rate.bounds
    return f"{rate.events}/{rate.trials} ({low:.1%} – {high:.1%})"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--drawn", type=int, default=24, help="settings per framework and task")
    parser.add_argument("--faulty", type=int, default=5, help="of which so many get every fault")
    parser.add_argument("--keep", type=Path, help="an empty directory that keeps the logs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as scratch:
        runs = study(options.keep or Path(scratch), options.drawn, options.faulty)
    PAGE.write_text(page(runs), "utf-8")
    counts = Counter(f"{r.fault}: {r.outcome}" for r in runs)
    print(json.dumps(dict(sorted(counts.items())), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
