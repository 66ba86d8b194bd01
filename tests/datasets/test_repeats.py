"""Equal rows are found again, and what is held out among what is trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.inspected import counts, jsonl, measured
from trainproof.datasets.repeats import Memory

LONG = "a text that is long enough to count, number {}"


def test_the_first_of_equal_rows_is_none_and_the_others_know_it(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "a.jsonl", *({"text": word} for word in ("a", "b", "a", "c", "a", "A ", "b"))
    )
    repeats = measured(path).repeats
    assert repeats.compared == 7
    assert (repeats.exact.rows, [s.line for s in repeats.exact.spots]) == (3, [3, 5, 7])
    assert [spot.line for spot in repeats.firsts] == [1, 1, 2]
    assert (repeats.normalised.rows, [s.line for s in repeats.normalised.spots]) == (1, [6])


def test_case_and_white_space_make_no_difference_in_any_script(tmp_path: Path) -> None:
    pairs = [("Straße  nach Wien", "straße nach WIEN"), ("ΑΒΓ\tδ", "αβγ Δ"), ("A\nb", "aB")]
    rows = [{"text": text} for pair in pairs for text in pair]
    repeats = measured(jsonl(tmp_path / "a.jsonl", *rows)).repeats
    assert (repeats.exact.rows, repeats.normalised.rows) == (0, 3)


def test_a_shared_prompt_or_another_image_is_no_repeat(tmp_path: Path) -> None:
    rows = [
        {"question": "What colour is it?", "answer": "red", "image": "1.png"},
        {"question": "What colour is it?", "answer": "red", "image": "2.png"},
        {"question": "What colour is it?", "answer": "blue", "image": "1.png"},
    ]
    assert measured(jsonl(tmp_path / "a.jsonl", *rows)).repeats.exact.rows == 0
    answers = [{"asked": "Is it?", "response": "Yes."}, {"asked": "Does it?", "response": "Yes."}]
    assert measured(jsonl(tmp_path / "c.jsonl", *answers)).repeats.exact.rows == 0
    seen = [{"question": "Is it?", "answer": "yes", "image_id": number} for number in (1, 2)]
    assert measured(jsonl(tmp_path / "d.jsonl", *seen)).repeats.exact.rows == 0
    words = [{"domain": "news", "tokens": [word]} for word in ("one", "two")]
    assert measured(jsonl(tmp_path / "e.jsonl", *words)).repeats.exact.rows == 0
    numbers = [{"name": "north", "value": 1}, {"name": "north", "value": 2}]
    assert measured(jsonl(tmp_path / "b.jsonl", *numbers)).repeats.exact.rows == 0


def test_short_lines_of_plain_text_repeat_without_harm(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"Chapter\n{LONG}\nChapter\n{LONG}\n")
    repeats = measured(tmp_path / "a.txt").repeats
    assert (repeats.compared, repeats.exact.rows) == (2, 1)


def test_what_is_held_out_is_compared_with_what_is_trained_on(tmp_path: Path) -> None:
    train = jsonl(tmp_path / "train.jsonl", *({"text": LONG.format(n)} for n in range(100)))
    held = [{"text": LONG.format(n).upper()} for n in (7, 500, 9)] + [{"text": "short"}]
    found = measured(train, eval=jsonl(tmp_path / "test.jsonl", *held))
    assert (found.rows, found.held_out) == (100, 4)
    overlap = found.overlap
    assert overlap is not None
    assert (overlap.compared, overlap.short, overlap.shared.rows) == (3, 1, 2)
    assert [(s.artifact, s.line) for s in overlap.shared.spots] == [
        ("test.jsonl", 1),
        ("test.jsonl", 3),
    ]
    assert [(s.artifact, s.line) for s in overlap.trained] == [
        ("train.jsonl", 8),
        ("train.jsonl", 10),
    ]


def test_a_directory_may_hold_both_sides(tmp_path: Path) -> None:
    row: dict[str, Any] = {"prompt": LONG.format(1), "completion": "the same answer"}
    other = {**row, "completion": "another answer"}
    jsonl(tmp_path / "data" / "train-00000.jsonl", row)
    jsonl(tmp_path / "data" / "validation.jsonl", row, other)
    found = measured(tmp_path / "data")
    assert found.overlap is not None
    assert (found.rows, found.held_out, found.overlap.shared.rows) == (1, 2, 1)


def test_a_test_set_may_hide_its_answers(tmp_path: Path) -> None:
    train = jsonl(tmp_path / "train.jsonl", {"question": "What?", "answer": "That."})
    hidden = [{"question": "Who?", "answer": ""}, {"question": "Who?", "answer": None}]
    test = jsonl(tmp_path / "test.jsonl", *hidden)
    assert counts(measured(train, eval=test)) == {}
    assert counts(measured(test)) == {"empty-answer": 1, "null-text": 1}


def test_names_of_splits_alone_make_no_split(tmp_path: Path) -> None:
    jsonl(tmp_path / "data" / "test.jsonl", {"text": "one"})
    jsonl(tmp_path / "data" / "latest.jsonl", {"text": "two"})
    found = measured(tmp_path / "data")
    assert (found.rows, found.held_out, found.overlap) == (2, 0, None)


def test_memory_grows_by_24_bytes_a_row() -> None:
    memory = Memory()
    memory.file("a")
    for number in range(1000):
        memory.add(f"text {number}", number + 1)
    held = (memory._exact, memory._normal, memory._places)
    assert sum(len(one) * one.itemsize for one in held) == 24_000
