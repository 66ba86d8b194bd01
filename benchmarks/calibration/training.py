"""The training loop, its log, and what can go wrong in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from .networks import Array, Rng
from .optimizers import Optimizer, scheduled
from .settings import Setting
from .workloads import Scores, Split, Task

THIRD_POINTS = 12
"""Times at which the third split is judged, the start and the end apart."""

PRETRAINING = 200
"""Steps of the unlogged training before the log of a pretrained model begins."""

SCALE = 2.0**16
GROWTH = 200
"""First loss scale, and the good steps after which it is doubled."""


class Loss(StrEnum):
    """What a resume forgets."""

    NOTHING = ""
    OPTIMIZER = "optimizer"
    SCHEDULE = "schedule"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class Change:
    """A fault of the loop; the default is none.

    ``lr_factor`` multiplies the learning rate from the progress ``since`` on. ``steps``: the
    optimizer runs. ``zeroes``: gradients are zeroed between steps. ``sign`` of the gradient.
    ``frozen``: a layer is not updated. ``reported``: factor on loss and gradients, as of
    micro-batches that are summed and not averaged. ``hurry``: how many times too fast the schedule
    runs. ``forgets``: by a resume in the middle. ``overflows``: float16 gradients do, at any scale
    of 1 or more. ``averaged``: evaluation is of a moving average that is never updated.
    """

    lr_factor: float = 1.0
    since: float = 0.0
    steps: bool = True
    zeroes: bool = True
    sign: float = 1.0
    frozen: bool = False
    reported: float = 1.0
    hurry: float = 1.0
    forgets: Loss = Loss.NOTHING
    overflows: bool = False
    averaged: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a log. ``values`` by the plain name of the quantity: loss, lr, grad_norm …"""

    step: int
    epoch: float
    split: Split
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """What one training left: log rows, losses of the third split by step, final weights.

    ``resumed_at``: the number of the first row that a second process wrote.
    """

    setting: Setting
    metric: str
    rows: tuple[Row, ...]
    third: tuple[tuple[int, float], ...]
    floor: float
    weights: Array
    start: Array
    epochs: float
    resumed_at: int | None = None


@dataclass(slots=True)
class Meter:
    """Losses between two rows, averaged as the setting says, and the last of everything else."""

    setting: Setting
    total: float = 0.0
    count: int = 0
    running: float | None = None
    last: float = 0.0

    def add(self, loss: float) -> None:
        self.last = loss
        self.running = loss if self.running is None else 0.9 * self.running + 0.1 * loss
        if self.setting.writer == "hf" and not math.isfinite(loss):
            loss = self.total / (1 + self.count)  # logging_nan_inf_filter, on by default
        self.total += loss
        self.count += 1

    def read(self) -> float:
        if self.setting.writer == "hf" or self.setting.average == "window":
            value = self.total / max(1, self.count)
        else:
            value = self.last if self.setting.average == "last" else self.running or 0.0
        self.total, self.count = 0.0, 0
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    step: int
    w: Array
    first: Array
    second: Array
    clock: int


