"""Histories in JSON documents."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, FaultCode
from trainproof.readers.interface import HEAD
from trainproof.readers.json_document import MAX_DOCUMENT, JsonDocument

from .readings import Readout, read, survives

HISTORY = {"loss": [2.0, 1.0, math.nan], "val_loss": [2.5, 2.0, 1.5], "note": ["a", "b", "c"]}
ROWS = [{"step": 10, "loss": 2.0}, {"step": 20, "loss": 1.0}, {"step": 20, "eval_loss": 1.5}]


def got(document: Any, indent: int | None = 4) -> Readout:
    data = document if isinstance(document, bytes) else json.dumps(document, indent=indent).encode()
    assert JsonDocument().claims("history.json", data[:HEAD])
    return read(JsonDocument(), "history.json", data)


@pytest.mark.parametrize("indent", [None, 4])
def test_the_history_of_keras_is_counted_by_epoch(indent: int | None) -> None:
    out = got(HISTORY, indent)
    assert out.tags == ["loss", "val_loss"]
    assert (out["loss"].axis, out.steps("loss")) == (Axis.INDEX, [0, 1, 2])
    assert out.values("loss")[:2] == [2.0, 1.0] and math.isnan(out.values("loss")[2])
    assert out["loss"].lines is None


def test_a_history_may_be_nested_and_have_its_own_epochs() -> None:
    out = got({"history": {"epoch": [1, 2], "loss": [2.0, 1.0]}, "params": {"epochs": 2}})
    assert (out.steps("history/loss"), out.values("history/loss")) == ([0, 1], [2.0, 1.0])


def test_columns_of_different_lengths_and_gaps() -> None:
    out = got({"epoch": [1, 2, 3], "loss": [3.0, 2.0, 1.0], "val_loss": [2.5, None, 1.5, 1.0]})
    assert out.steps("loss") == [1, 2, 3]
    assert (out.steps("val_loss"), out.values("val_loss")) == ([1, 3, 3], [2.5, 1.5, 1.0])


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_rows(indent: int | None) -> None:
    out = got(ROWS, indent)
    assert (out.steps("loss"), out.steps("eval_loss")) == ([10, 20], [20])
    lines = out["loss"].lines
    assert lines is not None
    assert lines.tolist() == ([1, 1] if indent is None else [2, 6])


def test_a_dumped_log_of_transformers_has_no_summary_row() -> None:
    out = got([*ROWS, {"step": 20, "train_loss": 1.4, "train_runtime": 9.0}])
    assert "train_loss" not in out.tags


def test_a_cut_array_is_read_up_to_the_cut() -> None:
    data = json.dumps(ROWS).encode()
    out = got(data[: data.index(b'"eval_loss": 1.') + 15])
    assert (out.steps("loss"), "eval_loss" in out.tags) == ([10, 20], False)
    assert out.codes == [(FaultCode.TRUNCATED, False)]


def test_a_broken_row_costs_one_row() -> None:
    data = json.dumps([*ROWS, {"step": 30, "loss": 0.5}], indent=1).encode()
    out = got(data.replace(b'"loss": 1.0', b'"loss": 1.0.0'))
    assert (out.steps("loss"), out.steps("eval_loss")) == ([10, 30], [20])
    assert [(fault.code, fault.line) for fault in out.faults] == [(FaultCode.CORRUPT, 6)]


def test_a_cut_history_loses_the_value_that_may_be_cut() -> None:
    out = got(b'{"loss": [2.5, 1.5, 0.75], "val_loss": [2.5, 1.2')
    assert out.values("val_loss") == [2.5]
    assert out.values("loss") == [2.5, 1.5, 0.75]
    assert out.codes == [(FaultCode.TRUNCATED, False)]
    assert got(b'{"loss": [2.5, 1.5').values("loss") == [2.5]
    assert got(b'{"loss": [2.5, 1.5,').values("loss") == [2.5, 1.5]


def test_a_document_that_is_no_json_is_a_fatal_fault() -> None:
    out = got(b'{"loss": [2.5, 1.5, ' + b"1.0, " * 1000 + b'?"val_loss": [2.5]}')
    assert out.codes == [(FaultCode.CORRUPT, True)]
    assert (out.columns, out.content) == ((), None)


def test_results_without_series_are_a_summary() -> None:
    out = got({"epoch": 0.28, "train_loss": 1.24, "train_runtime": 27386.6, "train_samples": 1})
    assert (out.content, out.columns) == (Content.SUMMARY_ONLY, ())


@pytest.mark.parametrize(
    "document",
    [
        {"hidden_size": 768, "dropout": 0.1, "layers": [1, 2, 3], "top_k": 50},
        {"lr": 1e-4, "mixed_precision": True, "lr_scheduler": {"milestones": [1000, 2000]}},
        {"training.loss": {"steps": [1, 2], "timestamps": ["a", "b"], "values": [2.0, 1.0]}},
        {f"w{i}": i for i in range(200)} | {"loss": 7},
        [1, 2, 3],
        [{"prompt": "why?", "label": 1}],
        "text",
    ],
    ids=["model", "training", "sacred", "vocabulary", "numbers", "records", "text"],
)
def test_other_documents_are_not_claimed(document: Any) -> None:
    assert not JsonDocument().claims("x.json", json.dumps(document).encode()[:HEAD])


def test_json_lines_are_not_claimed() -> None:
    assert not JsonDocument().claims("x", b'{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n')


def test_a_document_beyond_the_limit_is_a_fatal_fault() -> None:
    data = b'{"loss": [' + b"1.0," * (MAX_DOCUMENT // 4) + b"1.0]}"
    assert got(data).codes == [(FaultCode.TOO_LARGE, True)]


@pytest.mark.parametrize("document", [HISTORY, ROWS * 5])
def test_damage_never_raises(document: Any) -> None:
    survives(JsonDocument(), "history.json", json.dumps(document, indent=1).encode())
