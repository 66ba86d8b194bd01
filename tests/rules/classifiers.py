"""A small classifier that is really trained, with one softmax or with two."""

from __future__ import annotations

import numpy as np

from trainproof.model.data import Floats, Series
from trainproof.rules.examples import IDENTITIES, series

EXAMPLES = 400


def trained(classes: int, rows: int, twice: bool) -> tuple[Series, Series]:
    """Loss and accuracy of a linear classifier of noisy clusters, by steps of gradient descent."""
    rng = np.random.default_rng(5)
    truth = rng.integers(0, classes, EXAMPLES)
    x = rng.standard_normal((classes, 16))[truth] + 1.2 * rng.standard_normal((EXAMPLES, 16))
    mark, weights = np.eye(classes)[truth], rng.standard_normal((16, classes))
    losses, shares = [], []
    for _ in range(rows):
        logits = x @ weights
        inner = softmax(logits)
        outer = softmax(inner) if twice else inner
        losses.append(float(np.mean(-np.log((outer * mark).sum(1)))))
        shares.append(float(np.mean(logits.argmax(1) == truth)))
        slope = outer - mark
        if twice:
            slope = inner * (slope - (slope * inner).sum(1, keepdims=True))
        weights -= 300 / rows / EXAMPLES * x.T @ slope
    identity = IDENTITIES["eval_accuracy"]
    return series("eval_loss", losses[1:]), series("eval_accuracy", shares[1:], identity=identity)


def softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(1, keepdims=True))
    result: Floats = raised / raised.sum(1, keepdims=True)
    return result
