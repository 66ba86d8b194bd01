"""Vocabularies of before tokenizer.json encode as the classes of transformers do that they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.inspected import inspected, jsonl, measured, opened, tokenizer
from tests.support.vocabularies import SENTENCES, bytes_bpe, pieces, tokenizers
from trainproof.model.data import FaultCode
from trainproof.model.dataset import Dataset
from trainproof.model.tokenizer import Special
from trainproof.tokenization.loading import Loaded, load

TEXTS = [
    "The Quick brown FOX jumps, doesn't it?",
    "naïve Ångström, Ёлка, İstanbul: in 1999 for 250",
    "中文 and 日本語 \t\r\n  between\x07 signs\u200b 🎉",
    "[CLS] one [MASK] two [SEP] <mask>three <s> four </s><pad>",
    "x <|endoftext|> y<new> z NEW new",
    "  ",
    "",
]
STRIPPED = {"lstrip": True, "normalized": False, "rstrip": False, "single_word": False}


def wordpiece(home: Path, said: object, **files: object) -> Path:
    """BERT's vocab.txt, with the files of a directory around it."""
    made = tokenizers.BertWordPieceTokenizer(lowercase=False)
    made.train_from_iterator([*SENTENCES, *TEXTS * 3], vocab_size=300, show_progress=False)
    return _saved(home, made, {"tokenizer_config": said, **files})


def pairs(home: Path, said: object, special: tuple[str, ...] = (), **files: object) -> Path:
    """GPT-2's vocab.json and merges.txt, with the files of a directory around them."""
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(
        [*SENTENCES, *TEXTS * 3], vocab_size=400, special_tokens=list(special), show_progress=False
    )
    return _saved(home, made, {"tokenizer_config": said, **files})


def _saved(home: Path, made: Any, files: dict[str, object]) -> Path:
    home.mkdir(parents=True)
    made.save_model(str(home))
    for name, content in files.items():
        (home / f"{name}.json").write_text(json.dumps(content))
    return home


def loaded(home: Path) -> Loaded:
    found = load(str(home), "t")
    assert isinstance(found, Loaded)
    return found


def roles(home: Path) -> dict[str, tuple[str, int | None]]:
    specials = loaded(home).facts.specials
    return {str(one.role): (one.text, one.id) for one in specials if one.role is not None}


ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
MAP = {"mask_token": {"content": "<mask>", **STRIPPED}, "additional_special_tokens": ["<new>"]}
DIRECTORIES = [
    (wordpiece, {"tokenizer_class": "BertTokenizer"}, {}),
    (wordpiece, {"tokenizer_class": "DistilBertTokenizerFast", "do_lower_case": False}, {}),
    (
        wordpiece,
        {"strip_accents": True, "do_lower_case": False},
        {"config": {"model_type": "bert"}},
    ),
    (
        wordpiece,
        {"tokenizer_class": "BertTokenizer", "tokenize_chinese_chars": False},
        {"added_tokens": {"<new>": 300, "NEW": 301}, "special_tokens_map": {"sep_token": "<new>"}},
    ),
    (
        wordpiece,
        {
            "tokenizer_class": "BertTokenizer",
            "added_tokens_decoder": {
                "301": {"content": "new", **STRIPPED, "normalized": True, "special": False},
                "300": {"content": "<new>", **STRIPPED, "rstrip": True, "special": True},
            },
        },
        {"special_tokens_map": {"unk_token": "[PAD]"}},
    ),
    (pairs, {"model_max_length": 1024}, {"config": {"model_type": "gpt2"}}),
    (pairs, {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}, {}),
    (
        pairs,
        {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True},
        {"special_tokens_map": dict.fromkeys(("bos_token", "eos_token", "unk_token"), "</s>")},
    ),
    (pairs, {"tokenizer_class": "RobertaTokenizer"}, {"special": ROBERTA}),
    (pairs, {"tokenizer_class": "BartTokenizer"}, {"special_tokens_map": MAP}),
]


