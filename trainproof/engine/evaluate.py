"""One rule, one view. The only place where a clean cell is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from trainproof.model.data import Attempt, RunView, Series
from trainproof.model.outcome import (
    TOOL_FAULTS,
    Application,
    Cell,
    Clean,
    Evidence,
    Fired,
    Hit,
    Level,
    Skip,
    State,
    Undecided,
    Value,
)
from trainproof.rules.interface import Missing, Place, Rule, absent

from .cells import applied, never_checked, not_checked

_ERROR_LENGTH = 500


def evaluate(rule: Rule, view: RunView, overrides: Mapping[str, Value]) -> Cell:
    """Bind the needs at every place of the view, then ask the rule.

    Anything but Clean or Fired is NOT_CHECKED: an exception, None or undeclared measures
    become ``checker-failed``, never a verdict.
    """
    with silent():
        return cell_of(rule, view, overrides)


def silent() -> np.errstate:
    """Where rules are asked: values come from logs, and overflow is normal."""
    return np.errstate(all="ignore")


def cell_of(rule: Rule, view: RunView, overrides: Mapping[str, Value]) -> Cell:
    """``evaluate`` for who asks many rules, and is ``silent`` once."""
    if view.regime in rule.info.regimes:
        return never_checked(rule.info.id, Skip.REGIME, "regime", str(view.regime))
    found = _found(rule, view)
    if not found:
        return _nowhere(rule, view)
    applying = _Applying(rule, view, rule.thresholds(overrides))
    return applying.cell(tuple([applying.to(attempt, focus) for attempt, focus in found]))


def _found(rule: Rule, view: RunView) -> Sequence[tuple[Attempt, Series | None]]:
    """What the rule is about: each of its series; else the last attempt as a whole."""
    if rule.spreader is not None:
        return rule.spreader.found(view)
    return ((view.attempts[-1] if view.attempts else Attempt(0, ()), None),)


def _nowhere(rule: Rule, view: RunView) -> Cell:
    """The cell of a rule for which there is no series."""
    assert rule.spreader is not None
    role = rule.spreader.roles[0]
    if view.fatal is None:
        return never_checked(rule.info.id, Skip.NEED_ABSENT, "role", str(role))
    missing = absent(view, role)
    return not_checked(rule.info.id, missing.skip, missing.detail)


class _Applying:
    """A rule on its way through the places of a view, with what it found and why it was not
    applied so far."""

    __slots__ = ("_hits", "_rule", "_skips", "_thresholds", "_view")

    def __init__(self, rule: Rule, view: RunView, thresholds: Mapping[str, Value]) -> None:
        self._rule, self._view, self._thresholds = rule, view, thresholds
        self._hits: list[Hit] = []
        self._skips: list[Skip] = []

    def to(self, attempt: Attempt, focus: Series | None) -> Application:
        place, rule = Place(self._view, attempt, focus), self._rule
        bound: list[object] = []
        if rule.spreader is not None and focus is not None:
            unfit = rule.spreader.unfit(focus)
            if unfit is not None:
                return self._skipped(place, unfit.skip, unfit.detail)
            bound.append(focus)
        for need in rule.beside:
            got = need.bind(place)
            if type(got) is Missing:
                return self._skipped(place, got.skip, got.detail)
            bound.append(got)
        try:
            outcome = rule.check(*bound, **self._thresholds)
        except MemoryError:
            return self._skipped(place, Skip.WORKER_MEMORY, {})
        except Exception as error:  # noqa: BLE001 - a rule's bug must not become a verdict
            return self._failed(place, f"{type(error).__name__}: {error}")
        return self._recorded(place, outcome)

    def cell(self, checks: tuple[Application, ...]) -> Cell:
        """Fired if any application fired; else what failed; else clean if any is; else the skip."""
        id, skips = self._rule.info.id, self._skips
        if self._hits:
            return Cell(id, State.FIRED, None, checks, tuple(self._hits))
        broken = next((skip for skip in skips if skip in TOOL_FAULTS), None) if skips else None
        if broken is None and len(skips) < len(checks):
            return Cell(id, State.CLEAN, None, checks)
        return Cell(id, State.NOT_CHECKED, broken or min(skips, key=_rank), checks)

    def _recorded(self, place: Place, outcome: object) -> Application:
        match outcome:
            case Clean(measured):
                if problem := self._rule.unknown(measured):
                    return self._failed(place, problem)
                return applied(place, State.CLEAN, measured)
            case Undecided(measured, skip):
                if problem := self._rule.unknown(measured):
                    return self._failed(place, problem)
                return self._skipped(place, skip, measured)
            case Fired(evidence):
                return self._fired(place, evidence)
            case _:
                return self._failed(place, f"returned {type(outcome).__name__}, not an Outcome")

    def _fired(self, place: Place, evidence: Sequence[Evidence]) -> Application:
        for item in evidence:
            if problem := self._rule.problem(item):
                return self._failed(place, problem)
        hits = [_hit(self._rule, place, item, self._thresholds) for item in evidence]
        self._hits += hits
        return applied(place, State.FIRED, hits[0].evidence.measured)

    def _failed(self, place: Place, why: str) -> Application:
        return self._skipped(place, Skip.CHECKER_FAILED, {"error": why[:_ERROR_LENGTH]})

    def _skipped(self, place: Place, skip: Skip, measured: Mapping[str, Value]) -> Application:
        self._skips.append(skip)
        return applied(place, State.NOT_CHECKED, measured, skip)


def _plain(measured: Mapping[str, Value]) -> Mapping[str, Value]:
    """Python's own numbers: numpy's scalars pass for them in a rule, and cannot be sent home."""
    for value in measured.values():
        if isinstance(value, np.generic):
            break
    else:
        return measured
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in measured.items()
    }


def _hit(rule: Rule, place: Place, evidence: Evidence, thresholds: Mapping[str, Value]) -> Hit:
    """An attempt that a later one replaced cannot fail the run: its FAIL is a warning."""
    level = rule.info.form(evidence.variant).level
    superseded = place.attempt.superseded and place.focus is not None
    if superseded and level is Level.FAIL:
        level = Level.WARN
    plain = replace(evidence, measured=_plain(evidence.measured))
    return Hit(level, plain, thresholds, place.attempt.index, superseded)


_NEAREST = (Skip.UNDECIDED, Skip.LOW_POWER)
"""Of several skips, the one that came nearest to a judgement speaks for the cell."""


def _rank(skip: Skip) -> int:
    return _NEAREST.index(skip) if skip in _NEAREST else len(_NEAREST)
