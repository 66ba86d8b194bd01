"""The parent: keep workers busy, and account for each death, with nothing lost but its cause.

Parses only frames, which are checked against their types. Death while reading costs that file (one
of a baseline: to every run compared with it), death while checking costs that cell; the task is
tried again without it, and the rest goes on.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from trainproof.model.data import Fault, FaultCode
from trainproof.model.outcome import Skip
from trainproof.model.progress import Amount
from trainproof.model.wire import (
    LENGTH,
    MAX_FRAME,
    Answer,
    Batch,
    Begin,
    FrameError,
    Ready,
    RunResult,
    Settings,
    Task,
    pack,
    unpack_answer,
)

from .beacon import Phase, Sighting
from .cells import not_checked
from .launch import ROOM, launch
from .limits import Limits
from .reporting import checked, told

_TICK = 0.1
"""Seconds between two looks at the beacons; deadlines are met to within this."""
_GRACE = 1.0
"""Seconds between a worker's last word and its exit: killed earlier, it would not say why."""
_BATCH = 128
"""Tasks that a worker is given at once, at the most."""
_REST = 0.01
"""Seconds in which answers gather, where every worker is busy: to be woken for each answer costs
more than to hear it."""
_AHEAD = 16
"""Tasks in which a worker is busy for longer than that, at the least."""
_STARTS = 3
"""How often workers may die before they are ready, in a row, before the audit gives up."""


class Death(msgspec.Struct, frozen=True):
    """How a worker ended without having finished its tasks."""

    skip: Skip
    fault: FaultCode
    detail: str


Finished = Callable[[int, RunResult], None]
Seen = Callable[[Mapping[int, Amount]], None]
"""Told now and then what has been read of the tasks in flight, by their numbers."""


def supervise(
    tasks: Sequence[Task],
    settings: Settings,
    limits: Limits,
    jobs: int,
    finished: Finished,
    *,
    seen: Seen | None = None,
) -> bool:
    """Judge all tasks in ``jobs`` workers; ``finished`` gets each result as it comes.

    Returns whether the memory limit could be enforced. Ends: each death takes one file, one
    rule or one task out of what is tried again.
    """
    pool = Pool(settings, limits, jobs)
    try:
        pool.judge(tasks, finished, seen)
    finally:
        pool.close()
    return pool.memory_limited


def _unheard(number: int, result: RunResult) -> None:
    raise AssertionError(f"nobody asked for task {number}")


