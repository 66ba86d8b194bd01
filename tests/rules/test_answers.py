"""Rules about answers: what fires, at which level, and what is left alone."""

from __future__ import annotations

import pytest

from tests.rules.judging import is_clean, judge, level, prose, skipped
from trainproof.model.data import RunView
from trainproof.model.dataset import Answers, Issue, Shape, Tally
from trainproof.model.outcome import Level, Skip
from trainproof.rules.dataset_examples import dataset, spot, tally, troubled

CHAT = {"shapes": {Shape.CHAT: 1000}}


def given(rows: int = 1000, most: int = 3, long: int = 900, within: Tally | None = None) -> RunView:
    within = within or Tally()
    return dataset(Shape.ANSWER, answers=Answers(rows, "No.", most, spot(7), long, within))


def test_one_answer_of_nearly_all_rows_is_told() -> None:
    cell = judge("TP-PRE-ONE-ANSWER", given(most=950))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message == "950 of 1,000 answers (95.0%) are one and the same."
    assert cell.hits[0].evidence.where.line == 7


@pytest.mark.parametrize("most", [3, 949])
def test_answers_that_are_merely_frequent_are_not(most: int) -> None:
    assert is_clean(judge("TP-PRE-ONE-ANSWER", given(most=most)))


def test_few_answers_may_well_be_one() -> None:
    assert skipped(judge("TP-PRE-ONE-ANSWER", given(rows=49, most=49))) is Skip.NEED_TOO_SHORT
    assert skipped(judge("TP-PRE-ONE-ANSWER", dataset())) is Skip.NEED_ABSENT


def test_prompts_that_end_with_their_answers_are_told() -> None:
    cell = judge("TP-PRE-ANSWER-IN-PROMPT", given(within=tally(91, 4, 9)))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).evidence == "First at line 4, line 9 and 89 more."
    assert is_clean(judge("TP-PRE-ANSWER-IN-PROMPT", given(within=tally(90, 4))))
    assert skipped(judge("TP-PRE-ANSWER-IN-PROMPT", given(long=4))) is Skip.NEED_TOO_SHORT


@pytest.mark.parametrize("issue", [Issue.CALL_ARGUMENTS, Issue.CALL_UNKNOWN, Issue.CALL_UNDECLARED])
def test_calls_are_told_among_conversations_with_calls(issue: Issue) -> None:
    cell = judge("TP-PRE-TOOL-CALL", troubled(issue, 7, 3, 5, calling=40, **CHAT))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message.startswith("7 of 40 conversations with calls of tools ")


def test_conversations_without_calls_are_not_checked() -> None:
    assert skipped(judge("TP-PRE-TOOL-CALL", dataset(**CHAT))) is Skip.NEED_ABSENT


@pytest.mark.parametrize(("rows", "found"), [(10, Level.INFO), (11, Level.WARN)])
def test_few_rows_that_were_decoded_wrongly_are_a_note(rows: int, found: Level) -> None:
    variant = "few" if found is Level.INFO else ""
    assert level(judge("TP-PRE-UNICODE", troubled(Issue.MOJIBAKE, rows, 3))) == (found, variant)
