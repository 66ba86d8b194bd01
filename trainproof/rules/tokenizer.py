"""Tokenizers: special tokens that a training needs, and what becomes of a text."""

from collections.abc import Sequence
from typing import Annotated

from trainproof.model.outcome import (
    Clean,
    Evidence,
    Fired,
    Level,
    Outcome,
    Skip,
    Undecided,
    Value,
    Where,
)
from trainproof.model.rule import Doc, SubjectKind, Variant
from trainproof.model.tokenizer import Family, Special, SpecialToken, TextUse, Tokenizer

from .dataset_examples import special, tokenizer, used, without
from .interface import Bound, Example, rule
from .prepared import Vocabulary

_SHOWN = 5
_DECLARED = {"declared": "special tokens that are declared", "library": "which library reads it"}
_SPECIALS = "{declared:,} special tokens are declared; the tokenizer is read by {library}."
_WHOLE = Example("the tokenizer declares every role", tokenizer())


def _declared(tokens: Tokenizer) -> dict[str, Value]:
    return {
        "declared": sum(one.declared for one in tokens.specials),
        "library": str(tokens.family),
    }


def _missing(tokens: Tokenizer, role: Special) -> bool:
    """A token that is declared and not in the vocabulary is added by who loads it: that is
    TP-TOK-SPECIAL-SPLIT. Encoding falls back to no such unknown token, though."""
    one = tokens.special(role)
    return one is None or (role is Special.UNK and one.id is None)


def _lacks(tokens: Tokenizer, role: Special) -> Outcome:
    """Fired where nothing plays the role; a vocabulary alone does not say who does."""
    if not tokens.declares:
        return Undecided(_declared(tokens), Skip.NEED_ABSENT)
    if not _missing(tokens, role):
        return Clean(_declared(tokens))
    variant = "piece" if tokens.family is Family.SENTENCEPIECE else ""
    return Fired((Evidence(Where(tokens.artifact), _declared(tokens), variant),))


@rule(
    id="TP-PRE-MISSING-EOS-TOKEN",
    title="No token ends a text",
    level=Level.FAIL,
    message="The tokenizer has no end-of-text token.",
    evidence=_SPECIALS,
    needs={"tokens": Vocabulary()},
    measures=_DECLARED,
    doc=Doc(
        measures="Whether the files beside the vocabulary declare an eos_token; of SentencePiece,"
        " whether the model has one.",
        means="Nothing can teach a generating model to stop.",
        does_not_mean="That an encoder lacks anything: it needs none.",
        guards=(
            "An encoder (it declares a mask beside sep or cls) is no finding.",
            "A tokenizer.json without its configuration does not say, and is not checked; nor does"
            " a configuration that names no role, as GPT-2's: the class has them.",
            "A bare SentencePiece model is a warning: what wraps it may add one.",
        ),
        references=("trainproof 0.22, TP-PRE-MISSING-EOS-TOKEN",),
    ),
    fires=Example("no eos_token is declared", tokenizer(specials=without(Special.EOS))),
    silent=_WHOLE,
    variants={
        "piece": Variant(Level.WARN, "The SentencePiece model has no end-of-text token.", _SPECIALS)
    },
    subject=SubjectKind.TOKENIZER,
)
def missing_eos(tokens: Tokenizer) -> Outcome:
    if _is_encoder(tokens):
        return Clean(_declared(tokens))
    return _lacks(tokens, Special.EOS)


def _is_encoder(tokens: Tokenizer) -> bool:
    frame = tokens.special(Special.SEP) or tokens.special(Special.CLS)
    return tokens.special(Special.MASK) is not None and frame is not None


