"""Tables: CSV and TSV with a header, Parquet and Arrow."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from typing import Any, BinaryIO, Protocol

from trainproof.model.data import Fault, FaultCode
from trainproof.model.dataset import Issue

from .rows import MAX_LINE, Item, Unusable, decoded, lines

_THREADS = 2
_BATCH = 512
_RETURN = re.compile(r"(?<=\r)(?=[^\n])")
"""Behind a carriage return within a line."""
_DELIMITERS = ",;\t|"


def delimited(stream: BinaryIO, tabs: bool) -> Iterator[Item]:
    """A row for each record below the header; one with another number of fields is none."""
    csv.field_size_limit(MAX_LINE)
    bad: set[int] = set()
    raw: list[str] = []
    text = _text(stream, bad, raw)
    head = next(text, "")
    delimiter = "\t" if tabs else _delimiter(head)
    reader = csv.reader(chain((head,), text), delimiter=delimiter)
    names: list[str] = []
    for line, values in _records(reader):
        if values is None:
            yield Unusable(line, Issue.SYNTAX)
        elif not names:
            names = values
        elif len(values) == len(names):
            issues: tuple[Issue, ...] = (Issue.ENCODING,) if bad else ()
            if not _is_quoted_well(raw, delimiter):
                issues = (*issues, Issue.QUOTES)
            yield line, dict(zip(names, values, strict=True)), issues
        elif values:
            yield Unusable(line, Issue.ARITY)
        bad.clear()
        raw.clear()


def _is_quoted_well(raw: list[str], delimiter: str) -> bool:
    """Whether a strict reader takes the lines of a record. Others drop a quotation mark in the
    middle of a field, and one that is not closed takes rows into its field up to the next."""
    if not any('"' in line for line in raw):
        return True
    try:
        return len(list(csv.reader(raw, delimiter=delimiter, strict=True))) == 1
    except csv.Error:
        return False


class _Reader(Protocol):
    """What ``csv.reader`` makes."""

    @property
    def line_num(self) -> int: ...

    def __next__(self) -> list[str]: ...


def _records(reader: _Reader) -> Iterator[tuple[int, list[str] | None]]:
    """Each record with the line it begins in; None for one that cannot be read."""
    while True:
        line = reader.line_num + 1
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield line, None


def _delimiter(head: str) -> str:
    """What stands between most names of the header."""
    return max(_DELIMITERS, key=head.count)


def _text(stream: BinaryIO, bad: set[int], raw: list[str]) -> Iterator[str]:
    """Lines as text, which are added to ``raw``; those that are not UTF-8 are told in ``bad``.

    Where the first holds a carriage return, lines end with it, as the Macintosh wrote them.
    """
    returns = False
    for number, line in lines(stream):
        text, issues = decoded(line or b"\n")
        if issues or line is None:
            bad.add(number)
        returns = returns or (number == 1 and _RETURN.search(text) is not None)
        for one in _RETURN.split(text) if returns else (text,):
            raw.append(one)
            yield one


def columnar(stream: BinaryIO, artifact: str, arrow: bool) -> Iterator[Item]:
    """The rows of a Parquet or Arrow file, a batch at a time."""
    try:
        library: Any = import_module("pyarrow")
        library.set_cpu_count(_THREADS)
    except ImportError:
        detail = "needs trainproof[parquet], which is not installed"
        yield Fault(FaultCode.IO, artifact, detail, fatal=True)
        return
    try:
        for batch in _arrow(stream) if arrow else _parquet(stream):
            for fields in batch.to_pylist():
                yield None, fields, ()
    except (
        library.ArrowException,
        OSError,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
    ) as error:
        detail = f"damaged: {type(error).__name__}: {error}"[:300]
        yield Fault(FaultCode.CORRUPT, artifact, detail, fatal=True)


def _parquet(stream: BinaryIO) -> Iterator[Any]:
    parquet: Any = import_module("pyarrow.parquet")
    yield from parquet.ParquetFile(stream, pre_buffer=False).iter_batches(batch_size=_BATCH)


def _arrow(stream: BinaryIO) -> Iterator[Any]:
    """Arrow comes as a file or, from the ``datasets`` library, as a stream."""
    ipc: Any = import_module("pyarrow.ipc")
    head = stream.read(6)
    stream.seek(0)
    if head == b"ARROW1":
        reader = ipc.open_file(stream)
        found = (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        found = iter(ipc.open_stream(stream))
    for batch in found:
        for start in range(0, batch.num_rows, _BATCH):
            yield batch.slice(start, _BATCH)
