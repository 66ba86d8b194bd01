"""Tokenizers of both libraries are read with what the files beside them declare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.inspected import opened, tokenizer
from tests.support.vocabularies import CHATML, bytes_bpe, pieces, tokenizers, words
from trainproof.model.data import FaultCode
from trainproof.model.tokenizer import Family, Special, Tokenizer

CONFIG: dict[str, Any] = {
    "bos_token": "<s>",
    "eos_token": {"content": "</s>", "special": True},
    "pad_token": "<pad>",
}


def said(found: Tokenizer) -> dict[str, tuple[int | None, int]]:
    return {one.text: (one.id, one.pieces) for one in found.specials}


def test_a_directory_says_which_token_plays_which_role(tmp_path: Path) -> None:
    found = tokenizer(bytes_bpe(tmp_path / "t", CONFIG))
    assert (found.family, found.declares, found.total) == (Family.TOKENIZERS, True, True)
    assert said(found) == {"<s>": (0, 1), "</s>": (1, 1), "<pad>": (2, 1)}
    assert (found.adds_bos, found.adds_eos, found.add_eos) == (False, False, None)
    eos = found.special(Special.EOS)
    assert eos is not None
    assert eos.id == 1


def test_what_encoding_adds_is_measured(tmp_path: Path) -> None:
    found = tokenizer(bytes_bpe(tmp_path / "t", {**CONFIG, "add_eos_token": False}, adds=True))
    assert (found.adds_bos, found.adds_eos, found.add_eos) == (True, True, False)


def test_a_configuration_that_names_no_role_leaves_them_to_its_class(tmp_path: Path) -> None:
    assert not tokenizer(bytes_bpe(tmp_path / "gpt2", {"model_max_length": 1024})).declares
    assert tokenizer(bytes_bpe(tmp_path / "none", {"eos_token": None})).declares


def test_a_vocabulary_alone_declares_nothing(tmp_path: Path) -> None:
    found = tokenizer(bytes_bpe(tmp_path / "t") / "tokenizer.json")
    assert (found.declares, found.specials) == (False, ())


def test_the_older_file_of_special_tokens_counts_where_no_added_tokens_are_named(
    tmp_path: Path,
) -> None:
    home = bytes_bpe(tmp_path / "t", {"eos_token": "</s>"})
    (home / "special_tokens_map.json").write_text(
        json.dumps({"eos_token": "<pad>", "bos_token": "<s>"})
    )
    found = tokenizer(home)
    assert {str(one.role): one.text for one in found.specials} == {"eos": "<pad>", "bos": "<s>"}
    bytes_bpe(tmp_path / "t", {"eos_token": "</s>", "added_tokens_decoder": {}})
    found = tokenizer(home)
    assert {str(one.role): one.text for one in found.specials} == {"eos": "</s>"}


def test_tokens_that_are_declared_and_not_there_fall_into_pieces(tmp_path: Path) -> None:
    config = {"eos_token": "<|end|>", "additional_special_tokens": ["<|a|>", "<pad>"]}
    home = bytes_bpe(tmp_path / "t", {**config, "chat_template": "{{ x }}<|b|><|im_end|>"})
    made = tokenizers.Tokenizer.from_file(str(home / "tokenizer.json"))
    found = tokenizer(home)
    assert {one.text: (one.id, one.pieces, one.declared) for one in found.specials} == {
        "<|end|>": (None, len(made.encode("<|end|>").ids), True),
        "<|a|>": (None, len(made.encode("<|a|>").ids), True),
        "<pad>": (2, 1, True),
        "<|b|>": (None, len(made.encode("<|b|>").ids), False),
        "<|im_end|>": (4, 1, False),
    }


@pytest.mark.parametrize("where", ["added_tokens.json", "tokenizer_config.json"])
def test_tokens_that_are_added_beside_the_vocabulary_are_whole(tmp_path: Path, where: str) -> None:
    config: dict[str, Any] = {"eos_token": "<|end|>"}
    if where == "tokenizer_config.json":
        config["added_tokens_decoder"] = {"500": {"content": "<|end|>", "special": True}}
    home = bytes_bpe(tmp_path / "t", config)
    if where == "added_tokens.json":
        (home / where).write_text(json.dumps({"<|end|>": 500}))
    found = tokenizer(home)
    assert said(found) == {"<|end|>": (500, 1)}
    assert found.size == 501


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        ({"vocab_size": 300}, 300),
        ({"text_config": {"vocab_size": 7}}, 7),
        ({"vocab_size": "x"}, None),
    ],
)
def test_the_embedding_is_the_models(
    tmp_path: Path, config: dict[str, Any], rows: int | None
) -> None:
    home = bytes_bpe(tmp_path / "t", CONFIG)
    (home / "config.json").write_text(json.dumps(config))
    assert tokenizer(home).embedding == rows


def test_templates_are_looked_at_as_text(tmp_path: Path) -> None:
    home = bytes_bpe(tmp_path / "t", {**CONFIG, "chat_template": CHATML})
    template = tokenizer(home).template
    assert template is not None
    assert (template.source, template.generation, template.writes_bos) == (
        "tokenizer_config.json",
        False,
        False,
    )
    marked = "{{ bos_token }}{%- generation %}{{ x }}{%- endgeneration %}"
    (home / "chat_template.jinja").write_text(marked)
    template = tokenizer(home).template
    assert template is not None
    assert (template.source, template.generation, template.writes_bos) == (
        "chat_template.jinja",
        True,
        True,
    )
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "def"}]
    template = tokenizer(bytes_bpe(tmp_path / "u", {"chat_template": named})).template
    assert template is not None
    assert template.characters == 3


def test_pieces_have_their_own_special_tokens(tmp_path: Path) -> None:
    found = tokenizer(pieces(tmp_path / "m.model"))
    assert (found.family, found.declares, found.total) == (Family.SENTENCEPIECE, True, False)
    assert said(found) == {"<s>": (1, 1), "</s>": (2, 1), "<unk>": (0, 1)}
    padded = tokenizer(
        pieces(tmp_path / "n.model", pad_id=3, eos_id=-1, byte_fallback=True, vocab_size=320)
    )
    assert padded.total
    assert {str(one.role) for one in padded.specials} == {"bos", "pad", "unk"}


def test_a_directory_with_a_piece_model_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    pieces(tmp_path / "t" / "spiece.model")
    (tmp_path / "t" / "tokenizer_config.json").write_text('{"add_eos_token": true}')
    found = tokenizer(tmp_path / "t")
    assert (found.family, found.adds_eos, found.add_eos) == (Family.SENTENCEPIECE, True, True)


def test_whole_words_have_an_unknown_token(tmp_path: Path) -> None:
    found = tokenizer(words(tmp_path / "w", {"unk_token": "[UNK]", "mask_token": "[MASK]"}))
    assert (found.total, said(found)) == (False, {"[UNK]": (0, 1), "[MASK]": (4, 1)})


@pytest.mark.parametrize(
    "content",
    [b"{", b"{}", b'{"model": {"type": "BPE"}}', b"\x0a\x05abc", b"", b"\x00" * 100],
)
def test_what_is_no_tokenizer_is_a_fault(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    found = opened(path)
    assert found.subject is None
    (fault,) = found.faults
    assert (fault.code, fault.fatal) == (FaultCode.CORRUPT, True)


@pytest.mark.parametrize(
    "content", ["[1]", "{", '{"eos_token": 5, "chat_template": [1]}', "[" * 100_000]
)
def test_settings_that_are_none_say_nothing(tmp_path: Path, content: str) -> None:
    home = bytes_bpe(tmp_path / "t")
    for name in ("tokenizer_config.json", "added_tokens.json", "config.json"):
        (home / name).write_text(content)
    found = tokenizer(home)
    assert (found.specials, found.template, found.embedding) == ((), None, None)


def test_the_only_model_of_a_directory_is_read_whatever_its_name(tmp_path: Path) -> None:
    pieces(tmp_path / "m.model")
    assert tokenizer(tmp_path).family is Family.SENTENCEPIECE
    pieces(tmp_path / "n.model")
    (fault,) = opened(tmp_path).faults
    assert fault.detail == "holds no tokenizer.json and no other vocabulary that is known"
