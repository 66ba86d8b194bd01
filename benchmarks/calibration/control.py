"""Policies for small environments that are stepped many at once: a gridworld, a falling ball to
catch, a mass to be held at rest.

Names of their workloads were chosen to fall among those that rules may be developed on
(``catalogue.held_out``)."""

from __future__ import annotations

import numpy as np

from .networks import Array, Dense, Rng
from .policies import Policy, normalized
from .settings import Setting
from .workloads import Defect, Scores, Split

SCORED = 32
"""Episodes of an evaluation."""


def _own(split: Split) -> Rng:
    """The episodes of a split: always the same, and its own."""
    return np.random.default_rng([11, split == Split.THIRD])


def to_go(rewards: Array, discount: float) -> Array:
    """Discounted sums of the rewards (time, episodes) from each time on."""
    sums, ahead = np.zeros_like(rewards), np.zeros(rewards.shape[1], np.float32)
    for t in range(len(rewards) - 1, -1, -1):
        ahead = rewards[t] + np.float32(discount) * ahead
        sums[t] = ahead
    return sums


SIDE, LONGEST = 4, 14
MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])


class Gridworld(Policy):
    """REINFORCE on a square of 16 fields: 1 for the goal, -1 for the pit, a little for each move;
    some moves slip. A policy over one-hot fields."""

    metric = "success_rate"
    floor = -1.0

    def __init__(self, setting: Setting, defect: Defect | None = None) -> None:
        super().__init__(setting, SIDE * SIDE, 4, defect)
        goal, pit = setting.rng("truth").permutation(SIDE * SIDE - 1)[:2] + 1
        self.goal, self.pit = int(goal), int(pit)
        self.slips = min(0.3, setting.noise / 3)
        self.walkers = max(8, min(16, setting.batch))

    def _episodes(
        self, w: Array, walkers: int, rng: Rng
    ) -> tuple[np.ndarray, np.ndarray, Array, np.ndarray]:
        """Fields, actions, rewards and which walkers were still on their way: (time, walkers)."""
        at, alive = np.zeros(walkers, int), np.ones(walkers, bool)
        fields, actions, rewards, moving = [], [], [], []
        for _ in range(LONGEST):
            chosen = self._act(w, np.eye(SIDE * SIDE, dtype=np.float32)[at], rng)
            taken = np.where(
                rng.random(walkers) < self.slips, rng.integers(4, size=walkers), chosen
            )
            row, column = ((np.divmod(at, SIDE) + MOVES[taken].T).clip(0, SIDE - 1)).astype(int)
            moved = row * SIDE + column
            gain = 1.0 * (moved == self.goal) - 1.0 * (moved == self.pit) - 0.02
            fields.append(at)
            actions.append(chosen)
            rewards.append(np.where(alive, gain, 0))
            moving.append(alive)
            alive = alive & (moved != self.goal) & (moved != self.pit)
            at = moved
            if not alive.any():
                break
        reward = np.stack(rewards).astype(np.float32)
        return np.stack(fields), np.stack(actions), reward, np.stack(moving)

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        fields, actions, reward, moving = self._episodes(w, self.walkers, rng)
        seen = np.eye(SIDE * SIDE, dtype=np.float32)[fields[moving]]
        advantage = normalized(to_go(reward, 0.97)[moving])
        loss, entropy, grad = self._learn(w, seen, actions[moving], advantage, rng)
        parts = {"reward": float(reward.sum(0).mean()), "entropy": entropy}
        return Scores(loss, _successes(reward), parts), grad

    def score(self, w: Array, split: Split) -> Scores:
        reward = self._episodes(w, SCORED, _own(split))[2]
        mean = float(reward.sum(0).mean())
        return Scores(-mean, _successes(reward), {"reward": mean}, total=False)


def _successes(reward: Array) -> float:
    return float((reward.max(0) > 0.5).mean())


WIDE, HIGH = 5, 4
MEMORY = 4096
"""Transitions that are kept for replay."""
COPIED = 5
"""Updates between two copies of the weights into the target network."""


