"""Trainings to logs on disk: the healthy ones, then faults put into those that went well."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from . import logs
from .catalogue import WORKLOADS
from .faults import FAULTS, Fault
from .outcomes import Outcome, absolute, relative
from .settings import Setting
from .training import Change, History, train
from .workloads import Defect

CLEAN = "none"
"""In the place of the fault's name, of runs without one."""

OTHER = 1_000_000
"""Added to the number of a setting for another training of the same kind."""


MOST_TRIES = 4
"""Portions of runs in which a fault that seldom harms is looked for."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many runs: settings drawn per workload, and harmed runs wanted per fault."""

    drawn: int
    harmed: int
    workloads: tuple[str, ...] = tuple(WORKLOADS)


FULL = Size(drawn=120, harmed=54)
SMALL = Size(drawn=8, harmed=3)
"""All of its runs are among those of ``FULL``."""


@dataclass(frozen=True, slots=True)
class Case:
    """A setting of a workload, by number, with a fault or ``CLEAN``."""

    workload: str
    number: int
    fault: str = CLEAN

    @property
    def path(self) -> str:
        """Of the run's directory, below the root."""
        return f"{self.fault}/{self.workload}-{self.number:04d}"

    def setting(self) -> Setting:
        return WORKLOADS[self.workload].setting(self.workload, self.number)


@dataclass(frozen=True, slots=True)
class Run:
    """A training that happened and was written down. ``third``: losses of the third split."""

    case: Case
    outcome: Outcome
    evaluated: bool
    third: tuple[float, ...]


def healthy_cases(size: Size) -> list[Case]:
    return [Case(name, number) for number in range(size.drawn) for name in size.workloads]


def run_healthy(root: Path, case: Case) -> Run:
    """Train, write, judge the outcome. What a configuration without a fault gives need not be
    healthy: that is for the third split to say."""
    setting = case.setting()
    history = _trained(setting, None, Change())
    logs.write(root / case.path, logs.files(history))
    losses = tuple(loss for _, loss in history.third)
    outcome = absolute(losses, history.floor, pretrained=setting.pretrained)
    return Run(case, outcome, setting.evaluations > 0, losses)


def run_faulty(root: Path, control: Run, name: str) -> Run:
    """The control's training with a fault."""
    fault, case = FAULTS[name], replace(control.case, fault=name)
    setting = case.setting()
    rng = np.random.default_rng([zlib.crc32(case.path.encode())])
    change = fault.change(rng) if fault.change is not None else Change()
    history = _trained(setting, fault.defect, change)
    if fault.spoil is None:
        contents = logs.files(history)
    else:
        other = _trained(replace(setting, number=setting.number + OTHER), fault.defect, change)
        contents = fault.spoil(history, other, rng)
    logs.write(root / case.path, contents)
    losses = tuple(loss for _, loss in history.third)
    outcome = Outcome.FAULTY if fault.certain else relative(losses, history.floor, control.third)
    return Run(case, outcome, setting.evaluations > 0, losses)


def _trained(setting: Setting, defect: Defect | None, change: Change) -> History:
    return train(setting, WORKLOADS[setting.workload].make(setting, defect), change)


def all_runs(
    root: Path, size: Size, pool: Executor, faults: Iterable[str] = FAULTS
) -> Iterator[Run]:
    """Every run, the healthy ones first. Deterministic whatever the pool."""
    controls = list(pool.map(partial(run_healthy, root), healthy_cases(size), chunksize=8))
    yield from controls
    for name in faults:
        yield from _with_fault(root, name, controls, size, pool)


def _with_fault(
    root: Path, name: str, controls: Sequence[Run], size: Size, pool: Executor
) -> Iterator[Run]:
    """Runs in portions, until enough of them are harmed or no control is left."""
    left, harmed = suitable(FAULTS[name], controls)[: MOST_TRIES * size.harmed], 0
    while left and harmed < size.harmed:
        portion, left = left[: size.harmed], left[size.harmed :]
        for run in pool.map(partial(run_faulty, root, name=name), portion, chunksize=4):
            harmed += run.outcome is Outcome.FAULTY
            yield run


def sample(runs: Sequence[Run], size: Size) -> list[Run]:
    """Of the runs of a larger size, those that ``all_runs`` would have made at this one."""
    small = [run for run in runs if run.case.number < size.drawn]
    chosen = [run for run in small if run.case.fault == CLEAN]
    for name in FAULTS:
        left = [run for run in small if run.case.fault == name][: MOST_TRIES * size.harmed]
        harmed = 0
        while left and harmed < size.harmed:
            portion, left = left[: size.harmed], left[size.harmed :]
            harmed += sum(run.outcome is Outcome.FAULTY for run in portion)
            chosen += portion
    return chosen


def suitable(fault: Fault, controls: Sequence[Run]) -> list[Run]:
    """Healthy controls that can have the fault, one of each workload in turn."""
    return [run for run in controls if run.outcome is Outcome.HEALTHY and _fits(fault, run.case)]


def _fits(fault: Fault, case: Case) -> bool:
    setting = case.setting()
    possible = fault.defect is None or fault.defect in WORKLOADS[case.workload].defects
    return possible and not setting.pretrained and fault.fits(setting)
