"""MLflow's file store: ``<experiment>/<run>/`` with ``metrics/``, ``params/`` and ``meta.yaml``.

A metric is a file of lines ``<unix ms> <value> <step>``, to which newer versions add fields; its
name is the path below ``metrics/`` and may hold slashes. A parameter is a file with its value.
``mlflow/store/tracking/file_store.py`` is the source of all three.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
import numpy as np

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Column, Facts, FaultCode, Item, NotJudgeable

from .hyperparameters import declares, facts_of
from .interface import HEAD, Options
from .scalars import placed
from .text import FaultLog, TextSource

LINE = re.compile(rb"(\d{12,14}) (-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf|nan)) (-?\d{1,16})(?: .*)?", re.I)
"""Milliseconds since 1970, the value as Python prints it, the step."""

RUN_ID = re.compile(r"[0-9a-f]{32}")

MAX_POINTS = 1 << 24
"""Points kept of one metric (384 MiB)."""

MAX_SETTING = 6000
"""Bytes of a parameter; MLflow itself refuses longer ones."""

MAX_META = 1 << 20
STATUS = re.compile(rb"^status: *'?(\w+)", re.MULTILINE)
FINISHED = {
    **dict.fromkeys((b"3", b"FINISHED"), True),
    **dict.fromkeys((b"4", b"FAILED", b"5", b"KILLED"), False),
}
"""How a run ended, by the number or the word; it says nothing while it is going on."""


class MlflowMetric:
    """One file of points."""

    name = "mlflow"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        lines = head.split(b"\n")
        whole = lines[:-1] or (lines if len(head) < HEAD else [])
        return bool(whole) and all(LINE.fullmatch(line.rstrip(b"\r")) for line in whole)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        points = _Points(faults)
        for block in TextSource(stream, faults).blocks():
            if not points.add(block.data, block.first_line):
                break
        if points:
            yield points.column(metric_name(artifact.path))
        yield from faults
        if not points and not any(fault.fatal for fault in faults):
            yield NotJudgeable(Content.EMPTY, "no complete line")


def metric_name(path: str) -> str:
    """What the metric is called: the path below the ``metrics`` of its run."""
    parts = path.split("/")
    for at in range(len(parts) - 1):
        if parts[at] == "metrics" and (at == 0 or RUN_ID.fullmatch(parts[at - 1])):
            return "/".join(parts[at + 1 :])
    last = len(parts) - 1 - parts[::-1].index("metrics") if "metrics" in parts[:-1] else -2
    return "/".join(parts[last + 1 :])


class _Points(msgspec.Struct):
    faults: FaultLog
    values: array[float] = msgspec.field(default_factory=lambda: array("d"))
    steps: array[int] = msgspec.field(default_factory=lambda: array("q"))
    walls: array[float] = msgspec.field(default_factory=lambda: array("d"))
    lines: array[int] = msgspec.field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.values)

    def add(self, data: bytes, first_line: int) -> bool:
        """Add whole lines; a line without its newline is cut. False: too many, stop."""
        for offset, line in enumerate(data.split(b"\n")):
            number = first_line + offset
            if line and not self._add(line.rstrip(b"\r"), number):
                self.faults.add(FaultCode.CORRUPT, "not `time value step`", number)
        if not data.endswith(b"\n"):
            self._forget(number)
        if len(self) <= MAX_POINTS:
            return True
        detail = f"more than {MAX_POINTS} points: the rest is not read"
        self.faults.add(FaultCode.TOO_LARGE, detail, number, fatal=True)
        return False

    def _add(self, line: bytes, number: int) -> bool:
        match = LINE.fullmatch(line)
        if match is None:
            return False
        wall, value, step = match.groups()
        try:
            self.values.append(float(value))
        except ValueError:  # 1.2.3
            return False
        self.walls.append(int(wall) / 1000)
        self.steps.append(int(step))
        self.lines.append(number)
        return True

    def _forget(self, number: int) -> None:
        """MLflow writes a line and its newline at once: without it, digits may be missing."""
        self.faults.add(FaultCode.TRUNCATED, "the file ends within a line", number)
        if self.lines and self.lines[-1] == number:
            for kept in (self.values, self.steps, self.walls, self.lines):
                kept.pop()

    def column(self, name: str) -> Column:
        steps, axis = placed(self.steps)
        return Column(
            name,
            steps,
            np.frombuffer(self.values, dtype=np.float64),
            axis,
            np.frombuffer(self.lines, dtype=np.int64),
            np.frombuffer(self.walls, dtype=np.float64),
        )


class MlflowRun:
    """``meta.yaml`` of a run (that of an experiment names no run). Says how the run ended."""

    name = "mlflow-run"
    kind = Kind.CONFIG

    def claims(self, path: str, head: bytes) -> bool:
        named = path.rpartition("/")[2] == "meta.yaml"
        return named and b"\nlifecycle_stage:" in head and b"\nrun_id:" in head

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        status = STATUS.search(_small(stream, MAX_META, faults))
        yield Facts(finished=FINISHED.get(status[1]) if status else None)
        yield from faults


class MlflowParam:
    """One hyperparameter, if it is one that says something about a run."""

    name = "mlflow-param"
    kind = Kind.CONFIG

    def claims(self, path: str, head: bytes) -> bool:
        parts = path.rpartition("/params/")
        of_run = RUN_ID.fullmatch(parts[0].rpartition("/")[2]) is not None
        return of_run and declares(parts[2]) and 0 < len(head.strip()) <= MAX_SETTING

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        value = _small(stream, MAX_SETTING, faults).decode("utf-8", "replace").strip()
        yield facts_of([(artifact.path.rpartition("/params/")[2], value)])
        yield from faults


def _small(stream: BinaryIO, limit: int, faults: FaultLog) -> bytes:
    try:
        return stream.read(limit)
    except OSError as error:
        faults.add(FaultCode.IO, f"reading failed: {error}", fatal=True)
        return b""
