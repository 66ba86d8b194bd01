"""The rows of a corpus to what was measured of it, in memory that the corpus does not decide."""

from __future__ import annotations

import filecmp
import hashlib
import heapq
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from trainproof.model.progress import Amount, Beat
from trainproof.model.speech import Corpus, Spot, Spots, Spread

from . import audio, texts
from .rows import Row

FIRST = 10
"""Places that are named of each kind."""
SAMPLED_FILES = 10_000
"""Files whose samples are read at most; of more, every second, third … one."""
_ENDS = 1 << 16
"""Bytes at each end of a file that are compared first."""
_WHOLE = 256 << 20
"""Bytes up to which two files that look the same are compared as a whole."""


class _Spots(msgspec.Struct):
    count: int = 0
    first: list[Spot] = msgspec.field(default_factory=list)

    def add(self, spot: Spot) -> None:
        self.count += 1
        if len(self.first) < FIRST:
            self.first.append(spot)

    def done(self) -> Spots:
        return Spots(self.count, tuple(self.first))


class _Spread(msgspec.Struct):
    """All values, and the rows of the most extreme ones. Of equal ones the first is kept."""

    values: array[float] = msgspec.field(default_factory=lambda: array("d"))
    _least: list[tuple[float, int, Spot]] = msgspec.field(default_factory=list)
    _greatest: list[tuple[float, int, Spot]] = msgspec.field(default_factory=list)

    def add(self, value: float, row: Row, detail: str = "") -> None:
        number = -len(self.values)
        self.values.append(value)
        for heap, key in ((self._greatest, value), (self._least, -value)):
            if len(heap) < FIRST:
                heapq.heappush(heap, (key, number, _spot(row, value, detail)))
            elif key > heap[0][0]:
                heapq.heapreplace(heap, (key, number, _spot(row, value, detail)))

    def done(self) -> Spread:
        least, greatest = (
            tuple(spot for _, _, spot in sorted(heap, key=lambda one: one[:2], reverse=True))
            for heap in (self._least, self._greatest)
        )
        return Spread(np.array(self.values, np.float64), least, greatest)


class _File(msgspec.Struct):
    """One audio file that could be read: its row, what its header says, and its bytes."""

    row: Row
    path: Path
    header: audio.Header
    size: int


