"""Weights are told from everything that is saved beside them."""

from __future__ import annotations

import pytest

from trainproof.checkpoints.roles import group_of
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
