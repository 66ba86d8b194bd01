"""Datasets: rows read as they stream by, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec.structs import replace

from trainproof.model.artifact import Run
from trainproof.model.data import Fault, FaultCode
from trainproof.model.dataset import Dataset
from trainproof.model.inspection import DatasetRequest, Inspection, Requests
from trainproof.model.outcome import Value
from trainproof.model.progress import Amount, Beat
from trainproof.tokenization import measured as of_tokenizer
from trainproof.tokenization.loading import Loaded, load

from .places import Issues
from .rows import Unusable
from .sources import Source, read, sources
from .survey import Survey
from .tokens import TokenSample, ends

_BEAT = 64
"""Rows after which the deadline is renewed: a row may have millions of characters."""
_FAULTS = 50


def inspect(run: Run, requests: Requests, beat: Beat) -> Inspection:
    """Read every row of a dataset once."""
    asked = requests.dataset
    (artifact,) = run.artifacts
    faults: list[Fault] = []
    loaded = _tokenizer(asked, run.root, faults)
    issues = Issues()
    sample = TokenSample(loaded, issues, artifact.path, asked.max_len, beat) if loaded else None
    survey = Survey(issues, asked.text_field, sample, ends(loaded.facts) if loaded else frozenset())
    found_sources = _sources(run, asked, faults)
    gauge = _Gauge(beat, found_sources)
    for source in found_sources:
        _read(source, survey, faults, gauge)
    lengths, use = sample.found() if sample else (None, None)
    found = survey.found(artifact.path)
    if not found.seen:
        if not faults:
            detail = "holds no row"
            faults.append(Fault(FaultCode.CORRUPT, artifact.path, detail, fatal=True))
        return Inspection(None, faults=tuple(faults[:_FAULTS]))
    if sample is not None and loaded is not None:
        found = replace(found, lengths=lengths, tokenizer=replace(loaded.facts, text=use))
        if sample.trouble:
            name = loaded.facts.artifact
            faults.append(Fault(FaultCode.IO, name, sample.trouble, fatal=True))
    found = replace(found, tokenizer_asked=asked.tokenizer is not None)
    return Inspection(found, _measured(found), tuple(faults[:_FAULTS]))


def _tokenizer(asked: DatasetRequest, root: str, faults: list[Fault]) -> Loaded | None:
    if asked.tokenizer is None:
        return None
    found = load(asked.tokenizer, os.path.relpath(asked.tokenizer, root), asked.template)
    if isinstance(found, Fault):
        faults.append(found)
        return None
    return found


def _sources(run: Run, asked: DatasetRequest, faults: list[Fault]) -> list[Source]:
    """All files, training rows first: what is held out is compared with them."""
    found = list(sources(run.root, run.artifacts[0].path, asked))
    if asked.eval is not None:
        found += sources(run.root, os.path.relpath(asked.eval, run.root), asked, held_out=True)
    faults += (item for item in found if isinstance(item, Fault))
    return sorted(
        (item for item in found if isinstance(item, Source)), key=lambda source: source.held_out
    )


class _Gauge:
    """How far all files together have been read."""

    def __init__(self, beat: Beat, sources: Sequence[Source]) -> None:
        self._beat, self._total = beat, sum(source.size for source in sources)
        self._before = self._size = self._place = self._rows = 0

    def file(self, source: Source) -> None:
        self._before += self._size
        self._size, self._place = source.size, 0
        self.rows(0)

    def place(self, place: int) -> None:
        """Bytes that were taken of the file. Formats of columns also go back."""
        self._place = max(self._place, min(place, self._size))
        self.rows(0)

    def rows(self, more: int) -> None:
        self._rows += more
        self._beat(Amount(self._before + self._place, self._total, self._rows))


def _read(source: Source, survey: Survey, faults: list[Fault], gauge: _Gauge) -> None:
    survey.file(source)
    gauge.file(source)
    for number, item in enumerate(read(source, survey.form, gauge.place), 1):
        if number % _BEAT == 0:
            gauge.rows(_BEAT)
        if type(item) is tuple:  # nearly all are rows, and this is asked for each
            survey.row(*item)
        elif isinstance(item, Unusable):
            survey.unusable(item)
        elif isinstance(item, Fault):
            faults.append(item)


def _measured(found: Dataset) -> dict[str, Value]:
    """What a person wants to know of a dataset."""
    told: dict[str, Value] = {
        "rows": found.rows,
        "files": found.files,
        "shape": ", ".join(f"{shape} ({rows:,})" for shape, rows in found.shapes.items()),
        "fields": ", ".join(field.name for field in found.fields[:20]),
        "characters": found.characters,
        "duplicate_rows": found.repeats.exact.rows,
        "compared_rows": found.repeats.compared,
    }
    if found.unusable:
        told["unusable_rows"] = found.unusable
    if found.held_out:
        told["held_out_rows"] = found.held_out
    if found.labels is not None:
        told["classes"] = found.labels.classes
    if found.lengths is not None:
        told["tokenized_rows"] = found.lengths.sampled
        told["tokens_per_row"] = round(found.lengths.mean, 1)
        told["longest_row_tokens"] = found.lengths.longest
    if found.tokenizer is not None:
        told |= of_tokenizer(found.tokenizer)
    return told
