"""Reading large text logs into columns: whole processes, start-up included.

    python -m benchmarks.text_formats --peer-python /path/to/venv-of-0.22/bin/python

Files (a million rows each, made in a temporary folder): a ``trainer_state.json`` as Trainer
writes it, of which a tenth is NaN; the same rows as JSON lines; a CSV of 15 columns, also with a
NaN column; a CSV as Lightning writes it, with training and validation on separate rows.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from .side_by_side import measure, table

OURS = """
import sys
from trainproof.model.artifact import Artifact, Kind
from trainproof.readers import READERS
from trainproof.readers.interface import HEAD, Options
path = sys.argv[1]
with open(path, "rb") as stream:
    head = stream.read(HEAD)
    stream.seek(0)
    reader = next(one for one in READERS if one.claims(path, head))
    artifact = Artifact(".", path, 0, Kind.LOG, reader.name)
    items = list(reader.read(artifact, stream, Options()))
"""

PEER = """
import sys
from trainproof.adapters import parse_log_with_format
parse_log_with_format(sys.argv[1])
"""


def entries(rows: int) -> Iterator[dict[str, float]]:
    """Rows of a Trainer's log: an evaluation every 500, NaN in the last tenth."""
    draw = random.Random(0).random
    for i in range(rows):
        epoch, step = round(i / 1000, 4), i * 10
        if i % 500 == 499:
            loss = round(3 * math.exp(-i / 3e5), 15)
            speed = {"eval_runtime": 12.3456, "eval_samples_per_second": 81.0}
            yield {"epoch": epoch, "eval_loss": loss, **speed, "step": step}
            continue
        lost = i > 0.9 * rows
        yield {
            "epoch": epoch,
            "grad_norm": math.nan if lost else round(draw() * 3, 15),
            "learning_rate": 5e-05 * (1 - i / (1.1 * rows)),
            "loss": math.nan if lost else round(3 * math.exp(-i / 3e5) + draw() * 0.1, 4),
            "step": step,
        }


def write_trainer_state(path: Path, rows: int) -> None:
    """Written row by row: what this process holds counts for those that it starts."""
    with path.open("w") as file:
        file.write('{\n  "best_metric": null,\n  "log_history": [')
        for i, entry in enumerate(entries(rows)):
            text = json.dumps(entry, indent=2).replace("\n", "\n    ")
            file.write(f"{',' if i else ''}\n    {text}")
        file.write(f'\n  ],\n  "max_steps": {rows * 10},\n  "num_train_epochs": 3\n}}')


def write_json_lines(path: Path, rows: int) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries(rows))


def write_csv(path: Path, rows: int) -> None:
    draw = random.Random(0).random
    names = ["step", "epoch", "loss", "val_loss", "lr", *(f"m{i}" for i in range(10))]
    with path.open("w") as file:
        file.write(",".join(names) + "\n")
        for i in range(rows):
            values = [repr(round(draw(), 6)) for _ in range(13)]
            if i > 0.9 * rows:
                values[0] = "nan"
            file.write(f"{i},{i / 1000:.3f}," + ",".join(values) + "\n")


def write_sparse_csv(path: Path, rows: int) -> None:
    draw = random.Random(0).random
    with path.open("w") as file:
        file.write("epoch,lr-Adam,step,train_loss,val_loss\n")
        for i in range(rows):
            value = round(draw(), 6)
            cells = (f",{value},{i},,", f"{i // 100},,{i},{value},", f"{i // 100},,{i},,{value}")
            file.write(cells[0 if i % 3 == 0 else 2 if i % 100 == 99 else 1] + "\n")


FILES: dict[str, Callable[[Path, int], None]] = {
    "trainer_state.json": write_trainer_state,
    "log.jsonl": write_json_lines,
    "wide.csv": write_csv,
    "metrics.csv": write_sparse_csv,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", help="a Python that has trainproof 0.22")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, write in FILES.items():
            path = Path(folder, name)
            write(path, options.rows)
            commands = {"trainproof": [sys.executable, "-c", OURS, str(path)]}
            if options.peer_python:
                commands["0.22"] = [options.peer_python, "-I", "-c", PEER, str(path)]
            print(f"\n{name}: {options.rows} rows, {path.stat().st_size / 1e6:.0f} MB\n")
            print(table(measure(commands, options.repetitions), "trainproof"))
            path.unlink()


if __name__ == "__main__":
    main()
