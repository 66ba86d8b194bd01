"""JSON lines: one object per line, as written by dozens of loggers under any file name."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO

import numpy as np

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Facts, FaultCode, Item, NotJudgeable

from .interface import HEAD, Follower, Options
from .json_text import loads, loads_leniently, loads_partial, uncollected
from .sheet import Row, Sheet
from .text import Block, FaultLog, TextSource, decode_head

LOOK = 5
"""Lines at the start of a file among which one must be a record."""


class JsonLines:
    """Rows of numbers, sparse and of several kinds; nested objects become ``a/b``."""

    name = "jsonl"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        lines = [line for line in decode_head(head).split("\n")[:LOOK] if line.strip()]
        if not lines or lines[0].lstrip()[:1] != "{":
            return False
        whole = lines if len(head) < HEAD else lines[:-1]
        if any(_is_record(line) for line in whole):
            return True
        # a first line that is longer than the head, or a file that is cut in it
        return len(lines) == 1 and _is_record(lines[0], partial=True)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        lines = _Lines(artifact, options)
        lines.feed(stream)
        return _items(artifact, options, lines.sheet)

    def follow(self, artifact: Artifact, options: Options) -> Follower:
        return _Lines(artifact, options, growing=True)


ENOUGH = 1000
"""Rows after which a file that shows no training column is not read to its end."""


class _Lines:
    """The rows of one file, as far as it was read."""

    def __init__(self, artifact: Artifact, options: Options, *, growing: bool = False) -> None:
        self._artifact, self._options = artifact, options
        self._faults = FaultLog(artifact.path)
        self._source = TextSource(BytesIO(), self._faults, growing)
        self.sheet = Sheet(self._faults)

    def feed(self, stream: BinaryIO) -> None:
        self._source.stream = stream
        sheet = self.sheet
        with uncollected():
            for block in self._source.blocks():
                _add(block, sheet, self._faults)
                if sheet.full or (sheet.rows >= ENOUGH and sheet.no_log() is not None):
                    break

    def items(self) -> Iterator[Item]:
        return _items(self._artifact, self._options, self.sheet.copy())


def _items(artifact: Artifact, options: Options, sheet: Sheet) -> Iterator[Item]:
    if sheet.rows == 1 and artifact.path.endswith(".json"):
        summary = NotJudgeable(Content.SUMMARY_ONLY, "one record, no series")
        yield sheet.no_log() or summary
        return
    yield from sheet.items(options, _facts(sheet))


def _is_record(line: str, *, partial: bool = False) -> bool:
    data = line.encode("utf-8", "replace")
    try:
        record = loads_partial(data, cut_strings=True) if partial else loads_leniently(data)
    except ValueError:
        return False
    return isinstance(record, dict) and bool(record)


def _add(block: Block, sheet: Sheet, faults: FaultLog) -> None:
    body = block.data.removesuffix(b"\n")
    count = body.count(b"\n") + 1
    rows = _at_once(body, count)
    if rows is None:
        rows, lines = _one_by_one(block, faults)
        sheet.add(rows, lines)
    else:
        sheet.add(rows, np.arange(block.first_line, block.first_line + count))


def _at_once(body: bytes, count: int) -> list[Row] | None:
    """All lines as one array: three times as fast. None unless each line is one object."""
    if not body.startswith(b"{") or body.count(b"\n{") != count - 1:
        return None
    try:
        rows = loads(b"[" + body.replace(b"\n", b",") + b"]")
    except ValueError:
        return None
    if not isinstance(rows, list) or len(rows) != count or set(map(type, rows)) != {dict}:
        return None
    return rows


def _one_by_one(block: Block, faults: FaultLog) -> tuple[list[Row], list[int]]:
    rows: list[Row] = []
    numbers: list[int] = []
    ended = block.data.endswith(b"\n")
    lines = block.data.removesuffix(b"\n").split(b"\n")
    for offset, line in enumerate(lines):
        number = block.first_line + offset
        if not line.strip():
            continue
        try:
            row = loads_leniently(line)
        except ValueError as error:
            cut = not ended and offset == len(lines) - 1
            if cut:
                faults.add(FaultCode.TRUNCATED, "the file ends within a record", number)
            else:
                faults.add(FaultCode.CORRUPT, f"not JSON: {error}", number)
            continue
        if isinstance(row, dict):
            rows.append(row)
            numbers.append(number)
        else:
            faults.add(FaultCode.CORRUPT, "not a record", number)
    return rows, numbers


FRAMEWORKS = (
    ("llamafactory", {"current_steps", "total_steps", "percentage"}),
    ("detectron2", {"iteration", "eta_seconds", "data_time"}),
    ("wandb", {"_step", "_runtime", "_timestamp"}),
)
"""Columns that only this writer logs together."""


def _facts(sheet: Sheet) -> Facts:
    names = set(sheet.names)
    known = next((writer for writer, columns in FRAMEWORKS if columns <= names), None)
    if known is None and "mode" in sheet.text and {"epoch", "iter"} <= names:
        known = "openmmlab"
    return Facts(
        framework=known,
        max_steps=_last(sheet, "total_steps") if known == "llamafactory" else None,
        seed=_last(sheet, "seed"),
    )


def _last(sheet: Sheet, name: str) -> int | None:
    if name not in sheet.names:
        return None
    values = sheet.scattered(name)
    known = values[np.isfinite(values)]
    return int(known[-1]) if len(known) and abs(known[-1]) < 2**53 else None
