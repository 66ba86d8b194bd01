"""What a training has logged so far, in memory, and the view of it that rules are bound from."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping

import msgspec
import numpy as np

from trainproof.assembly import Reading, assemble
from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Axis, Column, Facts, RunView

ARTIFACT = "guardian"
"""Where findings point to: what was logged to a guardian has no file and no line."""
MAX_TAGS = 1024
MAX_POINTS = 1 << 24
"""Points kept of all tags together (400 MB); what comes after them is counted, not kept."""


class _Points(msgspec.Struct):
    steps: array[int] = msgspec.field(default_factory=lambda: array("q"))
    values: array[float] = msgspec.field(default_factory=lambda: array("d"))
    walls: array[float] = msgspec.field(default_factory=lambda: array("d"))

    def column(self, tag: str, axis: Axis) -> Column:
        """A copy: the arrays cannot grow while an array of numpy shares their memory."""
        return Column(
            tag,
            np.array(self.steps, np.int64),
            np.array(self.values, np.float64),
            axis,
            walls=np.array(self.walls, np.float64),
        )


class Journal(msgspec.Struct):
    """Scalars by tag. ``rows``: how often something was logged. ``dropped``: points that were
    not kept."""

    axis: Axis = Axis.STEP
    rows: int = 0
    dropped: int = 0
    _tags: dict[str, _Points] = msgspec.field(default_factory=dict)
    _points: int = 0

    def add(self, step: int, metrics: Mapping[str, object], wall: float) -> None:
        """Keep what is a number. ``wall``: seconds since the epoch."""
        self.rows += 1
        for tag, value in metrics.items():
            number = scalar(value)
            if number is None:
                continue
            known = tag in self._tags
            if self._points >= MAX_POINTS or not (known or len(self._tags) < MAX_TAGS):
                self.dropped += 1
                continue
            points = self._tags.setdefault(str(tag), _Points())
            points.steps.append(int(step))
            points.values.append(number)
            points.walls.append(wall)
            self._points += 1

    def view(self, id: str, facts: Facts) -> RunView:
        """Assembled as the log of a run is, so that rules see what they see in an audit."""
        artifact = Artifact("", ARTIFACT, 0, Kind.LOG, ARTIFACT)
        return assemble(id, [Reading(artifact, self.columns(), facts)])

    def columns(self) -> tuple[Column, ...]:
        """All that was kept, by tag, in the order of the tags' first values."""
        return tuple(points.column(tag, self.axis) for tag, points in self._tags.items())


def scalar(value: object) -> float | None:
    """The number that a value is: Python's, numpy's, or a tensor or array of one element."""
    if isinstance(value, bool | np.bool_ | str | bytes) or value is None:
        return None
    try:
        if hasattr(value, "detach"):  # torch warns where a gradient is asked for
            value = value.detach()
        elif isinstance(value, np.ndarray):
            value = value.item()
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf
    except Exception:  # noqa: BLE001 - of many elements, without data, or whatever its class raises
        return None
