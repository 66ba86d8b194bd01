"""Whether what a policy earns, or what a generator is measured by, got better at all.

The losses of these trainings are a game's or a policy gradient's and need not fall: the rules
about losses stand down, and this is what is left to judge by.
"""

import math
from collections.abc import Iterable
from typing import Annotated

import msgspec
import numpy as np

from trainproof.model.data import Attempt, Floats, Regime, Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import falling, series, view
from .interface import Bound, Each, Example, Together, Which, rule, starts_late, where
from .returns import BLOCKS, Course, course
from .shape import fell, higher_is_better, improved
from .statistics import (
    FEW,
    Profile,
    least_change,
    median,
    median_of_three,
    once_per_series,
    profile,
    screen,
    tail_of,
)

TREND = 0.05
"""Mann-Kendall p of block means above which no rise is shown at all."""

LIKELY = 2.0
"""Standard errors above the measured gain within which the true one lies: one-sided 97.7 %."""

FALLEN = 0.25
"""A fall below this share of the level before is not spoken of."""

HALF, STALE = 0.5, 0.75
"""Share of the gain in training that an evaluation which does not follow never reached; one of
which all values are equal."""

FOLLOWS = 0.1
"""Share of the gain in training below which an evaluation did not follow."""

LEAST_ROWS = 40
"""Rows from which on a rise of block means is beyond doubt: two in each block."""

LEARNED_AT_ONCE = 3.0
"""A first row so many standard deviations of the later ones below their mean: what could be
learned was learned in the first rows."""

PRESSED = 0.4
"""Where the best row lies less than this share as far above the mean as the worst fiftieth lies
below it, rewards press against a ceiling."""

LUCKY = 3.0
"""The same the other way round: a few rows earn far more than the rest."""

STILL = 0.01
"""Share of its level within which the mean entropy of every twentieth of the log lies, where a
policy does not change."""

NEAR = 1e-6
"""Nats of divergence from its reference that no policy stays within that is updated."""

OF_AN_UPDATE = frozenset({"approx", "approxkl", "old", "ppo"})
"""Words for the divergence of the policy before an update from that after it: it may be as small
as it likes."""

SHARPER = 0.1
"""An entropy at this share of its first value, in the median of the last half: the policy decided
itself. That of a Gaussian policy falls through 0 and does not stay there."""

HARDER = frozenset({"curriculum", "difficulty", "lesson", "stage", "phase"})
"""Words for what makes the task another one on the way."""

EXPLORATION = frozenset({"exploration", "epsilon", "eps"})

RATES = frozenset({"success", "win", "winrate", "pass"})
"""Words for shares of episodes that went well."""

WINS = frozenset({"win", "winrate"})
"""Of these, shares that are a half by construction where a policy plays against itself."""

DISTANCES = frozenset({"fid", "kid", "fvd", "fad", "mmd", "swd", "wasserstein"})
"""Words for distances between generated and real samples: 0 is best."""

SCORES = frozenset({"is", "inception"})
"""Words for scores of generated samples: higher is better, above 0."""


def _words(one: Series) -> set[str]:
    """The words of a name, without the digits at their ends (``fid50`` of ``fid50k``)."""
    return {word.rstrip("0123456789") for word in one.identity.base.split("_")}


# --- a policy at its best ---------------------------------------------------------------------


