"""JSON lines of many writers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, FaultCode
from trainproof.readers.interface import HEAD, Options
from trainproof.readers.jsonl import ENOUGH, JsonLines

from .readings import Readout, read, survives


def lines(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def got(data: bytes, path: str = "log.txt", options: Options | None = None) -> Readout:
    assert JsonLines().claims(path, data[:HEAD])
    return read(JsonLines(), path, data, options)


def line_numbers(out: Readout, tag: str) -> list[int]:
    found = out[tag].lines
    assert found is not None
    numbers: list[int] = found.tolist()
    return numbers


def test_rows_of_different_kinds_share_the_steps() -> None:
    out = got(
        lines(
            {"step": 1, "loss": 2.0, "lr": 0.1},
            {"step": 2, "loss": math.nan, "lr": 0.1},
            {"step": 2, "val_loss": 1.5},
            {"step": 3, "loss": -math.inf},
        )
    )
    assert out.steps("loss") == [1, 2, 3]
    assert [repr(v) for v in out.values("loss")] == ["2.0", "nan", "-inf"]
    assert (out.steps("val_loss"), out.values("val_loss")) == ([2], [1.5])
    assert (line_numbers(out, "loss"), line_numbers(out, "val_loss")) == ([1, 2, 4], [3])
    assert out["loss"].axis is Axis.STEP


def test_detr_and_mae_count_epochs() -> None:
    row = {"train_lr": 1e-4, "train_loss": 2.0, "test_loss": 1.5, "n_parameters": 10}
    data = lines(*({**row, "epoch": i, "test_stats": [1.0, 2.0]} for i in (0, 1, 0, 1)))
    out = got(data)
    assert out["train_loss"].axis is Axis.EPOCH
    assert out.steps("train_loss") == [0, 1, 0, 1]
    assert "test_stats" not in out.tags


def test_rows_without_a_step_take_the_one_before() -> None:
    out = got(lines({"step": 10, "loss": 1.0}, {"val_loss": 0.5}, {"step": 20, "loss": 0.9}))
    assert out.steps("val_loss") == [10]


def test_a_fractional_epoch_does_not_place_points() -> None:
    out = got(lines(*({"epoch": i / 10, "loss": 1.0 / (i + 1)} for i in range(5))))
    assert (out["loss"].axis, out.steps("loss")) == (Axis.INDEX, [0, 1, 2, 3, 4])


def test_many_rows_of_one_epoch_are_numbered() -> None:
    out = got(lines(*({"epoch": i // 5, "loss": 1.0 / (i + 1)} for i in range(10))))
    assert out["loss"].axis is Axis.INDEX


def test_nested_objects_and_numbers_as_text() -> None:
    out = got(
        lines(
            {"step": "1", "train": {"loss": "9.5", "lr": 1e-3}, "tags": ["a"], "ok": None},
            {"step": "2", "train": {"loss": "nan", "lr": 1e-3}},
        )
    )
    assert out.steps("train/loss") == [1, 2]
    assert out.values("train/loss")[0] == 9.5 and math.isnan(out.values("train/loss")[1])
    assert out.tags == ["step", "train/loss", "train/lr"]


def test_a_row_says_which_split_it_is_about() -> None:
    out = got(
        lines(
            {"split": "train", "step": 1, "loss": 2.0},
            {"split": "val", "step": 1, "loss": 1.5, "val_acc": 0.5},
        )
    )
    assert out.values("loss") == [2.0]
    assert out.values("val/loss") == [1.5]
    assert out.values("val_acc") == [0.5]


def openmmlab() -> bytes:
    head = {"env_info": "sys.platform: linux\nPython: 3.8", "seed": 7, "exp_name": "mask.py"}
    rows: list[dict[str, Any]] = []
    for epoch in (1, 2, 3):
        for i in (50, 100):
            loss = 10.0 / (epoch * i)
            rows.append(
                {"mode": "train", "epoch": epoch, "iter": i, "lr": 0.01, "memory": 4000,
                 "data_time": 0.01, "loss": loss, "time": 0.4}
            )  # fmt: skip
        rows.append({"mode": "val", "epoch": epoch, "iter": 625, "lr": 0.01, "bbox_mAP": 0.1})
    return lines(head, *rows)


def test_openmmlab_counts_iterations_within_an_epoch() -> None:
    out = got(openmmlab(), "work_dirs/20200102_030405.log.json")
    assert out.steps("loss") == [50, 100, 150, 200, 250, 300]
    assert out.steps("val/bbox_mAP") == [100, 200, 300]
    assert line_numbers(out, "loss") == [2, 3, 5, 6, 8, 9]
    assert (out.facts.framework, out.facts.seed) == ("openmmlab", 7)


def test_detectron2_writes_lines_into_a_json_file() -> None:
    row = {"data_time": 0.1, "eta_seconds": 9.0, "total_loss": 2.0, "lr": 0.01, "time": 0.3}
    data = lines(*({**row, "iteration": i} for i in (19, 39)), {"bbox/AP": math.nan})
    out = got(data, "output/metrics.json")
    assert out.steps("total_loss") == [19, 39]
    assert out.steps("bbox/AP") == [39]
    assert out.facts.framework == "detectron2"


def test_llamafactory_declares_the_length_of_the_run() -> None:
    row = {"total_steps": 512, "percentage": 1.0, "elapsed_time": "0:00:05", "lr": 1e-4}
    out = got(lines(*({"current_steps": i, "loss": 1.0, **row} for i in (5, 10))))
    assert out.steps("loss") == [5, 10]
    assert (out.facts.framework, out.facts.max_steps) == ("llamafactory", 512)
    predicted = got(lines({"current_steps": 5, **row, "lr": None}, {"current_steps": 10, **row}))
    assert predicted.values("lr") == [1e-4]


def test_counters_alone_are_no_log() -> None:
    row = {"total_steps": 512, "percentage": 1.0, "elapsed_time": "0:00:05"}
    out = got(lines({"current_steps": 5, **row}, {"current_steps": 10, **row}), "log.jsonl")
    assert (out.content, out.columns) == (Content.NOT_A_LOG, ())


def test_a_clock_in_seconds_or_milliseconds_is_kept() -> None:
    seconds = [{"_timestamp": 1.6e9 + i, "_step": i, "loss": 1.0} for i in range(3)]
    walls = got(lines(*seconds))["loss"].walls
    assert walls is not None and walls.tolist() == [1.6e9, 1.6e9 + 1, 1.6e9 + 2]
    milliseconds = [{"timestamp": 1_600_000_000_000 + i, "step": i, "loss": 1.0} for i in (0, 500)]
    walls = got(lines(*milliseconds))["loss"].walls
    assert walls is not None and walls.tolist() == pytest.approx([1.6e9, 1.6e9 + 0.5], abs=1e-6)
    assert (
        got(lines(*({"time": 0.4, "step": i, "loss": 1.0} for i in (0, 1))))["loss"].walls is None
    )


def test_a_broken_line_costs_one_line() -> None:
    rows: Sequence[bytes] = (b'{"step": 1, "loss": 1.0}', b'{"step": 2, "lo', b"Epoch 2 begins",
                             b"", b'{"step": 4, "loss": 0.5}')  # fmt: skip
    out = got(b"\n".join(rows) + b"\n")
    assert out.steps("loss") == [1, 4]
    assert line_numbers(out, "loss") == [1, 5]
    assert [(f.code, f.line, f.fatal) for f in out.faults] == [
        (FaultCode.CORRUPT, 2, False),
        (FaultCode.CORRUPT, 3, False),
    ]


def test_a_cut_last_line_is_told_apart() -> None:
    out = got(lines({"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}) + b'{"step": 3, "loss": 0.')
    assert out.steps("loss") == [1, 2]
    assert [(f.code, f.line, f.fatal) for f in out.faults] == [(FaultCode.TRUNCATED, 3, False)]


def test_a_last_line_without_newline_counts() -> None:
    assert got(lines({"step": 1, "loss": 1.0}).rstrip(b"\n")).steps("loss") == [1]


def test_python_spellings_of_no_number_are_read() -> None:
    out = got(b'{"step": 1, "loss": nan}\n{"step": 2, "loss": inf}\n{"step": 3, "loss": -inf}\n')
    assert [repr(v) for v in out.values("loss")] == ["nan", "inf", "-inf"]
    assert out.faults == ()


def test_utf_16_and_windows_line_ends() -> None:
    text = '{"step": 1, "loss": 1.0}\r\n{"step": 2, "loss": 0.5}\r\n'
    out = got(b"\xff\xfe" + text.encode("utf-16-le"))
    assert (out.steps("loss"), line_numbers(out, "loss")) == ([1, 2], [1, 2])


def test_a_large_log_is_read_in_pieces() -> None:
    count = 120_000
    data = b"".join(b'{"step": %d, "loss": %d.5, "lr": 0.001}\n' % (i, i) for i in range(count))
    out = got(data)
    assert out.steps("loss") == list(range(count))
    assert out.values("loss")[-1] == count - 0.5
    assert line_numbers(out, "loss")[-1] == count


def test_a_data_set_is_no_log_and_is_not_read_to_its_end() -> None:
    records = [{"text": "a sentence", "label": i % 2, "score": 0.5} for i in range(ENOUGH)]
    data = lines(*records) + b"x" * 10_000_000
    out = got(data, "train.jsonl")
    assert out.content is Content.NOT_A_LOG
    assert out.faults == ()


def test_losses_of_single_examples_are_no_log() -> None:
    out = got(lines(*({"prompt": "why?", "loss": 0.5 + i} for i in range(5))))
    assert out.content is Content.NOT_A_LOG


def test_a_structured_logger_may_have_texts_and_no_step() -> None:
    out = got(lines(*({"level": "info", "msg": "train", "loss": 0.5} for _ in range(3))))
    assert (out["loss"].axis, out.steps("loss")) == (Axis.INDEX, [0, 1, 2])


def test_one_record_in_a_json_file_is_a_summary() -> None:
    assert got(lines({"_step": 9, "loss": 1.0}), "summary.json").content is Content.SUMMARY_ONLY
    assert got(lines({"data": [1, 2], "layout": {}}), "plot.json").content is Content.NOT_A_LOG
    assert got(lines({"_step": 9, "loss": 1.0}), "history.jsonl").steps("loss") == [9]


def test_the_step_may_be_mapped() -> None:
    data = lines({"step": 1, "tokens": 100, "loss": 1.0}, {"step": 2, "tokens": 200, "loss": 0.5})
    assert got(data, options=Options((("step", "tokens"),))).steps("loss") == [100, 200]


def test_what_is_claimed() -> None:
    reader = JsonLines()
    assert not reader.claims("log.jsonl", b"")
    assert not reader.claims("a.json", b'{\n  "a": 1\n}\n')
    assert not reader.claims("a.py", b"{'loss': 1}\n")
    assert not reader.claims("a.jsonl", b"{}\n")
    assert reader.claims("a", b'{"step": 1')
    assert reader.claims("a.log.json", b'{"env_info": "' + b"x" * HEAD)
    assert reader.claims("a", b'{"step": 1,\n{"step": 2}\n')


def test_damage_never_raises() -> None:
    data = lines({"step": 1, "loss": 1.0}, {"step": 1, "val": {"loss": "NaN"}}) * 4
    survives(JsonLines(), "log.jsonl", data)
    survives(JsonLines(), "a.log.json", openmmlab())
