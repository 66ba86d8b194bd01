"""Sacred's file storage: ``metrics.json`` and ``run.json`` of a run.

``metrics.json`` is ``{name: {"steps": [...], "timestamps": [...], "values": [...]}}``, with NaN
literals; a value that was a numpy scalar is an object with its ``value``. Clocks are in UTC without
saying so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import BinaryIO

import numpy as np

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Column, Facts, FaultCode, Floats, Item, NotJudgeable

from .interface import Options
from .json_object import begun_object, read_object
from .sheet import MAX_COLUMNS, MAX_STEP, number
from .text import FaultLog

STEPS, VALUES, CLOCK = "steps", "values", "timestamps"
FINISHED = {
    "COMPLETED": True,
    **dict.fromkeys(("FAILED", "INTERRUPTED", "TIMEOUT"), False),
}
"""What ``status`` says about the end; other words say that there was none yet."""


class SacredMetrics:
    """Every metric of a run, each with steps of its own."""

    name = "sacred"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        first = next(iter(begun_object(head).values()), None)
        return isinstance(first, dict) and isinstance(first.get(STEPS), list)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        document = read_object(stream, faults)
        found = False
        names = list(document.members)
        for name in names[:MAX_COLUMNS]:
            cut = document.cut and name == names[-1]
            column = _column(name, document.members[name], cut, faults)
            if column is not None and len(column):
                found = True
                yield column
        if len(names) > MAX_COLUMNS:
            detail = f"more than {MAX_COLUMNS} metrics: the others are left out"
            faults.add(FaultCode.TOO_LARGE, detail)
        yield from faults
        if not found and not any(fault.fatal for fault in faults):
            yield NotJudgeable(Content.HEADER_ONLY, "no metric has a point")


class SacredRun:
    """``run.json``: how the run ended."""

    name = "sacred-run"
    kind = Kind.CONFIG

    def claims(self, path: str, head: bytes) -> bool:
        named = path.rpartition("/")[2] == "run.json"
        return named and {"artifacts", "command", "experiment"} <= begun_object(head).keys()

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        status = read_object(stream, faults).members.get("status")
        yield Facts(framework="sacred", finished=FINISHED.get(str(status)))
        yield from faults


def _column(name: str, series: object, cut: bool, faults: FaultLog) -> Column | None:
    """A metric; its last point is left out where the file is cut in it, for want of digits."""
    if not isinstance(series, Mapping):
        faults.add(FaultCode.CORRUPT, f"{name[:80]!r} is no series")
        return None
    steps, values = _list(series, STEPS), _list(series, VALUES)
    points = [
        (int(step), value, at)
        for at, (step, value) in enumerate(
            zip(map(number, steps), map(_scalar, values), strict=False)
        )
        if step is not None and abs(step) < MAX_STEP and value is not None
    ]
    if len(points) < max(len(steps), len(values)) and not cut:
        faults.add(FaultCode.CORRUPT, f"{name[:80]!r}: some points are no numbers")
    if cut:
        points = points[:-1]
    return Column(
        name,
        np.array([step for step, _, _ in points], dtype=np.int64),
        np.array([value for _, value, _ in points], dtype=np.float64),
        walls=_walls(_list(series, CLOCK), [at for _, _, at in points]),
    )


def _list(series: Mapping[str, object], key: str) -> Sequence[object]:
    found = series.get(key)
    return found if isinstance(found, list) else []


def _scalar(value: object) -> float | None:
    return number(value.get("value") if isinstance(value, Mapping) else value)


def _walls(clock: Sequence[object], places: Sequence[int]) -> Floats | None:
    """Seconds since 1970 at these places; None unless every one is a date."""
    if not places or places[-1] >= len(clock):
        return None
    try:
        dates = [datetime.fromisoformat(str(clock[at])) for at in places]
        return np.array([date.replace(tzinfo=UTC).timestamp() for date in dates])
    except (ValueError, OverflowError):
        return None
