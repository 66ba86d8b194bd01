from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from trainproof.model.data import Direction, Identity, Role
from trainproof.rules.examples import falling, series
from trainproof.rules.shape import (
    GiveBack,
    at_its_best,
    fell,
    first_improved,
    give_back,
    gravest,
    higher_is_better,
    improved,
    multiplied,
    restarts_late,
    tries_rates,
)
from trainproof.rules.statistics import measure

from .curves import flat, learning, noise


def turned() -> np.ndarray:
    """4 to 1 over 300 points, then up to 2.5 over 100."""
    rise = np.linspace(0, 1.5, 100)
    return np.concatenate((learning(300), 1.0 + rise))


def test_both_forms_measure_the_same_rise() -> None:
    values = turned()
    blocks, points = give_back(values, measure(values))
    assert (blocks.form, points.form) == ("blocks", "points")
    assert blocks.best == pytest.approx(1.03, abs=0.05)
    assert points.end == pytest.approx(2.4, abs=0.1)
    assert blocks.share == pytest.approx(0.48, abs=0.05)
    assert 240 < blocks.best_at < 320


def test_the_gravest_form_is_the_one_with_the_greater_share() -> None:
    values = turned()
    found = gravest(values, measure(values), 6)
    assert found is not None
    assert found.share == max(f.share for f in give_back(values, measure(values)))
    assert gravest(learning(400), measure(learning(400)), 6) is None


def test_a_rise_to_four_times_the_best_is_no_wandering() -> None:
    form = GiveBack("points", 1.0, 0, 4.0, 2.0, 3.0, 0.1, 2.0)
    assert form.outran(6)
    assert not replace(form, end=3.9, rise=2.9).outran(6)
    assert replace(form, end=3.9, rise=2.9, wander=0.4).outran(6)
    assert not replace(form, best=-1.0, end=4.0, rise=5.0).outran(6)


def test_a_lucky_stretch_of_a_long_log_is_not_its_best_level() -> None:
    values = flat(600, 2.0, 0.02)
    values[300:305] = 0.5
    assert gravest(values, measure(values), 6) is None
    values[300:330] = 0.5
    assert gravest(values, measure(values), 6) is not None


def test_the_best_step_is_the_lowest_value_at_the_best_level() -> None:
    values = np.concatenate((np.linspace(4, 1, 300), np.linspace(1, 3, 300)))
    found = gravest(values, measure(values), 6)
    assert found is not None
    assert abs(found.best_at - 300) <= 10


def test_share_without_progress_is_infinite_and_without_rise_zero() -> None:
    rising = np.linspace(1, 2, 50)
    assert math.isinf(give_back(rising, measure(rising))[-1].share)
    constant = np.ones(50)
    assert give_back(constant, measure(constant))[-1].share == 0


def test_low_values_around_one_as_high_as_the_end_are_no_level() -> None:
    """The last rows of an object detector at the edge of stability; its noise was small before."""
    end = [0.62, 0.634, 0.522, 0.549, 0.769, 0.468, 0.43, 0.813, 0.328, 0.851, 0.563, 0.728]
    values = np.array([1.5 - 0.0165 * i for i in range(50)] + end)
    assert gravest(values, measure(values), 6.0) is None
    calm = values.copy()
    calm[-6:-3] = 0.43, 0.42, 0.43
    assert gravest(calm, measure(calm), 6.0) is not None


def test_a_rise_within_drift_is_not_significant_without_progress() -> None:
    drift = np.linspace(1.0, 1.01, 400)
    assert not any(form.significant(6) for form in give_back(drift, measure(drift)))
    rise = np.linspace(1.0, 1.5, 400)
    assert any(form.significant(6) for form in give_back(rise, measure(rise)))


def test_short_series_have_the_points_form_only() -> None:
    (form,) = give_back(np.array([3.0, 1.0, 4.0]), measure(np.array([3.0, 1.0, 4.0])))
    assert form.form == "points"
    (form,) = give_back(np.array([3.0]), measure(np.array([3.0])))
    assert (form.best, form.best_at) == (3.0, 0)


def test_a_rise_hidden_by_its_own_noise_shows_among_the_logarithms() -> None:
    values = np.concatenate((flat(5, 2.0), 20.0 * np.exp(0.3 * noise(75, seed=1))))
    assert gravest(values, measure(values), 6) is None
    found = multiplied(values, 6)
    assert found is not None
    assert found.form == "ratios"
    assert (found.best, found.end) == (pytest.approx(1.98, abs=0.1), pytest.approx(20, abs=5))
    assert found.rise == pytest.approx(found.end - found.best)
    assert found.errors > 6


def test_logarithms_say_nothing_of_small_rises_of_negative_curves_and_of_few_points() -> None:
    assert multiplied(np.linspace(1.0, 1.4, 400), 6) is None
    assert multiplied(np.linspace(-1.0, 5.0, 400), 6) is None
    assert multiplied(np.linspace(1.0, 5.0, 19), 6) is None


