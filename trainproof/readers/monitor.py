"""``monitor.csv`` of Gym's, Baselines' and Stable-Baselines' Monitor: a row for each episode.

The first line is a comment with ``t_start``, seconds since 1970; ``r`` is the return of the
episode, ``l`` its length and ``t`` the seconds since then. With several environments there is a
file for each, ``0.monitor.csv`` and so on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from msgspec.structs import replace

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import (
    Declared,
    Direction,
    Facts,
    FaultCode,
    Item,
    NotJudgeable,
    Regime,
    Role,
    Split,
)

from .interface import HEAD, Options
from .sheet import MAX_COLUMNS, Row, Sheet, number
from .text import FaultLog, TextSource, decode_head

COMMENT = re.compile(r'#\s*\{.{0,1000}"t_start": *[\d.]+')
COLUMNS = ("r", "l", "t")
RETURN = Declared(Role.REWARD, Split.TRAIN, Direction.HIGHER)
REST = Declared(Role.OTHER)

_ENVIRONMENT = re.compile(r"(\d{1,6})\.monitor\.csv")


class Monitor:
    """The returns of the episodes, in the order in which they ended."""

    name = "monitor"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        comment, _, rest = decode_head(head).partition("\n")
        header = rest.partition("\n")[0]
        whole = len(rest) > len(header) or len(head) < HEAD
        return whole and COMMENT.match(comment) is not None and _is_header(header.split(","))

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        sheet = Sheet(faults)
        _fill(sheet, TextSource(stream, faults), faults)
        prefix = _environment(artifact.path)
        for column in sheet.columns(options):
            told = RETURN if column.tag == "r" else REST
            yield replace(column, tag=f"{prefix}{column.tag}", declared=told)
        yield Facts(framework="monitor", regime=Regime.REINFORCEMENT)
        yield from faults
        if not sheet.rows and not any(fault.fatal for fault in faults):
            yield NotJudgeable(Content.HEADER_ONLY, "no episode ended")


def _is_header(cells: list[str]) -> bool:
    return tuple(cells[: len(COLUMNS)]) == COLUMNS and len(cells) <= MAX_COLUMNS


def _environment(path: str) -> str:
    """What tells the series of one environment from those of another."""
    match = _ENVIRONMENT.fullmatch(path.rpartition("/")[2])
    return f"{match[1]}/" if match else ""


def _fill(sheet: Sheet, source: TextSource, faults: FaultLog) -> None:
    header: list[str] = []
    for block in source.blocks():
        rows: list[Row] = []
        numbers: list[int] = []
        *lines, tail = block.data.decode("utf-8", "replace").split("\n")
        for at, line in enumerate(lines, block.first_line):
            cells = line.split(",")
            if not header:
                header = cells if _is_header(cells) else []
            elif (row := _row(header, cells)) is not None:
                rows.append(row)
                numbers.append(at)
            elif line.strip() and not line.startswith("#") and not _is_header(cells):
                faults.add(FaultCode.CORRUPT, "not a row of an episode", at)
        sheet.add(rows, numbers)
        if tail:
            at = block.first_line + len(lines)
            faults.add(FaultCode.TRUNCATED, "the file ends within a row", at)
        if sheet.full:
            break


def _row(header: list[str], cells: list[str]) -> Row | None:
    """The numbers of a row, of which the first three must be some."""
    if len(cells) != len(header):
        return None
    values = {name: number(cell) for name, cell in zip(header, cells, strict=True)}
    if any(values[name] is None for name in COLUMNS):
        return None
    return {name: value for name, value in values.items() if value is not None}
