"""Rules about datasets: what fires, at which level, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.judging import is_clean, judge, level, measured, prose, skipped
from trainproof.model.data import Fault, FaultCode, RunView
from trainproof.model.dataset import (
    FieldFacts,
    Issue,
    Labels,
    Lengths,
    Overlap,
    Repeats,
    Shape,
    Tally,
    Targets,
)
from trainproof.model.outcome import Level, Skip
from trainproof.model.tokenizer import Template
from trainproof.rules.dataset_examples import dataset, facts, spot, tally, troubled

CHAT = {"shapes": {Shape.CHAT: 1000}}
TOKENS = {"shapes": {Shape.TOKENS: 1000}}


def lengths(**parts: Any) -> Lengths:
    given: dict[str, Any] = {
        "sampled": 1000,
        "answered": 1000,
        "longest": 900,
        "longest_at": spot(9),
        "mean": 400.0,
        "max_len": 512,
        "source": "--max-len",
    }
    return Lengths(**(given | parts))


def labels(**parts: Any) -> Labels:
    given: dict[str, Any] = {
        "field": "label",
        "rows": 1000,
        "classes": 2,
        "most": "0",
        "most_rows": 500,
        "least": "1",
        "least_rows": 500,
        "runs": 507,
        "expected": 501.0,
        "z": 0.4,
        "longest": 9,
        "longest_at": spot(40),
    }
    return Labels(**(given | parts))


@pytest.mark.parametrize(
    ("rule", "issue", "found", "variant"),
    [
        ("TP-PRE-MALFORMED-JSONL", Issue.SYNTAX, Level.FAIL, ""),
        ("TP-PRE-MALFORMED-JSONL", Issue.NOT_OBJECT, Level.FAIL, ""),
        ("TP-PRE-MALFORMED-JSONL", Issue.ENCODING, Level.FAIL, ""),
        ("TP-PRE-MALFORMED-JSONL", Issue.ARITY, Level.WARN, "lenient"),
        ("TP-PRE-MALFORMED-JSONL", Issue.QUOTES, Level.WARN, "lenient"),
        ("TP-PRE-MALFORMED-JSONL", Issue.TOO_LONG, Level.WARN, "lenient"),
        ("TP-PRE-MALFORMED-JSONL", Issue.NOT_A_NUMBER, Level.WARN, "lenient"),
        ("TP-PRE-EMPTY-TEXT", Issue.EMPTY_TEXT, Level.FAIL, ""),
        ("TP-PRE-EMPTY-TEXT", Issue.EMPTY_ANSWER, Level.FAIL, ""),
        ("TP-PRE-EMPTY-TEXT", Issue.NO_TEXT, Level.FAIL, ""),
        ("TP-PRE-EMPTY-TEXT", Issue.EMPTY_TURN, Level.WARN, "turn"),
        ("TP-PRE-EMPTY-TEXT", Issue.EMPTY_ASKED, Level.WARN, "turn"),
        ("TP-PRE-NOT-TEXT", Issue.NULL_TEXT, Level.FAIL, ""),
        ("TP-PRE-NOT-TEXT", Issue.NOT_TEXT, Level.WARN, "type"),
        ("TP-PRE-UNICODE", Issue.SURROGATE, Level.WARN, ""),
        ("TP-PRE-UNICODE", Issue.NUL, Level.WARN, ""),
        ("TP-PRE-ROLE-ORDER", Issue.BAD_TURN, Level.WARN, ""),
        ("TP-PRE-ROLE-ORDER", Issue.UNKNOWN_ROLE, Level.WARN, ""),
        ("TP-PRE-ROLE-ORDER", Issue.LATE_SYSTEM, Level.WARN, ""),
        ("TP-PRE-ROLE-ORDER", Issue.STARTS_ANSWERED, Level.WARN, ""),
        ("TP-PRE-ROLE-ORDER", Issue.ENDS_UNANSWERED, Level.INFO, "open"),
        ("TP-PRE-NOTHING-SUPERVISED", Issue.NO_ANSWER, Level.WARN, "unanswered"),
    ],
)
def test_an_issue_fires_at_its_level_and_line(
    rule: str, issue: Issue, found: Level, variant: str
) -> None:
    cell = judge(rule, troubled(issue, 7, 3, 5, **CHAT))
    assert level(cell) == (found, variant)
    (hit,) = cell.hits
    assert (hit.evidence.where.artifact, hit.evidence.where.line) == ("train.jsonl", 3)
    assert prose(cell).evidence == "First at line 3, line 5 and 5 more."


def test_what_is_found_together_is_told_apart() -> None:
    issues = {Issue.SYNTAX: tally(2, 4, 6), Issue.NOT_OBJECT: tally(1, 5)}
    cell = judge("TP-PRE-MALFORMED-JSONL", dataset(issues=issues, unusable=3))
    assert [hit.evidence.where.line for hit in cell.hits] == [4, 5]
    assert [hit.evidence.measured["rows"] for hit in cell.hits] == [1003, 1003]


def test_rows_without_any_text_are_not_found_to_be_sound() -> None:
    assert skipped(judge("TP-PRE-EMPTY-TEXT", dataset(characters=0))) is Skip.NEED_DEGENERATE


def test_a_dataset_that_could_not_be_read_is_no_clean_one() -> None:
    fault = Fault(FaultCode.IO, "train.jsonl", "permission denied", fatal=True)
    view = RunView("train.jsonl", faults=(fault,))
    for rule in ("TP-PRE-EMPTY-TEXT", "TP-PRE-SPLIT-OVERLAP", "TP-PRE-ROLE-ORDER"):
        assert skipped(judge(rule, view)) is Skip.NEED_UNREADABLE


@pytest.mark.parametrize(
    "rule", ["TP-PRE-ROLE-ORDER", "TP-PRE-NOTHING-SUPERVISED", "TP-PRE-PAIR-IDENTICAL"]
)
def test_rules_about_a_shape_need_rows_of_it(rule: str) -> None:
    assert skipped(judge(rule, dataset())) is Skip.NEED_ABSENT


# --- repeats --------------------------------------------------------------------------------


def test_rows_that_are_merely_alike_are_a_note() -> None:
    cell = judge("TP-PRE-DUPLICATE-TEXT", dataset(repeats=Repeats(9, normalised=tally(2, 4, 8))))
    assert level(cell) == (Level.INFO, "alike")


def test_one_row_repeats_nothing() -> None:
    cell = judge("TP-PRE-DUPLICATE-TEXT", dataset(repeats=Repeats(1)))
    assert skipped(cell) is Skip.NEED_TOO_SHORT


@pytest.mark.parametrize(
    ("shared", "expected"),
    [(1000, Level.FAIL), (10, Level.FAIL), (9, Level.WARN), (1, Level.WARN)],
)
def test_an_overlap_fails_from_one_percent_on(shared: int, expected: Level) -> None:
    one = Overlap(1000, 3, Tally(shared, (spot(2, "test.jsonl"),)), (spot(7),))
    cell = judge("TP-PRE-SPLIT-OVERLAP", dataset(overlap=one))
    assert level(cell)[0] is expected
    (hit,) = cell.hits
    assert (hit.evidence.where.artifact, hit.evidence.where.line) == ("test.jsonl", 2)
    assert "line 7 of train.jsonl" in prose(cell).evidence


def test_no_overlap_is_clean_and_short_rows_decide_nothing() -> None:
    assert is_clean(judge("TP-PRE-SPLIT-OVERLAP", dataset(overlap=Overlap(5, 0, Tally()))))
    cell = judge("TP-PRE-SPLIT-OVERLAP", dataset(overlap=Overlap(0, 50, Tally())))
    assert skipped(cell) is Skip.NEED_TOO_SHORT
    assert skipped(judge("TP-PRE-SPLIT-OVERLAP", dataset())) is Skip.NEED_ABSENT


# --- fields ---------------------------------------------------------------------------------


def field(types: dict[str, int], nulls: int = 0, without: int | None = None) -> RunView:
    first = {name: spot(number + 1) for number, name in enumerate(types)}
    missing = None if without is None else spot(without)
    rows = sum(types.values()) + nulls
    return dataset(fields=(FieldFacts("answer", rows, nulls, types, first, missing),))


def test_types_that_go_together_are_no_drift() -> None:
    assert is_clean(judge("TP-PRE-SCHEMA-DRIFT", field({"integer": 500, "number": 500})))
    assert is_clean(judge("TP-PRE-SCHEMA-DRIFT", field({"string": 500}, nulls=500)))


def test_the_rarer_type_is_pointed_at() -> None:
    cell = judge("TP-PRE-SCHEMA-DRIFT", field({"string": 900, "list": 80, "object": 20}))
    (hit,) = cell.hits
    assert (hit.level, hit.evidence.where.line) == (Level.WARN, 2)
    assert hit.evidence.measured["types"] == "string (900), list (80), object (20)"


def test_a_field_of_some_rows_is_a_note() -> None:
    cell = judge("TP-PRE-SCHEMA-DRIFT", field({"string": 900}, without=17))
    assert level(cell) == (Level.INFO, "missing")
    assert prose(cell).message == "The field answer is in 900 of 1,000 rows."


def test_several_shapes_are_told_once_and_not_field_by_field() -> None:
    view = dataset(
        shapes={Shape.TEXT: 900, Shape.CHAT: 100},
        shape_at={Shape.TEXT: spot(1), Shape.CHAT: spot(33)},
        fields=(FieldFacts("text", 900, 0, {"string": 900}, {"string": spot(1)}, spot(33)),),
    )
    cell = judge("TP-PRE-SCHEMA-DRIFT", view)
    assert level(cell) == (Level.WARN, "shapes")
    assert cell.hits[0].evidence.where.line == 33


# --- targets --------------------------------------------------------------------------------


def masked(rows: int, supervised: int = 30_000) -> RunView:
    targets = Targets(1000, 1000, 90_000, supervised, None, 99, spot(1))
    return troubled(Issue.ALL_IGNORED, rows, 3, targets=targets, **TOKENS)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (masked(10), (Level.FAIL, "")),
        (masked(9), (Level.WARN, "few")),
        (masked(1000, 0), (Level.FAIL, "")),
        (masked(0, 899), (Level.FAIL, "scarce")),
    ],
)
def test_masked_rows_fail_from_one_percent_on(view: RunView, expected: tuple[Level, str]) -> None:
    assert level(judge("TP-PRE-NOTHING-SUPERVISED", view)) == expected


def test_rows_without_labels_are_not_masked() -> None:
    view = dataset(targets=Targets(1000, 0, 0, 0, None, 99, spot(1)), **TOKENS)
    assert is_clean(judge("TP-PRE-NOTHING-SUPERVISED", view))


@pytest.mark.parametrize(
    ("same", "expected"), [(10, Level.FAIL), (9, Level.WARN), (1000, Level.FAIL)]
)
def test_equal_pairs_fail_from_one_percent_on(same: int, expected: Level) -> None:
    view = troubled(Issue.SAME_PAIR, same, 5, shapes={Shape.PREFERENCE: 1000})
    assert level(judge("TP-PRE-PAIR-IDENTICAL", view))[0] is expected


@pytest.mark.parametrize(
    ("rows", "supervised", "ended", "expected"),
    [
        (20, 300, 0, (Level.FAIL, "")),
        (20, 900, 0, (Level.WARN, "chunks")),
        (19, 300, 0, Skip.NEED_TOO_SHORT),
        (20, 300, None, Skip.NEED_ABSENT),
    ],
)
def test_labels_without_an_end_fail_where_something_is_masked(
    rows: int, supervised: int, ended: int | None, expected: object
) -> None:
    view = dataset(targets=Targets(rows, rows, 900, supervised, ended, 99, spot(1)), **TOKENS)
    cell = judge("TP-PRE-NO-EOS-TARGET", view)
    assert (skipped(cell) if cell.skip else level(cell)) == expected


def test_one_end_is_enough() -> None:
    view = dataset(targets=Targets(1000, 1000, 900, 300, 1, 99, spot(1)), **TOKENS)
    assert measured(judge("TP-PRE-NO-EOS-TARGET", view))["ended"] == 1


def test_a_template_without_an_end_is_a_warning() -> None:
    view = dataset(lengths=lengths(rendered=1000, closed=0), **CHAT)
    assert level(judge("TP-PRE-NO-EOS-TARGET", view)) == (Level.WARN, "template")
    closed = dataset(lengths=lengths(rendered=1000, closed=990), **CHAT)
    assert is_clean(judge("TP-PRE-NO-EOS-TARGET", closed))
    assert skipped(judge("TP-PRE-NO-EOS-TARGET", dataset())) is Skip.NEED_ABSENT


# --- labels ---------------------------------------------------------------------------------


def test_sorted_labels_warn_and_clusters_are_a_note() -> None:
    in_order = dataset(labels=labels(runs=4, z=-31.0))
    assert level(judge("TP-PRE-LABEL-ORDER", in_order)) == (Level.WARN, "")
    clustered = dataset(labels=labels(runs=300, z=-12.0))
    assert level(judge("TP-PRE-LABEL-ORDER", clustered)) == (Level.INFO, "clustered")
    for z in (-5.9, 0.0, 40.0):
        assert is_clean(judge("TP-PRE-LABEL-ORDER", dataset(labels=labels(z=z))))


def test_one_class_has_no_order() -> None:
    cell = judge("TP-PRE-LABEL-ORDER", dataset(labels=labels(classes=1, runs=1, z=0.0)))
    assert skipped(cell) is Skip.NEED_DEGENERATE


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"most_rows": 99, "least_rows": 10}, None),
        ({"most_rows": 100, "least_rows": 10}, (Level.INFO, "uneven")),
        ({"most_rows": 1000, "least_rows": 10}, (Level.WARN, "")),
        ({"classes": 1}, (Level.WARN, "single")),
    ],
)
def test_classes_may_differ_ten_times_in_size(
    parts: dict[str, int], expected: tuple[Level, str] | None
) -> None:
    cell = judge("TP-PRE-CLASS-BALANCE", dataset(labels=labels(**parts)))
    assert is_clean(cell) if expected is None else level(cell) == expected


# --- lengths --------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["TP-PRE-CONTEXT-OVERFLOW", "TP-PRE-ANSWER-CUT"])
def test_without_a_length_nothing_is_too_long(rule: str) -> None:
    cell = judge(rule, dataset(lengths=lengths(max_len=None)))
    assert skipped(cell) is Skip.NEED_ABSENT
    assert skipped(judge(rule, dataset())) is Skip.NEED_ABSENT


@pytest.mark.parametrize(
    ("cut", "source", "expected"),
    [
        (201, "--max-len", Level.FAIL),
        (200, "--max-len", Level.WARN),
        (900, "the tokenizer's configuration", Level.WARN),
        (11, "--max-len", Level.WARN),
        (10, "--max-len", None),
    ],
)
def test_lost_answers_fail_where_the_caller_names_the_length(
    cut: int, source: str, expected: Level | None
) -> None:
    view = troubled(Issue.ANSWER_CUT, cut, 2, lengths=lengths(source=source))
    cell = judge("TP-PRE-ANSWER-CUT", view)
    assert is_clean(cell) if expected is None else level(cell)[0] is expected


def test_rows_without_answers_lose_none() -> None:
    cell = judge("TP-PRE-ANSWER-CUT", dataset(lengths=lengths(answered=0)))
    assert skipped(cell) is Skip.NEED_ABSENT


def test_templates_are_judged_where_there_is_one() -> None:
    assert skipped(judge("TP-PRE-NO-GENERATION-BLOCK", dataset(**CHAT))) is Skip.NEED_ABSENT
    marked = facts(template=Template("t", generation=True, writes_bos=False, characters=9))
    assert is_clean(judge("TP-PRE-NO-GENERATION-BLOCK", dataset(Shape.CHAT, tokenizer=marked)))
    none = dataset(lengths=lengths(), **CHAT)
    assert skipped(judge("TP-PRE-TEMPLATE-REFUSES", none)) is Skip.NEED_ABSENT


@pytest.mark.parametrize(
    ("largest", "size", "embedding", "fires"),
    [(99, 99, None, True), (99, 100, None, False), (99, 90, 128, False), (99, 90, 99, True)],
)
def test_tokens_must_be_in_the_vocabulary_or_its_padding(
    largest: int, size: int, embedding: int | None, fires: bool
) -> None:
    view = dataset(
        Shape.TOKENS,
        targets=Targets(1000, 0, 0, 0, None, largest, spot(1)),
        tokenizer=facts(size=size, embedding=embedding),
    )
    assert bool(judge("TP-PRE-ID-RANGE", view).hits) is fires


@pytest.mark.parametrize(
    ("issue", "told"),
    [
        (Issue.ID_RANGE, (Level.WARN, "negative")),  # -200 stands for an image in LLaVA
        (Issue.UNEQUAL_LENGTHS, (Level.FAIL, "unequal")),
    ],
)
def test_negative_tokens_and_unequal_lengths_need_no_vocabulary(
    issue: Issue, told: tuple[Level, str]
) -> None:
    targets = Targets(1000, 1000, 9000, 900, None, 9, spot(1))
    cell = judge("TP-PRE-ID-RANGE", troubled(issue, 2, 8, targets=targets, **TOKENS))
    assert level(cell) == told


def test_labels_that_are_no_tokens_have_lengths_of_their_own() -> None:
    targets = Targets(1000, 0, 0, 0, None, 9, spot(1))
    view = troubled(Issue.UNEQUAL_LENGTHS, 1000, 1, targets=targets, **TOKENS)
    assert is_clean(judge("TP-PRE-ID-RANGE", view))


def test_a_document_named_as_lines_warns_and_lines_named_as_a_document_are_a_note() -> None:
    cell = judge("TP-PRE-FILE-FORM", dataset(documents=tally(1, 1), files=3))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message.startswith("1 of 3 files are named as JSON lines and hold a JSON")
    assert prose(cell).evidence == "They are train.jsonl."
    many = Tally(7, tuple(spot(1, f"{n}.json") for n in range(5)))
    cell = judge("TP-PRE-FILE-FORM", dataset(lined=many, files=8))
    assert level(cell) == (Level.INFO, "lines")
    assert measured(cell)["paths"] == "0.json, 1.json, 2.json, 3.json, 4.json and 2 more"
    assert is_clean(judge("TP-PRE-FILE-FORM", dataset()))


def test_a_template_that_writes_the_beginning_is_a_note() -> None:
    view = troubled(Issue.TEMPLATE_BOS, 1000, 1, lengths=lengths(), tokenizer=facts())
    assert level(judge("TP-PRE-DOUBLE-BOS", view)) == (Level.INFO, "template")
