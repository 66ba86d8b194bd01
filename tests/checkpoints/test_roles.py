"""Weights are told from everything that is saved beside them."""

from __future__ import annotations

import pytest

from trainproof.checkpoints.roles import group_of, names_a_model
from trainproof.model.tensors import Group


@pytest.mark.parametrize(
    ("name", "artifact", "group"),
    [
        ("fc.weight", "model.pt", Group.MODEL),
        ("model/optimizer_head.weight", "model.pt", Group.MODEL),
        ("state_dict/ema.decay", "last.ckpt", Group.MODEL),
        ("optimizer/state/0/exp_avg", "last.pt", Group.OPTIMIZER),
        ("optimizer_states/0/state/0/exp_avg", "last.ckpt", Group.OPTIMIZER),
        ("state/0/exp_avg", "last.pt", Group.OPTIMIZER),
        ("state/0/exp_avg", "c/checkpoint-5/optimizer.pt", Group.OPTIMIZER),
        ("x/0", "g/zero_pp_rank_0_mp_rank_00_optim_states.pt", Group.OPTIMIZER),
        ("opt_state/0/mu/dense/kernel", "10/_METADATA", Group.OPTIMIZER),
        ("ema_state_dict/fc.weight", "last.pt", Group.AVERAGE),
        ("model_ema/fc.weight", "last.pt", Group.AVERAGE),
        ("cpu", "checkpoint-5/rng_state.pth", Group.STATE),
        ("callbacks/x/best", "last.ckpt", Group.STATE),
        ("rng", "last.pt", Group.STATE),
    ],
)
def test_the_part_of_a_training_that_a_tensor_belongs_to(
    name: str, artifact: str, group: Group
) -> None:
    assert group_of(name, artifact) is group


@pytest.mark.parametrize(
    "names",
    [
        ["model/fc.weight", "step"],
        ["h.0.attn.in_proj_weight"],
        ["lstm.weight_ih_l0_reverse"],
        ["layer.qweight"],
        ["unet.lora_A"],
        ["params/Dense_0/kernel"],
        ["model_weights/dense/kernel:0"],
        ["weight", "bias"],
    ],
)
def test_parameters_are_told_by_the_names_that_layers_give_them(names: list[str]) -> None:
    assert names_a_model(names)


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["x", "y"],
        ["0", "1/edge_index", "1/edge_weight"],
        ["weight"],
        ["images/cat.jpg", "images/dog.jpg"],
        ["latents_1x64x64_float32", "original_size"],
    ],
)
def test_names_of_data_are_those_of_no_model(names: list[str]) -> None:
    assert not names_a_model(names)
