"""Bounds against published values."""

from __future__ import annotations

import pytest

from benchmarks.calibration.statistics import Rate, bootstrap


@pytest.mark.parametrize(
    ("events", "trials", "low", "high"),
    [
        # R: binom.test(k, n)$conf.int
        (0, 10, 0.0, 0.3084971),
        (1, 10, 0.002528579, 0.4450161),
        (5, 10, 0.1870860, 0.8129140),
        (10, 10, 0.6915029, 1.0),
        (4, 20, 0.05733400, 0.4366140),
        (0, 368, 0.0, 0.009974238),
    ],
)
def test_intervals_are_those_of_clopper_and_pearson(
    events: int, trials: int, low: float, high: float
) -> None:
    assert Rate(events, trials).bounds == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize(
    ("events", "trials"), [(0, 368), (1, 555), (2, 720), (3, 874), (4, 1022), (5, 1164)]
)
def test_fewest_healthy_runs_that_bound_a_rate_below_one_percent(events: int, trials: int) -> None:
    assert Rate(events, trials).upper < 0.01 <= Rate(events, trials - 1).upper


def test_nothing_tried_bounds_nothing() -> None:
    assert Rate(0, 0).bounds == (0.0, 1.0)
    assert bootstrap({}) == (0.0, 1.0)


def test_a_bootstrap_by_workload_is_wider_where_one_workload_has_all_events() -> None:
    concentrated = {"a": Rate(20, 100), **{name: Rate(0, 100) for name in "bcde"}}
    even = {name: Rate(4, 100) for name in "abcde"}
    assert bootstrap(even) == (0.04, 0.04)
    low, high = bootstrap(concentrated)
    assert low == 0.0
    assert high == pytest.approx(0.12)