def _plateau(values: Floats) -> bool:
    """Whether rewards press against a ceiling, are all equal, or were learned in the first rows: a
    policy at its best cannot gain."""
    later = values[len(values) // 4 :]
    mean, spread = float(later.mean()), float(later.std())
    if not _moves(later) or later.max() - mean < PRESSED * (mean - np.quantile(later, 0.02)):
        return True
    return bool(values[0] < mean - LEARNED_AT_ONCE * spread)


def _mostly_reached(values: Floats) -> bool:
    return bool(values.min() >= 0 and values.max() <= 1 and values.mean() > 0.5)


# --- what shows that the policy was not at its best --------------------------------------------


class Sign(msgspec.Struct, frozen=True):
    """Why a flat reward is not that of a policy at its best: the variant of the finding, and the
    series that shows it, from its ``start`` to its ``end``."""

    variant: str
    other: str = ""
    start: float = 0.0
    end: float = 0.0


def _still(attempt: Attempt) -> Sign | None:
    """An entropy, or a divergence from a reference, that scatters and yet goes nowhere."""
    for one in attempt.select(Role.ENTROPY):
        if _judged(one, FEW) and _moves(one.values):
            means = np.array([part.mean() for part in np.array_split(one.values, BLOCKS)])
            if float(np.ptp(means)) <= STILL * abs(float(means[0])):
                return _unmoved(one)
    for one in _divergences(attempt):
        if _moves(one.values) and float(np.abs(one.values).max()) <= NEAR:
            return _unmoved(one)
    return None


def _constant(attempt: Attempt) -> Sign | None:
    """The same without any scatter: a policy of fixed variance, or one without a reference, logs
    such values in a healthy training, too."""
    both = (*attempt.select(Role.ENTROPY), *_divergences(attempt))
    found = (one for one in both if _judged(one, FEW) and not _moves(one.values))
    return next(map(_unmoved, found), None)


def _divergences(attempt: Attempt) -> Iterable[Series]:
    """Those from a reference, not from the policy before an update."""
    return (
        one
        for one in attempt.select(Role.KL)
        if _judged(one, FEW) and not OF_AN_UPDATE & _words(one)
    )


def _unmoved(one: Series) -> Sign:
    return Sign("still", one.tag, float(one.values[0]), float(one.values[-1]))


def _same(attempt: Attempt, values: Floats) -> Sign | None:
    """Evaluations that are all equal, and no better than rows of the training: a policy that was
    at its best would be, without exploration."""
    for one in attempt.select(Role.REWARD, Split.EVAL):
        if _judged(one, 5) and not _moves(one.values):
            value = float(one.values[0])
            if value <= values.mean() + values.std():
                return _unmoved(one)
    return None


def _decided(attempt: Attempt) -> Sign | None:
    """An entropy or a rate of exploration that fell to a fraction of its start."""
    for one in (*attempt.select(Role.ENTROPY), *_named(attempt, EXPLORATION)):
        if _judged(one, FEW) and one.values.min() >= 0:
            start, end = float(one.values[0]), median(one.values[len(one) // 2 :])
            if start > 0 and end <= SHARPER * start:
                return Sign("decided", one.tag, start, end)
    return None


def _headroom(values: Floats) -> Sign | None:
    """Rows that earn far more than the rest."""
    low, high, mean = float(np.quantile(values, 0.02)), float(values.max()), float(values.mean())
    far = high - mean > max(LUCKY * (mean - low), HALF * abs(mean))
    return Sign("lucky", end=high) if far else None


def _judged(one: Series, points: int) -> bool:
    return len(one) >= points and not screen(one).nonfinite


# --- rewards ---------------------------------------------------------------------------------


@rule(
    id="TP-NO-REWARD-GAIN",
    title="No gain of reward can be shown",
    level=Level.WARN,
    message="{series} is {late:.4g} over the last quarter of the log, {early:.4g} over the first:"
    " it did not rise, and {other} shows no change of the policy ({other_start:.4g} at the start,"
    " {other_end:.4g} at the end).",
    evidence="No trend over {points} values (Mann-Kendall p of a rise {p_rise:.2g}); the change of"
    " {gain:.3g} has a standard error of {error:.3g}.",
    needs={
        "reward": Each((Role.REWARD, Role.METRIC), points=5, which=Which.PRINCIPAL),
        "beside": Together(),
    },
    measures={
        "points": "values judged",
        "early": "mean over the first quarter",
        "late": "mean over the last quarter",
        "gain": "late less early",
        "error": "standard error of the gain, by the scatter of means of twenty blocks",
        "excluded": "least gain that can be excluded, over the absolute mean",
        "within": "the same by their scatter within the two quarters",
        "start": "mean over the first twentieth",
        "p_rise": "one-sided Mann-Kendall p of a rise, over twenty block means",
        "p_fall": "the same of a fall",
        "first": "level at the start, a median",
        "last": "level at the end, a median",
        "highest": "the highest value",
        "other": "the series that says more: of the policy, of another reward, of the task",
        "other_start": "its value at the start",
        "other_end": "its value at the end",
    },
    variants={
        "decided": Variant(
            Level.WARN,
            "{series} is {late:.4g} over the last quarter of the log, {early:.4g} over the first:"
            " no gain can be shown, though {other} fell from {other_start:.4g} to"
            " {other_end:.4g}.",
            "No trend over {points} values (Mann-Kendall p of a rise {p_rise:.2g}); a gain of"
            " {excluded:.0%} of the level would have been seen.",
        ),
        "lucky": Variant(
            Level.WARN,
            "{series} is {late:.4g} over the last quarter of the log, {early:.4g} over the first:"
            " no gain can be shown, though up to {highest:.4g} was earned.",
            "No trend over {points} values (Mann-Kendall p of a rise {p_rise:.2g}); a gain of"
            " {excluded:.0%} of the level would have been seen.",
        ),
        "plain": Variant(
            Level.INFO,
            "{series} is {late:.4g} over the last quarter of the log, {early:.4g} over the first:"
            " no gain can be shown.",
            "No trend over {points} values (Mann-Kendall p of a rise {p_rise:.2g}); a gain of"
            " {excluded:.0%} of the level would have been seen.",
        ),
        "fallen": Variant(
            Level.WARN,
            "{series} fell: it was {early:.4g} over the first quarter of the log and {start:.4g}"
            " over its first twentieth; over the last quarter it is {late:.4g}.",
            "The change of {gain:.3g} over {points} values has a standard error of {within:.3g}"
            " (Mann-Kendall p of a fall {p_fall:.2g}).",
        ),
        "held-out": Variant(
            Level.WARN,
            "{series}, measured apart, ends at {last:.4g} and began at {first:.4g}, while {other}"
            " rose from {other_start:.4g} to {other_end:.4g} in training.",
            "None of its {points} values lies above {highest:.4g}.",
        ),
    },
    doc=Doc(
        measures="The reward, or a rate of success, over the log: the trend of twenty block means,"
        " the gain from the first quarter to the last, and how great a gain could hide in their"
        " scatter.",
        means="Over the log shown the policy does not earn more than at its start, or earns less."
        " Where the evaluation alone stays, what is evaluated is not what is trained.",
        does_not_mean="That learning is impossible: a sparse reward may be found later, and more"
        " steps may show a gain that is too slow for this log.",
        guards=(
            "Forty values at least, from the start of the run. A gain of a quarter of the level"
            " must be excluded, unless the policy does not change at all: else the power is too low"
            " and nothing is said.",
            "A policy that begins at its best cannot gain: not judged are rewards that press"
            " against a ceiling, are all equal, are shares of which more than half is reached, or"
            " were learned in the first rows. Where nothing shows that more could be earned (a"
            " policy that does not change, an entropy or exploration that fell by nine tenths,"
            " rows that earned far more), it is a note.",
            "A mean that cannot be told from 0, of wins from a half, may be so by construction"
            " (normalised returns, advantages, play against oneself): not judged. Nor are parts of"
            " a reward, or rewards of chosen and rejected answers.",
            "Another reward or rate of the same run that improved beyond doubt makes it clean.",
            "A curriculum that moves makes the task another one, and while more than half of the"
            " exploration lies ahead actions are drawn whatever was learned: not judged.",
        ),
        references=(
            "Henderson et al. 2018, Deep Reinforcement Learning that Matters: the noise of returns",
            "Mann 1945; Kendall 1975",
            "ml-agents #101, minimalRL #42, baselines #975",
        ),
    ),
    not_for=(Regime.SUPERVISED, Regime.PREFERENCE, Regime.ADVERSARIAL),
    fires=Example(
        "as at the start, and the policy as it was",
        view(
            series("reward", [10.0 + i * 7 % 5 for i in range(100)]),
            series("entropy", [1.386] * 100),
            regime=Regime.REINFORCEMENT,
        ),
    ),
    silent=Example(
        "a reward that rises",
        view(series("reward", [float(i % 3 + i) for i in range(60)]), regime=Regime.REINFORCEMENT),
    ),
)
def no_reward_gain(
    reward: Series,
    beside: Attempt,
    *,
    rows: Annotated[int, Bound("rows", "from which on no gain is spoken of", ge=20)] = 40,
    useful: Annotated[float, Bound("share", "of the level: a gain that must be excluded", ge=0)] = (
        0.25
    ),
) -> Outcome:
    measured: dict[str, Value] = {"points": len(reward)}
    if not _earned(reward):
        return Undecided(measured, Skip.NEED_DEGENERATE)
    seen = profile(reward)
    measured |= {"first": seen.first, "last": seen.last, "highest": float(reward.values.max())}
    moving = (one for one in _named(beside, HARDER) if _moves(one.values))
    task = next(moving, None) or _exploring(beside)
    if task is not None:
        return Undecided({**measured, "other": task.tag})
    other = next(filter(_gained, _rewards(beside)), None)
    if _gained(reward) or (other is not None and other.split is not Split.TRAIN):
        return Clean(measured if other is None else {**measured, "other": other.tag})
    if other is not None:
        return _held_out(reward, other, measured)
    if len(reward) < FEW:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    if starts_late(reward):
        return Undecided(measured, Skip.START_MISSING)
    return _alone(reward, beside, measured, rows, useful)


def _earned(one: Series) -> bool:
    """Whether this is what a policy earns as a whole, or how often it succeeds."""
    if one.role is Role.METRIC and not RATES & _words(one):
        return False
    parted = one.role is Role.REWARD and one.identity.component is not None
    return bool(higher_is_better(one)) and not parted


def _rewards(beside: Attempt) -> Iterable[Series]:
    both = (*beside.select(Role.REWARD), *beside.select(Role.METRIC))
    return (one for one in both if _earned(one))


@once_per_series
def _gained(one: Series) -> bool:
    """Whether a reward rose beyond doubt, by its medians or by its means."""
    if improved(one):
        return True
    return _judged(one, LEAST_ROWS) and course(one.values).rises


def _named(beside: Attempt, words: frozenset[str]) -> Iterable[Series]:
    """What the table of names does not know as a quantity to be judged."""
    both = (*beside.select(Role.OTHER), *beside.select(Role.UNKNOWN))
    return (one for one in both if words & _words(one))


def _exploring(beside: Attempt) -> Series | None:
    """A rate of exploration that is to fall and has not fallen by half: actions are still drawn,
    whatever was learned."""
    for one in _named(beside, EXPLORATION):
        if _judged(one, 2) and one.values[-1] > 0.5 * max(float(one.values[0]), 0.5):
            return one
    return None


def _moves(values: Floats) -> bool:
    return bool((values != values[0]).any())


def _held_out(reward: Series, trained: Series, measured: dict[str, Value]) -> Outcome:
    """An evaluation that does not follow what rose in training."""
    seen = profile(trained)
    measured |= {"other": trained.tag, "other_start": seen.first, "other_end": seen.last}
    gain = seen.last - seen.first
    if reward.split is Split.TRAIN or reward.role is not trained.role:
        return Undecided(measured)
    last, first = median(reward.values[-3:]), median(reward.values[:3])
    measured |= {"first": first, "last": last}
    reached = float(reward.values.max()) - seen.first
    far = HALF if _moves(reward.values) else STALE
    if reached < far * gain and last - first < FOLLOWS * gain:
        return Fired((Evidence(where(reward), measured, "held-out"),))
    return Undecided(measured)


def _alone(
    reward: Series, beside: Attempt, measured: dict[str, Value], rows: int, useful: float
) -> Outcome:
    """A reward that nothing speaks for."""
    went = course(reward.values)
    level = abs(went.level)
    most = max(0.0, went.gain) + LIKELY * went.error
    measured |= {"early": went.early, "late": went.late, "gain": went.gain}
    measured |= {"error": went.error, "within": went.within, "start": went.start}
    measured |= {"p_rise": went.p_rise, "p_fall": went.p_fall}
    measured["excluded"] = most / level if level > 0 else math.inf
    if _fallen(went) or _sank(profile(reward)):
        return Fired((Evidence(where(reward), measured, "fallen"),))
    if went.at(0.5 if WINS & _words(reward) else 0.0):
        return Undecided(measured, Skip.NEED_DEGENERATE)
    if len(reward) < rows or went.p_rise <= TREND:
        return Undecided(measured, Skip.LOW_POWER)
    if _plateau(reward.values):
        return Undecided(measured)
    still = _still(beside)
    if still is None and _mostly_reached(reward.values):
        return Undecided(measured)
    still = still or _same(beside, reward.values)
    if still is None and most >= useful * level:
        return Undecided(measured, Skip.LOW_POWER)
    sign = still or _constant(beside) or _decided(beside) or _headroom(reward.values)
    sign = sign or Sign("plain")
    measured |= {"other": sign.other, "other_start": sign.start, "other_end": sign.end}
    variant = "" if sign.variant == "still" else sign.variant
    return Fired((Evidence(where(reward), measured, variant),))


def _fallen(went: Course) -> bool:
    """Whether a reward lost a quarter of its level beyond doubt: on the way, or in its first rows,
    never to come back."""
    if went.falls and -went.gain > FALLEN * abs(went.early):
        return True
    return went.ahead > max(FALLEN * abs(went.level), LEARNED_AT_ONCE * went.scatter)


def _sank(seen: Profile) -> bool:
    """The same by its medians, which few values far off do not move."""
    return fell(seen) and seen.first - seen.last > FALLEN * abs(seen.first)


# --- generated samples ---------------------------------------------------------------------------


@rule(
    id="TP-NO-SAMPLE-GAIN",
    title="Generated samples did not get better",
    level=Level.WARN,
    message="{series} ends at {last:.4g}; its first value, at step {first_step}, was {first:.4g}.",
    evidence="The median of the last three of {points} values against the first, {kept:.1%} of its"
    " cost (limit {least:.0%}); the best is {best:.4g}.",
    needs={"metric": Each((Role.METRIC,), points=5, which=Which.PRINCIPAL)},
    measures={
        "points": "values judged",
        "first": "the first value",
        "last": "median of the last three",
        "best": "the best value",
        "kept": "last over first; of a score, first over last",
        "first_at": "step of the first value over the last step",
        "quantum": "unit of the last printed decimal, 0 for full precision",
        "frozen": "values at the end that are equal to the last one",
        "value": "that value",
        "reached": "the best running median of three",
        "lost": "the best of the last three over it; of a score, it over that",
    },
    variants={
        "frozen": Variant(
            Level.WARN,
            "{series} is {value!s} on each of its {points} values, from step {first_step} to"
            " {last_step}.",
            "All are equal to the last digit.",
        ),
        "stuck": Variant(
            Level.WARN,
            "{series} is {value!s} on each of its last {frozen} values, from step {first_step} on.",
            "Of {points} values; these are equal to the last digit.",
        ),
        "given-back": Variant(
            Level.WARN,
            "{series} gave back what it had gained: it had reached {reached:.4g}, and ends at"
            " {last:.4g}; its first value was {first:.4g}.",
            "The best of the last three of {points} values is {lost:.3g} times as bad as the best"
            " running median of three (limit {twice:g}), and their median {kept:.1%} of the first"
            " value's cost (limit {near:.0%}).",
        ),
        "worse": Variant(
            Level.WARN,
            "{series} got worse: its first value, at step {first_step}, was {first:.4g}, the"
            " median of the last three is {last:.4g}.",
            "Of {points} values, the best of which is {best:.4g}; each of the last three is worse"
            " than {rise:g} times the first.",
        ),
    },
    doc=Doc(
        measures="A distance between generated and real samples (FID, KID, FVD, FAD, MMD, sliced"
        " Wasserstein), or a score of them (IS): the median of the last three values against the"
        " first.",
        means="By this measure the generator at the end is no better than at its first evaluation.",
        does_not_mean="That the game is lost: distances of few samples are biased, and a later"
        " evaluation may be better.",
        guards=(
            "Six values at least, the first within the first tenth of the run, and none 5 % better"
            " than the first. Half as bad again in each of the last three is worse with five"
            " values, too; three times as bad, where one was better in between or the first came"
            " later.",
            "What was gained is given back where the last three are twice as bad as the best"
            " median of three, and no better than nine tenths of the first value.",
            "Equal values must be printed with enough digits to differ, and be half of all and"
            " eight at least where there were others before.",
            "Values of 0 or below have no ratio: not judged.",
        ),
        references=(
            "Heusel et al. 2017: the Frechet distance of samples",
            "Salimans et al. 2016: the inception score",
            "TP-NO-HELDOUT-GAIN: the same of held-out losses",
        ),
    ),
    not_for=(Regime.SUPERVISED, Regime.PREFERENCE, Regime.REINFORCEMENT),
    fires=Example(
        "ends where it began",
        view(
            series("fid", [200.0, 203.0, 199.0, 205.0, 204.0, 201.0], [5, 20, 40, 60, 80, 100]),
            regime=Regime.ADVERSARIAL,
        ),
    ),
    silent=Example(
        "the distance shrinks",
        view(series("fid", falling(10, 200.0, 20.0)), regime=Regime.ADVERSARIAL),
    ),
)
def no_sample_gain(
    metric: Series,
    *,
    least: Annotated[float, Bound("share", "of the first value: nothing gained", ge=0)] = 0.98,
    once: Annotated[float, Bound("share", "of the first: a value below it gained", ge=0)] = 0.95,
    start: Annotated[float, Bound("share", "of the run, within which the first lies", ge=0)] = 0.1,
    rise: Annotated[float, Bound("ratio", "to the first: worse from wherever it is", ge=1)] = 1.5,
    twice: Annotated[float, Bound("ratio", "to the best: given back", ge=1)] = 2.0,
    near: Annotated[float, Bound("share", "of the first value: nothing is left", ge=0)] = 0.9,
) -> Outcome:
    values = metric.values
    measured: dict[str, Value] = {"points": len(metric), "first": float(values[0])}
    score = bool(SCORES & _words(metric))
    if not (score or DISTANCES & _words(metric)) or not values.min() > 0:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    costs = 1 / values if score else values
    kept = median(costs[-3:]) / float(costs[0])
    early = float(metric.steps[0] / metric.steps[-1]) if metric.steps[-1] > 0 else 1.0
    measured |= {"last": median(values[-3:]), "best": float(values[int(costs.argmin())])}
    measured |= {"kept": kept, "first_at": early}
    frozen = tail_of(values == values[-1])
    if frozen >= max(STUCK, len(values) / 2) or frozen == len(values):
        return _frozen(metric, frozen, measured)
    reached = float(median_of_three(costs).min())
    measured |= {"lost": float(costs[-3:].min()) / reached}
    measured |= {"reached": 1 / reached if score else reached}
    gained = bool(costs.min() < once * costs[0])
    if costs[-3:].min() >= rise * (2 if gained or early > start else 1) * costs[0]:
        return Fired((Evidence(where(metric), measured, "worse"),))
    if len(metric) >= FEWEST and float(measured["lost"]) >= twice and kept >= near:
        return Fired((Evidence(where(metric), measured, "given-back"),))
    if kept < least or gained:
        return Clean(measured)
    if len(metric) < FEWEST or early > start:
        return Undecided(measured, Skip.NEED_TOO_SHORT if early <= start else Skip.START_MISSING)
    return Fired((Evidence(where(metric), measured),))


FEWEST = 6
"""Values from which on one can say that nothing was gained, or that it was lost again."""

LEGIBLE = 2e-3
"""Share of the value that the last printed decimal may be worth: a distance moves by more."""


STUCK = 8
"""Equal values that are no chance where there were others before."""


def _frozen(metric: Series, frozen: int, measured: dict[str, Value]) -> Outcome:
    value = float(metric.values[-1])
    quantum = least_change(metric.values, value)
    measured |= {"value": value, "quantum": quantum, "frozen": frozen}
    if quantum > LEGIBLE * value:
        return Undecided(measured, Skip.LOW_POWER)
    begin = len(metric) - frozen
    return Fired((Evidence(where(metric, begin), measured, "stuck" if begin else "frozen"),))
