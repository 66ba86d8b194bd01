"""What rules about datasets and tokenizers share: their needs, and evidence from counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from trainproof.model.dataset import Dataset, Issue, Shape, Spot, Tally
from trainproof.model.outcome import Clean, Evidence, Fired, Outcome, Skip, Undecided, Value, Where
from trainproof.model.tokenizer import Tokenizer

from .interface import Missing, Place, absent

COUNTED: dict[str, str] = {
    "rows": "rows that were looked at",
    "count": "rows of which it is so",
    "what": "what is so",
    "places": "the first of them",
}
"""Measures of a rule that counts rows."""


class Part(msgspec.Struct, frozen=True):
    """A part of what was measured of a dataset, which not every dataset has."""

    name: str
    what: str

    def describe(self) -> str:
        return self.what

    def bind(self, place: Place) -> object | Missing:
        got = place.view.inspected
        if not isinstance(got, Dataset):
            return absent(place.view, None)
        value = getattr(got, self.name)
        return absent(place.view, None) if value is None else value


class Rows(msgspec.Struct, frozen=True):
    """The dataset, with at least one row of one of these shapes; of any by default."""

    shapes: frozenset[Shape] = frozenset(Shape)

    def describe(self) -> str:
        if len(self.shapes) == len(Shape):
            return "a dataset with at least one row"
        return f"rows of the shape {' or '.join(sorted(self.shapes))}"

    def bind(self, place: Place) -> Dataset | Missing:
        got = place.view.inspected
        if not isinstance(got, Dataset):
            return absent(place.view, None)
        return got if rows_of(got, self.shapes) else absent(place.view, None)


class Vocabulary(msgspec.Struct, frozen=True):
    """The tokenizer: the subject itself, or the one that a dataset is looked at with.

    ``text``: it must have been used on a text.
    """

    text: bool = False

    def describe(self) -> str:
        return "a tokenizer and a text that it was used on" if self.text else "a tokenizer"

    def bind(self, place: Place) -> Tokenizer | Missing:
        got = place.view.inspected
        if isinstance(got, Dataset):
            got = got.tokenizer
        if not isinstance(got, Tokenizer) or (self.text and got.text is None):
            return absent(place.view, None)
        return got


def rows_of(dataset: Dataset, shapes: frozenset[Shape]) -> int:
    """Rows of these shapes, on both sides of a split."""
    return sum(rows for shape, rows in dataset.shapes.items() if shape in shapes)


def places(spots: Sequence[Spot], rows: int) -> str:
    """The first few places, and how many more there are."""
    home = spots[0].artifact
    shown = ", ".join(f"{spot}" if spot.artifact == home else _full(spot) for spot in spots)
    more = rows - len(spots)
    return f"{shown} and {more:,} more" if more > 0 else shown


def _full(spot: Spot) -> str:
    return f"{spot} of {spot.artifact}"


def at(spot: Spot) -> Where:
    return Where(spot.artifact, line=spot.line)


def counted(
    tally: Tally, rows: int, what: str, variant: str = "", **more: Value
) -> Iterator[Evidence]:
    """The evidence of a count, where it is not zero."""
    if tally.rows and tally.spots:
        measured: dict[str, Value] = {
            "rows": rows,
            "count": tally.rows,
            "what": what,
            "places": places(tally.spots, tally.rows),
            **more,
        }
        yield Evidence(at(tally.spots[0]), measured, variant)


def issues(
    dataset: Dataset, rows: int, words: Mapping[Issue, str], variants: Mapping[Issue, str]
) -> list[Evidence]:
    """One place for each issue that occurs. ``variants``: of those that are not the main form."""
    return [
        evidence
        for issue, what in words.items()
        for evidence in counted(
            dataset.issues.get(issue, Tally()), rows, what, variants.get(issue, "")
        )
    ]


def settle(found: Sequence[Evidence], measured: Mapping[str, Value]) -> Outcome:
    return Fired(tuple(found)) if found else Clean(measured)


def too_few(measured: Mapping[str, Value]) -> Undecided:
    return Undecided(measured, Skip.NEED_TOO_SHORT)
