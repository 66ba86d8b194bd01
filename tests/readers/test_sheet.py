"""Sparse rows to columns, and the bounds on them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, Column, FaultCode
from trainproof.readers.interface import Options
from trainproof.readers.sheet import (
    MAX_COLUMNS,
    MAX_DEPTH,
    MAX_GROUPS,
    MAX_VALUES,
    Row,
    Sheet,
    number,
)
from trainproof.readers.text import FaultLog


def filled(*rows: Row) -> Sheet:
    sheet = Sheet(FaultLog("log"))
    sheet.add(rows, range(1, len(rows) + 1))
    return sheet


def columns(sheet: Sheet, *tags: tuple[str, str]) -> dict[str, Column]:
    return {column.tag: column for column in sheet.columns(Options(tags))}


def test_rows_stay_in_order_whatever_had_to_be_cleaned() -> None:
    rows: list[Row] = [
        {"step": 1, "loss": 4.0},
        {"step": 2, "loss": 3.0, "note": "saved"},
        {"loss": 2.0, "step": 3},
        {"step": 4, "loss": 1.0},
    ]
    loss = columns(filled(*rows))["loss"]
    assert loss.values.tolist() == [4.0, 3.0, 2.0, 1.0]
    assert loss.steps.tolist() == [1, 2, 3, 4]
    assert loss.lines is not None and loss.lines.tolist() == [1, 2, 3, 4]


def test_columns_of_the_same_rows_share_their_places() -> None:
    found = columns(filled(*({"step": i, "loss": 1.0, "lr": 0.1} for i in range(3))))
    assert found["loss"].steps is found["lr"].steps
    assert found["loss"].lines is found["lr"].lines


def test_a_dense_table_with_gaps() -> None:
    sheet = Sheet(FaultLog("log"))
    table = np.array([[1, 2.0, np.nan], [2, np.nan, 0.5], [3, 1.0, 0.25]])
    absent = np.array([[False, False, True], [False, True, False], [False, False, False]])
    sheet.add_table(("step", "loss", "lr"), table, absent, np.array([2, 3, 4]))
    found = columns(sheet)
    assert (found["loss"].steps.tolist(), found["loss"].values.tolist()) == ([1, 3], [2.0, 1.0])
    assert (found["lr"].steps.tolist(), found["lr"].values.tolist()) == ([2, 3], [0.5, 0.25])


@pytest.mark.parametrize("width", [3, 70])
def test_gaps_in_every_pattern(width: int) -> None:
    chance = np.random.default_rng(0)
    table = chance.random((500, width))
    absent = chance.random((500, width)) < 0.5
    names = tuple(f"loss_{i}" for i in range(width))
    sheet = Sheet(FaultLog("log"))
    sheet.add_table(names, table, absent, np.arange(500))
    found = columns(sheet)
    for i, name in enumerate(names):
        assert found[name].values.tolist() == table[~absent[:, i], i].tolist()
        assert found[name].steps.tolist() == np.flatnonzero(~absent[:, i]).tolist()


def test_more_sets_of_keys_than_are_kept_together() -> None:
    rows = [{f"loss_{i % 50}": 1.0, f"lr_{i // 50}": 0.5} for i in range(2 * MAX_GROUPS)]
    found = columns(filled(*rows))
    assert sum(len(column) for column in found.values()) == 4 * MAX_GROUPS
    assert found["loss_7"].steps.tolist() == list(range(7, 2 * MAX_GROUPS, 50))


def test_columns_beyond_the_limit_are_left_out() -> None:
    sheet = filled({"step": 1.0} | {f"loss_{i}": 1.0 for i in range(MAX_COLUMNS + 10)})
    assert len(columns(sheet)) == MAX_COLUMNS
    assert [(fault.code, fault.fatal) for fault in sheet.faults] == [(FaultCode.TOO_LARGE, False)]


def test_values_beyond_the_limit_end_the_reading() -> None:
    sheet = Sheet(FaultLog("log"))
    table = np.zeros((1 << 20, 4))
    names = ("step", "loss", "lr", "acc")
    while not sheet.full:
        sheet.add_table(names, table, None, np.zeros(len(table)))
        assert sheet.rows <= MAX_VALUES
    assert [(fault.code, fault.fatal) for fault in sheet.faults] == [(FaultCode.TOO_LARGE, True)]
    assert len(columns(sheet)["loss"]) * len(names) <= MAX_VALUES


def test_nesting_is_bounded() -> None:
    row: Row = {"loss": 1.0}
    for _ in range(MAX_DEPTH + 5):
        row = {"a": row}
    assert filled({"step": 1}, row).names == ["step"]
    assert filled({"a": {"b": {"loss": 1.0}}}).names == ["a/b/loss"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("50.3%", 50.3),
        ("tensor(0.5)", 0.5),
        ("tensor([0.5], device='cuda:0', grad_fn=<DivBackward0>)", 0.5),
        ("np.float32(0.5)", 0.5),
        ("1.#INF", math.inf),
        ("tensor(a)", None),
        ("tensor(0.5) + 1", None),
        ("max(0.5)", None),
        (" 50 % ", 50.0),
        ("%", None),
        ("5%%", None),
        ("x%", None),
        ("1.5", 1.5),
        ("inf", math.inf),
        (" 3 ", 3.0),
        (7, 7.0),
        (True, 1.0),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        ("1_000", None),
        ("x", None),
        ("", None),
        (None, None),
        ([1], None),
    ],
)
def test_what_is_a_number(value: object, expected: float | None) -> None:
    assert number(value) == expected


@pytest.mark.parametrize("text", ["nan", "tensor(nan)", "1.#QNAN", "-1.#IND00", "-nan(ind)"])
def test_what_is_not_a_number_is_one(text: str) -> None:
    found = number(text)
    assert found is not None
    assert math.isnan(found)


def test_a_step_that_no_integer_holds_does_not_place_points() -> None:
    for step in (0.5, 1e300, math.inf):
        assert columns(filled({"step": step, "loss": 1.0}))["loss"].axis is Axis.INDEX


def test_a_step_column_that_most_rows_lack_gives_way() -> None:
    rows: list[Row] = [{"epoch": i, "loss": 1.0} for i in range(9)]
    found = columns(filled({"step": 500, "epoch": 0, "loss": 2.0}, *rows))
    assert found["loss"].axis is Axis.EPOCH


def test_a_mapped_epoch_places_points() -> None:
    sheet = filled({"round": 3, "loss": 1.0}, {"round": 4, "loss": 0.5})
    loss = columns(sheet, ("epoch", "round"))["loss"]
    assert (loss.axis, loss.steps.tolist()) == (Axis.EPOCH, [3, 4])


def test_rows_without_lines_have_none() -> None:
    sheet = Sheet(FaultLog("log"))
    sheet.add([{"loss": 1.0}], None)
    assert columns(sheet)["loss"].lines is None


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        ({"a": "text"}, "no numeric column"),
        ({"step": 1, "eta": 3.0}, "no column but counters and clocks"),
        ({"accuracy": 0.5}, "no step, no epoch and no training column"),
        ({"clicks": 3, "cost": 0.5}, "no step, no epoch and no training column"),
        ({"id": 7, "label": 1, "pred": 0, "loss": 0.5}, "no step and no epoch, and 'label'"),
        ({"loss": 0.5, "question": "why?"}, "no step and no epoch, and text in 'question'"),
    ],
)
def test_why_rows_are_no_log(row: Row, detail: str) -> None:
    why = filled(row).no_log()
    assert why is not None
    assert (why.content, why.detail.split(":")[0]) == (Content.NOT_A_LOG, detail)


def test_rows_that_are_a_log() -> None:
    for row in ({"step": 1, "strange": 1.0}, {"epoch": 1, "acc": 0.5}, {"loss": 1.0, "time": "x"}):
        assert filled(row).no_log() is None


def test_a_row_may_say_what_its_value_is() -> None:
    rows = [
        {"step": step, "metric": name, "value": value, "run": "a"}
        for step in (1, 2)
        for name, value in (("train/loss", 3.0 / step), ("val_acc", 0.1 * step), ("zorp", 7.0))
    ]
    found = columns(filled(*rows))
    assert found["train/loss"].values.tolist() == [3.0, 1.5]
    assert found["val_acc"].steps.tolist() == [1, 2]
    assert found["value"].values.tolist() == [7.0, 7.0]


def test_an_event_of_a_word_says_which_split_a_row_is_about() -> None:
    rows = [
        {"step": 1, "event": "train", "loss": 3.0},
        {"step": 1, "event": "eval_end", "loss": 3.5},
        {"step": 2, "event": "the validation of the loss begins later", "loss": 2.0},
    ]
    found = columns(filled(*rows))
    assert found["loss"].values.tolist() == [3.0, 2.0]
    assert found["eval_end/loss"].values.tolist() == [3.5]
