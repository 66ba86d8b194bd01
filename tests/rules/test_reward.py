from __future__ import annotations

import numpy as np

from trainproof.model.data import Floats, Identity, Regime, Role, RunView
from trainproof.model.outcome import Level, Skip
from trainproof.readers.names import classify
from trainproof.rules.examples import series, view

from .curves import noise
from .judging import is_clean, judge, level, prose, skipped


def reward(values: Floats, identity: Identity | None = None) -> RunView:
    one = series("reward", values.tolist(), identity=identity)
    return view(one, regime=Regime.REINFORCEMENT)


def earned(count: int = 300) -> Floats:
    """0 to 100, with the noise of episodes."""
    return 100 * (1 - np.exp(-np.arange(count) / (count / 4))) + 8 * noise(count)


def test_a_reward_that_ends_near_its_start_fails() -> None:
    values = earned()
    values[240:] -= 85
    cell = judge("TP-REWARD-COLLAPSE", reward(values))
    assert level(cell) == (Level.FAIL, "")
    assert prose(cell).message.startswith("reward had risen to 95.64")


def test_dips_that_recover_are_clean() -> None:
    values = earned()
    values[150:170] -= 90
    values[250:262] -= 90
    assert is_clean(judge("TP-REWARD-COLLAPSE", reward(values)))


def test_half_of_a_gain_that_sways_and_is_lost_is_a_warning() -> None:
    values = earned(200) + 10 * np.sin(np.arange(200) * 0.2)
    values[145:] -= 60
    cell = judge("TP-REWARD-COLLAPSE", reward(values))
    assert level(cell) == (Level.WARN, "given-back")
    assert prose(cell).message == (
        "reward gave back most of what it had gained: it had reached 91.88 around step 91 and is"
        " 37.87 at the end."
    )


def test_evaluations_are_judged_too() -> None:
    values = [0.1, 0.3, 0.5, 0.7, 0.8, 0.8, 0.81, 0.2, 0.15, 0.14, 0.15, 0.14]
    one = series("eval/reward", values, identity=classify("eval/reward"))
    cell = judge("TP-REWARD-COLLAPSE", view(one, regime=Regime.REINFORCEMENT))
    assert level(cell) == (Level.WARN, "given-back")


def test_the_first_running_means_of_training_are_of_few_episodes() -> None:
    values = np.array([0.1, 0.3, 0.5, 0.7, 0.8, 0.8, 0.81, 0.2, 0.15, 0.14, 0.15, 0.14])
    assert not judge("TP-REWARD-COLLAPSE", reward(values)).hits


def test_a_fall_over_the_last_block_only_is_not_decided() -> None:
    values = earned()
    values[288:] -= 95
    assert skipped(judge("TP-REWARD-COLLAPSE", reward(values))) is Skip.UNDECIDED


def test_negative_rewards_are_judged_alike() -> None:
    assert is_clean(judge("TP-REWARD-COLLAPSE", reward(earned() - 500)))
    values = earned() - 500
    values[240:] -= 85
    assert level(judge("TP-REWARD-COLLAPSE", reward(values))) == (Level.FAIL, "")


def test_a_reward_that_does_not_rise_gives_no_grounds() -> None:
    assert skipped(judge("TP-REWARD-COLLAPSE", reward(noise(300)))) is Skip.LOW_POWER


def test_the_reward_of_a_rejected_answer_has_no_better_direction() -> None:
    falling = reward(-earned(), Identity(Role.REWARD, "rewards_rejected"))
    assert skipped(judge("TP-REWARD-COLLAPSE", falling)) is Skip.NEED_DEGENERATE


def test_an_entropy_that_never_changes_is_a_warning() -> None:
    one = view(series("entropy", [-0.349651277] * 28))
    cell = judge("TP-POLICY-FROZEN", one)
    assert level(cell) == (Level.WARN, "")
    assert "is -0.349651277 on each of the last 28 rows" in prose(cell).message


def test_an_entropy_of_zero_may_be_the_optimum() -> None:
    one = view(series("entropy", [1.0, 0.5] * 5 + [0.0] * 30))
    assert skipped(judge("TP-POLICY-FROZEN", one)) is Skip.UNDECIDED


def test_a_policy_of_fixed_variance_that_learns_has_one_entropy() -> None:
    rising = series("reward", earned(100).tolist())
    assert is_clean(judge("TP-POLICY-FROZEN", view(series("entropy", [1.4189385] * 100), rising)))


def test_few_printed_digits_hide_a_change() -> None:
    moving = view(series("entropy", [*np.linspace(0.9, 0.007, 60).round(3), *[0.006] * 40]))
    assert skipped(judge("TP-POLICY-FROZEN", moving)) is Skip.UNDECIDED
    assert level(judge("TP-POLICY-FROZEN", view(series("entropy", [0.919] * 40)))) == (
        Level.WARN,
        "",
    )


def test_nineteen_equal_entropies_are_clean() -> None:
    assert is_clean(judge("TP-POLICY-FROZEN", view(series("entropy", [1.0, 0.9] + [0.5] * 19))))
