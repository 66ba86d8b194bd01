"""Judging in this process: in a worker; or in the place of all workers, with ``--no-isolation`` and
in tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainproof.model.progress import Amount
from trainproof.model.wire import RunResult, Settings, Task

from .baselines import Baselines
from .beacon import Phase
from .reporting import told
from .tails import Tails
from .work import Progress, Stores, at_once, judge


class _Silent:
    def at(self, phase: Phase, item: int = 0, amount: Amount | None = None) -> None:
        pass


class Bench:
    """Where tasks of one audit are judged, with what stays from one to the next."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._baselines = Baselines()
        self._stores = Stores()
        self._through = Tails().items if settings.live else at_once

    def judge(self, tasks: Sequence[Task], finished: Callable[[int, RunResult], None]) -> None:
        """Judge all tasks, one after the other. A crash takes everything."""
        for task in tasks:
            finished(task.number, self.judged(task, _Silent()))

    def judged(self, task: Task, progress: Progress) -> RunResult:
        """The result of one task, as it is told."""
        settings, baselines = self._settings, self._baselines
        compared = baselines.views(task, settings, progress)
        keep, stores = baselines.keep, self._stores
        result = judge(task, settings, progress, compared, self._through, keep=keep, stores=stores)
        return told(task, result, settings)

    def close(self) -> None:
        pass