@pytest.mark.parametrize("count", [7, 20, 60, 400])
def test_fell_needs_trend_size_and_more_than_noise(count: int) -> None:
    assert fell(measure(np.array(falling(count))))
    assert not fell(measure(np.array(falling(count)[::-1])))
    assert not fell(measure(flat(count)))
    assert not fell(measure(np.linspace(1.0, 0.995, count)))


def test_a_fall_by_a_third_may_come_at_once() -> None:
    level = flat(100, 1.0)
    assert fell(measure(np.concatenate((2 * level[:5], level[5:]))))
    assert fell(measure(-np.concatenate((level[:5], 2 * level[5:]))))
    assert not fell(measure(np.concatenate((1.3 * level[:5], level[5:]))))  # less than a third
    assert not fell(measure(np.concatenate((2 * level[:2], level[2:]))))  # two rows are no level
    again = np.concatenate((2 * level[:5], level[5:50], 2 * level[50:55], level[55:]))
    assert not fell(measure(again))


def test_direction_comes_from_the_series() -> None:
    assert higher_is_better(series("loss", [1.0])) is False
    assert higher_is_better(series("eval_accuracy", [1.0])) is True
    unknown = Identity(Role.REWARD, "rewards_rejected")
    assert higher_is_better(series("rewards/rejected", [1.0], identity=unknown)) is None


def test_improved_looks_the_better_way() -> None:
    up, down = [0.1 * i for i in range(1, 11)], [0.1 * i for i in range(10, 0, -1)]
    assert improved(series("eval_accuracy", up))
    assert not improved(series("eval_accuracy", down))
    assert improved(series("loss", down))
    assert not improved(series("loss", [*down[:-1], math.nan]))
    error_rate = Identity(Role.METRIC, "wer", direction=Direction.LOWER)
    assert improved(series("wer", down, identity=error_rate))
    assert not improved(series("x", up, identity=Identity(Role.METRIC, "x")))
    assert first_improved([series("loss", up), series("eval_loss", down)]) is not None


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([5.0, 4.0, 3.0], True),
        ([5.0, 3.0, 3.1], True),
        ([5.0, 3.0, 3.5], False),
        ([3.0, 4.0, 5.0], False),
        ([5.0, 3.0], False),
        ([5.0, 4.0, math.nan], False),
    ],
)
def test_at_its_best_loses_at_most_a_tenth_of_its_progress(values: list[float], kept: bool) -> None:
    steps = range(100, 100 * len(values) + 1, 100)
    assert (at_its_best(series("eval_loss", values, steps), 50) is not None) == kept


def test_at_its_best_must_be_measured_later() -> None:
    one = series("eval_loss", [5.0, 4.0, 3.0], [10, 20, 30])
    assert at_its_best(one, 29) is not None
    assert at_its_best(one, 30) is None


def test_at_its_best_knows_metrics() -> None:
    kept = at_its_best(series("eval_accuracy", [0.2, 0.5, 0.8]), 0)
    assert kept is not None
    assert (kept.first, kept.best, kept.end) == (0.2, 0.8, 0.8)


@pytest.mark.parametrize(
    ("rates", "restarts"),
    [
        ([1e-3 * (1 - i / 100) for i in range(100)], False),
        ([1e-6 * (1 + i) for i in range(100)], False),  # cut during warm-up
        ([1e-3 * (1 - (i % 90) / 90) for i in range(100)], True),
        ([1e-3 * (1 - (i % 40) / 40) for i in range(72)], False),  # the restart is earlier
        ([0.0] * 90 + [1e-3] * 10, True),
    ],
)
def test_restarts_late(rates: list[float], restarts: bool) -> None:
    assert restarts_late(series("learning_rate", rates), 0.2) == restarts


def test_no_rate_is_no_restart() -> None:
    assert not restarts_late(None, 0.2)
    assert not restarts_late(series("learning_rate", [0.0, math.nan, 1.0]), 1.0)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([1e-6 * 1.2**i for i in range(60)], True),
        ([1e-5 + 0.1 * i for i in range(60)], True),  # linear, up to 6
        ([1e-5 * (i + 1) for i in range(200)], False),  # a warmup that was cut short
        ([1e-6 * 1.2**i for i in range(59)] + [1e-6], False),
        ([1e-3 * 1.05**i for i in range(60)], False),
        ([1e-3] * 60, False),
    ],
)
def test_a_rate_that_is_raised_until_training_breaks_is_a_test(
    rates: list[float], expected: bool
) -> None:
    lr = series("learning_rate", rates)
    assert tries_rates(lr) is expected
    assert restarts_late(lr, 0.2) >= expected
