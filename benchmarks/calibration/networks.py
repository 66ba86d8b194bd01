"""Multilayer perceptrons over one flat float32 vector of parameters, with their gradients.

A flat vector makes an optimizer a few vector operations, whatever the model is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Of float32, but for class numbers among targets."""
Rng = np.random.Generator


@dataclass(slots=True)
class Tape:
    """What the backward pass needs of one forward pass: inputs, activations, masks."""

    inputs: list[Array] = field(default_factory=list)
    hidden: list[Array] = field(default_factory=list)
    masks: list[Array | None] = field(default_factory=list)
    normed: tuple[Array, Array] | None = None


@dataclass(slots=True)
class Running:
    """Running statistics of batch normalization; ``momentum`` 0 never updates them."""

    mean: Array
    var: Array
    momentum: float = 0.1

    def update(self, mean: Array, var: Array) -> None:
        self.mean += self.momentum * (mean - self.mean)
        self.var += self.momentum * (var - self.var)


class Dense:
    """``sizes``: units of each layer, the input first. ``offset``: where its parameters begin.

    ``dropout`` is the share of hidden units dropped in training; with ``batchnorm`` the first
    hidden layer is normalized. Hidden layers are tanh or ReLU.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        offset: int = 0,
        relu: bool = False,
        dropout: float = 0.0,
        batchnorm: bool = False,
    ) -> None:
        self.sizes, self.relu, self.dropout = tuple(sizes), relu, dropout
        self.running = None
        if batchnorm:
            ones = np.ones(sizes[1], np.float32)
            self.running = Running(0 * ones, ones)
        self.layers: list[tuple[slice, slice]] = []
        at = offset
        for fan_in, fan_out in pairwise(sizes):
            matrix = slice(at, at + fan_in * fan_out)
            bias = slice(matrix.stop, matrix.stop + fan_out)
            self.layers.append((matrix, bias))
            at = bias.stop
        self.end = at

    def start(self, rng: Rng, w: Array) -> None:
        """Fill in initial weights: He's for ReLU, Glorot's otherwise; biases of zero."""
        for (matrix, bias), (fan_in, fan_out) in zip(
            self.layers, pairwise(self.sizes), strict=True
        ):
            scale = math.sqrt(2 / fan_in if self.relu else 2 / (fan_in + fan_out))
            w[matrix] = rng.normal(0, scale, fan_in * fan_out)
            w[bias] = 0

    def matrix(self, w: Array, layer: int) -> Array:
        """The weights of a layer as (inputs, outputs), a view."""
        return w[self.layers[layer][0]].reshape(self.sizes[layer], self.sizes[layer + 1])

    def __call__(self, w: Array, x: Array, rng: Rng | None = None) -> tuple[Array, Tape]:
        """Outputs (n, last size) for inputs (n, first size). ``rng``: this is training."""
        tape, last = Tape(), len(self.layers) - 1
        for layer, (_, bias) in enumerate(self.layers):
            tape.inputs.append(x)
            x = x @ self.matrix(w, layer) + w[bias]
            if layer == last:
                break
            if layer == 0 and self.running is not None:
                x = self._normalize(x, tape, training=rng is not None)
            x = np.maximum(x, 0) if self.relu else np.tanh(x)
            tape.hidden.append(x)
            mask = self._mask(x, rng)
            tape.masks.append(mask)
            if mask is not None:
                x = x * mask
        return x, tape

    def _mask(self, x: Array, rng: Rng | None) -> Array | None:
        if rng is None or not self.dropout:
            return None
        keep = 1 - self.dropout
        return (rng.random(x.shape, np.float32) < keep).astype(np.float32) / np.float32(keep)

    def _normalize(self, x: Array, tape: Tape, *, training: bool) -> Array:
        running = self.running
        assert running is not None
        mean, var = running.mean, running.var
        if training:
            mean, var = x.mean(0), x.var(0)
            running.update(mean, var)
        inverse = 1 / np.sqrt(var + np.float32(1e-5))
        normed: Array = (x - mean) * inverse
        tape.normed = (normed, inverse)
        return normed

    def backward(self, w: Array, tape: Tape, dout: Array, grad: Array) -> Array:
        """Add the gradient of the parameters to ``grad``; return that of the inputs."""
        for layer in range(len(self.layers) - 1, -1, -1):
            matrix, bias = self.layers[layer]
            grad[matrix] += (tape.inputs[layer].T @ dout).ravel()
            grad[bias] += dout.sum(0)
            dout = dout @ self.matrix(w, layer).T
            if layer:
                dout = self._through(tape, layer - 1, dout)
        return dout

    def _through(self, tape: Tape, layer: int, dout: Array) -> Array:
        """Back through dropout, activation and normalization of a hidden layer."""
        mask, hidden = tape.masks[layer], tape.hidden[layer]
        if mask is not None:
            dout = dout * mask
        dout = dout * (hidden > 0) if self.relu else dout * (1 - hidden * hidden)
        if layer == 0 and tape.normed is not None:
            normed, inverse = tape.normed
            centred = dout - dout.mean(0) - normed * (dout * normed).mean(0)
            dout = inverse * centred
        return dout


@dataclass(frozen=True, slots=True)
class Judged:
    """The mean loss of a batch, its gradient by the outputs, and a metric where there is one."""

    loss: float
    dout: Array
    metric: float | None = None


Head = Callable[[Array, Array], Judged]
"""From outputs and targets."""


def squared_error(out: Array, target: Array) -> Judged:
    difference = out - target
    return Judged(float(np.mean(difference**2)), 2 * difference / np.float32(difference.size))


def softmax(logits: Array) -> Array:
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    result: Array = shifted / shifted.sum(1, keepdims=True)
    return result


def cross_entropy(out: Array, target: Array) -> Judged:
    """``target``: class numbers (n,). The metric is accuracy."""
    rows = np.arange(len(out))
    p = softmax(out)
    loss = float(-np.mean(np.log(np.maximum(p[rows, target], np.float32(1e-30)))))
    dout = p.copy()
    dout[rows, target] -= 1
    accuracy = float(np.mean(out.argmax(1) == target))
    return Judged(loss, dout / np.float32(len(out)), accuracy)


def softmax_twice(out: Array, target: Array) -> Judged:
    """The fault of feeding probabilities to a loss that expects logits."""
    p = softmax(out)
    outer = cross_entropy(p, target)
    dout = p * (outer.dout - (outer.dout * p).sum(1, keepdims=True))
    return Judged(outer.loss, dout, outer.metric)


def gaussian(out: Array, target: Array) -> Judged:
    """Negative log-likelihood (n, 1) of a predicted mean and log variance: it can be negative."""
    mean, log_var = out[:, :1], np.clip(out[:, 1:], -12, 12)
    precision = np.exp(-log_var)
    difference = target - mean
    loss = float(np.mean(0.5 * (log_var + difference**2 * precision)))
    by_var = 0.5 * (1 - difference**2 * precision)
    dout = np.concatenate([-difference * precision, by_var], 1) / np.float32(len(out))
    return Judged(loss, dout.astype(np.float32))


def contrastive(out: Array, target: Array) -> Judged:
    """InfoNCE: the first half of the rows against the second half, cosine similarities over a
    temperature of 0.2. ``target`` is not used. The metric is top-1 retrieval."""
    length = np.sqrt((out**2).sum(1, keepdims=True)) + np.float32(1e-6)
    unit = out / length
    n = len(out) // 2
    inner = cross_entropy(unit[:n] @ unit[n:].T / np.float32(0.2), np.arange(n))
    scaled = inner.dout / np.float32(0.2)
    dunit = np.concatenate([scaled @ unit[n:], scaled.T @ unit[:n]])
    dout = (dunit - unit * (dunit * unit).sum(1, keepdims=True)) / length
    return Judged(inner.loss, dout, inner.metric)


def unsupervised(value: float) -> Head:
    """The fault of a batch in which no label counts: ``value`` is what the loss function gives,
    NaN (a mean over nothing) or 0 (a sum over at least one)."""

    def head(out: Array, target: Array) -> Judged:
        return Judged(value, np.full_like(out, value))

    return head
