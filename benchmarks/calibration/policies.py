"""Policies trained by REINFORCE (Williams 1992) on a contextual bandit and on CartPole."""

from __future__ import annotations

import numpy as np

from .networks import Array, Dense, Rng, softmax
from .settings import Setting
from .workloads import Defect, Scores, Split


class Policy:
    """A softmax policy. Subclasses roll it out; the score's loss is minus the mean return, on
    episodes of their own for each split."""

    metric = ""
    epoch = 10

    def __init__(self, setting: Setting, inputs: int, actions: int, defect: Defect | None) -> None:
        if defect is not None:
            raise ValueError(f"{setting.workload} knows no fault {defect!r}")
        self.net = Dense((inputs, setting.width, actions))
        self.size = self.net.end

    def start(self, rng: Rng) -> Array:
        w = np.zeros(self.size, np.float32)
        self.net.start(rng, w)
        return w

    def _learn(
        self, w: Array, seen: Array, actions: np.ndarray, advantage: Array, rng: Rng
    ) -> tuple[float, float, Array]:
        """Policy loss, mean entropy and gradient, with a bonus of 0.01 for entropy."""
        logits, tape = self.net(w, seen, rng)
        p = softmax(logits)
        rows, n = np.arange(len(p)), np.float32(len(p))
        log_p = np.log(np.maximum(p, np.float32(1e-12)))
        entropy = -(p * log_p).sum(1)
        loss = float(-(advantage * log_p[rows, actions]).mean())
        dout = p * advantage[:, None]
        dout[rows, actions] -= advantage
        dout += np.float32(0.01) * p * (log_p + entropy[:, None])
        grad = np.zeros(self.size, np.float32)
        self.net.backward(w, tape, dout / n, grad)
        return loss, float(entropy.mean()), grad

    def _act(self, w: Array, seen: Array, rng: Rng) -> np.ndarray:
        p = softmax(self.net(w, seen)[0])
        chosen: np.ndarray = (p.cumsum(1) < rng.random((len(p), 1), np.float32)).sum(1)
        return chosen.clip(max=p.shape[1] - 1)

    def frozen(self) -> slice:
        """The last layer."""
        matrix, bias = self.net.layers[-1]
        return slice(matrix.start, bias.stop)


def normalized(returns: Array) -> Array:
    result: Array = (returns - returns.mean()) / (returns.std() + np.float32(1e-6))
    return result


class Bandit(Policy):
    """A context decides which of four arms pays best."""

    floor = -1.0

    def __init__(self, setting: Setting, defect: Defect | None = None) -> None:
        super().__init__(setting, 5, 4, defect)
        truth = setting.rng("truth")
        self.arms = truth.standard_normal((5, 4)).astype(np.float32)
        self.noise, self.batch = np.float32(setting.noise), max(16, setting.batch)

    def _play(self, w: Array, n: int, rng: Rng) -> tuple[Array, np.ndarray, Array]:
        seen = rng.standard_normal((n, 5), np.float32)
        chosen = self._act(w, seen, rng)
        value = seen @ self.arms
        best = value.argmax(1)
        reward = (chosen == best) + self.noise * rng.standard_normal(n, np.float32)
        return seen, chosen, reward.astype(np.float32)

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        seen, chosen, reward = self._play(w, self.batch, rng)
        loss, entropy, grad = self._learn(w, seen, chosen, normalized(reward), rng)
        parts = {"reward": float(reward.mean()), "entropy": entropy}
        return Scores(loss, None, parts), grad

    def score(self, w: Array, split: Split) -> Scores:
        reward = self._play(w, 1000, np.random.default_rng([7, split == Split.THIRD]))[2]
        mean = float(reward.mean())
        return Scores(-mean, None, {"reward": mean}, total=False)


HORIZON = 60


class CartPole(Policy):
    """The pole of Barto, Sutton and Anderson (1983), at most 60 steps, many carts at once."""

    floor = -float(HORIZON)

    def __init__(self, setting: Setting, defect: Defect | None = None) -> None:
        super().__init__(setting, 4, 2, defect)
        self.carts = 8 if setting.batch < 32 else 16

    def _episodes(self, w: Array, carts: int, rng: Rng) -> tuple[Array, np.ndarray, np.ndarray]:
        """States (time, carts, 4), actions and which carts still stood, both (time, carts)."""
        state = rng.uniform(-0.05, 0.05, (carts, 4)).astype(np.float32)
        alive = np.ones(carts, bool)
        states, actions, stood = [], [], []
        for _ in range(HORIZON):
            chosen = self._act(w, state, rng)
            states.append(state)
            actions.append(chosen)
            stood.append(alive)
            state = _moved(state, chosen)
            alive = alive & (np.abs(state[:, 0]) < 2.4) & (np.abs(state[:, 2]) < 0.2095)
            if not alive.any():
                break
        return np.stack(states), np.stack(actions), np.stack(stood)

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        states, actions, stood = self._episodes(w, self.carts, rng)
        to_go = np.zeros(stood.shape, np.float32)
        ahead = np.zeros(self.carts, np.float32)
        for t in range(len(stood) - 1, -1, -1):
            ahead = stood[t] * (1 + np.float32(0.98) * ahead)
            to_go[t] = ahead
        advantage = normalized(to_go[stood])
        loss, entropy, grad = self._learn(w, states[stood], actions[stood], advantage, rng)
        reward = float(stood.sum(0).mean())
        return Scores(loss, None, {"reward": reward, "entropy": entropy}), grad

    def score(self, w: Array, split: Split) -> Scores:
        stood = self._episodes(w, 32, np.random.default_rng([7, split == Split.THIRD]))[2]
        reward = float(stood.sum(0).mean())
        return Scores(-reward, None, {"reward": reward}, total=False)


def _moved(state: Array, action: np.ndarray) -> Array:
    """One Euler step of 20 ms with a push of 10 N to either side."""
    x, v, angle, spin = state.T
    sine, cosine = np.sin(angle), np.cos(angle)
    push = np.where(action == 1, np.float32(10), np.float32(-10))
    pull = (push + np.float32(0.05) * spin**2 * sine) / np.float32(1.1)
    turn = (np.float32(9.8) * sine - cosine * pull) / (
        np.float32(0.5) * (np.float32(4 / 3) - np.float32(0.1) * cosine**2 / np.float32(1.1))
    )
    along = pull - np.float32(0.05) * turn * cosine / np.float32(1.1)
    step = np.float32(0.02)
    return np.stack([x + step * v, v + step * along, angle + step * spin, spin + step * turn], 1)
