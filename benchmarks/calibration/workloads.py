"""What is trained: small tasks with real data-generating processes and real objectives.

Each task has three splits: training, evaluation (what a log may show) and a third one that only
the judgement of the outcome sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from . import networks
from .networks import Array, Dense, Head, Rng
from .settings import Setting

EVALUATED = 256
"""Examples of the evaluation split and of the third split."""


class Split(StrEnum):
    TRAIN = "train"
    EVAL = "eval"
    THIRD = "third"


class Defect(StrEnum):
    """Faults of the data, the objective or the model: what the training loop cannot see."""

    SHUFFLED_TARGETS = "targets shuffled"
    UNSUPERVISED = "no label counts"
    SOFTMAX_TWICE = "softmax twice"
    SORTED = "sorted data, not shuffled"
    SAME_ORDER = "same order each epoch"
    EVAL_LEAK = "evaluation data in training"
    BATCHNORM_FROZEN = "batch norm statistics never updated"
    BATCHNORM_SINGLE = "batch norm on single examples"
    ADAPTER_CUT = "adapter cut from the graph"


@dataclass(frozen=True, slots=True)
class Scores:
    """Mean loss, the metric where the task has one, and further quantities by name.

    ``total``: the loss is logged as such; without it only the parts are.
    """

    loss: float
    metric: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    total: bool = True


class Task(Protocol):
    """``size``: parameters. ``floor``: about the lowest loss that can be reached. ``metric``: what
    a log calls it. ``frozen``: parameters that the fault of a frozen layer freezes. ``epoch``:
    batches per epoch."""

    size: int
    floor: float
    metric: str
    epoch: int

    def start(self, rng: Rng) -> Array: ...

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        """Of the next training batch."""
        ...

    def score(self, w: Array, split: Split) -> Scores: ...

    def frozen(self) -> slice: ...


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Inputs and targets; a row is an example."""

    x: Array
    y: Array

    def rows(self, index: slice | Array) -> Data:
        return Data(self.x[index], self.y[index])


@dataclass(slots=True)
class Sampler:
    """Indices of batches: all examples once in an epoch, in a new order each time.

    ``sequential``: in the order of the data. ``fixed``: in the same random order each time.
    """

    examples: int
    batch: int
    sequential: bool = False
    fixed: bool = False
    at: int = field(default=0, init=False)
    order: np.ndarray | None = field(default=None, init=False)

    def __call__(self, rng: Rng) -> np.ndarray:
        if self.order is None or self.at + self.batch > self.examples:
            self._begin_epoch(rng)
        assert self.order is not None
        self.at += self.batch
        return self.order[self.at - self.batch : self.at]

    def _begin_epoch(self, rng: Rng) -> None:
        self.at = 0
        if self.order is None or not (self.sequential or self.fixed):
            self.order = np.arange(self.examples)
            if not self.sequential:
                rng.shuffle(self.order)


class Supervised:
    """A network, a head and data. ``view`` changes a batch: augmentation, noise. Those of the
    held-out splits are always changed in the same way.

    ``meant`` is the objective, ``head`` what is trained on and ``scored`` what a log shows of the
    evaluation split: with some faults they differ.
    """

    def __init__(
        self,
        setting: Setting,
        net: Dense,
        head: Head,
        make: Callable[[Rng, int], Data],
        *,
        floor: float,
        metric: str = "",
        view: Callable[[Data, Rng], Data] | None = None,
        defect: Defect | None = None,
    ) -> None:
        self.net, self.view = net, view
        self.meant = self.head = self.scored = head
        self.size, self.floor, self.metric = net.end, floor, metric
        rng = setting.rng("data")
        whole = make(rng, setting.examples + 2 * EVALUATED)
        train = whole.rows(slice(2 * EVALUATED, None))
        self.splits = {
            Split.TRAIN: train.rows(slice(None, EVALUATED)),
            Split.EVAL: whole.rows(slice(0, EVALUATED)),
            Split.THIRD: whole.rows(slice(EVALUATED, 2 * EVALUATED)),
        }
        self.data = train
        batch = min(setting.batch, setting.examples // 4)
        self.sampler = Sampler(setting.examples, batch)
        if defect is not None:
            self._spoil(defect, setting, rng)
        self.epoch = max(1, self.sampler.examples // self.sampler.batch)

    def _spoil(self, defect: Defect, setting: Setting, rng: Rng) -> None:
        match defect:
            case Defect.SHUFFLED_TARGETS:
                self.data = Data(self.data.x, rng.permutation(self.data.y))
            case Defect.UNSUPERVISED:
                # transformers' Trainer meets a mean over nothing; others guard the division
                self.head = networks.unsupervised(math.nan if setting.writer == "hf" else 0.0)
                self.scored = self.head
            case Defect.SOFTMAX_TWICE:
                self.head = self.scored = networks.softmax_twice
            case Defect.SORTED:
                self.data = self.data.rows(
                    np.argsort(self.data.y.reshape(len(self.data.y), -1)[:, 0])
                )
                self.sampler.sequential = True
            case Defect.SAME_ORDER:
                self.sampler.fixed = True
            case Defect.EVAL_LEAK:
                held = self.splits[Split.EVAL]
                self.data = Data(
                    np.concatenate([self.data.x, held.x]), np.concatenate([self.data.y, held.y])
                )
                self.sampler.examples += EVALUATED
            case Defect.BATCHNORM_FROZEN if self.net.running is not None:
                self.net.running.momentum = 0.0
            case Defect.BATCHNORM_SINGLE:
                self.sampler.batch = 1
            case _:
                raise ValueError(f"{setting.workload} knows no fault {defect!r}")

    def start(self, rng: Rng) -> Array:
        w = np.zeros(self.size, np.float32)
        self.net.start(rng, w)
        return w

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        batch = self.data.rows(self.sampler(rng))
        if self.view is not None:
            batch = self.view(batch, rng)
        out, tape = self.net(w, batch.x, rng)
        judged = self.head(out, batch.y)
        grad = np.zeros(self.size, np.float32)
        self.net.backward(w, tape, judged.dout, grad)
        return Scores(judged.loss, judged.metric), grad

    def score(self, w: Array, split: Split) -> Scores:
        """The third split is always judged by the objective that was meant."""
        data = self.splits[split]
        if self.view is not None:
            data = self.view(data, np.random.default_rng(7))
        head = self.meant if split is Split.THIRD else self.scored
        judged = head(self.net(w, data.x)[0], data.y)
        return Scores(judged.loss, judged.metric)

    def frozen(self) -> slice:
        """The first layer."""
        matrix, bias = self.net.layers[0]
        return slice(matrix.start, bias.stop)
