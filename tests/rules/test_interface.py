"""Needs bind or say why not; a declaration that contradicts itself never gets in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated

import pytest
from msgspec.structs import replace

from trainproof.model.data import (
    Attempt,
    Axis,
    Facts,
    Fault,
    FaultCode,
    Identity,
    Role,
    RunView,
    Split,
)
from trainproof.model.outcome import Clean, Evidence, Level, Outcome, Skip, Where
from trainproof.model.rule import Doc, Variant
from trainproof.rules.examples import falling, series, view
from trainproof.rules.interface import (
    REGISTRY,
    Bound,
    Companion,
    Companions,
    DeclarationError,
    Declared,
    Each,
    Example,
    Missing,
    Optional,
    Place,
    Rule,
    Which,
    Whole,
    absent,
    rule,
    starts_late,
    where,
)

PART = Identity(Role.LOSS, "loss_box", component="box")


def places(each: Each, one: RunView) -> list[tuple[str, Skip | None]]:
    unfit = [(series.tag, each.unfit(series)) for _, series in each.found(one)]
    return [(tag, None if missing is None else missing.skip) for tag, missing in unfit]


def at(one: RunView) -> Place:
    return Place(one, one.attempts[-1], next(iter(one.series), None))


# --- Each --------------------------------------------------------------------------------------


def test_each_judges_every_series_of_the_role() -> None:
    one = view(series("loss", [1.0]), series("loss_cls", [1.0]), series("grad_norm", [1.0]))
    assert places(Each((Role.LOSS,)), one) == [("loss", None), ("loss_cls", None)]


def test_principal_are_totals_where_there_are_any() -> None:
    principal = Each((Role.LOSS,), which=Which.PRINCIPAL)
    both = view(series("loss_cls", [1.0]), series("loss", [1.0]), series("eval_loss", [1.0]))
    assert places(principal, both) == [("loss", None), ("eval_loss", None)]
    parts = view(series("loss_cls", [1.0]), series("box", [1.0], identity=PART))
    assert places(principal, parts) == [("loss_cls", None), ("box", None)]


def test_parts_are_chosen_by_a_word_of_their_name() -> None:
    boxes = Each((Role.LOSS,), parts=frozenset({"box"}))
    one = view(series("loss", [1.0]), series("loss_cls", [1.0]), series("b", [1.0], identity=PART))
    assert places(boxes, one) == [("b", None)]
    assert "parts named box" in boxes.describe()


def test_series_are_chosen_by_their_whole_name() -> None:
    spread = Each((Role.OTHER,), named=frozenset({"reward_std", "other"}))
    longer = Identity(Role.OTHER, "my_reward_std")
    one = view(series("reward_std", [1.0]), series("my_reward_std", [1.0], identity=longer))
    assert places(spread, one) == [("reward_std", None)]
    assert "named other or reward_std" in spread.describe()


def test_the_objective_is_held_out_only_where_nothing_else_is_logged() -> None:
    objective = Each((Role.LOSS,), which=Which.OBJECTIVE)
    both = view(series("eval_loss", [1.0]), series("loss_cls", [1.0]))
    assert places(objective, both) == [("loss_cls", None)]
    assert places(objective, view(series("eval_loss", [1.0]))) == [("eval_loss", None)]


def test_each_attempt_has_its_own_series() -> None:
    earlier = Attempt(0, (series("loss", [3.0]),))
    one = view(series("loss", [1.0]), earlier=[earlier])
    assert [attempt.index for attempt, _ in Each((Role.LOSS,)).found(one)] == [0, 1]


def test_what_is_judged_of_a_view_is_not_that_of_the_view_it_replaces() -> None:
    loss = Each((Role.LOSS,))
    one = view(series("loss", [1.0]))
    assert places(loss, one) == [("loss", None)]
    other = replace(one, attempts=(Attempt(0, (series("loss_cls", [1.0]),)),))
    assert places(loss, other) == [("loss_cls", None)]
    assert places(loss, one) == [("loss", None)]


def test_unfit_series_say_why() -> None:
    each = Each((Role.LOSS,), points=3)
    assert places(each, view(series("loss", [1.0]))) == [("loss", Skip.NEED_TOO_SHORT)]
    assert places(each, view(series("loss", [1.0, math.nan, 2.0]))) == [("loss", Skip.NOT_FINITE)]
    scale = view(series("loss", [16.0, 32.0, 16.0, 32.0, 64.0]))
    assert places(each, scale) == [("loss", Skip.NOT_A_LOSS)]
    late = view(series("loss", [3.0, 2.0, 1.0], [500, 510, 520]))
    assert places(Each((Role.LOSS,), from_start=True), late) == [("loss", Skip.START_MISSING)]


def test_tolerated_values_that_are_not_finite() -> None:
    one = view(series("grad_norm", [1.0, math.nan, 1.0, 1.0, 1.0]))
    assert places(Each((Role.GRAD_NORM,), nonfinite=0.2), one) == [("grad_norm", None)]
    assert places(Each((Role.GRAD_NORM,), nonfinite=0.1), one) == [("grad_norm", Skip.NOT_FINITE)]


@pytest.mark.parametrize(
    ("steps", "late"),
    [
        ([0, 10, 20], False),
        ([100, 200, 300, 400], False),  # a cadence of a hundred
        ([5_000, 5_010, 5_020, 5_030], True),
        ([10_000], False),  # one point says nothing
        ([50, 60, 70, 10_000], False),
    ],
)
def test_starts_late(steps: list[int], late: bool) -> None:
    assert starts_late(series("loss", [1.0] * len(steps), steps)) == late


# --- the other needs -----------------------------------------------------------------------------


def test_a_companion_is_the_same_files_total_with_most_points() -> None:
    same = series("eval_loss", [1.0, 2.0])
    other = series("eval_loss", [1.0] * 9, artifact="b.jsonl")
    longer = series("eval_loss", [1.0] * 3)
    one = view(series("loss", falling(9)), other, same, longer)
    assert Companion(Role.LOSS, Split.EVAL).bind(at(one)) is longer


def test_a_companion_that_is_missing_or_short_says_so() -> None:
    one = view(series("loss", falling(9)), series("eval_loss", [1.0]))
    missing = Companion(Role.LR).bind(at(one))
    assert isinstance(missing, Missing)
    assert (missing.skip, missing.detail) == (Skip.NEED_ABSENT, {"role": "lr"})
    short = Companion(Role.LOSS, Split.EVAL, points=3).bind(at(one))
    assert isinstance(short, Missing)
    assert short.detail == {"role": "loss", "points": 1, "needed": 3}
    assert Optional(Companion(Role.LR)).bind(at(one)) is None


def test_companions_may_be_none() -> None:
    one = view(series("loss", falling(9)))
    assert Companions(Role.METRIC).bind(at(one)) == ()
    assert len(Companions(Role.LOSS).bind(at(one))) == 1


def test_declared_facts() -> None:
    one = view(series("loss", [1.0]), facts=Facts(max_steps=9))
    assert Declared("max_steps").bind(at(one)) == Facts(max_steps=9)
    missing = Declared("seed").bind(at(one))
    assert isinstance(missing, Missing)
    assert missing.skip is Skip.NEED_ABSENT


def test_the_whole_view_needs_a_series_unless_it_is_about_the_log() -> None:
    empty = RunView("run", (Attempt(0, ()),))
    assert isinstance(Whole().bind(Place(empty, empty.attempts[0])), Missing)
    assert Whole(series=False).bind(Place(empty, empty.attempts[0])) is empty


@pytest.mark.parametrize(
    ("code", "skip"),
    [
        (FaultCode.IO, Skip.NEED_UNREADABLE),
        (FaultCode.CRASHED, Skip.WORKER_CRASHED),
        (FaultCode.TIMEOUT, Skip.WORKER_TIMEOUT),
    ],
)
def test_absent_is_not_known_where_a_file_could_not_be_read(code: FaultCode, skip: Skip) -> None:
    one = RunView("run", faults=(Fault(code, "a.log", "no", True),))
    assert absent(one, Role.LOSS).skip is skip


def test_where_names_steps_and_line() -> None:
    one = series("loss", falling(9), range(10, 100, 10))
    assert where(one, 2, 4) == Where("log.jsonl", "loss", None, 30, 50, 3)
    assert one.column.axis is Axis.STEP


# --- declarations ----------------------------------------------------------------------------

DOC = Doc("counts", "something", "anything else", ("none",), ("none",))
NOTHING = Example("nothing", RunView("none"))


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def check(loss: object) -> Outcome:
    return Clean({"points": 1})


def declare(function: object = check, **changes: object) -> Rule:
    declaration: dict[str, object] = {
        "id": "TP-TEST",
        "title": "test",
        "level": Level.FAIL,
        "message": "{series}",
        "evidence": "{points}",
        "needs": {"loss": Each((Role.LOSS,))},
        "measures": {"points": "points", "more": "more"},
        "doc": DOC,
        "fires": NOTHING,
        "silent": NOTHING,
        "variants": {"low": Variant(Level.INFO, "{series}", "{more}")},
    }
    return rule(**{**declaration, **changes})(function)  # type: ignore[arg-type]


def threshold_without_bound(loss: object, *, limit: float = 1.0) -> Outcome:
    return Clean({})


def threshold_of_another_type(
    loss: object,
    *,
    limit: Annotated[int, Bound("x", "y")] = 1.5,  # type: ignore[assignment]
) -> Outcome:
    return Clean({})


def without_annotation(loss: object):  # type: ignore[no-untyped-def]
    return Clean({})


def other_parameters(series: object) -> Outcome:
    return Clean({})


def of_two(grad: object, loss: object) -> Outcome:
    return Clean({})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"id": "tp-test"}, "bad id"),
        ({"id": "TP-NAN"}, "declared twice"),
        ({"message": "{nothing}"}, "unknown fields"),
        ({"variants": {"x": Variant(Level.INFO, "{nope}", "")}}, "unknown fields"),
        ({"doc": Doc("", "b", "c", ("d",), ("e",))}, "empty doc section"),
        ({"doc": Doc("a", "b", "c", (), ("e",))}, "guards and references"),
        ({"needs": {"loss": Each((Role.LOSS,)), "b": Each((Role.LR,))}}, "parameters"),
        ({"function": threshold_without_bound}, "must be Annotated"),
        ({"function": threshold_of_another_type}, "default is not int"),
        ({"function": without_annotation}, "must be annotated"),
        ({"function": other_parameters}, "!= needs"),
        (
            {
                "function": of_two,
                "needs": {"grad": Companion(Role.GRAD_NORM), "loss": Each((Role.LOSS,))},
            },
            "not the first need",
        ),
    ],
)
def test_a_contradictory_declaration_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        declare(**changes)


def test_evidence_must_hold_what_its_form_cites_and_nothing_undeclared() -> None:
    made = declare()
    place = Where("log.jsonl", "loss")
    assert made.problem(Evidence(place, {"points": 1})) is None
    assert made.problem(Evidence(place, {"more": 1}, "low")) is None
    assert "cited" in (made.problem(Evidence(place, {"more": 1})) or "")
    assert "undeclared measures" in (made.problem(Evidence(place, {"points": 1, "x": 2})) or "")
    assert "undeclared variant" in (made.problem(Evidence(place, {"points": 1}, "y")) or "")
    assert made.unknown({}) == "no measure cited"
