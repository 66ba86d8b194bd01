"""Pages of rules: what was measured of them, and whether that still holds."""

from __future__ import annotations

from msgspec.structs import replace

from trainproof.model.rule import SubjectKind
from trainproof.pages import calibration, explain, fingerprint
from trainproof.rules import REGISTRY, Rule


def _with_another_threshold(rule: Rule) -> Rule:
    first, *others = rule.info.thresholds
    return replace(
        rule, info=replace(rule.info, thresholds=(replace(first, default=12345), *others))
    )


def _line(rule: Rule) -> str:
    return next(line for line in explain(rule).splitlines() if line.startswith("**Measured.**"))


def test_the_page_of_a_rule_says_how_often_it_was_wrong() -> None:
    rule, measured = REGISTRY["TP-NAN"], calibration().rules["TP-NAN"]
    every, aside = measured.all, measured.held_out
    assert every.runs > 1000 > aside.runs > 400
    known = "" if measured.thresholds == fingerprint({"TP-NAN": rule}) else ", with other"
    assert f"({calibration().date}{known}" in _line(rule)
    assert (
        f"{every.fail} FAIL (at most {every.fail_upper:.2%}) and {every.warn} WARN"
        f" (at most {every.warn_upper:.2%}) of {every.runs} judged; on kinds of training set aside"
        f" {aside.fail} FAIL (at most {aside.fail_upper:.2%})"
    ) in _line(rule)


def test_a_rule_that_only_warns_names_no_fails() -> None:
    rule = REGISTRY["TP-GRAD-SPIKE"]
    every = calibration().rules[rule.info.id].all
    assert f"{every.warn} WARN (at most {every.warn_upper:.2%}) of {every.runs} judged" in _line(
        rule
    )
    assert "FAIL" not in _line(rule)


def test_a_rule_with_another_threshold_says_that_it_was_measured_before() -> None:
    assert ", with other thresholds than these)" in _line(
        _with_another_threshold(REGISTRY["TP-DIVERGE"])
    )


def test_a_rule_that_nothing_let_judge_says_so() -> None:
    unmeasured = [id for id, one in calibration().rules.items() if not one.all.runs]
    for id in unmeasured:
        assert "Not yet" in _line(REGISTRY[id])


def test_rules_about_checkpoints_and_pairs_claim_no_rate() -> None:
    for rule in REGISTRY.values():
        if rule.info.subject is not SubjectKind.RUN:
            assert "**Measured.**" not in explain(rule)


def test_every_measured_rule_exists() -> None:
    assert calibration().rules.keys() <= REGISTRY.keys()


def test_the_fingerprint_changes_with_a_threshold_and_with_a_rule_but_not_with_their_order() -> (
    None
):
    rules = {id: REGISTRY[id] for id in ("TP-DIVERGE", "TP-NAN")}
    known = fingerprint(rules)
    assert fingerprint(dict(reversed(rules.items()))) == known
    assert fingerprint({"TP-NAN": rules["TP-NAN"]}) != known
    assert (
        fingerprint({**rules, "TP-DIVERGE": _with_another_threshold(rules["TP-DIVERGE"])}) != known
    )
