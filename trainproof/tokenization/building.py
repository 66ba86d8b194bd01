"""Tokenizers from the vocabularies of before ``tokenizer.json``: BERT's, GPT-2's and RoBERTa's.

Made as the classes of transformers make theirs of the same files, by the library that they use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from msgspec.structs import asdict

from trainproof.model.tokenizer import Special

from .classes import FILES, Build
from .settings import Beside


def built(directory: str, said: Beside, build: Build) -> Any:
    """A ``tokenizers.Tokenizer``. Raises ImportError, and what the library raises."""
    library: Any = import_module("tokenizers")
    files = [os.path.join(directory, name) for name in FILES[build]]
    made = _BUILDERS[build](library, files, said)
    made.add_tokens([library.AddedToken(**asdict(token)) for token in said.tokens])
    made.post_processor = _frame(library, made, said, build)
    return made


def _bert(library: Any, files: list[str], said: Beside) -> Any:
    vocabulary = library.models.WordPiece.read_file(*files)
    unknown = said.roles_of_class.get(Special.UNK, "[UNK]")
    made = library.Tokenizer(library.models.WordPiece(vocabulary, unk_token=unknown))
    made.normalizer = library.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=said.options.tokenize_chinese_chars,
        strip_accents=said.options.strip_accents,
        lowercase=said.options.do_lower_case,
    )
    made.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    made.decoder = library.decoders.WordPiece(prefix="##")
    return made


def _bytes(library: Any, files: list[str], said: Beside) -> Any:
    vocabulary, merges = library.models.BPE.read_file(*files)
    made = library.Tokenizer(library.models.BPE(vocabulary, merges, fuse_unk=False))
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(
        add_prefix_space=said.options.add_prefix_space
    )
    made.decoder = library.decoders.ByteLevel()
    return made


_BUILDERS: Mapping[Build, Callable[[Any, list[str], Beside], Any]] = {
    Build.BERT: _bert,
    Build.GPT2: _bytes,
    Build.ROBERTA: _bytes,
}


def _frame(library: Any, made: Any, said: Beside, build: Build) -> Any:
    """What encoding puts around a text."""
    roles = said.roles_of_class
    begin, end = roles.get(Special.CLS), roles.get(Special.SEP)
    if build is Build.GPT2:
        begin = roles.get(Special.BOS) if said.add_bos else None
        end = roles.get(Special.EOS) if said.add_eos else None
    tokens = [token for token in (begin, end) if token]
    return library.processors.TemplateProcessing(
        single=[part for part in (begin, "$A", end) if part],
        special_tokens=[(token, made.token_to_id(token)) for token in dict.fromkeys(tokens)],
    )
