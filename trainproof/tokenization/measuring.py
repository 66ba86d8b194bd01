"""What a tokenizer does to the text that it is to be used on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import orjson

from trainproof.model.tokenizer import TextUse

from .loading import Loaded

MOST = 32 << 20
"""Characters of a text that are tokenized; what follows is not looked at."""
_BATCH = 256
_LONGEST = 1 << 20
"""Characters of one line that are tokenized."""
_CHARACTERS = 20_000
_OFTEN = 3
"""Times a character must occur to count: the odd emoji says nothing about a text."""
_NUMBERS = re.compile(r"(?<!\w)\d{2,}(?!\w)")
_NUMBERS_MOST = 20_000
"""Different numbers that are encoded."""
_SHOWN = 8


class Utterance(NamedTuple):
    """A line of the text. ``seconds``: how long it takes to say, where the line tells."""

    line: int
    text: str
    seconds: float | None = None


def utterance(number: int, line: str) -> Utterance:
    """A line is text, or an object with a ``text`` or ``transcript`` and maybe a ``duration``."""
    if line.lstrip().startswith("{"):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        if isinstance(row, dict):
            text = row.get("text") or row.get("transcript") or ""
            seconds = row.get("duration")
            return Utterance(number, text if isinstance(text, str) else "", _positive(seconds))
    return Utterance(number, line)


def _positive(value: object) -> float | None:
    """A number of seconds; true is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return float(value)
    return None


class Use:
    """Takes a text line by line, and counts what becomes of it."""

    def __init__(self, loaded: Loaded, artifact: str, beat: Callable[[], None]) -> None:
        self._loaded, self._artifact, self._beat = loaded, artifact, beat
        self._waiting: list[Utterance] = []
        self._lines = self._characters = self._words = self._tokens = self._unknown = 0
        self._first_unknown: int | None = None
        self._seen: Counter[str] = Counter()
        self._numbers: dict[str, tuple[int, int]] = {}
        self._timed_lines = self._timed_tokens = 0
        self._seconds = 0.0

    @property
    def full(self) -> bool:
        return self._characters >= MOST

    def add(self, said: Utterance, goes_on: bool = False) -> None:
        """``goes_on``: it is of the same line as the one before."""
        text = said.text.strip()[:_LONGEST]
        if not text or self.full or not encodable(text):
            return
        self._lines += not goes_on
        self._characters += len(text)
        self._words += len(text.split())
        self._seen.update(text)
        for number in _NUMBERS.findall(text):
            if number in self._numbers or len(self._numbers) < _NUMBERS_MOST:
                times, line = self._numbers.get(number, (0, said.line))
                self._numbers[number] = times + 1, line
        self._waiting.append(said._replace(text=text))
        if len(self._waiting) >= _BATCH:
            self._encode()

    def _encode(self) -> None:
        self._beat()
        batch, self._waiting = self._waiting, []
        unknown = self._loaded.unknown
        for said, ids in zip(
            batch, self._loaded.encoder.batch([s.text for s in batch]), strict=True
        ):
            self._tokens += len(ids)
            misses = ids.count(unknown) if unknown is not None else 0
            if misses and self._first_unknown is None:
                self._first_unknown = said.line
            self._unknown += misses
            if said.seconds is not None:
                self._timed_lines += 1
                self._timed_tokens += len(ids)
                self._seconds += said.seconds

    def found(self) -> TextUse:
        if self._waiting:
            self._encode()
        uncovered = list(self._uncovered())
        split = list(self._split())
        return TextUse(
            artifact=self._artifact,
            lines=self._lines,
            characters=self._characters,
            words=self._words,
            tokens=self._tokens,
            unknown=self._unknown,
            first_unknown=self._first_unknown,
            distinct=len(self._common()),
            uncovered=len(uncovered),
            examples=" ".join(uncovered[:_SHOWN]),
            numbers=sum(times for times, _ in self._numbers.values()),
            split_numbers=sum(self._numbers[number][0] for number in split),
            split_example=split[0][:40] if split else "",
            first_split=self._numbers[split[0]][1] if split else None,
            digitwise=self._loaded.digitwise,
            charwise=self._loaded.charwise,
            timed_lines=self._timed_lines,
            timed_tokens=self._timed_tokens,
            seconds=self._seconds,
        )

    def _uncovered(self) -> Iterator[str]:
        """Characters, the most frequent first, that become an unknown token by themselves."""
        unknown = self._loaded.unknown
        if unknown is None:
            return
        self._beat()
        for char in self._common():
            if unknown in self._loaded.encoder.encode(char):
                yield char

    def _common(self) -> list[str]:
        """Characters that occur often enough to count; none where words are known as a whole."""
        if not self._loaded.spells:
            return []
        often = [c for c, times in self._seen.items() if times >= _OFTEN and not c.isspace()]
        return sorted(often, key=lambda char: (-self._seen[char], char))[:_CHARACTERS]

    def _split(self) -> Iterator[str]:
        """Numbers that take more tokens than half their digits and one."""
        self._beat()
        for number in self._numbers:
            if len(self._loaded.encoder.encode(number[:1000])) > len(number[:1000]) / 2 + 1:
                yield number


def encodable(text: str) -> bool:
    """Half a surrogate pair is no text to the libraries."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
