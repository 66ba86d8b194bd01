"""The in-process twin of the supervisor: for tests and ``--no-isolation``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainproof.model.wire import RunResult, Settings, Task

from .baselines import Baselines
from .work import Phase, judge


class _Silent:
    def at(self, phase: Phase, item: int = 0) -> None:
        pass


def judge_here(
    tasks: Sequence[Task], settings: Settings, finished: Callable[[int, RunResult], None]
) -> None:
    """Judge all tasks in this process, one after the other. A crash takes everything."""
    progress, baselines = _Silent(), Baselines()
    for task in tasks:
        compared = baselines.views(task, settings, progress)
        finished(task.number, judge(task, settings, progress, compared))
