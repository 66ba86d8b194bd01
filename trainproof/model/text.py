"""Spelling of text and numbers that leave the program, and the text picture of a curve."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

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
    """A measured mapping in the form in which it is published."""
    return {name: _public(value) for name, value in values.items()}


def _public(value: Value) -> Value:
    if isinstance(value, float):
        return spell(value)
    return printable(value) if isinstance(value, str) else value


def curve(values: Sequence[float], width: int = 24) -> str:
    """The values as at most ``width`` bars; a bucket that holds a non-finite value is a cross.

    Each bucket shows its mean; the scale is linear between the least and the greatest mean.
    """
    if not len(values):
        return ""
    width = min(width, len(values))
    edges = [len(values) * i // width for i in range(width + 1)]
    means = [_mean(values[a:b]) for a, b in itertools.pairwise(edges)]
    finite = [m for m in means if math.isfinite(m)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    return "".join(_bar(m, low, high) for m in means)


def _mean(bucket: Sequence[float]) -> float:
    return math.fsum(bucket) / len(bucket) if all(map(math.isfinite, bucket)) else math.nan


def _bar(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return GAP
    if high <= low or not math.isfinite(high - low):
        return BARS[0]
    return BARS[min(len(BARS) - 1, int((value - low) / (high - low) * len(BARS)))]
