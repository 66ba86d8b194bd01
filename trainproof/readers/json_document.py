"""JSON documents that hold a training history: an array of rows, or arrays by column.

``[{"step": 1, "loss": 2.0}, ...]`` is what people dump; ``{"loss": [...], "val_loss": [...]}`` is
the ``History.history`` of Keras. A flat object of results is recognised too, in order to say that
it is a summary and no series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import BinaryIO

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Facts, FaultCode, Item, NotJudgeable, Role

from .interface import Options
from .json_text import loads, loads_leniently, loads_partial, object_spans, salvage, uncollected
from .names import axis_rank, classify
from .sheet import MAX_COLUMNS, Row, Sheet, number
from .text import FaultLog, TextSource, decode_head, read_document

MAX_DOCUMENT = 64 << 20
"""Bytes of a document, which is parsed as a whole (about three times that in memory)."""

SACRED = "steps"
"""Key of each series in a ``metrics.json`` of Sacred, which is another format."""

RESULTS = frozenset({Role.LOSS, Role.METRIC, Role.REWARD})

SHARE = 0.1
"""Share of the numbers of an object that must be known results: a vocabulary has a "loss" too."""


class JsonDocument:
    """An array of records, or a history of columns."""

    name = "json"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        text = decode_head(head).lstrip()
        if text[:1] not in ("{", "["):
            return False
        document = _begun(text.encode("utf-8", "replace"))
        if isinstance(document, list):
            return bool(document) and isinstance(document[0], dict) and _is_row(document[0])
        return isinstance(document, dict) and bool(_history(document) or _is_summary(document))

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        sheet = Sheet(faults)
        data = read_document(TextSource(stream, faults).chunks(), faults, MAX_DOCUMENT)
        if data is None:
            yield from faults
            return
        with uncollected():
            document = _parse(data, sheet, faults)
        if isinstance(document, dict) and not sheet.rows and _is_summary(document):
            yield NotJudgeable(Content.SUMMARY_ONLY, "one value of each, no series")
            return
        yield from sheet.items(options, Facts())


def _parse(data: bytes, sheet: Sheet, faults: FaultLog) -> object:
    """Fill the sheet with what the document holds; the document itself."""
    start = len(data) - len(data.lstrip())
    if data[start : start + 1] == b"[":
        _add_rows(data, start, sheet, faults)
        return None
    try:
        document = loads(data)
        cut = False
    except ValueError as error:
        document, cut = _cut(data, str(error), faults)
    if isinstance(document, dict):
        columns = _history(document)
        if cut and columns and data[-1:].isdigit():
            columns[next(reversed(columns))].pop()  # the number may have lost digits
        sheet.add(list(_rows(columns)), None)
    return document


def _cut(data: bytes, error: str, faults: FaultLog) -> tuple[object, bool]:
    try:
        document = loads_partial(data)
    except ValueError:
        faults.add(FaultCode.CORRUPT, f"not JSON: {error}", fatal=True)
        return None, False
    faults.add(FaultCode.TRUNCATED, f"the file is cut: {error}", data.count(b"\n") + 1)
    return document, True


def _add_rows(data: bytes, start: int, sheet: Sheet, faults: FaultLog) -> None:
    spans = object_spans(data, start)
    try:
        rows = loads(data)
    except ValueError:
        rows = None
    first = 1 + data.count(b"\n", 0, start)
    if isinstance(rows, list) and len(rows) == len(spans.objects):
        sheet.add(rows, [first + span.line for span in spans.objects])
        return
    sheet.add(*salvage(data, spans, first, faults))
    if spans.end is None:
        faults.add(FaultCode.TRUNCATED, "the file ends within the array", data.count(b"\n") + 1)
    elif data[spans.end :].strip():
        line = 1 + data.count(b"\n", 0, spans.end)
        faults.add(FaultCode.CORRUPT, "something follows the array", line)


def _is_row(row: Mapping[str, object]) -> bool:
    names = [name for name, value in row.items() if number(value) is not None]
    return any(_knows(name) or axis_rank(name) is not None for name in names)


def _knows(name: str) -> bool:
    return classify(name).role in RESULTS


def _begun(head: bytes) -> object:
    """What the head holds of one document; None where another record follows the first."""
    try:
        if head.startswith(b"["):
            rows = object_spans(head, 0).objects
            return [loads_leniently(head[row.begin : row.end]) for row in rows[:1]]
        return loads(head)
    except ValueError as error:
        return loads_partial(head) if "EOF" in str(error) else None


def _history(document: Mapping[str, object]) -> dict[str, list[object]]:
    """The columns of a history; none where no column is known to be logged in training."""
    columns = dict(list(_lists(document))[:MAX_COLUMNS])
    return columns if any(_knows(name) for name in columns) else {}


def _lists(document: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, list[object]]]:
    """The lists of numbers, also one level down (``{"history": {"loss": [...]}}``)."""
    for key, value in document.items():
        if isinstance(value, list):
            if any(number(one) is not None for one in value[:100]):
                yield f"{prefix}{key}", value
        elif isinstance(value, Mapping) and not prefix and SACRED not in value:
            yield from _lists(value, f"{key}/")


def _rows(columns: Mapping[str, Sequence[object]]) -> Iterator[Row]:
    for values in zip_longest(*columns.values()):
        yield {
            name: value for name, value in zip(columns, values, strict=True) if value is not None
        }


def _is_summary(document: Mapping[str, object]) -> bool:
    names = [
        name
        for name, value in document.items()
        if number(value) is not None and not isinstance(value, bool)
    ]
    known = sum(classify(name).role in RESULTS for name in names)
    return known > SHARE * len(names)
