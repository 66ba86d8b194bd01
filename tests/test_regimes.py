"""The kind of training that the logged columns show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from trainproof.model.data import Axis, Column, Regime, Series
from trainproof.readers.names import classify
from trainproof.regimes import regime_of


def series(tag: str, values: Sequence[float] = (2.0, 1.0, 1.5)) -> Series:
    steps = np.arange(len(values))
    return Series("log", classify(tag), Column(tag, steps, np.asarray(values), Axis.STEP))


@pytest.mark.parametrize(
    ("tags", "regime"),
    [
        ("loss eval_loss", Regime.SUPERVISED),
        ("loss box_loss cls_loss policy_loss", Regime.SUPERVISED),
        ("loss reward kl", Regime.REINFORCEMENT),
        ("loss rewards/chosen rewards/margins", Regime.PREFERENCE),
        ("loss_gen loss_disc", Regime.ADVERSARIAL),
        ("G_loss D_loss", Regime.ADVERSARIAL),
        ("generator_loss critic_loss", Regime.ADVERSARIAL),
        ("actor_loss critic_loss", Regime.REINFORCEMENT),
        ("loss/critic_1 loss/critic_2", Regime.REINFORCEMENT),
        ("td_loss", Regime.REINFORCEMENT),
        ("Loss/Loss_pi Loss/Loss_vf", Regime.REINFORCEMENT),
        ("losses/policy_loss losses/value_loss", Regime.REINFORCEMENT),
        ("loss mean_q", Regime.REINFORCEMENT),
        ("loss attn/q_norm", Regime.SUPERVISED),
    ],
)
def test_the_names_show_the_regime(tags: str, regime: Regime) -> None:
    assert regime_of(series(tag) for tag in tags.split()) is regime


@pytest.mark.parametrize(
    ("values", "regime"),
    [
        ([1.0, 0.5, 0.05, 0.05], Regime.REINFORCEMENT),
        ([0.5, 1.1, 2.0, 3.1], Regime.SUPERVISED),  # a privacy budget that is spent
        ([8.0, 4.0, 2.0, 2.0], Regime.SUPERVISED),
        ([0.1, 0.1, 0.05, 0.05], Regime.SUPERVISED),
        ([1e-8] * 4, Regime.SUPERVISED),
    ],
)
def test_random_actions_become_rare(values: list[float], regime: Regime) -> None:
    assert regime_of([series("loss", [1.0, 2.0, 3.0, 4.0]), series("epsilon", values)]) is regime
