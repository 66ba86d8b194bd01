"""A clean cell is made in one place only; everything else a rule can do is not-checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from msgspec.structs import replace

from trainproof.engine.evaluate import evaluate
from trainproof.model.data import Attempt, Fault, FaultCode, Regime, Role, RunView
from trainproof.model.outcome import (
    Clean,
    Evidence,
    Fired,
    Level,
    Outcome,
    Skip,
    State,
    Undecided,
    Where,
)
from trainproof.model.rule import Doc
from trainproof.rules.examples import series, view
from trainproof.rules.interface import REGISTRY, Companion, Each, Example, Rule, rule

DOC = Doc("counts", "something", "anything else", ("none",), ("none",))
NOTHING = Example("nothing", RunView("none"))
RUN = view(series("loss", [3.0, 2.0, 1.0]))


def made(check: object, **changes: object) -> Rule:
    """A rule with the given function, removed from the registry again."""
    declaration: dict[str, object] = {
        "id": "TP-TEST",
        "title": "test",
        "level": Level.FAIL,
        "message": "{series}",
        "evidence": "{points}",
        "needs": {"loss": Each((Role.LOSS,))},
        "measures": {"points": "points"},
        "doc": DOC,
        "fires": NOTHING,
        "silent": NOTHING,
    }
    return rule(**{**declaration, **changes})(check)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def test_only_an_explicit_clean_makes_a_clean_cell_with_its_measurement() -> None:
    def check(loss: object) -> Outcome:
        return Clean({"points": 3})

    cell = evaluate(made(check), RUN, {})
    assert cell.state is State.CLEAN
    assert cell.checks[0].series == "loss"
    assert cell.checks[0].measured == {"points": 3}


def test_returning_nothing_is_checker_failed() -> None:
    def check(loss: object) -> Outcome:
        return None  # type: ignore[return-value]

    cell = evaluate(made(check), RUN, {})
    assert cell.skip is Skip.CHECKER_FAILED
    assert cell.checks[0].measured == {"error": "returned NoneType, not an Outcome"}


def test_an_exception_is_checker_failed_and_named() -> None:
    def check(loss: object) -> Outcome:
        raise ZeroDivisionError("by zero")

    cell = evaluate(made(check), RUN, {})
    assert cell.skip is Skip.CHECKER_FAILED
    assert cell.checks[0].measured == {"error": "ZeroDivisionError: by zero"}


def test_memory_exhaustion_is_worker_memory() -> None:
    def check(loss: object) -> Outcome:
        raise MemoryError

    assert evaluate(made(check), RUN, {}).skip is Skip.WORKER_MEMORY


@pytest.mark.parametrize(
    "outcome",
    [
        Clean({}),
        Clean({"other": 1}),
        Fired((Evidence(Where("log"), {"points": 1, "extra": 2}),)),
        Fired((Evidence(Where("log"), {"points": 1}, "undeclared"),)),
        Undecided({"other": 1}),
    ],
)
def test_measures_must_be_the_declared_ones(outcome: Outcome) -> None:
    def check(loss: object) -> Outcome:
        return outcome

    assert evaluate(made(check), RUN, {}).skip is Skip.CHECKER_FAILED


def test_a_rule_is_asked_once_per_series_and_attempt() -> None:
    asked: list[str] = []

    def check(loss: object) -> Outcome:
        asked.append(loss.tag)  # type: ignore[attr-defined]
        return Clean({"points": 1})

    two = view(
        series("loss", [1.0]),
        series("loss_cls", [1.0]),
        earlier=[Attempt(0, (series("loss", [9.0]),))],
    )
    cell = evaluate(made(check), two, {})
    assert asked == ["loss", "loss", "loss_cls"]
    assert [check.segment for check in cell.checks] == [0, 1, 1]


def test_one_series_that_fires_makes_the_cell_fired_and_keeps_the_others() -> None:
    def check(loss: object) -> Outcome:
        name = loss.tag  # type: ignore[attr-defined]
        if name == "loss":
            return Fired((Evidence(Where("log", name), {"points": 3}),))
        return Clean({"points": 1})

    cell = evaluate(made(check), view(series("loss", [1.0]), series("loss_cls", [1.0])), {})
    assert cell.state is State.FIRED
    assert [c.state for c in cell.checks] == [State.FIRED, State.CLEAN]
    assert [hit.level for hit in cell.hits] == [Level.FAIL]


def test_a_failure_of_one_application_is_not_hidden_by_a_clean_one() -> None:
    def check(loss: object) -> Outcome:
        if loss.tag == "loss":  # type: ignore[attr-defined]
            raise ValueError
        return Clean({"points": 1})

    cell = evaluate(made(check), view(series("loss", [1.0]), series("loss_cls", [1.0])), {})
    assert cell.skip is Skip.CHECKER_FAILED


def test_a_superseded_attempt_warns_instead_of_failing() -> None:
    def check(loss: object) -> Outcome:
        return Fired((Evidence(Where("log"), {"points": 1}),))

    old = Attempt(0, (series("loss", [1.0]),), superseded=True)
    cell = evaluate(made(check), view(series("loss", [1.0]), earlier=[old]), {})
    assert [(h.attempt, h.level, h.superseded) for h in cell.hits] == [
        (0, Level.WARN, True),
        (1, Level.FAIL, False),
    ]


def test_an_absent_series_is_absent_and_an_unreadable_file_makes_it_unknown() -> None:
    def check(loss: object) -> Outcome:
        raise AssertionError("never called")

    empty = RunView("run")
    cell = evaluate(made(check), empty, {})
    assert cell.skip is Skip.NEED_ABSENT
    assert cell.checks[0].measured == {"role": "loss"}
    fault = Fault(FaultCode.CORRUPT, "log", "bad", fatal=True)
    cell = evaluate(made(check, id="TP-TEST2"), replace(empty, faults=(fault,)), {})
    assert cell.skip is Skip.NEED_UNREADABLE
    assert cell.checks[0].measured["artifact"] == "log"


def test_the_need_supplies_the_skip_with_its_numbers() -> None:
    def check(loss: object, grad: object) -> Outcome:
        raise AssertionError("never called")

    needs = {"loss": Each((Role.LOSS,)), "grad": Companion(Role.GRAD_NORM, points=5)}
    short = view(series("loss", [1.0, 2.0]), series("grad_norm", [1.0, 2.0]))
    cell = evaluate(made(check, needs=needs), short, {})
    assert cell.skip is Skip.NEED_TOO_SHORT
    assert cell.checks[0].measured == {"role": "grad_norm", "points": 2, "needed": 5}


def test_values_that_are_not_finite_are_never_filtered_silently() -> None:
    def check(loss: object) -> Outcome:
        raise AssertionError("never called")

    cell = evaluate(made(check), view(series("loss", [1.0, float("nan"), 1.0])), {})
    assert cell.skip is Skip.NOT_FINITE
    assert cell.checks[0].measured == {"points": 3, "nonfinite": 1}


def test_a_rule_that_has_no_meaning_for_the_regime_is_out_of_scope() -> None:
    def check(loss: object) -> Outcome:
        raise AssertionError("never called")

    never = made(check, not_for=[Regime.REINFORCEMENT])
    rl = view(series("loss", [1.0]), regime=Regime.REINFORCEMENT)
    cell = evaluate(never, rl, {})
    assert (cell.rule, cell.skip) == ("TP-TEST", Skip.REGIME)
    assert cell.checks[0].measured == {"regime": "reinforcement"}


def test_a_late_start_is_not_judged_by_rules_that_need_the_start() -> None:
    def check(loss: object) -> Outcome:
        raise AssertionError("never called")

    late = made(check, needs={"loss": Each((Role.LOSS,), from_start=True)})
    tail = view(series("loss", [1.0] * 10, steps=range(500, 600, 10)))
    cell = evaluate(late, tail, {})
    assert cell.skip is Skip.START_MISSING
    assert cell.checks[0].measured == {"first_step": 500, "last_step": 590}


def test_numbers_of_numpy_leave_a_rule_as_numbers_of_python() -> None:
    def check(loss: object) -> Outcome:
        return Clean({"points": np.int64(3)})  # type: ignore[dict-item]

    def fire(loss: object) -> Outcome:
        return Fired((Evidence(Where("log"), {"points": np.float64(0.5)}),))

    assert type(evaluate(made(check), RUN, {}).checks[0].measured["points"]) is int
    (hit,) = evaluate(made(fire, id="TP-TEST2"), RUN, {}).hits
    assert type(hit.evidence.measured["points"]) is float
