"""The in-process twin of the supervisor: for tests and ``--no-isolation``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainproof.model.progress import Amount
from trainproof.model.wire import RunResult, Settings, Task

from .baselines import Baselines
from .beacon import Phase
from .reporting import told
from .tails import Tails
from .work import Stores, at_once, judge


class _Silent:
    def at(self, phase: Phase, item: int = 0, amount: Amount | None = None) -> None:
        pass


class Bench:
    """This process in the place of workers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._baselines = Baselines()
        self._stores = Stores()
        self._through = Tails().items if settings.live else at_once

    def judge(self, tasks: Sequence[Task], finished: Callable[[int, RunResult], None]) -> None:
        """Judge all tasks, one after the other. A crash takes everything."""
        progress, settings = _Silent(), self._settings
        for task in tasks:
            compared = self._baselines.views(task, settings, progress)
            keep, stores = self._baselines.keep, self._stores
            result = judge(
                task, settings, progress, compared, self._through, keep=keep, stores=stores
            )
            finished(task.number, told(task, result, settings))

    def close(self) -> None:
        pass
