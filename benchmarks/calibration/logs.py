"""Histories in the formats that people's writers leave."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.support.tfevents import WALL, event, simple, summary, version

from .training import History, Row
from .workloads import Split

Files = Mapping[str, bytes]
"""Path below the directory of the run to content."""

Names = Mapping[tuple[Split, str], str]

SECONDS = 0.5
"""Between two steps, in the clock of an event file."""


def files(history: History, *, wrong_best: bool = False) -> Files:
    """The log of a training in the format of its setting."""
    match history.setting.writer:
        case "hf":
            return {"trainer_state.json": trainer_state(history, wrong_best=wrong_best)}
        case "keras":
            return {"training.csv": _keras(history)}
        case "lightning":
            return {"metrics.csv": _lightning(history)}
        case "jsonl":
            return {"log.jsonl": _jsonl(history)}
        case "tfevents":
            return _event_files(history)
        case "text":
            return {"train.log": _text(history)}


def write(directory: Path, contents: Files) -> None:
    for name, content in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _rounded(history: History, row: Row) -> dict[str, float]:
    """As printed: learning rates and norms keep their digits in most writers."""
    digits = history.setting.digits
    if digits is None:
        return dict(row.values)
    return {
        name: value if name in ("lr", "grad_norm", "loss_scale") else round(value, digits)
        for name, value in row.values.items()
    }


# --- transformers' Trainer ----------------------------------------------------------------------

_HF = {"lr": "learning_rate"}


def trainer_state(history: History, *, wrong_best: bool = False) -> bytes:
    """``wrong_best``: the comparison of evaluations ran the wrong way."""
    s = history.setting
    rows = [_hf_row(history, row) for row in history.rows]
    state: dict[str, object] = {
        "best_metric": None,
        "best_model_checkpoint": None,
        "epoch": rows[-1]["epoch"],
        "eval_steps": s.steps // s.evaluations if s.evaluations else 500,
        "global_step": s.steps,
        "is_hyper_param_search": False,
        "is_local_process_zero": True,
        "is_world_process_zero": True,
        "log_history": rows,
        "logging_steps": s.every,
        "max_steps": s.steps,
        "num_train_epochs": math.ceil(history.epochs),
        "save_steps": 500,
        "stateful_callbacks": {},
        "total_flos": 0.0,
        "train_batch_size": s.batch,
        "trial_name": None,
        "trial_params": None,
    }
    scored = [row for row in rows if math.isfinite(row.get("eval_loss", math.nan))]
    if scored and (wrong_best or s.number % 2):
        choose = max if wrong_best else min
        best = choose(scored, key=lambda row: row["eval_loss"])
        state["best_metric"] = best["eval_loss"]
        state["best_model_checkpoint"] = f"out/checkpoint-{best['step']}"
    return (json.dumps(state, indent=2, sort_keys=True) + "\n").encode()


def _hf_row(history: History, row: Row) -> dict[str, float]:
    """The Trainer rounds the training loss to four digits and nothing else."""
    prefix = "eval_" if row.split is Split.EVAL else ""
    values = {prefix + _HF.get(name, name): value for name, value in row.values.items()}
    if "loss" in values and history.setting.digits is not None:
        values["loss"] = round(values["loss"], 4)
    return {**values, "epoch": round(row.epoch, 4), "step": row.step}


# --- tables -------------------------------------------------------------------------------------


def _keras(history: History) -> bytes:
    """``CSVLogger``: one row for an epoch, with its evaluation, counted from 0."""
    merged: dict[int, dict[str, float]] = {}
    for row in history.rows:
        prefix = "val_" if row.split is Split.EVAL else ""
        into = merged.setdefault(row.step, {})
        into |= {
            prefix + _HF.get(name, name): value for name, value in _rounded(history, row).items()
        }
    columns = sorted({name for values in merged.values() for name in values})
    table = [[i, *(values.get(c, "") for c in columns)] for i, values in enumerate(merged.values())]
    return _csv(["epoch", *columns], table)


def _lightning(history: History) -> bytes:
    """``CSVLogger``: train and validation in rows of their own, empty cells for the rest."""
    rows = [
        {
            **{_fused(row.split, name): v for name, v in _rounded(history, row).items()},
            "epoch": int(row.epoch),
            "step": row.step,
        }
        for row in history.rows
    ]
    columns = sorted({name for row in rows for name in row})
    return _csv(columns, [[row.get(c, "") for c in columns] for row in rows])


def _fused(split: Split, name: str) -> str:
    if name in ("lr", "grad_norm", "loss_scale"):
        return name
    return f"{'val' if split is Split.EVAL else 'train'}_{name}"


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


# --- lines --------------------------------------------------------------------------------------


def _jsonl(history: History) -> bytes:
    """Home-made: an object a line, ``val_`` before what was evaluated."""
    lines = (
        {
            "step": row.step,
            **{_bare(row.split, name): value for name, value in _rounded(history, row).items()},
        }
        for row in history.rows
    )
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _bare(split: Split, name: str) -> str:
    return f"val_{name}" if split is Split.EVAL else name


def _text(history: History) -> bytes:
    """Printed lines such as ``step 10 | loss 2.3021 | lr 1.00e-03``."""
    return "".join(_line(history, row) for row in history.rows).encode()


def _line(history: History, row: Row) -> str:
    digits = 4 if history.setting.digits is None else history.setting.digits
    parts = [
        f"{_bare(row.split, name)} {value:.2e}"
        if name in ("lr", "loss_scale")
        else f"{_bare(row.split, name)} {value:.{digits}f}"
        for name, value in row.values.items()
    ]
    return " | ".join([f"step {row.step}", *parts]) + "\n"


# --- event files --------------------------------------------------------------------------------


def _event_files(history: History) -> Files:
    """torch's ``SummaryWriter``: an event for each scalar, a new file for each process."""
    cut = len(history.rows) if history.resumed_at is None else history.resumed_at
    shards = [history.rows[:cut], history.rows[cut:]]
    return {
        f"events.out.tfevents.{int(WALL) + 10000 * n}.host.{n}.0": _events(shard, n)
        for n, shard in enumerate(shards)
        if shard
    }


def _events(rows: Sequence[Row], process: int) -> bytes:
    wall = WALL + 10000 * process
    return version() + b"".join(
        event(summary(simple(_tag(row.split, name), value)), step=row.step, wall=wall + SECONDS * i)
        for i, row in enumerate(rows)
        for name, value in row.values.items()
    )


def _tag(split: Split, name: str) -> str:
    return f"{'val' if split is Split.EVAL else 'train'}/{name}"