@pytest.mark.parametrize(("made", "config", "files"), DIRECTORIES)
def test_texts_become_the_tokens_that_transformers_makes_of_them(
    tmp_path: Path, made: Any, config: object, files: dict[str, Any]
) -> None:
    transformers: Any = pytest.importorskip("transformers")
    home = made(tmp_path / "t", config, **files)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(str(home)), loaded(home)
    for text in TEXTS:
        for special in (False, True):
            expected = theirs(text, add_special_tokens=special)["input_ids"]
            assert ours.encoder.encode(text, special) == expected
    named = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")
    assert roles(home) == {
        role: (token, getattr(theirs, f"{role}_token_id"))
        for role in named
        if (token := getattr(theirs, f"{role}_token")) is not None
    }
    assert ours.facts.size == len(theirs)


def test_a_class_takes_text_apart_and_knows_its_tokens(tmp_path: Path) -> None:
    home = tmp_path / "bert"
    home.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "cafe", "CAFE", "?"]
    (home / "vocab.txt").write_text("\n".join(words) + "\n")
    (home / "config.json").write_text('{"model_type": "bert", "vocab_size": 10}')
    found = loaded(home)
    assert found.encoder.encode("unable Café?", special=True) == [2, 5, 6, 7, 9, 3]
    assert (found.facts.size, found.facts.declares, found.facts.total) == (10, True, False)
    assert roles(home) == {
        "unk": ("[UNK]", 1),
        "sep": ("[SEP]", 3),
        "pad": ("[PAD]", 0),
        "cls": ("[CLS]", 2),
        "mask": ("[MASK]", 4),
    }
    (home / "tokenizer_config.json").write_text('{"do_lower_case": false, "mask_token": null}')
    assert loaded(home).encoder.encode("CAFE Café") == [8, 1]
    assert "mask" not in roles(home)


def test_a_file_of_several_stands_for_its_directory(tmp_path: Path) -> None:
    home = pairs(tmp_path / "t", {"tokenizer_class": "GPT2Tokenizer"})
    for name in ("vocab.json", "merges.txt"):
        assert loaded(home / name).encoder.encode(TEXTS[0]) == loaded(home).encoder.encode(TEXTS[0])


def test_tokens_of_a_class_are_those_of_a_tokenizer_json_too(tmp_path: Path) -> None:
    home = bytes_bpe(tmp_path / "t", {"model_max_length": 1024}, special=("<|endoftext|>",))
    (home / "config.json").write_text('{"model_type": "gpt2"}')
    assert set(roles(home)) == {"bos", "eos", "unk"}
    assert loaded(home).facts.declares
    other = bytes_bpe(tmp_path / "u", {"model_max_length": 1024})
    (other / "config.json").write_text('{"model_type": "gpt2"}')
    assert not loaded(other).facts.declares


@pytest.mark.parametrize(
    ("names", "config", "told"),
    [
        (["vocab.txt"], {}, "vocab.txt has no class: tokenizer_class in tokenizer_config.json, or"),
        (
            ["vocab.txt"],
            {"tokenizer_class": "BertJapaneseTokenizer"},
            "vocab.txt is read by BertJapaneseTokenizer, which is not known here: save_pretr",
        ),
        (
            ["vocab.json"],
            {"tokenizer_class": "GPT2Tokenizer"},
            "GPT2Tokenizer reads vocab.json and merges.txt, and there is no merges.txt",
        ),
        (
            ["merges.txt"],
            {"tokenizer_class": "BertTokenizer"},
            "BertTokenizer reads vocab.txt, and",
        ),
        (["tekken.json"], {}, "tekken.json is read by mistral-common only: save_pretrained()"),
        ([], {}, "holds no tokenizer.json and no other vocabulary that is known"),
    ],
)
def test_what_is_not_read_is_named_with_what_to_do(
    tmp_path: Path, names: list[str], config: object, told: str
) -> None:
    for name in names:
        (tmp_path / name).write_text('{"a": 0}')
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (fault,) = opened(tmp_path).faults
    assert fault.detail.startswith(told)
    assert (fault.code, fault.fatal) == (FaultCode.IO, True)


