"""Ask one rule about one view, as the engine does."""

from __future__ import annotations

from collections.abc import Mapping

from trainproof.engine.evaluate import evaluate
from trainproof.model.data import RunView
from trainproof.model.outcome import Cell, Level, Skip, State, Value
from trainproof.model.rule import Prose, render
from trainproof.rules import REGISTRY


def judge(rule: str, view: RunView, **thresholds: Value) -> Cell:
    return evaluate(REGISTRY[rule], view, thresholds)


def level(cell: Cell) -> tuple[Level, str]:
    """Level and variant of the only hit."""
    (hit,) = cell.hits
    return hit.level, hit.evidence.variant


def prose(cell: Cell) -> Prose:
    (hit,) = cell.hits
    return render(REGISTRY[cell.rule].info, hit)


def measured(cell: Cell) -> Mapping[str, Value]:
    (check,) = cell.checks
    return check.measured


def is_clean(cell: Cell) -> bool:
    return cell.state is State.CLEAN


def skipped(cell: Cell) -> Skip | None:
    return cell.skip
