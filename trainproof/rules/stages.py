"""Settings that are changed from stage to stage of a training: its difficulty, its task, the
length of its sequences. What a loss means changes with them."""

import re
from collections.abc import Iterator

import numpy as np

from trainproof.model.data import Attempt, Ints, Role, Series

from .shape import GiveBack
from .statistics import median

_MOST = 20
"""Values that a setting takes at most."""
_ROWS = 5
"""Rows that a stage lasts at least, on average; and rows on either side that are compared."""
_NEAR = 3
"""Rows between a change and what it explains, at most."""
_OWN = 0.25
"""Share of the rise that may have come before the first change."""
_EVENTS = re.compile(
    r"skip|nan|inf|overflow|restart|retry|patience|count|best|bad|spike|epoch|early", re.IGNORECASE
)
"""Names of what counts events: it changes because of a loss that rose, and not before it."""


def changed_setting(beside: Attempt, loss: Series, found: GiveBack, share: float) -> Series | None:
    """The logged setting at whose changes the loss rose at once by this share of what it gave
    back, if there is one."""
    for one in _settings(beside):
        if _rises_with(one, loss, found) >= share * found.rise:
            return one
    return None


def stages(beside: Attempt, series: Series, sign: float = 1.0) -> Ints:
    """The rows of a loss or a time at which a logged setting was changed, and it rose at once; for
    what had better be high, with a negative ``sign``, those at which it fell."""
    rows = {int(row) for one in _settings(beside) for row in _changes(one, series)}
    worse = (row for row in sorted(rows) if row and sign * _jump(series, row) > 0)
    return np.fromiter(worse, np.int64)


def _jump(series: Series, row: int) -> float:
    return _after(series, row) - _before(series, row)


def changed_near(beside: Attempt, series: Series, row: int) -> Series | None:
    """The logged setting that was changed within ``_NEAR`` rows of this one, if there is one."""
    for one in _settings(beside):
        if np.any(np.abs(_changes(one, series) - row) <= _NEAR):
            return one
    return None


def _settings(beside: Attempt) -> Iterator[Series]:
    """The columns that may be settings, by their names."""
    for one in (*beside.select(Role.UNKNOWN), *beside.select(Role.OTHER)):
        if not _EVENTS.search(one.tag):
            yield one


def _changes(setting: Series, loss: Series) -> Ints:
    """The rows of a loss at which a setting was changed; none where the column is none of few
    values that last."""
    values = setting.values
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    if not 0 < len(changes) <= len(values) / _ROWS or len(np.unique(values)) > _MOST:
        return np.empty(0, np.int64)
    rows = np.searchsorted(loss.steps, setting.steps[changes])
    return rows[rows < len(loss)]


def _rises_with(setting: Series, loss: Series, found: GiveBack) -> float:
    """The sum of the rises of a loss from the rows before each change to the rows after it, since
    it was at its best; zero where the loss had risen before the first change."""
    rows = _changes(setting, loss)
    rows = rows[rows > found.best_at]
    if not len(rows) or _before(loss, rows[0]) - found.best > _OWN * found.rise:
        return 0.0
    return sum(max(_after(loss, row) - _before(loss, row), 0.0) for row in rows)


def _before(loss: Series, row: int) -> float:
    return median(loss.values[max(row - _ROWS, 0) : row])


def _after(loss: Series, row: int) -> float:
    return median(loss.values[row : row + _ROWS])
