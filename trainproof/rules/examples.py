"""Tiny views for the examples that rules carry and for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from trainproof.model.data import (
    Attempt,
    Axis,
    Column,
    Direction,
    Facts,
    Fault,
    Identity,
    Regime,
    Rewind,
    Role,
    RunView,
    Series,
    Split,
)

IDENTITIES: dict[str, Identity] = {
    "loss": Identity(Role.LOSS, "loss", direction=Direction.LOWER),
    "loss_cls": Identity(Role.LOSS, "loss_cls", component="cls", direction=Direction.LOWER),
    "loss_disc": Identity(Role.LOSS, "loss_disc", component="disc", direction=Direction.LOWER),
    "loss_gen": Identity(Role.LOSS, "loss_gen", component="gen", direction=Direction.LOWER),
    "loss_mel": Identity(Role.LOSS, "loss_mel", component="mel", direction=Direction.LOWER),
    "eval_loss": Identity(Role.LOSS, "loss", Split.EVAL, direction=Direction.LOWER),
    "eval_accuracy": Identity(Role.METRIC, "accuracy", Split.EVAL, direction=Direction.HIGHER),
    "accuracy": Identity(Role.METRIC, "accuracy", direction=Direction.HIGHER),
    "reward": Identity(Role.REWARD, "reward", direction=Direction.HIGHER),
    "fid": Identity(Role.METRIC, "fid", Split.EVAL, direction=Direction.LOWER),
    "reward_std": Identity(Role.OTHER, "reward_std"),
    "rewards/margins": Identity(
        Role.REWARD, "rewards_margins", component="margins", direction=Direction.HIGHER
    ),
    "rewards/accuracies": Identity(Role.METRIC, "rewards_accuracies", direction=Direction.HIGHER),
    "clipped_ratio": Identity(Role.OTHER, "completions_clipped_ratio"),
    "kl": Identity(Role.KL, "kl"),
    "learning_rate": Identity(Role.LR, "learning_rate"),
    "grad_norm": Identity(Role.GRAD_NORM, "grad_norm"),
    "loss_scale": Identity(Role.LOSS_SCALE, "loss_scale"),
    "step_time": Identity(Role.STEP_TIME, "step_time"),
    "loader_time": Identity(Role.LOADER_TIME, "loader_time"),
    "samples_per_second": Identity(Role.THROUGHPUT, "samples_per_second"),
    "entropy": Identity(Role.ENTROPY, "entropy"),
    "gpu_util": Identity(Role.GPU_UTIL, "gpu_util"),
}

HUGGING_FACE = Facts(framework="transformers")


def series(
    tag: str,
    values: Sequence[float],
    steps: Sequence[int] | None = None,
    *,
    artifact: str = "log.jsonl",
    identity: Identity | None = None,
) -> Series:
    """One series as a JSONL reader would give it: a row a line, steps 1, 2, 3 …"""
    count = len(values)
    at = np.arange(1, count + 1) if steps is None else np.asarray(steps, np.int64)
    lines = np.arange(1, count + 1, dtype=np.int64)
    column = Column(tag, at.astype(np.int64), np.asarray(values, np.float64), Axis.STEP, lines)
    return Series(artifact, identity or IDENTITIES[tag], column)


def view(
    *members: Series,
    facts: Facts | None = None,
    faults: tuple[Fault, ...] = (),
    rewinds: tuple[Rewind, ...] = (),
    regime: Regime = Regime.SUPERVISED,
    earlier: Sequence[Attempt] = (),
) -> RunView:
    """A run of one attempt (after the ``earlier`` ones) that holds the given series."""
    last = Attempt(len(earlier), tuple(members))
    return RunView("run", (*earlier, last), facts or Facts(), faults, rewinds, regime)


def beside(run: RunView, *baselines: RunView) -> RunView:
    """``run`` with what it is compared with."""
    return replace(run, baselines=tuple(replace(one, id="baseline") for one in baselines))


def falling(count: int, first: float = 4.0, last: float = 1.0, noise: float = 0.02) -> list[float]:
    """An exponential descent with a deterministic ripple of relative size ``noise``."""
    rate = np.log(first / last) / max(1, count - 1)
    ripple = 1 + noise * np.sin(np.arange(count) * 2.399963)
    values: list[float] = (first * np.exp(-rate * np.arange(count)) * ripple).tolist()
    return values