@rule(
    id="TP-PRE-MISSING-PAD-TOKEN",
    title="No token fills up short rows",
    level=Level.WARN,
    message="The tokenizer has no padding token.",
    evidence=_SPECIALS,
    needs={"tokens": Vocabulary()},
    measures=_DECLARED,
    doc=Doc(
        measures="Whether the files beside the vocabulary declare a pad_token; of SentencePiece,"
        " whether the model has one.",
        means="Batches of several rows cannot be made, or the end of text is put in its place.",
        does_not_mean="That it matters where rows are packed.",
        guards=(
            "A bare SentencePiece model is a note: by default it is trained without one.",
            "A tokenizer.json without its configuration is not checked.",
        ),
        references=("trainproof 0.22, TP-PRE-MISSING-PAD-TOKEN",),
    ),
    fires=Example("no pad_token is declared", tokenizer(specials=without(Special.PAD))),
    silent=_WHOLE,
    variants={
        "piece": Variant(Level.INFO, "The SentencePiece model has no padding token.", _SPECIALS)
    },
    subject=SubjectKind.TOKENIZER,
)
def missing_pad(tokens: Tokenizer) -> Outcome:
    return _lacks(tokens, Special.PAD)


@rule(
    id="TP-TOK-MISSING-UNK-TOKEN",
    title="No token stands for what is unknown",
    level=Level.WARN,
    message="The vocabulary does not cover all bytes, and no token stands for what is unknown.",
    evidence=_SPECIALS,
    needs={"tokens": Vocabulary()},
    measures=_DECLARED,
    doc=Doc(
        measures="Whether bytes are tokens; where not, whether an unk_token is declared and there.",
        means="Characters that the vocabulary lacks disappear without a trace, or encoding stops.",
        does_not_mean="That such characters occur.",
        guards=(
            "Vocabularies of bytes, or that fall back to them, need none.",
            "A tokenizer.json without its configuration is not checked.",
        ),
        references=("tokenizers: WordLevel, BPE and Unigram without unk_token",),
    ),
    fires=Example("no unk_token is declared", tokenizer(specials=without(Special.UNK))),
    silent=_WHOLE,
    variants={
        "piece": Variant(Level.WARN, "The SentencePiece model has no unknown token.", _SPECIALS)
    },
    subject=SubjectKind.TOKENIZER,
)
def missing_unk(tokens: Tokenizer) -> Outcome:
    if tokens.total:
        return Clean(_declared(tokens))
    return _lacks(tokens, Special.UNK)


@rule(
    id="TP-PRE-PAD-EQUALS-EOS",
    title="Padding and the end of text are one token",
    level=Level.WARN,
    message="Token {id:,} ({token}) is both padding and the end of text.",
    evidence="Where padding is masked, so is the end: {appended}.",
    needs={"tokens": Vocabulary()},
    measures={
        "id": "the token",
        "token": "its text",
        "appended": "whether encoding adds the end",
        **_DECLARED,
    },
    doc=Doc(
        measures="The numbers of the two tokens.",
        means="A collator that masks padding by its number masks the end of each answer with it,"
        " and the model never learns to stop.",
        does_not_mean="That it happens: a collator that goes by the attention mask keeps the end.",
        guards=("Only where both are declared.",),
        references=("trl #1623", "unsloth #416"),
    ),
    fires=Example(
        "both are token 2",
        tokenizer(specials=(*without(Special.PAD), special(Special.PAD, "</s>", 2))),
    ),
    silent=_WHOLE,
    subject=SubjectKind.TOKENIZER,
)
def pad_equals_eos(tokens: Tokenizer) -> Outcome:
    pad, eos = tokens.special(Special.PAD), tokens.special(Special.EOS)
    if pad is None or eos is None or pad.id is None or eos.id is None:
        return Undecided(_declared(tokens), Skip.NEED_ABSENT)
    if pad.id != eos.id:
        return Clean(_declared(tokens))
    appended = "encoding adds it to every text" if tokens.adds_eos else "encoding adds none"
    measured: dict[str, Value] = {"id": eos.id, "token": eos.text, "appended": appended}
    return Fired((Evidence(Where(tokens.artifact), measured),))


