"""What must hold for every rule, walked over the registry."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from trainproof.engine.evaluate import evaluate
from trainproof.model.data import Attempt, Column, Regime, RunView, Series
from trainproof.model.outcome import Level, Skip, State, Undecided
from trainproof.model.rule import SubjectKind, render
from trainproof.rules import REGISTRY, Rule
from trainproof.rules.examples import IDENTITIES, series, view
from trainproof.rules.interface import Whole

RULES = list(REGISTRY.values())
OF_LOGS = [rule for rule in RULES if rule.info.subject in (SubjectKind.RUN, SubjectKind.PAIR)]
GROUNDS = [rule for rule in OF_LOGS if rule.info.grounds]
FINITE = [rule for rule in RULES if rule.spreader is not None and rule.spreader.nonfinite < 1]


def for_each(rules: list[Rule]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rule", rules, ids=[rule.info.id for rule in rules])


every_rule = for_each(RULES)

OF_0_22 = {
    "TP-NAN",
    "TP-NAN-GRAD",
    "TP-ZERO-LOSS",
    "TP-ZERO-LOSS-ONSET",
    "TP-FLAT",
    "TP-DIVERGE",
    "TP-DEAD-RUN",
    "TP-GRAD-SPIKE",
    "TP-ZERO-GRAD",
    "TP-ZERO-LR",
    "TP-ZERO-LR-PARTIAL",
    "TP-OVERFIT",
    "TP-STEP-CLIFF",
    "TP-LOADER-BOUND",
    "TP-THROUGHPUT",
    "TP-GPU-UTIL",
    "TP-BAD-BASELINE",
    "TP-CMP-UNCOMPARABLE",
    "TP-FLOOR-RATIO",
    "TP-END-RATIO",
    "TP-NEG-IMPROVE",
    "TP-IMPROVE-DEFICIT",
    "TP-GRADNORM-RATIO",
    "TP-CMP-PASS",
    "TP-ENV-IMPORT-FAIL",
    "TP-ENV-IMPORT-CRASH",
    "TP-ENV-IMPORT-TIMEOUT",
    "TP-ENV-MEM-INSUFFICIENT",
    "TP-ENV-MEM-TIGHT",
    "TP-ENV-DISK-INSUFFICIENT",
    "TP-ENV-CKPT-MISSING",
    "TP-ENV-CKPT-EMPTY",
    "TP-ENV-CKPT-TRUNCATED",
    "TP-ENV-CKPT-UNREADABLE",
    "TP-ENV-CKPT-CORRUPT",
    "TP-ENV-CKPT-LEGACY",
    "TP-DATA-MISSING-AUDIO",
    "TP-DATA-UNREADABLE-AUDIO",
    "TP-DATA-INCONSISTENT-SR",
    "TP-DATA-INCONSISTENT-CHANNELS",
    "TP-DATA-DUPLICATES",
    "TP-DATA-DURATION-LONG",
    "TP-DATA-DURATION-SHORT",
    "TP-DATA-CHAR-RATE-OUTLIER",
    "TP-DATA-CLIPPING",
    "TP-DATA-SILENCE",
    "TP-DATA-EMPTY-TRANSCRIPT",
    "TP-DATA-UNNORMALIZED",
    "TP-DATA-MIXED-SCRIPTS",
    "TP-STALL",
    "TP-OBJ-IGNORE-INDEX-COLLISION",
    "TP-OBJ-TARGET-OUT-OF-RANGE",
    "TP-OBJ-DEAD-CLASS",
    "TP-OBJ-COVERAGE-INSUFFICIENT",
    "TP-OBJ-LABEL-SHIFT-DOUBLE",
    "TP-PRE-MALFORMED-JSONL",
    "TP-PRE-EMPTY-TEXT",
    "TP-PRE-DUPLICATE-TEXT",
    "TP-PRE-CONTEXT-OVERFLOW",
    "TP-PRE-MISSING-EOS-TOKEN",
    "TP-PRE-MISSING-PAD-TOKEN",
    "TP-PRE-PAD-EQUALS-EOS",
    "TP-PRE-NO-EOS-APPEND",
    "TP-TOK-HIGH-OOV",
    "TP-TOK-LOW-COVERAGE",
    "TP-TOK-HIGH-TPS",
    "TP-TOK-SUSPICIOUS-SPLIT",
}


def test_the_ids_that_users_of_0_22_know_are_there() -> None:
    assert set(REGISTRY) >= OF_0_22


def test_documentation_order_is_by_family() -> None:
    families = list(dict.fromkeys(rule.info.family for rule in RULES))
    assert families == [
        "finite",
        "loss",
        "floors",
        "gradients",
        "scaling",
        "schedule",
        "plan",
        "resume",
        "evaluation",
        "gain",
        "best",
        "reward",
        "policy",
        "adversarial",
        "improvement",
        "throughput",
        "integrity",
        "comparison",
        "siblings",
        "checkpoint",
        "weights",
        "contents",
        "declared",
        "resumable",
        "drift",
        "vocabulary",
        "kept",
        "environment",
        "settings",
        "speech",
        "objective",
        "watch",
        "dataset",
        "answers",
        "tokenizer",
    ]
    assert [rule.info.family for rule in RULES] == sorted(
        (rule.info.family for rule in RULES), key=families.index
    )


@every_rule
def test_the_example_that_fires_fires_and_reads_well(rule: Rule) -> None:
    cell = evaluate(rule, rule.fires.view, {})
    assert cell.state is State.FIRED
    for hit in cell.hits:
        prose = render(rule.info, hit)
        assert "?" not in prose.message + prose.evidence
        assert prose.message.endswith(".")
        assert prose.evidence.endswith(".")


@every_rule
def test_the_example_that_fires_does_so_at_the_declared_level(rule: Rule) -> None:
    cell = evaluate(rule, rule.fires.view, {})
    assert rule.info.level in {hit.level for hit in cell.hits}


@every_rule
def test_the_silent_example_is_clean_and_cites_what_it_measured(rule: Rule) -> None:
    cell = evaluate(rule, rule.silent.view, {})
    assert cell.state is State.CLEAN
    assert all(check.measured for check in cell.checks)


@every_rule
def test_every_variant_has_templates_over_declared_measures(rule: Rule) -> None:
    for form, cited in rule.cited.items():
        assert cited <= set(rule.info.measures), form


@every_rule
def test_every_measure_is_named_and_every_threshold_documented(rule: Rule) -> None:
    assert all(text.strip() for text in rule.info.measures.values())
    for threshold in rule.info.thresholds:
        assert threshold.doc and threshold.unit
        assert threshold.ge is not None


@every_rule
def test_title_is_a_heading(rule: Rule) -> None:
    assert not rule.info.title.endswith(".")
    assert len(rule.info.title) <= 60


@every_rule
def test_an_empty_view_is_not_checked(rule: Rule) -> None:
    regime = next(one for one in Regime if one not in rule.info.regimes)
    cell = evaluate(rule, RunView("empty", regime=regime), {})
    needs_a_series = not any(
        isinstance(need, Whole) and not need.series for need in rule.needs.values()
    )
    if needs_a_series:
        assert cell.state is State.NOT_CHECKED
        assert cell.skip is Skip.NEED_ABSENT
    else:
        assert cell.state is State.CLEAN  # the log as such was read and nothing is missing


def spoiled(one: Series, value: float) -> Series:
    """The series with one value, in the middle, that is not finite."""
    values = one.values.copy()
    values[len(values) // 2] = value
    column = Column(one.tag, one.steps, values, one.column.axis, one.column.lines)
    return replace(one, column=column)


def spoiled_views(rule: Rule, value: float) -> Iterator[RunView]:
    """The silent example with one value of one judged series spoiled, for each of them."""
    assert rule.spreader is not None
    shown = rule.silent.view
    judged = {found for _, found in rule.spreader.found(shown)}
    (attempt,) = shown.attempts
    for target in judged:
        members = tuple(spoiled(s, value) if s is target else s for s in attempt.series)
        yield replace(shown, attempts=(Attempt(0, members),))


@for_each(FINITE)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_value_that_is_not_finite_is_never_clean(rule: Rule, value: float) -> None:
    for one in spoiled_views(rule, value):
        assert evaluate(rule, one, {}).state is not State.CLEAN


@for_each(GROUNDS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_nan_run_has_no_clean_grounds(rule: Rule, value: float) -> None:
    for one in spoiled_views(rule, value):
        assert evaluate(rule, one, {}).state is State.NOT_CHECKED


@every_rule
def test_thresholds_can_be_overridden_by_their_bounds(rule: Rule) -> None:
    overrides = {t.name: type(t.default)(t.ge) for t in rule.info.thresholds if t.ge is not None}
    for example in (rule.fires, rule.silent):
        assert evaluate(rule, example.view, overrides).skip is not Skip.CHECKER_FAILED


@every_rule
def test_the_verdict_does_not_depend_on_the_order_of_the_series(rule: Rule) -> None:
    for example in (rule.fires, rule.silent):
        turned = tuple(
            replace(attempt, series=attempt.series[::-1]) for attempt in example.view.attempts
        )
        other = replace(example.view, attempts=turned)
        before, after = evaluate(rule, example.view, {}), evaluate(rule, other, {})
        assert before.state is after.state
        assert {h.level for h in before.hits} == {h.level for h in after.hits}


@every_rule
def test_a_second_look_says_the_same(rule: Rule) -> None:
    assert evaluate(rule, rule.fires.view, {}) == evaluate(rule, rule.fires.view, {})


# --- hostile values -------------------------------------------------------------------------

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1.0, 1e308, -1e308, 5e-324, math.nan, math.inf, 65536.0]),
)
tags = st.lists(st.sampled_from(sorted(IDENTITIES)), min_size=1, max_size=6)


@st.composite
def views(draw: st.DrawFn) -> RunView:
    members = []
    for tag in draw(tags):
        few = draw(st.lists(numbers, min_size=1, max_size=8))
        count = draw(st.integers(1, 260))
        values = np.resize(np.array(few), count)
        start, stride = draw(st.integers(-5, 10**15)), draw(st.integers(1, 10**6))
        steps = [start + stride * i for i in range(count)]
        members.append(series(tag, values.tolist(), steps))
    return view(*members)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(views())
def test_no_value_breaks_a_rule(one: RunView) -> None:
    for rule in RULES:
        cell = evaluate(rule, one, {})
        assert cell.skip is not Skip.CHECKER_FAILED, (rule.info.id, cell.checks)
        for hit in cell.hits:
            render(rule.info, hit)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=5), st.integers(1, 3))
def test_fewer_than_six_points_never_give_grounds(values: list[float], extra: int) -> None:
    one = view(series("loss", values), series("eval_accuracy", values[:extra]))
    for rule in GROUNDS:
        assert evaluate(rule, one, {}).state is not State.CLEAN


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [8, 20, 60, 200, 2000])
def test_pure_noise_never_gives_grounds(seed: int, count: int) -> None:
    values = 2 + 0.3 * np.random.default_rng(seed).standard_normal(count)
    one = view(series("loss", values.tolist()), series("eval_accuracy", values.tolist()))
    for rule in GROUNDS:
        assert evaluate(rule, one, {}).state is not State.CLEAN


def test_rules_that_give_grounds_are_those_that_look_at_progress() -> None:
    assert {rule.info.id for rule in GROUNDS} == {
        "TP-DIVERGE",
        "TP-DEAD-RUN",
        "TP-METRIC-COLLAPSE",
        "TP-REWARD-COLLAPSE",
        "TP-END-RATIO",
        "TP-DISCRIMINATOR-WON",
        "TP-TARGET-LOST",
    }


def test_levels_are_what_the_catalogue_says() -> None:
    fails = {rule.info.id for rule in OF_LOGS if rule.info.level is Level.FAIL}
    assert fails == {
        "TP-NAN",
        "TP-NAN-HIDDEN",
        "TP-NAN-GRAD",
        "TP-ZERO-LOSS",
        "TP-ZERO-LOSS-ONSET",
        "TP-FLAT",
        "TP-DIVERGE",
        "TP-DEAD-RUN",
        "TP-LOSS-CLAMPED",
        "TP-LOSS-SCALE-COLLAPSE",
        "TP-ZERO-GRAD",
        "TP-ZERO-LR",
        "TP-ZERO-LR-PARTIAL",
        "TP-SCHEDULE-ENDED-EARLY",
        "TP-EVAL-NAN",
        "TP-EVAL-FROZEN",
        "TP-METRIC-COLLAPSE",
        "TP-CHANCE",
        "TP-REWARD-COLLAPSE",
        "TP-DPO-IDLE",
        "TP-FLOOR-RATIO",
        "TP-END-RATIO",
        "TP-NEG-IMPROVE",
        "TP-IMPROVE-DEFICIT",
        "TP-LOSS-SCALED",
    }


def test_undecided_outcomes_carry_a_skip() -> None:
    assert Undecided({"points": 1}).skip is Skip.UNDECIDED
