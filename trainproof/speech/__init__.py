"""Speech corpora: manifests, transcripts and the headers of audio files.

``rows`` finds what belongs together, ``audio`` and ``texts`` look at one of each, ``survey`` adds
them up. What a rule needs is in ``trainproof.model.speech``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from trainproof.model.artifact import Run
from trainproof.model.data import Fault, FaultCode
from trainproof.model.inspection import Inspection, Requests
from trainproof.model.outcome import Value
from trainproof.model.speech import Corpus

from .rows import MAX_ROWS, Bad, Row, rows
from .survey import Survey

_FAULTS = 20


def inspect(run: Run, requests: Requests, beat: Callable[[], None]) -> Inspection:
    """Measure the corpus that the run's one artifact is. Nothing is raised about the data."""
    (artifact,) = run.artifacts
    root = Path(run.root)
    survey, faults, seen = Survey(beat), list[Fault](), 0
    try:
        for item in rows(root / artifact.path, root):
            seen += 1
            match item:
                case Row():
                    survey.add(item)
                case Bad():
                    faults.append(
                        Fault(FaultCode.CORRUPT, item.artifact, item.detail, False, item.line)
                    )
    except OSError as error:
        detail = error.strerror or type(error).__name__
        faults.append(Fault(FaultCode.IO, artifact.path, detail, fatal=True))
    if not survey.rows:
        detail = "no manifest and no audio" if not faults else "no row could be read"
        faults.append(Fault(FaultCode.CORRUPT, artifact.path, detail, fatal=True))
        return Inspection(None, faults=tuple(_few(faults)))
    if seen >= MAX_ROWS:
        detail = f"only the first {MAX_ROWS:,} rows were read"
        faults.append(Fault(FaultCode.TOO_LARGE, artifact.path, detail, fatal=True))
    corpus = survey.done()
    faults += _unread(corpus, artifact.path)
    return Inspection(corpus, dict(_told(corpus)), tuple(_few(faults)))


def _few(faults: list[Fault]) -> Iterator[Fault]:
    """A file of a million broken lines is one story."""
    blemishes = [fault for fault in faults if not fault.fatal]
    yield from blemishes[:_FAULTS]
    if len(blemishes) > _FAULTS:
        more = f"{len(blemishes) - _FAULTS:,} more lines like these"
        yield Fault(FaultCode.CORRUPT, blemishes[0].artifact, more, False)
    yield from (fault for fault in faults if fault.fatal)


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
