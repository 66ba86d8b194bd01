"""How a loss and an accuracy move together, and which softmax that shows."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from trainproof.model.data import Floats, Series

from .constants import softmax_twice
from .statistics import MOST_BLOCKS, screen, shared_steps

LEAST_ROWS = 6
_ROUNDING = 0.02
"""How far a printed loss of few cases may lie outside of what it can be."""


class Coupling(msgspec.Struct, frozen=True):
    """A loss and an accuracy on the rows that have both.

    ``total``: their sum, a mean over the last third; ``loss`` and ``accuracy``: its parts.
    ``first``, ``last``: the accuracy at both ends, over at most twenty equal parts. ``moved``:
    standard deviation of the accuracy over these parts. ``scatter``: that of the sum over it.
    ``classes``: the number of classes of which two softmaxes leave that sum, ``implied`` as it
    follows from it. ``within``: whether every loss is one that two softmaxes can leave.
    """

    rows: int
    total: float
    loss: float
    accuracy: float
    first: float
    last: float
    moved: float
    scatter: float
    classes: int
    implied: float
    within: bool

    @property
    def ceiling(self) -> float:
        """The loss of an answer that is certain and wrong; each right one costs 1 less."""
        return softmax_twice(self.classes) + 1

    @property
    def fair(self) -> float:
        """What the same answers cost a plain cross-entropy, each given with a confidence of the
        accuracy and the rest spread evenly: no model needs to be worse."""
        wrong = 1 - self.accuracy
        if not 0 < wrong < 1:
            return 0.0 if wrong <= 0 else math.log(max(1, self.classes - 1))
        spread = wrong * math.log(wrong / (self.classes - 1))
        return -self.accuracy * math.log(self.accuracy) - spread


def coupling(loss: Series, accuracy: Series) -> Coupling | None:
    """None without six shared rows of finite losses and accuracies from 0 to 1.

    Two softmaxes: the second is given probabilities p, so the loss of an example is the logarithm
    of the sum of exp(p), less that of its own class. The first term hardly depends on p: it lies
    between ln C + 1/C (all equal) and ln(e + C - 1) (one certain). Hence loss plus the probability
    of the right class is nearly constant, and so is loss plus accuracy.
    """
    if screen(loss).nonfinite or screen(accuracy).nonfinite:
        return None
    both = shared_steps(loss, accuracy)
    losses, shares = loss.values[both.here], accuracy.values[both.there]
    if len(losses) < LEAST_ROWS or shares.min() < 0 or shares.max() > 1:
        return None
    ending = slice(-max(3, len(losses) // 3), None)
    cost, share = float(losses[ending].mean()), float(shares[ending].mean())
    implied = math.exp(min(cost + share, 700.0)) - math.e + 1
    classes = max(2, round(implied))
    floor = softmax_twice(classes)
    parts = _means(shares)
    moved = float(parts.std())
    return Coupling(
        rows=len(losses),
        total=cost + share,
        loss=cost,
        accuracy=share,
        first=float(parts[0]),
        last=float(parts[-1]),
        moved=moved,
        scatter=float(_means(losses + shares).std()) / moved if moved > 0 else math.inf,
        classes=classes,
        implied=implied,
        within=bool(losses.min() >= floor - _ROUNDING and losses.max() <= floor + 1 + _ROUNDING),
    )


def _means(values: Floats) -> Floats:
    """Over twenty equal parts; the values themselves where they are fewer than forty."""
    if len(values) < 2 * MOST_BLOCKS:
        return values
    edges = np.array([len(values) * i // MOST_BLOCKS for i in range(MOST_BLOCKS)])
    sums: Floats = np.add.reduceat(values, edges)
    return sums / np.diff(np.append(edges, len(values)))
