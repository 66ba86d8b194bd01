"""CSV and TSV: Keras, Lightning, Ultralytics, Stable-Baselines, DVCLive, and home-made tables.

A block in which every row has all its cells and every cell is a number or empty is parsed at
once, by a JSON parser and numpy; any other block line by line. Both give the same result.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from pathlib import PurePosixPath
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.compression import bare
from trainproof.model.data import Facts, FaultCode, Floats, Item, NotJudgeable, Role

from .interface import HEAD, Follower, Options
from .json_text import loads, uncollected
from .names import axis_rank, classify
from .sheet import ABSENT, BARE, MAX_COLUMNS, Row, Sheet, number
from .split_files import DVCLIVE
from .text import Block, FaultLog, TextSource, decode_head

DELIMITERS = (",", ";", "\t")
NAMES = (".csv", ".tsv")
LOOK = 10
"""Lines at the start among which the header must be; comments may stand before it."""

COUNTED = 2
"""Columns of a table without a header that may be a step and a number."""

MAX_SPAN = 50
"""Lines that a quoted cell may span."""

ENOUGH = 1000
"""Rows after which a table that is no training log is not read to its end."""

COATI = ("step", "loss", "dist", "acc")
"""Columns of the reward model trainer of ColossalAI's Coati, which writes no header and one row
every hundred batches."""

FRAMEWORKS = (
    ("ultralytics", {"lr/pg0"}),
    ("stable-baselines3", {"time/total_timesteps"}),
    ("rllib", {"training_iteration", "timesteps_total"}),
)
"""Columns that only this writer has."""


class Delimited:
    """A table with a header, one row per step or epoch."""

    name = "csv"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        lines = decode_head(head).split("\n")
        if len(head) >= HEAD:
            lines.pop()
        rows = _content(lines)
        if not rows:
            return False
        named = path.lower().endswith(NAMES)
        layout = _Layout.of(rows[0], path)
        if layout is None or not (named or _trains(layout.names)):
            return False
        if not layout.header or len(rows) == 1:
            return named or layout.header
        return any(number(cell) is not None for cell in layout.cells(rows[1]))

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        rows = _Rows(artifact, options)
        rows.feed(stream)
        return rows.told(rows.sheet)

    def follow(self, artifact: Artifact, options: Options) -> Follower:
        return _Rows(artifact, options, growing=True)


class _Rows:
    """The rows of one file, as far as it was read."""

    def __init__(self, artifact: Artifact, options: Options, *, growing: bool = False) -> None:
        self._path, self._options = artifact.path, options
        self._faults = FaultLog(artifact.path)
        self._source = TextSource(BytesIO(), self._faults, growing)
        self._layout: _Layout | None = None
        self._table: _Table | None = None
        self._ends = False
        self.sheet = Sheet(self._faults)

    def feed(self, stream: BinaryIO) -> None:
        self._source.stream = stream
        with uncollected():
            for block in self._source.blocks():
                if not self._ends:
                    self._add(block)
                if self._ends:
                    return

    def _add(self, block: Block) -> None:
        """``_ends``: what follows need not be read."""
        rest: Block | None = block
        if self._table is None:
            rest = self._begin(block)
        if rest is not None and self._table is not None:
            self._table.add(rest)
        sheet = self.sheet
        self._ends |= sheet.full or (sheet.rows >= ENOUGH and sheet.no_log() is not None)

    def _begin(self, block: Block) -> Block | None:
        """Take the layout from the first block; the block without the lines up to the header."""
        self._layout, rest = _begin(block, self._path)
        if self._layout is None:
            detail = f"the first line is not one of a table of 2 to {MAX_COLUMNS} columns"
            self._faults.add(FaultCode.CORRUPT, detail, fatal=True)
        if self._layout is None or self._layout.hopeless:
            self._ends = True
        else:
            self._table = _Table(self._layout, self._path, self.sheet, self._faults)
        return rest

    def items(self) -> Iterator[Item]:
        return self.told(self.sheet.copy())

    def told(self, sheet: Sheet) -> Iterator[Item]:
        """What there is to say of the rows."""
        layout = self._layout
        if layout is not None and not layout.header and sheet.rows == 1:
            yield NotJudgeable(Content.HEADER_ONLY, "one row and no header")
            return
        if layout is not None and layout.hopeless:
            bare = not layout.header and len(layout.names) == COUNTED
            content = Content.UNNAMED_NUMBERS if bare else Content.NOT_A_LOG
            yield NotJudgeable(content, "no step, no epoch and no training column")
            return
        yield from sheet.items(self._options, _facts(sheet))


def _facts(sheet: Sheet) -> Facts:
    names = set(sheet.names)
    return Facts(framework=next((who for who, has in FRAMEWORKS if has <= names), None))


def _content(lines: Sequence[str]) -> list[str]:
    """The lines at the start that are neither blank nor a comment."""
    return [line for line in lines[:LOOK] if line.strip() and not line.startswith("#")]


def _trains(names: Sequence[str]) -> bool:
    """Whether a name is known to the table of names as something that a training logs."""
    return any(
        axis_rank(name) is not None or classify(name).role not in (Role.UNKNOWN, Role.OTHER)
        for name in names
    )


class _Layout(msgspec.Struct, frozen=True):
    """How the rows of a table are to be read. ``header``: the names stand in the file."""

    delimiter: str
    names: tuple[str, ...]
    header: bool

    @classmethod
    def of(cls, line: str, path: str) -> _Layout | None:
        """From the first line that counts; None where it is not one of a table."""
        delimiter = max(DELIMITERS, key=line.count)
        cells = _cells(line, delimiter)
        if not 2 <= len(cells) <= MAX_COLUMNS or any(len(cell) > 200 for cell in cells):
            return None
        if _is_header(cells):
            return cls(delimiter, _tags(_unique(cells), path), True)
        if not all(_is_numeric(cell) for cell in cells):
            return None
        known = (
            COATI if _is_coati(cells, path) else tuple(f"column {i + 1}" for i in range(len(cells)))
        )
        return cls(delimiter, known, False)

    @property
    def hopeless(self) -> bool:
        """No column that could make this the log of a training."""
        return not any(
            axis_rank(name) is not None or classify(name).role in BARE for name in self.names
        )

    def cells(self, line: str) -> list[str]:
        return _cells(line, self.delimiter)


def _cells(line: str, delimiter: str) -> list[str]:
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error:
        return line.split(delimiter)


def _is_numeric(cell: str) -> bool:
    return number(cell) is not None or cell.strip().lower() in ABSENT


def _is_header(cells: Sequence[str]) -> bool:
    return any(cell.strip() for cell in cells) and all(number(cell) is None for cell in cells)


def _unique(cells: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns; a second ``loss`` is ``loss (2)``."""
    counts: dict[str, int] = {}
    names = []
    for cell in cells:
        name = cell.strip()
        counts[name] = counts.get(name, 0) + 1
        names.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return tuple(names)


