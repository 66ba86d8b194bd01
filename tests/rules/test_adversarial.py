from __future__ import annotations

import math

import numpy as np

from trainproof.model.data import Direction, Floats, Identity, Regime, Role, RunView, Series
from trainproof.model.outcome import Level, Skip
from trainproof.rules.examples import series, view

from .curves import learning, noise
from .judging import is_clean, judge, level, measured, prose, skipped

WON = "TP-DISCRIMINATOR-WON"
STILL = "TP-DISCRIMINATOR-STILL"
LOST = "TP-TARGET-LOST"


def part(name: str, values: Floats) -> Series:
    identity = Identity(Role.LOSS, f"loss_{name}", component=name, direction=Direction.LOWER)
    return series(f"loss_{name}", values.tolist(), identity=identity)


def game(disc: Floats, gen: Floats, *more: Series) -> RunView:
    return view(part("disc", disc), part("gen", gen), *more, regime=Regime.ADVERSARIAL)


def alive(count: int = 300, level: float = 1.2, seed: int = 3) -> Floats:
    return level * (1 + 0.1 * noise(count, seed))


def climbing(count: int = 300) -> Floats:
    return np.linspace(1, 12, count) + 0.3 * noise(count, 4)


def sinking(count: int = 300) -> Floats:
    return 1.3 * np.exp(-np.arange(count) / 20) * (1 + 0.1 * np.sin(np.arange(count)))


# --- who wins ------------------------------------------------------------------------------------


def test_a_discriminator_that_makes_no_error_is_a_warning() -> None:
    cell = judge(WON, game(sinking(), climbing()))
    assert level(cell) == (Level.WARN, "")
    assert "while loss_gen rose from 1.302 to 11.82" in prose(cell).message


def test_both_sides_in_the_game_give_grounds() -> None:
    assert is_clean(judge(WON, game(alive(), alive(seed=5))))


def test_a_generator_whose_loss_drifts_up_a_little_is_still_in_the_game() -> None:
    assert is_clean(judge(WON, game(alive(), alive(seed=5) * np.linspace(1, 1.4, 300))))


def test_a_loss_near_zero_for_a_while_is_no_win() -> None:
    values = alive()
    values[100:140] = 1e-5
    assert is_clean(judge(WON, game(values, alive(seed=5))))


def test_a_discriminator_at_zero_whose_generator_does_not_lose_is_not_decided() -> None:
    assert skipped(judge(WON, game(sinking(), alive(seed=5)))) is Skip.UNDECIDED


def test_a_critic_that_is_ever_negative_is_not_judged() -> None:
    """Wasserstein losses that settle at 0 have converged or died: they cannot tell."""
    critic = 0.4 * np.exp(-np.arange(300) / 40) * noise(300)
    assert skipped(judge(WON, game(critic, alive(seed=5)))) is Skip.UNDECIDED


def test_an_exact_zero_is_a_hinge_without_violations_or_rounding() -> None:
    values = alive()
    values[200:] = 0
    assert skipped(judge(WON, game(values, climbing()))) is Skip.UNDECIDED


def test_a_loss_that_a_clamp_holds_is_a_warning_where_the_generator_loses() -> None:
    values = -math.log(1e-5) + 0.2 * np.exp(-np.arange(320) / 60)
    cell = judge(WON, game(values, climbing(320)))
    assert level(cell) == (Level.WARN, "clamped")
    assert measured(cell)["clamp"] == "-ln(1e-5)"


def test_a_loss_that_a_clamp_holds_gives_no_grounds() -> None:
    values = -math.log(1e-5) * (1 + 1e-5 * noise(300))
    assert skipped(judge(WON, game(values, alive(seed=5)))) is Skip.UNDECIDED


def test_a_discriminator_that_cannot_tell_is_a_note_and_no_grounds() -> None:
    cell = judge(WON, game(2 * math.log(2) + 0.001 * noise(300), alive(seed=5)))
    assert level(cell) == (Level.INFO, "balanced")


def test_a_loss_that_stands_still_gives_no_grounds() -> None:
    assert skipped(judge(WON, game(np.full(300, 0.9), alive(seed=5)))) is Skip.UNDECIDED


def test_a_generator_at_three_times_its_start_gives_no_grounds() -> None:
    gen = alive(seed=5) * np.linspace(1, 4, 300)
    assert skipped(judge(WON, game(alive(), gen))) is Skip.UNDECIDED


def test_a_generator_that_is_not_a_number_gives_no_grounds() -> None:
    gen = alive(seed=5)
    gen[250:] = np.nan
    assert skipped(judge(WON, game(alive(), gen))) is Skip.UNDECIDED


def test_a_discriminator_alone_gives_no_grounds() -> None:
    one = view(part("disc", alive()), regime=Regime.ADVERSARIAL)
    assert skipped(judge(WON, one)) is Skip.NEED_ABSENT


def test_fewer_than_fifty_rows_are_not_judged() -> None:
    assert skipped(judge(WON, game(alive(49), alive(49)))) is Skip.NEED_TOO_SHORT


def test_the_generators_pixel_loss_is_no_side_of_the_game() -> None:
    one = view(part("disc", sinking()), part("gen_l1", climbing()), regime=Regime.ADVERSARIAL)
    assert skipped(judge(WON, one)) is Skip.NEED_ABSENT


# --- the part that compares with a target ---------------------------------------------------------


def test_a_spectrum_that_gets_better_gives_grounds() -> None:
    mel = part("mel", learning(200, 20, 12))
    assert is_clean(judge(LOST, game(alive(200), alive(200, seed=5), mel)))


def test_a_spectrum_that_gets_worse_again_is_a_warning() -> None:
    values = np.concatenate([learning(150, 20, 12), 12 + np.linspace(0, 7, 100) + noise(100) / 5])
    cell = judge(LOST, game(alive(250), alive(250, seed=5), part("mel", values)))
    assert level(cell) == (Level.WARN, "")


def test_noise_around_one_level_gives_no_grounds() -> None:
    mel = part("mel", 15 + noise(200))
    assert skipped(judge(LOST, game(alive(200), alive(200, seed=5), mel))) is Skip.LOW_POWER


def test_feature_matching_is_no_target() -> None:
    cell = judge(LOST, game(alive(), alive(seed=5), part("feat", climbing())))
    assert skipped(cell) is Skip.NEED_ABSENT


def test_a_part_of_a_loss_without_a_discriminator_is_left_to_the_total() -> None:
    assert skipped(judge(LOST, view(part("recon", learning(200))))) is Skip.NEED_ABSENT


# --- TP-DISCRIMINATOR-STILL ---------------------------------------------------------------------


def still(values: Floats) -> RunView:
    return game(values, alive(len(values)))


def test_a_discriminator_that_answers_all_the_same_is_a_warning() -> None:
    values = alive(200)
    values[100:150] = 2.0
    cell = judge(STILL, still(values))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message == "loss_disc is 2 on 50 of the last 100 rows."
    values[149] = 2.1
    assert is_clean(judge(STILL, still(values)))


def test_a_discriminator_at_exactly_zero_is_not_judged() -> None:
    assert skipped(judge(STILL, still(np.append(alive(100), np.zeros(100))))) is Skip.UNDECIDED


def test_two_digits_make_equal_losses_by_rounding() -> None:
    assert skipped(judge(STILL, still(np.round(alive(200) / 40, 2)))) is Skip.LOW_POWER
