"""MLflow's database (``mlflow.db``), where newer versions keep what the file store held.

The file is read into memory and opened there, so that nothing on disk is touched and no
journal is looked for. SQL that stands in the file is not run: only three plain tables may be read,
and only for a bounded number of steps. Of a database of several runs, the runs are named; each is
then read for itself.

MLflow stores NaN as 0 with ``is_nan``, and infinities as the largest float64.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Column, Facts, Fault, FaultCode, Item, NotJudgeable, Parts

from .hyperparameters import facts_of
from .interface import Options
from .scalars import Scalars, TooMany, is_count

MAGIC = b"SQLite format 3\0"
NAMES = ("mlflow", "mlruns")
SUFFIXES = (".db", ".sqlite", ".sqlite3")

MAX_DATABASE = 256 << 20
"""Bytes of a database, which is held in memory twice."""

MAX_SETTINGS = 10_000
MAX_RUNS = 1_000_000
MAX_CELL = 1 << 20
"""Bytes of one text in the file."""

MAX_DETAIL = 300

SLICE, MAX_SLICES = 10_000, 100_000
"""Steps of SQLite's machine between two looks at the bound, and how many such slices it may run."""

LARGEST = 1.7976931348623157e308
VERSIONS = slice(18, 20)
"""Where the header says whether a write-ahead log belongs to the file; 1 says no."""

TABLES = frozenset({"runs", "metrics", "params"})

RUNS = """SELECT run_uuid, status FROM runs WHERE lifecycle_stage = 'active'
          AND run_uuid IN (SELECT run_uuid FROM metrics)"""
METRICS = """SELECT key, value, timestamp, step, is_nan FROM metrics WHERE run_uuid = ?
             ORDER BY key, timestamp, step"""
PARAMS = "SELECT key, value FROM params WHERE run_uuid = ? LIMIT ?"
FINISHED = {"FINISHED": True, "FAILED": False, "KILLED": False}


class MlflowDatabase:
    """A database of one run, or the part of one that is a run."""

    name = "mlflow-db"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        name = path.rpartition("/")[2].lower()
        named = any(word in name for word in NAMES) and name.endswith(SUFFIXES)
        return named and head.startswith(MAGIC)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        def fault(code: FaultCode, detail: str) -> Fault:
            return Fault(code, artifact.path, detail, fatal=True)

        try:
            data = stream.read(MAX_DATABASE + 1)
        except OSError as error:
            yield fault(FaultCode.IO, f"reading failed: {error}")
            return
        if len(data) > MAX_DATABASE:
            yield fault(FaultCode.TOO_LARGE, f"a database of more than {MAX_DATABASE} bytes")
            return
        try:
            with closing(_opened(data)) as database:
                yield from _items(database, artifact.part)
        except TooMany as error:
            yield fault(FaultCode.TOO_LARGE, str(error))
        except (sqlite3.Error, ValueError, OverflowError) as error:
            # a ValueError: the message of SQLite cites bytes that are no UTF-8
            interrupted = isinstance(error, sqlite3.OperationalError) and "interrupt" in str(error)
            code = FaultCode.TOO_LARGE if interrupted else FaultCode.CORRUPT
            yield fault(code, f"SQLite: {error}"[:MAX_DETAIL])


def _opened(data: bytes) -> sqlite3.Connection:
    """The database in memory, with all that it may do bounded."""
    database = sqlite3.connect(":memory:")
    copy = bytearray(data)
    copy[VERSIONS] = b"\1\1"
    database.deserialize(bytes(copy))
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL)
    database.execute("PRAGMA trusted_schema = OFF")
    slices = iter(range(MAX_SLICES))
    database.set_progress_handler(lambda: next(slices, None) is None, SLICE)
    database.set_authorizer(_allowed)
    return database


def _allowed(action: int, first: str | None, *_: str | None) -> int:
    """Only reads of the known tables. SQLite asks for every step of every query."""
    if action == sqlite3.SQLITE_READ:
        return sqlite3.SQLITE_OK if first in TABLES else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY


def _items(database: sqlite3.Connection, part: str) -> Iterator[Item]:
    runs = dict(database.execute(RUNS).fetchmany(MAX_RUNS))
    if not runs:
        yield NotJudgeable(Content.HEADER_ONLY, "no run has a metric")
        return
    if not part and len(runs) > 1:
        yield NotJudgeable(Content.UNSUPPORTED, f"{len(runs)} runs in one MLflow database")
        yield Parts(tuple(sorted(str(run) for run in runs)))
        return
    run = part or next(iter(runs))
    status = runs.get(run)
    found = False
    for column in _columns(database, run):
        found = True
        yield column
    if not found:
        yield NotJudgeable(Content.HEADER_ONLY, "no metric has a number")
    settings = facts_of((str(k), v) for k, v in database.execute(PARAMS, (run, MAX_SETTINGS)))
    yield Facts(finished=FINISHED.get(str(status))).over(settings)


def _columns(database: sqlite3.Connection, run: object) -> Iterator[Column]:
    points = Scalars()
    for key, value, clock, step, is_nan in database.execute(METRICS, (run,)):
        measured = _number(value, is_nan)
        if measured is not None and is_count(step) and is_count(clock):
            points.add(str(key), step, measured, clock / 1000)
    yield from points.columns()


def _number(value: object, is_nan: object) -> float | None:
    """The number that was logged. A cell of SQLite can hold anything."""
    if is_nan:
        return float("nan")
    if not isinstance(value, int | float):
        return None
    if abs(value) >= LARGEST:
        return float("inf") if value > 0 else float("-inf")
    return float(value)
