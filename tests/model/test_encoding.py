"""Reports that are kept encoded are what they were made of."""

from __future__ import annotations

import copy
import math
import pickle

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.report import finding, hostile, many, report, subject, unreadable
from trainproof.model.encoding import all_encoded, encoded
from trainproof.model.report import (
    ExitCode,
    Report,
    Subjects,
    TensorSummary,
    Verdict,
    exit_code,
    head_of,
)

FULL = (subject(findings=[finding(), finding(superseded=True)]), unreadable(), subject())


def kept(made: Report) -> Subjects:
    return Subjects(all_encoded(made.reports))


def encoded_as(made: Report) -> Report:
    return replace(made, reports=kept(made))


@pytest.mark.parametrize("made", [report(), report(*FULL), many(60)], ids=["none", "full", "many"])
def test_each_is_decoded_as_it_was(made: Report) -> None:
    assert kept(made) == made.reports
    assert made.reports == kept(made)
    assert list(kept(made)) == list(made.reports)


def test_they_are_counted_cut_and_indexed_as_a_tuple_is() -> None:
    found = kept(report(*FULL))
    assert len(found) == 3
    assert (found[0], found[-1]) == (FULL[0], FULL[2])
    assert found[1:] == FULL[1:]
    assert found != FULL[:2]
    assert found != "abc"
    assert found[:0] == ()
    assert found[:0] != ""
    with pytest.raises(IndexError):
        found[3]


def test_a_report_of_subjects_can_be_copied_and_sent_to_another_process() -> None:
    made = encoded_as(report(*FULL))
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301


def test_what_was_not_published_is_spelled_wherever_a_number_stands() -> None:
    tensor = TensorSummary("w", "a.pt", "weights", "float32", (2,), 2, absmax=math.inf)
    one = replace(subject(), measured={"share": math.nan, "id": 2**64}, tensors=(tensor,))
    found = encoded(one).decoded()
    assert found.measured == {"share": "NaN", "id": "18446744073709551616"}
    assert found.tensors[0].absmax == "Infinity"


def test_the_text_is_one_line_and_encoded_once() -> None:
    one = encoded(subject(id="a\nb"))
    assert one.text.count(b"\n") == 0
    assert list(all_encoded(Subjects([one]))) == [one]


def test_the_head_says_what_the_report_says() -> None:
    made = report(*FULL)
    for whole, head in zip(made.heads, encoded_as(made).heads, strict=True):
        assert (head.id, head.kind, head.root) == (whole.id, whole.kind, whole.root)
        assert (head.verdict, head.findings) == (whole.verdict, whole.findings)
        assert (head.problems, head.unknown_columns) == (whole.problems, whole.unknown_columns)
        ours, theirs = head.checks.coverage, whole.checks.coverage
        assert (ours.counts, ours.total) == (theirs.counts, theirs.total)
        assert ours.checked == theirs.checked


def test_the_exit_code_is_that_of_the_reports() -> None:
    for made in (report(), report(*FULL), report(FULL[2]), report(FULL[1])):
        assert exit_code(encoded_as(made)) is exit_code(made)
    assert exit_code(encoded_as(report(*FULL))) is ExitCode.FAIL


def test_findings_come_with_the_whole_report_of_their_subject() -> None:
    made = report(*FULL)
    assert list(encoded_as(made).findings()) == list(made.findings())
    assert FULL[0].verdict is Verdict.FAIL


def test_hostile_names_are_spelled() -> None:
    assert [one.unknown_columns for one in kept(hostile())][2] == ("lone\\xffbyte and \\ud800half",)


@pytest.mark.parametrize("text", [b"", b"{", b"{}", b'{"id": 3}', b"[" * 100_000])
def test_what_is_no_report_has_no_head(text: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        head_of(text)


def test_a_report_is_decoded_as_a_whole_for_who_reads_it_often() -> None:
    made = report(*FULL)
    whole = encoded_as(made).decoded()
    assert isinstance(whole.reports, tuple)
    assert whole == made
    assert made.decoded() is made
