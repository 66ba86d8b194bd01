"""One function makes sentences, and numbers that are not finite never break one."""

from __future__ import annotations

import math

import pytest

from trainproof.model.outcome import Evidence, Hit, Level, Where
from trainproof.model.rule import Variant, render
from trainproof.rules import REGISTRY


def test_a_sentence_is_filled_from_measures_thresholds_and_places() -> None:
    info = REGISTRY["TP-NAN"].info
    measured = {"points": 6, "nonfinite": 3, "longest": 3, "tail": 3, "last_finite": 1.5}
    where = Where("log.jsonl", "loss", None, 4, 6, 4)
    hit = Hit(Level.FAIL, Evidence(where, measured), {"at_end": 0, "in_a_row": 3, "share": 0.01})
    prose = render(info, hit)
    assert "loss" in prose.message
    assert "3 of 6" in prose.evidence


def test_values_that_are_not_finite_or_absent_are_words() -> None:
    info = REGISTRY["TP-NAN"].info
    form = Variant(Level.FAIL, "{x:.3g} {y:.2f} {z:.1%} {line}", "")
    evidence = Evidence(Where("a"), {"x": math.nan, "y": -math.inf, "z": math.inf}, "odd")
    special = type(info)(
        **{f: getattr(info, f) for f in info.__slots__} | {"variants": {"odd": form}}
    )
    assert render(special, Hit(Level.FAIL, evidence, {})).message == "NaN -infinity infinity ?"


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "The only file is new."), (0, "All 0 are new."), (1200, "All 1,200 are new.")],
)
def test_a_template_says_one_and_more_in_other_words(count: int, said: str) -> None:
    info = REGISTRY["TP-NAN"].info
    form = Variant(Level.FAIL, "{n:The only file is|All {n:,} are} new.", "")
    special = type(info)(
        **{f: getattr(info, f) for f in info.__slots__} | {"variants": {"odd": form}}
    )
    evidence = Evidence(Where("a"), {"n": count}, "odd")
    assert render(special, Hit(Level.FAIL, evidence, {})).message == said
