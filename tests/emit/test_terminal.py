"""Width in cells, cuts that show, and signs for terminals without UTF-8."""

from __future__ import annotations

import pytest

from trainproof.emit.terminal import Style, cells, fit, number, span


@pytest.mark.parametrize(
    ("text", "width"), [("", 0), ("abc", 3), ("漢字", 4), ("e\u0301", 1), ("▁█×…", 4), ("🙂", 2)]
)
def test_cells_are_those_of_a_terminal(text: str, width: int) -> None:
    assert cells(text) == width


@pytest.mark.parametrize(
    ("text", "keep_end", "fitted"),
    [
        ("ab", False, "ab   "),
        ("abcdef", False, "abcd…"),
        ("abcdef", True, "…cdef"),
        ("漢字漢字", False, "漢字…"),
        ("a漢字漢", True, "…字漢"),
        ("漢a字b", False, "漢a… "),
    ],
)
def test_a_column_has_its_width_whatever_is_in_it(text: str, keep_end: bool, fitted: str) -> None:
    assert fit(text, 5, keep_end=keep_end) == fitted
    assert cells(fitted) == 5


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (1, "1"),
        (123_456_789, "123456789"),
        (1.0, "1"),
        (0.123456789, "0.12346"),
        (1e-9, "1e-09"),
        ("NaN", "NaN"),
        (True, "True"),
        ("a\nb", "a\\x0ab"),
    ],
)
def test_measured_values_are_short_and_on_one_line(value: float | str, spelled: str) -> None:
    assert number(value) == spelled


def test_spans_of_steps() -> None:
    assert span(5, 300) == "steps 5 to 300"
    assert span(5, 5) == span(5, None) == "step 5"
    assert span(None, 9) == ""


def test_colour_only_where_it_is_asked_for() -> None:
    assert Style(True, 80).word("FAIL", 6) == "\x1b[31mFAIL\x1b[0m  "
    assert Style(False, 80).word("FAIL", 6) == "FAIL  "


def test_wrapped_lines_keep_within_the_width() -> None:
    lines = Style(False, 70).wrap("word " * 50 + "x" * 200 + "\x1b[31m", "  ", "    ")
    assert max(map(len, lines)) <= 70
    assert lines[0].startswith("  word")
    assert lines[1].startswith("    word")
    assert "".join(lines).endswith("\\x1b[31m")


def test_a_narrow_terminal_is_treated_as_one_that_can_be_read() -> None:
    assert Style(False, 1).wrap("a b", "") == ["a b"]


def test_ascii_has_a_sign_for_each_bar_and_spells_the_rest() -> None:
    assert Style(False, 80, ascii=True).encode(["▁▂▃▄▅▆▇█×… 漢  "]) == (b"_.,-~=*#x~ \\u6f22\n")
