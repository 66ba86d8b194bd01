"""Published runs that reached their target, logged to a guardian row by row: which would have been
stopped? Every stop is false.

    python -m benchmarks.replay DIRECTORY [--seconds 240]

DIRECTORY is that of ``benchmarks.population``. The order is random (with a fixed seed), so that a
replay that is cut by the time it may take is a sample.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.population import Subject, subjects
from trainproof.guardian import Guardian
from trainproof.model.outcome import Level

ROWS = 3000
"""Rows of one run that are logged."""


def replay(subject: Subject) -> tuple[Guardian, int]:
    """The guardian at the end of the run, or where it stopped it, and the rows of the run."""
    rows: dict[int, dict[str, float]] = defaultdict(dict)
    for one in subject.view.series:
        pairs = zip(one.steps[:ROWS].tolist(), one.values[:ROWS].tolist(), strict=True)
        for step, value in pairs:
            rows[step][one.tag] = value
    guardian = Guardian(policy="stop_on_fail")
    for step in sorted(rows):
        guardian.log(step, rows[step])
        if guardian.should_stop:
            break
    return guardian, len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=240.0)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    everything = list(subjects(options.directory, "both"))
    random.Random(0).shuffle(everything)
    begin, done, stopped = time.monotonic(), Counter[str](), Counter[str]()
    for subject in everything:
        if time.monotonic() - begin > options.seconds:
            break
        guardian, rows = replay(subject)
        done[subject.population] += 1
        if guardian.should_stop and guardian.report is not None:
            stopped[subject.population] += 1
            found = [one.id for _, one in guardian.report.findings() if one.level is Level.FAIL]
            place = f"row {guardian.journal.rows} of {rows}"
            print(f"{subject.population}, {subject.name}: {place}: {', '.join(found)}")
    for population, count in sorted(done.items()):
        print(f"{population:<30} {stopped[population]:>4} of {count:>5} stopped")
    print(f"{'all':<30} {stopped.total():>4} of {done.total():>5} of {len(everything):,} runs")


if __name__ == "__main__":
    main()
