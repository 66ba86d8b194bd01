"""A large dataset of JSON lines: ``preflight`` against trainproof 0.22, and against loading it with
``datasets`` and with pandas, which find nothing and only have the rows in the end.

    python -m benchmarks.preflight --peer-python VENV_OF_0.22/bin/python [--megabytes 300]
        [--loaders-python VENV_OF_DATASETS_AND_PANDAS/bin/python]

Rows hold a prompt of 20 words and an answer of 40. The file is in the page cache for all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from .side_by_side import measure, table

_PANDAS = "import sys, pandas; print(len(pandas.read_json(sys.argv[1], lines=True)))"
_DATASETS = """
import sys, datasets
cache = sys.argv[2]
print(len(datasets.load_dataset("json", data_files=sys.argv[1], split="train", cache_dir=cache)))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python")
    parser.add_argument("--loaders-python")
    parser.add_argument("--ours", default=shutil.which("trainproof"))
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "train.jsonl"
        rows = make_rows(data, options.megabytes * 1_000_000)
        report = str(Path(directory) / "report.json")
        ours = [options.ours, "preflight", str(data), "--quiet", "--no-progress", "--json", report]
        commands = {"ours": ours}
        if options.peer_python:
            peer = str(Path(options.peer_python).with_name("trainproof"))
            commands["0.22"] = [peer, "preflight", str(data), "--json"]
        if options.loaders_python:
            cache = str(Path(directory) / "cache")
            os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
            commands["pandas"] = [options.loaders_python, "-c", _PANDAS, str(data)]
            commands["datasets"] = [options.loaders_python, "-c", _DATASETS, str(data), cache]
        measured = measure(commands, options.repetitions)
        print(f"{rows:,} rows, {data.stat().st_size / 1e6:,.0f} MB")
        print(table(measured, "ours"))
        for name, one in measured.items():
            print(f"{name}: {rows / one.cpu:,.0f} rows a second of CPU time")
        found = json.loads(Path(report).read_bytes())["reports"][0]["measured"]
        if found["rows"] != rows:
            raise SystemExit(f"{found['rows']} rows were read of {rows}")


def make_rows(path: Path, size: int) -> int:
    """Write rows until the file has ``size`` bytes. Their number."""
    noise, rows, written = random.Random(1), 0, 0
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(noise.choices(letters, k=noise.randint(2, 9))) for _ in range(20_000)]
    with path.open("w") as file:
        while written < size:
            prompt = " ".join(noise.choices(words, k=20))
            answer = " ".join(noise.choices(words, k=40))
            written += file.write(json.dumps({"prompt": prompt, "completion": answer}) + "\n")
            rows += 1
    return rows


if __name__ == "__main__":
    sys.exit(main())
