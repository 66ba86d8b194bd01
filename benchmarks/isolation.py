"""What one hostile run costs the others: here, and in the ProcessPoolExecutor of Python itself.

    python -m benchmarks.isolation [--tasks 200] [--repetitions 3]

One run of many holds a file whose reader kills its process, or hangs. ``lost`` counts runs without
a result; ``faulty`` those with a fault, where only the hostile one should have any. ``extra`` is
the time beyond the same runs without it: for the one that hangs, beyond its deadline too, with the
start of a new worker in it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from tests.engine import hostile
from trainproof.engine.limits import Limits
from trainproof.engine.supervisor import supervise
from trainproof.engine.work import judge
from trainproof.model.artifact import Artifact, Kind, Run
from trainproof.model.wire import RunResult, Settings, Task

DEEDS = ("nothing", "segfault", "abort", "exit", "kill", "allocate", "hang")
DEADLINE = 2.0
LIMITS = Limits(step_seconds=DEADLINE, memory_bytes=2 << 30)
SETTINGS = Settings(
    rules=("TP-HOSTILE-NOTHING",), plugins=(hostile.__name__,), memory_bytes=LIMITS.memory_bytes
)
Results = dict[int, RunResult]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    print("| one run of it | lost | faulty | extra s | lost by ProcessPoolExecutor |")
    print("|---|---|---|---|---|")
    plain = 0.0
    for deed in DEEDS:
        with tempfile.TemporaryDirectory() as directory:
            tasks = make_tasks(Path(directory), options.tasks, deed)
            runs = [timed(supervised, tasks) for _ in range(options.repetitions)]
            wall = statistics.median(seconds for seconds, _ in runs)
            worst = min((results for _, results in runs), key=len)
            pooled = "never ends" if deed in ("hang", "allocate") else lost(tasks, pool(tasks))
        plain = plain or wall
        extra = wall - plain - (DEADLINE if deed == "hang" else 0)
        faulty = sum(bool(result.faults) for result in worst.values())
        print(f"| {deed} | {lost(tasks, worst)} | {faulty} | {extra:.2f} | {pooled} |")
    print(f"\n{options.tasks} runs, two workers, {plain:.2f} s where nothing happens")


def make_tasks(root: Path, count: int, deed: str) -> list[Task]:
    """``count`` runs of one tiny file; the middle one does ``deed``."""
    tasks = []
    for number in range(count):
        directory = root / str(number)
        directory.mkdir()
        (directory / "0.hostile").write_text(f"{deed if number == count // 2 else 'nothing'}\n")
        artifact = Artifact(str(directory), "0.hostile", 1, Kind.LOG, "hostile")
        tasks.append(Task(number, Run(".", str(directory), (artifact,))))
    return tasks


def timed(function: Callable[[list[Task]], Results], tasks: list[Task]) -> tuple[float, Results]:
    begin = time.perf_counter()
    results = function(tasks)
    return time.perf_counter() - begin, results


def supervised(tasks: list[Task]) -> Results:
    results: Results = {}
    supervise(tasks, SETTINGS, LIMITS, 2, results.__setitem__)
    return results


class _Silent:
    def at(self, phase: object, item: int = 0, amount: object = None) -> None:
        pass


def _judged(task: Task) -> RunResult:
    return judge(task, SETTINGS, _Silent())


def pool(tasks: Iterable[Task]) -> Results:
    results: Results = {}
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as executor:
        waiting = {task.number: executor.submit(_judged, task) for task in tasks}
        for number, future in waiting.items():
            try:
                results[number] = future.result()
            except BrokenProcessPool:
                continue
    return results


def lost(tasks: list[Task], results: Results) -> int:
    return len(tasks) - len(results)


if __name__ == "__main__":
    sys.exit(main())
