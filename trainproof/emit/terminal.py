"""Text for a terminal: width, colour, wrapping, and the blocks that both reports share."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator

import msgspec

from trainproof.model.outcome import Level, Value
from trainproof.model.report import Finding, SubjectReport, Verdict
from trainproof.model.text import BARS, GAP, printable

from .view import full_path, shorten

MIN_WIDTH = 40
TEXT_CHARS = 2_000
_COLORS = {"red": 31, "green": 32, "yellow": 33, "magenta": 35, "bold": 1, "faint": 2}
_SHADES: dict[str, str] = {
    Verdict.FAIL: "red",
    Verdict.WARN: "yellow",
    Verdict.NOT_CHECKED: "magenta",
    Verdict.PASS: "green",
    Level.INFO: "faint",
}
_ASCII = str.maketrans(
    {**dict(zip(BARS, "_.,-~=*#", strict=True)), GAP: "x", "…": "~", "─": "-", "·": "-"}
)


class Style(msgspec.Struct, frozen=True):
    """How to write for one terminal. ``width`` is in character cells."""

    color: bool
    width: int
    ascii: bool = False

    def paint(self, text: str, color: str) -> str:
        return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if self.color else text

    def word(self, word: str, width: int = 0) -> str:
        """A verdict or a level in its colour, padded to ``width``."""
        return self.paint(word, _SHADES[word]) + " " * (width - len(word))

    def title(self, text: str) -> str:
        return self.paint(text, "bold")

    def wrap(self, text: str, indent: str, rest: str | None = None) -> list[str]:
        """``text`` in lines of at most ``width``; those after the first begin with ``rest``."""
        return textwrap.wrap(
            shorten(printable(text), TEXT_CHARS),
            max(self.width, MIN_WIDTH),
            initial_indent=indent,
            subsequent_indent=indent if rest is None else rest,
            break_on_hyphens=False,
        )

    def encode(self, lines: Iterable[str]) -> bytes:
        """The lines in UTF-8, or in ASCII with the nearest signs."""
        text = "".join(f"{line.rstrip()}\n" for line in lines)
        if self.ascii:
            return text.translate(_ASCII).encode("ascii", "backslashreplace")
        return text.encode()


def cells(text: str) -> int:
    """Character cells that a terminal gives to ``text``."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, width: int, *, keep_end: bool = False) -> str:
    """``text`` in exactly ``width`` cells: padded, or cut at the end or, for paths, the start."""
    if cells(text) <= width:
        return text + " " * (width - cells(text))
    kept, room = [], width - 1
    for char in reversed(text) if keep_end else text:
        room -= _cells(char)
        if room < 0:
            break
        kept.append(char)
    cut = "…" + "".join(reversed(kept)) if keep_end else "".join(kept) + "…"
    return cut + " " * (width - cells(cut))


def number(value: Value) -> str:
    """A measured value: five significant digits, integers and words whole."""
    if isinstance(value, bool) or not isinstance(value, float):
        return printable(str(value))
    return f"{value:.5g}"


def span(first: int | None, last: int | None) -> str:
    """``step 5``, ``steps 5 to 300``, or nothing where no step is known."""
    if first is None:
        return ""
    return f"step {first}" if last in (None, first) else f"steps {first} to {last}"


def finding_lines(style: Style, subject: SubjectReport, finding: Finding) -> Iterator[str]:
    """What was found, the numbers that show it, and where to look."""
    level = style.word(finding.level, 4)
    message = finding.message + (" (replaced by a later attempt)" if finding.superseded else "")
    first, *more = style.wrap(f"{finding.id}  {message}", " " * 7)
    yield f"  {level} {first[7:]}"
    yield from more
    yield from style.wrap(finding.evidence, " " * 7)
    place = full_path(subject.root, finding.location.path)
    if finding.location.line is not None:
        place += f":{finding.location.line}"
    parts = (place, span(finding.first_step, finding.last_step))
    place_lines = style.wrap("  ".join(part for part in parts if part), " " * 7)
    yield from (style.paint(line, "faint") for line in place_lines)
