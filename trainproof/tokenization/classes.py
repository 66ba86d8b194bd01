"""The classes of transformers whose vocabularies say all that is needed to build the tokenizer.

What a class adds to its files is written in its code: how a text is taken apart, and which tokens
play which roles where a configuration does not name them. From transformers 4 and 5, whose
``convert_slow_tokenizer`` and ``models/*/tokenization_*.py`` agree on these three.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from trainproof.model.tokenizer import Special


class Build(StrEnum):
    """How a vocabulary is made a tokenizer."""

    BERT = "bert"
    GPT2 = "gpt2"
    ROBERTA = "roberta"


_BERT = {
    Special.UNK: "[UNK]",
    Special.SEP: "[SEP]",
    Special.PAD: "[PAD]",
    Special.CLS: "[CLS]",
    Special.MASK: "[MASK]",
}
_GPT2 = dict.fromkeys((Special.BOS, Special.EOS, Special.UNK), "<|endoftext|>")
_ROBERTA = {
    Special.BOS: "<s>",
    Special.EOS: "</s>",
    Special.UNK: "<unk>",
    Special.SEP: "</s>",
    Special.PAD: "<pad>",
    Special.CLS: "<s>",
    Special.MASK: "<mask>",
}
DEFAULTS: Mapping[Build, Mapping[Special, str]] = {
    Build.BERT: _BERT,
    Build.GPT2: _GPT2,
    Build.ROBERTA: _ROBERTA,
}
"""Tokens of roles that a configuration does not name."""
FILES: Mapping[Build, tuple[str, ...]] = {
    Build.BERT: ("vocab.txt",),
    Build.GPT2: ("vocab.json", "merges.txt"),
    Build.ROBERTA: ("vocab.json", "merges.txt"),
}
_CLASSES: Mapping[Build, frozenset[str]] = {
    Build.BERT: frozenset({"Bert", "ConvBert", "DistilBert", "Electra", "LayoutLM", "Lxmert"})
    | {"DPRReader", "DPRQuestionEncoder", "DPRContextEncoder"}
    | {"MobileBert", "RetriBert", "SqueezeBert"},
    Build.GPT2: frozenset({"GPT2", "CodeGen"}),
    Build.ROBERTA: frozenset({"Roberta", "Bart", "Longformer", "LED", "Mvp"}),
}
_MODELS: Mapping[Build, frozenset[str]] = {
    Build.BERT: frozenset({"bert", "convbert", "distilbert", "dpr", "electra", "ernie", "layoutlm"})
    | {"lxmert", "megatron-bert", "mobilebert", "nezha", "qdqbert", "retribert"}
    | {"squeezebert", "visual_bert"},
    Build.GPT2: frozenset({"codegen", "gpt2", "gpt_neo", "gptj", "opt"}),
    Build.ROBERTA: frozenset({"bart", "led", "longformer", "mvp", "roberta"}),
}


_BEGINS = frozenset({"Llama", "CodeLlama", "Gemma", "XLMRoberta", "Camembert"})
_ENDS = frozenset({"T5", "MT5", "Pegasus", "XLMRoberta", "Camembert"})
"""Classes around a SentencePiece model that begin or end a text, where nothing says otherwise."""
_PIECES = {
    "llama": "Llama",
    "gemma": "Gemma",
    "gemma2": "Gemma",
    "gemma3": "Gemma",
    "gemma3_text": "Gemma",
    "t5": "T5",
    "mt5": "T5",
    "umt5": "T5",
    "pegasus": "Pegasus",
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
}


class Declared(msgspec.Struct, frozen=True):
    """The class that a directory names. ``name``: as it is written, empty where nothing is.
    ``begins`` and ``ends``: whether it puts a token before and after each text."""

    name: str = ""
    build: Build | None = None
    defaults: Mapping[Special, str] = msgspec.field(default_factory=dict)
    begins: bool = False
    ends: bool = False


def declared(tokenizer_class: object, model_type: object) -> Declared:
    """By the name of the tokenizer's class, or else by the model's type."""
    if isinstance(tokenizer_class, str) and tokenizer_class:
        bare = tokenizer_class.removesuffix("Fast").removesuffix("Tokenizer")
        return _of(tokenizer_class[:100], bare, _CLASSES)
    if isinstance(model_type, str) and model_type:
        return _of(model_type[:100], _PIECES.get(model_type, model_type), _MODELS)
    return Declared()


def _of(name: str, key: str, table: Mapping[Build, frozenset[str]]) -> Declared:
    build = next((build for build, names in table.items() if key in names), None)
    defaults = DEFAULTS[build] if build else {}
    return Declared(name, build, defaults, key in _BEGINS, key in _ENDS)
