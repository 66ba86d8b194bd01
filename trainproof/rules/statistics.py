"""The few shared estimators. All are deterministic and take float64 arrays."""

from __future__ import annotations

import numpy as np

from trainproof.model.data import Floats


def not_a_loss(values: Floats) -> str | None:
    """What a series that is logged as a loss looks like instead, or None.

    Powers of two from 16 up are a mixed-precision loss scale (research: A17; 836 of 836
    published series of that kind, 0 of 1,695 losses); strictly rising integers are a counter.
    """
    finite = values[np.isfinite(values)]
    if len(finite) < 5 or finite.min() < 0:
        return None
    whole = finite == np.floor(finite)
    if not whole.all():
        return None
    if finite.min() >= 16 and bool(np.all(np.frexp(finite)[0] == 0.5)):
        return "a loss scale (every value is a power of two)"
    if bool(np.all(np.diff(finite) > 0)):
        return "a counter (every value is a greater integer)"
    return None
