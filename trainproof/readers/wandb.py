"""Weights & Biases: the ``run-<id>.wandb`` transaction log, without the wandb package.

The file is a LevelDB log: seven bytes of header, then blocks of 32 KiB with chunks of
``crc32 u32, length u16, type u8``; the checksum (plain zlib CRC-32, not LevelDB's masked CRC-32C)
covers type and data. A record is a whole chunk or a first, some middle and a last one, and holds
one protobuf ``Record`` of ``wandb/proto/wandb_internal.proto``. Only history, configuration and
exit are decoded.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import BinaryIO

import msgspec

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Facts, FaultCode, Item, NotJudgeable

from .hyperparameters import facts_of, nested
from .interface import Options
from .json_text import loads, uncollected
from .sheet import Row, Sheet, number
from .text import FaultLog, decode_head
from .tfevents.wire import BYTES, VARINT, Malformed, fields, key, signed, varint

MAGIC = b":W&B\xe1\xbe"
FILE_HEADER = 7
BLOCK = 1 << 15
CHUNK = Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4

MAX_RECORD = 64 << 20
"""Bytes of a record; longer ones are left out."""

MAX_PATH = 16
"""Parts of a nested key."""

BATCH = 1000
"""Rows of history collected before they are stored."""

HISTORY, CONFIG, RUN, EXIT = (key(n, BYTES) for n in (2, 5, 17, 18))
ITEM = key(1, BYTES)
"""Items of a history record; updates of a configuration."""

RUN_CONFIG = key(4, BYTES)
HISTORY_STEP, STEP_NUMBER = key(2, BYTES), key(1, VARINT)
NAME, NESTED_NAME, VALUE = key(1, BYTES), key(2, BYTES), key(16, BYTES)
EXIT_CODE = key(1, VARINT)

TYPED = "_type"
"""Key of what is no number: histograms, images, tables."""

STEP = "_step"
INTERNAL = "_wandb"


class Wandb:
    """The log of one run."""

    name = "wandb"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        return head.startswith(MAGIC)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        faults = FaultLog(artifact.path)
        run = _Run(Sheet(faults))
        with uncollected():
            for record in _records(stream, faults):
                try:
                    run.add(record)
                except (Malformed, IndexError) as error:
                    faults.add(FaultCode.CORRUPT, f"a record is no message: {error}")
                if run.sheet.full:
                    break
            run.store()
        if run.sheet.rows and run.sheet.no_log() is None:
            yield from run.sheet.columns(options)
        elif not any(fault.fatal for fault in faults):
            yield NotJudgeable(Content.HEADER_ONLY, "no training metric in any history record")
        yield run.facts()
        yield from faults


class WandbSummary:
    """``wandb-summary.json``: the last value of each metric, never a series."""

    name = "wandb-summary"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        named = path.rpartition("/")[2] == "wandb-summary.json"
        return named and decode_head(head).lstrip().startswith("{")

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        yield NotJudgeable(Content.SUMMARY_ONLY, "the last value of each metric, no series")


# --- the log of chunks ----------------------------------------------------------------------


def _records(stream: BinaryIO, faults: FaultLog) -> Iterator[bytes]:
    """The whole records of the log; what is damaged is left out and told."""
    parts: list[bytes] = []
    size = 0
    for kind, data in _chunks(stream, faults):
        if kind in (FULL, FIRST):
            if parts:
                faults.add(FaultCode.CORRUPT, "a record does not end")
            parts, size = [], 0
        elif not parts:
            continue  # its beginning was damaged and is told already
        parts.append(data)
        size += len(data)
        if size > MAX_RECORD:
            faults.add(FaultCode.TOO_LARGE, f"a record of more than {MAX_RECORD} bytes")
            parts = []
        elif kind in (FULL, LAST):
            yield b"".join(parts)
            parts = []
    if parts:
        faults.add(FaultCode.TRUNCATED, "the file ends within a record")


def _chunks(stream: BinaryIO, faults: FaultLog) -> Iterator[tuple[int, bytes]]:
    """Type and data of each chunk with the right checksum.

    After a damaged one the rest of its block is left out, as LevelDB does: its length may be
    what is damaged.
    """
    base = 0
    while block := _block(stream, faults):
        at = FILE_HEADER if base == 0 else 0
        while at + CHUNK.size <= len(block):
            crc, length, kind = CHUNK.unpack_from(block, at)
            end = at + CHUNK.size + length
            if end > len(block):
                _leaves_block(base + at, len(block) == BLOCK, faults)
                break
            # the byte of the type stands before the data in the file too
            if not FULL <= kind <= LAST or zlib.crc32(block[at + 6 : end]) != crc:
                faults.add(FaultCode.CORRUPT, f"the chunk at byte {base + at} is damaged")
                break
            yield kind, block[at + CHUNK.size : end]
            at = end
        else:
            if at < len(block) < BLOCK:
                _leaves_block(base + at, False, faults)
        base += len(block)


def _leaves_block(at: int, whole: bool, faults: FaultLog) -> None:
    if whole:
        faults.add(FaultCode.CORRUPT, f"the chunk at byte {at} leaves its block")
    else:
        faults.add(FaultCode.TRUNCATED, f"the file ends within the chunk at byte {at}")


def _block(stream: BinaryIO, faults: FaultLog) -> bytes:
    """The next block; a shorter one only at the end of the file."""
    data = b""
    try:
        while len(data) < BLOCK and (more := stream.read(BLOCK - len(data))):
            data += more
    except OSError as error:
        faults.add(FaultCode.IO, f"reading failed: {error}", fatal=True)
    return data


# --- records --------------------------------------------------------------------------------


class _Run(msgspec.Struct):
    """What the records said so far."""

    sheet: Sheet
    rows: list[Row] = msgspec.field(default_factory=list)
    config: dict[str, object] = msgspec.field(default_factory=dict)
    exit_code: int | None = None

    def add(self, record: bytes) -> None:
        for tag, start, end in fields(record, 0, len(record)):
            if tag == HISTORY:
                self._add_row(record, start, end)
            elif tag == CONFIG:
                self.config.update(_items(record, start, end))
            elif tag == RUN:
                for inner, a, b in fields(record, start, end):
                    if inner == RUN_CONFIG:
                        self.config.update(_items(record, a, b))
            elif tag == EXIT:
                self.exit_code = _integer(record, start, end, EXIT_CODE) or 0

    def _add_row(self, record: bytes, start: int, end: int) -> None:
        row = {name: value for name, value in _items(record, start, end) if name != INTERNAL}
        if STEP not in row:
            for tag, a, b in fields(record, start, end):
                if tag == HISTORY_STEP:
                    row[STEP] = _integer(record, a, b, STEP_NUMBER) or 0
        self.rows.append(_scalars(row))
        if len(self.rows) >= BATCH:
            self.store()

    def store(self) -> None:
        self.sheet.add(self.rows, None)
        self.rows = []

    def facts(self) -> Facts:
        told = facts_of(nested(self.config))
        ended = None if self.exit_code is None else self.exit_code == 0
        return Facts(framework="wandb", finished=ended).over(told)


def _scalars(row: Row) -> Row:
    """The row without the parts of histograms, images and tables."""
    typed = {name.removesuffix(f"/{TYPED}") for name in row if name.endswith(f"/{TYPED}")}
    if not typed:
        return row
    return {name: value for name, value in row.items() if typed.isdisjoint(_parents(name))}


def _parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _items(record: bytes, start: int, end: int) -> Iterator[tuple[str, object]]:
    """Names and values of the items of a history or configuration record; what is neither a
    number, a text nor an object is left out."""
    for tag, a, b in fields(record, start, end):
        if tag != ITEM:
            continue
        name, value = _item(record, a, b)
        parsed = _value(value)
        if name and parsed is not None and not (isinstance(parsed, dict) and TYPED in parsed):
            yield name, parsed


def _item(record: bytes, start: int, end: int) -> tuple[str, bytes]:
    parts: list[str] = []
    value = b""
    for tag, a, b in fields(record, start, end):
        if tag in (NAME, NESTED_NAME) and a < b and len(parts) < MAX_PATH:
            parts.append(record[a:b].decode("utf-8", "replace"))
        elif tag == VALUE:
            value = record[a:b]
    return "/".join(parts), value


def _value(text: bytes) -> object:
    """A JSON value; numbers are most of them."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        value = loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | str | bool) else number(value)


def _integer(record: bytes, start: int, end: int, wanted: int) -> int | None:
    for tag, a, _ in fields(record, start, end):
        if tag == wanted:
            return signed(varint(record, a)[0])
    return None
