"""Answers are compared with each other, and with their own prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.inspected import jsonl, measured
from trainproof.model.dataset import Answers, Dataset, Spot, Tally

LONG = "The answer is this long."


def answers(found: Dataset) -> Answers:
    assert found.answers is not None
    return found.answers


def chat(asked: str, answered: str) -> dict[str, Any]:
    turns = (("user", asked), ("assistant", answered))
    return {"messages": [{"role": role, "content": text} for role, text in turns]}


@pytest.mark.parametrize("context", [{}, {"context": "beside"}])
def test_the_most_frequent_answer_is_counted(tmp_path: Path, context: dict[str, str]) -> None:
    rows = [{"prompt": f"ask {n}", "completion": "No." if n % 3 else f"{n}"} for n in range(90)]
    found = answers(measured(jsonl(tmp_path / "a.jsonl", *({**row, **context} for row in rows))))
    assert (found.rows, found.most, found.most_rows) == (90, "No.", 60)
    assert (found.most_at, found.long) == (Spot("a.jsonl", 2), 0)


def test_of_conversations_the_last_answer_counts(tmp_path: Path) -> None:
    rows = [chat(f"ask {n}", LONG) for n in range(5)]
    found = answers(measured(jsonl(tmp_path / "a.jsonl", *rows)))
    assert (found.rows, found.most_rows, found.within) == (5, 5, Tally())


def test_an_answer_that_ends_its_prompt_is_found_at_its_line(tmp_path: Path) -> None:
    rows = [
        {"prompt": "ask", "completion": LONG},
        {"prompt": f"ask {LONG}", "completion": LONG},
        {"prompt": f"ask {LONG} more", "completion": LONG},
        {"prompt": "say yes", "completion": "yes"},
    ]
    found = answers(measured(jsonl(tmp_path / "a.jsonl", *rows)))
    assert (found.long, found.within) == (3, Tally(1, (Spot("a.jsonl", 2),)))
    told = [{"instruction": "say", "input": LONG, "output": LONG}]
    assert answers(measured(jsonl(tmp_path / "b.jsonl", *told))).within.rows == 1


def test_held_out_rows_and_rows_without_an_answer_do_not_count(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"text": "one"}, {"prompt": "ask"})
    held = jsonl(tmp_path / "b.jsonl", {"prompt": "ask", "completion": "say"})
    assert measured(path, eval=held).answers is None


def test_different_answers_are_kept_in_bounded_memory(tmp_path: Path) -> None:
    rows = [{"prompt": "ask", "completion": f"{n % 1500}"} for n in range(3000)]
    found = answers(measured(jsonl(tmp_path / "a.jsonl", *rows)))
    assert (found.rows, found.most, found.most_rows) == (3000, "0", 2)