class Catching:
    """Q-learning with replay and a target network (Mnih et al. 2015): a ball falls, a paddle below
    moves a field at a time and earns 1 or -1 when it is down. The rate of exploration falls from 1
    to 0.05 over the first 30 % of the training; evaluation is greedy."""

    metric = ""
    epoch = 10
    floor = -0.7

    def __init__(self, setting: Setting, defect: Defect | None = None) -> None:
        if defect is not None:
            raise ValueError(f"{setting.workload} knows no fault {defect!r}")
        self.net = Dense((2 * WIDE + HIGH, setting.width, 3), relu=setting.relu)
        self.size = self.net.end
        self.balls, self.batch = 16, 64
        self.explored = 0.3 * setting.steps
        self.updates = 0
        self.target = np.zeros(0, np.float32)
        inputs = 2 * WIDE + HIGH
        self.before, self.after = np.zeros((2, MEMORY, inputs), np.float32)
        self.actions, self.rewards = np.zeros(MEMORY, int), np.zeros(MEMORY, np.float32)
        self.over = np.zeros(MEMORY, np.float32)
        self.stored = 0

    def start(self, rng: Rng) -> Array:
        w = np.zeros(self.size, np.float32)
        self.net.start(rng, w)
        return w

    def _episodes(
        self, w: Array, balls: int, greed: float, rng: Rng
    ) -> tuple[Array, np.ndarray, Array]:
        """What was seen (time + 1, balls, inputs), actions (time, balls) and what was earned."""
        ball, paddle = rng.integers(WIDE, size=(2, balls))
        seen, actions = [_scene(ball, 0, paddle)], []
        for height in range(1, HIGH):
            best = self.net(w, seen[-1])[0].argmax(1)
            explored = rng.random(balls) >= greed
            chosen = np.where(explored, rng.integers(3, size=balls), best)
            paddle = (paddle + chosen - 1).clip(0, WIDE - 1)
            actions.append(chosen)
            seen.append(_scene(ball, height, paddle))
        return np.stack(seen), np.stack(actions), np.where(ball == paddle, 1.0, -1.0)

    def _remember(self, seen: Array, actions: np.ndarray, earned: Array) -> None:
        times, balls = actions.shape
        at = (self.stored + np.arange(times * balls)) % MEMORY
        last = np.arange(times)[:, None] == times - 1
        shape = -1, seen.shape[2]
        self.before[at], self.after[at] = (
            seen[:-1].reshape(shape),
            seen[1:].reshape(shape),
        )
        self.actions[at], self.over[at] = actions.ravel(), np.repeat(last, balls)
        self.rewards[at] = (last * earned).ravel()
        self.stored += times * balls

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        if self.updates % COPIED == 0:
            self.target = w.copy()
        self.updates += 1
        greed = min(0.95, self.updates / self.explored)
        seen, actions, earned = self._episodes(w, self.balls, greed, rng)
        self._remember(seen, actions, earned)
        drawn = rng.integers(min(self.stored, MEMORY), size=self.batch)
        ahead = self.net(self.target, self.after[drawn])[0].max(1)
        aim = self.rewards[drawn] + np.float32(0.95) * (1 - self.over[drawn]) * ahead
        q, tape = self.net(w, self.before[drawn], rng)
        rows, dout = np.arange(self.batch), np.zeros_like(q)
        error = q[rows, self.actions[drawn]] - aim
        dout[rows, self.actions[drawn]] = 2 * error / np.float32(self.batch)
        grad = np.zeros(self.size, np.float32)
        self.net.backward(w, tape, dout, grad)
        parts = {"reward": float(earned.mean()), "exploration_rate": 1 - greed}
        return Scores(float((error**2).mean()), None, parts), grad

    def score(self, w: Array, split: Split) -> Scores:
        mean = float(self._episodes(w, 4 * SCORED, 1.0, _own(split))[2].mean())
        return Scores(-mean, None, {"reward": mean}, total=False)

    def frozen(self) -> slice:
        """The last layer."""
        matrix, bias = self.net.layers[-1]
        return slice(matrix.start, bias.stop)