class _Worker:
    """One child process and what it was asked."""

    def __init__(self, settings: Settings) -> None:
        launched = launch()
        self.beacon, self.process, self.roomy = launched
        self.ready = False
        self.tasks: deque[Task] = deque()
        self.buffer = bytearray()
        self.seen: Sighting | None = None
        self.since = time.monotonic()
        self.send(Begin(settings))

    @property
    def output(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def send(self, order: Begin | Batch) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its death is met when reading
            self.process.stdin.write(pack(order))
            self.process.stdin.flush()

    def stalled(self, limits: Limits) -> bool:
        """Whether its beacon has stood still for longer than a step may take."""
        now, sighting = time.monotonic(), self.beacon.sighting()
        if sighting != self.seen:
            self.seen, self.since = sighting, now
        patience = limits.step_seconds if self.ready else limits.startup_seconds
        return bool(self.tasks or not self.ready) and now - self.since > patience

    @property
    def is_busy(self) -> bool:
        """Whether it can go on for a while when nobody hears it."""
        return self.roomy and len(self.tasks) > _AHEAD

    def answers(self, data: memoryview) -> Iterator[Answer]:
        """Whole frames in what has arrived. Raises FrameError."""
        self.buffer += data
        while len(self.buffer) >= LENGTH:
            size = int.from_bytes(self.buffer[:LENGTH], "big")
            if size > MAX_FRAME:
                raise FrameError(f"frame of {size} bytes")
            if len(self.buffer) < LENGTH + size:
                return
            body = bytes(self.buffer[LENGTH : LENGTH + size])
            del self.buffer[: LENGTH + size]
            yield unpack_answer(body)

    def end(self, grace: float = 0.0) -> int:
        """Reap it after ``grace`` seconds at most, killing its process group if it still runs.

        Its exit code; negative: the signal that ended it.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(grace)
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.beacon.close()
        return code


class Pool:
    """Workers that stay between one ``judge`` and the next."""

    def __init__(self, settings: Settings, limits: Limits, jobs: int) -> None:
        self.settings, self.limits, self._most = settings, limits, max(1, jobs)
        self.jobs = 1
        self.todo: deque[Task] = deque()
        self.finished: Finished = _unheard
        self.workers: list[_Worker] = []
        self.selector = selectors.DefaultSelector()
        self.arrived = memoryview(bytearray(ROOM))
        """Where what arrives is put: all that a pipe may hold at once."""
        self.failed_starts = 0
        self.memory_limited = True

    def judge(self, tasks: Sequence[Task], finished: Finished, seen: Seen | None = None) -> None:
        """Judge all tasks; ``finished`` gets each result as it comes."""
        self.todo, self.finished = deque(tasks), finished
        self.jobs = max(1, min(self._most, len(tasks)))
        for worker in list(self.workers):
            if worker.process.poll() is not None:  # it had nothing to do: nobody is to blame
                self._bury(worker, None)
            elif worker.ready:
                self._feed(worker)
        while self.todo or any(worker.tasks for worker in self.workers):
            self._hire()
            for key, _ in self.selector.select(_TICK):
                self._hear(key.data)
            if self.workers and all(one.is_busy for one in self.workers):
                time.sleep(_REST)
            for worker in [w for w in self.workers if w.stalled(self.limits)]:
                self._bury(worker, _timed_out(worker, self.limits))
            if seen is not None:
                seen(dict(self._amounts()))

    def _amounts(self) -> Iterator[tuple[int, Amount]]:
        for worker in self.workers:
            sighting = worker.beacon.sighting()
            if worker.tasks and worker.tasks[0].number == sighting.task:
                yield sighting.task, sighting.amount

    def close(self) -> None:
        for worker in self.workers:
            worker.end()
        self.selector.close()

    def _hire(self) -> None:
        while self.todo and len(self.workers) < self.jobs:
            worker = _Worker(self.settings)
            self.workers.append(worker)
            self.selector.register(worker.output, selectors.EVENT_READ, worker)

    def _feed(self, worker: _Worker) -> None:
        """Half a fair share each time, so that the workers end together."""
        count = max(1, min(_BATCH, len(self.todo) // (2 * self.jobs)))
        batch = tuple(self.todo.popleft() for _ in range(min(count, len(self.todo))))
        if batch:
            worker.tasks.extend(batch)
            worker.since = time.monotonic()
            worker.send(Batch(batch))

    def _hear(self, worker: _Worker) -> None:
        count = os.readv(worker.output, [self.arrived])
        if not count:
            self._bury(worker, None)
            return
        try:
            for answer in worker.answers(self.arrived[:count]):
                self._take(worker, answer)
        except FrameError as error:
            detail = f"bad frame: {error}"[:200]
            self._bury(worker, Death(Skip.CHECKER_FAILED, FaultCode.CRASHED, detail))

    def _take(self, worker: _Worker, answer: Answer) -> None:
        if isinstance(answer, Ready):
            worker.ready, self.failed_starts = True, 0
            self.memory_limited &= answer.memory_limited
        elif worker.tasks and worker.tasks[0].number == answer.number:
            result = checked(worker.tasks[0], answer.result, self.settings)
            self.finished(worker.tasks.popleft().number, result)
        else:
            raise FrameError(f"answer to task {answer.number}, which was not asked")
        if not worker.tasks:
            self._feed(worker)

    def _bury(self, worker: _Worker, death: Death | None) -> None:
        self.selector.unregister(worker.output)
        self.workers.remove(worker)
        sighting = worker.beacon.sighting()
        code = worker.end(_GRACE if death is None else 0.0)
        if death is None:
            death = _post_mortem(code)
        if not worker.ready:
            self._never_started(death)
        elif worker.tasks:
            self._blame(worker, sighting, death)

    def _never_started(self, death: Death) -> None:
        """Not the fault of any task; after a few in a row none can be judged at all."""
        self.failed_starts += 1
        if self.failed_starts >= _STARTS:
            while self.todo:
                self._give_up(self.todo.popleft(), death)

    def _blame(self, worker: _Worker, sighting: Sighting, death: Death) -> None:
        """Put back what the worker had not begun, and its task without what killed it."""
        task = worker.tasks.popleft()
        self.todo.extendleft(reversed(worker.tasks))
        retry = _without_culprit(task, sighting, death, self.settings)
        if retry is None:
            self._give_up(task, death)
        else:
            self.todo.appendleft(retry)
            if retry.baseline_faults != task.baseline_faults:
                self.todo = deque(_knowing(retry.baseline_faults[-1], t) for t in self.todo)

    def _give_up(self, task: Task, death: Death) -> None:
        detail = {"detail": death.detail}
        rules = self.settings.rules_of(task)
        cells = tuple(not_checked(id, death.skip, detail) for id in rules)
        result = RunResult(cells, faults=task.known_faults)
        self.finished(task.number, told(task, result, self.settings))


def _without_culprit(
    task: Task, sighting: Sighting, death: Death, settings: Settings
) -> Task | None:
    """The task without the file or rule in flight; None when neither can be named."""
    if sighting.task != task.number:
        return None
    artifacts = task.run.artifacts
    if sighting.phase == Phase.BASELINE:
        return _without_baseline(task, sighting.item, death)
    if sighting.phase == Phase.READING and sighting.item < len(artifacts):
        path = artifacts[sighting.item].path
        if path in {fault.artifact for fault in task.known_faults}:
            return None
        fault = Fault(death.fault, path, death.detail, fatal=True)
        return replace(task, known_faults=(*task.known_faults, fault))
    rules = settings.rules_of(task)
    if sighting.phase == Phase.CHECKING and sighting.item < len(rules):
        id = rules[sighting.item]
        if id in {rule for rule, _, _ in task.lost_rules}:
            return None
        return replace(task, lost_rules=(*task.lost_rules, (id, death.skip, death.detail)))
    return None


def _without_baseline(task: Task, item: int, death: Death) -> Task | None:
    """The task without the file of a baseline in flight."""
    paths = [artifact.path for run in task.baselines for artifact in run.artifacts]
    if item >= len(paths) or paths[item] in {fault.artifact for fault in task.baseline_faults}:
        return None
    return _knowing(Fault(death.fault, paths[item], death.detail, fatal=True), task)


def _knowing(fault: Fault, task: Task) -> Task:
    """The task that does not open a baseline's file again: others have the same baseline."""
    files = {artifact.path for run in task.baselines for artifact in run.artifacts}
    known = {one.artifact for one in task.baseline_faults}
    if fault.artifact not in files or fault.artifact in known:
        return task
    return replace(task, baseline_faults=(*task.baseline_faults, fault))


def _timed_out(worker: _Worker, limits: Limits) -> Death:
    if not worker.ready:
        detail = f"not ready after {limits.startup_seconds:g} s"
    else:
        detail = f"no progress for {limits.step_seconds:g} s"
    return Death(Skip.WORKER_TIMEOUT, FaultCode.TIMEOUT, detail)


def _post_mortem(code: int) -> Death:
    if code == -signal.SIGKILL:
        detail = "killed (SIGKILL), most often by the out-of-memory killer"
        return Death(Skip.WORKER_MEMORY, FaultCode.MEMORY, detail)
    name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    return Death(Skip.WORKER_CRASHED, FaultCode.CRASHED, name)
