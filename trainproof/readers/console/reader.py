"""The generic reader: console text of any training, its dialect found out from the file alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Column, Item, NotJudgeable
from trainproof.readers.delimited import Delimited
from trainproof.readers.interface import HEAD, Follower, Options
from trainproof.readers.json_text import uncollected
from trainproof.readers.sheet import Sheet
from trainproof.readers.text import Block, FaultLog, TextSource, decode_head, strip_ansi

from .dialects import NAMES
from .log import TRAINING, Log
from .numbers import pieces_of, without_bars
from .phrases import named
from .plan import Kind as LineKind
from .plan import plan_of
from .tables import Tables

LOGS = frozenset({"log", "out", "err"})
"""Suffixes of what a console printed, whatever it is."""

TABLES = frozenset({"csv", "tsv"})
"""Suffixes of tables, which may have a bar or a tab between their cells."""

MAYBE = frozenset({"txt", ""})
"""Suffixes of anything, console text among it."""

GIVE_UP = 32 << 20
"""Bytes of text without one record after which none is expected any more."""

FEW_WORDS = 4
"""Words of ``TRAINING`` that make a log of a training of a file without a record."""

ZEROS = {ord(digit): "0" for digit in "123456789"}

_BACKSPACES = re.compile("\x08+")
_CONTROL = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f]|\\\\x[0-9a-f]{2}")


class ConsoleText:
    """Lines that name a step or an epoch and what was measured there."""

    name = "text"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        text = strip_ansi(decode_head(head)).replace("\0", "")
        if not text.strip() or 20 * len(_CONTROL.findall(text)) > len(text):
            return False
        suffix = _suffix(path)
        if suffix in TABLES and Delimited().claims(path, head):
            return False  # its names are kept as they stand there
        records = _records(text, whole=len(head) < HEAD)
        if suffix in LOGS | MAYBE and records >= 1 + (suffix in MAYBE and len(head) < HEAD):
            return True
        if records > 2:
            return True
        if suffix not in LOGS:
            words = {word.lower() for word in TRAINING.findall(text)} if suffix in MAYBE else set()
            if len(words) < (1 if suffix == "txt" else 2):
                return False
        return text.lstrip()[:1] not in "{[<" and not Delimited().claims(path, head)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        lines = _Lines(artifact, options)
        lines.feed(stream)
        return lines.told(lines.log.sheet)

    def follow(self, artifact: Artifact, options: Options) -> Follower:
        return _Lines(artifact, options, growing=True)


class _Lines:
    """The lines of one file, as far as it was read."""

    def __init__(self, artifact: Artifact, options: Options, *, growing: bool = False) -> None:
        self._path, self._options = artifact.path, options
        self._faults = FaultLog(artifact.path)
        self._source = TextSource(BytesIO(), self._faults, growing)
        self._read = 0
        tags = frozenset(tag for _, tag in options.tags)
        self.log = Log(self._faults, Sheet(self._faults), tags)

    def feed(self, stream: BinaryIO) -> None:
        self._source.stream = stream
        log = self.log
        with uncollected():
            for block in self._source.blocks():
                _take(block, log)
                self._read += len(block.data)
                if log.sheet.full or (self._read > GIVE_UP and not log.records):
                    break
            log.flush()

    def items(self) -> Iterator[Item]:
        return self.told(self.log.sheet.copy())

    def told(self, sheet: Sheet) -> Iterator[Item]:
        """What there is to say of the lines."""
        if self.log.is_log:
            yield from _items(self.log, sheet, self._options)
            return
        yield from self._faults
        if not any(fault.fatal for fault in self._faults):
            yield _why(self.log, self._path)


def _suffix(path: str) -> str:
    name = path.rpartition("/")[2].lower()
    _, dot, suffix = name.rpartition(".")
    return suffix if dot and re.fullmatch(r"[a-z]{1,6}", suffix) else ""


def _records(text: str, *, whole: bool) -> int:
    """Lines of the head that report something at a step or an epoch; one in the dialect of a
    known program counts for two."""
    lines = text.replace("\r", "\n").split("\n")
    if not whole:
        lines.pop()
    count, begun, tables = 0, False, Tables()
    for line in lines:
        pieces = pieces_of(without_bars(tables.line(named(line))))
        plan = plan_of(pieces) if len(pieces) > 1 else None
        if plan is None:
            continue
        begun = begun or plan.kind in (LineKind.EPOCH, LineKind.PLACE)
        if plan.outcome and (plan.kind is LineKind.RECORD or begun):
            count += 1 if plan.framework is None else 2
    return count


def _take(block: Block, log: Log) -> None:
    """Give the lines of a block to the log: each state of a progress bar is one."""
    text = strip_ansi(block.data.decode("utf-8", "backslashreplace"))
    if "\x08" in text:
        text = _BACKSPACES.sub("\r", text)
    lines = text.split("\n")
    cut = lines.pop()
    looks = text.translate(ZEROS).split("\n")
    for number, (line, look) in enumerate(zip(lines, looks, strict=False), block.first_line):
        if "\r" in line:
            for state in line.split("\r"):
                log.take(state, number)
        elif not log.passes(look, line, number):
            log.take(line, number, look=look)
    if cut:
        number = block.first_line + len(lines)
        *states, last = cut.split("\r")
        for state in states:
            log.take(state, number)
        log.take(last, number, ended=False)


def _items(log: Log, sheet: Sheet, options: Options) -> Iterator[Item]:
    dropped = log.dropped
    for item in sheet.items(options, log.facts()):
        if not isinstance(item, Column):
            yield item
        elif item.tag not in dropped:
            yield _declared(item)


def _declared(column: Column) -> Column:
    declared = NAMES.get(column.tag)
    if declared is None:
        return column
    return Column(
        column.tag, column.steps, column.values, column.axis, column.lines, column.walls, declared
    )


def _why(log: Log, path: str) -> NotJudgeable:
    """Why nothing in the text is a series."""
    what = "first record" if not log.records else "second record"
    if log.crash.line and log.words:
        error = f": {log.crash.error}" if log.crash.error else ""
        detail = f"crashed before the {what} (line {log.crash.line}{error})"
        return NotJudgeable(Content.HEADER_ONLY, detail)
    if log.records:
        return NotJudgeable(Content.SUMMARY_ONLY, "one record, no series")
    if _suffix(path) in LOGS and len(log.words) >= FEW_WORDS:
        return NotJudgeable(Content.HEADER_ONLY, "no record was printed")
    return NotJudgeable(Content.NOT_A_LOG, "no lines that name a step and what was measured there")
