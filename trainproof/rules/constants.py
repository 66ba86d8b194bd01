"""Values at which a loss stops saying anything, because the code that computes it clamps there."""

from __future__ import annotations

import math
from functools import lru_cache

LEAST_FLOAT = "-ln(FLT_MIN)"

CLAMPS = {
    "-ln(1e-5)": -math.log(1e-5),
    "-ln(1e-6)": -math.log(1e-6),
    "-ln(1e-7)": -math.log(1e-7),
    "-ln(1e-8)": -math.log(1e-8),
    "-ln(1e-10)": -math.log(1e-10),
    "-ln(1e-12)": -math.log(1e-12),
    LEAST_FLOAT: 87.33654,
    "100": 100.0,
}
"""Logarithms of the epsilons that keep a probability from 0: 1e-7 is Keras's, the least normal
float32 is Caffe's, 100 is the bound of PyTorch's binary cross-entropy."""

NEAR = 1e-3
"""Relative distance within which a value sits at one of them."""


EXACTLY = 2e-5
"""Relative distance at which a printed value is one of them: 16.118 is -ln(1e-7)."""


def clamp_at(value: float, near: float = NEAR) -> str | None:
    """The name of the clamp constant at which the value sits, if any."""
    if value < _FAR_BELOW:  # as most losses are
        return None
    found = (name for name, bound in CLAMPS.items() if abs(value - bound) <= near * bound)
    return next(found, None)


_FAR_BELOW = min(CLAMPS.values()) / 2


@lru_cache(maxsize=64)
def softmax_twice(classes: int) -> float:
    """The least cross-entropy of a softmax that is fed probabilities: they differ by at most 1.

    0.3133 for 2 classes, 1.4612 for 10, 5.9095 for 1,000.
    """
    return math.log(math.e + classes - 1) - 1
