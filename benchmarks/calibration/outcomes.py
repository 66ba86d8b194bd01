"""Was a training healthy? Judged on the third split, which is in no log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum


class Outcome(StrEnum):
    """IMPAIRED: it learned, but less than half as much as the same training without its fault. No
    single log can say how much might have been learned."""

    HEALTHY = "healthy"
    FAULTY = "faulty"
    IMPAIRED = "impaired"
    AMBIGUOUS = "ambiguous"


HEALTHY_GAIN, FAULTY_GAIN = 0.2, 0.03
"""Share of the distance from the first loss to the lowest possible one that a healthy training
must gain, and that a faulty one does not."""

HEALTHY_RETURN, FAULTY_RETURN = 0.25, 0.5
"""Share of the best gain that may be given back, and that is too much. Overfitting is one way."""

FAULTY_RISE = 0.25
"""Relative rise of the loss of a pretrained model that is too much."""

KEPT, LOST = 0.9, 0.5
"""Share of the gain of the same training without the fault: with it a fault did no harm, and below
which it impaired the training."""


def absolute(losses: Sequence[float], floor: float, *, pretrained: bool) -> Outcome:
    """Of a training on its own: losses of the third split from the start to the end."""
    if not all(map(math.isfinite, losses)):
        return Outcome.FAULTY
    if pretrained:
        return _continued(losses)
    best, gained = losses[0] - min(losses), losses[0] - losses[-1]
    distance, returned = losses[0] - floor, best - gained
    if gained < FAULTY_GAIN * distance or returned > FAULTY_RETURN * best:
        return Outcome.FAULTY
    if gained >= HEALTHY_GAIN * distance and returned <= HEALTHY_RETURN * best:
        return Outcome.HEALTHY
    return Outcome.AMBIGUOUS


def _continued(losses: Sequence[float]) -> Outcome:
    """Of a training that began with a trained model: to gain little is healthy, to lose is not."""
    change = losses[-1] - losses[0]
    if change <= 0:
        return Outcome.HEALTHY
    return Outcome.FAULTY if change > FAULTY_RISE * abs(losses[0]) else Outcome.AMBIGUOUS


def relative(losses: Sequence[float], floor: float, control: Sequence[float]) -> Outcome:
    """Of a training with a fault, against the same one without: its control, a healthy one."""
    if absolute(losses, floor, pretrained=False) is Outcome.FAULTY:
        return Outcome.FAULTY
    share = (losses[0] - losses[-1]) / (control[0] - control[-1])
    if share < LOST:
        return Outcome.IMPAIRED
    return Outcome.HEALTHY if share >= KEPT else Outcome.AMBIGUOUS
