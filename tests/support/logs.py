"""Small training logs as frameworks write them, made from numbers."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainproof.rules.examples import falling

NAN = float("nan")
WALL = 1_700_000_000_000
"""Milliseconds since 1970."""


def jsonl(path: Path, columns: Mapping[str, Sequence[float]], start: int = 1) -> Path:
    """One row per point with a ``step``; the first row is line 1."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(*columns.values(), strict=True)
    text = "".join(
        json.dumps({"step": start + i, **dict(zip(columns, row, strict=True))}) + "\n"
        for i, row in enumerate(rows)
    )
    path.write_text(text)
    return path


def trainer_state(
    path: Path,
    loss: Sequence[float],
    *,
    every: int = 10,
    max_steps: int | None = None,
    extra: Mapping[str, Sequence[float]] | None = None,
) -> Path:
    """``trainer_state.json`` as the Hugging Face Trainer writes it (indent 2, NaN literals)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    history = [
        {"epoch": (i + 1) / 10, "loss": value, "step": (i + 1) * every}
        | {name: values[i] for name, values in (extra or {}).items()}
        for i, value in enumerate(loss)
    ]
    last = len(loss) * every
    state = {
        "best_metric": None,
        "best_model_checkpoint": None,
        "epoch": len(loss) / 10,
        "global_step": last,
        "is_world_process_zero": True,
        "log_history": history,
        "logging_steps": every,
        "max_steps": max_steps or last,
        "num_train_epochs": 1,
    }
    path.write_text(json.dumps(state, indent=2) + "\n")
    return path


def healthy(path: Path, points: int = 60) -> Path:
    """A run that learns: loss falls, the learning rate decays, gradients are steady."""
    return jsonl(
        path,
        {
            "loss": falling(points),
            "learning_rate": [1e-3 * (1 - i / points) for i in range(points)],
            "grad_norm": [1.0 + 0.1 * (i % 3) for i in range(points)],
        },
    )


def broken(path: Path, points: int = 60, at: int = 40) -> Path:
    """A run whose loss is NaN from the 0-based row ``at`` on."""
    loss = [*falling(points)[:at], *[NAN] * (points - at)]
    return jsonl(path, {"loss": loss})


def mlflow_database(path: Path, runs: Mapping[str, Sequence[float]]) -> None:
    """MLflow's tables, as far as they matter, with a loss for each run."""
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.executescript(
            "CREATE TABLE runs (run_uuid, status, lifecycle_stage);"
            "CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan);"
            "CREATE TABLE params (key, value, run_uuid);"
        )
        for run, losses in runs.items():
            made.execute("INSERT INTO runs VALUES (?, 'FINISHED', 'active')", [run])
            rows = (
                ("train/loss", 0 if math.isnan(v) else v, WALL + i, run, i, math.isnan(v))
                for i, v in enumerate(losses)
            )
            made.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
        made.commit()
