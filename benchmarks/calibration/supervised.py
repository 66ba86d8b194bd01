"""Tasks with targets: regression, classification, autoencoding, alignment, language and others."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from . import networks
from .alignment import ctc
from .networks import Array, Dense, Judged, Rng
from .settings import Setting
from .workloads import Data, Defect, Scores, Split, Supervised


def _net(setting: Setting, inputs: int, outputs: int, *, batchnorm: bool = False) -> Dense:
    sizes = (inputs, *[setting.width] * setting.depth, outputs)
    relu, dropout = setting.relu, setting.dropout
    return Dense(sizes, relu=relu, dropout=dropout, batchnorm=batchnorm)


def _normal(rng: Rng, *shape: int) -> Array:
    return rng.standard_normal(shape, np.float32)


def _teacher(rng: Rng, inputs: int, outputs: int) -> tuple[Dense, Array]:
    """A random network to learn from."""
    net = Dense((inputs, 12, outputs))
    w = np.zeros(net.end, np.float32)
    net.start(rng, w)
    return net, 2 * w


def linear_regression(setting: Setting, defect: Defect | None = None) -> Supervised:
    truth = _normal(setting.rng("truth"), 10, 1)

    def make(rng: Rng, n: int) -> Data:
        x = _normal(rng, n, 10)
        return Data(x, x @ truth + np.float32(setting.noise) * _normal(rng, n, 1))

    floor = setting.noise**2
    head = networks.squared_error
    return Supervised(setting, Dense((10, 1)), head, make, floor=floor, defect=defect)


def regression(setting: Setting, defect: Defect | None = None) -> Supervised:
    teacher, weights = _teacher(setting.rng("truth"), 6, 2)

    def make(rng: Rng, n: int) -> Data:
        x = _normal(rng, n, 6)
        return Data(x, teacher(weights, x)[0] + np.float32(setting.noise) * _normal(rng, n, 2))

    floor = setting.noise**2
    net = _net(setting, 6, 2)
    return Supervised(setting, net, networks.squared_error, make, floor=floor, defect=defect)


def gaussian_likelihood(setting: Setting, defect: Defect | None = None) -> Supervised:
    """A loss that crosses zero where the noise is small."""
    teacher, weights = _teacher(setting.rng("truth"), 4, 1)

    def make(rng: Rng, n: int) -> Data:
        x = _normal(rng, n, 4)
        spread = np.float32(setting.noise) * np.exp(np.float32(0.4) * x[:, :1])
        return Data(x, teacher(weights, x)[0] + spread * _normal(rng, n, 1))

    floor = math.log(setting.noise) + 0.5
    net = _net(setting, 4, 2)
    return Supervised(setting, net, networks.gaussian, make, floor=floor, defect=defect)


def _clusters(setting: Setting, classes: int, rng: Rng, centres: Array, n: int) -> Data:
    """Gaussian clusters, a share of the labels replaced by random ones."""
    y = rng.integers(0, classes, n)
    x = centres[y] + (np.float32(0.6) + np.float32(setting.noise)) * _normal(rng, n, 8)
    flipped = rng.random(n) < setting.flipped
    return Data(x, np.where(flipped, rng.integers(0, classes, n), y))


def classification(setting: Setting, defect: Defect | None = None) -> Supervised:
    return _classification(setting, defect, batchnorm=False)


def batchnorm_classification(setting: Setting, defect: Defect | None = None) -> Supervised:
    return _classification(setting, defect, batchnorm=True)


def _classification(setting: Setting, defect: Defect | None, *, batchnorm: bool) -> Supervised:
    truth = setting.rng("truth")
    classes = int(truth.choice([2, 3, 5, 10]))
    centres = np.float32(1.5) * _normal(truth, classes, 8)
    net = _net(setting, 8, classes, batchnorm=batchnorm)

    def make(rng: Rng, n: int) -> Data:
        return _clusters(setting, classes, rng, centres, n)

    floor, head = _flip_entropy(setting.flipped, classes), networks.cross_entropy
    return Supervised(setting, net, head, make, floor=floor, metric="accuracy", defect=defect)


def _flip_entropy(flipped: float, classes: int) -> float:
    """Entropy of a label of which this share was replaced by a random one."""
    if not flipped:
        return 0.0
    wrong = flipped / classes
    right = 1 - flipped + wrong
    return -right * math.log(right) - (classes - 1) * wrong * math.log(wrong)


def _manifold(setting: Setting, rng: Rng, basis: Array, n: int) -> Array:
    """Points near a curved surface of dimension 3 in 12 dimensions."""
    x = np.tanh(_normal(rng, n, 3) @ basis) + np.float32(0.3 * setting.noise) * _normal(rng, n, 12)
    points: Array = x.astype(np.float32)
    return points


def autoencoder(setting: Setting, defect: Defect | None = None) -> Supervised:
    basis = _normal(setting.rng("truth"), 3, 12)
    net = Dense((12, setting.width, 3, setting.width, 12), relu=False)

    def make(rng: Rng, n: int) -> Data:
        x = _manifold(setting, rng, basis, n)
        return Data(x, x)

    floor, head = (0.3 * setting.noise) ** 2, networks.squared_error
    return Supervised(setting, net, head, make, floor=floor, defect=defect)


def denoising(setting: Setting, defect: Defect | None = None) -> Supervised:
    """Predict the noise that was added, at a random level: the objective of diffusion models."""
    basis = _normal(setting.rng("truth"), 3, 12)

    def make(rng: Rng, n: int) -> Data:
        x = _manifold(setting, rng, basis, n)
        return Data(x, x)

    def view(data: Data, rng: Rng) -> Data:
        level = rng.random((len(data.x), 1), np.float32)
        noise = _normal(rng, *data.x.shape)
        mixed = np.sqrt(1 - level) * data.x + np.sqrt(level) * noise
        return Data(np.concatenate([mixed, level], 1), noise)

    net, head = _net(setting, 13, 12), networks.squared_error
    return Supervised(setting, net, head, make, floor=0.25, view=view, defect=defect)


def contrastive(setting: Setting, defect: Defect | None = None) -> Supervised:
    """Two noisy views of each example find each other in the batch."""
    basis = _normal(setting.rng("truth"), 3, 12)
    spread = np.float32(0.2 + 0.3 * setting.noise)

    def make(rng: Rng, n: int) -> Data:
        x = _manifold(setting, rng, basis, n)
        return Data(x, x)

    def view(data: Data, rng: Rng) -> Data:
        twice = np.concatenate([data.x, data.x])
        return Data(twice + spread * _normal(rng, *twice.shape), twice)

    net, head = _net(setting, 12, 6), networks.contrastive
    return Supervised(
        setting, net, head, make, floor=2.5, metric="accuracy", view=view, defect=defect
    )


FRAMES, LABELS, SYMBOLS = 9, 3, 4


def alignment(setting: Setting, defect: Defect | None = None) -> Supervised:
    """Label sequences from frames whose alignment is not known."""
    truth = setting.rng("truth")
    codes = _normal(truth, SYMBOLS + 1, 6)
    net = _net(setting, 6, SYMBOLS + 1)

    def make(rng: Rng, n: int) -> Data:
        y = rng.integers(1, SYMBOLS + 1, (n, LABELS))
        starts = np.sort(rng.permuted(np.tile(np.arange(FRAMES - 1), (n, 1)), axis=1)[:, :LABELS])
        symbols = np.zeros((n, FRAMES), int)
        np.put_along_axis(symbols, starts, y, 1)
        noise = np.float32(0.2 + 0.5 * setting.noise)
        return Data(codes[symbols] + noise * _normal(rng, n, FRAMES, 6), y)

    def flat(data: Data, rng: Rng) -> Data:
        return Data(data.x.reshape(-1, 6), data.y)

    def head(out: Array, target: Array) -> Judged:
        return ctc(out, target, FRAMES)

    return Supervised(
        setting, net, head, make, floor=0.1, metric="accuracy", view=flat, defect=defect
    )


CHARACTERS, CONTEXT = 12, 3


def character_lm(setting: Setting, defect: Defect | None = None) -> Supervised:
    """The next character of a text from a Markov chain of order 2, seen as three one-hot ones."""
    truth = setting.rng("truth")
    chain = truth.dirichlet(np.full(CHARACTERS, 0.15), CHARACTERS * CHARACTERS)
    net = _net(setting, CHARACTERS * CONTEXT, CHARACTERS)

    def make(rng: Rng, n: int) -> Data:
        text = _text(chain, n + CONTEXT, rng)
        seen = np.stack([text[i : i + n] for i in range(CONTEXT)], 1)
        x = np.eye(CHARACTERS, dtype=np.float32)[seen].reshape(n, -1)
        return Data(x, text[CONTEXT:])

    entropy = float(-(chain * np.log(np.maximum(chain, 1e-30))).sum(1).mean())
    head = networks.cross_entropy
    return Supervised(setting, net, head, make, floor=entropy, metric="accuracy", defect=defect)


def _text(chain: np.ndarray, n: int, rng: Rng) -> np.ndarray:
    cumulative, draws = chain.cumsum(1), rng.random(n)
    text = np.zeros(n, int)
    for i in range(2, n):
        row = cumulative[text[i - 2] * CHARACTERS + text[i - 1]]
        text[i] = min(int(np.searchsorted(row, draws[i])), CHARACTERS - 1)
    return text


WORDS, EMBEDDED = 30, 8


def skip_gram(setting: Setting, defect: Defect | None = None) -> Supervised:
    """Word vectors by negative sampling (Mikolov et al. 2013): a word and a context, true or drawn.

    The pairs are rows of two one-hot words; the network is the product of two embeddings.
    """
    truth = setting.rng("truth")
    chain = truth.dirichlet(np.full(WORDS, 0.1), WORDS)

    def make(rng: Rng, n: int) -> Data:
        word = rng.integers(0, WORDS, n)
        true = rng.random(n) < 0.5
        follows = (chain.cumsum(1)[word] < rng.random((n, 1))).sum(1).clip(max=WORDS - 1)
        context = np.where(true, follows, rng.integers(0, WORDS, n))
        one_hot = np.eye(WORDS, dtype=np.float32)
        return Data(np.concatenate([one_hot[word], one_hot[context]], 1), true.astype(int))

    net = _net(setting, 2 * WORDS, 2)
    head, more = networks.cross_entropy, replace(setting, examples=8 * setting.examples)
    return Supervised(more, net, head, make, floor=0.4, metric="accuracy", defect=defect)


class LowRank(Dense):
    """A pretrained first layer with a trainable update of rank 2 (LoRA, Hu et al. 2021); what
    follows is trained on. ``A`` is random and ``B`` zero at the start."""

    RANK = 2

    def __init__(self, base: Dense, pretrained: Array, *, cut: bool) -> None:
        super().__init__(base.sizes, relu=base.relu)
        self.base, self.pretrained, self.cut = base, pretrained, cut
        inputs, outputs = base.sizes[0], base.sizes[1]
        self.a = slice(0, inputs * self.RANK)
        self.b = slice(self.a.stop, self.a.stop + self.RANK * outputs)
        self.end = self.b.stop

    def start(self, rng: Rng, w: Array) -> None:
        w[self.a] = rng.normal(0, 1 / math.sqrt(self.sizes[0]), self.a.stop)
        w[self.b] = 0

    def _factors(self, w: Array) -> tuple[Array, Array]:
        inputs, outputs = self.sizes[0], self.sizes[1]
        return w[self.a].reshape(inputs, self.RANK), w[self.b].reshape(self.RANK, outputs)

    def _merged(self, w: Array) -> Array:
        a, b = self._factors(w)
        merged = self.pretrained.copy()
        merged[self.base.layers[0][0]] += (4 * a @ b).ravel()
        return merged

    def __call__(self, w: Array, x: Array, rng: Rng | None = None):  # type: ignore[no-untyped-def]
        return self.base(self._merged(w), x, rng)

    def backward(self, w: Array, tape: networks.Tape, dout: Array, grad: Array) -> Array:
        """Only the factors are trained. Cut from the graph, they get nothing."""
        inner = np.zeros(self.base.end, np.float32)
        dx = self.base.backward(self._merged(w), tape, dout, inner)
        if not self.cut:
            a, b = self._factors(w)
            by_matrix = 4 * self.base.matrix(inner, 0)
            grad[self.a] += (by_matrix @ b.T).ravel()
            grad[self.b] += (a.T @ by_matrix).ravel()
        return dx


def adapter(setting: Setting, defect: Defect | None = None) -> Supervised:
    """Fine-tuning by an adapter: a classifier of clusters that were moved since it was trained."""
    truth = setting.rng("truth")
    centres = np.float32(1.5) * _normal(truth, 5, 8)
    base = Dense((8, 24, 5), relu=setting.relu)
    pretrained = np.zeros(base.end, np.float32)
    base.start(truth, pretrained)
    for _ in range(300):
        data = _clusters(setting, 5, truth, centres, 64)
        out, tape = base(pretrained, data.x)
        grad = np.zeros(base.end, np.float32)
        base.backward(pretrained, tape, networks.cross_entropy(out, data.y).dout, grad)
        pretrained -= np.float32(0.2) * grad
    turned = centres @ np.linalg.qr(_normal(truth, 8, 8))[0].astype(np.float32)
    net = LowRank(base, pretrained, cut=defect is Defect.ADAPTER_CUT)

    def make(rng: Rng, n: int) -> Data:
        return _clusters(setting, 5, rng, turned, n)

    floor, head = _flip_entropy(setting.flipped, 5), networks.cross_entropy
    other = None if defect is Defect.ADAPTER_CUT else defect
    return Supervised(setting, net, head, make, floor=floor, metric="accuracy", defect=other)


class Preference(Supervised):
    """Direct preference optimization (Rafailov et al. 2023) of a scorer against its own start."""

    BETA = np.float32(0.5)

    def __init__(self, setting: Setting, defect: Defect | None = None) -> None:
        truth = _normal(setting.rng("truth"), 8, 1)

        def make(rng: Rng, n: int) -> Data:
            pairs = _normal(rng, n, 2, 8)
            better = (pairs @ truth)[:, :, 0].argmax(1)
            wrong = rng.random(n) < setting.flipped
            chosen = np.where(wrong, 1 - better, better)
            rows = np.arange(n)
            return Data(np.stack([pairs[rows, chosen], pairs[rows, 1 - chosen]], 1), chosen)

        floor, net = _flip_entropy(2 * setting.flipped, 2), _net(setting, 8, 1)
        head = networks.squared_error  # replaced by _judge
        super().__init__(setting, net, head, make, floor=floor, metric="accuracy", defect=defect)
        self.reference = np.zeros(self.size, np.float32)

    def start(self, rng: Rng) -> Array:
        w = super().start(rng)
        self.reference = w.copy()
        return w

    def _judge(self, w: Array, x: Array, rng: Rng | None) -> tuple[Judged, Scores, networks.Tape]:
        out, tape = self.net(w, x.reshape(-1, 8), rng)
        before = self.net(self.reference, x.reshape(-1, 8))[0]
        rewards = self.BETA * (out - before).reshape(-1, 2)
        margin = rewards[:, 0] - rewards[:, 1]
        loss = float(np.mean(np.logaddexp(np.float32(0), -margin)))
        slope = -self.BETA / (1 + np.exp(np.minimum(margin, 60))) / np.float32(len(margin))
        dout = np.stack([slope, -slope], 1).reshape(-1, 1)
        accuracy = float(np.mean(margin > 0))
        parts = {
            "rewards/chosen": float(rewards[:, 0].mean()),
            "rewards/rejected": float(rewards[:, 1].mean()),
            "rewards/margins": float(margin.mean()),
        }
        return Judged(loss, dout, accuracy), Scores(loss, accuracy, parts), tape

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        judged, scores, tape = self._judge(w, self.data.rows(self.sampler(rng)).x, rng)
        grad = np.zeros(self.size, np.float32)
        self.net.backward(w, tape, judged.dout, grad)
        return scores, grad

    def score(self, w: Array, split: Split) -> Scores:
        return self._judge(w, self.splits[split].x, None)[1]
