"""Transcripts in several languages."""

from __future__ import annotations

import pytest

from trainproof.speech.texts import is_unnormalised, mixed_word, mixture


@pytest.mark.parametrize(
    "text",
    [
        "I have 25 books.",
        "It costs $ a lot",
        "fünf €",
        "rock & roll",
        "half is ½",
        "chapter Ⅳ",
        "٣ كتب",
        "see https: there",
        "<noise> yes",
        "broken \N{REPLACEMENT CHARACTER}",
    ],
)
def test_numbers_and_signs_are_not_spoken_as_they_are_written(text: str) -> None:
    assert is_unnormalised(text)


@pytest.mark.parametrize(
    "text",
    [
        "Plain words, with 'quotes' -- and dashes; yes?",
        "Ça va déjà — très bien…",
        "你好，世界。",
        "Привет, мир!",
        "",
    ],
)
def test_words_and_punctuation_are(text: str) -> None:
    assert not is_unnormalised(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain words", ""),
        ("h\N{CYRILLIC SMALL LETTER IE}llo there", "word"),
        ("Привет Google", "text"),
        ("Привет, мир", ""),
        ("今日は Tokyo です", ""),
        ("été Ωhm", "word"),
        ("5 µm", ""),
        ("α-helix", "text"),
        ("Straße ﬁne", ""),
    ],
)
def test_alphabets_that_look_alike(text: str, found: str) -> None:
    assert mixture(text) == found


def test_the_word_that_mixes_is_named() -> None:
    assert (
        mixed_word("all fine h\N{CYRILLIC SMALL LETTER IE}llo")
        == "h\N{CYRILLIC SMALL LETTER IE}llo"
    )
    assert mixed_word("all fine") == ""
