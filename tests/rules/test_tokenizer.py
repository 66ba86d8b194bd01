"""Rules about tokenizers: what fires, at which level, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.judging import is_clean, judge, level, prose, skipped
from trainproof.model.data import RunView
from trainproof.model.outcome import Level, Skip
from trainproof.model.tokenizer import Family, Special
from trainproof.rules.dataset_examples import (
    WHOLE,
    dataset,
    special,
    tokenizer,
    used,
    without,
)

ROLES = {
    "TP-PRE-MISSING-EOS-TOKEN": Special.EOS,
    "TP-PRE-MISSING-PAD-TOKEN": Special.PAD,
    "TP-TOK-MISSING-UNK-TOKEN": Special.UNK,
}


@pytest.mark.parametrize("rule", ROLES)
def test_a_vocabulary_alone_does_not_say_who_plays_a_role(rule: str) -> None:
    cell = judge(rule, tokenizer(declares=False, specials=()))
    assert skipped(cell) is Skip.NEED_ABSENT


@pytest.mark.parametrize("rule", ROLES)
def test_a_role_that_nothing_plays_is_missing(rule: str) -> None:
    assert judge(rule, tokenizer(specials=without(ROLES[rule]))).hits


@pytest.mark.parametrize("rule", ROLES)
def test_what_is_declared_is_added_when_it_is_loaded(rule: str) -> None:
    role = ROLES[rule]
    view = tokenizer(specials=(*without(role), special(role, "<|gone|>", None, 5)))
    assert bool(judge(rule, view).hits) is (role is Special.UNK)
    assert level(judge("TP-TOK-SPECIAL-SPLIT", view)) == (Level.WARN, "")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("TP-PRE-MISSING-EOS-TOKEN", Level.WARN),
        ("TP-PRE-MISSING-PAD-TOKEN", Level.INFO),
        ("TP-TOK-MISSING-UNK-TOKEN", Level.WARN),
    ],
)
def test_a_bare_piece_model_is_judged_more_mildly(rule: str, expected: Level) -> None:
    view = tokenizer(family=Family.SENTENCEPIECE, specials=without(ROLES[rule]))
    assert level(judge(rule, view)) == (expected, "piece")


def test_an_encoder_needs_no_end_of_text() -> None:
    frame = (special(Special.MASK, "[MASK]", 7), special(Special.SEP, "[SEP]", 8))
    view = tokenizer(specials=(*without(Special.EOS), *frame))
    assert is_clean(judge("TP-PRE-MISSING-EOS-TOKEN", view))
    alone = tokenizer(specials=(*without(Special.EOS), frame[0]))
    assert level(judge("TP-PRE-MISSING-EOS-TOKEN", alone)) == (Level.FAIL, "")


def test_bytes_need_no_unknown_token() -> None:
    view = tokenizer(total=True, specials=without(Special.UNK))
    assert is_clean(judge("TP-TOK-MISSING-UNK-TOKEN", view))


@pytest.mark.parametrize(
    ("adds", "said"), [(True, "encoding adds it to every text"), (False, "encoding adds none")]
)
def test_padding_that_is_the_end_tells_what_it_implies(adds: bool, said: str) -> None:
    same = (*without(Special.PAD), special(Special.PAD, "</s>", 2))
    cell = judge("TP-PRE-PAD-EQUALS-EOS", tokenizer(specials=same, adds_eos=adds))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).evidence == f"Where padding is masked, so is the end: {said}."


@pytest.mark.parametrize("role", [Special.PAD, Special.EOS])
def test_padding_and_the_end_are_compared_where_both_are_there(role: Special) -> None:
    cell = judge("TP-PRE-PAD-EQUALS-EOS", tokenizer(specials=without(role)))
    assert skipped(cell) is Skip.NEED_ABSENT


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"add_eos": False, "adds_eos": False}, Level.WARN),
        ({"add_eos": False, "adds_eos": True}, None),
        ({"add_eos": True, "adds_eos": False}, None),
        ({"add_eos": None, "adds_eos": False}, Skip.NEED_ABSENT),
        ({"add_eos": False, "adds_eos": False, "specials": ()}, Skip.NEED_ABSENT),
    ],
)
def test_only_a_setting_that_is_false_says_that_no_end_is_added(
    parts: dict[str, Any], expected: object
) -> None:
    cell = judge("TP-PRE-NO-EOS-APPEND", tokenizer(**parts))
    got = cell.skip or (cell.hits[0].level if cell.hits else None)
    assert got == expected


@pytest.mark.parametrize(
    ("size", "embedding", "expected"),
    [
        (100, 100, None),
        (100, 128, None),
        (101, 100, Level.WARN),
        (110, 100, Level.WARN),
        (111, 100, Level.FAIL),
        (100, None, Skip.NEED_ABSENT),
    ],
)
def test_tokens_need_a_row_of_the_embedding(
    size: int, embedding: int | None, expected: object
) -> None:
    cell = judge("TP-TOK-BEYOND-EMBEDDING", tokenizer(size=size, embedding=embedding))
    assert (cell.skip or (cell.hits[0].level if cell.hits else None)) == expected


def test_what_only_the_template_spells_is_told_apart() -> None:
    spelled = special(None, "<|go|>", None, 4)
    written = type(spelled)("<|go|>", None, None, 4, declared=False)
    cell = judge("TP-TOK-SPECIAL-SPLIT", tokenizer(specials=(*WHOLE, written)))
    assert level(cell) == (Level.WARN, "template")
    both = judge("TP-TOK-SPECIAL-SPLIT", tokenizer(specials=(spelled, written)))
    assert [hit.level for hit in both.hits] == [Level.WARN, Level.WARN]
    none = judge("TP-TOK-SPECIAL-SPLIT", tokenizer(specials=()))
    assert skipped(none) is Skip.NEED_ABSENT


# --- text -----------------------------------------------------------------------------------

OF_TEXT = (
    "TP-TOK-HIGH-OOV",
    "TP-TOK-LOW-COVERAGE",
    "TP-TOK-FERTILITY",
    "TP-TOK-SUSPICIOUS-SPLIT",
    "TP-TOK-HIGH-TPS",
)


@pytest.mark.parametrize("rule", OF_TEXT)
def test_without_a_text_nothing_is_measured(rule: str) -> None:
    assert skipped(judge(rule, tokenizer())) is Skip.NEED_ABSENT


@pytest.mark.parametrize(
    ("rule", "parts", "expected"),
    [
        ("TP-TOK-HIGH-OOV", {"unknown": 15}, Level.FAIL),
        ("TP-TOK-HIGH-OOV", {"unknown": 14}, None),
        ("TP-TOK-HIGH-OOV", {"tokens": 0}, Skip.NEED_TOO_SHORT),
        ("TP-TOK-LOW-COVERAGE", {"distinct": 100, "uncovered": 3, "examples": "ä"}, Level.WARN),
        ("TP-TOK-LOW-COVERAGE", {"distinct": 100, "uncovered": 2}, None),
        ("TP-TOK-LOW-COVERAGE", {"distinct": 0}, Skip.NEED_DEGENERATE),
        ("TP-TOK-FERTILITY", {"tokens": 60_000}, Level.WARN),
        ("TP-TOK-FERTILITY", {"tokens": 40_000}, Level.WARN),
        ("TP-TOK-FERTILITY", {"tokens": 60_000, "charwise": True}, Level.INFO),
        ("TP-TOK-FERTILITY", {"tokens": 39_999}, None),
        ("TP-TOK-FERTILITY", {"tokens": 40_000, "words": 4_999}, None),
        ("TP-TOK-FERTILITY", {"tokens": 40_000, "characters": 999}, Skip.NEED_TOO_SHORT),
        ("TP-TOK-SUSPICIOUS-SPLIT", {"split_numbers": 11, "split_example": "1999"}, Level.WARN),
        ("TP-TOK-SUSPICIOUS-SPLIT", {"split_numbers": 10}, None),
        (
            "TP-TOK-SUSPICIOUS-SPLIT",
            {"split_numbers": 200, "split_example": "1999", "digitwise": True},
            Level.INFO,
        ),
        ("TP-TOK-SUSPICIOUS-SPLIT", {"numbers": 0}, Skip.NEED_ABSENT),
        ("TP-TOK-HIGH-TPS", {"seconds": 279.0}, Level.WARN),
        ("TP-TOK-HIGH-TPS", {"seconds": 280.0}, None),
        ("TP-TOK-HIGH-TPS", {"seconds": 0.0, "timed_lines": 0}, Skip.NEED_ABSENT),
    ],
)
def test_each_measurement_has_its_limit(rule: str, parts: dict[str, Any], expected: object) -> None:
    cell = judge(rule, used(**parts))
    got = cell.skip or (cell.hits[0].level if cell.hits else None)
    assert got == expected


def test_the_first_unknown_line_is_pointed_at() -> None:
    (hit,) = judge("TP-TOK-HIGH-OOV", used(unknown=500, first_unknown=12)).hits
    assert (hit.evidence.where.artifact, hit.evidence.where.line) == ("text.txt", 12)
    (hit,) = judge("TP-TOK-HIGH-OOV", used(unknown=500, first_unknown=0)).hits
    assert hit.evidence.where.line is None


@pytest.mark.parametrize("rule", [*ROLES, *OF_TEXT, "TP-PRE-PAD-EQUALS-EOS"])
def test_the_tokenizer_of_a_dataset_is_judged_with_it(rule: str) -> None:
    assert is_clean(judge(rule, dataset(tokenizer=used().inspected)))
    assert skipped(judge(rule, dataset())) is Skip.NEED_ABSENT


def test_nothing_is_judged_without_a_tokenizer() -> None:
    for rule in (*ROLES, *OF_TEXT):
        assert skipped(judge(rule, RunView("t"))) is Skip.NEED_ABSENT