@rule(
    id="TP-PRE-NO-EOS-APPEND",
    title="Encoding adds no end of text",
    level=Level.WARN,
    message="add_eos_token is false: encoding adds no {token} to a text.",
    evidence="Unless the trainer or the template adds it, no row has an end ({template}).",
    needs={"tokens": Vocabulary()},
    measures={
        "token": "the token of the end",
        "template": "whether there is a chat template",
        **_DECLARED,
    },
    doc=Doc(
        measures="The setting add_eos_token beside the vocabulary.",
        means="What is encoded has no end; the trainer has to add it.",
        does_not_mean="That it does not: trl adds it to completions, most templates to answers.",
        guards=("Only where the setting is there and false: most tokenizers have none.",),
        references=("trainproof 0.22, TP-PRE-NO-EOS-APPEND", "trl #1623"),
    ),
    fires=Example("add_eos_token is false", tokenizer(add_eos=False, adds_eos=False)),
    silent=_WHOLE,
    subject=SubjectKind.TOKENIZER,
)
def no_eos_append(tokens: Tokenizer) -> Outcome:
    eos = tokens.special(Special.EOS)
    if eos is None or tokens.add_eos is None:
        return Undecided(_declared(tokens), Skip.NEED_ABSENT)
    if tokens.add_eos or tokens.adds_eos:
        return Clean(_declared(tokens))
    shown = "there is a chat template" if tokens.template else "there is no chat template"
    measured: dict[str, Value] = {"token": eos.text, "template": shown}
    return Fired((Evidence(Where(tokens.artifact), measured),))


_BEYOND = "The largest token is {largest:,}; the embedding of the model has {rows:,} rows."
_BEYOND_EVIDENCE = "{beyond:,} tokens have no row, by vocab_size in the config.json beside."


@rule(
    id="TP-TOK-BEYOND-EMBEDDING",
    title="Tokens beyond the end of the embedding",
    level=Level.FAIL,
    message=_BEYOND,
    evidence=_BEYOND_EVIDENCE,
    needs={"tokens": Vocabulary()},
    measures={
        "largest": "the largest token",
        "rows": "rows of the embedding",
        "beyond": "tokens that have none",
    },
    doc=Doc(
        measures="The largest number of the vocabulary, with added tokens, and the vocab_size of"
        " the model's configuration in the same directory.",
        means="The lookup of such a token stops, on a GPU with an assertion that names nothing.",
        does_not_mean="That a text holds one. Resizing the embedding before training mends it.",
        guards=(
            "Up to a tenth of the embedding it is a warning: trainings add tokens and resize, and"
            " models keep rows for an image's token elsewhere (Llama 3.2 Vision).",
            "A larger embedding is padding, and fine.",
            "Without a config.json beside the tokenizer it is not checked.",
        ),
        references=("transformers #4875", "number-token-loss #19"),
    ),
    fires=Example("the vocabulary is another model's", tokenizer(size=50_257)),
    silent=_WHOLE,
    variants={"few": Variant(Level.WARN, _BEYOND, _BEYOND_EVIDENCE)},
    subject=SubjectKind.TOKENIZER,
)
def beyond_embedding(
    tokens: Tokenizer,
    *,
    share: Annotated[float, Bound("share", "rows of which so many more are a warning", 0.0)] = 0.1,
) -> Outcome:
    if tokens.embedding is None:
        return Undecided({"largest": tokens.size - 1}, Skip.NEED_ABSENT)
    measured: dict[str, Value] = {
        "largest": tokens.size - 1,
        "rows": tokens.embedding,
        "beyond": max(0, tokens.size - tokens.embedding),
    }
    if tokens.size <= tokens.embedding:
        return Clean(measured)
    few = tokens.size - tokens.embedding <= share * tokens.embedding
    return Fired((Evidence(Where(tokens.artifact), measured, "few" if few else ""),))


_SPLIT = "{count:,} special tokens are not one token each: {names}."


