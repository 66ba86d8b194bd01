"""Two further adversarial games, on clusters of points: a critic with clipped weights and one with
the hinge loss. The outcome is the energy distance between generated points and the third split.

Names of their workloads were chosen to fall among those that rules may be developed on
(``catalogue.held_out``)."""

from __future__ import annotations

import numpy as np

from .generative import COMPARED, energy_distance
from .networks import Array, Dense, Rng
from .settings import Setting
from .workloads import EVALUATED, Defect, Sampler, Scores, Split

CODE = 3
"""Dimensions of what the generator begins with."""


class Game:
    """A generator and a critic that are updated at once. Subclasses say what the critic's scores
    of real and of made points cost either side."""

    metric = ""
    floor = 0.0
    distance = ""
    """What the log calls the energy distance: the name of the one that image models log."""

    def __init__(self, setting: Setting, defect: Defect | None = None) -> None:
        if defect is not None:
            raise ValueError(f"{setting.workload} knows no fault {defect!r}")
        width = max(16, setting.width)
        self.generator = Dense((CODE, width, 2), relu=True)
        self.critic = Dense((2, width, 1), relu=True, offset=self.generator.end)
        self.size = self.critic.end
        centres = setting.rng("truth").normal(2.0, 1.0, (4, 2))
        n, rng = setting.examples + 2 * EVALUATED, setting.rng("data")
        x = centres[rng.integers(4, size=n)] + 0.2 * rng.standard_normal((n, 2))
        x = x.astype(np.float32)
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

    def criticised(self, real: Array, made: Array) -> tuple[float, Array, Array]:
        """The critic's loss and its gradient by both scores."""
        raise NotImplementedError

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        """The generator's loss is minus the mean score of what it made."""
        real = self.data[self.sampler(rng)]
        n = len(real)
        made, tape = self.generator(w, rng.standard_normal((n, CODE), np.float32), rng)
        scores, judged = self.critic(w, np.concatenate([real, made]), rng)
        loss, by_real, by_made = self.criticised(scores[:n, 0], scores[n:, 0])
        grad, unused = np.zeros(self.size, np.float32), np.zeros(self.size, np.float32)
        dout = np.concatenate([by_real, by_made])[:, None] / np.float32(n)
        self.critic.backward(w, judged, dout, grad)
        fooling = np.repeat(np.array([0, -1 / n], np.float32), n)[:, None]
        dmade = self.critic.backward(w, judged, fooling, unused)[n:]
        self.generator.backward(w, tape, dmade, grad)
        generator_loss = -float(scores[n:].mean())
        parts = {"loss_D": loss, "loss_G": generator_loss}
        return Scores(generator_loss, None, parts, total=False), grad

    def score(self, w: Array, split: Split) -> Scores:
        code = np.random.default_rng(7).standard_normal((COMPARED, CODE), np.float32)
        energy = energy_distance(self.generator(w, code)[0], self.splits[split][:COMPARED])
        return Scores(energy, None, {self.distance: energy}, total=False)

    def frozen(self) -> slice:
        """The generator, all of it."""
        return slice(0, self.generator.end)


class WassersteinCritic(Game):
    """A critic with weights clipped to 0.2 (Arjovsky, Chintala and Bottou 2017)."""

    distance = "fid"

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        critic = slice(self.generator.end, self.size)
        w[critic] = w[critic].clip(-0.2, 0.2)
        return super().gradient(w, rng)

    def criticised(self, real: Array, made: Array) -> tuple[float, Array, Array]:
        ones = np.ones_like(real)
        return float(made.mean() - real.mean()), -ones, ones


class HingeGame(Game):
    """The hinge loss (Lim and Ye 2017): a critic that is sure beyond 1 learns no further."""

    distance = "kid"

    def criticised(self, real: Array, made: Array) -> tuple[float, Array, Array]:
        short, over = np.maximum(0, 1 - real), np.maximum(0, 1 + made)
        loss = float(short.mean() + over.mean())
        return loss, -(short > 0).astype(np.float32), (over > 0).astype(np.float32)
