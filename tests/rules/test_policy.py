from __future__ import annotations

import numpy as np
import pytest

from trainproof.model.data import Facts, Floats, Identity, Regime, Role, RunView, Series
from trainproof.model.outcome import Cell, Level, Skip
from trainproof.rules.examples import series, view

from .curves import learning, noise
from .judging import is_clean, judge, level, measured, prose, skipped

ADVANTAGE = "TP-NO-ADVANTAGE"
CUT = "TP-COMPLETIONS-CUT"
IDLE = "TP-DPO-IDLE"
KL = "TP-KL-RUNAWAY"
ROWS = 80


def tuned(*members: Series) -> RunView:
    return view(*members, regime=Regime.REINFORCEMENT)


def reward(values: Floats) -> Series:
    return series("reward", values.tolist())


def rising() -> Floats:
    return np.linspace(0.1, 0.9, ROWS) + 0.02 * noise(ROWS)


def ending_at(value: float, before: Floats | None = None) -> Floats:
    first = 0.4 + 0.1 * noise(30) if before is None else before
    return np.concatenate([first, np.full(ROWS - len(first), value)])


# --- no advantage ---------------------------------------------------------------------------------


def equal(rewards: Floats | None, spread: Floats | None = None) -> Cell:
    values = ending_at(0.0) if spread is None else spread
    members = [series("reward_std", values.tolist())]
    if rewards is not None:
        members.append(reward(rewards))
    return judge(ADVANTAGE, tuned(*members))


def test_equal_rewards_at_their_lowest_are_a_warning() -> None:
    cell = equal(ending_at(0.0, 0.5 + 0.1 * np.abs(noise(30))))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message.startswith("On 100% of the last 20 rows no completion earned more")


def test_a_reward_that_rose_is_that_of_a_solved_task() -> None:
    assert level(equal(rising())) == (Level.INFO, "solved")


def test_a_reward_at_its_highest_is_that_of_a_solved_task() -> None:
    assert level(equal(ending_at(1.0, np.tile([0.9, 1.0], 25)))) == (Level.INFO, "solved")


def test_a_reward_that_never_differed_is_a_warning() -> None:
    assert level(equal(np.zeros(ROWS))) == (Level.WARN, "unclear")


def test_a_reward_in_between_is_a_warning() -> None:
    assert level(equal(ending_at(0.5, np.tile([0.2, 0.8], 15)))) == (Level.WARN, "unclear")


def test_groups_that_differ_now_and_then_are_clean() -> None:
    spread = np.tile([0.0, 0.0, 0.0, 0.3], 20)
    assert is_clean(equal(np.zeros(ROWS), spread))


def test_the_share_of_equal_groups_is_read_too() -> None:
    share = Identity(Role.OTHER, "frac_reward_zero_std")
    ones = series("frac_reward_zero_std", [1.0] * ROWS, identity=share)
    zeros = series("frac_reward_zero_std", [0.0] * ROWS, identity=share)
    low = reward(ending_at(0.0, np.full(30, 0.5)))
    assert level(judge(ADVANTAGE, tuned(ones, low))) == (Level.WARN, "")
    assert is_clean(judge(ADVANTAGE, tuned(zeros, low)))


def test_without_a_reward_nothing_is_judged() -> None:
    assert skipped(equal(None)) is Skip.NEED_ABSENT


def test_other_spreads_are_left_alone() -> None:
    other = series("loss_std", [0.0] * ROWS, identity=Identity(Role.OTHER, "loss_std"))
    assert skipped(judge(ADVANTAGE, tuned(other, reward(np.zeros(ROWS))))) is Skip.NEED_ABSENT


# --- cut completions ------------------------------------------------------------------------------


def test_completions_that_never_end_are_a_warning() -> None:
    cell = judge(CUT, tuned(series("clipped_ratio", [0.2] * 40 + [1.0] * 40)))
    assert level(cell) == (Level.WARN, "")


def test_a_reward_that_improves_makes_it_a_note() -> None:
    cell = judge(CUT, tuned(series("clipped_ratio", [1.0] * ROWS), reward(rising())))
    assert level(cell) == (Level.INFO, "learning")


def test_completions_that_are_often_cut_are_clean() -> None:
    assert is_clean(judge(CUT, tuned(series("clipped_ratio", [1.0, 0.9] * 40))))


# --- preference tuning ----------------------------------------------------------------------------

LN_2 = 0.6931


