"""The guardian: judge a training while it runs, from what it logs.

It only listens: it draws no random number, opens no loader, touches no weight. It judges by
count of logged rows and never by a clock, so that all processes of one training decide alike.
"""

from __future__ import annotations

import logging
import math
import os
import time
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from msgspec.structs import replace

from trainproof import api
from trainproof.config import Config
from trainproof.emit import EMITTERS
from trainproof.model.artifact import Run
from trainproof.model.data import Axis, Facts
from trainproof.model.outcome import Level
from trainproof.model.report import Finding, Report, Verdict

from .journal import ARTIFACT, Journal

LOG = logging.getLogger("trainproof.guardian")
FILES = {"json": "trainproof-report.json", "markdown": "trainproof-report.md"}
"""Format to the file in the directory of the run that the report is written to."""
GROWTH = 0.05
"""A judgement takes time in proportion to what was logged, so the next one waits until this much
more was: the time of all judgements together stays in proportion, too."""
EVERY = 5
"""The fewest rows between two judgements."""
CONFIRM = 2
"""Judgements in a row that must name the same FAIL before it is told or stops a training: rules
are made for whole logs, and looking again and again multiplies the chances of an error."""
PATIENT = frozenset(
    {
        "TP-DEAD-RUN",
        "TP-FLAT",
        "TP-CHANCE",
        "TP-DPO-IDLE",
        "TP-NO-ADVANTAGE",
        "TP-LOSS-CLAMPED",
        "TP-EVAL-FROZEN",
        "TP-METRIC-COLLAPSE",
        "TP-REWARD-COLLAPSE",
        "TP-SCHEDULE-ENDED-EARLY",
        "TP-ZERO-LR",
        "TP-ZERO-LR-PARTIAL",
    }
)
"""Rules that find what is missing. In the middle of a run it may still come: they stop a training
only in the second half of what it declares as its length."""


class Policy(StrEnum):
    """What a guardian does about a FAIL: say it, or also ask the training to stop."""

    WARN = "warn"
    STOP_ON_FAIL = "stop_on_fail"


