"""Whether a policy that is tuned on rewards or preferences has anything to learn from."""

import math
from collections.abc import Iterable
from typing import Annotated

import numpy as np

from trainproof.model.data import Axis, Facts, Floats, Regime, Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import falling, series, view
from .interface import Bound, Companions, Declared, Each, Example, Which, rule, where
from .shape import first_improved, improved, principal
from .statistics import median, screen, tail_of

REWARDS = Companions(Role.REWARD, Split.TRAIN)
LEAST_ROWS = 20

ALL_EQUAL = "frac_reward_zero_std"
"""TRL's share of the groups whose completions all earned the same."""


def _ending(values: Floats) -> Floats:
    """The last quarter, twenty rows at least."""
    return values[-max(LEAST_ROWS, len(values) // 4) :]


@rule(
    id="TP-NO-ADVANTAGE",
    title="All completions earn the same",
    level=Level.WARN,
    message="On {idle:.0%} of the last {rows} rows no completion earned more than another"
    " ({series}), and {reward} is down at its lowest, {end:.4g}.",
    evidence="{reward} had been at {highest:.4g}; {series} is logged on {points} rows (a share of"
    " {limit:.0%} counts).",
    needs={
        "spread": Each(
            (Role.OTHER,),
            Split.TRAIN,
            points=LEAST_ROWS,
            named=frozenset({"reward_std", ALL_EQUAL}),
        ),
        "rewards": REWARDS,
    },
    measures={
        "points": "values logged",
        "rows": "values at the end that were looked at",
        "idle": "share of them without any difference between completions",
        "reward": "the reward",
        "end": "its median over its last quarter",
        "lowest": "its lowest value",
        "highest": "its highest value",
    },
    variants={
        "unclear": Variant(
            Level.WARN,
            "On {idle:.0%} of the last {rows} rows no completion earned more than another"
            " ({series}); {reward} is {end:.4g}.",
            "{reward} lies between {lowest:.4g} and {highest:.4g}; {series} is logged on {points}"
            " rows (a share of {limit:.0%} counts).",
        ),
        "solved": Variant(
            Level.INFO,
            "On {idle:.0%} of the last {rows} rows no completion earned more than another"
            " ({series}); {reward} rose to {end:.4g}.",
            "{reward} began lower ({lowest:.4g} at the lowest): the task may be solved.",
        ),
    },
    doc=Doc(
        measures="The share of the last rows on which the spread of the rewards within a group is"
        " exactly 0, and where the reward is.",
        means="Advantages are differences from the group: without any, nothing is learned from"
        " these completions.",
        does_not_mean="Whether the reward function or the policy is at fault.",
        guards=(
            "A reward that rose, or is at its highest, may be that of a solved task: a note.",
            "A reward that was never different is a warning: it may be the best there is.",
            "Twenty rows at the end at least, and nine in ten of them.",
            "Never more than a warning: no public log of a whole run shows it, and other prompts"
            " may bring differences again.",
        ),
        references=("trl #3857, autocontext PR #1067",),
    ),
    fires=Example(
        "down to 0 and equal",
        view(
            series("reward_std", [0.3] * 20 + [0.0] * 40),
            series("reward", [0.5, 0.4] * 10 + [0.0] * 40),
            regime=Regime.REINFORCEMENT,
        ),
    ),
    silent=Example(
        "completions differ",
        view(
            series("reward_std", [0.3, 0.2, 0.0] * 20),
            series("reward", falling(60, 0.2, 0.9)),
            regime=Regime.REINFORCEMENT,
        ),
    ),
)
def no_advantage(
    spread: Series,
    rewards: tuple[Series, ...],
    *,
    limit: Annotated[float, Bound("share", "of the last rows without a difference", ge=0)] = 0.9,
) -> Outcome:
    ending = _ending(spread.values)
    nothing = 1.0 if spread.identity.base == ALL_EQUAL else 0.0
    idle = np.count_nonzero(ending == nothing) / len(ending)
    measured: dict[str, Value] = {"points": len(spread), "rows": len(ending), "idle": idle}
    if idle < limit:
        return Clean(measured)
    reward = principal(rewards)
    if reward is None:
        return Undecided(measured, Skip.NEED_ABSENT)
    end = median(_ending(reward.values))
    lowest, highest = float(reward.values.min()), float(reward.values.max())
    measured |= {"reward": reward.tag, "end": end, "lowest": lowest, "highest": highest}
    variant = "unclear"
    if improved(reward) or (end >= highest > lowest):
        variant = "solved"
    elif end <= lowest < highest:
        variant = ""
    return Fired((Evidence(where(spread, len(spread) - len(ending)), measured, variant),))


@rule(
    id="TP-COMPLETIONS-CUT",
    title="Completions are always cut",
    level=Level.WARN,
    message="{series} is {end:.3g} over the last {rows} rows: next to no completion comes to its"
    " own end.",
    evidence="{cut:.0%} of these rows are at {least:g} or above; {points} rows are logged.",
    needs={
        "ratio": Each(
            (Role.OTHER,),
            Split.TRAIN,
            points=LEAST_ROWS,
            named=frozenset({"completions_clipped_ratio", "clipped_ratio"}),
        ),
        "rewards": REWARDS,
    },
    measures={
        "points": "values logged",
        "rows": "values at the end that were looked at",
        "end": "their median",
        "cut": "share of them at the limit",
        "reward": "a reward that improved",
    },
    variants={
        "learning": Variant(
            Level.INFO,
            "{series} is {end:.3g} over the last {rows} rows: next to no completion comes to its"
            " own end; {reward} improved all the same.",
            "{cut:.0%} of these rows are at {least:g} or above; {points} rows are logged.",
        )
    },
    doc=Doc(
        measures="The share of completions that reach the length limit, over the last rows.",
        means="Answers are scored without their ends: the limit is too short, or the policy has"
        " unlearned to stop.",
        does_not_mean="That the reward is wrong: a short probe may be scored as it is.",
        guards=(
            "Twenty rows at the end at least, nine in ten of them at 99 % or more.",
            "A reward that improved makes it a note.",
        ),
        references=("ms-swift #4570, #4950",),
    ),
    fires=Example("all cut", view(series("clipped_ratio", [1.0] * 40))),
    silent=Example("few cut", view(series("clipped_ratio", [0.1, 0.2] * 20))),
)
def completions_cut(
    ratio: Series,
    rewards: tuple[Series, ...],
    *,
    least: Annotated[float, Bound("share", "of completions that are cut", ge=0)] = 0.99,
    often: Annotated[float, Bound("share", "of the rows", ge=0)] = 0.9,
) -> Outcome:
    ending = _ending(ratio.values)
    cut = np.count_nonzero(ending >= least) / len(ending)
    measured: dict[str, Value] = {
        "points": len(ratio),
        "rows": len(ending),
        "end": median(ending),
        "cut": cut,
    }
    if cut < often:
        return Clean(measured)
    place = where(ratio, len(ratio) - len(ending))
    reward = first_improved(rewards)
    if reward is not None:
        return Fired((Evidence(place, {**measured, "reward": reward.tag}, "learning"),))
    return Fired((Evidence(place, measured),))


@rule(
    id="TP-DPO-IDLE",
    title="Preference tuning does nothing",
    level=Level.FAIL,
    message="{series} is still {end:.4g}, that of a policy equal to its reference (ln 2), over the"
    " last half of the log; {margins} is {margin:.2g} and {accuracy} {right:.3g}.",
    evidence="Medians over the last half of {points} rows; within {near:.1%} of ln 2, margins"
    " below {small:g}.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, points=LEAST_ROWS, which=Which.PRINCIPAL),
        "rewards": REWARDS,
        "metrics": Companions(Role.METRIC, Split.TRAIN),
        "facts": Declared(),
    },
    measures={
        "points": "values logged",
        "end": "median of the last half",
        "margins": "the reward margin between chosen and rejected answers",
        "margin": "its median over the last half",
        "accuracy": "the share of pairs in which the chosen answer earns more",
        "right": "its median over the last half",
        "seen": "share of the declared run that the log shows",
    },
    variants={
        "unclear": Variant(
            Level.WARN,
            "{series} is still {end:.4g}, that of a policy equal to its reference (ln 2), over the"
            " last half of the log; {margins} is {margin:.2g}.",
            "Medians over the last half of {points} rows; no accuracy of the rewards is logged.",
        )
    },
    doc=Doc(
        measures="The loss over the last half against ln 2, the margin between the implicit rewards"
        " of chosen and rejected answers, and how often it has the right sign.",
        means="Policy and reference give the same probabilities: nothing was learned.",
        does_not_mean="Whether the rate is too low, weights are frozen, or the reference is the"
        " policy itself.",
        guards=(
            "All three must agree: a small beta makes margins small, not their sign random.",
            "Without a logged accuracy it is a warning.",
            "A log of less than half of the declared run is not judged.",
        ),
        references=(
            "trl #1236; Yifan-Song793/ETO #14: 0.6931, margins and accuracies of 0",
            "Rafailov et al. 2023: the loss is ln 2 at the reference",
            "torch 2.13: fires on 4 of 4 small runs that could not learn, on 0 of 16 that could",
        ),
    ),
    not_for=(Regime.SUPERVISED, Regime.REINFORCEMENT, Regime.ADVERSARIAL),
    fires=Example(
        "ln 2 to the end",
        view(
            series("loss", [0.6931, 0.6932] * 30),
            series("rewards/margins", [1e-5, -1e-5] * 30),
            series("rewards/accuracies", [0.5, 0.48] * 30),
            regime=Regime.PREFERENCE,
        ),
    ),
    silent=Example(
        "the loss falls",
        view(
            series("loss", falling(60, 0.69, 0.3)),
            series("rewards/margins", falling(60, 0.1, 2.0)),
            regime=Regime.PREFERENCE,
        ),
    ),
)
def preference_idle(
    loss: Series,
    rewards: tuple[Series, ...],
    metrics: tuple[Series, ...],
    facts: Facts,
    *,
    near: Annotated[float, Bound("share", "of ln 2: a loss at it", ge=0)] = 5e-3,
    small: Annotated[float, Bound("reward", "a margin below it is none", ge=0)] = 1e-3,
    random: Annotated[float, Bound("share", "of pairs: an accuracy up to it is a guess", ge=0)] = (
        0.55
    ),
) -> Outcome:
    end = _last_half(loss)
    measured: dict[str, Value] = {"points": len(loss), "end": end}
    if abs(end - math.log(2)) > near * math.log(2):
        return Clean(measured)
    margins = _finite(one for one in rewards if "margins" in one.identity.base)
    if margins is None:
        return Undecided(measured, Skip.NEED_ABSENT)
    measured |= {"margins": margins.tag, "margin": _last_half(margins)}
    if abs(_last_half(margins)) >= small:
        return Clean(measured)
    if facts.max_steps and loss.column.axis is Axis.STEP:
        measured["seen"] = float(loss.steps[-1]) / facts.max_steps
        if float(measured["seen"]) < 0.5:
            return Undecided(measured)
    accuracy = _finite(one for one in metrics if "accurac" in one.identity.base)
    if accuracy is None:
        return Fired((Evidence(where(loss, len(loss) // 2), measured, "unclear"),))
    measured |= {"accuracy": accuracy.tag, "right": _last_half(accuracy)}
    if _last_half(accuracy) > random:
        return Clean(measured)
    return Fired((Evidence(where(loss, len(loss) // 2), measured),))


def _last_half(one: Series) -> float:
    return median(one.values[len(one) // 2 :])


def _finite(found: Iterable[Series]) -> Series | None:
    return max((one for one in found if not screen(one).nonfinite), key=len, default=None)


@rule(
    id="TP-KL-RUNAWAY",
    title="The policy runs away from its reference",
    level=Level.WARN,
    message="{series} is {end:.4g} over the last tenth of the log; over the first quarter it was"
    " {start:.4g}.",
    evidence="Medians over {points} values; above {least:g} and {times:g} times the start it"
    " counts.",
    needs={
        "kl": Each((Role.KL,), Split.TRAIN, points=40),
        "rewards": REWARDS,
    },
    measures={
        "points": "values logged",
        "start": "median of the first quarter",
        "end": "median of the last tenth",
        "tail": "values at the end that are negative",
        "reward": "a reward that improved",
    },
    variants={
        "negative": Variant(
            Level.WARN,
            "{series} is negative on the last {tail} rows, {end:.4g} in the median: a divergence"
            " cannot be.",
            "Of {points} values. The estimate does not come from the policy's own samples, or"
            " policy and reference see different tokens.",
        ),
        "paid": Variant(
            Level.INFO,
            "{series} is {end:.4g} over the last tenth of the log, {start:.4g} over the first"
            " quarter; {reward} improved.",
            "Medians over {points} values.",
        ),
    },
    doc=Doc(
        measures="The divergence of the policy from its reference at the end against the start,"
        " and its sign.",
        means="The policy has left what its reference would say; or the estimate is wrong.",
        does_not_mean="That answers are bad: a reward that improved makes it a note.",
        guards=(
            "Medians, not single rows: the usual estimate is noisy and may be negative by chance."
            " Negative counts on ten rows in a row and below -1 in the median.",
            "The divergence of a variational code is another quantity: supervised and adversarial"
            " training are out of scope.",
        ),
        references=("trl #1857, #204, #1161; MedicalGPT #374; LLaMA-Factory #664",),
    ),
    not_for=(Regime.SUPERVISED, Regime.ADVERSARIAL),
    fires=Example(
        "from 0.05 to 40",
        view(series("kl", falling(80, 0.05, 40)), regime=Regime.REINFORCEMENT),
    ),
    silent=Example(
        "it stays small",
        view(series("kl", falling(80, 0.01, 0.2)), regime=Regime.REINFORCEMENT),
    ),
)
def divergence_from_reference(
    kl: Series,
    rewards: tuple[Series, ...],
    *,
    least: Annotated[float, Bound("nats", "a divergence above it counts", ge=0)] = 10.0,
    times: Annotated[float, Bound("ratio", "over the start", ge=1)] = 10.0,
    in_a_row: Annotated[int, Bound("rows", "negative ones at the end that count", ge=2)] = 10,
    below: Annotated[float, Bound("nats", "by which negative ones are no noise", ge=0)] = 1.0,
) -> Outcome:
    count = len(kl)
    start, end = median(kl.values[: count // 4]), median(kl.values[-max(4, count // 10) :])
    tail = tail_of(kl.values < 0)
    measured: dict[str, Value] = {"points": count, "start": start, "end": end, "tail": tail}
    if tail >= in_a_row and median(kl.values[-tail:]) < -below:
        return Fired((Evidence(where(kl, count - tail), measured, "negative"),))
    if not (end > least and end > times * max(start, 0.0)):
        return Clean(measured)
    reward = first_improved(rewards)
    if reward is not None:
        return Fired((Evidence(where(kl), {**measured, "reward": reward.tag}, "paid"),))
    return Fired((Evidence(where(kl), measured),))
