"""CatBoost's training directory (``catboost_info``): tables of metrics and one JSON document.

``learn_error.tsv`` and ``test_error.tsv`` hold ``iter`` and a column per metric; the split is the
name of the file. With several evaluation sets all but the last are numbered (``AUC:0``, ``AUC``).
``catboost_training.json`` holds the same, and which way each metric improves (``best_value``).
What CatBoost calls the test set is held out to stop the training: an evaluation set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from msgspec.structs import replace

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import (
    Column,
    Declared,
    Direction,
    Facts,
    FaultCode,
    Item,
    NotJudgeable,
    Role,
    Split,
)

from .boosting import meanings
from .interface import Options
from .json_object import read_object
from .sheet import MAX_COLUMNS, MAX_STEP, Row, Sheet, number
from .text import FaultLog, TextSource, decode_head

TABLES = {"learn_error.tsv": Split.TRAIN, "test_error.tsv": Split.EVAL}
STEP = "iter"
BEST = {"Min": Direction.LOWER, "Max": Direction.HIGHER}
META = re.compile(r'\s*\{\s*"meta"\s*:\s*\{')

MAX_SETS = 64
"""Evaluation sets that are read."""


class CatBoostTable:
    """One table of metrics of one split."""

    name = "catboost"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        known = path.rpartition("/")[2] in TABLES
        return known and decode_head(head).startswith(f"{STEP}\t")

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        sheet = Sheet(faults)
        split = TABLES.get(artifact.path.rpartition("/")[2])
        metrics = _fill(sheet, TextSource(stream, faults), faults)
        said = meanings(metrics, split)
        for item in sheet.items(options, Facts(framework="catboost")):
            if isinstance(item, Column) and item.tag in said:
                yield replace(item, declared=said[item.tag])
            else:
                yield item


def _fill(sheet: Sheet, source: TextSource, faults: FaultLog) -> list[str]:
    """The names of the metrics; their values are in the sheet."""
    header: list[str] = []
    for block in source.blocks():
        rows: list[Row] = []
        numbers: list[int] = []
        *lines, tail = block.data.decode("utf-8", "replace").split("\n")
        for line_number, line in enumerate(lines, block.first_line):
            cells = line.split("\t")
            if not header:
                header = cells[: MAX_COLUMNS + 1]
            elif (row := _row(header, cells)) is not None:
                rows.append(row)
                numbers.append(line_number)
            else:
                faults.add(FaultCode.CORRUPT, "not a row of numbers", line_number)
        sheet.add(rows, numbers)
        if tail:
            at = block.first_line + len(lines)
            faults.add(FaultCode.TRUNCATED, "the file ends within a row", at)
        if sheet.full:
            break
    return header[1:]


def _row(header: list[str], cells: list[str]) -> Row | None:
    values = [number(cell) for cell in cells]
    if len(cells) != len(header) or None in values:
        return None
    return dict(zip(header, values, strict=True))


class CatBoostDocument:
    """Every metric of every set, with the direction in which it improves."""

    name = "catboost-json"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        text = decode_head(head)
        return META.match(text) is not None and '_metrics"' in text

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        document = read_object(stream, faults)
        meta, rows = document.members.get("meta"), document.members.get("iterations")
        found = False
        if isinstance(meta, dict) and isinstance(rows, list):
            kept = rows[:-1] if document.cut else rows
            for column in _columns(meta, kept, faults, options):
                found = True
                yield column
            yield _facts(meta, document.cut)
        yield from faults
        if not found and not any(fault.fatal for fault in faults):
            yield NotJudgeable(Content.HEADER_ONLY, "no iterations")


def _facts(meta: Mapping[str, object], cut: bool) -> Facts:
    """A document that is closed is that of a training that ended, maybe early, when nothing got
    better: only one that is not closed has iterations to come."""
    limit = meta.get("iteration_count")
    known = cut and isinstance(limit, int) and 0 < limit < MAX_STEP
    return Facts(
        framework="catboost",
        max_steps=limit if known and isinstance(limit, int) else None,
        finished=None if cut else True,
    )


def _columns(
    meta: Mapping[str, object], rows: Sequence[object], faults: FaultLog, options: Options
) -> Iterator[Column]:
    for sets, split in (("learn", Split.TRAIN), ("test", Split.EVAL)):
        best = dict(_metrics(meta.get(f"{sets}_metrics")))
        said = meanings(best, split)
        members = _texts(meta.get(f"{sets}_sets"))
        for place, member in enumerate(members):
            suffix = f":{place}" if place < len(members) - 1 else ""
            told = {f"{name}{suffix}": _with_best(said[name], best[name]) for name in best}
            sheet = Sheet(faults)
            sheet.add(list(_rows(rows, member, tuple(told))), None)
            for column in sheet.columns(options):
                if column.tag in told:
                    yield replace(column, declared=told[column.tag])


def _texts(members: object) -> list[str]:
    named = (one for one in members if isinstance(one, str)) if isinstance(members, list) else ()
    return list(dict.fromkeys(named))[:MAX_SETS]


def _metrics(described: object) -> Iterator[tuple[str, Direction | None]]:
    """Name of each metric, and which way it improves where the document says so."""
    for one in described[:MAX_COLUMNS] if isinstance(described, list) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            yield one["name"], BEST.get(str(one.get("best_value")))


def _rows(rows: Sequence[object], member: str, tags: Sequence[str]) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, dict) and isinstance(values := row.get(member), list):
            yield {STEP: row.get("iteration"), **dict(zip(tags, values, strict=False))}


def _with_best(declared: Declared, best: Direction | None) -> Declared:
    """The document's word on the direction; what is to grow is no loss."""
    if best is None:
        return declared
    role = Role.METRIC if best is Direction.HIGHER else declared.role
    return replace(declared, role=role, direction=best)