@dataclass(slots=True, weakref_slot=True)
class Guardian:
    """Judges what is logged to it.

    ``directory``: the run's own; the report is written there at the end, None for nowhere. A
    training that raises comes to no end: its report is written by ``leave``, when the guardian is
    given up, or else when the program ends.
    ``first``: rows before the first judgement. ``facts``: what is known of the run, for instance
    ``Facts(max_steps=1000)``. ``config``: rules and thresholds; its paths mean nothing here.
    ``writes``: False in all but one of the processes of a training.

    Raises ValueError for an unknown policy.
    """

    directory: str | os.PathLike[str] | None = None
    policy: Policy | str = Policy.WARN
    first: int = 10
    facts: Facts = field(default_factory=Facts)
    config: Config = field(default_factory=Config)
    axis: Axis = Axis.STEP
    writes: bool = True
    report: Report | None = field(default=None, init=False)
    should_stop: bool = field(default=False, init=False)
    journal: Journal = field(init=False)
    _due: int = field(default=0, init=False)
    _step: int = field(default=0, init=False)
    _said: set[tuple[str, str | None]] = field(default_factory=set, init=False)
    _standing: Counter[tuple[str, str | None]] = field(default_factory=Counter, init=False)
    _told: set[str] = field(default_factory=set, init=False)
    _given_up: weakref.finalize[..., Guardian] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.policy = Policy(self.policy)
        self.journal = Journal(self.axis)
        self._due = self.first
        if self.directory is not None and self.writes:
            self._given_up = weakref.finalize(
                self, _leave, self.journal, self.facts, self.config, self.directory, os.getpid()
            )

    @property
    def verdict(self) -> Verdict:
        """Of the last judgement; NOT-CHECKED before the first."""
        return Verdict.NOT_CHECKED if self.report is None else self.report.worst_verdict

    def log(
        self, step: int, metrics: Mapping[str, object] | None = None, /, **more: object
    ) -> Verdict:
        """Take the metrics of one step, and judge where enough came together.

        Values may be numbers or tensors of one element; anything else is passed over. Raises
        nothing: a fault is told once by kind, and the training goes on.
        """
        try:
            self._take(int(step), {**(metrics or {}), **more})
        except Exception as error:  # noqa: BLE001 - a fault in here never stops a training
            self._complain(error, "log", "the training goes on")
        return self.verdict

    def _take(self, step: int, metrics: dict[str, object]) -> None:
        self.journal.add(step, metrics, time.time())
        self._step = max(self._step, step)
        if self.journal.rows >= self._due:
            self.judge()

    def _complain(self, error: Exception, where: str, what: str) -> None:
        kind = f"{type(error).__name__} in {where}"
        if kind not in self._told:
            self._told.add(kind)
            LOG.warning("trainproof: %s: %s", kind, what, exc_info=error)

    def judge(self) -> Report:
        """Judge what was logged so far; say what is new, and under ``stop_on_fail`` act on it."""
        rows = self.journal.rows
        self._due = max(rows + EVERY, math.ceil(rows * (1 + GROWTH)))
        self.report = self._judged(self.facts)
        failed = [one for _, one in self.report.findings() if one.level is Level.FAIL]
        keys = {(one.id, one.series) for one in failed}
        self._standing = Counter({key: self._standing[key] + 1 for key in keys})
        confirmed = [one for one in failed if self._standing[one.id, one.series] >= CONFIRM]
        self._say(confirmed)
        if self.policy is Policy.STOP_ON_FAIL:
            stops = [one for one in confirmed if one.id not in PATIENT or self._is_half_done()]
            if stops and not self.should_stop:
                LOG.warning("trainproof asks the training to stop: %s", stops[0].id)
            self.should_stop = self.should_stop or bool(stops)
        return self.report

    def finish(self) -> Report:
        """The last judgement, of the whole run, and the report beside the run.

        Raises nothing, as ``log``: where no report can be written, that is told.
        """
        if self._given_up is not None:
            self._given_up.detach()
        whole = replace(self.facts, finished=None if self.should_stop else True)
        try:
            self.report = self._judged(whole)
        except Exception as error:  # noqa: BLE001 - the model may not be saved yet
            self._complain(error, "finish", "the run was not judged")
            self.report = api.failed("the run was not judged")
        self._say([one for _, one in self.report.findings() if one.level is Level.FAIL])
        try:
            if self.directory is not None and self.writes:
                write(self.report, self.directory)
        except OSError as error:
            self._complain(error, "finish", "no report was written")
        return self.report

    def leave(self) -> None:
        """The report of a training that raises, now."""
        if self._given_up is not None:
            self._given_up()

    def _judged(self, facts: Facts) -> Report:
        return _judged(self.journal, facts, self.config, self.directory)

    def _say(self, failed: list[Finding]) -> None:
        for one in failed:
            key = (one.id, one.series)
            if key not in self._said:
                self._said.add(key)
                LOG.warning("trainproof: FAIL %s: %s %s", one.id, one.message, one.evidence)

    def _is_half_done(self) -> bool:
        planned = self.facts.max_steps if self.axis is Axis.STEP else self.facts.max_epochs
        return bool(planned) and 2 * self._step >= float(planned or 0)


_Directory = str | os.PathLike[str]


def _judged(journal: Journal, facts: Facts, config: Config, directory: _Directory | None) -> Report:
    name = ARTIFACT if directory is None else os.fspath(directory)
    return api.judge(Run(name, "", ()), journal.view(name, facts), config)


def _leave(
    journal: Journal, facts: Facts, config: Config, directory: _Directory, process: int
) -> None:
    """The report of a training that came to no end; of a process that it forked, nothing."""
    if not journal.rows or os.getpid() != process:
        return
    try:
        write(_judged(journal, facts, config, directory), directory)
    except Exception:  # the program may be at its end
        LOG.warning("trainproof: no report of the training that broke off", exc_info=True)


def write(report: Report, directory: str | os.PathLike[str]) -> None:
    """The report as JSON and as Markdown. Raises OSError."""
    home = Path(directory)
    home.mkdir(parents=True, exist_ok=True)
    for format, name in FILES.items():
        (home / name).write_bytes(EMITTERS[format](report))
