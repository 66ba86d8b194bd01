"""Nothing that other people named may drive a terminal or break JSON."""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainproof.model.text import curve, printable, spell, spell_values


def test_control_characters_and_undecodable_bytes_are_spelled_out() -> None:
    assert printable("a\x1b[31mb") == "a\\x1b[31mb"
    assert printable("name\udcff.pt") == "name\\xff.pt"
    assert printable("line\nbreak") == "line\\x0abreak"
    assert printable("right\u202eleft") == "right\\u202eleft"
    assert printable("손실 (损失)") == "손실 (损失)"


@given(st.text(st.characters()))
def test_printable_text_can_always_be_encoded_and_printed(text: str) -> None:
    made = printable(text)
    assert made.encode("utf-8").decode("utf-8") == made
    assert all(c.isprintable() for c in made)


def test_numbers_that_json_lacks_are_words() -> None:
    assert spell(1.5) == 1.5
    assert spell(math.nan) == "NaN"
    assert spell_values({"a": math.inf, "b": -math.inf, "c": True, "d": 3, "e": 2**64}) == {
        "a": "Infinity",
        "b": "-Infinity",
        "c": True,
        "d": 3,
        "e": "18446744073709551616",
    }


def test_values_of_numpy_and_derived_types_become_those_of_python() -> None:
    class Word(StrEnum):
        ONE = "o\x1bne"

    found = spell_values(
        {"a": np.float64(math.nan), "b": np.int64(3), "c": np.bool_(True), "d": Word.ONE, "e": "\n"}
    )
    assert found == {"a": "NaN", "b": 3, "c": True, "d": "o\\x1bne", "e": "\\x0a"}
    assert [type(value) for value in found.values()] == [str, int, bool, str, str]


def picture(*values: float) -> str:
    return curve(np.asarray(values, np.float64))


def test_a_curve_shows_its_shape_and_marks_what_is_not_finite() -> None:
    assert picture(0, 1, 2, 3, 4, 5, 6, 7) == "▁▂▃▄▅▆▇█"
    assert picture(7.0, 0.0, math.nan, 7.0) == "█▁×█"
    assert picture(2.0, 2.0) == "▁▁"
    assert picture() == ""
    assert len(picture(*range(1000))) == 24


def test_a_curve_of_extreme_values_does_not_fail() -> None:
    assert picture(1e308, -1e308, 1e308) == "▁▁▁"
    assert picture(math.inf, math.nan) == "××"
