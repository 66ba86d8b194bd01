"""Speech corpora: manifests, transcripts and the headers of audio files.

``rows`` finds what belongs together, ``audio`` and ``texts`` look at one of each, ``survey`` adds
them up. What a rule needs is in ``trainproof.model.speech``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from trainproof.model.artifact import Run
from trainproof.model.data import Fault, FaultCode
from trainproof.model.inspection import Inspection, Requests
from trainproof.model.outcome import Value
from trainproof.model.progress import Amount, Beat
from trainproof.model.speech import Corpus

from .rows import MAX_ROWS, Bad, Row, rows
from .survey import Survey

_FAULTS = 20
_BEAT = 64
"""Rows from one renewal of the deadline to the next."""


def inspect(run: Run, requests: Requests, beat: Beat) -> Inspection:
    """Measure the corpus that the run's one artifact is. Nothing is raised about the data."""
    (artifact,) = run.artifacts
    root = Path(run.root)
    survey, bad, faults = Survey(beat), _Bad(), list[Fault]()
    try:
        for number, item in enumerate(rows(root / artifact.path, root)):
            if number % _BEAT == 0:
                beat(Amount(rows=number))
            survey.add(item) if isinstance(item, Row) else bad.add(item)
    except OSError as error:
        detail = f"{error.filename}: {error.strerror or type(error).__name__}"
        faults.append(Fault(FaultCode.IO, artifact.path, detail, fatal=True))
    if not survey.rows:
        detail = "no row could be read" if bad.count or faults else "no manifest and no audio"
        faults.append(Fault(FaultCode.CORRUPT, artifact.path, detail, fatal=True))
        return Inspection(None, faults=(*bad.faults(), *faults))
    if survey.rows + bad.count >= MAX_ROWS:
        detail = f"only the first {MAX_ROWS:,} rows were read"
        faults.append(Fault(FaultCode.TOO_LARGE, artifact.path, detail, fatal=True))
    corpus = survey.done()
    return Inspection(
        corpus,
        dict(_told(corpus)),
        (*bad.faults(), *faults, *_unread(corpus, artifact.path)),
    )


class _Bad(msgspec.Struct):
    """Lines that are no rows: a file of a million of them is one story."""

    first: list[Bad] = msgspec.field(default_factory=list)
    count: int = 0

    def add(self, one: Bad) -> None:
        self.count += 1
        if len(self.first) < _FAULTS:
            self.first.append(one)

    def faults(self) -> Iterator[Fault]:
        for one in self.first:
            yield Fault(FaultCode.CORRUPT, one.artifact, one.detail, False, one.line)
        if self.count > len(self.first):
            more = f"{self.count - len(self.first):,} more lines like these"
            yield Fault(FaultCode.CORRUPT, self.first[0].artifact, more, False)


def _unread(corpus: Corpus, artifact: str) -> Iterator[Fault]:
    """Audio that nothing here could read: the corpus was judged in part, and that is said."""
    reasons = {spot.detail for spot in corpus.unread.first}
    if reasons:
        detail = f"{corpus.unread.count:,} audio files were not read: {', '.join(sorted(reasons))}"
        yield Fault(FaultCode.READER_FAILED, artifact, detail, fatal=True)


def _told(corpus: Corpus) -> Iterator[tuple[str, Value]]:
    yield "rows", corpus.rows
    yield "transcripts", corpus.texts
    yield "audio_files", corpus.audio
    yield "sampled_files", corpus.sampled
    for name, counts in (("sample_rates", corpus.rates), ("channels", corpus.channels)):
        if counts:
            yield name, ", ".join(f"{value} ({count:,} files)" for value, count in counts.items())
    seconds = corpus.durations.values
    if len(seconds):
        yield "hours", round(float(seconds.sum()) / 3600, 3)
        for name, value in (("shortest", seconds.min()), ("longest", seconds.max())):
            yield f"{name}_seconds", round(float(value), 3)
        yield "median_seconds", round(float(np.median(seconds)), 3)
    if len(corpus.speed.values):
        yield "median_characters_per_second", round(float(np.median(corpus.speed.values)), 2)