@rule(
    id="TP-TOK-SPECIAL-SPLIT",
    title="Special tokens fall into pieces",
    level=Level.WARN,
    message=_SPLIT,
    evidence="The first becomes {pieces:,} tokens; {declared:,} are declared.",
    needs={"tokens": Vocabulary()},
    measures={
        "count": "special tokens that are not whole",
        "names": "the first of them",
        "pieces": "tokens that the first becomes",
        **_DECLARED,
    },
    doc=Doc(
        measures="What encoding makes of the text of each declared special token, and of each that"
        " the chat template spells.",
        means="The model gets letters where it should get a sign; as an end, nothing ends there.",
        does_not_mean="That they are so in training: transformers adds declared tokens when it"
        " loads, with new numbers, for which the embedding must be resized.",
        guards=(
            "What only the template spells is told apart: it may be meant as text.",
            "Empty tokens, and those without a declaration, are not looked at.",
        ),
        references=("transformers: add_special_tokens, resize_token_embeddings",),
    ),
    fires=Example(
        "the end is declared and not in the vocabulary",
        tokenizer(specials=(*without(Special.EOS), special(Special.EOS, "<|end|>", None, 5))),
    ),
    silent=_WHOLE,
    variants={
        "template": Variant(
            Level.WARN,
            "{count:,} tokens that the chat template spells are not one token each: {names}.",
            "The first becomes {pieces:,} tokens; {declared:,} are declared.",
        )
    },
    subject=SubjectKind.TOKENIZER,
)
def special_split(tokens: Tokenizer) -> Outcome:
    if not tokens.specials:
        return Undecided(_declared(tokens), Skip.NEED_ABSENT)
    broken = [one for one in tokens.specials if one.pieces > 1]
    found = [
        Evidence(Where(tokens.artifact), _declared(tokens) | _named(some), variant)
        for variant, some in (
            ("", [one for one in broken if one.declared]),
            ("template", [one for one in broken if not one.declared]),
        )
        if some
    ]
    return Fired(tuple(found)) if found else Clean(_declared(tokens))


def _named(some: Sequence[SpecialToken]) -> dict[str, Value]:
    names = ", ".join(one.text for one in some[:_SHOWN])
    return {"count": len(some), "names": names, "pieces": some[0].pieces}


# --- what becomes of a text -----------------------------------------------------------------

_TEXT = {
    "lines": "lines of the text that were tokenized",
    "tokens": "tokens that they became",
}
_USED = Example("the tokenizer knows the text", used())
_NEEDS = {"tokens": Vocabulary(text=True)}


def _text(tokens: Tokenizer) -> tuple[TextUse, dict[str, Value]]:
    assert tokens.text is not None
    return tokens.text, {"lines": tokens.text.lines, "tokens": tokens.text.tokens}


def _where(text: TextUse, line: int | None) -> Where:
    return Where(text.artifact, line=line or None)


@rule(
    id="TP-TOK-HIGH-OOV",
    title="Much of the text is unknown to the tokenizer",
    level=Level.FAIL,
    message="{rate:.3%} of the tokens stand for what the vocabulary does not have.",
    evidence="{unknown:,} of {tokens:,} tokens, in {lines:,} lines.",
    needs=_NEEDS,
    measures={"unknown": "unknown tokens", "rate": "their share", **_TEXT},
    doc=Doc(
        measures="The share of unknown tokens among the tokens of the text.",
        means="What they stood for is lost: the model cannot see it, nor write it.",
        does_not_mean="That the vocabulary is too small: often one script or sign is missing.",
        guards=(
            "One measurement, one finding: the share of known tokens is not judged again.",
            "A tokenizer of bytes has no unknown tokens.",
        ),
        references=("trainproof 0.22, TP-TOK-HIGH-OOV",),
    ),
    fires=Example("one token in a hundred is unknown", used(unknown=140, first_unknown=12)),
    silent=_USED,
    grounds=True,
    subject=SubjectKind.TOKENIZER,
)
def high_oov(
    tokens: Tokenizer,
    *,
    most: Annotated[float, Bound("share", "unknown tokens that are tolerated", 0.0, 1.0)] = 0.001,
) -> Outcome:
    text, measured = _text(tokens)
    rate = text.unknown / text.tokens if text.tokens else 0.0
    measured |= {"unknown": text.unknown, "rate": rate}
    if not text.tokens:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    if rate <= most:
        return Clean(measured)
    return Fired((Evidence(_where(text, text.first_unknown), measured),))