@pytest.mark.parametrize("name", ["qwen.tiktoken", "tokenizer.model"])
def test_a_vocabulary_of_tiktoken_lacks_what_its_code_knows(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("IQ== 0\nIg== 1\nICAg 2\n")
    (fault,) = opened(tmp_path).faults
    assert fault.detail.startswith(f"{name} is a tiktoken vocabulary: how it takes text apart")


def test_a_pointer_of_git_lfs_is_named(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (tmp_path / "tokenizer.json").write_text(pointer)
    (fault,) = opened(tmp_path).faults
    assert fault.detail == "tokenizer.json is a Git LFS pointer: git lfs pull gets it"


@pytest.mark.parametrize(("rows", "whole"), [(None, 1), (59, 1), (57, 2)])
def test_pieces_leave_room_for_the_tokens_of_a_class(
    tmp_path: Path, rows: int | None, whole: int
) -> None:
    pieces(tmp_path / "sentencepiece.bpe.model", vocab_size=57, hard_vocab_limit=True)
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": rows} if rows else {}))
    pad = tokenizer(tmp_path).special(Special.PAD)
    assert pad is not None
    assert pad.id is None
    assert min(pad.pieces, 2) == whole


@pytest.mark.parametrize(
    ("config", "model", "adds"),
    [
        ({"tokenizer_class": "LlamaTokenizer"}, {}, (True, False)),
        ({"tokenizer_class": "LlamaTokenizer", "add_bos_token": False}, {}, (False, False)),
        ({"tokenizer_class": "LlamaTokenizerFast", "add_eos_token": True}, {}, (True, True)),
        ({"tokenizer_class": "XLMRobertaTokenizer"}, {}, (True, True)),
        ({}, {"model_type": "t5"}, (False, True)),
        ({}, {}, (False, False)),
    ],
)
def test_a_class_around_pieces_begins_and_ends_a_text(
    tmp_path: Path, config: object, model: object, adds: tuple[bool, bool]
) -> None:
    pieces(tmp_path / "tokenizer.model")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text(json.dumps(model))
    found = tokenizer(tmp_path)
    assert (found.adds_bos, found.adds_eos) == adds


def test_what_is_put_around_a_text_counts_whatever_its_role(tmp_path: Path) -> None:
    home = wordpiece(tmp_path / "t", {"tokenizer_class": "BertTokenizer"})
    facts = loaded(home).facts
    assert (facts.adds_bos, facts.adds_eos, facts.framing) == (False, False, 2)
    path = jsonl(tmp_path / "a.jsonl", {"text": "the fox"})
    lengths = measured(path, tokenizer=home).lengths
    assert lengths is not None
    assert lengths.longest == len(loaded(home).encoder.encode("the fox", special=True))


def test_a_text_that_cannot_be_encoded_costs_what_needs_tokens(tmp_path: Path) -> None:
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "the": 1}, unk_token="[UNK]"))
    made.save(str(tmp_path / "tokenizer.json"))
    text = tmp_path / "text.txt"
    text.write_text("the fox")
    said = "cannot encode a text: WordLevel error: Missing [UNK] token from the vocabulary"
    (fault,) = opened(tmp_path, text).faults
    assert fault.detail == said
    path = jsonl(tmp_path / "a.jsonl", {"text": "the fox"}, {"text": "the fox"})
    found = inspected(path, tokenizer=tmp_path)
    assert [one.detail for one in found.faults] == [said]
    assert isinstance(found.subject, Dataset)
    assert (found.subject.lengths, found.subject.repeats.exact.rows) == (None, 1)


def test_a_vocabulary_without_words_is_of_no_use(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("fox\n")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (fault,) = opened(tmp_path).faults
    assert fault.detail.startswith("cannot encode a text: WordPiece error: Missing [UNK]")
