"""What a look costs while a log grows to a million rows: 1,000 rows between two looks.

    python -m benchmarks.watch [--rows 1000000] [--format jsonl|csv]

Prints CPU seconds of the watch and of its worker, by the size that the log had: a look in which
nothing is judged, a judgement, and the mean of both, against an audit of the whole log at each
look.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from trainproof import audit
from trainproof.config import Config
from trainproof.guardian.watch import Watch

STEP = 1000
"""Rows between two looks."""


@dataclass(slots=True)
class Band:
    """Looks at logs of about one size. CPU seconds."""

    looks: list[float] = field(default_factory=list)
    judgements: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return mean(self.looks + self.judgements)


def line(at: int, rows: int, form: str) -> str:
    loss = 1 + 3 * math.exp(-5 * at / rows) + random.gauss(0, 0.05)
    if form == "csv":
        return f"{at},{loss:.6f},{1e-3 * (1 - at / rows):.3e},{1 + random.random():.4f}\n"
    row = {"step": at, "loss": loss, "lr": 1e-3 * (1 - at / rows), "grad_norm": 1 + random.random()}
    return json.dumps(row) + "\n"


def cpu(worker: int | None) -> float:
    """Of this process and of the worker, which still runs, in seconds."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    total = own.ru_utime + own.ru_stime
    if worker is not None:
        fields = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def worker_of(watch: Watch) -> int | None:
    pool = watch._session._judges
    workers = getattr(pool, "workers", [])
    return workers[0].process.pid if workers else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--format", choices=["jsonl", "csv"], default="jsonl")
    options = parser.parse_args()
    random.seed(0)
    bands: dict[int, Band] = {}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        log = Path(home) / f"log.{options.format}"
        log.write_text("step,loss,lr,grad_norm\n" if options.format == "csv" else "")
        watch = Watch(Config(paths=(home,)))
        with log.open("a") as file:
            for first in range(0, options.rows, STEP):
                file.writelines(
                    line(at, options.rows, options.format) for at in range(first, first + STEP)
                )
                file.flush()
                before, report = cpu(worker_of(watch)), watch.report
                watch.poll()
                spent = cpu(worker_of(watch)) - before
                if first < STEP:
                    continue  # the worker starts
                band = bands.setdefault(len(str(first + STEP - 1)), Band())
                (band.looks if watch.report is report else band.judgements).append(spent)
        print(f"watched {options.rows:,} rows in {time.monotonic() - begin:.0f} s")
        print(f"{'rows up to':>12}  {'look':>8}  {'judgement':>20}  {'mean of a look':>14}")
        for digits, band in sorted(bands.items()):
            look = mean(band.looks) if band.looks else 0.0
            judged = mean(band.judgements) if band.judgements else 0.0
            count = f"{1000 * judged:.1f} ms, 1 in {every(band):.0f}"
            size = min(10**digits, options.rows)
            print(f"{size:>12,}  {1000 * look:>5.1f} ms  {count:>20}  {1000 * band.mean:>11.1f} ms")
        last = time.process_time()
        audit(home, isolation=False)
        print(f"audit of the whole log: {1000 * (time.process_time() - last):.0f} ms of CPU")
        worker = worker_of(watch)
        if worker is not None:
            peak = Path(f"/proc/{worker}/status").read_text().partition("VmHWM:")[2].split()[0]
            print(f"peak memory of the worker: {int(peak) / 1024:.0f} MB")
        watch.close()


def every(band: Band) -> float:
    """Looks for each judgement."""
    return (len(band.looks) + len(band.judgements)) / max(1, len(band.judgements))


if __name__ == "__main__":
    main()
