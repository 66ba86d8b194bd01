"""The forms of rows: which fields they have, of which types. Few forms make up a dataset, so
what follows from the form of a row is worked out once."""

from __future__ import annotations

from collections import Counter

import msgspec

from trainproof.model.dataset import FieldFacts, Shape, Spot

from .classes import label_of
from .places import spot_at
from .rows import Fields
from .shapes import Plan, recognise

_MOST = 2000
"""Forms that are told apart; rows of further ones are read and not counted by field."""
_MOST_NAMES = 100_000
"""Names of fields that are kept, over all forms: rows may have millions."""
_FIELDS = 500
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


class Form(msgspec.Struct):
    """``label``: the field with the label, if any. ``first``: the first row of this form."""

    names: tuple[str, ...]
    types: tuple[type, ...]
    plan: Plan
    label: str
    first: Spot
    rows: int = 0


class Forms:
    def __init__(self, text_field: str | None) -> None:
        self._text_field = text_field
        self._known: dict[tuple[tuple[str, ...], tuple[type, ...]], Form] = {}
        self._last: Form | None = None
        self._names = 0
        self.dropped = 0

    def of(self, row: Fields, artifact: str, place: int) -> Form:
        """The form of a row, which is counted."""
        names, types = tuple(row), tuple(map(type, row.values()))
        form = self._last
        if form is None or names != form.names or types != form.types:
            form = self._other(names, types, row, spot_at(artifact, place))
            self._last = form
        form.rows += 1
        return form

    def _other(
        self, names: tuple[str, ...], types: tuple[type, ...], row: Fields, spot: Spot
    ) -> Form:
        """A form that is not that of the row before."""
        form = self._known.get((names, types))
        if form is None:
            plan = recognise(row, self._text_field)
            form = Form(names, types, plan, label_of(names, plan.shape), spot)
            if not self._known or self._has_room(len(names)):
                self._known[names, types] = form
                self._names += len(names)
            else:
                self.dropped += 1
        return form

    def _has_room(self, names: int) -> bool:
        return len(self._known) < _MOST and self._names + names <= _MOST_NAMES

    def shapes(self) -> tuple[dict[Shape, int], dict[Shape, Spot]]:
        """Rows of each shape, and the first of each."""
        rows: Counter[Shape] = Counter()
        first: dict[Shape, Spot] = {}
        for form in self._known.values():
            rows[form.plan.shape] += form.rows
            first.setdefault(form.plan.shape, form.first)
        return dict(rows), first

    def fields(self) -> tuple[FieldFacts, ...]:
        """Every field of any form, in the order of their first rows."""
        names = dict.fromkeys(name for form in self._known.values() for name in form.names)
        return tuple(self._field(name) for name in list(names)[:_FIELDS])

    def _field(self, name: str) -> FieldFacts:
        rows = nulls = 0
        types: Counter[str] = Counter()
        first: dict[str, Spot] = {}
        without: Spot | None = None
        for form in self._known.values():
            if name not in form.names:
                without = without or form.first
                continue
            rows += form.rows
            kind = form.types[form.names.index(name)]
            if kind is type(None):
                nulls += form.rows
                continue
            told = _NAMES.get(kind, "list" if kind is list else kind.__name__)
            types[told] += form.rows
            first.setdefault(told, form.first)
        return FieldFacts(name, rows, nulls, dict(types), first, without)
