"""The answers of rows, beside each other and beside their prompts."""

from __future__ import annotations

from collections.abc import Iterable

from trainproof.model.dataset import Answers, Spot

from .places import Counted, spot_at

_MOST = 1000
"""Different answers that are counted, the first ones: one that most rows give is among them."""
_SHOWN = 60
_TELLING = 20
"""Characters from which on an answer does not end a prompt by chance."""


class Given:
    """Takes the prompts and answers of training rows."""

    def __init__(self) -> None:
        self._rows = 0
        self._counts: dict[int, int] = {}
        self._first: dict[int, tuple[str, Spot]] = {}
        self._long = 0
        self._ends = Counted()

    def extend(self, artifact: str, rows: Iterable[tuple[str, str]], places: Iterable[int]) -> None:
        """Pairs of a prompt and its answer. ``places``: as of ``spot_at``."""
        counts = self._counts
        for (prompt, answer), place in zip(rows, places, strict=True):
            self._rows += 1
            key = hash(answer)
            if key in counts:
                counts[key] += 1
            elif len(counts) < _MOST:
                counts[key] = 1
                self._first[key] = answer[:_SHOWN], spot_at(artifact, place)
            if len(answer) >= _TELLING:
                self._long += 1
                if prompt.endswith(answer):
                    self._ends.add(spot_at(artifact, place))

    def found(self) -> Answers | None:
        """None without any answer."""
        if not self._rows:
            return None
        key = max(self._counts, key=lambda key: self._counts[key])
        text, spot = self._first[key]
        return Answers(
            rows=self._rows,
            most=text,
            most_rows=self._counts[key],
            most_at=spot,
            long=self._long,
            within=self._ends.tally(),
        )
