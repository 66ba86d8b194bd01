from __future__ import annotations

import numpy as np
import pytest

from trainproof.model.data import Floats, Identity, Regime, Role, RunView, Series, Split
from trainproof.model.outcome import Level, Skip, Value
from trainproof.readers.names import classify
from trainproof.rules.examples import falling, series, view

from .curves import noise
from .judging import is_clean, judge, level, measured, prose, skipped

REWARD, SAMPLES = "TP-NO-REWARD-GAIN", "TP-NO-SAMPLE-GAIN"
GAIN = 1 - np.exp(-np.arange(200) / 50)
STEPS = range(20, 201, 20)


def named(tag: str, values: Floats | list[float], steps: range | None = None) -> Series:
    return series(tag, np.asarray(values).tolist(), steps, identity=classify(tag))


def run(*members: Series) -> RunView:
    return view(*members, regime=Regime.REINFORCEMENT)


def rewards(values: Floats) -> RunView:
    return run(named("reward", values))


def entropy(first: float, last: float) -> Series:
    return named("entropy", np.linspace(first, last, 200))


FLAT = 20 + 3 * noise(200)


# --- no gain ---------------------------------------------------------------------------------


def test_a_reward_of_a_policy_that_does_not_change_is_a_warning() -> None:
    cell = judge(REWARD, run(named("reward", FLAT), entropy(1.386, 1.384)))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message == (
        "reward is 20.15 over the last quarter of the log, 19.63 over the first: it did not rise,"
        " and entropy shows no change of the policy (1.386 at the start, 1.384 at the end)."
    )


def test_a_divergence_of_nothing_says_that_the_policy_does_not_change() -> None:
    kl = named("kl", 1e-9 * (1 + np.arange(200) % 2))
    assert level(judge(REWARD, run(named("reward", FLAT), kl))) == (Level.WARN, "")


def test_values_that_need_not_move_are_signs_only_where_a_gain_would_have_been_seen() -> None:
    """A policy of fixed variance, and one that is trained without a reference."""
    noisy = named("reward", 0.2 + np.linspace(0, 0.012, 100) + 0.15 * noise(100))
    fixed, none = named("entropy", np.full(100, 1.4189)), named("kl", np.zeros(100))
    assert skipped(judge(REWARD, run(noisy, fixed, none))) is Skip.LOW_POWER
    clear = run(named("reward", FLAT), named("entropy", np.full(200, 1.4189)))
    assert level(judge(REWARD, clear)) == (Level.WARN, "")


def test_the_divergence_of_single_updates_may_be_small() -> None:
    small = named("train/approx_kl", np.full(200, 1e-6))
    assert level(judge(REWARD, run(named("reward", FLAT), small))) == (Level.INFO, "plain")
    once = named("actor/ppo_kl", np.zeros(200))
    assert level(judge(REWARD, run(named("reward", FLAT), once))) == (Level.INFO, "plain")


def test_evaluations_that_are_all_equal_say_that_it_does_not_change() -> None:
    evaluated = named("eval_reward", [19.5625] * 10, STEPS)
    cell = judge(REWARD, run(named("reward", FLAT), evaluated))
    assert level(cell) == (Level.WARN, "")
    assert "eval_reward shows no change of the policy (19.56 at" in prose(cell).message


def test_equal_evaluations_that_are_better_than_the_training_are_no_such_sign() -> None:
    solved = named("eval_reward", [0.97] * 30, range(5, 155, 5))
    trained = named("reward", 0.8 + 0.05 * noise(200))
    assert skipped(judge(REWARD, run(trained, solved))) is Skip.UNDECIDED


def test_a_policy_that_decided_itself_and_earns_no_more_is_a_warning() -> None:
    decided = named("entropy", 0.01 + 1.376 * np.exp(-np.arange(200) / 20))
    cell = judge(REWARD, run(named("reward", FLAT), decided))
    assert level(cell) == (Level.WARN, "decided")
    assert "no gain can be shown, though entropy fell from 1.386" in prose(cell).message


def test_the_entropy_of_a_gaussian_policy_has_no_bottom() -> None:
    cell = judge(REWARD, run(named("reward", FLAT), entropy(0.9, 0.05)))
    assert level(cell) == (Level.INFO, "plain")


def test_while_actions_are_drawn_nothing_is_said() -> None:
    explored = named("charts/epsilon", np.linspace(1, 0.6, 200))
    cell = judge(REWARD, run(named("charts/episodic_return", FLAT), explored))
    assert skipped(cell) is Skip.UNDECIDED
    assert measured(cell)["other"] == "charts/epsilon"


