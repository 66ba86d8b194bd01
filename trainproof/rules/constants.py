"""Values at which a loss stops saying anything, because the code that computes it clamps there."""

from __future__ import annotations

import math

CLAMPS = {
    "-ln(1e-5)": -math.log(1e-5),
    "-ln(1e-6)": -math.log(1e-6),
    "-ln(1e-7)": -math.log(1e-7),
    "-ln(1e-8)": -math.log(1e-8),
    "-ln(1e-10)": -math.log(1e-10),
    "-ln(1e-12)": -math.log(1e-12),
    "-ln(FLT_MIN)": 87.33654,
    "100": 100.0,
}
"""Logarithms of the epsilons that keep a probability from 0: 1e-7 is Keras's, the least normal
float32 is Caffe's, 100 is the bound of PyTorch's binary cross-entropy."""

NEAR = 1e-3
"""Relative distance within which a value sits at one of them."""


def clamp_at(value: float) -> str | None:
    """The name of the clamp constant at which the value sits, if any."""
    found = (name for name, bound in CLAMPS.items() if abs(value - bound) <= NEAR * bound)
    return next(found, None)
