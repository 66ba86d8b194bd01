"""What reinforcement learning reports in place of a loss."""

import math
from typing import Annotated

import numpy as np

from trainproof.model.data import Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import series, view
from .interface import Bound, Companions, Each, Example, Which, rule, where
from .returns import Lost, given_back
from .shape import first_improved, higher_is_better, rose
from .statistics import least_change, profile


@rule(
    id="TP-REWARD-COLLAPSE",
    title="The reward collapsed",
    level=Level.FAIL,
    message="{series} had risen to {best:.4g} around step {best_step} and is {end:.4g} at the end.",
    evidence="It had gained {gain:.4g} and lost {loss:.4g} again (limit {share:.0%} of the gain),"
    " {errors:.3g} standard errors (limit {least_errors:g}) over {points} values; the last two of"
    " its blocks agree.",
    needs={
        "reward": Each((Role.REWARD,), points=5, which=Which.PRINCIPAL),
    },
    measures={
        "points": "values judged",
        "best": "highest median of a block; mean of the best quarter",
        "best_step": "its first step",
        "end": "median of the last block; mean of the last quarter",
        "gain": "rise from the lowest block before to the best",
        "loss": "fall from the best to the end",
        "errors": "that fall in standard errors of its measurement",
        "wander": "how far two levels stray from each other without a trend",
        "first": "level at the start, a median",
        "last": "level at the end, a median",
    },
    variants={
        "given-back": Variant(
            Level.WARN,
            "{series} gave back most of what it had gained: it had reached {best:.4g} around step"
            " {best_step} and is {end:.4g} at the end.",
            "It had gained {gain:.4g} and lost {loss:.4g} again, {errors:.3g} standard errors, over"
            " {points} values.",
        )
    },
    doc=Doc(
        measures="The reward over at most twenty equal blocks: how much of its gain is lost over"
        " the last two, or over the last quarter.",
        means="The policy at the end earns far less than an earlier one.",
        does_not_mean="That the last checkpoint is useless: a curriculum or a new exploration"
        " schedule makes the task harder.",
        guards=(
            "Block medians, and two of them: dips that recover do not count.",
            "Gain and fall must also exceed six times what the level strays without a trend: the"
            " rewards of neighbouring batches remember each other.",
            "Rewards of the two answers of a preference pair have no better direction.",
            "Fewer than forty values are not judged to have collapsed, nor is a reward that had not"
            " measurably risen. A gain of which half was lost, from the best quarter of the log to"
            " the last one (of fewer evaluations, between levels), is a warning: by eight"
            " standard errors, of fewer than forty evaluations six.",
            "Clean only if the reward demonstrably rose and kept it.",
        ),
        references=("ml-agents #101, minimalRL #42, baselines #975",),
    ),
    grounds=True,
    fires=Example(
        "up to 100, then down to 10",
        view(
            series(
                "reward",
                [*(float(i) for i in range(100)), *([100.0, 99.0] * 20), *([10.0, 12.0] * 20)],
            )
        ),
    ),
    silent=Example(
        "a reward that rises", view(series("reward", [float(i % 3 + i) for i in range(60)]))
    ),
)
def reward_collapse(
    reward: Series,
    *,
    share: Annotated[float, Bound("share", "of the gain that was lost", ge=0)] = 0.5,
    least_errors: Annotated[float, Bound("standard errors", "a fall must exceed", ge=1)] = 6.0,
    points: Annotated[int, Bound("points", "from which a collapse is judged", ge=20)] = 40,
) -> Outcome:
    if not higher_is_better(reward):
        return Undecided({"points": len(reward)}, Skip.NEED_DEGENERATE)
    seen = profile(reward)
    levels = seen.medians
    best = int(np.argmax(levels))
    gain = float(levels[best] - levels[: best + 1].min())
    lost = levels[best] - levels[-2:]
    measured: dict[str, Value] = {
        "points": len(reward),
        "first": seen.first,
        "last": seen.last,
        "best": float(levels[best]),
        "best_step": int(reward.steps[seen.edges[best]]),
        "end": float(levels[-1]),
        "gain": gain,
        "loss": float(lost[-1]),
        "errors": float(lost[-1] / seen.error) if seen.error > 0 else math.inf,
    }
    measured["wander"] = seen.drift
    least = least_errors * max(seen.error, seen.drift)
    gone = gain > least and lost[-1] >= share * gain and lost[-1] > least
    if gone and len(reward) >= points and lost.min() >= share * gain:
        return Fired((Evidence(where(reward, seen.edges[best], -1), measured),))
    many = len(reward) >= points or reward.split is not Split.TRAIN
    given = given_back(reward.values) if many else None
    if given is not None:
        return _given_back(reward, given, measured)
    if gone:
        return Undecided(measured)
    return Clean(measured) if rose(seen) else Undecided(measured, Skip.LOW_POWER)


