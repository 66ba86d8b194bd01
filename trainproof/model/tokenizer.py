"""What was measured of a tokenizer: what it declares, and what it does to a text."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Family(StrEnum):
    """Which library reads it."""

    TOKENIZERS = "tokenizers"
    SENTENCEPIECE = "sentencepiece"


class Special(StrEnum):
    """The roles that a special token can have."""

    BOS = "bos"
    EOS = "eos"
    PAD = "pad"
    UNK = "unk"
    SEP = "sep"
    CLS = "cls"
    MASK = "mask"


class SpecialToken(msgspec.Struct, frozen=True):
    """``id`` is None where the vocabulary does not hold the token; ``pieces``: ids that encoding
    its text gives, 1 for a whole one. ``declared``: not only written in the chat template."""

    text: str
    role: Special | None
    id: int | None
    pieces: int
    declared: bool = True


class Template(msgspec.Struct, frozen=True):
    """A chat template as text: it is not known to do what its words say."""

    source: str
    generation: bool
    writes_bos: bool
    characters: int


class TextUse(msgspec.Struct, frozen=True):
    """What the tokenizer did to a text. ``unknown``: tokens that stand for what the vocabulary
    does not have. ``uncovered``: distinct characters that become an unknown token.

    ``numbers``: runs of digits of two or more; ``split_numbers``: those of more tokens than half
    their digits and one; ``digitwise``: no token holds two digits, ``charwise``: nor two letters.
    ``timed_tokens`` and ``seconds``: of lines that declare a duration.
    """

    artifact: str
    lines: int
    characters: int
    words: int
    tokens: int
    unknown: int = 0
    first_unknown: int | None = None
    distinct: int = 0
    uncovered: int = 0
    examples: str = ""
    numbers: int = 0
    split_numbers: int = 0
    split_example: str = ""
    first_split: int | None = None
    digitwise: bool = False
    charwise: bool = False
    timed_lines: int = 0
    timed_tokens: int = 0
    seconds: float = 0.0


class Tokenizer(msgspec.Struct, frozen=True):
    """``declares``: whether anything beside the vocabulary says which token plays which role.

    ``size``: one more than the largest id. ``embedding``: rows of the model's embedding, where
    a config.json beside it says so. ``adds_bos`` and ``adds_eos``: what encoding does;
    ``framing``: tokens that it puts around one text, whatever their roles (BERT's are two);
    ``add_eos``: what is configured, None where nothing is. ``total``: whether no text can be
    unknown to it (bytes are tokens).
    """

    artifact: str
    family: Family
    declares: bool
    size: int
    total: bool
    adds_bos: bool
    adds_eos: bool
    framing: int = 0
    add_eos: bool | None = None
    specials: tuple[SpecialToken, ...] = ()
    embedding: int | None = None
    model_max_length: int | None = None
    template: Template | None = None
    text: TextUse | None = None

    def special(self, role: Special) -> SpecialToken | None:
        """The declared token of a role."""
        return next((one for one in self.specials if one.role is role), None)
