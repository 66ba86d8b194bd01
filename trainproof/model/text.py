"""Spelling of text and numbers that leave the program, and the text picture of a curve."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from .data import Floats
from .outcome import Value
from .report import Number

BARS = "▁▂▃▄▅▆▇█"
GAP = "×"


def printable(text: str) -> str:
    """``text`` with lone surrogates and control characters spelled out.

    File names and logged tags come from other people: nothing in them may drive a terminal.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == " " else _spelled(c) for c in text)


def _spelled(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8 (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def spell(value: float) -> Number:
    """The number itself, or the word for one that JSON lacks."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def spell_values(values: Mapping[str, Value]) -> dict[str, Value]:
    """A measured mapping in the form in which it is published: Python's own numbers, also where
    numpy's scalars passed for them."""
    return {name: value if type(value) is int else _public(value) for name, value in values.items()}


def _public(value: Value) -> Value:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else spell(value)
    return printable(value) if isinstance(value, str) else value


def curve(values: Floats, width: int = 24) -> str:
    """The values as at most ``width`` bars; a bucket that holds a non-finite value is a cross.

    Each bucket shows its mean; the scale is linear between the least and the greatest mean.
    """
    count = len(values)
    if not count:
        return ""
    width = min(width, count)
    edges = np.arange(width + 1) * count // width
    with np.errstate(all="ignore"):
        means = np.add.reduceat(values, edges[:-1]) / np.diff(edges)
        finite = np.isfinite(means)
        low = means[finite].min(initial=np.inf)
        span = means[finite].max(initial=-np.inf) - low
        level = (means - low) / span * len(BARS) if 0 < span < np.inf else means * 0
    heights = np.where(finite, np.minimum(level, len(BARS) - 1), -1).tolist()
    return "".join(GAP if height < 0 else BARS[int(height)] for height in heights)