@dataclass(slots=True)
class Loop:
    """One training. ``step`` counts from 1; ``shown`` is subtracted from it in the log."""

    setting: Setting
    task: Task
    change: Change
    w: Array
    rng: Rng
    optimizer: Optimizer
    meter: Meter
    held: Array
    kept: Array
    step: int = 0
    restarted: int = 0
    shown: int = 0
    scale: float = SCALE
    good: int = 0
    norm: float = 0.0
    lr: float = 0.0
    rows: list[Row] = field(default_factory=list)
    third: list[tuple[int, float]] = field(default_factory=list)
    resumed_at: int | None = None
    saved: Saved | None = None

    def run(self) -> None:
        total = self.setting.steps
        judged = _spread(total, THIRD_POINTS)
        evaluated = _aligned(total, self.setting)
        resume_at, saved_at = self._interruption()
        self._judge(0)
        while self.step < total:
            self.step += 1
            scores = self._update()
            if self.step % self.setting.every == 0:
                self._log(scores)
            if self.step in evaluated:
                self._evaluate()
            if self.step in judged:
                self._judge(self.step)
            if self.step == saved_at and self.saved is None:
                self._save()
            if self.step == resume_at and self.resumed_at is None:
                self._resume()

    def _interruption(self) -> tuple[int, int]:
        """The step after which the training is interrupted and that of the last checkpoint."""
        s, middle = self.setting, self.setting.rows // 2 * self.setting.every
        if self.change.forgets or s.resume == "clean":
            return middle, middle
        if s.resume == "rewound":
            return min(s.steps - s.every, middle + s.rows // 10 * s.every), middle
        return 0, 0

    def _update(self) -> Scores:
        scores, grad = self.task.gradient(self.w, self.rng)
        grad *= np.float32(self.change.sign * self.change.reported)
        self.meter.add(scores.loss * self.change.reported)
        if not self.change.zeroes:
            self.held += grad
            grad = self.held.copy()
        fine = True
        if self.setting.half or self.change.overflows:
            grad, fine = self._half(grad)
        self.norm = float(np.sqrt(np.dot(grad, grad)))
        clip = self.setting.clip
        if clip and self.norm > clip:
            grad *= np.float32(clip / self.norm)
        self.lr = self._rate()
        if self.change.frozen:
            grad[self.task.frozen()] = 0
        if self.change.steps and fine:
            self.optimizer.step(self.w, grad, self.lr)
        if self.change.frozen:
            layer = self.task.frozen()
            self.w[layer] = self.kept[layer]
        return scores

    def _half(self, grad: Array) -> tuple[Array, bool]:
        """Through float16 with the dynamic loss scale, and whether the step is taken."""
        factor = self.scale * (1e9 if self.change.overflows else 1.0)
        small = (grad * np.float32(factor)).astype(np.float16).astype(np.float32)
        if not np.isfinite(small).all():
            self.scale, self.good = max(self.scale / 2, 1.0), 0
            return small, False
        used, self.good = self.scale, self.good + 1
        if self.good % GROWTH == 0:
            self.scale *= 2
        return small / np.float32(used), True

    def _rate(self) -> float:
        s = self.setting
        span = s.steps - self.restarted
        progress = (self.step - self.restarted) / span * self.change.hurry
        rate = s.lr * scheduled(s.schedule, min(progress, 1.0), s.warmup)
        return rate * (self.change.lr_factor if self.step / s.steps > self.change.since else 1.0)

    def _log(self, scores: Scores) -> None:
        loss = self.meter.read()
        values = {"loss": loss} if scores.total else {}
        for name, value in scores.parts.items():
            values[name] = value * (self.change.reported if "loss" in name else 1.0)
        if scores.metric is not None and self.setting.log_metric:
            values[self.task.metric] = scores.metric
        if self.setting.log_lr:
            values["lr"] = self.lr
        if self.setting.log_grad_norm:
            values["grad_norm"] = self.norm
        if self.setting.half or self.change.overflows:
            values["loss_scale"] = self.scale
        self._row(Split.TRAIN, values)

    def _evaluate(self) -> None:
        scores = self.task.score(self._deployed(), Split.EVAL)
        values = {**({"loss": scores.loss} if scores.total else {}), **scores.parts}
        if scores.metric is not None and self.setting.log_metric:
            values[self.task.metric] = scores.metric
        self._row(Split.EVAL, values)

    def _row(self, split: Split, values: Mapping[str, float]) -> None:
        step = self.step - self.shown
        self.rows.append(Row(step, step / self.task.epoch, split, values))

    def _judge(self, step: int) -> None:
        self.third.append((step, self.task.score(self._deployed(), Split.THIRD).loss))

    def _deployed(self) -> Array:
        return self.kept if self.change.averaged else self.w

    def _save(self) -> None:
        o = self.optimizer
        self.saved = Saved(self.step, self.w.copy(), o.first.copy(), o.second.copy(), o.clock)

    def _resume(self) -> None:
        """Go on from the checkpoint, as another process with another order of the data."""
        saved = self.saved
        assert saved is not None
        self.step, self.w = saved.step, saved.w
        self.optimizer.first, self.optimizer.second = saved.first, saved.second
        self.optimizer.clock = saved.clock
        self.meter = Meter(self.setting)
        if self.setting.writer == "hf":
            self.rows = [row for row in self.rows if row.step <= saved.step]
        self.resumed_at = len(self.rows)
        match self.change.forgets:
            case Loss.OPTIMIZER:
                self.optimizer.reset()
            case Loss.SCHEDULE:
                self.restarted = self.step
            case Loss.STEP:
                self.shown = self.step


def train(setting: Setting, task: Task, change: Change | None = None) -> History:
    """Deterministic: the same arguments give the same numbers."""
    with np.errstate(all="ignore"):
        w = task.start(setting.rng("start"))
        if setting.pretrained:
            _pretrain(setting, task, w)
        start = w.copy()
        loop = Loop(
            setting,
            task,
            change or Change(),
            w,
            setting.rng("training"),
            Optimizer(setting.optimizer, task.size, setting.weight_decay),
            Meter(setting),
            held=np.zeros(task.size, np.float32),
            kept=start,
        )
        loop.run()
    return History(
        setting,
        task.metric,
        tuple(loop.rows),
        tuple(loop.third),
        task.floor,
        loop.w,
        start,
        setting.steps / task.epoch,
        loop.resumed_at,
    )


def _pretrain(setting: Setting, task: Task, w: Array) -> None:
    optimizer, rng = Optimizer("adam", task.size), setting.rng("pretraining")
    for _ in range(min(PRETRAINING, setting.steps)):
        optimizer.step(w, task.gradient(w, rng)[1], 0.005)


def _spread(total: int, points: int) -> frozenset[int]:
    """Steps at equal distances, the last among them."""
    return frozenset(round(total * (i + 1) / points) for i in range(points))


def _aligned(total: int, setting: Setting) -> frozenset[int]:
    """Steps of the evaluations: rows of the log too."""
    if not setting.evaluations:
        return frozenset()
    distance = max(1, setting.rows // setting.evaluations) * setting.every
    return frozenset(range(distance, total + 1, distance))