def _given_back(reward: Series, given: Lost, measured: dict[str, Value]) -> Outcome:
    measured |= {"best": given.best, "best_step": int(reward.steps[given.best_at])}
    measured |= {"end": given.end, "gain": given.gain, "loss": given.loss}
    measured["errors"] = given.loss / given.error if given.error > 0 else math.inf
    return Fired((Evidence(where(reward, given.best_at, -1), measured, "given-back"),))


@rule(
    id="TP-POLICY-FROZEN",
    title="The policy does not change",
    level=Level.WARN,
    message="{series} is {value!s} on each of the last {frozen} rows, from step {first_step} to"
    " {last_step}.",
    evidence="{frozen} of {points} logged values are equal to the last digit (from {rows} on it"
    " counts).",
    needs={
        "entropy": Each((Role.ENTROPY,), points=20),
        "rewards": Companions(Role.REWARD),
    },
    measures={
        "points": "values logged",
        "frozen": "values at the end that are equal to the last one",
        "value": "that value",
        "quantum": "unit of the last printed decimal, 0 for full precision",
        "reward": "a reward that improved",
    },
    doc=Doc(
        measures="How many of the last values of the policy's entropy are equal to the last digit.",
        means="A policy that is updated changes its entropy: this one gives the same distribution"
        " on every batch.",
        does_not_mean="That the optimizer is broken: with equal rewards there is nothing to"
        " learn from.",
        guards=(
            "Twenty equal values at least. Values printed with less than six digits may differ"
            " unseen: where three are printed, only if the whole log gives one value.",
            "A reward that improved makes it clean: a policy of fixed variance has one entropy.",
            "An entropy of 0 is a policy that became deterministic, perhaps at the optimum: not"
            " judged.",
        ),
        references=("ml-agents #281, rllm #116, stable-baselines3 #466",),
    ),
    fires=Example("one value", view(series("entropy", [3.4965] * 30))),
    silent=Example("it moves", view(series("entropy", [3.5 - 0.01 * i for i in range(30)]))),
)
def frozen_policy(
    entropy: Series,
    rewards: tuple[Series, ...],
    *,
    rows: Annotated[int, Bound("rows", "equal values that count", ge=5)] = 20,
    visible: Annotated[
        float, Bound("share", "printed unit over value: above it only a whole log is judged", ge=0)
    ] = 1e-5,
    legible: Annotated[
        float, Bound("share", "printed unit over value: above it nothing is judged", ge=0)
    ] = 2e-3,
) -> Outcome:
    last = float(entropy.values[-1])
    differs = np.flatnonzero(entropy.values != last)
    frozen = len(entropy) - (int(differs[-1]) + 1 if len(differs) else 0)
    measured: dict[str, Value] = {"points": len(entropy), "frozen": frozen, "value": last}
    if frozen < rows:
        return Clean(measured)
    reward = first_improved(rewards)
    if reward is not None:
        return Clean({**measured, "reward": reward.tag})
    measured["quantum"] = quantum = least_change(entropy.values, last)
    seen = legible if frozen == len(entropy) else visible
    if last == 0 or quantum > seen * abs(last):
        return Undecided(measured)
    return Fired((Evidence(where(entropy, len(entropy) - frozen), measured),))
