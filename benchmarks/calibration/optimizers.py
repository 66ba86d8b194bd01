"""Optimizers as pure vector updates, and learning rate schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from .networks import Array


@dataclass(slots=True)
class Optimizer:
    """``name``: sgd, momentum, adam, adamw or rmsprop. ``clock`` counts the updates."""

    name: str
    size: int
    weight_decay: float = 0.0
    clock: int = 0
    first: Array = field(init=False)
    second: Array = field(init=False)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything, as a resume without the optimizer's state does."""
        self.first = np.zeros(self.size, np.float32)
        self.second = np.zeros(self.size, np.float32)
        self.clock = 0

    def step(self, w: Array, grad: Array, lr: float) -> None:
        """Change ``w`` in place."""
        self.clock += 1
        if self.weight_decay:
            if self.name == "adamw":
                w *= 1 - np.float32(lr * self.weight_decay)
            else:
                grad = grad + np.float32(self.weight_decay) * w
        w -= np.float32(lr) * self._direction(grad)

    def _direction(self, grad: Array) -> Array:
        match self.name:
            case "sgd":
                return grad
            case "momentum":
                self.first = np.float32(0.9) * self.first + grad
                return self.first
            case "rmsprop":
                self.second = np.float32(0.99) * self.second + np.float32(0.01) * grad * grad
                scaled: Array = grad / (np.sqrt(self.second) + np.float32(1e-7))
                return scaled
        self.first += np.float32(0.1) * (grad - self.first)
        self.second += np.float32(0.001) * (grad * grad - self.second)
        mean = self.first / np.float32(1 - 0.9**self.clock)
        square = self.second / np.float32(1 - 0.999**self.clock)
        direction: Array = mean / (np.sqrt(square) + np.float32(1e-8))
        return direction


def _stable_then_decay(t: float) -> float:
    return 1.0 if t < 0.8 else max(0.02, (1 - t) / 0.2)


def _one_cycle(t: float) -> float:
    up = 0.3
    return 0.04 + 0.96 * t / up if t < up else max(0.001, 0.5 * (1 + _cosine((t - up) / (1 - up))))


def _cosine(t: float) -> float:
    return math.cos(math.pi * min(t, 1.0))


SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda t: 1.0,
    "linear": lambda t: max(0.0, 1 - t),
    "cosine": lambda t: 0.5 * (1 + _cosine(t)),
    "stairs": lambda t: 0.3 ** int(min(t, 0.999) * 3),
    "stable-decay": _stable_then_decay,
    "one-cycle": _one_cycle,
    "restarts": lambda t: 0.5 * (1 + _cosine(t * 3 % 1.0)),
    "inverse-root": lambda t: 1 / math.sqrt(1 + 20 * t),
}
"""Name to the share of the peak learning rate, by progress after the warm-up (0 to 1)."""


def scheduled(name: str, progress: float, warmup: float) -> float:
    """Share of the peak at ``progress`` (0 to 1, first and last step) with a linear warm-up."""
    if progress < warmup:
        return max(progress / warmup, 0.02)
    return SCHEDULES[name]((progress - warmup) / (1 - warmup) if warmup < 1 else 1.0)
