"""What a tokenizer does to a text is counted by what the library gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.support.inspected import opened, tokenizer
from tests.support.vocabularies import bytes_bpe, pieces, sentencepiece, tokenizers, words
from trainproof.model.tokenizer import TextUse


def use(model: Path, text: Path, content: str) -> TextUse:
    text.write_text(content)
    found = tokenizer(model, text).text
    assert found is not None
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pieces(tmp_path_factory.mktemp("pieces") / "m.model")


def test_tokens_and_unknown_ones_are_those_of_the_library(model: Path, tmp_path: Path) -> None:
    content = "the quick fox\n\nпривет fox\n"
    found = use(model, tmp_path / "t.txt", content)
    inner = sentencepiece.SentencePieceProcessor()
    inner.load(str(model))
    ids = [inner.encode(line) for line in ("the quick fox", "привет fox")]
    assert (found.lines, found.words, found.characters) == (2, 5, 23)
    assert found.tokens == sum(map(len, ids))
    assert found.unknown == sum(one.count(inner.unk_id()) for one in ids) > 0
    assert found.first_unknown == 3


def test_characters_count_from_three_times_on(model: Path, tmp_path: Path) -> None:
    found = use(model, tmp_path / "t.txt", "fox fox fox ä ä ä ö ö ü ü ü ü")
    assert (found.distinct, found.uncovered, found.examples) == (5, 2, "ü ä")


def test_whole_words_spell_no_characters(tmp_path: Path) -> None:
    home = words(tmp_path / "w", {"unk_token": "[UNK]"})
    found = use(home, tmp_path / "t.txt", "the fox\nthe unheard fox\n")
    assert (found.tokens, found.unknown, found.first_unknown, found.distinct) == (5, 1, 2, 0)


def test_bytes_know_everything(tmp_path: Path) -> None:
    home = bytes_bpe(tmp_path / "b", {"unk_token": "<pad>"})
    found = use(home, tmp_path / "t.txt", "привет <pad> 你好\n" * 5)
    assert (found.unknown, found.uncovered) == (0, 0)


def test_numbers_are_those_between_words(tmp_path: Path) -> None:
    home = bytes_bpe(tmp_path / "b", {})
    found = use(home, tmp_path / "t.txt", "in 1999 and 2024-01-17 a7 x86 5\nor 1999\n")
    assert found.numbers == 5
    made = tokenizers.Tokenizer.from_file(str(home / "tokenizer.json"))
    split = [n for n in ("1999", "2024", "01", "17") if len(made.encode(n).ids) > len(n) / 2 + 1]
    assert split == ["2024"]
    assert (found.split_numbers, found.split_example, found.first_split) == (1, "2024", 1)
    assert not found.digitwise


def test_a_vocabulary_without_two_digits_in_a_token_is_seen(tmp_path: Path) -> None:
    model = pieces(tmp_path / "m.model", split_digits=True)
    found = use(model, tmp_path / "t.txt", "in 199999\n")
    assert (found.digitwise, found.split_numbers, found.charwise) == (True, 1, False)


def test_a_vocabulary_of_letters_is_seen(tmp_path: Path) -> None:
    model = pieces(tmp_path / "m.model", model_type="char")
    assert use(model, tmp_path / "t.txt", "the quick fox\n").charwise


def test_tokens_a_second_are_of_the_lines_that_tell_their_time(model: Path, tmp_path: Path) -> None:
    rows = [
        {"text": "the quick fox", "duration": 2.0},
        {"transcript": "the quick fox", "duration": 3},
        {"text": "the quick fox", "duration": True},
        {"text": "the quick fox", "duration": -1},
        {"text": "the quick fox"},
    ]
    found = use(model, tmp_path / "t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert (found.lines, found.timed_lines, found.seconds) == (5, 2, 5.0)
    assert found.timed_tokens * 5 == found.tokens * 2


@pytest.mark.parametrize("content", ["", "\n \n", '{"audio": "a.wav"}\n'])
def test_a_text_without_a_token_measures_nothing(model: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "t.txt").write_text(content)
    found = opened(model, tmp_path / "t.txt")
    assert found.subject is None
    assert found.faults[0].fatal


def test_compressed_text_is_read(model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(b"the quick fox\n" * 10))
    found = tokenizer(model, tmp_path / "t.txt.gz").text
    assert found is not None
    assert found.lines == 10


def test_a_text_that_is_not_there_is_a_fault(model: Path, tmp_path: Path) -> None:
    found = opened(model, tmp_path / "nowhere.txt")
    assert found.subject is None
    assert found.faults[0].artifact.endswith("nowhere.txt")
    assert found.faults[0].detail == "No such file or directory"
