"""A loop of one's own that is stopped when it diverges. Needs numpy alone:

python examples/guardian/own_loop.py [DIRECTORY]
"""

from __future__ import annotations

import logging
import sys

import numpy as np

from trainproof.guardian import Guardian


def main(directory: str | None = None) -> Guardian:
    """Linear regression by gradient descent; somebody raises the learning rate by too much at step
    400. The report is written into ``directory``."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(512, 16))
    targets = inputs @ random.normal(size=16) + 0.1 * random.normal(size=512)
    weights = np.zeros(16)
    guardian = Guardian(directory, policy="stop_on_fail")
    for step in range(1, 2001):
        rate = 0.005 if step < 400 else 1.5
        batch = random.integers(0, 512, 32)
        errors = inputs[batch] @ weights - targets[batch]
        gradient = inputs[batch].T @ errors / 32
        weights -= rate * gradient
        guardian.log(
            step,
            loss=float(np.mean(errors**2)),
            grad_norm=float(np.linalg.norm(gradient)),
            learning_rate=rate,
        )
        if guardian.should_stop:
            print(f"stopped at step {step}")
            break
    report = guardian.finish()
    print(f"{report.worst_verdict}: " + ", ".join(found.id for _, found in report.findings()))
    return guardian


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    main(*sys.argv[1:2])
