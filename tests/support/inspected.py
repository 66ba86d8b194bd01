"""Datasets and tokenizers as files, and what is measured of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainproof import datasets, tokenization
from trainproof.model.artifact import Artifact, Kind, Run
from trainproof.model.dataset import Dataset, Issue
from trainproof.model.inspection import DatasetRequest, Inspection, Requests, TokenizerRequest
from trainproof.model.progress import Amount, Beat
from trainproof.model.rule import SubjectKind
from trainproof.model.tokenizer import Tokenizer


def jsonl(path: Path, *rows: object) -> Path:
    """Each row a line: bytes and text as they are, everything else as JSON."""
    lines = (row if isinstance(row, bytes) else _line(row) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def _line(row: object) -> bytes:
    return (row if isinstance(row, str) else json.dumps(row)).encode()


def unheard(amount: Amount | None = None, /) -> None:
    """A deadline that nobody keeps."""


def inspected(path: Path, beat: Beat = unheard, **asked: Any) -> Inspection:
    """What the inspection of a dataset brings home."""
    artifact = Artifact(str(path.parent), path.name, 0, Kind.DATASET, "dataset")
    run = Run(path.name, str(path.parent), (artifact,), SubjectKind.DATASET)
    given: dict[str, Any] = {
        name: str(value) if isinstance(value, Path) else value for name, value in asked.items()
    }
    return datasets.inspect(run, Requests(dataset=DatasetRequest(**given)), beat)


def measured(path: Path, **asked: Any) -> Dataset:
    found = inspected(path, **asked)
    assert found.faults == ()
    assert isinstance(found.subject, Dataset)
    return found.subject


def counts(found: Dataset) -> dict[str, int]:
    """Rows by what is wrong with them."""
    return {str(issue): tally.rows for issue, tally in found.issues.items()}


def lines(found: Dataset, issue: Issue) -> list[int]:
    """The first lines of an issue."""
    return [spot.number for spot in found.issues[issue].spots]


def opened(path: Path, text: Path | None = None) -> Inspection:
    """What the inspection of a tokenizer brings home."""
    artifact = Artifact(str(path.parent), path.name, 0, Kind.TOKENIZER, "tokenizer")
    run = Run(path.name, str(path.parent), (artifact,), SubjectKind.TOKENIZER)
    asked = TokenizerRequest(None if text is None else str(text))
    return tokenization.inspect(run, Requests(tokenizer=asked), unheard)


def tokenizer(path: Path, text: Path | None = None) -> Tokenizer:
    found = opened(path, text)
    assert found.faults == ()
    assert isinstance(found.subject, Tokenizer)
    return found.subject