@rule(
    id="TP-TOK-LOW-COVERAGE",
    title="Characters of the text are not in the vocabulary",
    level=Level.WARN,
    message="{uncovered:,} of {distinct:,} characters of the text become an unknown token.",
    evidence="The most frequent: {examples}.",
    needs=_NEEDS,
    measures={
        "distinct": "different characters that occur three times or more",
        "uncovered": "of these, characters that the vocabulary cannot spell",
        "examples": "the most frequent of them",
        **_TEXT,
    },
    doc=Doc(
        measures="What encoding makes of each different character by itself.",
        means="No word with such a character can be written by the model.",
        does_not_mean="That many tokens are unknown: that is TP-TOK-HIGH-OOV.",
        guards=(
            "Characters count from three occurrences on.",
            "A vocabulary of whole words spells none, and is not checked.",
            "Up to 2 % nothing is said.",
        ),
        references=("SentencePiece: character_coverage, 0.9995 by default",),
    ),
    fires=Example("umlauts are missing", used(distinct=80, uncovered=6, examples="ä ö ü ß Ä Ö")),
    silent=_USED,
    subject=SubjectKind.TOKENIZER,
)
def low_coverage(
    tokens: Tokenizer,
    *,
    most: Annotated[float, Bound("share", "characters that may be missing", 0.0, 1.0)] = 0.02,
) -> Outcome:
    text, measured = _text(tokens)
    measured |= {"distinct": text.distinct, "uncovered": text.uncovered}
    if not text.distinct:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    if text.uncovered <= most * text.distinct:
        return Clean(measured)
    return Fired((Evidence(_where(text, None), measured | {"examples": text.examples}),))


@rule(
    id="TP-TOK-FERTILITY",
    title="Words fall into many tokens",
    level=Level.WARN,
    message="The text takes {per_character:.2f} tokens a character and {per_word:.1f} a word.",
    evidence="{tokens:,} tokens for {characters:,} characters in {lines:,} lines.",
    needs=_NEEDS,
    measures={
        "per_character": "tokens a character",
        "per_word": "tokens between white space",
        "characters": "characters of the text",
        **_TEXT,
    },
    doc=Doc(
        measures="Tokens over characters, and over words.",
        means="The vocabulary was made for other text: rows are long, the context is short, and"
        " training is slow.",
        does_not_mean="That nothing can be learned: tokenizers of bytes do this by design.",
        guards=(
            "At least 1,000 characters.",
            "Where no token of the vocabulary holds two letters it is a design, and a note.",
            "Words count where they are separated: 12 characters each at most, on average.",
        ),
        references=("Rust et al. 2021, How Good is Your Tokenizer?", "Petrov et al. 2023"),
    ),
    fires=Example("a text takes more tokens than characters", used(tokens=75_000)),
    silent=_USED,
    variants={
        "characters": Variant(
            Level.INFO,
            "Words are spelled letter by letter: no token holds two. The text takes"
            " {per_character:.2f} tokens a character and {per_word:.1f} a word.",
            "{tokens:,} tokens for {characters:,} characters in {lines:,} lines.",
        )
    },
    subject=SubjectKind.TOKENIZER,
)
def fertility(
    tokens: Tokenizer,
    *,
    per_character: Annotated[float, Bound("tokens", "most of a character", 0.0)] = 1.0,
    per_word: Annotated[float, Bound("tokens", "most of a word", 0.0)] = 4.0,
    least: Annotated[int, Bound("characters", "text that it takes", 1)] = 1000,
) -> Outcome:
    text, measured = _text(tokens)
    measured["characters"] = text.characters
    if text.characters < least or not text.words:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    each, word = text.tokens / text.characters, text.tokens / text.words
    measured |= {"per_character": each, "per_word": word}
    separated = text.characters <= 12 * text.words
    if each < per_character and not (separated and word >= per_word):
        return Clean(measured)
    variant = "characters" if text.charwise else ""
    return Fired((Evidence(_where(text, None), measured, variant),))


