"""Workers that stay between one judging and the next, as a watch needs them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.test_supervisor import LIMITS, PLUGIN, SOUND, run_of
from trainproof.engine.supervisor import Pool
from trainproof.model.data import FaultCode
from trainproof.model.outcome import State
from trainproof.model.wire import RunResult, Settings, Task


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    settings = Settings(rules=SOUND, plugins=(PLUGIN,), memory_bytes=1 << 30, live=True)
    one = Pool(settings, LIMITS, 1)
    yield one
    one.close()


def judged(pool: Pool, *tasks: Task) -> dict[int, RunResult]:
    results: dict[int, RunResult] = {}
    pool.judge(tasks, results.__setitem__)
    return results


def test_one_worker_judges_again_and_again(tmp_path: Path, pool: Pool) -> None:
    task = Task(0, run_of(tmp_path, "nothing"))
    first = judged(pool, task)
    (worker,) = pool.workers
    assert judged(pool, task) == first
    assert judged(pool, Task(7, task.run)).keys() == {7}
    assert pool.workers == [worker]


def test_nothing_to_judge_starts_nobody(pool: Pool) -> None:
    assert judged(pool) == {}
    assert pool.workers == []


def test_a_file_that_kills_costs_itself_each_time_and_nothing_else(
    tmp_path: Path, pool: Pool
) -> None:
    task = Task(0, run_of(tmp_path, "nothing", "segfault", "nothing"))
    for _ in range(2):
        (result,) = judged(pool, task).values()
        assert [(f.artifact, f.code) for f in result.faults] == [("1.hostile", FaultCode.CRASHED)]
        assert [cell.state for cell in result.cells] == [State.CLEAN, State.CLEAN]


def test_a_worker_that_died_with_nothing_to_do_is_replaced_and_blames_nobody(
    tmp_path: Path, pool: Pool
) -> None:
    task = Task(0, run_of(tmp_path, "nothing"))
    first = judged(pool, task)
    (worker,) = pool.workers
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    assert judged(pool, task) == first
    assert pool.workers != [worker]
