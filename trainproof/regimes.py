"""The kind of training that the logged columns show: which decides what a loss can tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .model.data import Regime, Role, Series
from .readers.names import word_set

AGENT = word_set("actor critic td bellman pi vf qf qf1 qf2")
"""Parts of a loss that only a policy, or what values its actions, has."""

VALUED = frozenset({"policy", "value"})
"""The same, where both are logged."""

RETURNS = word_set(
    "q_value q_values qvalue qvalues avg_q avg_q_value mean_q mean_q_value average_q q_mean"
)
"""Names of the expected return of an action."""

EXPLORATION = word_set("epsilon eps eps_threshold exploration_rate exploration")
"""Names of the share of random actions, which falls; the epsilon of differential privacy rises."""

RANDOM = 0.3
"""The share of random actions at the start, at least."""


def regime_of(series: Iterable[Series]) -> Regime:
    """Rewards, margins, two sides of a game, an agent's losses; else supervised."""
    members = list(series)
    if any(one.role is Role.REWARD for one in members):
        preference = any(one.tag.removesuffix("s").endswith("margin") for one in members)
        return Regime.PREFERENCE if preference else Regime.REINFORCEMENT
    parts = [one.identity.component or "" for one in members if one.role is Role.LOSS]
    words = {word for part in parts for word in part.split("_")}
    if any(part.startswith("gen") for part in parts) and (
        "critic" in words or any(part.startswith("disc") for part in parts)
    ):
        return Regime.ADVERSARIAL
    agent = words & AGENT or words >= VALUED or any(map(_acts, members))
    return Regime.REINFORCEMENT if agent else Regime.SUPERVISED


def _acts(one: Series) -> bool:
    """Whether a column that is no loss is about actions."""
    if one.role not in (Role.UNKNOWN, Role.OTHER):
        return False
    if one.identity.base in RETURNS:
        return True
    if one.identity.base not in EXPLORATION or not len(one):
        return False
    first, last = float(one.values[0]), float(one.values[-1])
    return 1 >= first >= RANDOM and 0 <= last < first and not np.any(np.diff(one.values) > 0)
