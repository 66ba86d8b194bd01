from __future__ import annotations

import math

import numpy as np
import pytest

from trainproof.model.data import Floats
from trainproof.rules.quarters import Ends, Relapse, ends_of, relapse
from trainproof.rules.statistics import measure

from .curves import flat, learning, noise


def both(values: Floats) -> Ends:
    found = ends_of(values, measure(values))
    assert found is not None
    return found


def relapsed(values: Floats) -> Relapse:
    found = relapse(values, measure(values))
    assert found is not None
    return found


@pytest.mark.parametrize("rows", [0, 39])
def test_few_rows_have_no_quarters(rows: int) -> None:
    values = np.ones(max(1, rows))
    assert ends_of(values, measure(values)) is None
    assert relapse(values, measure(values)) is None


def test_ends_are_medians_of_quarters() -> None:
    values = np.repeat([4.0, 3.0, 2.0, 1.0], 10)
    found = both(values)
    assert (found.first, found.last, found.head, found.rest) == (4.0, 1.0, 4.0, 2.0)


@pytest.mark.parametrize(("cv", "most"), [(0.02, 0.02), (0.1, 0.06)])
def test_the_greatest_fall_left_possible_grows_with_the_noise(cv: float, most: float) -> None:
    assert both(flat(200, cv=cv)).most < most


def test_the_error_is_that_of_the_medians_of_two_quarters() -> None:
    values = flat(400, cv=0.1)
    seen = measure(values)
    assert both(values).error == pytest.approx(math.sqrt(2) * 1.2533 * seen.sigma / 10)


def test_a_running_average_remembers_and_strays() -> None:
    smooth = np.convolve(flat(500, cv=0.6), np.ones(100) / 100, "valid")
    assert both(smooth).most > 0.05


@pytest.mark.parametrize("first", [[2.0, 1.6, 1.3], [1.5, 1.0, 1.0]])
def test_first_rows_above_the_others_show_what_was_learned_at_once(first: list[float]) -> None:
    values = np.concatenate([first, 1 + 0.02 * noise(100)])
    assert both(values).began_higher(0.02, 0.02)


def test_first_rows_within_the_noise_do_not() -> None:
    values = flat(200)
    assert not both(values).began_higher(measure(values).sigma, 0.02)


def test_a_level_of_zero_leaves_everything_possible() -> None:
    assert both(np.zeros(40)).most == math.inf


def test_a_relapse_is_from_the_lowest_quarter_to_the_last() -> None:
    values = np.concatenate([learning(100, 3, 1, cv=0.3), 2 * (1 + 0.3 * noise(100, seed=3))])
    found = relapsed(values)
    assert found.p < 1e-5
    assert 0.9 < found.best < 1.3
    assert 1.8 < found.end < 2.2
    assert 0.4 < found.share < 1.2
    assert found.best_at == 60


@pytest.mark.parametrize("seed", range(12))
def test_noise_is_no_relapse(seed: int) -> None:
    assert relapsed(flat(200, cv=0.5, seed=seed)).p > 1e-4


def test_rows_that_remember_each_other_are_thinned_before_they_are_ranked() -> None:
    steps = np.repeat([2.0, 1.0, 1.0, 1.5], 50) + 0.2 * noise(200)
    smooth = np.convolve(steps, np.ones(10) / 10, "valid")
    assert relapsed(steps).p < 1e-12 < relapsed(smooth).p


def test_what_never_fell_gave_everything_back() -> None:
    assert relapsed(np.linspace(1, 2, 80)).share == math.inf
