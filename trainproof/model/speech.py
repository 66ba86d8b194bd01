"""A corpus of speech as it was measured: audio files and what is said in them.

Bounded whatever the size of the corpus: numbers for all rows, names only for the first or the most
extreme few.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from .data import Floats

SILENT = 0.005
"""Share of full scale; samples below it count as silence."""
FULL = 0.99
"""Share of full scale; equal samples in a row from here on count as clipped."""
SAMPLED_SECONDS = 30.0
"""Of each file whose samples are read."""


def _none() -> Floats:
    return np.empty(0)


class Spot(msgspec.Struct, frozen=True):
    """One row: the manifest and its line, or the audio file itself where there is no manifest.

    ``name``: of the audio file. ``value``: what was measured there.
    """

    artifact: str
    line: int | None
    name: str
    value: float = 0.0
    detail: str = ""


class Spots(msgspec.Struct, frozen=True):
    """How many rows there are of one kind, and the first few of them."""

    count: int = 0
    first: tuple[Spot, ...] = ()


class Spread(msgspec.Struct, frozen=True, eq=False):
    """One number per row, and the rows with the least and the greatest; sorted from the most
    extreme."""

    values: Floats = msgspec.field(default_factory=_none)
    least: tuple[Spot, ...] = ()
    greatest: tuple[Spot, ...] = ()


class Corpus(msgspec.Struct, frozen=True, eq=False):
    """What was measured. ``rows`` of manifests, or audio files where there is none.

    ``audio``: different files that exist and could be read. ``unread``: files that exist and were
    not read though nothing shows them to be broken (no decoder for their format, shell commands of
    Kaldi). ``texts``: rows with a transcript, empty or not.
    ``rates`` and ``channels``: value to number of files; ``odd_rates`` and ``odd_channels``: files
    with another value than most. ``durations`` in seconds; ``speed`` in characters a second;
    ``misdeclared``: the greatest differences between declared and measured duration, in seconds.
    ``flats``: the most equal samples in a row at full scale; ``silences``: the longest silence, in
    seconds; both of the ``sampled`` files only.
    """

    rows: int = 0
    audio: int = 0
    unread: Spots = Spots()
    texts: int = 0
    missing: Spots = Spots()
    unreadable: Spots = Spots()
    cut: Spots = Spots()
    rates: Mapping[int, int] = msgspec.field(default_factory=dict)
    channels: Mapping[int, int] = msgspec.field(default_factory=dict)
    odd_rates: Spots = Spots()
    odd_channels: Spots = Spots()
    durations: Spread = msgspec.field(default_factory=Spread)
    misdeclared: Spread = msgspec.field(default_factory=Spread)
    speed: Spread = msgspec.field(default_factory=Spread)
    flats: Spread = msgspec.field(default_factory=Spread)
    silences: Spread = msgspec.field(default_factory=Spread)
    sampled: int = 0
    identical: Spots = Spots()
    compared: int = 0
    listed_twice: Spots = Spots()
    empty: Spots = Spots()
    unnormalised: Spots = Spots()
    mixed_words: Spots = Spots()
    mixed_texts: Spots = Spots()
