"""Spelling of text and numbers that leave the program, and the text picture of a curve."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isfinite, isnan
from typing import Any

import numpy as np

from .data import Floats, Ints
from .outcome import Value
from .report import Number

BARS = "▁▂▃▄▅▆▇█"
GAP = "×"
INT64 = range(-(2**63), 2**64)
"""Integers that orjson, and most readers of JSON, can hold."""


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


def safe(text: str) -> str:
    """``text`` with everything but printable characters and line feeds spelled out.

    ``publish`` has done so already for what came from outside; emitters do it again at their
    own border, because a report may also have been read from a file.
    """
    return "\n".join(map(printable, text.split("\n"))) if "\n" in text else printable(text)


def spell(value: float) -> Number:
    """The number itself, or the word for one that JSON lacks."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def json_number(value: float) -> Number:
    """``value`` as orjson can write it: it writes NaN as null and refuses longer integers."""
    if isinstance(value, int):
        return value if value in INT64 else str(value)
    return spell(value)


def spell_values(values: Mapping[str, Any]) -> dict[str, Value]:
    """A measured mapping in the form in which it is published: Python's own numbers, also where
    numpy's scalars passed for them."""
    spelled: dict[str, Value] = {}
    for name, value in values.items():
        kind = type(value)
        if kind is float:
            spelled[name] = value if isfinite(value) else spell(value)
        elif kind is str:
            spelled[name] = printable(value)
        elif kind is int:
            spelled[name] = value if value in INT64 else str(value)
        else:
            spelled[name] = value if kind is bool else _public(value)
    return spelled


def _public(value: Value) -> Value:
    """A scalar of numpy, or what is derived of Python's own types."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return spell(value)
    return printable(value) if isinstance(value, str) else value


def curve(values: Floats, width: int = 24) -> str:
    """The values as at most ``width`` bars; a bucket that holds a non-finite value is a cross.

    Each bucket shows its mean; the scale is linear between the least and the greatest mean.
    """
    if not len(values):
        return ""
    starts, sizes = _buckets(len(values), min(width, len(values)))
    with np.errstate(all="ignore"):
        means = np.add.reduceat(values, starts) / sizes
        low = means.item(means.argmin())
        span = means.item(means.argmax()) - low
        if 0 < span < np.inf:  # then all are finite
            return _picture((means - low) / span * len(BARS))
        finite = np.isfinite(means)
        low = means.min(where=finite, initial=np.inf)
        span = means.max(where=finite, initial=-np.inf) - low
        level = (means - low) / span * len(BARS) if 0 < span < np.inf else means * 0
        return _picture(np.where(finite, level, _GAP))


def _picture(levels: Floats) -> str:
    return levels.astype(np.uint8).tobytes().decode("latin-1").translate(_SIGNS)


_SIGNS = dict(enumerate((*BARS, BARS[-1], GAP)))
"""What stands for a level; the greatest of all is the upper end of the last bar."""
_GAP = len(BARS) + 1


@lru_cache(64)
def _buckets(count: int, width: int) -> tuple[Ints, Ints]:
    """Where each bucket begins, and how many values it holds."""
    edges = np.arange(width + 1) * count // width
    return edges[:-1], np.diff(edges)
