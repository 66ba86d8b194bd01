"""Read and judge what runs and checkpoints are compared with, once in each process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from trainproof.assembly import Reading, assemble
from trainproof.model.artifact import Run
from trainproof.model.data import Fault, RunView
from trainproof.model.outcome import Level
from trainproof.model.progress import Amount
from trainproof.model.rule import SubjectKind
from trainproof.model.tensors import Depth
from trainproof.model.wire import Settings, Task
from trainproof.rules import REGISTRY

from .beacon import Phase
from .evaluate import evaluate
from .work import Progress, Stores, read

_Faults = tuple[Fault, ...]


class Baselines(msgspec.Struct):
    """The views of what a process has compared with so far: many runs have one baseline. Of
    checkpoints only the last: they are compared in a chain, and each may hold very many tensors.
    """

    _known: dict[tuple[Run, _Faults], RunView] = msgspec.field(default_factory=dict)
    _saved: dict[tuple[Run, _Faults, Depth], RunView] = msgspec.field(default_factory=dict)

    def views(self, task: Task, settings: Settings, progress: Progress) -> tuple[RunView, ...]:
        """Those of the task, in its order. What goes wrong with one is a fault of its files."""
        return tuple(self._views(task, settings, progress))

    def _views(self, task: Task, settings: Settings, progress: Progress) -> Iterator[RunView]:
        first = 0
        for run in task.baselines:
            paths = {artifact.path for artifact in run.artifacts}
            faults = tuple(fault for fault in task.baseline_faults if fault.artifact in paths)
            if run.subject is SubjectKind.CHECKPOINT:
                yield self._checkpoint(run, faults, settings, settings.depth_of(task), progress)
            else:
                yield self._run(run, faults, settings, progress, first)
            first += len(run.artifacts)

    def _run(
        self, run: Run, faults: _Faults, settings: Settings, progress: Progress, first: int
    ) -> RunView:
        if (run, faults) not in self._known:
            view = _view(run, faults, settings, progress, first)
            self._known[run, faults] = _judged(view, settings, progress, first)
        return self._known[run, faults]

    def keep(self, run: Run, depth: Depth, view: RunView) -> None:
        """A checkpoint that was just judged: most often the next one is compared with it."""
        self._saved = {(run, (), depth): replace(view, id=run.name)}

    def _checkpoint(
        self, run: Run, faults: _Faults, settings: Settings, depth: Depth, progress: Progress
    ) -> RunView:
        """A checkpoint is compared with one other: its files are all there are."""
        from .checkpoints import view_of  # noqa: PLC0415 - audits of logs do without

        key = run, faults, depth
        if key not in self._saved:
            view = view_of(run, faults, settings, depth, _untold(progress))
            self._saved = {key: replace(view, id=run.name)}
        return self._saved[key]


def _untold(progress: Progress) -> Callable[[int, Amount], None]:
    """What is read of another checkpoint is no part of the one that is judged."""

    def at(number: int, _: Amount) -> None:
        progress.at(Phase.BASELINE, number)

    return at


def _view(
    run: Run, faults: tuple[Fault, ...], settings: Settings, progress: Progress, first: int
) -> RunView:
    broken = {fault.artifact for fault in faults}
    readings, stores = [], Stores()
    for number, artifact in enumerate(run.artifacts, first):
        progress.at(Phase.BASELINE, number)
        lost = artifact.path in broken
        readings.append(Reading(artifact) if lost else read(artifact, settings, stores))
    tags = {tag: role for role, tag in settings.tags}
    return replace(assemble(run.id, readings, faults, tags), id=run.name)


def _judged(view: RunView, settings: Settings, progress: Progress, first: int) -> RunView:
    """The view with the rules that it fails. A death here is blamed on the first file."""
    failed = []
    for id in settings.baseline_rules:
        progress.at(Phase.BASELINE, first)
        cell = evaluate(REGISTRY[id], view, settings.thresholds.get(id, {}))
        if any(hit.level is Level.FAIL for hit in cell.hits):
            failed.append(id)
    return replace(view, failed=tuple(failed))
