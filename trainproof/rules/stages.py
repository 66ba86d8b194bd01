"""Settings that are changed from stage to stage of a training: its difficulty, its task, the
length of its sequences. What a loss means changes with them."""

import re

import numpy as np

from trainproof.model.data import Attempt, Role, Series

from .statistics import median

_MOST = 20
"""Values that a setting takes at most."""
_ROWS = 5
"""Rows that a stage lasts at least, on average; and rows on either side that are compared."""
_EVENTS = re.compile(
    r"skip|nan|inf|overflow|restart|retry|patience|count|best|bad|spike|epoch|early", re.IGNORECASE
)
"""Names of what counts events: it changes because of a loss that rose, and not before it."""


def changed_setting(
    beside: Attempt, loss: Series, best_at: int, rise: float, share: float
) -> Series | None:
    """The logged setting at whose changes the loss rose at once by this share of its rise since
    the row ``best_at``, if there is one."""
    for one in (*beside.select(Role.UNKNOWN), *beside.select(Role.OTHER)):
        if not _EVENTS.search(one.tag) and _rises_with(one, loss, best_at) >= share * rise:
            return one
    return None


def _rises_with(setting: Series, loss: Series, best_at: int) -> float:
    """The sum of the rises of a loss from the rows before each change to the rows after it, since
    the row ``best_at``; zero where the column is none of few values that last."""
    values = setting.values
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    if not 0 < len(changes) <= len(values) / _ROWS or len(np.unique(values)) > _MOST:
        return 0.0
    rows = np.searchsorted(loss.steps, setting.steps[changes])
    return sum(
        max(
            median(loss.values[row : row + _ROWS]) - median(loss.values[max(row - _ROWS, 0) : row]),
            0,
        )
        for row in rows.tolist()
        if best_at < row < len(loss)
    )
