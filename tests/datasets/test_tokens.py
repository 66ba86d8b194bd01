"""What a tokenizer makes of rows: lengths, what truncation takes, and what is a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.inspected import counts, inspected, jsonl, lines, measured
from tests.support.vocabularies import CHATML, bytes_bpe, tokenizers, words
from trainproof.datasets.places import Issues
from trainproof.datasets.tokens import TokenSample
from trainproof.datasets.turns import Content
from trainproof.model.dataset import Dataset, Issue, Spot
from trainproof.tokenization.loading import Loaded, load

CONFIG: dict[str, Any] = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "chat_template": CHATML,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bytes_bpe(tmp_path_factory.mktemp("plain"), CONFIG)


@pytest.fixture(scope="module")
def adding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bytes_bpe(tmp_path_factory.mktemp("adding"), CONFIG, adds=True)


def chat(question: str, answer: str) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ]
    }


def test_rows_are_as_long_as_the_library_says(tmp_path: Path, home: Path, adding: Path) -> None:
    texts = ["the quick brown fox", "zebras jump over the lazy dog", "x"]
    path = jsonl(tmp_path / "a.jsonl", *({"text": text} for text in texts))
    for directory in (home, adding):
        made = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
        expected = [len(made.encode(text).ids) for text in texts]
        found = measured(path, tokenizer=directory).lengths
        assert found is not None
        assert (found.sampled, found.longest, found.longest_at.line) == (3, max(expected), 2)
        assert found.mean == pytest.approx(sum(expected) / 3)


def test_what_is_too_long_and_what_loses_its_answer_are_told_apart(
    tmp_path: Path, home: Path
) -> None:
    rows = [
        {"prompt": "q" * 5, "completion": "a" * 5},
        {"prompt": "q" * 5, "completion": "a" * 200},
        {"prompt": "q" * 200, "completion": "a" * 5},
    ]
    found = measured(jsonl(tmp_path / "a.jsonl", *rows), tokenizer=home, max_len=64)
    assert lines(found, Issue.OVERFLOW) == [2, 3]
    assert lines(found, Issue.ANSWER_CUT) == [3]
    assert found.lengths is not None
    assert (found.lengths.answered, found.lengths.source) == (3, "--max-len")


def test_the_greatest_length_may_be_the_tokenizers_own(tmp_path: Path) -> None:
    directory = bytes_bpe(tmp_path / "t", {**CONFIG, "model_max_length": 16})
    path = jsonl(tmp_path / "a.jsonl", {"text": "q" * 100})
    found = measured(path, tokenizer=directory)
    assert found.lengths is not None
    assert (found.lengths.max_len, counts(found)) == (16, {"overflow": 1})
    unbounded = bytes_bpe(tmp_path / "u", {**CONFIG, "model_max_length": 10**30})
    lengths = measured(path, tokenizer=unbounded).lengths
    assert lengths is not None
    assert lengths.max_len is None


def test_conversations_go_through_the_template(tmp_path: Path, home: Path) -> None:
    found = measured(jsonl(tmp_path / "a.jsonl", chat("zebras?", "jump")), tokenizer=home).lengths
    assert found is not None
    assert (found.rendered, found.closed) == (1, 1)
    text = "<|im_start|>user\nzebras?<|im_end|>\n<|im_start|>assistant\njump<|im_end|>\n"
    made = tokenizers.Tokenizer.from_file(str(home / "tokenizer.json"))
    assert found.longest == len(made.encode(text).ids)


def test_a_template_that_closes_no_answer_and_one_that_refuses(tmp_path: Path, home: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", chat("zebras?", "jump"), chat("no", "fox"))
    (tmp_path / "open.jinja").write_text(
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    )
    found = measured(path, tokenizer=home, template=tmp_path / "open.jinja").lengths
    assert found is not None
    assert (found.rendered, found.closed) == (2, 0)
    (tmp_path / "strict.jinja").write_text(
        "{% if messages[0].content == 'no' %}{{ raise_exception('no') }}{% endif %}" + CHATML
    )
    strict = measured(path, tokenizer=home, template=tmp_path / "strict.jinja")
    assert lines(strict, Issue.NOT_RENDERED) == [2]


def test_a_second_beginning_of_text_is_seen(tmp_path: Path, home: Path, adding: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"text": "<s>the fox"}, {"text": "the fox"})
    assert lines(measured(path, tokenizer=adding), Issue.DOUBLE_BOS) == [1]
    assert counts(measured(path, tokenizer=home)) == {}


def test_what_the_template_writes_is_told_apart_from_what_rows_hold(
    tmp_path: Path, adding: Path
) -> None:
    (tmp_path / "t.jinja").write_text("{{ bos_token }}" + CHATML)
    path = jsonl(tmp_path / "a.jsonl", chat("zebras?", "jump"), {"text": "<s>the fox"})
    found = measured(path, tokenizer=adding, template=tmp_path / "t.jinja")
    assert lines(found, Issue.TEMPLATE_BOS) == [1]
    assert lines(found, Issue.DOUBLE_BOS) == [2]


@pytest.mark.parametrize(
    ("row", "tokens"),
    [
        (chat("zebras jump", "over the dog"), 5),
        ({"prompt": "zebras jump", "completion": "over the dog"}, 5),
        ({"instruction": "zebras", "input": "jump", "output": "over the dog"}, 5),
        ({"prompt": "zebras", "chosen": "jump", "rejected": "over the dog"}, 5),
        ({"prompt": [chat("zebras", "jump")["messages"][0]], "completion": "the dog"}, 3),
        ({"text": "zebras jump over the dog"}, 5),
    ],
)
def test_only_what_the_data_say_themselves_counts_as_unknown(
    tmp_path: Path, row: dict[str, Any], tokens: int
) -> None:
    """Not the names of roles, nor what stands between two texts of a row."""
    home = words(tmp_path / "w", CONFIG | {"chat_template": None})
    found = measured(jsonl(tmp_path / "a.jsonl", row, row), tokenizer=home).tokenizer
    assert found is not None
    assert found.text is not None
    assert (found.text.lines, found.text.tokens, found.text.unknown) == (2, 2 * tokens, 0)


def test_rows_that_are_tokens_are_counted_by_their_targets(tmp_path: Path, home: Path) -> None:
    rows = [
        {"input_ids": [5, 6, 1], "labels": [-100, 6, 1]},
        {"input_ids": [5, 6, 7], "labels": [-100, -100, -100]},
        {"input_ids": [5, 6, 7], "labels": [-100, 6]},
        {"input_ids": [5, -6], "labels": [5, 6]},
        {"input_ids": [900]},
    ]
    path = jsonl(tmp_path / "a.jsonl", *rows)
    found = measured(path, tokenizer=home)
    assert counts(found) == {"all-ignored": 1, "unequal-lengths": 1, "id-range": 1}
    targets = found.targets
    assert targets is not None
    assert (targets.rows, targets.labelled, targets.tokens) == (5, 4, 11)
    assert (targets.supervised, targets.ended, targets.largest) == (5, 1, 900)
    alone = measured(path).targets
    assert alone is not None
    assert alone.ended is None


def test_of_many_rows_fewer_and_fewer_are_taken(home: Path) -> None:
    loaded = load(str(home), "t")
    assert isinstance(loaded, Loaded)
    sample = TokenSample(loaded, Issues(), "a", None, lambda: None)
    for number in range(1, 40_001):
        sample.add(Content("fox"), Spot("a", number))
    found, _ = sample.found()
    assert found is not None
    assert found.sampled == 8192 + 4096 + 4096 + (40_000 - 8192 - 2 * 4096 - 4 * 4096) // 8


def test_a_tokenizer_that_cannot_be_had_leaves_the_rows_judged(tmp_path: Path) -> None:
    found = inspected(jsonl(tmp_path / "a.jsonl", {"text": "one"}), tokenizer="gpt2")
    assert isinstance(found.subject, Dataset)
    assert found.subject.lengths is None
    (fault,) = found.faults
    assert fault.fatal
    assert fault.detail == "no such file (names of a hub are not looked up: give a path)"


@pytest.mark.parametrize(
    "row",
    [
        {"input_ids": [5, 6, 7, 8], "labels": [9, 4]},
        {"input_ids": [5, 6, 7, 8], "labels": [-100, 0, 1, -100]},
        {"input_ids": [5, 6], "labels": [0, 1, 0, 1]},
    ],
    ids=["translation", "tags", "classes"],
)
def test_labels_of_another_kind_than_the_tokens_are_no_targets(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    masked = {"input_ids": [5, 6], "labels": [-100, -100]}
    targets = measured(jsonl(tmp_path / "a.jsonl", row, row, masked)).targets
    assert targets is not None
    assert (targets.rows, targets.labelled, targets.ended) == (3, 0, None)


def test_labels_may_be_shifted_already(tmp_path: Path) -> None:
    row = {"input_ids": [5, 6, 7], "labels": [6, 7, -100]}
    targets = measured(jsonl(tmp_path / "a.jsonl", row)).targets
    assert targets is not None
    assert (targets.labelled, targets.supervised) == (1, 2)
