"""The loss of connectionist temporal classification (Graves et al. 2006), batched over sequences
of equal length."""

from __future__ import annotations

import numpy as np

from .networks import Array, Judged, softmax

BLANK = 0
IMPOSSIBLE = -1e30


def ctc(out: Array, target: Array, frames: int) -> Judged:
    """``out``: logits (n * frames, symbols), frame by frame within a sequence. ``target``: symbols
    (n, labels) without blanks. The loss is the mean over sequences of -log P, per label; the
    metric is the share of sequences that greedy decoding gets right."""
    n, labels = target.shape
    p = softmax(out).reshape(n, frames, -1).astype(np.float64)
    extended = np.full((n, 2 * labels + 1), BLANK)
    extended[:, 1::2] = target
    emitted = np.log(np.maximum(np.take_along_axis(p, extended[:, None, :], 2), 1e-30))
    forward = _pass(emitted, extended)
    backward = _pass(emitted[:, ::-1, ::-1], extended[:, ::-1])[:, ::-1, ::-1]
    joint = forward + backward - emitted
    total = np.logaddexp(forward[:, -1, -1], forward[:, -1, -2])
    share = np.exp(joint - total[:, None, None])
    expected = np.zeros_like(p)
    for state in range(extended.shape[1]):
        expected[np.arange(n), :, extended[:, state]] += share[:, :, state]
    scale = n * labels
    dout = ((p - expected) / scale).reshape(out.shape).astype(np.float32)
    return Judged(float(-total.sum() / scale), dout, _right(p, target))


def _pass(emitted: np.ndarray, extended: np.ndarray) -> np.ndarray:
    """Log probabilities of all paths up to each frame and state, its own emission included."""
    reached = np.full_like(emitted, IMPOSSIBLE)
    reached[:, 0, :2] = emitted[:, 0, :2]
    skips = np.zeros(extended.shape, bool)
    skips[:, 2:] = (extended[:, 2:] != BLANK) & (extended[:, 2:] != extended[:, :-2])
    for frame in range(1, emitted.shape[1]):
        before = reached[:, frame - 1]
        step = np.full_like(before, IMPOSSIBLE)
        step[:, 1:] = before[:, :-1]
        skip = np.full_like(before, IMPOSSIBLE)
        skip[:, 2:] = before[:, :-2]
        skip[~skips] = IMPOSSIBLE
        paths = np.logaddexp(np.logaddexp(before, step), skip)
        reached[:, frame] = paths + emitted[:, frame]
    return reached


def _right(p: np.ndarray, target: np.ndarray) -> float:
    best = p.argmax(2)
    kept = (best != BLANK) & np.diff(best, axis=1, prepend=-1).astype(bool)
    decoded = (row[keep] for row, keep in zip(best, kept, strict=True))
    return float(np.mean([np.array_equal(a, b) for a, b in zip(decoded, target, strict=True)]))
