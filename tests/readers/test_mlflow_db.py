"""MLflow's database: of one run, of several, and of somebody who means harm."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence

import pytest

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, Facts, FaultCode
from trainproof.readers.mlflow_db import MlflowDatabase

from .readings import Readout, read, survives

LARGEST = 1.7976931348623157e308
# The columns of MLflow 3 that matter here, with its types and keys.
SCHEMA = """
CREATE TABLE runs (run_uuid VARCHAR(32) NOT NULL, name VARCHAR(250), status VARCHAR(9),
  lifecycle_stage VARCHAR(20), CONSTRAINT run_pk PRIMARY KEY (run_uuid));
CREATE TABLE metrics (key VARCHAR(250) NOT NULL, value FLOAT NOT NULL, timestamp BIGINT NOT NULL,
  run_uuid VARCHAR(32) NOT NULL, step BIGINT DEFAULT '0' NOT NULL, is_nan BOOLEAN DEFAULT '0' NOT NULL,
  CONSTRAINT metric_pk PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan));
CREATE TABLE params (key VARCHAR(250) NOT NULL, value VARCHAR(8000) NOT NULL,
  run_uuid VARCHAR(32) NOT NULL, CONSTRAINT param_pk PRIMARY KEY (key, run_uuid));
"""  # noqa: E501
Row = tuple[str, object, object, str, object, object]


def database(
    rows: Sequence[Row],
    runs: Sequence[tuple[str, str, str]] = (("a", "FINISHED", "active"),),
    *sql: str,
    schema: str = SCHEMA,
) -> bytes:
    made = sqlite3.connect(":memory:")
    made.executescript(schema)
    if runs:
        made.executemany("INSERT INTO runs VALUES (?, 'n', ?, ?)", runs)
    if rows:
        made.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
    for statement in sql:
        made.execute(statement)
    made.commit()
    return made.serialize()


def point(step: int, value: object, key: str = "train/loss", run: str = "a", nan: int = 0) -> Row:
    return (key, value, 1_700_000_000_000 + 1000 * step, run, step, nan)


def made(data: bytes) -> Readout:
    assert MlflowDatabase().claims("mlflow.db", data[:4096])
    return read(MlflowDatabase(), "mlflow.db", data)


def test_a_run_is_read_with_its_metrics_parameters_and_end() -> None:
    rows = [point(0, 2.0), point(10, 1.5), point(20, 1.0), point(20, 0.5, "val/acc")]
    params = "INSERT INTO params VALUES ('learning_rate', '0.001', 'a'), ('epochs', '3', 'b')"
    got = made(database(rows, [("a", "FINISHED", "active")], params))
    loss = got["train/loss"]
    assert (loss.axis, loss.steps.tolist(), loss.values.tolist()) == (
        Axis.STEP,
        [0, 10, 20],
        [2.0, 1.5, 1.0],
    )
    assert loss.walls is not None and loss.walls.tolist() == [1.7e9, 1.7e9 + 10, 1.7e9 + 20]
    assert got.values("val/acc") == [0.5]
    assert got.facts == Facts(finished=True, learning_rate=0.001)
    assert (got.faults, got.content) == ((), None)


def test_nan_and_infinities_are_what_they_were_before_they_were_stored() -> None:
    rows = [point(0, 0.0, nan=1), point(1, LARGEST), point(2, -LARGEST), point(3, 0.0)]
    assert repr(made(database(rows)).values("train/loss")) == "[nan, inf, -inf, 0.0]"


def test_points_without_steps_are_numbered_in_the_order_of_their_clock() -> None:
    rows = [("loss", v, 1_700_000_000_000 + v, "a", 0, 0) for v in (3, 1, 2)]
    loss = made(database(rows))["loss"]
    assert (loss.axis, loss.steps.tolist(), loss.values.tolist()) == (
        Axis.INDEX,
        [0, 1, 2],
        [1, 2, 3],
    )


def test_deleted_runs_and_runs_without_metrics_do_not_count() -> None:
    runs = [("a", "FAILED", "active"), ("b", "FINISHED", "deleted"), ("c", "FINISHED", "active")]
    got = made(database([point(0, 1.0), point(0, 2.0, run="b")], runs))
    assert (got.values("train/loss"), got.facts.finished) == ([1.0], False)


def test_a_database_of_several_runs_is_named_as_one() -> None:
    runs = [("a", "FINISHED", "active"), ("b", "FINISHED", "active")]
    got = made(database([point(0, 1.0), point(0, 2.0, run="b")], runs))
    assert (got.content, got.columns, got.parts) == (Content.UNSUPPORTED, (), ("a", "b"))


def test_each_run_of_a_database_is_read_for_itself() -> None:
    runs = [("a", "FINISHED", "active"), ("b", "FAILED", "active")]
    params = "INSERT INTO params VALUES ('epochs', '3', 'a'), ('epochs', '5', 'b')"
    data = database([point(0, 1.0), point(0, 2.0, run="b"), point(1, 3.0, run="b")], runs, params)
    first, second = (read(MlflowDatabase(), "mlflow.db", data, part=name) for name in "ab")
    assert (first.values("train/loss"), first.parts) == ([1.0], ())
    assert (second.values("train/loss"), second.steps("train/loss")) == ([2.0, 3.0], [0, 1])
    assert first.facts == Facts(finished=True, max_epochs=3)
    assert second.facts == Facts(finished=False, max_epochs=5)


def test_a_run_that_is_not_in_the_database_has_no_points() -> None:
    got = read(MlflowDatabase(), "mlflow.db", database([point(0, 1.0)]), part="gone")
    assert (got.content, got.columns) == (Content.HEADER_ONLY, ())


def test_a_database_without_metrics_holds_nothing() -> None:
    assert made(database([])).content is Content.HEADER_ONLY


def test_cells_that_are_no_numbers_are_no_points() -> None:
    rows = [
        point(0, 1.0),
        ("train/loss", "x", 5, "a", 1, 0),
        ("train/loss", b"\xff", 6, "a", 2, 0),
        ("train/loss", 1.0, "x", "a", 3, 0),
        ("train/loss", 1.0, 8, "a", 2**60, 0),
        ("train/loss", math.inf, 1_700_000_009_000, "a", 9, 0),
    ]
    got = made(database(rows))
    assert (got.steps("train/loss"), got.values("train/loss")) == ([0, 9], [1.0, math.inf])


def test_a_database_with_a_write_ahead_log_beside_it_is_read_without_it() -> None:
    data = bytearray(database([point(0, 1.0)]))
    data[18:20] = b"\2\2"
    assert made(bytes(data)).values("train/loss") == [1.0]


VIEW = """
CREATE TABLE runs (run_uuid, name, status, lifecycle_stage);
CREATE TABLE hidden (key, value, timestamp, run_uuid, step, is_nan);
CREATE VIEW metrics AS {sql};
CREATE TABLE params (key, value, run_uuid);
"""


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT key, value, timestamp, run_uuid, step, is_nan FROM hidden",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
        " SELECT 'loss' key, x value, x timestamp, 'a' run_uuid, x step, 0 is_nan FROM c",
        "SELECT hex(randomblob(900000000)) key, 1 value, 1 timestamp, 'a' run_uuid, 1 step,"
        " 0 is_nan",
    ],
)
def test_sql_in_the_file_is_not_run(sql: str) -> None:
    got = made(database([], schema=VIEW.format(sql=sql)))
    assert [fault.fatal for fault in got.faults] == [True]
    assert got.columns == ()


def test_other_databases_are_not_claimed() -> None:
    data = database([])
    assert not MlflowDatabase().claims("optuna.db", data)
    assert not MlflowDatabase().claims("mlflow.db", b"version https://git-lfs.github.com/spec/v1")


def test_a_file_of_another_shape_is_a_fault() -> None:
    got = read(MlflowDatabase(), "mlflow.db", b"SQLite format 3\0" + b"x" * 5000)
    assert got.codes == [(FaultCode.CORRUPT, True)]
    no_tables = sqlite3.connect(":memory:")
    no_tables.execute("CREATE TABLE t (x)")
    assert read(MlflowDatabase(), "mlflow.db", no_tables.serialize()).codes == [
        (FaultCode.CORRUPT, True)
    ]


def test_damage_is_said_and_never_raised() -> None:
    survives(MlflowDatabase(), "mlflow.db", database([point(n, 1.0 / (n + 1)) for n in range(200)]))
