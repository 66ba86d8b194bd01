"""Where the training loss began: the level of a model that has hardly been trained."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from trainproof.model.data import Series

from .interface import starts_late
from .shape import counterpart
from .statistics import FEW, higher_p, median, screen

ROWS = 5
"""First rows of which the median is the level at the beginning."""

LIKELY, LOWER = 0.01, 0.95
"""Mann-Whitney p, and share of the level at the beginning, below which a loss has left it."""


class Beginning(msgspec.Struct, frozen=True):
    """Of the training loss of the same quantity as a held-out loss.

    ``level``: its first row, or the median of the first ``ROWS`` up to the first evaluation where
    that is greater. ``most``: its greatest value. ``left``: whether the rows after these are lower:
    by ranks, and by a twentieth.
    """

    series: str
    level: float
    most: float
    left: bool


def beginning(loss: Series, train: Iterable[Series]) -> Beginning | None:
    """None where no training loss of the same quantity, finite and positive, is logged from the
    start of the run on, over the same axis and in twenty rows or more."""
    same = counterpart(loss, train)
    if same is None or len(same) < FEW or same.column.axis is not loss.column.axis:
        return None
    if screen(same).nonfinite or starts_late(same) or not same.values.min() > 0:
        return None
    before = int(np.count_nonzero(same.steps <= loss.steps[0]))
    if not before:
        return None
    head, rest = np.split(same.values, [min(ROWS, before)])
    level = max(float(head[0]), median(head))
    left = higher_p(rest, head) < LIKELY and median(rest) < LOWER * level
    return Beginning(same.tag, level, float(same.values.max()), left)