class Survey(msgspec.Struct):
    """Add the rows in their order, then ``done``, which calls ``beat`` before each file."""

    beat: Beat
    rows: int = 0
    texts: int = 0
    unread: _Spots = msgspec.field(default_factory=_Spots)
    missing: _Spots = msgspec.field(default_factory=_Spots)
    unreadable: _Spots = msgspec.field(default_factory=_Spots)
    cut: _Spots = msgspec.field(default_factory=_Spots)
    empty: _Spots = msgspec.field(default_factory=_Spots)
    unnormalised: _Spots = msgspec.field(default_factory=_Spots)
    mixed_words: _Spots = msgspec.field(default_factory=_Spots)
    mixed_texts: _Spots = msgspec.field(default_factory=_Spots)
    identical: _Spots = msgspec.field(default_factory=_Spots)
    listed_twice: _Spots = msgspec.field(default_factory=_Spots)
    durations: _Spread = msgspec.field(default_factory=_Spread)
    misdeclared: _Spread = msgspec.field(default_factory=_Spread)
    speed: _Spread = msgspec.field(default_factory=_Spread)
    _files: list[_File] = msgspec.field(default_factory=list)
    _seen: dict[Path, audio.Header | None] = msgspec.field(default_factory=dict)
    _listed: set[tuple[str, Path]] = msgspec.field(default_factory=set)
    _prints: dict[bytes, Path] = msgspec.field(default_factory=dict)

    def add(self, row: Row) -> None:
        self.rows += 1
        self._text(row)
        if row.audio is None:
            self.unread.add(_spot(row, 0.0, "a command or a part of an archive"))
            return
        if not row.part:
            self._listing(row, row.audio)
        found = self._header(row, row.audio)
        if found is not None:
            self._times(row, found)

    def _listing(self, row: Row, path: Path) -> None:
        listed = (row.artifact, path)
        if listed in self._listed:
            self.listed_twice.add(_spot(row))
        self._listed.add(listed)

    def _text(self, row: Row) -> None:
        if row.text is None:
            return
        self.texts += 1
        if not row.text.strip():
            self.empty.add(_spot(row))
            return
        if texts.is_unnormalised(row.text):
            self.unnormalised.add(_spot(row))
        match texts.mixture(row.text):
            case "word":
                self.mixed_words.add(_spot(row, 0.0, texts.mixed_word(row.text)))
            case "text":
                self.mixed_texts.add(_spot(row))

    def _header(self, row: Row, path: Path) -> audio.Header | None:
        """Of a file that several rows name, trouble is told once."""
        if path in self._seen:
            return self._seen[path]
        found: audio.Header | None = None
        try:
            size = audio.regular(path)
            found = audio.header(path, size)
            self._kept(_File(replace(row, text=None), path, found, size))
        except FileNotFoundError:
            self.missing.add(_spot(row))
        except audio.Unreadable as error:
            self.unreadable.add(_spot(row, 0.0, str(error)))
        except audio.Unsupported as error:
            self.unread.add(_spot(row, 0.0, str(error)))
        self._seen[path] = found
        return found

    def _kept(self, file: _File) -> None:
        self._files.append(file)
        if file.header.cut:
            self.cut.add(_spot(file.row))
        same = self._prints.setdefault(_fingerprint(file.path, file.size), file.path)
        if (
            same != file.path
            and file.size <= _WHOLE
            and filecmp.cmp(same, file.path, shallow=False)
        ):
            self.identical.add(_spot(file.row, 0.0, same.name))

    def _times(self, row: Row, found: audio.Header) -> None:
        seconds = found.seconds
        if row.seconds is not None and not row.part:
            self.misdeclared.add(abs(row.seconds - seconds), row, f"{row.seconds:g} s")
        elif row.seconds is not None:
            seconds = row.seconds
        self.durations.add(seconds, row)
        text = (row.text or "").strip()
        if text and seconds > 0:
            self.speed.add(len(text) / seconds, row)

    def done(self) -> Corpus:
        flats, silences = _Spread(), _Spread()
        every = max(1, -(-len(self._files) // SAMPLED_FILES))
        sampled = self._files[::every]
        done, total = 0, sum(file.size for file in sampled)
        for file in sampled:
            self.beat(Amount(done, total, self.rows))
            done += file.size
            measured = audio.samples(file.path, file.header)
            if measured is not None:
                flats.add(measured.flat, file.row)
                silences.add(measured.silence, file.row)
        rates, odd_rates = _values(self._files, lambda header: header.rate)
        channels, odd_channels = _values(self._files, lambda header: header.channels)
        return Corpus(
            rows=self.rows,
            audio=len(self._files),
            unread=self.unread.done(),
            texts=self.texts,
            missing=self.missing.done(),
            unreadable=self.unreadable.done(),
            cut=self.cut.done(),
            rates=rates,
            channels=channels,
            odd_rates=odd_rates,
            odd_channels=odd_channels,
            durations=self.durations.done(),
            misdeclared=self.misdeclared.done(),
            speed=self.speed.done(),
            flats=flats.done(),
            silences=silences.done(),
            sampled=len(flats.values),
            identical=self.identical.done(),
            compared=len(self._files),
            listed_twice=self.listed_twice.done(),
            empty=self.empty.done(),
            unnormalised=self.unnormalised.done(),
            mixed_words=self.mixed_words.done(),
            mixed_texts=self.mixed_texts.done(),
        )


def _values(
    files: Iterable[_File], of: Callable[[audio.Header], int]
) -> tuple[dict[int, int], Spots]:
    """How many files have each value, and those that have another one than most."""
    files = list(files)
    counts = Counter(of(file.header) for file in files)
    if len(counts) < 2:
        return dict(counts), Spots()
    usual = min(counts, key=lambda value: (-counts[value], value))
    odd = _Spots()
    for file in files:
        value = of(file.header)
        if value != usual:
            odd.add(_spot(file.row, float(value)))
    return dict(sorted(counts.items())), odd.done()


def _fingerprint(path: Path, size: int) -> bytes:
    """Of the size and of both ends."""
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=16)
    with path.open("rb") as file:
        digest.update(file.read(_ENDS))
        if size > _ENDS:
            file.seek(max(_ENDS, size - _ENDS))
            digest.update(file.read(_ENDS))
    return digest.digest()


def _spot(row: Row, value: float = 0.0, detail: str = "") -> Spot:
    return Spot(row.artifact, row.line, row.name, value, detail)
