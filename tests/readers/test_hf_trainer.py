"""Trainer states as transformers writes them, and as accidents leave them."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, FaultCode
from trainproof.readers.hf_trainer import HfTrainer
from trainproof.readers.interface import HEAD, Options

from .readings import Readout, read, survives

ROWS: list[dict[str, Any]] = [
    {"epoch": 0.5, "grad_norm": 1.5, "learning_rate": 1e-4, "loss": 2.0, "step": 5},
    {"epoch": 1.0, "grad_norm": math.nan, "learning_rate": 5e-5, "loss": math.inf, "step": 10},
    {"epoch": 1.0, "eval_loss": 1.75, "eval_wer": 0.5, "eval_runtime": 2.5, "step": 10},
    {"epoch": 2.0, "grad_norm": 0.5, "learning_rate": 0.0, "loss": 1.0, "step": 20},
    {"epoch": 2.0, "eval_loss": 1.8, "eval_wer": 0.25, "eval_runtime": 2.5, "step": 20},
    {"epoch": 2.0, "step": 20, "total_flos": 1e15, "train_loss": 1.4, "train_runtime": 9.0},
]


def state(rows: list[dict[str, Any]] = ROWS, **more: Any) -> dict[str, Any]:
    return {
        "best_metric": 0.25,
        "best_model_checkpoint": "out/checkpoint-20",
        "epoch": 2.0,
        "eval_steps": 500,
        "global_step": 20,
        "is_world_process_zero": True,
        "log_history": rows,
        "logging_steps": 5,
        "max_steps": 20,
        "num_train_epochs": 2,
        "stateful_callbacks": {"TrainerControl": {"args": {"should_log": False}}},
        "train_batch_size": 4,
        "trial_params": None,
        **more,
    }


def dumped(content: Mapping[str, Any]) -> bytes:
    """As ``TrainerState.save_to_json`` does."""
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def got(data: bytes, options: Options | None = None) -> Readout:
    assert HfTrainer().claims("any_name.json", data[:HEAD])
    return read(HfTrainer(), "any_name.json", data, options)


def test_each_key_is_a_column_at_its_steps_and_lines() -> None:
    out = got(dumped(state()))
    loss = out["loss"]
    assert loss.axis is Axis.STEP
    assert (loss.steps.tolist(), loss.values.tolist()) == ([5, 10, 20], [2.0, math.inf, 1.0])
    assert loss.lines is not None
    lines = dumped(state()).decode().split("\n")
    assert loss.lines.tolist() == [9, 16, 30]
    assert all(lines[n - 1] == "    {" for n in loss.lines.tolist())
    assert out.steps("eval_loss") == [10, 20]
    assert out.values("learning_rate") == [1e-4, 5e-5, 0.0]
    assert math.isnan(out.values("grad_norm")[1])
    assert out.faults == ()


def test_the_summary_row_adds_no_points() -> None:
    out = got(dumped(state()))
    assert "train_loss" not in out.tags
    assert out.steps("step") == [5, 10, 10, 20, 20]


def test_facts_of_the_state() -> None:
    facts = got(dumped(state())).facts
    assert facts.framework == "transformers"
    assert (facts.max_steps, facts.max_epochs, facts.last_step, facts.last_epoch) == (20, 2, 20, 2)
    assert (facts.logging_steps, facts.batch_size, facts.steps_per_epoch) == (5, 4, 10)
    assert (facts.best_metric, facts.best_checkpoint) == (0.25, "out/checkpoint-20")
    assert (facts.best_metric_name, facts.greater_is_better) == ("eval_wer", False)
    assert facts.finished is True


def test_a_state_that_says_nothing_has_no_facts() -> None:
    quiet = state(ROWS[:2], best_metric=None, best_model_checkpoint=None, max_steps=-1, epoch=None)
    facts = got(dumped(quiet)).facts
    assert (facts.best_metric, facts.best_metric_name, facts.greater_is_better) == (None,) * 3
    assert (facts.max_steps, facts.steps_per_epoch, facts.finished) == (None, None, None)


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_other_layouts_hold_the_same(indent: int | None) -> None:
    data = json.dumps(state(), indent=indent).encode()
    out, usual = got(data), got(dumped(state()))
    assert {c.tag: c.values.tolist().__repr__() for c in out.columns} == {
        c.tag: c.values.tolist().__repr__() for c in usual.columns
    }
    assert out.facts == usual.facts
    lines = data.decode().split("\n")
    assert all("{" in lines[n - 1] for n in out["loss"].lines.tolist())  # type: ignore[union-attr]


def test_a_windows_file_holds_the_same() -> None:
    data = b"\xef\xbb\xbf" + dumped(state()).replace(b"\n", b"\r\n")
    out = got(data)
    assert out.values("loss") == [2.0, math.inf, 1.0]
    assert out["loss"].lines is not None and out["loss"].lines.tolist() == [9, 16, 30]


def long_state(count: int) -> dict[str, Any]:
    return state(
        [{"epoch": i / 100, "loss": 1 / (i + 1), "note": "}{\n", "step": i} for i in range(count)]
    )


def test_a_log_of_many_pieces_is_read_whole() -> None:
    count = 60_000
    data = dumped(long_state(count))
    out = got(data)
    assert out.steps("loss") == list(range(count))
    assert out.values("loss")[-1] == 1 / count
    assert out["loss"].lines is not None
    assert out["loss"].lines.tolist() == [9 + 6 * i for i in range(count)]
    assert out.faults == ()
    assert out.facts.max_steps == 20


def test_rows_with_nested_values_keep_their_lines() -> None:
    rows = [{"loss": 1.0, "step": 1, "x": {"y": 2.0}}, {"loss": 0.5, "step": 2, "x": {"y": 1.0}}]
    out = got(dumped(state(rows)))
    assert out.values("x/y") == [2.0, 1.0]
    assert out["loss"].lines is not None and out["loss"].lines.tolist() == [9, 16]


def test_a_cut_log_is_read_up_to_the_cut() -> None:
    data = dumped(state())
    cut = data[: data.index(b'"step": 20') + 9]
    out = got(cut)
    assert out.steps("loss") == [5, 10]
    assert out.codes == [(FaultCode.TRUNCATED, False)]
    assert out.faults[0].line == cut.count(b"\n") + 1
    assert out.facts.last_step == 20  # it stands before the log
    assert out.facts.max_steps is None


def test_a_log_cut_between_rows_keeps_the_last_whole_row() -> None:
    data = dumped(state())
    cut = data[: data.index(b'"loss": Infinity')]
    cut = cut[: cut.rindex(b"    },") + 5]
    out = got(cut)
    assert out.steps("loss") == [5]
    assert out.codes == [(FaultCode.TRUNCATED, False)]


def test_a_file_cut_behind_the_log_is_read() -> None:
    data = dumped(state())
    out = got(data[: data.index(b'"stateful_callbacks"') + 30])
    assert out.steps("loss") == [5, 10, 20]
    assert out.codes == [(FaultCode.TRUNCATED, False)]
    assert out.facts.max_steps == 20


def test_a_cut_file_of_another_layout_is_read_up_to_the_cut() -> None:
    data = json.dumps(state()).encode()
    out = got(data[: data.index(b'"eval_loss": 1.75')])
    assert out.values("loss") == [2.0, math.inf]
    assert out.codes == [(FaultCode.TRUNCATED, False)]


def test_a_broken_row_costs_one_row() -> None:
    data = dumped(state()).replace(b'"loss": Infinity', b'"loss": Inf"ty')
    out = got(data)
    assert out.steps("loss") == [5, 20]
    assert [(f.code, f.line) for f in out.faults] == [(FaultCode.CORRUPT, 16)]
    assert out["loss"].lines is not None and out["loss"].lines.tolist() == [9, 30]


def test_a_log_without_rows_is_a_header() -> None:
    assert got(dumped(state([]))).content is Content.HEADER_ONLY


def test_the_step_may_be_mapped() -> None:
    rows = [{"loss": 1.0, "step": 1, "tokens": 100}, {"loss": 0.5, "step": 2, "tokens": 200}]
    assert got(dumped(state(rows)), Options((("step", "tokens"),))).steps("loss") == [100, 200]


def test_content_identifies_a_state() -> None:
    reader = HfTrainer()
    assert not reader.claims("trainer_state.json", b'{"a": 1}')
    assert not reader.claims("trainer_state.json", b"version https://git-lfs.github.com/spec/v1\n")
    far = b'{"global_step": 1, "is_world_process_zero": true, "x": "' + b"y" * 5000
    assert reader.claims("x", far[:HEAD])


@pytest.mark.parametrize("indent", [2, None])
def test_damage_never_raises(indent: int | None) -> None:
    survives(HfTrainer(), "trainer_state.json", json.dumps(state(), indent=indent).encode())


def test_the_reader_leaves_the_collector_as_it_was() -> None:
    assert gc.isenabled()
    read(HfTrainer(), "x", dumped(state()))
    assert gc.isenabled()
