"""Reading large text logs into columns: whole processes, start-up included.

    python -m benchmarks.text_formats --peer-python /path/to/venv-of-0.22/bin/python \\
        --pandas-python /path/to/venv-with-pandas/bin/python --text-mb 1000

Files (a million rows each, made in a temporary folder): a ``trainer_state.json`` as Trainer
writes it, of which a tenth is NaN; the same rows as JSON lines; a CSV of 15 columns, also with a
NaN column; a CSV as Lightning writes it, with training and validation on separate rows. And console
text of the given size: a record of training in about 400 bytes of other output.

Peers: 0.22; for JSON the standard library, which only parses; for tables and JSON lines pandas; for
text one regular expression that knows the format, line by line, as people write it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
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


JSON = """
import json, sys
with open(sys.argv[1]) as file:
    rows = [json.loads(line) for line in file] if sys.argv[1].endswith("l") else json.load(file)
"""

PANDAS = """
import sys
import pandas
path = sys.argv[1]
pandas.read_json(path, lines=True) if path.endswith("jsonl") else pandas.read_csv(path)
"""

EXPRESSION = """
import re, sys
line = re.compile(r"step (\\d+): loss ([\\d.]+|nan), lr ([\\d.e-]+), grad norm ([\\d.]+)")
found = []
with open(sys.argv[1]) as file:
    for text in file:
        if match := line.search(text):
            found.append(tuple(map(float, match.groups())))
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


def write_text(path: Path, megabytes: int) -> None:
    draw = random.Random(0).random
    other = (
        "2024-01-01 10:00:{s:02} INFO data.loader: worker 3 opened shard {i} of 4096 (prefetch 2)\n"
        "2024-01-01 10:00:{s:02} INFO trainer: memory allocated 41.2GiB, reserved 63.9GiB\n"
        "[rank0]:W0101 10:00:{s:02} torch/_dynamo/convert_frame.py:844] cache size limit reached\n"
        "Saving nothing this time; the next checkpoint is due at the end of the epoch\n"
    )
    size = i = 0
    with path.open("w") as file:
        while size < megabytes * 1_000_000:
            loss = 3 * math.exp(-i / 3e5) + draw() * 0.1
            record = f"step {i}: loss {loss:.4f}, lr {3e-4:.2e}, grad norm {draw():.3f}\n"
            size += file.write(record + other.format(s=i % 60, i=i))
            i += 1


FILES: dict[str, Callable[[Path, int], None]] = {
    "trainer_state.json": write_trainer_state,
    "log.jsonl": write_json_lines,
    "wide.csv": write_csv,
    "metrics.csv": write_sparse_csv,
}
TEXT = "train.log"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", help="a Python that has trainproof 0.22")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pandas-python", help="a Python that has pandas")
    parser.add_argument("--text-mb", type=int, default=100, help="size of the console text")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", choices=[*FILES, TEXT], help="one of the files")
    options = parser.parse_args()
    files = {name: (write, options.rows) for name, write in FILES.items()}
    files[TEXT] = (write_text, options.text_mb)
    with tempfile.TemporaryDirectory() as folder:
        for name in [options.only] if options.only else files:
            write, size = files[name]
            path = Path(folder, name)
            write(path, size)
            commands = {"trainproof": [sys.executable, "-c", OURS, str(path)]}
            commands |= peers(path, options.peer_python, options.pandas_python)
            print(f"\n{name}: {path.stat().st_size / 1e6:.0f} MB\n")
            print(table(measure(commands, options.repetitions), "trainproof"))
            path.unlink()


def peers(path: Path, peer: str | None, pandas: str | None) -> Mapping[str, list[str]]:
    """What else reads the file, by name; without the Pythons that are not there."""
    commands: dict[str, list[str]] = {}
    if peer:
        commands["0.22"] = [peer, "-I", "-c", PEER, str(path)]
    if path.suffix in (".json", ".jsonl"):
        commands["json"] = [sys.executable, "-I", "-c", JSON, str(path)]
    if pandas and path.suffix in (".jsonl", ".csv"):
        commands["pandas"] = [pandas, "-I", "-c", PANDAS, str(path)]
    if path.name == TEXT:
        commands["one expression"] = [sys.executable, "-I", "-c", EXPRESSION, str(path)]
    return commands


if __name__ == "__main__":
    main()
