"""Rules about the parts that training goes on from."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.rules.judging import judge, level
from trainproof.model.data import RunView
from trainproof.model.outcome import Level, State
from trainproof.model.tensors import Group, OptimizerState, Scalar
from trainproof.rules.saved_examples import (
    emptied,
    half_precision,
    mismatched,
    saved,
    tensor,
    timed,
)


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


def test_each_optimizer_has_its_own_betas() -> None:
    """Lightning keeps Adam and SGD without momentum in one file."""
    scalars = (
        Scalar("global_step", 384),
        Scalar("optimizer_states/0/param_groups/0/betas/0", 0.9),
        Scalar("optimizer_states/1/param_groups/0/momentum", 0),
    )

    def view(adam: int, sgd: int) -> RunView:
        states = (
            OptimizerState("optimizer_states/0", 1, 6, adam, 0),
            OptimizerState("optimizer_states/1", 1, 2, sgd, 0),
        )
        return saved(tensor("w"), optimizers=states, scalars=scalars)

    assert judge("TP-CKPT-NO-STATE", view(adam=6, sgd=0)).state is State.CLEAN
    assert judge("TP-CKPT-NO-STATE", view(adam=0, sgd=0)).state is State.FIRED


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


def test_an_adapter_may_hold_what_was_made_of_the_parameters() -> None:
    """P-tuning trains an encoder, and saves the prompt that it gives."""
    view = mismatched(shape=(9, 9))
    assert view.checkpoint is not None
    model, optimizer = view.checkpoint.files
    means = (*optimizer.tensors, tensor("state/1/exp_avg", (9, 4), group=Group.OPTIMIZER))
    for name, fires in (("adapter_model.safetensors", False), ("model.safetensors", True)):
        adapter = replace(model, facts=replace(model.facts, artifact=name))
        (directory,) = view.checkpoint.directories
        files = (adapter, replace(optimizer, tensors=means))
        inside = replace(directory, files=(name, "optimizer.pt"))
        both = replace(view.checkpoint, files=files, directories=(inside,))
        cell = judge("TP-CKPT-STATE-SHAPE", replace(view, checkpoint=both))
        assert (cell.state is State.FIRED) is fires


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
