"""Rows that were there before, in bounded memory: 24 bytes a row."""

from __future__ import annotations

from array import array
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from trainproof.model.dataset import Overlap, Repeats, Spot, Tally

from .places import SPOTS, spot_at

REMEMBERED = 1 << 24
"""Rows of each side of a split whose text is remembered; further rows are compared with none."""
TELLING = 20
"""Characters below which a text may well stand on both sides of a split by chance."""

_Hashes = NDArray[np.int64]


class Memory:
    """Hashes of the texts of rows, and where the rows are.

    Of 64 bits: among as many rows as are remembered, two different texts meet with a
    probability of 1e-5.
    """

    def __init__(self) -> None:
        self._exact = array("q")
        self._normal = array("q")
        self._places = array("q")
        self._starts: list[int] = []
        self._files: list[str] = []
        self.short = 0

    def __len__(self) -> int:
        return len(self._exact)

    def file(self, artifact: str) -> None:
        """What comes next is of this file."""
        self._starts.append(len(self._exact))
        self._files.append(artifact)

    def extend(self, texts: list[str], places: list[int], least: int = 1) -> None:
        """Many at once."""
        if least > 1 or len(self._exact) + len(texts) > REMEMBERED:
            for text, place in zip(texts, places, strict=True):
                self.add(text, place, least)
            return
        self._exact.extend(map(hash, texts))
        self._normal.extend([hash(_bare(text)) for text in texts])
        self._places.extend(places)

    def add(self, text: str, place: int, least: int = 1) -> None:
        """Texts of fewer characters than ``least``, white space apart, are only counted.
        ``place``: as of ``spot_at``."""
        if len(self._exact) >= REMEMBERED:
            return
        normal = _bare(text)
        if len(normal) < least:
            self.short += 1
            return
        self._exact.append(hash(text))
        self._normal.append(hash(normal))
        self._places.append(place)

    def spot(self, index: int) -> Spot:
        artifact = self._files[bisect_right(self._starts, index) - 1]
        return spot_at(artifact, self._places[index])

    def repeats(self) -> Repeats:
        exact, normal = _hashes(self._exact), _hashes(self._normal)
        again = _repeated(exact)
        alike = _repeated(normal) & ~again
        spots = np.flatnonzero(again)[:SPOTS]
        firsts = [int(np.argmax(exact == exact[index])) for index in spots]
        return Repeats(
            compared=len(exact),
            exact=self._tally(again),
            firsts=tuple(map(self.spot, firsts)),
            normalised=self._tally(alike),
        )

    def shared_with(self, trained: Memory) -> Overlap:
        """What of this side of a split is on the other side too."""
        here, there = _hashes(self._normal), _hashes(trained._normal)
        shared = np.isin(here, there, kind="sort")
        spots = np.flatnonzero(shared)[:SPOTS]
        firsts = [int(np.argmax(there == here[index])) for index in spots]
        return Overlap(
            compared=len(here),
            short=self.short,
            shared=self._tally(shared),
            trained=tuple(map(trained.spot, firsts)),
        )

    def _tally(self, marked: NDArray[np.bool_]) -> Tally:
        spots = np.flatnonzero(marked)[:SPOTS].tolist()
        return Tally(int(np.count_nonzero(marked)), tuple(map(self.spot, spots)))


_WHITE = b" \t\n\r\v\f"
_LOWER = bytes(range(256)).lower()


def _bare(text: str) -> bytes:
    """The text without case and white space."""
    if text.isascii():
        return text.encode().translate(_LOWER, _WHITE)  # many times as fast as what is below
    return "".join(text.lower().split()).encode("utf-8", "surrogatepass")


def _hashes(stored: array[int]) -> _Hashes:
    return np.frombuffer(stored, np.int64) if stored else np.empty(0, np.int64)


def _repeated(hashes: _Hashes) -> NDArray[np.bool_]:
    """Which of them stood further up already."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    again = np.zeros(len(hashes), np.bool_)
    again[order[1:][ordered[1:] == ordered[:-1]]] = True
    return again
