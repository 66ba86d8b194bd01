"""The classes of a labelled dataset: how many rows of each, and in which order."""

from __future__ import annotations

import math
from collections import Counter

from trainproof.model.dataset import Labels, Shape, Spot

from .rows import Fields

_NAMES = ("label", "labels", "label_id")
_ABOUT = "category"
"""The name of a label, and also of what all rows of a file are about."""
_OF_TEXTS = (*_NAMES, "class", "target", _ABOUT)
"""Of rows that answer something the last ones are text, or say what the answer is about."""
_CLASSIFIED = frozenset({Shape.TEXT, Shape.FIELDS})
_MOST = 1000
"""Different values beyond which a field holds no classes."""
_LEAST_EACH = 5
"""Rows a class has on average, at least: with fewer, the values are no classes."""
_LENGTH = 60


def label_of(names: tuple[str, ...], shape: Shape) -> str:
    """The field with the label among the fields of a row; empty where there is none."""
    known = _OF_TEXTS if shape in _CLASSIFIED else _NAMES
    return next((name for name in known if name in names), "")


class Classes:
    """Follows the labels of rows in their order."""

    def __init__(self) -> None:
        self._name = ""
        self._counts: Counter[str] = Counter()
        self._last: str | None = None
        self._runs = self._length = self._longest = 0
        self._since: Spot | None = None
        self._longest_at: Spot | None = None
        self._usable = True

    def add(self, name: str, row: Fields, spot: Spot) -> None:
        """``name``: of the field with the label. Only the first one that is met counts."""
        self._name = self._name or name
        value = self._value(row)
        if value is None or not self._usable:
            return
        self._counts[value] += 1
        self._usable = len(self._counts) <= _MOST
        if value != self._last:
            self._last, self._length, self._since = value, 0, spot
            self._runs += 1
        self._length += 1
        if self._length > self._longest:
            self._longest, self._longest_at = self._length, self._since

    def _value(self, row: Fields) -> str | None:
        value = row.get(self._name)
        if isinstance(value, float):
            self._usable = False  # a number to be predicted
        return str(value)[:_LENGTH] if isinstance(value, (str, int)) else None

    def found(self) -> Labels | None:
        """None where no field holds classes."""
        rows, classes = self._counts.total(), len(self._counts)
        if not self._usable or not classes or self._longest_at is None:
            return None
        if classes > 1 and rows < _LEAST_EACH * classes:
            return None
        if classes == 1 and self._name == _ABOUT:
            return None
        ranked = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        expected, deviation = _random_runs(list(self._counts.values()))
        return Labels(
            field=self._name,
            rows=rows,
            classes=classes,
            most=ranked[0][0],
            most_rows=ranked[0][1],
            least=ranked[-1][0],
            least_rows=ranked[-1][1],
            runs=self._runs,
            expected=expected,
            z=(self._runs - expected) / deviation if deviation else 0.0,
            longest=self._longest,
            longest_at=self._longest_at,
        )


def _random_runs(counts: list[int]) -> tuple[float, float]:
    """Mean and standard deviation of the number of runs in a random order.

    Barton and David, "Multiple runs", Biometrika 44 (1957).
    """
    n = sum(counts)
    if n < 2:
        return float(n), 0.0
    squares, cubes = sum(c**2 for c in counts), sum(c**3 for c in counts)
    mean = 1 + (n * n - squares) / n
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n * n * (n - 1))
    return mean, math.sqrt(max(variance, 0.0))
