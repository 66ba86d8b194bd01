"""Estimators against brute force, closed forms and what they must not be moved by."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from trainproof.model.data import Floats
from trainproof.rules.examples import series
from trainproof.rules.statistics import (
    at_least_printed,
    block_edges,
    block_medians,
    counting_error,
    curvature_noise,
    curvature_noises,
    deviation,
    equal_parts,
    falling_p,
    greatest_of,
    higher_p,
    kendall,
    least_change,
    least_of,
    measure,
    median,
    median_of_three,
    noise,
    normal_tail,
    not_a_loss,
    printed_quantum,
    profile,
    rises,
    screen,
    shared_steps,
    spikes,
    stretches,
    tail_at,
    tail_of,
    theil_sen,
    trend,
    wander,
    widths,
)


def array(*values: float) -> Floats:
    return np.array(values, np.float64)


def normal(count: int, seed: int = 7) -> Floats:
    return np.random.default_rng(seed).standard_normal(count)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_median_is_numpys(values: list[float]) -> None:
    assert median(np.array(values)) == pytest.approx(float(np.median(values)), rel=1e-12)


@given(st.lists(st.floats(), min_size=1, max_size=50))
def test_least_and_greatest_are_numpys(values: list[float]) -> None:
    numbers = np.array(values)
    found = [least_of(numbers), greatest_of(numbers)]
    assert repr(found) == repr([float(numbers.min()), float(numbers.max())])  # -0.0 is not 0.0


def test_median_of_nothing_is_nan() -> None:
    assert math.isnan(median(array()))


def test_median_and_deviation_leave_their_values_as_they_are() -> None:
    values = normal(101)
    before = values.copy()
    expected = float(np.median(np.abs(values - np.median(values))))
    assert (median(values), deviation(values)) == (float(np.median(values)), expected)
    assert np.array_equal(values, before)


def test_deviation_is_from_the_median_and_nan_of_nothing() -> None:
    assert deviation(array(1, 2, 3, 10)) == 1
    assert math.isnan(deviation(array()))


def test_noise_is_the_standard_deviation_of_white_noise() -> None:
    assert noise(0.3 * normal(20_000)) == pytest.approx(0.3, rel=0.03)


def test_noise_does_not_see_trend_shift_or_single_spikes() -> None:
    values = 0.1 * normal(5_000)
    plain = noise(values)
    values += np.linspace(50, 0, 5_000)
    values[2_500:] += 30
    values[::100] += 20
    assert noise(values) == pytest.approx(plain, rel=0.1)


def test_noise_of_two_points_is_zero() -> None:
    assert noise(array(1, 5)) == 0


def test_curvature_noise_is_zero_on_a_line_and_sd_on_white_noise() -> None:
    assert curvature_noise(np.linspace(3, 1, 9)) == pytest.approx(0, abs=1e-12)
    assert curvature_noise(2 * normal(20_000)) == pytest.approx(2, rel=0.03)
    assert curvature_noise(array(1, 2, 4)) == 0


@pytest.mark.parametrize(
    ("values", "quantum"),
    [
        ([0.1234, 0.1, 2.0], 1e-4),
        ([0.5, 1.5], 0.1),
        ([3.0, 7.0], 1.0),
        ([1 / 3, 0.5], None),
        ([2e-5, 1.9e-5], 1e-6),
        ([1e-7, 2e-7], 1e-7),
        ([math.nan], None),
        ([1e9], None),
    ],
)
def test_printed_quantum(values: list[float], quantum: float | None) -> None:
    assert printed_quantum(np.array(values)) == quantum


def test_a_step_to_the_next_number_of_half_precision_is_no_spike() -> None:
    values = np.full(400, 2.25)
    values[::7], values[3::50] = 2.265625, 2.234375
    assert not spikes(values, 7).mask.any()
    values[303] = 2.5
    assert np.flatnonzero(spikes(values, 7).mask).tolist() == [303]


@pytest.mark.parametrize(
    ("values", "at", "change"),
    [
        ([2.25, 2.234375, 1.9921875], 2.234375, 2**-6),  # bfloat16
        ([2.25, 2.234375, 0.0113525390625], 0.0113525390625, 2**-14),
        ([2.001953125, 2.00390625, 1.9990234375], 2.001953125, 2**-9),  # float16
        ([2.25, 2.234375, 2.25], 2.25, 1e-6),  # two numbers may be such by chance
        ([2.25, 2.234375, 2.1], 2.25, 1e-6),
        ([3.0, 7.0, 5.0], 5.0, 1.0),
        ([math.pi, math.e, 0.5], 0.5, 0.0),
        ([math.nan], 1.0, 0.0),
    ],
)
def test_least_change_is_the_printed_unit_or_the_spacing_of_half_precision(
    values: list[float], at: float, change: float
) -> None:
    assert least_change(np.array(values), at) == change


def single(*values: float) -> list[float]:
    """The values as they come back from a file that stores them in single precision."""
    return np.array(values, np.float32).astype(np.float64).tolist()


@pytest.mark.parametrize(
    ("values", "quantum"),
    [
        (single(0.0139, 0.0002, 0.0), 1e-4),
        (single(0.71), 0.01),
        (single(1234.5, 99.25), 0.01),
        (single(2.345678), None),  # six decimals at this size: as many as there are numbers
        (single(1 / 3, 0.5), None),
        (single(*np.random.default_rng(0).lognormal(0, 1, 400)), None),
    ],
)
def test_printed_quantum_of_numbers_stored_in_single_precision(
    values: list[float], quantum: float | None
) -> None:
    assert printed_quantum(np.array(values)) == quantum


def test_stretches_finds_runs_and_the_tail() -> None:
    found = stretches(np.array([True, False, True, True, False, True]))
    assert list(found) == [(0, 1), (2, 2), (5, 1)]
    assert (found.longest, found.tail) == (2, 1)


def test_stretches_of_nothing_and_of_everything() -> None:
    assert (stretches(np.zeros(4, np.bool_)).longest, stretches(np.zeros(4, np.bool_)).tail) == (
        0,
        0,
    )
    assert (stretches(np.ones(4, np.bool_)).longest, stretches(np.ones(4, np.bool_)).tail) == (4, 4)


@pytest.mark.parametrize("digits", [0, 2, 4, None])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("sigma", [0.0, 1e-5, 3e-3, 0.2, 7.0])
def test_noise_is_at_least_the_printed_unit(digits: int | None, single: bool, sigma: float) -> None:
    values = 3 + normal(80)
    if digits is not None:
        values = np.round(values, digits)
    if single:
        values = values.astype(np.float32).astype(np.float64)
    assert at_least_printed(sigma, values) == max(sigma, printed_quantum(values) or 0.0)


@given(st.lists(st.booleans(), max_size=30))
def test_the_tail_is_the_stretch_that_reaches_the_end(held: list[bool]) -> None:
    mask = np.array(held, np.bool_)
    assert tail_of(mask) == stretches(mask).tail


@given(st.lists(st.sampled_from([0.0, 1.0, math.nan]), max_size=12))
def test_the_tail_of_a_value_is_that_of_where_it_stands(values: list[float]) -> None:
    numbers = np.array(values, np.float64)
    for value in (0.0, 1.0, math.nan):
        assert tail_at(numbers, value) == tail_of(numbers == value)


@given(st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 2.5, math.inf, math.nan]), max_size=40))
def test_kendall_is_the_sum_over_all_pairs_and_nan_is_a_tie(values: list[float]) -> None:
    pairs = list(itertools.combinations(values, 2))
    expected = sum(a < b for a, b in pairs) - sum(a > b for a, b in pairs)
    assert kendall(np.array(values)) == expected


def test_kendall_counts_rising_minus_falling_pairs() -> None:
    assert kendall(array(1, 2, 3, 4)) == 6
    assert kendall(array(4, 3, 2, 1)) == -6
    assert kendall(array(1, 1, 1)) == 0


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_falling_p_is_the_share_of_all_orders(count: int) -> None:
    scores = [kendall(np.array(order, float)) for order in itertools.permutations(range(count))]
    for s in set(scores):
        share = sum(other <= s for other in scores) / len(scores)
        assert falling_p(s, count) == pytest.approx(share, rel=1e-12)


def test_falling_p_of_seven_falling_points_is_one_in_5040() -> None:
    assert falling_p(-21, 7) == pytest.approx(1 / 5040)


def test_falling_p_beyond_the_exact_range_joins_it() -> None:
    sixty = falling_p(-400, 60)
    approximate = normal_tail(399 / math.sqrt(60 * 59 * 125 / 18))
    assert sixty == pytest.approx(approximate, rel=0.05)
    assert falling_p(-400, 61) > sixty


def test_falling_p_of_less_than_two_points_is_one() -> None:
    assert falling_p(0, 1) == 1


def test_theil_sen_is_the_slope_despite_outliers() -> None:
    values = 3 - 0.5 * np.arange(20.0)
    values[7] = 900
    assert theil_sen(values) == pytest.approx(-0.5)
    assert theil_sen(array(1)) == 0


def test_higher_p_is_the_textbook_normal_approximation() -> None:
    # U = 25, mean 12.5, variance 5 * 5 * 11 / 12
    expected = normal_tail((25 - 12.5 - 0.5) / math.sqrt(25 * 11 / 12))
    assert higher_p(array(1, 2, 3, 4, 5), array(6, 7, 8, 9, 10)) == pytest.approx(expected)


def test_higher_p_is_near_the_exact_share_of_all_splits() -> None:
    pool = array(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    low, high = pool[[0, 1, 2, 4, 6]], pool[[3, 5, 7, 8, 9]]
    observed = high.sum()
    splits = list(itertools.combinations(pool, 5))
    exact = sum(sum(chosen) >= observed for chosen in splits) / len(splits)
    assert higher_p(low, high) == pytest.approx(exact, abs=0.01)


def test_higher_p_corrects_for_ties_and_knows_when_all_are_tied() -> None:
    assert higher_p(array(1, 1, 1), array(1, 1, 1)) == 1
    assert higher_p(array(1, 1, 1, 2), array(2, 2, 2, 1)) < higher_p(array(1, 2), array(2, 1))


def test_higher_p_of_nothing_is_one() -> None:
    assert higher_p(array(), array(1)) == 1


def test_median_of_three_removes_single_points() -> None:
    assert median_of_three(array(1, 9, 1, 1, -9, 1)).tolist() == [1, 1, 1, 1]


def test_blocks_are_equal_at_most_twenty_and_at_least_five_wide() -> None:
    assert block_edges(4) == (0, 4)
    assert block_edges(23) == (0, 5, 11, 17, 23)
    widths = np.diff(block_edges(1_234))
    assert len(widths) == 20
    assert widths.max() - widths.min() <= 1


@pytest.mark.parametrize("count", [1, 4, 23, 40, 60, 99, 100, 120, 1_280, 1_281, 3_000])
def test_block_medians_are_numpys(count: int) -> None:
    values, edges = normal(count), block_edges(count)
    expected = [np.median(values[a:b]) for a, b in itertools.pairwise(edges)]
    assert block_medians(values, edges).tolist() == pytest.approx(expected, rel=1e-12)


def test_parts_of_a_count_differ_by_one_at_most() -> None:
    assert equal_parts(22, 5) == (0, 4, 8, 13, 17, 22)
    assert widths(equal_parts(22, 5)).tolist() == [4, 4, 5, 4, 5]


@pytest.mark.parametrize("count", [1, 19, 60, 100, 500])
def test_a_trend_is_the_part_of_a_profile_without_the_noise(count: int) -> None:
    seen, whole = trend(normal(count)), measure(normal(count))
    assert seen.medians.tolist() == whole.medians.tolist()
    assert (seen.edges, seen.first, seen.last) == (whole.edges, whole.first, whole.last)
    assert (seen.p_fall, seen.p_rise) == (whole.p_fall, whole.p_rise)


@pytest.mark.parametrize(
    ("steps", "expected"), [([5], True), ([1, 2, 9], True), ([1, 2, 2], False), ([3, 1], False)]
)
def test_steps_rise_where_each_is_greater(steps: list[int], expected: bool) -> None:
    assert rises(series("loss", [1.0] * len(steps), steps)) is expected


def test_error_shrinks_with_the_width_of_the_blocks() -> None:
    short = np.median([measure(normal(400, seed)).error for seed in range(20)])
    long = np.median([measure(normal(40_000, seed)).error for seed in range(20)])
    assert long == pytest.approx(short / 10, rel=0.1)


def test_error_is_that_of_the_difference_of_two_block_medians() -> None:
    """Monte Carlo: the spread of last minus first over 400 flat series."""
    rng = np.random.default_rng(3)
    seen = [measure(rng.standard_normal(400)) for _ in range(400)]
    spread = float(np.std([p.last - p.first for p in seen]))
    assert np.median([p.error for p in seen]) == pytest.approx(spread, rel=0.12)


def test_running_averages_inflate_the_error() -> None:
    white = normal(2_000)
    smooth = np.convolve(white, np.ones(20) / 20, "valid")
    assert abs(measure(white).rho) < 0.1
    assert measure(smooth).rho > 0.8
    rng = np.random.default_rng(3)
    seen = [
        measure(np.convolve(rng.standard_normal(800), np.ones(10) / 10, "valid"))
        for _ in range(200)
    ]
    spread = float(np.std([p.last - p.first for p in seen]))
    assert np.median([p.error for p in seen]) >= 0.9 * spread


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([n / 256 for n in (64, 70, 61, 66, 80)], math.sqrt(66 / 256 * 190 / 256 / 256)),
        ([0.0, 0.25, 0.5, 0.75, 1.0], 0.25),
        ([0.21, 0.25, 0.22, 0.3, 0.35], 0.0),  # two decimals, whatever was counted
        ([0.25, 0.5, 0.75, 0.5, 0.25], 0.0),  # three different values are multiples of anything
        ([0.1234, 0.2345, 0.3456, 0.4567, 0.5678], 0.0),
        ([1.25, 0.5, 0.75, 0.25, 0.0], 0.0),  # no share
    ],
)
def test_counting_error_of_a_share_of_few_cases(values: list[float], error: float) -> None:
    assert counting_error(np.array(values)) == pytest.approx(error)


def test_sigma_is_at_least_the_printed_quantum() -> None:
    assert measure(array(*[0.0002, 0.0001] * 30)).sigma >= 0.0001


def test_ends_of_a_short_series_are_medians_of_three() -> None:
    seen = measure(array(9, 8, 7, 6, 5, 4, 3, 2))
    assert (seen.first, seen.last) == (8, 3)


def test_a_negated_profile_is_that_of_the_negated_values() -> None:
    values = np.linspace(0, 3, 90) + np.sin(np.arange(90.0) ** 2)
    turned, other = measure(values).negated, measure(-values)
    for name in ("first", "last", "sigma", "rho", "error", "drift", "p_fall", "p_rise"):
        assert getattr(turned, name) == pytest.approx(getattr(other, name), rel=1e-12)
    assert turned.medians == pytest.approx(other.medians)


def remembering(count: int, rho: float, seed: int = 3) -> Floats:
    """A stationary first-order autoregression of unit variance."""
    shocks = math.sqrt(1 - rho * rho) * np.random.default_rng(seed).standard_normal(count)
    return np.array(list(itertools.accumulate(shocks, lambda x, e: rho * x + e)))


def test_white_noise_wanders_no_further_than_a_point() -> None:
    assert wander(remembering(400, 0.0)) == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize("count", [80, 400])
def test_noise_that_remembers_wanders_further_than_neighbours_show(count: int) -> None:
    values = remembering(count, 0.9)
    assert curvature_noise(values) < 0.4
    assert wander(values) > 0.8


def test_neither_a_trend_nor_a_jump_nor_a_turn_is_wandering() -> None:
    line = np.linspace(0, 100, 200)
    assert wander(line) == pytest.approx(0, abs=1e-9)
    assert wander(np.abs(line - 50)) == pytest.approx(0, abs=1e-9)
    assert wander(np.where(line < 50, 0.0, 10.0)) == 0


@pytest.mark.parametrize("count", [3, 15, 16, 40, 99, 300])
def test_levels_stray_by_the_greatest_curvature_noise_up_to_an_eighth(count: int) -> None:
    values = np.cumsum(normal(count))
    lags = [lag for lag in (1, 2, 3, 4, 6, 9, 13, 19, 28) if lag == 1 or lag * 8 <= count]
    noises = [curvature_noise(values, lag) for lag in lags]
    assert curvature_noises(values) == noises
    most, at = max(noises), lags[noises.index(max(noises))]
    power = min(0.5, math.log(most / noises[0]) / math.log(at)) if at > 1 else 0.0
    assert wander(values) == most * max(1.0, count / 3 / at) ** power


def test_three_values_cannot_wander() -> None:
    assert wander(array(1, 2, 1)) == 0


def test_levels_drift_where_blocks_remember_each_other() -> None:
    white, slow = measure(remembering(2000, 0.0)), measure(remembering(2000, 0.99))
    assert white.drift < 0.4
    assert slow.drift > 0.7
    assert slow.doubt >= slow.drift / 2
    assert white.doubt == white.error
    assert measure(array(*range(19))).drift == 0


def test_a_profile_is_made_once_and_forgotten_with_its_series() -> None:
    one = series("loss", [1.0, 2.0, 3.0])
    assert profile(one) is profile(one)
    assert profile(series("loss", [1.0, 2.0, 3.0])) is not profile(one)


def test_what_takes_the_place_of_a_series_has_a_profile_of_its_own() -> None:
    one = series("loss", [1.0, 2.0, 3.0])
    before = profile(one)
    other = replace(one, column=replace(one.column, values=array(3, 2, 1)))
    assert (profile(other).first, profile(other).values.tolist()) == (2, [3, 2, 1])
    assert profile(one) is before


def test_huge_values_overflow_silently() -> None:
    seen = profile(series("loss", [1e308, -1e308] * 20))
    assert not seen.error < math.inf


def test_spikes_compares_with_the_hundred_rows_before() -> None:
    values = 1 + 0.01 * normal(400)
    values[250:253] = 2
    found = spikes(values, 7)
    assert np.flatnonzero(found.mask).tolist() == [250, 251, 252]
    assert found.level(250) == pytest.approx(1, abs=0.01)


def test_spikes_does_not_judge_the_first_hundred_rows() -> None:
    values = 1 + 0.01 * normal(150)
    values[50:60] = 9
    assert not spikes(values, 7).mask.any()


def test_spikes_of_a_constant_needs_a_visible_rise() -> None:
    values = np.ones(300)
    values[200] = 1.0001
    assert not spikes(values, 7).mask.any()


def test_shared_steps_pairs_equal_steps_only() -> None:
    one = series("loss", [1.0, 2.0, 3.0], [10, 20, 30])
    other = series("grad_norm", [7.0, 8.0, 9.0], [5, 20, 40])
    both = shared_steps(one, other)
    assert (both.here.tolist(), both.there.tolist()) == ([1], [1])


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([65536.0, 32768.0, 32768.0, 16384.0, 8192.0], "scale"),
        ([1.0, 2.0, 5.0, 6.0, 9.0], "counter"),
    ],
)
def test_scales_and_counters_are_no_losses(values: list[float], word: str) -> None:
    assert word in (not_a_loss(np.array(values)) or "")


@pytest.mark.parametrize(
    "values",
    [
        [4.0, 2.0, 1.0, 1.0, 1.0, 1.0],  # powers of two below 16
        [64.0, 32.0, 31.5, 30.0, 29.0],
        [9.0, 8.0, 7.0, 6.0, 5.0],
        [-1.0, 2.0, 3.0, 4.0, 5.0],
        [16.0, 32.0],
    ],
)
def test_losses_are_losses(values: list[float]) -> None:
    assert not_a_loss(np.array(values)) is None


def test_screen_counts_what_is_not_finite_and_looks_at_losses_only() -> None:
    scale = [65536.0, 32768.0, 32768.0, 16384.0, 8192.0, math.nan, math.inf]
    assert screen(series("loss", scale)).nonfinite == 2
    assert screen(series("loss", scale)).looks_like is not None
    assert screen(series("grad_norm", scale)).looks_like is None
