"""Two further adversarial games, on clusters of points: a critic with clipped weights and one with
the hinge loss.

Names of their workloads were chosen to fall among those that rules may be developed on
(``catalogue.held_out``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .generative import Game
from .networks import Array, Rng
from .settings import Setting
from .workloads import Scores


class ScoreGame(Game):
    """On four clusters of points. Subclasses say what the critic's scores of real and of made
    points cost either side."""

    code = 3

    def points(self, setting: Setting, count: int) -> NDArray[np.float64]:
        centres = setting.rng("truth").normal(2.0, 1.0, (4, 2))
        rng = setting.rng("data")
        chosen = centres[rng.integers(4, size=count)]
        spread: NDArray[np.float64] = 0.2 * rng.standard_normal((count, 2))
        return chosen + spread

    def criticised(self, real: Array, made: Array) -> tuple[float, Array, Array]:
        """The critic's loss and its gradient by both scores."""
        raise NotImplementedError

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        """The generator's loss is minus the mean score of what it made."""
        real = self.data[self.sampler(rng)]
        n = len(real)
        made, tape = self.generator(w, rng.standard_normal((n, self.code), np.float32), rng)
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


class WassersteinCritic(ScoreGame):
    """A critic with weights clipped to 0.2 (Arjovsky, Chintala and Bottou 2017)."""

    distance = "fid"

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        critic = slice(self.generator.end, self.size)
        w[critic] = w[critic].clip(-0.2, 0.2)
        return super().gradient(w, rng)

    def criticised(self, real: Array, made: Array) -> tuple[float, Array, Array]:
        ones = np.ones_like(real)
        return float(made.mean() - real.mean()), -ones, ones


class HingeGame(ScoreGame):
    """The hinge loss (Lim and Ye 2017): a critic that is sure beyond 1 learns no further."""

    distance = "kid"

    def criticised(self, real: Array, made: Array) -> tuple[float, Array, Array]:
        short, over = np.maximum(0, 1 - real), np.maximum(0, 1 + made)
        loss = float(short.mean() + over.mean())
        return loss, -(short > 0).astype(np.float32), (over > 0).astype(np.float32)
