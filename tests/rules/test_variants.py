"""What must not matter to a rule: each example in eighty benign disguises.

A log may number its steps otherwise, lie elsewhere, be printed with fewer digits, hold more series,
declare more, be continued in a second file or follow an attempt that was given up. The silent
example of a rule stays silent in every one of them, and the firing one fires at the same level.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
import pytest
from msgspec.structs import replace

from trainproof.engine.evaluate import evaluate
from trainproof.model.data import (
    Attempt,
    Column,
    Facts,
    Floats,
    Identity,
    Role,
    RunView,
    Series,
)
from trainproof.model.outcome import Level, State
from trainproof.model.rule import SubjectKind
from trainproof.rules import REGISTRY, Rule
from trainproof.rules.examples import series

OF_LOGS = [
    rule
    for rule in REGISTRY.values()
    if rule.info.subject in (SubjectKind.RUN, SubjectKind.PAIR) and rule.silent.view.series
]
every_rule = pytest.mark.parametrize("rule", OF_LOGS, ids=[rule.info.id for rule in OF_LOGS])

Values = Callable[[Floats], Floats]
Place = Callable[[RunView], RunView]


# --- how values are written -----------------------------------------------------------------------


def digits(count: int) -> Values:
    """As text with so many significant digits."""
    return lambda values: np.array([float(f"{value:.{count}g}") for value in values.tolist()])


def single(values: Floats) -> Floats:
    """As an event file holds them."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def trembling(values: Floats) -> Floats:
    """Computed in another order: equal values stay equal, whole numbers whole."""
    with np.errstate(all="ignore"):
        ripple = 1e-7 * np.sin(1e6 * values)
        return np.where(np.rint(values) == values, values, values * (1 + ripple))


WRITTEN: Mapping[str, Values] = {
    "as they are": lambda values: values,
    "17 digits": digits(17),
    "12 digits": digits(12),
    "9 digits": digits(9),
    "7 digits": digits(7),
    "float32": single,
    "float32, 8 digits": lambda values: digits(8)(single(values)),
    "recomputed": trembling,
}


# --- where and beside what ------------------------------------------------------------------------


def each_series(view: RunView, change: Callable[[Series], Series]) -> RunView:
    """Also of what the view is compared with."""
    attempts = tuple(
        replace(attempt, series=tuple(change(one) for one in attempt.series))
        for attempt in view.attempts
    )
    baselines = tuple(each_series(one, change) for one in view.baselines)
    return replace(view, attempts=attempts, baselines=baselines)


def each_column(view: RunView, change: Callable[[Column], Column]) -> RunView:
    return each_series(view, lambda one: replace(one, column=change(one.column)))


def each_facts(view: RunView, change: Callable[[Facts], Facts]) -> RunView:
    baselines = tuple(each_facts(one, change) for one in view.baselines)
    return replace(view, facts=change(view.facts), baselines=baselines)


def stepped(times: int) -> Place:
    """Counted in smaller steps, the plan as well."""

    def counted(number: int | None) -> int | None:
        return None if number is None else number * times

    def planned(facts: Facts) -> Facts:
        return replace(
            facts,
            max_steps=counted(facts.max_steps),
            warmup_steps=counted(facts.warmup_steps),
            last_step=counted(facts.last_step),
            steps_per_epoch=counted(facts.steps_per_epoch),
        )

    def changed(view: RunView) -> RunView:
        finer = each_column(view, lambda column: replace(column, steps=column.steps * times))
        rewinds = tuple(
            replace(one, from_step=one.from_step * times, to_step=one.to_step * times)
            for one in view.rewinds
        )
        return replace(each_facts(finer, planned), rewinds=rewinds)

    return changed


def elsewhere(view: RunView) -> RunView:
    def moved(path: str) -> str:
        return f"runs/2024-01-01/{path}"

    there = each_series(view, lambda one: replace(one, artifact=moved(one.artifact)))
    rewinds = tuple(replace(one, artifact=moved(one.artifact)) for one in view.rewinds)
    faults = tuple(replace(one, artifact=moved(one.artifact)) for one in view.faults)
    return replace(there, id="other", rewinds=rewinds, faults=faults)