def test_exploration_that_ended_without_a_gain_is_a_warning() -> None:
    explored = named("rollout/exploration_rate", np.clip(np.linspace(2, -1, 200), 0.05, 1))
    cell = judge(REWARD, run(named("rollout/ep_rew_mean", FLAT), explored))
    assert level(cell) == (Level.WARN, "decided")


def test_rows_that_earned_far_more_show_that_there_is_more_to_earn() -> None:
    values = -100 + noise(500)
    values[::60] = 45.0
    cell = judge(REWARD, rewards(values))
    assert level(cell) == (Level.WARN, "lucky")
    assert "though up to 45 was earned" in prose(cell).message


def test_where_nothing_shows_more_to_earn_it_is_a_note() -> None:
    cell = judge(REWARD, rewards(FLAT))
    assert level(cell) == (Level.INFO, "plain")
    assert "a gain of 10% of the level would have been seen" in prose(cell).evidence


def test_rates_of_success_are_judged_alike() -> None:
    rate = named("rollout/success_rate", 0.1 + 0.005 * noise(200))
    still = entropy(1.386, 1.384)
    assert level(judge(REWARD, run(rate, still))) == (Level.WARN, "")


# --- a policy at its best --------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        np.full(200, 500.0),
        np.minimum(500, 500 - 40 * noise(200)),
        np.minimum(1.0, 0.98 + 0.05 * noise(200)),
        np.concatenate([[-5.0, -1.0], -0.15 + 0.02 * noise(198)]),
    ],
    ids=["always 500", "500 at most", "success of 1 at most", "learned in two rows"],
)
def test_a_policy_at_its_best_is_not_judged(values: Floats) -> None:
    settled = entropy(0.6, 0.01)
    assert skipped(judge(REWARD, run(named("reward", values), settled))) is Skip.UNDECIDED


def test_shares_of_which_more_than_half_is_reached_are_not_judged() -> None:
    tuned = run(named("reward", 0.8 + 0.03 * noise(200)), entropy(0.6, 0.1))
    assert skipped(judge(REWARD, tuned)) is Skip.UNDECIDED


@pytest.mark.parametrize("plateau", [3.1, 0.31])
def test_a_tuned_policy_at_its_plateau_is_no_warning(plateau: float) -> None:
    """What its reward is bound by the log does not show, and its entropy still moves a little."""
    values = plateau * (1 + 0.06 * noise(200))
    cell = judge(REWARD, run(named("reward", values), entropy(0.62, 0.55)))
    assert level(cell) == (Level.INFO, "plain")


# --- power, and what is no reward --------------------------------------------------------------


def test_a_slow_rise_in_high_noise_is_clean() -> None:
    """As of a language model tuned with GRPO: 0.2 to 0.32, batches of a few completions."""
    values = 0.2 + np.linspace(0, 0.12, 1000) + 0.15 * noise(1000)
    assert is_clean(judge(REWARD, run(named("reward", values), entropy(0.37, 0.31))))


def test_the_same_cut_after_a_tenth_has_too_little_power() -> None:
    values = 0.2 + np.linspace(0, 0.012, 100) + 0.15 * noise(100)
    cell = judge(REWARD, rewards(values))
    assert skipped(cell) is Skip.LOW_POWER
    assert measured(cell)["excluded"] == pytest.approx(0.55, abs=0.005)


def test_a_rise_that_is_not_beyond_doubt_is_not_called_flat() -> None:
    cell = judge(REWARD, rewards(20 + np.linspace(0, 1.5, 200) + 3 * noise(200)))
    assert skipped(cell) is Skip.LOW_POWER
    assert float(str(measured(cell)["p_rise"])) <= 0.05


def test_few_rows_are_not_judged() -> None:
    short = run(named("reward", FLAT[:30]), named("entropy", np.full(30, 1.386)))
    assert skipped(judge(REWARD, short)) is Skip.LOW_POWER
    assert skipped(judge(REWARD, rewards(FLAT[:19]))) is Skip.NEED_TOO_SHORT


def test_a_log_without_its_start_is_not_judged() -> None:
    late = series("reward", FLAT.tolist(), range(1000, 1200), identity=classify("reward"))
    assert skipped(judge(REWARD, run(late))) is Skip.START_MISSING


def test_rewards_that_are_0_on_average_by_construction_are_not_judged() -> None:
    cell = judge(REWARD, run(named("reward", noise(200)), entropy(1.386, 1.386)))
    assert skipped(cell) is Skip.NEED_DEGENERATE


