"""Tiny datasets and tokenizers for the examples that rules carry and for tests."""

from __future__ import annotations

from typing import Any

from trainproof.model.data import RunView
from trainproof.model.dataset import Dataset, Issue, Shape, Spot, Tally
from trainproof.model.tokenizer import Family, Special, SpecialToken, TextUse, Tokenizer

PATH = "train.jsonl"


def spot(line: int, artifact: str = PATH) -> Spot:
    return Spot(artifact, line)


def tally(rows: int, *lines: int) -> Tally:
    return Tally(rows, tuple(map(spot, lines)))


def dataset(shape: Shape = Shape.TEXT, rows: int = 1000, **parts: Any) -> RunView:
    """A dataset of one shape without any issue, but for ``parts``."""
    given: dict[str, Any] = {"rows": rows, "shapes": {shape: rows}, "shape_at": {shape: spot(1)}}
    return RunView(PATH, inspected=Dataset(PATH, **(given | parts)))


def troubled(issue: Issue, rows: int, *lines: int, **parts: Any) -> RunView:
    """A dataset with one issue in so many rows, the first of them at ``lines``."""
    return dataset(**({"issues": {issue: tally(rows, *lines)}} | parts))


def special(role: Special | None, text: str, id: int | None, pieces: int = 1) -> SpecialToken:
    return SpecialToken(text, role, id, pieces)


WHOLE = (
    special(Special.BOS, "<s>", 1),
    special(Special.EOS, "</s>", 2),
    special(Special.PAD, "<pad>", 3),
    special(Special.UNK, "<unk>", 0),
)


def without(role: Special) -> tuple[SpecialToken, ...]:
    return tuple(one for one in WHOLE if one.role is not role)


def tokenizer(**parts: Any) -> RunView:
    """A tokenizer that declares everything, but for ``parts``."""
    return RunView("tokenizer", inspected=facts(**parts))


def facts(**parts: Any) -> Tokenizer:
    given: dict[str, Any] = {
        "artifact": "tokenizer",
        "family": Family.TOKENIZERS,
        "declares": True,
        "size": 32_000,
        "total": False,
        "adds_bos": True,
        "adds_eos": True,
        "add_eos": True,
        "specials": WHOLE,
        "embedding": 32_000,
    }
    return Tokenizer(**(given | parts))


def used(**parts: Any) -> RunView:
    """A tokenizer that was used on a text of 1,000 lines without anything odd."""
    given: dict[str, Any] = {
        "artifact": "text.txt",
        "lines": 1000,
        "characters": 60_000,
        "words": 10_000,
        "tokens": 14_000,
        "distinct": 80,
        "numbers": 200,
        "timed_lines": 1000,
        "timed_tokens": 14_000,
        "seconds": 4000.0,
    }
    return tokenizer(text=TextUse(**(given | parts)))
