"""Applications of rules and cells of the matrix, spelled as they are published."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from trainproof.model.outcome import Application, Cell, Skip, State, Value
from trainproof.model.text import printable, spell_values
from trainproof.rules.interface import Place


def applied(
    place: Place, state: State, measured: Mapping[str, Value], skip: Skip | None = None
) -> Application:
    """One application: to the series in focus, or to the whole subject."""
    series = None if place.focus is None else printable(place.focus.tag)
    spelled = spell_values(measured) if measured else None
    return Application(state, series, place.attempt.index, skip, spelled)


def not_checked(rule: str, skip: Skip, detail: Mapping[str, Value] | None = None) -> Cell:
    """A cell in which the rule was not applied at all."""
    single = Application(State.NOT_CHECKED, None, 0, skip, spell_values(detail) if detail else None)
    return Cell(rule, State.NOT_CHECKED, skip, (single,))


@lru_cache(maxsize=4096)
def never_checked(rule: str, skip: Skip, name: str, value: str) -> Cell:
    """A cell of which the detail is a single word: most runs have it, and share it."""
    return not_checked(rule, skip, {name: value})