def test_wins_against_oneself_are_a_half_by_construction() -> None:
    still = entropy(1.386, 1.386)
    even = named("win_rate", 0.5 + 0.05 * noise(200))
    cell = judge(REWARD, run(even, named("reward", noise(200)), still))
    assert skipped(cell) is Skip.NEED_DEGENERATE
    losing = named("win_rate", 0.3 + 0.05 * noise(200))
    cell = judge(REWARD, run(losing, named("reward", noise(200)), still))
    assert level(cell) == (Level.WARN, "")


@pytest.mark.parametrize("tag", ["normalized_return", "rewards/format_reward/mean", "td_error"])
def test_parts_and_other_quantities_are_not_judged(tag: str) -> None:
    assert skipped(judge(REWARD, run(named(tag, FLAT)))) is Skip.NEED_DEGENERATE


def test_a_curriculum_that_moves_is_another_task() -> None:
    harder = named("curriculum_level", np.repeat(np.arange(4.0), 50))
    cell = judge(REWARD, run(named("reward", 30 - np.arange(200) / 10), harder))
    assert skipped(cell) is Skip.UNDECIDED
    assert measured(cell)["other"] == "curriculum_level"


def test_another_reward_that_rose_in_evaluation_makes_it_clean() -> None:
    evaluated = named("eval/mean_reward", [10.0 + i for i in range(10)], STEPS)
    assert is_clean(judge(REWARD, run(named("reward", FLAT), evaluated)))


# --- a fall, and an evaluation that does not follow --------------------------------------------


def test_a_reward_that_sinks_from_its_start_is_a_warning() -> None:
    cell = judge(REWARD, rewards(30 - np.arange(200) / 10 + noise(200)))
    assert level(cell) == (Level.WARN, "fallen")
    assert prose(cell).message == (
        "reward fell: it was 27.43 over the first quarter of the log and 29.62 over its first"
        " twentieth; over the last quarter it is 12.6."
    )


def test_a_fall_in_the_first_rows_is_found() -> None:
    values = np.concatenate([np.full(10, 12.0), 5 + 0.4 * noise(190)])
    assert level(judge(REWARD, rewards(values))) == (Level.WARN, "fallen")


def test_a_fall_after_a_rise_is_found_where_it_ends_lower() -> None:
    risen = 0.9 - 0.6 * np.exp(-np.arange(100) / 5)
    values = np.concatenate([risen, np.full(100, 0.2)]) + 0.03 * noise(200)
    assert level(judge(REWARD, rewards(values))) == (Level.WARN, "fallen")


def test_an_evaluation_that_does_not_follow_the_training_is_a_warning() -> None:
    trained = named("train/reward", 20 + 80 * GAIN + 3 * noise(200))
    stale = named("eval/reward", (19 + noise(5)).tolist(), range(40, 201, 40))
    cell = judge(REWARD, run(trained, stale))
    assert level(cell) == (Level.WARN, "held-out")
    assert prose(cell).message.startswith("eval/reward, measured apart, ends at 18.7")
    assert "while train/reward rose from 2" in prose(cell).message


def test_one_that_is_always_the_same_is_stale_even_half_way_up() -> None:
    trained = named("train/reward", 20 + 80 * GAIN + 3 * noise(200))
    stale = named("eval/reward", [71.03125] * 5, range(40, 201, 40))
    assert level(judge(REWARD, run(trained, stale))) == (Level.WARN, "held-out")


def test_an_evaluation_at_the_level_of_the_training_is_no_fault() -> None:
    """Evaluated without exploration, it may be at its best from the first evaluation on."""
    trained = named("train/reward", 20 + 80 * GAIN + 3 * noise(200))
    best = named("eval/reward", [100.0] * 5, range(40, 201, 40))
    assert is_clean(judge(REWARD, run(trained, best)))


# --- generated samples ---------------------------------------------------------------------------


def game(tag: str, values: list[float], first: int = 5) -> RunView:
    steps = np.linspace(first, 100, len(values)).astype(int).tolist()
    one = series(tag, values, steps, identity=classify(tag))
    return view(one, regime=Regime.ADVERSARIAL)


def test_distances_that_shrink_are_clean() -> None:
    assert is_clean(judge(SAMPLES, game("fid", falling(10, 200.0, 20.0))))


@pytest.mark.parametrize(
    "tag", ["fid", "metrics/fid50k_full", "val/kid", "eval_fvd", "test/sliced_wasserstein"]
)
def test_distances_that_end_where_they_began_are_a_warning(tag: str) -> None:
    cell = judge(SAMPLES, game(tag, [200.0, 203.0, 199.0, 205.0, 204.0, 201.0]))
    assert level(cell) == (Level.WARN, "")