def also_in_a_copy(view: RunView) -> RunView:
    return each_series(view, lambda one: replace(one, also_in=("checkpoint-10/log.jsonl",)))


def without_lines(view: RunView) -> RunView:
    def clocked(column: Column) -> Column:
        return replace(column, lines=None, walls=np.linspace(1.7e9, 1.8e9, len(column)))

    return each_column(view, clocked)


def beside_more(view: RunView) -> RunView:
    count = max((len(one) for one in view.series), default=20)
    extra = np.random.default_rng(1)
    others = (
        series(tag, values.tolist(), identity=Identity(role, tag))
        for tag, role, values in (
            ("tokens_seen", Role.UNKNOWN, 1024.0 * np.arange(1, count + 1)),
            ("weight_norm", Role.OTHER, 10 + extra.random(count)),
            ("gpu_memory", Role.GPU_MEMORY, 20 + 0.1 * extra.random(count)),
        )
    )
    *earlier, last = view.attempts
    wider = replace(last, series=(*last.series, *others))
    return replace(view, attempts=(*earlier, wider))


def declaring_more(view: RunView) -> RunView:
    more = Facts(logging_steps=1, precision="fp32", batch_size=32, grad_accumulation=1)
    return each_facts(view, lambda facts: facts.over(more))


def turned(view: RunView) -> RunView:
    attempts = tuple(replace(one, series=one.series[::-1]) for one in view.attempts)
    return replace(view, attempts=attempts)


def after_a_false_start(view: RunView) -> RunView:
    """An attempt of a few rows that a later one replaced."""

    def few(one: Series) -> Series:
        return replace(one, column=one.column.take(slice(0, 3)))

    first, *_ = view.attempts
    begun = Attempt(0, tuple(few(one) for one in first.series), superseded=True)
    later = tuple(replace(one, index=one.index + 1) for one in view.attempts)
    return replace(view, attempts=(begun, *later))


PLACED: Mapping[str, Place] = {
    "as it is": lambda view: view,
    "every 10 steps": stepped(10),
    "every 1000 steps": stepped(1000),
    "elsewhere": elsewhere,
    "also in a copy": also_in_a_copy,
    "without lines, with clocks": without_lines,
    "beside more series": beside_more,
    "declaring more": declaring_more,
    "in another order": turned,
    "after a false start": after_a_false_start,
}

DISGUISES = list(product(WRITTEN, PLACED))

FIRST_STEPS = {
    "TP-SEED-START": {"every 1000 steps"},
    "TP-FIRST-LOSS": {"every 10 steps", "every 1000 steps"},
}
"""Look at the first steps, and those are not in the log: there they may decide nothing."""


def disguised(view: RunView, written: str, placed: str) -> RunView:
    def rewritten(column: Column) -> Column:
        return replace(column, values=WRITTEN[written](column.values))

    return PLACED[placed](each_column(view, rewritten))


def test_there_are_enough_of_them() -> None:
    """72 silent variants of a rule bound its false alarms on benign changes at 5 % (one-sided)."""
    assert len(DISGUISES) >= 72


@every_rule
def test_a_silent_example_is_silent_in_every_disguise(rule: Rule) -> None:
    for disguise in DISGUISES:
        cell = evaluate(rule, disguised(rule.silent.view, *disguise), {})
        undecided = disguise[1] in FIRST_STEPS.get(rule.info.id, ()) and not cell.hits
        assert cell.state is State.CLEAN or undecided, disguise


@every_rule
def test_a_firing_example_fires_in_every_disguise(rule: Rule) -> None:
    expected = levels(rule, rule.fires.view)
    for disguise in DISGUISES:
        if disguise[1] in FIRST_STEPS.get(rule.info.id, ()):
            continue
        assert expected <= levels(rule, disguised(rule.fires.view, *disguise)), disguise


def levels(rule: Rule, view: RunView) -> set[Level]:
    return {hit.level for hit in evaluate(rule, view, {}).hits}
