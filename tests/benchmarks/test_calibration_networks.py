"""Gradients of every objective against finite differences: the trainings are real ones."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from benchmarks.calibration import networks
from benchmarks.calibration.alignment import BLANK, ctc
from benchmarks.calibration.networks import Array, Dense, Head

RNG = np.random.default_rng
CLASSES = np.array([0, 2, 1, 1, 0, 2])


def _frames(out: Array, target: Array) -> networks.Judged:
    return ctc(out, target, 3)


@pytest.mark.parametrize(
    ("head", "target", "outputs"),
    [
        (networks.squared_error, RNG(1).normal(size=(6, 3)), 3),
        (networks.cross_entropy, CLASSES, 3),
        (networks.softmax_twice, CLASSES, 3),
        (networks.gaussian, RNG(2).normal(size=(6, 1)), 2),
        (networks.contrastive, CLASSES, 3),
        (_frames, np.array([[1, 2], [2, 2]]), 3),
    ],
)
@pytest.mark.parametrize("relu", [False, True])
def test_the_gradient_is_that_of_the_loss(
    head: Head, target: Array, outputs: int, relu: bool
) -> None:
    net = Dense((4, 5, outputs), relu=relu, batchnorm=True)
    w = np.zeros(net.end)
    net.start(RNG(3), w)
    x = RNG(4).normal(size=(6, 4))

    def loss(at: Array) -> float:
        return head(net(at, x, RNG(5))[0], target).loss

    grad = np.zeros(net.end)
    out, tape = net(w, x, RNG(5))
    net.backward(w, tape, head(out, target).dout, grad)
    for i in RNG(6).choice(net.end, 12, replace=False):
        step = np.zeros(net.end)
        step[i] = 1e-5
        numeric = (loss(w + step) - loss(w - step)) / 2e-5
        assert grad[i] == pytest.approx(numeric, rel=1e-4, abs=2e-5)


def test_alignment_sums_over_all_paths() -> None:
    """Against enumeration: all frame labellings that collapse to the target."""
    logits = RNG(7).normal(size=(4, 3))
    target = np.array([[1, 2]])
    p = networks.softmax(logits)
    paths = [path for path in product(range(3), repeat=4) if _collapsed(path) == [1, 2]]
    total = sum(float(np.prod([p[t, symbol] for t, symbol in enumerate(path)])) for path in paths)
    assert ctc(logits, target, 4).loss == pytest.approx(-np.log(total) / 2, rel=1e-6)


def _collapsed(path: tuple[int, ...]) -> list[int]:
    kept = [s for i, s in enumerate(path) if i == 0 or s != path[i - 1]]
    return [s for s in kept if s != BLANK]


def test_dropout_keeps_the_mean_and_leaves_evaluation_alone() -> None:
    net = Dense((2, 400, 1), relu=True, dropout=0.5)
    w = np.zeros(net.end, np.float32)
    net.start(RNG(8), w)
    x = np.ones((1, 2), np.float32)
    still = net(w, x)[0]
    assert net(w, x)[0] == still
    trained = [float(net(w, x, rng)[0][0, 0]) for rng in [RNG(9)] for _ in range(400)]
    assert np.mean(trained) == pytest.approx(float(still[0, 0]), abs=0.15)
    assert np.std(trained) > 0.05


def test_evaluation_uses_running_statistics() -> None:
    net = Dense((2, 3, 1), batchnorm=True)
    w = np.zeros(net.end, np.float32)
    net.start(RNG(10), w)
    x = RNG(11).normal(5, 2, (50, 2)).astype(np.float32)
    before = net(w, x)[0]
    for _ in range(200):
        net(w, x, RNG(12))
    assert net(w, x)[0] == pytest.approx(net(w, x, RNG(12))[0], abs=0.01)
    assert not np.allclose(net(w, x)[0], before)


def test_contrastive_loss_does_not_depend_on_the_order_of_pairs() -> None:
    out = RNG(13).normal(size=(6, 4))
    losses = {
        round(networks.contrastive(out[[*order, *(3 + i for i in order)]], CLASSES).loss, 9)
        for order in permutations(range(3))
    }
    assert len(losses) == 1