def pairs(loss: Floats, margin: Floats, right: Floats | None, max_steps: int | None = None) -> Cell:
    members = [series("loss", loss.tolist()), series("rewards/margins", margin.tolist())]
    if right is not None:
        members.append(series("rewards/accuracies", right.tolist()))
    facts = Facts(max_steps=max_steps)
    return judge(IDLE, view(*members, regime=Regime.PREFERENCE, facts=facts))


def still() -> Floats:
    return LN_2 + 1e-4 * noise(ROWS)


def random() -> Floats:
    return 0.5 + 0.02 * noise(ROWS)


def test_a_policy_that_stays_its_reference_fails() -> None:
    cell = pairs(still(), 1e-4 * noise(ROWS), random())
    assert level(cell) == (Level.FAIL, "")
    assert measured(cell)["accuracy"] == "rewards/accuracies"


def test_without_an_accuracy_it_is_a_warning() -> None:
    assert level(pairs(still(), 1e-4 * noise(ROWS), None)) == (Level.WARN, "unclear")


def test_a_small_beta_with_the_right_signs_is_clean() -> None:
    assert is_clean(pairs(still(), np.full(ROWS, 5e-4), np.full(ROWS, 0.8)))


def test_a_margin_that_grows_is_clean() -> None:
    assert is_clean(pairs(still(), np.linspace(0, 0.01, ROWS), random()))


def test_a_loss_that_falls_late_is_clean() -> None:
    loss = np.concatenate([np.full(50, LN_2), np.linspace(LN_2, 0.4, 30)])
    assert is_clean(pairs(loss, 1e-4 * noise(ROWS), random()))


def test_the_first_part_of_a_run_is_not_judged() -> None:
    cell = pairs(still(), 1e-4 * noise(ROWS), random(), max_steps=1000)
    assert skipped(cell) is Skip.UNDECIDED


def test_without_margins_nothing_is_judged() -> None:
    one = view(series("loss", still().tolist()), regime=Regime.PREFERENCE)
    assert skipped(judge(IDLE, one)) is Skip.NEED_ABSENT


def test_a_binary_classifier_at_ln_2_is_another_rules_business() -> None:
    assert skipped(judge(IDLE, view(series("loss", still().tolist())))) is Skip.REGIME


# --- the divergence from the reference ------------------------------------------------------------


def kl(values: Floats, *more: Series) -> Cell:
    return judge(KL, tuned(series("kl", values.tolist()), *more))


def runaway() -> Floats:
    return np.geomspace(0.05, 60, ROWS)


def test_a_divergence_that_grows_a_thousandfold_is_a_warning() -> None:
    assert level(kl(runaway())) == (Level.WARN, "")


def test_a_reward_that_grew_with_it_makes_it_a_note() -> None:
    assert level(kl(runaway(), reward(rising()))) == (Level.INFO, "paid")


@pytest.mark.parametrize(
    "values",
    [np.geomspace(0.01, 5, ROWS), np.linspace(8, 30, ROWS), 0.05 * noise(ROWS)],
    ids=["small", "always large", "noise around zero"],
)
def test_ordinary_divergences_are_clean(values: Floats) -> None:
    assert is_clean(kl(values))


def test_a_single_burst_is_clean() -> None:
    values = np.full(ROWS, 0.1)
    values[-2] = 500
    assert is_clean(kl(values))


def test_a_divergence_that_stays_negative_is_a_warning() -> None:
    values = np.concatenate([0.1 * np.abs(noise(60)), -20 + noise(20)])
    cell = kl(values)
    assert level(cell) == (Level.WARN, "negative")
    assert measured(cell)["tail"] == 20


def test_slightly_negative_estimates_are_noise() -> None:
    values = np.concatenate([0.1 * np.abs(noise(60)), np.full(20, -0.05)])
    assert is_clean(kl(values))


def test_the_divergence_of_a_variational_code_is_out_of_scope() -> None:
    one = view(series("kl", runaway().tolist()), series("loss", learning(ROWS).tolist()))
    assert skipped(judge(KL, one)) is Skip.REGIME


def test_the_rows_of_a_public_preference_tuning_that_learned_nothing_fail() -> None:
    """Loss 0.6931, margins and accuracies 0.0 on every row, as one issue quotes them."""
    one = view(
        series("loss", [0.6931] * 40),
        series("rewards/margins", [0.0] * 40),
        series("rewards/accuracies", [0.0] * 40),
        regime=Regime.PREFERENCE,
    )
    assert level(judge(IDLE, one)) == (Level.FAIL, "")
