"""The numbers in a line of console text, and what is left of the line without them.

Two lines that a program prints with one format string differ in their numbers only. The text
without them is the *shape* of the line: what has been understood about a shape once holds for
every line that has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

HOLE = "\0"
"""Stands for a number in a shape. Readers see no NUL: ``TextSource`` leaves them out."""

_NUMBER = r"""
    (?=[ \t\d.+\-nNiI])             # for speed: most characters begin no number
    (?: (?<![ \t])[ \t]++           # padding belongs to the number: "iteration   9/  20"
      | (?<![\w.+@-])               # not inside of loss_0, v1.2, acc@1, checkpoint-500,
        (?<!@\.5:)(?<!@0\.5:)       # mAP@0.5:0.95
      | (?<=\d-)                    # but each part of 2023-06-04
    )
    (?=[\d.+\-nNiI])
    ( [-+]?(?i:nan|inf(?:inity)?)
      (?=(?:ms|s|%)?(?!\w))         # "nanms" is an average of no steps; "info" is a word
      (?!\ (?:iterations|grads|gradients|values|found|detected|encountered)\b)
    | [-+]?
      (?: \d{1,3}(?:,\d{3})++(?:\.\d*+)?    # 150,100
        | \d++(?:\.\d*+)?
        | \.\d++
      )
      (?:[eE][-+]?\d++)?+
      (?!\w{0,40}\d)                # 34ms is one, 3f2a0 and 0x1f are none
    )
"""

NUMBER = re.compile(_NUMBER, re.VERBOSE)

_DIGIT = re.compile(r"\d")

BAR = re.compile(r"%\|[^|\n]{0,400}\|")
"""The drawing of a tqdm bar: ``47%|####7     |``."""

KERAS_BAR = re.compile(r"\[[=>.]{3,200}\]|[\u2501\u2578\u257a]+")
"""The drawing of a Keras bar: ``[====>...]``, or a heavy line since Keras 3."""


def without_bars(text: str) -> str:
    """The line without what changes in it as a progress bar grows; of a bar into which a dict
    was printed (transformers), the dict."""
    if "%|" in text:
        text = BAR.sub("%||", text)
        text = text[text.find("]{'") + 1 :]
    if "==" in text or "..]" in text or "\u2501" in text:
        text = KERAS_BAR.sub("[]", text)
    return text


def may_hold_numbers(text: str) -> bool:
    """A cheap look before ``pieces_of``: False where there is surely none."""
    return bool(_DIGIT.search(text)) or "nan" in text or "NaN" in text or "inf" in text


def pieces_of(text: str) -> list[str]:
    """Text and numbers by turns; the first and the last are text."""
    return NUMBER.split(text)


def pattern_of(texts: Sequence[str]) -> re.Pattern[str]:
    """Matches the lines of one shape, several times faster than cutting them: its groups are
    the numbers that ``pieces_of`` gives."""
    return re.compile(_NUMBER.join(map(re.escape, texts)) + r"\Z", re.VERBOSE)


def value_of(number: str) -> float:
    """What a number is that ``NUMBER`` has found."""
    try:
        return float(number)
    except ValueError:
        return float(number.replace(",", ""))