UNTOLD = frozenset({Role.UNKNOWN, Role.OTHER})


def _tags(names: tuple[str, ...], path: str) -> tuple[str, ...]:
    """The names, with the folders that DVCLive puts a metric in, or the metric that a file of its
    values is named after."""
    _, found, inside = f"/{path}".rpartition(DVCLIVE)
    tag = inside.removesuffix(PurePosixPath(inside).suffix)
    if found and len(names) == 2 and tag.rsplit("/", 1)[-1] == names[1]:
        return (names[0], tag)
    return (*names[:-1], _told_by_file(path)) if _holds_values(names, path) else names


def _holds_values(names: tuple[str, ...], path: str) -> bool:
    """Whether a file holds the values of the one quantity that it is named after:
    ``run-1-tag-train_loss.csv`` with Wall time, Step and Value, as TensorBoard exports it."""
    if names[-1].strip().lower() != "value" or classify(_told_by_file(path)).role in UNTOLD:
        return False
    others = [name for name in names[:-1] if classify(name).role is not Role.WALL_TIME]
    return bool(others) and all(axis_rank(name) is not None for name in others)


def _told_by_file(path: str) -> str:
    name = bare(path).rpartition("/")[2]
    return name.partition(".")[0].rpartition("-tag-")[2]


def _is_coati(cells: Sequence[str], path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    step, share = number(cells[0]), number(cells[-1])
    if len(cells) != len(COATI) or not name.startswith("log") or step is None or share is None:
        return False
    return step > 0 and step % 100 in (0, 99) and 0 <= share <= 1


def _begin(block: Block, path: str) -> tuple[_Layout | None, Block | None]:
    """The layout, and the block without the lines up to the header."""
    lines = block.data.split(b"\n", LOOK)
    for i, raw in enumerate(lines[:LOOK]):
        line = raw.decode("utf-8", "backslashreplace")
        if not _content([line]):
            continue
        layout = _Layout.of(line, path)
        used = i + 1 if layout is not None and layout.header else i
        rest = b"\n".join(lines[used:])
        return layout, Block(rest, block.first_line + used) if rest else None
    return None, None


@dataclass(slots=True)
class _Table:
    """Rows going into a sheet."""

    layout: _Layout
    path: str
    sheet: Sheet
    faults: FaultLog
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.names = self.sheet.header = self.layout.names

    def add(self, block: Block) -> None:
        data = block.data if block.data.endswith(b"\n") else block.data + b"\n"
        dense = _dense(data, self.layout.delimiter, len(self.names))
        if dense is None:
            self._add_lines(block)
            return
        table, absent = dense
        lines = np.arange(block.first_line, block.first_line + len(table))
        self.sheet.add_table(self.names, table, absent, lines)

    def _add_lines(self, block: Block) -> None:
        rows: list[Row] = []
        numbers: list[int] = []
        lines = block.data.decode("utf-8", "backslashreplace").split("\n")
        cut = len(lines) if block.data.endswith(b"\n") else len(lines) - 1
        for i, cells in self._records(lines):
            row = self._row(cells, block.first_line + i, cut=i == cut)
            if row is not None:
                rows.append(row)
                numbers.append(block.first_line + i)
        self.sheet.add(rows, numbers)

    def _records(self, lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """The rows and the positions of their first lines; a quoted cell may hold newlines."""
        i = 0
        while i < len(lines):
            line, used = lines[i], 1
            if '"' in line:
                cells, used = self._quoted(lines, i)
                yield i, cells
            elif line.strip():
                yield i, line.split(self.layout.delimiter)
            i += used

    def _quoted(self, lines: Sequence[str], at: int) -> tuple[list[str], int]:
        """One row that spans lines only if it then has all its cells: a lone quote costs one
        line and not the rest of the file."""
        span = (f"{line}\n" for line in islice(lines, at, at + MAX_SPAN))
        reader = csv.reader(span, delimiter=self.layout.delimiter)
        try:
            cells = next(reader)
        except csv.Error:
            return self.layout.cells(lines[at]), 1
        if reader.line_num > 1 and len(cells) != len(self.names):
            return self.layout.cells(lines[at]), 1
        return cells, reader.line_num

    def _row(self, cells: list[str], line: int, *, cut: bool) -> Row | None:
        """The cells by name. None for a header that is repeated, and for a row that is not
        whole, which is a fault."""
        names = self.names
        if len(cells) == len(names) + 1 and not cells[-1].strip():
            cells.pop()
        if self._repeats_header(cells):
            self.names = _tags(_unique(cells), self.path)
            return None
        if len(cells) != len(names):
            detail = f"{len(cells)} cells where the header has {len(names)}"
            if cut:
                self.faults.add(FaultCode.TRUNCATED, f"the file ends within a row: {detail}", line)
            else:
                self.faults.add(FaultCode.CORRUPT, detail, line)
            return None
        try:
            return dict(zip(names, map(float, cells), strict=True))
        except ValueError:
            return {
                name: self._decimal(cell)
                for name, cell in zip(names, cells, strict=True)
                if cell.strip()
            }

    def _repeats_header(self, cells: Sequence[str]) -> bool:
        """A second start of a writer that appends, perhaps with other columns."""
        if len(cells) < 2 or not _is_header(cells):
            return False
        known = set(self.names)
        again = sum(cell.strip() in known for cell in cells)
        return 2 * again >= len(cells)

    def _decimal(self, cell: str) -> str:
        """``0,5`` is a number where the delimiter is a semicolon."""
        comma = self.layout.delimiter == ";" and cell.count(",") == 1 and "." not in cell
        return cell.replace(",", ".") if comma else cell


def _dense(
    data: bytes, delimiter: str, columns: int
) -> tuple[Floats, NDArray[np.bool_] | None] | None:
    """The block as float64 (rows, columns) and the mask of its empty cells.

    None unless each line has ``columns`` cells of which each is empty or a number that JSON,
    ``nan`` or ``inf`` can spell.
    """
    marked = _cell_ends(data, delimiter, columns)
    if marked is None:
        return None
    empty = (np.diff(marked, prepend=-1) == 1).reshape(-1, columns)
    values = _parsed(_as_json(data, delimiter, bool(empty.any())), len(marked))
    if values is None:
        return None
    return values.reshape(-1, columns), empty if empty.any() else None


def _cell_ends(data: bytes, delimiter: str, columns: int) -> NDArray[np.int64] | None:
    """Positions of delimiters and newlines, int64 (rows * columns,); None for ragged rows."""
    if b'"' in data or (delimiter != "," and b"," in data):
        return None
    raw = np.frombuffer(data, dtype=np.uint8)
    marks = np.flatnonzero((raw == ord(delimiter)) | (raw == ord("\n")))
    rows, rest = divmod(len(marks), columns)
    if rest or data.count(b"\n") != rows:
        return None
    return marks if bool((raw[marks[columns - 1 :: columns]] == ord("\n")).all()) else None


def _as_json(data: bytes, delimiter: str, gaps: bool) -> bytes:
    """All cells as one flat JSON array."""
    text = data[:-1].replace(b"\n", b",")
    if delimiter != ",":
        text = text.replace(delimiter.encode(), b",")
    if gaps:
        text = b"," + text + b","
        text = text.replace(b",,", b",NaN,").replace(b",,", b",NaN,")[1:-1]
    if b"nan" in text:
        text = text.replace(b"nan", b"NaN")
    if b"inf" in text and b"Inf" not in text:
        text = text.replace(b"inf", b"Infinity")
    return b"[" + text + b"]"


def _parsed(text: bytes, count: int) -> Floats | None:
    if b"null" in text:
        return None
    try:
        values = loads(text)
        table = np.array(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return None
    return table if table.shape == (count,) else None
