"""Configurations of trainings, drawn one by one: no two runs are replicates of each other."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .networks import Rng
from .optimizers import SCHEDULES

Average = Literal["window", "last", "running"]
Writer = Literal["hf", "keras", "lightning", "jsonl", "tfevents", "text"]
Resume = Literal["no", "clean", "rewound"]

LR = {"sgd": 0.1, "momentum": 0.02, "adam": 0.004, "adamw": 0.004, "rmsprop": 0.002}
"""Peak learning rates that suit small networks with Glorot initialization."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration.

    Task: ``examples`` of training data, ``noise`` of the targets, ``flipped`` share of labels.
    Model: ``width``, ``depth``, ``relu``, ``dropout``. Training: ``batch``, ``optimizer``, peak
    ``lr``, ``schedule`` with a share of ``warmup``, ``weight_decay``, ``clip`` (0: none),
    ``rows`` of the log times ``every`` steps, ``half``: float16 gradients with a dynamic loss
    scale, ``pretrained``: the log begins after another training on the same task, ``resume``:
    interrupted once, with all state. Log: ``evaluations`` (0: train only), ``average`` of the
    losses between rows, printed ``digits`` (None: all), optional columns.
    """

    workload: str
    number: int
    examples: int
    noise: float
    flipped: float
    width: int
    depth: int
    relu: bool
    dropout: float
    batch: int
    optimizer: str
    lr: float
    schedule: str
    warmup: float
    weight_decay: float
    clip: float
    rows: int
    every: int
    half: bool
    pretrained: bool
    resume: Resume
    evaluations: int
    average: Average
    writer: Writer
    digits: int | None
    log_lr: bool
    log_grad_norm: bool
    log_metric: bool

    @property
    def name(self) -> str:
        return f"{self.workload}-{self.number:04d}"

    @property
    def steps(self) -> int:
        return self.rows * self.every

    def rng(self, purpose: str) -> Rng:
        """An independent stream of random numbers for each purpose."""
        return generator(self.workload, self.number, purpose)


def generator(workload: str, number: int, purpose: str) -> Rng:
    key = [zlib.crc32(workload.encode()), number, zlib.crc32(purpose.encode())]
    return np.random.default_rng(key)


def draw(workload: str, number: int, lr_factor: float = 1.0, most_steps: int = 1200) -> Setting:
    """Configuration ``number`` of a workload. ``lr_factor``: what suits its loss."""
    rng = generator(workload, number, "setting")
    optimizer = str(rng.choice(list(LR)))
    rows = round(40 * 10 ** rng.uniform(0, 1))
    every = max(1, min(int(rng.choice([1, 2, 3, 5, 10])), most_steps // rows))
    rows = min(rows, most_steps)
    writer: Writer = rng.choice(
        ["hf", "keras", "lightning", "jsonl", "tfevents", "text"], p=[0.3, 0.1, 0.1, 0.2, 0.2, 0.1]
    ).item()
    evaluations = 0 if rng.random() < 0.3 else min(rows, int(rng.choice([5, 8, 12, 20, 40])))
    if writer == "keras" and evaluations:
        evaluations = rows
    few = 1 + 2 * (rows * every < 300)
    return Setting(
        workload=workload,
        number=number,
        examples=int(rng.choice([200, 400, 800, 1600])),
        noise=float(10 ** rng.uniform(-1.5, 0)),
        flipped=float(rng.choice([0, 0, 0.05, 0.1, 0.2])),
        width=int(rng.choice([8, 16, 32, 48])),
        depth=int(rng.choice([1, 1, 2])),
        relu=bool(rng.random() < 0.5),
        dropout=float(rng.choice([0, 0, 0.1, 0.3])),
        batch=int(rng.choice([4, 8, 16, 32, 64, 128])),
        optimizer=optimizer,
        lr=LR[optimizer] * lr_factor * few * 10 ** rng.uniform(-0.6, 0.4),
        schedule=str(rng.choice(list(SCHEDULES))),
        warmup=float(rng.choice([0, 0, 0.03, 0.1])),
        weight_decay=float(rng.choice([0, 0, 1e-4, 1e-2])),
        clip=float(rng.choice([0, 0, 1.0, 5.0])),
        rows=rows,
        every=every,
        half=bool(rng.random() < 0.15),
        pretrained=bool(rng.random() < 0.08),
        resume=rng.choice(["no", "clean", "rewound"], p=[0.9, 0.06, 0.04]).item(),
        evaluations=evaluations,
        average=rng.choice(["window", "last", "running"], p=[0.55, 0.35, 0.1]).item(),
        writer=writer,
        digits=[None, 4, 3, 2][int(rng.choice(4, p=[0.4, 0.4, 0.12, 0.08]))],
        log_lr=bool(rng.random() < 0.7),
        log_grad_norm=bool(rng.random() < 0.6),
        log_metric=bool(rng.random() < 0.6),
    )
