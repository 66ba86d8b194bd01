"""The console log of Coqui's Trainer (``trainer_0_log.txt``).

Training values stand below ``--> STEP: 50/24940 -- GLOBAL_STEP: 50``, one a line, with the
running average of the epoch in brackets. Averages of an evaluation stand below
``--> EVAL PERFORMANCE``. They are given the tags under which the same trainer writes them to
TensorBoard, so that both logs of a run hold the same series.
"""

from __future__ import annotations

import calendar
import re
import time
from array import array
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
import numpy as np

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Column, Facts, FaultCode, Item, NotJudgeable

from .interface import Options
from .sheet import MAX_COLUMNS, MAX_VALUES
from .text import FaultLog, Line, TextSource, decode_head, strip_ansi

STEP = re.compile(
    r"--> (?:TIME: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) -- )?"
    r"STEP: (\d{1,15})/(\d{1,15}) -- GLOBAL_STEP: (\d{1,15})"
)
EPOCH = re.compile(r"> EPOCH: (\d{1,9})/(\d{1,9})")
VALUE = re.compile(r"^ *\| > ([^:]{1,200}): *(\S+)")
RESTORED = re.compile(r"> Model restored from step (\d{1,15})")
SAVED = re.compile(r"> CHECKPOINT : .*checkpoint_(\d{1,15})\.pth")
BEST = re.compile(r"> BEST MODEL : (\S.*)")

EVALUATION = "EvalStats/"
TRAIN_EPOCH = "TrainEpochStats/"


class Coqui:
    """One column for each value that the trainer prints."""

    name = "coqui"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        text = strip_ansi(decode_head(head))
        if not any(line.startswith(" | > ") or VALUE.match(line) for line in text.split("\n")):
            return False
        return "> Training Environment:" in text or bool(EPOCH.search(text) or STEP.search(text))

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        log = _Log(faults)
        for line in TextSource(stream, faults).lines():
            log.take(line)
            if log.values > MAX_VALUES:
                detail = f"more than {MAX_VALUES} values: the rest is not read"
                faults.add(FaultCode.TOO_LARGE, detail, line.number, fatal=True)
                break
        if log.points:
            yield from log.columns()
            yield log.facts()
        yield from faults
        if not log.points and not any(fault.fatal for fault in faults):
            yield NotJudgeable(Content.HEADER_ONLY, "no value was printed yet")


class _Points(msgspec.Struct):
    steps: array[int] = msgspec.field(default_factory=lambda: array("q"))
    values: array[float] = msgspec.field(default_factory=lambda: array("d"))
    lines: array[int] = msgspec.field(default_factory=lambda: array("q"))
    walls: array[float] = msgspec.field(default_factory=lambda: array("d"))


class _Log(msgspec.Struct):
    """What has been read so far, and where in the run the reading is.

    ``step``: where the next values belong. ``epoch_end``: the global step at which the current
    epoch ends; evaluations stand there. ``prefix``: of the tags of the current section, None
    where its values are no series.
    """

    faults: FaultLog
    points: dict[str, _Points] = msgspec.field(default_factory=dict)
    values: int = 0
    prefix: str | None = None
    step: int = 0
    wall: float = np.nan
    epoch_end: int = 0
    per_epoch: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    best: str | None = None
    saved: int = 0
    interrupted: bool = False

    def take(self, line: Line) -> None:
        text = line.text
        if value := VALUE.match(text):
            self._take_value(value[1], value[2], line)
        elif "-->" in text:
            self._take_heading(text)
        elif ">" in text:
            self._take_event(text)

    def _take_heading(self, text: str) -> None:
        if found := STEP.search(text):
            within, self.per_epoch, self.step = (int(n) for n in found.groups()[1:])
            self.wall = _seconds(found[1])
            self.epoch_end = self.step + max(0, self.per_epoch - within)
            if self.prefix != EVALUATION:  # batches of an evaluation are headed alike
                self.prefix = ""
        elif "EVAL PERFORMANCE" in text:
            self.prefix, self.step = EVALUATION, self.epoch_end
        elif "TRAIN PERFORMA" in text:  # spelled in two ways
            self.prefix, self.step = TRAIN_EPOCH, self.epoch_end

    def _take_event(self, text: str) -> None:
        if found := EPOCH.search(text):
            self.epoch, self.epochs = int(found[1]), int(found[2])
            self.prefix = None
        elif "> TRAINING" in text:
            self.epoch_end += self.per_epoch or 0
            self.prefix = None
        elif "> EVALUATION" in text:
            self.prefix = None
        elif found := RESTORED.search(text):
            self.epoch_end = int(found[1])
        elif found := SAVED.search(text):
            self.saved = int(found[1])
        elif found := BEST.search(text):
            self.best = re.split(r"[/\\]", found[1].strip())[-1]
        elif "> Keyboard interrupt" in text:
            self.interrupted = True

    def _take_value(self, name: str, text: str, line: Line) -> None:
        if self.epoch is None and self.prefix is None:
            if len(self.environment) < MAX_COLUMNS:
                self.environment.setdefault(name, text)
            return
        if self.prefix is None:
            return
        if not line.ended:
            self.faults.add(FaultCode.TRUNCATED, "the file ends within a value", line.number)
            return
        try:
            value = float(text)
        except ValueError:
            return
        self._keep(self.prefix + name, value, line.number)

    def _keep(self, tag: str, value: float, line: int) -> None:
        points = self.points.get(tag)
        if points is None:
            if len(self.points) >= MAX_COLUMNS:
                detail = f"more than {MAX_COLUMNS} columns: the others are left out"
                self.faults.once(FaultCode.TOO_LARGE, detail)
                return
            points = self.points[tag] = _Points()
        self.values += 1
        points.steps.append(self.step)
        points.values.append(value)
        points.lines.append(line)
        points.walls.append(self.wall if not self.prefix else np.nan)

    def columns(self) -> Iterator[Column]:
        for tag, points in self.points.items():
            walls = np.frombuffer(points.walls, dtype=np.float64)
            yield Column(
                tag,
                np.frombuffer(points.steps, dtype=np.int64),
                np.frombuffer(points.values, dtype=np.float64),
                lines=np.frombuffer(points.lines, dtype=np.int64),
                walls=walls if bool(np.isfinite(walls).all()) else None,
            )

    def facts(self) -> Facts:
        return Facts(
            framework="coqui",
            max_epochs=None if self.epochs is None else float(self.epochs),
            steps_per_epoch=self.per_epoch or None,
            last_step=max(self.saved, *(points.steps[-1] for points in self.points.values())),
            last_epoch=None if self.epoch is None else float(self.epoch),
            world_size=_count(self.environment.get("Num. of GPUs")),
            seed=_count(self.environment.get("Torch seed")),
            precision=self.environment.get("Precision"),
            best_checkpoint=self.best,
            finished=False if self.interrupted else None,
        )


def _seconds(stamp: str | None) -> float:
    """Seconds since 1970 of a local time without zone, read as UTC: differences are right."""
    if stamp is None:
        return np.nan
    try:
        return float(calendar.timegm(time.strptime(stamp, "%Y-%m-%d %H:%M:%S")))
    except ValueError:
        return np.nan


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and 0 < len(text) < 16 else None
