"""Rates with bounds that hold for few events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.population import clopper_pearson

RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Rate:
    """``events`` of ``trials``."""

    events: int
    trials: int

    @classmethod
    def of(cls, happened: Sequence[bool]) -> Rate:
        return cls(sum(happened), len(happened))

    @property
    def share(self) -> float:
        return self.events / self.trials if self.trials else 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Exact two-sided 95 % interval (Clopper and Pearson 1934)."""
        return clopper_pearson(self.events, self.trials)

    @property
    def upper(self) -> float:
        return self.bounds[1]


def bootstrap(clusters: Mapping[str, Rate], seed: int = 0) -> tuple[float, float]:
    """95 % percentile interval of the pooled rate when whole clusters are drawn with replacement.

    Runs of one workload resemble each other; this says what another choice of workloads might
    have given. With no event anywhere it is 0 to 0: the bound is then the exact interval's.
    """
    counts = np.array([[rate.events, rate.trials] for rate in clusters.values() if rate.trials])
    if not len(counts):
        return 0.0, 1.0
    rng = np.random.default_rng(seed)
    drawn = counts[rng.integers(0, len(counts), (RESAMPLES, len(counts)))].sum(1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return float(low), float(high)
