"""What a transcript shows: numbers and signs that are not written as they are spoken, and words
whose letters come from different scripts."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

ALPHABETS = frozenset({"LATIN", "CYRILLIC", "GREEK"})
"""Scripts with letters that look alike."""

_WORD = re.compile(r"[^\W\d_]+")
_SIGNS = re.compile(r"[%&@#+=<>|~^\\/_*\[\]{}\N{REPLACEMENT CHARACTER}]|https?:|www\.")


def is_unnormalised(text: str) -> bool:
    """Whether it holds digits, currencies, or signs that are not spoken as they are written."""
    if text.isascii() and not any(c.isdigit() or c == "$" for c in text):
        return _SIGNS.search(text) is not None
    if any(unicodedata.category(char) in ("Nd", "Nl", "No", "Sc") for char in set(text)):
        return True
    return _SIGNS.search(text) is not None


def mixture(text: str) -> str:
    """``word`` where one word mixes alphabets, ``text`` where only different words do, else ""."""
    if text.isascii():
        return ""
    seen: set[str] = set()
    for word in _WORD.findall(text):
        scripts = {_script(char) for char in set(word)} & ALPHABETS
        if len(scripts) > 1:
            return "word"
        seen |= scripts
    return "text" if len(seen) > 1 else ""


def mixed_word(text: str) -> str:
    """The first word that mixes alphabets."""
    words = (w for w in _WORD.findall(text) if len({_script(c) for c in w} & ALPHABETS) > 1)
    return next(words, "")


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    """The first word of the character's name; of a modifier, nothing that is an alphabet.

    The micro sign and the ohm sign are named as what they are and not as Greek letters.
    """
    return unicodedata.name(char, "").partition(" ")[0]
