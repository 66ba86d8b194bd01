"""Measure how often the rules are wrong.

    python -m benchmarks.calibration [--peer-python VENV_OF_0.22/bin/python]
        [--population DIRECTORY] [--jobs N] [--keep DIRECTORY]
    python -m benchmarks.calibration --check

Without ``--check``: some 5,000 trainings (ten minutes on one core), then ``CALIBRATION.md`` beside
this file and ``trainproof/data/calibration.json`` are written anew. With it: a sample of them in
one minute, and exit code 1 where more healthy runs of it fail or fewer faults are found than when
everything was measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import trainproof

from . import check, judging, peer, report
from .results import Results
from .runs import FULL, SMALL, Size, all_runs

PAGE = Path(__file__).with_name("CALIBRATION.md")
DATA = Path(trainproof.__file__).with_name("data") / "calibration.json"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="a sample, against what is recorded")
    parser.add_argument("--peer-python", type=Path, help="the Python that has trainproof 0.22")
    parser.add_argument("--population", type=Path, help="published runs, see population.py")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="an empty directory that keeps the logs")
    options = parser.parse_args()
    with _directory(options.keep) as root:
        results = measured(
            root, SMALL if options.check else FULL, options.jobs, options.peer_python
        )
        if options.check:
            problems = check.compare(results, DATA.read_text("utf-8"))
            sys.stdout.writelines(f"calibration: {problem}\n" for problem in problems)
            return int(bool(problems))
        occasion = report.Occasion(datetime.now(UTC).date().isoformat(), trainproof.__version__)
        published = check.population(options.population) if options.population else ""
        PAGE.write_text(report.page(results, occasion, published), "utf-8")
        DATA.write_text(report.data(results, occasion), "utf-8")
    return 0


def measured(root: Path, size: Size, jobs: int, peer_python: Path | None) -> Results:
    """Train and judge. Says on standard error how long each took."""
    begin = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        runs = list(all_runs(root, size, pool))
    trained = time.monotonic()
    judged = judging.judge(root, runs)
    seconds = time.monotonic() - trained
    print(
        f"{len(runs)} trainings in {trained - begin:.0f} s, audited in {seconds:.0f} s",
        file=sys.stderr,
    )
    unread = judging.unread(judged, runs)
    if unread:
        print(f"not read: {len(unread)}, such as {unread[:3]}", file=sys.stderr)
    others = peer.judge(peer_python, root, runs) if peer_python is not None else None
    return Results(runs, judged, others)


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


if __name__ == "__main__":
    sys.exit(main())