def test_a_score_that_sank_is_worse() -> None:
    sinking = [4.0, 3.5, 3.0, 2.2, 2.1, 2.0]
    cell = judge(SAMPLES, game("inception_score", sinking))
    assert level(cell) == (Level.WARN, "worse")
    assert prose(cell).message == (
        "inception_score got worse: its first value, at step 5, was 4, the median of the last"
        " three is 2.1."
    )
    assert skipped(judge(SAMPLES, game("inception_score", sinking, 20))) is Skip.START_MISSING
    sinking[-3:] = [1.3, 1.2, 1.2]
    assert level(judge(SAMPLES, game("inception_score", sinking, 20))) == (Level.WARN, "worse")


def test_equal_distances_are_a_warning_where_digits_could_differ() -> None:
    cell = judge(SAMPLES, game("fid", [171.4833] * 5))
    assert level(cell) == (Level.WARN, "frozen")
    assert skipped(judge(SAMPLES, game("fid", [0.4] * 5))) is Skip.LOW_POWER


def test_a_distance_that_moves_no_more_is_a_warning() -> None:
    moved = [58.3754, 19.016, 5.9592, 7.0926, 31.2324, 62.2156, 56.0986, 94.1729]
    cell = judge(SAMPLES, game("kid", moved + [11.3843] * 8))
    assert level(cell) == (Level.WARN, "stuck")
    assert prose(cell).message.startswith("kid is 11.3843 on each of its last 8 values, from step")
    assert is_clean(judge(SAMPLES, game("kid", moved + [11.3843] * 7)))


def test_a_gain_that_was_given_back_is_a_warning() -> None:
    lost = [1.92, 0.7, 0.6, 0.5, 30.0, 13.0, 3.2, 2.1, 2.0]
    cell = judge(SAMPLES, game("kid", lost))
    assert level(cell) == (Level.WARN, "given-back")
    assert prose(cell).message == (
        "kid gave back what it had gained: it had reached 0.6, and ends at 2.1; its first value was"
        " 1.92."
    )
    assert is_clean(judge(SAMPLES, game("kid", [*lost[:-3], 1.1, 1.0, 1.0])))
    assert is_clean(judge(SAMPLES, game("kid", [4.0, *lost[1:]])))
    score = [1 / value for value in lost]
    assert level(judge(SAMPLES, game("inception_score", score))) == (Level.WARN, "given-back")


def test_a_first_distance_that_comes_late_may_come_after_the_progress() -> None:
    late = game("fid", [30.0, 31.0, 30.0, 32.0, 31.0, 30.5], first=20)
    assert skipped(judge(SAMPLES, late)) is Skip.START_MISSING


def test_five_distances_are_too_few_to_say_that_nothing_was_gained() -> None:
    few = game("fid", [30.0, 31.0, 30.0, 32.0, 31.0])
    assert skipped(judge(SAMPLES, few)) is Skip.NEED_TOO_SHORT


def test_a_distance_that_sways_is_worse_only_where_it_is_far_worse() -> None:
    swaying = [0.63, 9.0, 3.1, 0.51, 1.9, 0.5, 1.1, 1.3, 1.1, 0.96]
    assert is_clean(judge(SAMPLES, game("fid", swaying)))
    swaying[-3:] = [7.0, 8.0, 6.0]
    assert level(judge(SAMPLES, game("fid", swaying))) == (Level.WARN, "worse")


@pytest.mark.parametrize(
    ("tag", "values"),
    [("D_accuracy", [0.5, 0.6, 0.9, 0.9, 0.9, 0.9]), ("val/mmd", [0.1, 0.0, -0.1, 0.2, 0.1, 0.1])],
)
def test_metrics_of_the_game_and_values_without_a_ratio_are_not_judged(
    tag: str, values: list[float]
) -> None:
    assert skipped(judge(SAMPLES, game(tag, values))) is Skip.NEED_DEGENERATE


@pytest.mark.parametrize("rule", [REWARD, SAMPLES])
def test_supervised_training_has_its_own_rules(rule: str) -> None:
    one = series("accuracy", [0.1] * 50, identity=Identity(Role.METRIC, "success", Split.EVAL))
    assert skipped(judge(rule, view(one))) is Skip.REGIME


def test_thresholds_are_those_of_the_caller() -> None:
    stricter: dict[str, Value] = {"useful": 0.05}
    assert skipped(judge(REWARD, rewards(FLAT), **stricter)) is Skip.LOW_POWER
