"""Rules about the parts that training goes on from."""

from __future__ import annotations

import pytest

from tests.rules.judging import judge, level
from trainproof.model.data import RunView
from trainproof.model.outcome import Level, State
from trainproof.model.tensors import Scalar
from trainproof.rules.saved_examples import emptied, half_precision, mismatched, timed


def test_adam_without_its_means_is_told() -> None:
    cell = judge("TP-CKPT-NO-STATE", emptied(step=1000))
    assert level(cell) == (Level.WARN, "")
    assert cell.hits[0].evidence.measured == {"optimizers": 1, "parameters": 2, "step": 1000}


@pytest.mark.parametrize(
    "view",
    [emptied(step=0), emptied(step=9, betas=False), emptied(step=9, states=2)],
    ids=["before the first step", "no betas", "with its means"],
)
def test_an_optimizer_that_need_not_have_a_state_is_silent(view: RunView) -> None:
    assert judge("TP-CKPT-NO-STATE", view).state is not State.FIRED


def test_states_of_parameters_that_no_group_lists_are_told() -> None:
    cell = judge("TP-CKPT-NO-STATE", emptied(step=0, betas=False, states=3, unlisted=1))
    assert level(cell) == (Level.WARN, "unlisted")
    assert cell.hits[0].evidence.measured == {
        "optimizers": 1,
        "parameters": 2,
        "states": 3,
        "unlisted": 1,
    }


def test_means_of_another_shape_are_told() -> None:
    cell = judge("TP-CKPT-STATE-SHAPE", mismatched(shape=(9, 9)))
    assert level(cell) == (Level.WARN, "")
    assert cell.hits[0].evidence.measured == {
        "tensors": 1,
        "bad": 1,
        "shapes": "[9, 9]",
        "model": "model.safetensors",
        "others": 1,
    }


@pytest.mark.parametrize(
    "view",
    [mismatched(shape=(4, 4)), mismatched(shape=(16,)), mismatched((9, 9), dtype="uint8")],
    ids=["the same", "flattened", "quantised weights"],
)
def test_means_that_may_differ_are_silent(view: RunView) -> None:
    assert judge("TP-CKPT-STATE-SHAPE", view).state is not State.FIRED


def test_another_global_step_is_told() -> None:
    cell = judge("TP-CKPT-STEP", timed(step=1000, global_step=500))
    assert level(cell) == (Level.WARN, "")
    measured = cell.hits[0].evidence.measured
    assert (measured["other"], measured["said"]) == ("global_step of trainer_state.json", 500)
    assert (measured["clocks"], measured["bad"]) == (2, 2)


@pytest.mark.parametrize(
    ("epoch", "fires"), [(1000, False), (950, False), (4000, False), (3800, False), (899, True)]
)
def test_a_schedule_may_miss_some_steps_and_count_each_process(epoch: int, fires: bool) -> None:
    cell = judge("TP-CKPT-STEP", timed(step=1000, global_step=1000, last_epoch=epoch))
    assert (cell.state is State.FIRED) == fires


def test_a_schedule_that_waits_for_a_plateau_counts_evaluations() -> None:
    schedule = (Scalar("num_bad_epochs", 0),)
    view = timed(step=1000, global_step=1000, last_epoch=4, schedule=schedule)
    assert judge("TP-CKPT-STEP", view).state is State.CLEAN


def test_fp16_without_its_scaler_is_told() -> None:
    cell = judge("TP-CKPT-NO-SCALER", half_precision(scaler=False))
    assert level(cell) == (Level.INFO, "")
    assert cell.hits[0].evidence.measured == {"directory": "checkpoint-10", "members": 2}


@pytest.mark.parametrize(
    "view",
    [
        half_precision(scaler=True),
        half_precision(scaler=False, fp16=False),
        half_precision(scaler=False, optimizer=False),
    ],
)
def test_a_scaler_that_is_there_or_not_needed_is_silent(view: RunView) -> None:
    assert judge("TP-CKPT-NO-SCALER", view).state is State.CLEAN
