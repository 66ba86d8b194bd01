"""Run commands in turn, in fresh processes, and compare their medians.

A machine is never quiet: only ratios between commands that took turns in one run mean anything.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians over the repetitions: wall and CPU seconds, and the greatest resident set (MB)."""

    wall: float
    cpu: float
    peak_mb: float


def measure(commands: Mapping[str, Sequence[str]], repetitions: int) -> dict[str, Measured]:
    """Each command in turn, ``repetitions`` times over. Exit codes are not judged."""
    seen: dict[str, list[Measured]] = {name: [] for name in commands}
    for _ in range(repetitions):
        for name, command in commands.items():
            seen[name].append(once(command))
    return {name: _median(runs) for name, runs in seen.items()}


def once(command: Sequence[str]) -> Measured:
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = 0
    scale = 1024 if sys.platform == "linux" else 1024**2
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / scale)


def _median(runs: Sequence[Measured]) -> Measured:
    def middle(name: str) -> float:
        return statistics.median(getattr(run, name) for run in runs)

    return Measured(middle("wall"), middle("cpu"), middle("peak_mb"))


def table(measured: Mapping[str, Measured], ours: str) -> str:
    """Markdown; the ratios are the wall and the CPU time of each over those of ``ours``: under
    load the second says more."""
    base = measured[ours]
    rows = [
        f"| {name} | {m.wall:.3f} | {m.cpu:.3f} | {m.peak_mb:.0f} |"
        f" {m.wall / base.wall:.2f} | {m.cpu / base.cpu:.2f} |"
        for name, m in measured.items()
    ]
    head = "| command | wall s | CPU s | peak MB | ratio | CPU ratio |\n|---|---|---|---|---|---|"
    return "\n".join([head, *rows])
