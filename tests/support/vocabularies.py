"""Tokenizers made by the libraries that people make theirs with. Tests that
import this are skipped where the libraries are not installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

sentencepiece: Any = pytest.importorskip("sentencepiece")
tokenizers: Any = pytest.importorskip("tokenizers")

SENTENCES = [
    "the quick brown fox jumps over the lazy dog",
    "pack my box with five dozen liquor jugs",
    "how vexingly quick daft zebras jump",
    "in 1999 we paid 250 for 12 of them",
] * 20

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
)


def bytes_bpe(
    home: Path,
    config: dict[str, Any] | None = None,
    special: tuple[str, ...] = ("<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"),
    adds: bool = False,
) -> Path:
    """A directory with a byte-level BPE. ``adds``: encoding puts <s> and </s> around a text."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(special),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(SENTENCES, trainer)
    if adds:
        ids = [(token, made.token_to_id(token)) for token in ("<s>", "</s>")]
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A $B </s>", special_tokens=ids
        )
    home.mkdir(parents=True, exist_ok=True)
    made.save(str(home / "tokenizer.json"))
    if config is not None:
        (home / "tokenizer_config.json").write_text(json.dumps(config))
    return home


def words(home: Path, config: dict[str, Any] | None = None) -> Path:
    """A directory with a vocabulary of whole words, in which everything else is unknown."""
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.WordLevelTrainer(
        special_tokens=["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    made.train_from_iterator(SENTENCES, trainer)
    home.mkdir(parents=True, exist_ok=True)
    made.save(str(home / "tokenizer.json"))
    if config is not None:
        (home / "tokenizer_config.json").write_text(json.dumps(config))
    return home


def pieces(path: Path, **options: Any) -> Path:
    """A SentencePiece model."""
    given = {"vocab_size": 60, "model_type": "unigram", "hard_vocab_limit": False} | options
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES), model_writer=file, minloglevel=2, **given
        )
    return path