@rule(
    id="TP-TOK-SUSPICIOUS-SPLIT",
    title="Numbers fall into many tokens",
    level=Level.WARN,
    message="{split:,} of {numbers:,} numbers take more tokens than half their digits and one.",
    evidence="The first is {example}.",
    needs=_NEEDS,
    measures={
        "numbers": "numbers of two digits or more, parts of dates among them",
        "split": "of these, numbers of so many tokens",
        "example": "the first of them",
        **_TEXT,
    },
    doc=Doc(
        measures="The tokens of each number of the text by itself.",
        means="Amounts, dates and years come in pieces of uneven length.",
        does_not_mean="That arithmetic suffers: digits one by one are a design.",
        guards=(
            "Where no token of the vocabulary holds two digits it is a design, and a note.",
            "Up to one number in a hundred lines nothing is said.",
        ),
        references=("trainproof 0.22, TP-TOK-SUSPICIOUS-SPLIT",),
    ),
    fires=Example("every second number falls apart", used(split_numbers=100, split_example="2024")),
    silent=_USED,
    variants={
        "digits": Variant(
            Level.INFO,
            "Numbers are spelled digit by digit: no token holds two.",
            "So {split:,} of {numbers:,} numbers; the first is {example}.",
        )
    },
    subject=SubjectKind.TOKENIZER,
)
def suspicious_split(
    tokens: Tokenizer,
    *,
    share: Annotated[float, Bound("a line", "numbers that are tolerated", 0.0, 1.0)] = 0.01,
) -> Outcome:
    text, measured = _text(tokens)
    measured |= {"numbers": text.numbers, "split": text.split_numbers}
    if not text.numbers:
        return Undecided(measured, Skip.NEED_ABSENT)
    if not text.split_numbers or text.split_numbers <= share * text.lines:
        return Clean(measured)
    measured["example"] = text.split_example
    variant = "digits" if text.digitwise else ""
    return Fired((Evidence(_where(text, text.first_split), measured, variant),))


@rule(
    id="TP-TOK-HIGH-TPS",
    title="Many tokens for a second of speech",
    level=Level.WARN,
    message="The transcripts take {rate:.1f} tokens a second.",
    evidence="{timed_tokens:,} tokens in {seconds:,.1f} s, of {timed_lines:,} of {lines:,} lines.",
    needs=_NEEDS,
    measures={
        "rate": "tokens a second",
        "timed_lines": "lines that tell how long they take",
        "timed_tokens": "their tokens",
        "seconds": "their time",
        **_TEXT,
    },
    doc=Doc(
        measures="Tokens and seconds of the lines that declare a duration, and of no others.",
        means="The text side of a speech model is longer than its audio frames can carry.",
        does_not_mean="That the durations are right.",
        guards=("Without a duration in any line it is not checked.",),
        references=("trainproof 0.22, TP-TOK-HIGH-TPS",),
    ),
    fires=Example("speech takes 70 tokens a second", used(seconds=200.0)),
    silent=_USED,
    subject=SubjectKind.TOKENIZER,
)
def high_tps(
    tokens: Tokenizer,
    *,
    most: Annotated[float, Bound("tokens a second", "the most that is tolerated", 0.0)] = 50.0,
) -> Outcome:
    text, measured = _text(tokens)
    measured["timed_lines"] = text.timed_lines
    if not text.seconds:
        return Undecided(measured, Skip.NEED_ABSENT)
    rate = text.timed_tokens / text.seconds
    measured |= {"rate": rate, "timed_tokens": text.timed_tokens, "seconds": text.seconds}
    if rate <= most:
        return Clean(measured)
    return Fired((Evidence(_where(text, None), measured),))
