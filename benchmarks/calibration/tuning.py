"""A generator of short sequences that is tuned on rewards, as language models are.

The name of its workload was chosen to fall among those that rules may be developed on
(``catalogue.held_out``)."""

from __future__ import annotations

import numpy as np

from .networks import Array, Dense, Rng, softmax
from .settings import Setting
from .workloads import Defect, Scores, Split

TOKENS, PROMPTS, LENGTH = 8, 6, 4
GROUP = 8
"""Answers to one prompt, compared with each other."""
BETA = 0.02
"""Weight of the divergence from the first policy."""


class PolicyTuning:
    """GRPO (Shao et al. 2024): advantages are differences within a group, so the loss is about 0
    throughout. The first policy answers half-way well; the reward is noisy and rises slowly. What
    is right depends on prompt and place."""

    metric = ""
    epoch = 10
    floor = -1.0

    def __init__(self, setting: Setting, defect: Defect | None = None) -> None:
        if defect is not None:
            raise ValueError(f"{setting.workload} knows no fault {defect!r}")
        self.net = Dense((TOKENS + 1 + PROMPTS + LENGTH, setting.width, TOKENS))
        self.size = self.net.end
        self.right = setting.rng("truth").integers(TOKENS, size=(PROMPTS, LENGTH))
        self.asked = max(2, min(8, setting.batch // GROUP))
        self.noise = np.float32(0.2 * setting.noise)
        self.reference = np.zeros(0, np.float32)

    def start(self, rng: Rng) -> Array:
        """Fitted to answers of which a part is right: what supervised tuning leaves."""
        w = np.zeros(self.size, np.float32)
        self.net.start(rng, w)
        for _ in range(60):
            prompts = rng.integers(PROMPTS, size=32)
            right = rng.random((32, LENGTH)) < 0.4
            shown = np.where(right, self.right[prompts], rng.integers(TOKENS, size=(32, LENGTH)))
            seen = self._seen(prompts, shown).reshape(-1, self.net.sizes[0])
            logits, tape = self.net(w, seen, rng)
            dout = softmax(logits)
            dout[np.arange(len(dout)), shown.ravel()] -= 1
            grad = np.zeros(self.size, np.float32)
            self.net.backward(w, tape, dout / np.float32(len(dout)), grad)
            w -= np.float32(2.0) * grad
        self.reference = w.copy()
        return w

    def _seen(self, prompts: np.ndarray, answers: np.ndarray) -> Array:
        """Inputs (answers, LENGTH, inputs): the token before, the prompt and the place."""
        tokens = np.eye(TOKENS + 1, dtype=np.float32)
        before = np.concatenate([np.full((len(answers), 1), TOKENS), answers[:, :-1]], 1)
        prompt = np.eye(PROMPTS, dtype=np.float32)[prompts]
        place = np.eye(LENGTH, dtype=np.float32)
        many = (len(answers), LENGTH)
        return np.concatenate(
            [
                tokens[before],
                np.broadcast_to(prompt[:, None], (*many, PROMPTS)),
                np.broadcast_to(place, (*many, LENGTH)),
            ],
            2,
        )

    def _answer(self, w: Array, prompts: np.ndarray, rng: Rng) -> np.ndarray:
        answers = np.zeros((len(prompts), LENGTH), int)
        for place in range(LENGTH):
            p = softmax(self.net(w, self._seen(prompts, answers)[:, place])[0])
            drawn = (p.cumsum(1) < rng.random((len(p), 1), np.float32)).sum(1)
            answers[:, place] = drawn.clip(max=TOKENS - 1)
        return answers

    def _rewards(self, prompts: np.ndarray, answers: np.ndarray) -> Array:
        result: Array = (answers == self.right[prompts]).mean(1).astype(np.float32)
        return result

    def gradient(self, w: Array, rng: Rng) -> tuple[Scores, Array]:
        prompts = np.repeat(rng.integers(PROMPTS, size=self.asked), GROUP)
        answers = self._answer(w, prompts, rng)
        reward = self._rewards(prompts, answers)
        reward = reward + self.noise * rng.standard_normal(len(reward), np.float32)
        grouped = reward.reshape(-1, GROUP)
        spread = grouped.std(1, keepdims=True)
        advantage = (
            (grouped - grouped.mean(1, keepdims=True)) / (spread + np.float32(1e-4))
        ).ravel()
        seen = self._seen(prompts, answers).reshape(-1, self.net.sizes[0])
        rows, said = np.arange(len(seen)), answers.ravel()
        logits, tape = self.net(w, seen, rng)
        p = softmax(logits)
        first = softmax(self.net(self.reference, seen)[0])
        ratio = first[rows, said] / np.maximum(p[rows, said], np.float32(1e-12))
        kl = float((ratio - np.log(np.maximum(ratio, np.float32(1e-12))) - 1).mean())
        each = np.repeat(advantage, LENGTH) - np.float32(BETA) * (1 - ratio)
        dout = p * each[:, None]
        dout[rows, said] -= each
        grad = np.zeros(self.size, np.float32)
        self.net.backward(w, tape, dout / np.float32(len(seen)), grad)
        parts = {
            "reward": float(reward.mean()),
            "reward_std": float(spread.mean()),
            "kl": kl,
        }
        return Scores(float(-advantage.mean()) + BETA * kl, None, parts), grad

    def score(self, w: Array, split: Split) -> Scores:
        rng = np.random.default_rng([13, split == Split.THIRD])
        prompts = np.repeat(np.arange(PROMPTS), 2 * GROUP)
        mean = float(self._rewards(prompts, self._answer(w, prompts, rng)).mean())
        return Scores(-mean, None, {"reward": mean}, total=False)

    def frozen(self) -> slice:
        """The last layer."""
        matrix, bias = self.net.layers[-1]
        return slice(matrix.start, bias.stop)
