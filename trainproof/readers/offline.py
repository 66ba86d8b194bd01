"""What the clients of Neptune and ClearML keep while they are offline.

Neptune: ``.neptune/offline/run__*/data-1.log``, one operation in a line; ``LogFloats`` holds
points. ClearML: ``metrics.jsonl`` in a folder or a zip ``offline-<task>``, in each line a list of
events, of which those of ``training_stats_scalar`` are points.
Both were read from what neptune 1.14 and clearml 2.1 write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import BinaryIO

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Facts, FaultCode, Item, NotJudgeable

from .hyperparameters import facts_of
from .interface import Options
from .json_text import loads_leniently, uncollected
from .scalars import Scalars, TooMany, is_count
from .sheet import number
from .text import FaultLog, TextSource, decode_head

OPERATION = re.compile(r'\{"obj": \{"type": "\w+", "path": \["')
EVENTS = re.compile(r'\[\{"timestamp": \d+, "type": "\w+", "task": "')

MAX_SETTINGS = 10_000
MAX_NAME = 1000
MONITORING = frozenset({"monitoring", "sys"})
"""What Neptune logs by itself: the machine, and the name of the run."""

Settings = dict[str, object]


class Neptune:
    """The queue of one run."""

    name = "neptune"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        return OPERATION.match(decode_head(head)) is not None

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        yield from _items(artifact, stream, _operation, "neptune")


class ClearMl:
    """The events of one task."""

    name = "clearml"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        named = path.rpartition("/")[2] == "metrics.jsonl"
        return named and EVENTS.match(decode_head(head)) is not None

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        yield from _items(artifact, stream, _events, "clearml")


Take = Callable[[object, Scalars, Settings], bool]
"""Take what a line holds; False where it holds something else."""


def _items(artifact: Artifact, stream: BinaryIO, take: Take, framework: str) -> Iterator[Item]:
    faults, points, settings = FaultLog(artifact.path), Scalars(), Settings()
    try:
        with uncollected():
            for line, ended, data in _lines(TextSource(stream, faults)):
                _take(data, line, ended, faults, lambda told: take(told, points, settings))
    except TooMany as error:
        faults.add(FaultCode.TOO_LARGE, str(error), fatal=True)
    yield from points.columns()
    yield Facts(framework=framework).over(facts_of(settings.items()))
    yield from faults
    if not points and not any(fault.fatal for fault in faults):
        yield NotJudgeable(Content.HEADER_ONLY, "no metric has a number")


def _lines(source: TextSource) -> Iterator[tuple[int, bool, bytes]]:
    """Number, whether it has its end, and bytes of each line that is not empty."""
    for block in source.blocks():
        *whole, rest = block.data.split(b"\n")
        for at, data in enumerate(whole, block.first_line):
            if data.strip():
                yield at, True, data
        if rest.strip():
            yield block.first_line + len(whole), False, rest


def _take(
    data: bytes, line: int, ended: bool, faults: FaultLog, take: Callable[[object], bool]
) -> None:
    try:
        told = loads_leniently(data)
    except ValueError as error:
        if ended:
            faults.add(FaultCode.CORRUPT, f"not JSON: {error}", line)
        else:
            faults.add(FaultCode.TRUNCATED, "the file ends within a line", line)
        return
    if not take(told):
        faults.add(FaultCode.CORRUPT, "not what the client writes", line)


# --- Neptune --------------------------------------------------------------------------------------


def _operation(told: object, points: Scalars, settings: Settings) -> bool:
    operation = told.get("obj") if isinstance(told, dict) else None
    if not isinstance(operation, dict) or not isinstance(path := operation.get("path"), list):
        return False
    if path[:1] and path[0] in MONITORING:
        return True
    name = "/".join(map(str, path))[:MAX_NAME]
    if operation.get("type") == "LogFloats":
        for point in _mappings(operation.get("values")):
            _add(points, name, point.get("step"), point.get("value"), point.get("ts"))
    elif "value" in operation and len(settings) < MAX_SETTINGS:
        settings[str(path[-1])[:MAX_NAME]] = operation["value"]
    return True


# --- ClearML --------------------------------------------------------------------------------------


def _events(told: object, points: Scalars, _: Settings) -> bool:
    if not isinstance(told, list):
        return False
    for event in _mappings(told):
        if event.get("type") == "training_stats_scalar":
            names = dict.fromkeys(str(event.get(key)) for key in ("metric", "variant"))
            wall = number(event.get("timestamp")) or 0.0
            name = "/".join(names)[:MAX_NAME]
            _add(points, name, event.get("iter"), event.get("value"), wall / 1000)
    return True


def _mappings(values: object) -> Iterable[Mapping[str, object]]:
    return (one for one in values if isinstance(one, dict)) if isinstance(values, list) else ()


def _add(points: Scalars, name: str, step: object, value: object, wall: object) -> None:
    """Add a point; its step is missing where the user gave none."""
    measured, at = number(value), number(step)
    if measured is None:
        return
    counted = int(at) if at is not None and math.isfinite(at) and at == int(at) else 0
    points.add(name, counted if is_count(counted) else 0, measured, number(wall) or 0.0)
