"""A variational autoencoder and a generative adversarial network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .networks import Array, Dense, Rng
from .settings import Setting
from .workloads import EVALUATED, Defect, Sampler, Scores, Split

LATENT = 2
COMPARED = 128
"""Points of either side in an energy distance."""


class Variational:
    """A VAE (Kingma and Welling 2014) with a Gaussian decoder: reconstruction plus KL."""

    metric = ""
    floor = 1.0

    def __init__(self, setting: Setting, defect: Defect | None = None) -> None:
        _refuse(defect, setting)
        rng, width = setting.rng("data"), setting.width
        self.encoder = Dense((8, width, 2 * LATENT))
        self.decoder = Dense((LATENT, width, 8), offset=self.encoder.end)
        self.size = self.decoder.end
        basis = setting.rng("truth").standard_normal((LATENT, 8), np.float32)
        n = setting.examples + 2 * EVALUATED
        x = np.tanh(rng.standard_normal((n, LATENT), np.float32) @ basis)
        x = x + np.float32(0.2 * setting.noise) * rng.standard_normal(x.shape, np.float32)
        self.data = x[2 * EVALUATED :]
        self.splits = {Split.EVAL: x[:EVALUATED], Split.THIRD: x[EVALUATED : 2 * EVALUATED]}
        self.splits[Split.TRAIN] = self.data[:EVALUATED]
        self.sampler = Sampler(setting.examples, min(setting.batch, setting.examples // 4))
        self.epoch = setting.examples // self.sampler.batch

    def start(self, rng: Rng) -> Array:
        w = np.zeros(self.size, np.float32)
        self.encoder.start(rng, w)
        self.decoder.start(rng, w)
        return w

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        return self._elbo(w, self.data[self.sampler(rng)], rng)

    def _elbo(self, w: Array, x: Array, rng: Rng) -> tuple[Scores, Array]:
        n = np.float32(len(x))
        code, seen = self.encoder(w, x, rng)
        mean, log_var = code[:, :LATENT], np.clip(code[:, LATENT:], -12, 12)
        noise = rng.standard_normal(mean.shape, np.float32)
        spread = np.exp(log_var / 2)
        out, drawn = self.decoder(w, mean + spread * noise, rng)
        difference = (out - x) / np.float32(0.1)
        reconstruction = float(0.05 * (difference**2).sum() / n)
        kl = float(0.05 * (mean**2 + spread**2 - 1 - log_var).sum() / n)
        grad = np.zeros(self.size, np.float32)
        dz = self.decoder.backward(w, drawn, np.float32(1.0) * difference / n, grad)
        dmean = dz + np.float32(0.1) * mean / n
        dlog = dz * noise * spread / 2 + np.float32(0.05) * (spread**2 - 1) / n
        self.encoder.backward(w, seen, np.concatenate([dmean, dlog], 1), grad)
        parts = {"recon_loss": reconstruction, "kl_loss": kl}
        return Scores(reconstruction + kl, None, parts), grad

    def score(self, w: Array, split: Split) -> Scores:
        return self._elbo(w, self.splits[split], np.random.default_rng(7))[0]

    def frozen(self) -> slice:
        return slice(self.encoder.end, self.size)


class Game:
    """A generator and a critic that are updated at once. The outcome is the energy distance between
    generated points and the third split. Subclasses say what is to be learned, and from what."""

    metric = ""
    floor = 0.0
    code = 4
    """Dimensions of what the generator begins with."""
    distance = "fid"
    """What the log calls the energy distance: the name of the one that image models log."""

    def __init__(self, setting: Setting, defect: Defect | None = None) -> None:
        _refuse(defect, setting)
        width = max(16, setting.width)
        self.generator = Dense((self.code, width, 2), relu=True)
        self.critic = Dense((2, width, 1), relu=True, offset=self.generator.end)
        self.size = self.critic.end
        x = self.points(setting, setting.examples + 2 * EVALUATED).astype(np.float32)
        self.data = x[2 * EVALUATED :]
        self.splits = {Split.EVAL: x[:EVALUATED], Split.THIRD: x[EVALUATED : 2 * EVALUATED]}
        self.splits[Split.TRAIN] = self.data[:EVALUATED]
        self.sampler = Sampler(setting.examples, max(16, min(setting.batch, 64)))
        self.epoch = setting.examples // self.sampler.batch

    def start(self, rng: Rng) -> Array:
        w = np.zeros(self.size, np.float32)
        self.generator.start(rng, w)
        self.critic.start(rng, w)
        return w

    def points(self, setting: Setting, count: int) -> NDArray[np.float64]:
        """``count`` points of the plane."""
        raise NotImplementedError

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        raise NotImplementedError

    def score(self, w: Array, split: Split) -> Scores:
        code = np.random.default_rng(7).standard_normal((COMPARED, self.code), np.float32)
        energy = energy_distance(self.generator(w, code)[0], self.splits[split][:COMPARED])
        return Scores(energy, None, {self.distance: energy}, total=False)

    def frozen(self) -> slice:
        """The generator, all of it."""
        return slice(0, self.generator.end)


class Adversarial(Game):
    """A non-saturating GAN (Goodfellow et al. 2014) on a ring of points."""

    def points(self, setting: Setting, count: int) -> NDArray[np.float64]:
        rng = setting.rng("data")
        angle = rng.random(count) * 2 * np.pi
        ring = np.stack([2 + np.cos(angle), np.sin(angle) - 1], 1)
        spread: NDArray[np.float64] = 0.1 * rng.standard_normal((count, 2))
        return ring + spread

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        real = self.data[self.sampler(rng)]
        n = len(real)
        fake, made = self.generator(w, rng.standard_normal((n, self.code), np.float32), rng)
        logits, judged = self.critic(w, np.concatenate([real, fake]), rng)
        believed = _sigmoid(logits[:, 0])
        critic_loss = float(_softplus(-logits[:n, 0]).mean() + _softplus(logits[n:, 0]).mean())
        generator_loss = float(_softplus(-logits[n:, 0]).mean())
        grad, unused = np.zeros(self.size, np.float32), np.zeros(self.size, np.float32)
        truth = np.repeat(np.array([1, 0], np.float32), n)
        dout = ((believed - truth) / np.float32(n))[:, None]
        self.critic.backward(w, judged, dout, grad)
        fooling = np.concatenate([np.zeros(n, np.float32), (believed[n:] - 1) / np.float32(n)])
        dfake = self.critic.backward(w, judged, fooling[:, None], unused)[n:]
        self.generator.backward(w, made, dfake, grad)
        parts = {"loss_D": critic_loss, "loss_G": generator_loss}
        return Scores(generator_loss, None, parts, total=False), grad


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-np.clip(x, -60, 60)))
    return result


def _softplus(x: Array) -> Array:
    result: Array = np.logaddexp(np.float32(0), x)
    return result


def energy_distance(fake: Array, real: Array) -> float:
    """Szekely and Rizzo (2013), over all pairs."""
    between, within = _distance(fake, real), _distance(fake, fake) + _distance(real, real)
    return 2 * between - within


def _distance(a: Array, b: Array) -> float:
    """Mean Euclidean distance over all pairs."""
    return float(np.sqrt(((a[:, None] - b[None]) ** 2).sum(2)).mean())


def _refuse(defect: Defect | None, setting: Setting) -> None:
    if defect is not None:
        raise ValueError(f"{setting.workload} knows no fault {defect!r}")
