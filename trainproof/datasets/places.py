"""Counting rows by what is wrong with them, with the first few places."""

from __future__ import annotations

from trainproof.model.dataset import Issue, Spot, Tally

SPOTS = 5
"""Places that are kept of each kind."""


def spot_at(artifact: str, place: int) -> Spot:
    """The row at a place: its line, or minus its number where the format has no lines."""
    return Spot(artifact, abs(place), place > 0)


class Counted:
    """A count and its first places."""

    __slots__ = ("rows", "spots")

    def __init__(self) -> None:
        self.rows = 0
        self.spots: list[Spot] = []

    def add(self, spot: Spot) -> None:
        self.rows += 1
        if len(self.spots) < SPOTS:
            self.spots.append(spot)

    def tally(self) -> Tally:
        return Tally(self.rows, tuple(self.spots))


class Issues:
    """Counts of all issues."""

    def __init__(self) -> None:
        self._counted: dict[Issue, Counted] = {}

    def add(self, issue: Issue, spot: Spot) -> None:
        self._counted.setdefault(issue, Counted()).add(spot)

    def tallies(self) -> dict[Issue, Tally]:
        return {issue: counted.tally() for issue, counted in self._counted.items()}
