"""Many small runs: an audit against a shell loop of trainproof 0.22, its functions in one
process, and one worker against two.

    python -m benchmarks.batch --peer-python VENV_OF_0.22/bin/python [--runs 1000]

Each run directory holds a trainer_state.json of 60 entries and an event file of 300 scalars.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.support.tfevents import event, simple, summary, version

from .side_by_side import Measured, measure, once, table

_PEER = """
import sys, pathlib
from trainproof import cli
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*")):
    if path.is_file():
        sys.argv = ["trainproof", "epoch", "--json", str(path)]
        try:
            cli.main()
        except SystemExit:
            pass
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python")
    parser.add_argument("--ours", default=shutil.which("trainproof"))
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--looped", type=int, default=20, help="runs the shell loop really does")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        make_runs(root, options.runs)
        quiet = ["--json", f"{directory}.json", "--quiet", "--no-progress"]
        commands = {
            f"ours, --jobs {jobs}": [options.ours, "audit", directory, "--jobs", str(jobs), *quiet]
            for jobs in (2, 1)
        }
        if options.peer_python:
            commands["0.22, one process"] = [options.peer_python, "-P", "-c", _PEER, directory]
        measured = measure(commands, options.repetitions)
        if options.peer_python:
            measured["0.22, shell loop"] = looped(options, root)
        print(table(measured, "ours, --jobs 2"))
        Path(f"{directory}.json").unlink(missing_ok=True)


def looped(options: argparse.Namespace, root: Path) -> Measured:
    """``trainproof epoch`` on each file of the first runs, scaled to all of them."""
    peer = str(Path(options.peer_python).with_name("trainproof"))
    files = [f for run in sorted(root.iterdir())[: options.looped] for f in sorted(run.iterdir())]
    one = [once([peer, "epoch", "--json", str(file)]) for file in files]
    scale = options.runs / options.looped
    return Measured(
        sum(m.wall for m in one) * scale,
        sum(m.cpu for m in one) * scale,
        max(m.peak_mb for m in one),
    )


def make_runs(root: Path, count: int) -> None:
    noise = random.Random(1)
    for number in range(count):
        run = root / f"run{number:05d}"
        run.mkdir()
        state = {"global_step": 600, "log_history": _rows(noise), "max_steps": 600}
        (run / "trainer_state.json").write_text(json.dumps(state, indent=2))
        (run / "events.out.tfevents.1700000000.host.1.0").write_bytes(_events(noise))


def _events(noise: random.Random) -> bytes:
    """100 steps of three scalars, each an event of its own, as torch's SummaryWriter does."""
    tags = ("train/loss", "train/learning_rate", "train/grad_norm")
    return version() + b"".join(
        event(summary(simple(tag, _loss(step / 100, noise))), step=step)
        for step in range(1, 101)
        for tag in tags
    )


def _rows(noise: random.Random) -> list[dict[str, float]]:
    return [
        {
            "epoch": i / 10,
            "grad_norm": 1 + noise.random() / 10,
            "learning_rate": 1e-4 * (1 - i / 60),
            "loss": _loss(i / 60, noise),
            "step": 10 * (i + 1),
        }
        for i in range(60)
    ]


def _loss(progress: float, noise: random.Random) -> float:
    return round((1 + 3 * math.exp(-3 * progress)) * (1 + noise.gauss(0, 0.02)), 4)


if __name__ == "__main__":
    sys.exit(main())