def _scene(ball: np.ndarray, height: int, paddle: np.ndarray) -> Array:
    wide, high = np.eye(WIDE, dtype=np.float32), np.eye(HIGH, dtype=np.float32)
    return np.concatenate([wide[ball], wide[paddle], high[np.full(len(ball), height)]], 1)


MOMENTS = 16
"""Steps of an episode of the point mass."""


class PointMass:
    """An actor and a critic (Sutton et al. 1999) for a mass on a line: a Gaussian force brings it
    to rest at 0. What is earned is a cost, below 0 throughout."""

    metric = ""
    epoch = 10
    floor = 0.1

    def __init__(self, setting: Setting, defect: Defect | None = None) -> None:
        if defect is not None:
            raise ValueError(f"{setting.workload} knows no fault {defect!r}")
        self.actor = Dense((2, setting.width, 1))
        self.spread = self.actor.end
        """Index of the logarithm of the policy's standard deviation."""
        self.critic = Dense((2, setting.width, 1), offset=self.spread + 1)
        self.size = self.critic.end
        self.masses = max(8, min(16, setting.batch))
        self.pushed = np.float32(0.05 * setting.noise)

    def start(self, rng: Rng) -> Array:
        w = np.zeros(self.size, np.float32)
        self.actor.start(rng, w)
        self.critic.start(rng, w)
        w[self.spread] = -0.5
        return w

    def _episodes(self, w: Array, masses: int, rng: Rng) -> tuple[Array, Array, Array]:
        """States (time, masses, 2), forces and rewards (time, masses)."""
        state = rng.uniform(-1, 1, (masses, 2)).astype(np.float32)
        deviation = np.exp(np.clip(w[self.spread], -4, 2))
        states, forces, rewards = [], [], []
        for _ in range(MOMENTS):
            force = self.actor(w, state)[0][:, 0] + deviation * rng.standard_normal(
                masses, np.float32
            )
            place, speed = state.T
            states.append(state)
            forces.append(force)
            cost = (
                place**2
                + np.float32(0.1) * speed**2
                + np.float32(0.01) * np.clip(force, -3, 3) ** 2
            )
            rewards.append(-np.float32(0.1) * cost)
            push = np.clip(force, -3, 3) + self.pushed * rng.standard_normal(masses, np.float32)
            speed = np.clip(speed + np.float32(0.2) * push, -5, 5)
            state = np.stack([np.clip(place + np.float32(0.2) * speed, -5, 5), speed], 1)
        return np.stack(states), np.stack(forces), np.stack(rewards)

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        states, forces, rewards = self._episodes(w, self.masses, rng)
        seen, ahead = states.reshape(-1, 2), to_go(rewards, 0.95).ravel()
        grad, n = np.zeros(self.size, np.float32), np.float32(len(seen))
        value, judged = self.critic(w, seen, rng)
        error = value[:, 0] - ahead
        self.critic.backward(w, judged, (error / n)[:, None], grad)
        advantage = normalized(-error)
        mean, acted = self.actor(w, seen, rng)
        log_deviation = np.clip(w[self.spread], -4, 2)
        apart = (forces.ravel() - mean[:, 0]) / np.exp(log_deviation)
        log_p = -0.5 * apart**2 - log_deviation
        dmean = -advantage * apart / np.exp(log_deviation) / n
        self.actor.backward(w, acted, dmean[:, None], grad)
        grad[self.spread] = -(advantage * (apart**2 - 1)).mean() - np.float32(1e-3)
        policy, value_loss = float(-(advantage * log_p).mean()), float(0.5 * (error**2).mean())
        parts = {
            "policy_loss": policy,
            "value_loss": value_loss,
            "reward": float(rewards.sum(0).mean()),
            "entropy": float(log_deviation + 0.5 * np.log(2 * np.pi * np.e)),
        }
        return Scores(policy + value_loss, None, parts), grad

    def score(self, w: Array, split: Split) -> Scores:
        mean = float(self._episodes(w, SCORED, _own(split))[2].sum(0).mean())
        return Scores(-mean, None, {"reward": mean}, total=False)

    def frozen(self) -> slice:
        """The actor, all of it."""
        return slice(0, self.spread + 1)
