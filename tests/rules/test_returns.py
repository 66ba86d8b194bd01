from __future__ import annotations

import numpy as np
import pytest

from trainproof.rules.returns import course, given_back

from .curves import noise


def test_means_of_twenty_blocks() -> None:
    went = course(np.repeat(np.arange(20.0), 3))
    assert (went.start, went.early, went.late, went.level) == (0, 2, 17, 9.5)
    assert went.gain == 15
    assert went.ahead == -19
    assert went.within == pytest.approx(1.0)  # the variance of 0, 1, 2, 3, 4 is 2.5
    assert went.p_rise == pytest.approx(4.1e-19, rel=0.01)
    assert not went.falls


def test_rewards_of_single_episodes_that_win_or_lose_have_a_mean() -> None:
    went = course(np.where(np.random.default_rng(3).random(2000) < 0.7, 1.0, -1.0))
    assert went.level == pytest.approx(0.4, abs=0.05)
    assert not went.at(0.0)
    assert course(np.where(noise(2000) < 0, 1.0, -1.0)).at(0.0)


def test_a_clear_trend_needs_less_size_to_be_a_fall() -> None:
    assert course(1 - np.arange(200) / 1000 + 0.1 * noise(200)).falls
    assert not course(1 - np.arange(200) / 5000 + 0.1 * noise(200)).falls
    assert not course(1 + 0.1 * noise(200)).falls


def test_half_of_a_gain_that_was_lost_was_given_back() -> None:
    risen = np.minimum(np.linspace(0, 20, 100), 10.0)
    lost = given_back(np.concatenate([risen, np.full(100, 2.0)]) + 0.3 * noise(200))
    assert lost is not None
    assert lost.best == pytest.approx(10.0, abs=0.1)
    assert lost.best_at == 50
    assert lost.end == pytest.approx(2.0, abs=0.1)
    assert given_back(np.concatenate([risen, np.full(100, 6.0)]) + 0.3 * noise(200)) is None


def test_few_values_are_judged_by_their_medians() -> None:
    lost = given_back(np.array([0.1, 0.3, 0.5, 0.7, 0.8, 0.8, 0.81, 0.2, 0.15, 0.14, 0.15, 0.14]))
    assert lost is not None
    assert (lost.best, lost.end) == (0.8, 0.14)


def test_noise_gives_nothing_back() -> None:
    assert all(given_back(noise(count, seed)) is None for count in (12, 60) for seed in range(40))
