"""Curves with seeded noise, as published logs show them."""

from __future__ import annotations

import numpy as np

from trainproof.model.data import Floats


def noise(count: int, seed: int = 11) -> Floats:
    return np.random.default_rng(seed).standard_normal(count)


def learning(
    count: int, first: float = 4.0, last: float = 1.0, cv: float = 0.03, seed: int = 11
) -> Floats:
    """A power-law fall with noise proportional to the level, the usual shape of a loss."""
    fall = (1 + np.arange(count) / (0.05 * count)) ** -0.7
    fall = (fall - fall[-1]) / (fall[0] - fall[-1])
    values: Floats = (last + (first - last) * fall) * (1 + cv * noise(count, seed))
    return values


def flat(count: int, level: float = 2.0, cv: float = 0.02, seed: int = 11) -> Floats:
    return level * (1 + cv * noise(count, seed))
