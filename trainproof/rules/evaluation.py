"""Held-out data."""

import math
from collections.abc import Mapping
from typing import Annotated

import numpy as np

from trainproof.model.data import Attempt, Axis, Facts, Regime, Role, Series, Split
from trainproof.model.outcome import (
    Clean,
    Evidence,
    Fired,
    Level,
    Outcome,
    Skip,
    Undecided,
    Value,
    Where,
)
from trainproof.model.rule import Doc, Variant

from .beginning import beginning
from .examples import falling, series, view
from .interface import Bound, Companions, Declared, Each, Example, Together, Which, rule, where
from .shape import (
    LEAST_FALL,
    LEAST_TRAINING,
    SATURATED,
    GiveBack,
    Kept,
    as_cost,
    at_its_best,
    cost_profile,
    counterpart,
    fell,
    first_improved,
    gravest,
    higher_is_better,
    improved,
    late_level,
    on_same_data,
)
from .stages import changed_near
from .statistics import (
    FEW,
    Mask,
    Profile,
    counting_error,
    curvature_noise,
    least_change,
    measure,
    median,
    median_of_three,
    noise,
    profile,
    screen,
    stretches,
    tail_of,
)

_NAN = float("nan")


@rule(
    id="TP-EVAL-NAN",
    title="The held-out loss is not a number",
    level=Level.FAIL,
    message="{series}, measured on held-out data, is NaN or infinite on {nonfinite} of {points}"
    " evaluations, first at step {first_step}, while the training loss is finite.",
    evidence="The longest run is {longest} in a row, the run at the end {tail}; {train} has"
    " {train_points} values, all finite.",
    needs={
        "loss": Each((Role.LOSS,), Split.EVAL, nonfinite=1.0, screened=False),
        "train": Companions(Role.LOSS, Split.TRAIN),
        "sets": Companions(Role.LOSS, Split.EVAL),
    },
    measures={
        "points": "evaluations logged",
        "nonfinite": "evaluations that are NaN or infinite",
        "longest": "longest run of consecutive evaluations that are not finite",
        "tail": "consecutive evaluations at the end that are not finite",
        "train": "the training loss of the same execution",
        "train_points": "its number of values",
        "other": "the loss on another held-out set",
        "other_points": "its number of values",
    },
    variants={
        "one-set": Variant(
            Level.WARN,
            "{series}, measured on one of several held-out sets, is NaN or infinite on each of its"
            " {points} evaluations, while {other}, on other held-out data, is finite.",
            "{other} has {other_points} values, all finite.",
        ),
        "alone": Variant(
            Level.FAIL,
            "{series}, measured on held-out data, is NaN or infinite on {nonfinite} of {points}"
            " evaluations, first at step {first_step}.",
            "The longest run is {longest} in a row, the run at the end {tail}; no training loss is"
            " logged beside it.",
        ),
        "recovered": Variant(
            Level.WARN,
            "{series}, measured on held-out data, was NaN or infinite once, at step {first_step}.",
            "1 of {points} evaluations is not finite; the last one is.",
        ),
    },
    doc=Doc(
        measures="Counts evaluations whose loss is NaN or infinite.",
        means="The held-out loss says nothing about these weights: a batch of the evaluation"
        " overflows or has no targets.",
        does_not_mean="That training failed: the training loss is judged by its own rule.",
        guards=(
            "One evaluation that is not finite, not the last, is a warning. So is a set of several"
            " on which no evaluation is, where another one's are: it may have no targets.",
            "Where the training loss is not finite either, that rule speaks and this one is not"
            " checked.",
        ),
        references=(
            "transformers #24562, LLaMA-Factory #3474, Chinese-LLaMA-Alpaca-2 #370, trl #1053",
        ),
    ),
    fires=Example(
        "the evaluation is NaN, training is not",
        view(
            series("loss", falling(20)),
            series("eval_loss", [2.0, 1.8, _NAN, _NAN], [5, 10, 15, 20]),
        ),
    ),
    silent=Example(
        "both finite",
        view(series("loss", falling(20)), series("eval_loss", [2.0, 1.8], [10, 20])),
    ),
)
def nonfinite_evaluation(
    loss: Series,
    train: tuple[Series, ...],
    sets: tuple[Series, ...],
    *,
    evaluations: Annotated[int, Bound("evaluations", "that make a FAIL", ge=1)] = 2,
) -> Outcome:
    bad = ~np.isfinite(loss.values)
    count = int(np.count_nonzero(bad))
    measured: dict[str, Value] = {"points": len(loss), "nonfinite": count}
    if not count:
        return Clean(measured)
    runs = stretches(bad)
    measured |= {"longest": runs.longest, "tail": runs.tail}
    broken = next((one for one in train if screen(one).nonfinite), None)
    if broken is not None:
        return Undecided({**measured, "train": broken.tag}, Skip.NOT_FINITE)
    beside = max(train, key=len, default=None)
    if beside is not None:
        measured |= {"train": beside.tag, "train_points": len(beside)}
    variant = "" if beside is not None else "alone"
    if count < evaluations and not runs.tail:
        variant = "recovered"
    elif count == len(loss) and (other := _on_another_set(loss, sets)) is not None:
        measured |= {"other": other.tag, "other_points": len(other)}
        variant = "one-set"
    first, last = int(runs.starts[0]), int(runs.starts[-1] + runs.lengths[-1] - 1)
    return Fired((Evidence(where(loss, first, last), measured, variant),))


def _on_another_set(loss: Series, sets: tuple[Series, ...]) -> Series | None:
    """A loss on another held-out set, finite at every one of as many evaluations."""
    if loss.identity.dataset is None:
        return None
    others = (one for one in sets if one.identity.dataset != loss.identity.dataset)
    enough = (one for one in others if len(one) >= len(loss) and not screen(one).nonfinite)
    return next(enough, None)


@rule(
    id="TP-EVAL-FROZEN",
    title="The held-out loss does not change",
    level=Level.FAIL,
    message="{series}, measured on held-out data, is {value!s} on each of the last {frozen}"
    " evaluations, from step {first_step} to {last_step}.",
    evidence="{frozen} of {points} evaluations are equal to the last digit (from {evaluations} on"
    " it counts).",
    needs={
        "loss": Each((Role.LOSS,), Split.EVAL, points=3, which=Which.PRINCIPAL),
        "train": Companions(Role.LOSS, Split.TRAIN),
    },
    measures={
        "points": "evaluations logged",
        "frozen": "evaluations at the end that are equal to the last one",
        "value": "that value",
        "quantum": "unit of the last printed decimal or of half precision, 0 for full precision",
        "train": "a training loss that fell meanwhile",
        "moved": "by how much",
    },
    variants={
        "coarse": Variant(
            Level.WARN,
            "{series}, measured on held-out data, is printed as {value!s} on each of the last"
            " {frozen} evaluations, while {train} fell by {moved:.3g}.",
            "{frozen} of {points} evaluations are equal in all printed digits, of which the last"
            " is worth {quantum:g}; the training loss moved by more than {units:g} of these.",
        ),
        "every-row": Variant(
            Level.WARN,
            "{series}, measured on held-out data, is {value!s} on each row of the log, while"
            " {train} fell by {moved:.3g}.",
            "{frozen} rows of {train} hold it: as many equal evaluations, or one that was repeated"
            " on all of them.",
        ),
        "throughout": Variant(
            Level.WARN,
            "{series}, measured on held-out data, is {value!s} on every one of its {frozen}"
            " evaluations, from step {first_step} to {last_step}.",
            "They are equal in all digits, of which the last is worth {quantum:g} (0: all of a"
            " double).",
        ),
    },
    doc=Doc(
        measures="How many of the last evaluations gave the same loss to the last digit.",
        means="The weights that were evaluated, or the evaluation itself, did not change.",
        does_not_mean="That the optimizer is at fault: an evaluation of one stale checkpoint looks"
        " the same.",
        guards=(
            "Five equal evaluations at least; or all of them, where these are three or four with"
            " every digit: a warning.",
            "Values printed with less than six digits, or that half precision holds, may differ"
            " unseen: a warning where three digits are shown and a training loss fell beyond doubt"
            " meanwhile, by more than twenty units of the last, or where all evaluations are equal"
            " to a part in five thousand; else not judged.",
            "A loss of 0 or a constant series of whole numbers carries no digits to compare, nor"
            " does one below a millionth: a cross-entropy of single precision cannot go below"
            " 1.2e-7 but to 0.",
            "One value on every row of a training loss that is logged by steps, and fell, may be a"
            " single evaluation: a warning.",
        ),
        references=(
            "MLPerf Training v4.0: three equal evaluations in 0 of 1,936 results",
            "keras #5589, accelerate #2665",
        ),
    ),
    not_for=(Regime.ADVERSARIAL,),
    fires=Example(
        "one value",
        view(series("loss", falling(40)), series("eval_loss", [1.3862944] * 8, range(5, 41, 5))),
    ),
    silent=Example("it falls", view(series("eval_loss", falling(8)))),
)
def frozen_evaluation(
    loss: Series,
    train: tuple[Series, ...],
    *,
    evaluations: Annotated[int, Bound("evaluations", "equal ones that count", ge=3)] = 5,
    visible: Annotated[
        float, Bound("share", "printed unit over value: above it nothing is judged", ge=0)
    ] = 1e-5,
    legible: Annotated[
        float, Bound("share", "printed unit over value: above it no change is expected", ge=0)
    ] = 2e-3,
    alone: Annotated[
        float, Bound("share", "the same, where all evaluations are equal and nothing else is", ge=0)
    ] = 2e-4,
    units: Annotated[
        float, Bound("printed units", "by which a training loss must have fallen meanwhile", ge=1)
    ] = 20.0,
) -> Outcome:
    last = float(loss.values[-1])
    frozen = tail_of(loss.values == last)
    measured: dict[str, Value] = {"points": len(loss), "frozen": frozen, "value": last}
    if frozen < min(evaluations, len(loss)):
        return Clean(measured)
    if abs(last) <= SATURATED:
        return Undecided(measured, Skip.LOW_POWER)
    quantum = _unit(loss, frozen)
    place = where(loss, len(loss) - frozen)
    if frozen >= evaluations and last != 0 and quantum <= visible * abs(last):
        repeated = _on_every_row(loss, train) if frozen == len(loss) else {}
        variant = "every-row" if repeated else ""
        return Fired((Evidence(place, {**measured, **repeated}, variant),))
    measured["quantum"] = quantum
    told = frozen >= evaluations and 0 < quantum <= legible * abs(last)
    meanwhile = _learned_meanwhile(loss, frozen, train, units * quantum) if told else {}
    if meanwhile:
        return Fired((Evidence(place, {**measured, **meanwhile}, "coarse"),))
    fine = quantum == 0.0 or (frozen >= evaluations and 0 < quantum <= alone * abs(last))
    if last != 0 and frozen == len(loss) and fine and quantum < 1:
        return Fired((Evidence(place, measured, "throughout"),))
    return Undecided(measured, Skip.LOW_POWER)


def _unit(loss: Series, frozen: int) -> float:
    """By how much the last equal evaluations may differ unseen. Which type holds them shows only in
    several values."""
    last = float(loss.values[-1])
    return max(least_change(loss.values[-frozen:], last), least_change(loss.values, last))


def _on_every_row(loss: Series, train: tuple[Series, ...]) -> dict[str, Value]:
    """A training loss that fell, on each of whose steps the held-out loss stands; empty where there
    is none."""
    for one in train:
        if one.column.axis is loss.column.axis is Axis.STEP and len(one) == len(loss):
            moved = _fall_after(one, int(loss.steps[0]))
            if moved > 0 and np.array_equal(one.steps, loss.steps):
                return {"train": one.tag, "moved": moved}
    return {}


def _learned_meanwhile(
    loss: Series, frozen: int, train: tuple[Series, ...], hidden: float
) -> dict[str, Value]:
    """A training loss that fell, during the last equal evaluations, by more than ``hidden``, which
    their digits could hide; empty where there is none."""
    learning = first_improved(one for one in train if one.column.axis is loss.column.axis)
    if learning is None:
        return {}
    moved = _fall_after(learning, int(loss.steps[-frozen]))
    return {"train": learning.tag, "moved": moved} if moved > hidden else {}


def _fall_after(loss: Series, step: int) -> float:
    """By how much a loss fell beyond doubt from a step to its end, else 0."""
    values = loss.values[loss.steps >= step]
    if len(values) < LEAST_TRAINING:
        return 0.0
    seen = measure(values)
    return seen.first - seen.last if fell(seen) else 0.0


@rule(
    id="TP-EVAL-UNSTABLE",
    title="The held-out loss jumps from one evaluation to the next",
    level=Level.WARN,
    message="{series}, measured on held-out data, changes by a factor of {factor:.3g} from one"
    " evaluation to the next, and does not fall.",
    evidence="Noise of one evaluation {noise:.0%} of its level (limit {most:.0%}), over {points}"
    " evaluations from {lowest:.4g} to {highest:.4g}; Mann-Kendall p of a fall {p_fall:.2g}.",
    needs={
        "loss": Each((Role.LOSS,), Split.EVAL, points=12, which=Which.PRINCIPAL),
        "train": Companions(Role.LOSS, Split.TRAIN),
    },
    measures={
        "points": "evaluations judged",
        "noise": "standard deviation of the logarithm around its trend, robust",
        "factor": "typical ratio of neighbours: the exponential of the noise times the square root"
        " of 2",
        "lowest": "the lowest evaluation",
        "highest": "the greatest",
        "p_fall": "one-sided Mann-Kendall p of a fall",
        "began": "the first evaluation, or the level at which training began where that is greater",
        "level": "the median evaluation",
    },
    doc=Doc(
        measures="By how much neighbouring evaluations of a held-out loss differ, relative to their"
        " level, and whether there is a trend among them.",
        means="The same data are judged differently from one evaluation to the next: the weights"
        " move further than they improve, or what is evaluated is drawn anew each time.",
        does_not_mean="That the learning rate is too high: a few cases, drawn anew for each"
        " evaluation, scatter as well.",
        guards=(
            "Twelve evaluations at least. The noise is taken from differences, so that a trend is"
            " none; among fewer than twenty from second differences.",
            "Any sign of a fall (p at most 0.05) makes it clean: a loss may jump and fall. So does"
            " a level that lies below the beginning, by three times the noise of one evaluation: a"
            " loss that fell at once by orders of magnitude may sway by a factor of two.",
            "Losses that are 0 or negative have no ratio: not judged.",
            "Reinforcement and adversarial training are out of scope.",
        ),
        references=("benchmarks/calibration: noise of 32 % at most on healthy trainings",),
    ),
    not_for=(Regime.REINFORCEMENT, Regime.ADVERSARIAL),
    fires=Example(
        "from 2 to 8 and back",
        view(series("eval_loss", [2.0, 7.0, 3.0, 8.0, 2.5, 4.0, 8.0, 2.0, 6.0, 3.0] * 2)),
    ),
    silent=Example("it falls", view(series("eval_loss", falling(12)))),
)
def unstable_evaluation(
    loss: Series,
    train: tuple[Series, ...],
    *,
    most: Annotated[float, Bound("share", "of the level: noise of one evaluation", ge=0)] = 0.4,
    trend: Annotated[float, Bound("p", "of a fall, up to which there may be one", ge=0)] = 0.05,
    below: Annotated[float, Bound("noise", "of one evaluation: the level has fallen", ge=0)] = 3.0,
) -> Outcome:
    seen = profile(loss)
    measured: dict[str, Value] = {
        "points": len(loss),
        "lowest": float(loss.values.min()),
        "highest": float(loss.values.max()),
        "p_fall": seen.p_fall,
    }
    if not loss.values.min() > 0:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    logs = np.log(loss.values)
    scatter = curvature_noise(logs) if len(logs) < FEW else noise(logs)
    begun = beginning(loss, train)
    began = max(float(loss.values[0]), 0.0 if begun is None else begun.level)
    level = median(logs)  # of the logarithms: the middle of two tiny values may be 0
    measured |= {
        "noise": scatter,
        "factor": math.exp(min(math.sqrt(2) * scatter, 700.0)),
        "began": began,
        "level": math.exp(level),
    }
    fallen = math.log(began) - level > below * scatter
    if scatter <= most or seen.p_fall <= trend or fallen:
        return Clean(measured)
    return Fired((Evidence(where(loss), measured),))


@rule(
    id="TP-OVERFIT",
    title="The held-out loss rises while the training loss falls",
    level=Level.WARN,
    message="{series}, measured on held-out data, was best at step {best_step} ({best:.4g}) and"
    " rose to {end:.4g} by step {last_step}, while {train} kept falling.",
    evidence="Its level had fallen by {drop:.4g} to {level:.4g} and rose again by {rise:.4g}"
    " ({errors:.3g} standard errors, limit {least_errors:g}) over {points} evaluations; {train}"
    " fell from {train_first:.4g} to {train_last:.4g}.",
    needs={
        "loss": Each((Role.LOSS,), Split.EVAL, points=7, which=Which.PRINCIPAL),
        "train": Companions(Role.LOSS, Split.TRAIN),
        "metrics": Companions(Role.METRIC, Split.EVAL),
        "held_out": Companions(Role.LOSS, Split.EVAL),
    },
    measures={
        "points": "evaluations judged",
        "best": "lowest held-out loss",
        "best_step": "its step",
        "level": "lowest level: of a block's median, or of a running median of three",
        "end": "level at the end, a median",
        "drop": "fall from the highest level before to the lowest",
        "rise": "rise from the lowest level to the end",
        "gave_back": "rise over drop",
        "errors": "rise in standard errors of its measurement",
        "noise": "noise of one evaluation",
        "train": "the training loss of the same execution",
        "train_first": "its level at the start",
        "train_last": "its level at the end",
        "train_share": "part of its fall that it gave back",
        "train_errors": "what it gave back in standard errors",
        "metric": "a held-out metric that improved after the best step and ended at its best",
        "metric_then": "its value at the best step of the loss",
        "metric_end": "its last value",
        "other": "the loss on other held-out data, which ended at its best",
        "other_then": "its value at the best step of the loss, or the next one",
        "other_end": "its last value",
    },
    variants={
        "one-set": Variant(
            Level.WARN,
            "{series}, measured on one of several held-out sets, was best at step {best_step}"
            " ({best:.4g}) and rose to {end:.4g} by step {last_step}, while {train} kept falling;"
            " {other}, on other held-out data, went on falling, from {other_then:.4g} to"
            " {other_end:.4g}.",
            "Its level had fallen by {drop:.4g} to {level:.4g} and rose again by {rise:.4g}"
            " ({errors:.3g} standard errors, limit {least_errors:g}) over {points} evaluations;"
            " {train} fell from {train_first:.4g} to {train_last:.4g}.",
        ),
        "with-training": Variant(
            Level.WARN,
            "{series}, measured on held-out data, was best at step {best_step} ({best:.4g}) and"
            " rose to {end:.4g} by step {last_step}; {train} rose as well.",
            "Its level had fallen by {drop:.4g} to {level:.4g} and rose again by {rise:.4g}"
            " ({errors:.3g} standard errors, limit {least_errors:g}) over {points} evaluations;"
            " {train} gave back {train_share:.0%} of its fall ({train_errors:.3g} standard errors:"
            " too little to be judged alone).",
        ),
        "metric-at-best": Variant(
            Level.INFO,
            "{series}, measured on held-out data, rose from {best:.4g} at step {best_step} to"
            " {end:.4g}, while {metric} went on improving, from {metric_then:.4g} to"
            " {metric_end:.4g}.",
            "Its level had fallen by {drop:.4g} to {level:.4g} and rose again by {rise:.4g}"
            " ({errors:.3g} standard errors) over {points} evaluations; {train} fell from"
            " {train_first:.4g} to {train_last:.4g}.",
        ),
    },
    doc=Doc(
        measures="How much of its fall the held-out loss gave back by the end, in standard errors"
        " of its noise, and whether the training loss fell meanwhile.",
        means="From the best step on, training improved the model on the data it saw and not on"
        " the data it did not.",
        does_not_mean="That the last checkpoint is worse by every measure: a held-out metric may"
        " go on improving, and then the level is lower. A later second descent is possible.",
        guards=(
            "Fewer than seven evaluations are not judged.",
            "The end is a median; a rise within six standard errors of one evaluation's noise, or"
            " below half of the fall before, is none.",
            "A training loss that does not fall is no overfitting: not checked, but where it gave"
            " back half of its fall as well, by two standard errors, in a log too short or too"
            " restless for TP-DIVERGE: two measurements that agree are a warning. A total is"
            " compared with a total, a part with the same part.",
            "Of several held-out sets each is judged for itself, with its own metrics. Where"
            " another one went on falling to its best, the message says so: training still"
            " improves the model on data it does not see, if not on these.",
            "In adversarial training the losses are a game's: out of scope.",
        ),
        references=(
            "Prechelt 1998, Early Stopping: But When?",
            "trainproof gallery: overfit, three seeds",
            "transformers whisper fine-tunes: word error rate improves while the loss rises",
        ),
    ),
    not_for=(Regime.REINFORCEMENT, Regime.ADVERSARIAL),
    fires=Example(
        "training falls, evaluation turns",
        view(
            series("loss", falling(40)),
            series(
                "eval_loss",
                [2.0, 1.6, 1.4, 1.45, 1.6, 1.8, 2.0, 2.2, 2.3, 2.4],
                range(4, 41, 4),
            ),
        ),
    ),
    silent=Example(
        "both fall",
        view(series("loss", falling(40)), series("eval_loss", falling(10), range(4, 41, 4))),
    ),
)
def overfit(
    loss: Series,
    train: tuple[Series, ...],
    metrics: tuple[Series, ...],
    held_out: tuple[Series, ...],
    *,
    share: Annotated[float, Bound("share", "of the fall that was given back", ge=0)] = 0.5,
    least_errors: Annotated[float, Bound("standard errors", "a rise must exceed", ge=1)] = 6.0,
) -> Outcome:
    seen = profile(loss)
    found = gravest(loss.values, seen, least_errors)
    if found is None or found.share < share:
        best = int(np.argmin(loss.values))
        return Clean({**_best(loss, best), "end": seen.last, "noise": seen.sigma})
    measured = _rise(loss, seen, found)
    same = counterpart(loss, train)
    if same is None:
        return Undecided(measured, Skip.NEED_ABSENT)
    if screen(same).nonfinite:
        return Undecided({**measured, "train": same.tag}, Skip.NOT_FINITE)
    other = profile(same)
    measured |= {"train": same.tag, "train_first": other.first, "train_last": other.last}
    best = int(np.argmin(loss.values))
    if not _falls(other):
        both = _both_rose(same, other, share, least_errors)
        if not both:
            return Undecided(measured)
        return Fired((Evidence(where(loss, best, -1), {**measured, **both}, "with-training"),))
    variant, beside = _beside(loss, int(loss.steps[best]), metrics, held_out)
    return Fired((Evidence(where(loss, best, -1), {**measured, **beside}, variant),))


_CONFIRMS = 2.0
"""Standard errors of a rise that another measurement has found already."""


def _both_rose(train: Series, seen: Profile, share: float, errors: float) -> dict[str, Value]:
    """What the training loss gave back, where that is too little for it alone; else empty."""
    found = gravest(train.values, seen, _CONFIRMS)
    if found is None or found.share < share or (len(train) >= FEW and found.outran(errors)):
        return {}
    return {"train_share": found.share, "train_errors": found.errors}


def _beside(
    loss: Series, best_step: int, metrics: tuple[Series, ...], held_out: tuple[Series, ...]
) -> tuple[str, dict[str, Value]]:
    """What else that is held out went on improving after the best step: a metric on the same
    data, or the loss on other data."""
    found: dict[str, Value] = {}
    kept = _still_improving(on_same_data(loss, metrics), best_step)
    if kept is not None:
        found = {"metric": kept.series, "metric_then": kept.first, "metric_end": kept.end}
        return "metric-at-best", found
    totals = (one for one in held_out if one.identity.component is None)
    others = tuple(one for one in totals if one.identity.dataset != loss.identity.dataset)
    kept = _still_improving(others, best_step)
    if kept is not None:
        found = {"other": kept.series, "other_then": kept.first, "other_end": kept.end}
        return "one-set", found
    return "", {}


def _best(loss: Series, best: int) -> dict[str, Value]:
    return {
        "points": len(loss),
        "best": float(loss.values[best]),
        "best_step": int(loss.steps[best]),
    }


def _rise(loss: Series, seen: Profile, found: GiveBack) -> dict[str, Value]:
    return {
        **_best(loss, int(np.argmin(loss.values))),
        "level": found.best,
        "end": found.end,
        "drop": found.drop,
        "rise": found.rise,
        "gave_back": found.share,
        "errors": found.errors,
        "noise": seen.sigma,
    }


def _falls(train: Profile) -> bool:
    """A falling trend and a lower end; less is asked than for a run of its own."""
    fall = train.first - train.last
    return train.p_fall <= 0.05 and fall > max(train.error, LEAST_FALL * abs(train.first))


def _still_improving(metrics: tuple[Series, ...], best_step: int) -> Kept | None:
    """A directed series that gained a tenth or more after the loss was best and kept it."""
    for metric in metrics:
        later = metric.column.take(metric.steps >= best_step)
        kept = at_its_best(Series(metric.artifact, metric.identity, later), best_step)
        if kept is not None and abs(kept.end - kept.first) >= 0.1 * _range(metric):
            return kept
    return None


def _range(series: Series) -> float:
    return float(series.values.max() - series.values.min())


@rule(
    id="TP-METRIC-COLLAPSE",
    title="A metric collapsed",
    level=Level.FAIL,
    message="{series} was {best:.4g} at step {best_step} and is {end:.4g} at the end.",
    evidence="The last {low} of {points} values lie below {floor:.0%} of the best one; since it was"
    " first above that, at most {lows} in a row did ({needed} count).",
    needs={
        "metric": Each((Role.METRIC,), points=5),
        "rewards": Companions(Role.REWARD),
        "beside": Together(),
    },
    measures={
        "points": "values judged",
        "reward": "a reward that improved",
        "setting": "a logged setting that was changed where the metric fell",
        "lows": "longest run of such values before, the first ones left out",
        "needed": "consecutive values at the end that would have counted",
        "best": "best value, greatest or lowest",
        "best_step": "its step",
        "end": "last value",
        "low": "consecutive values at the end below the floor",
        "gain": "distance from the worst level before to the best level",
        "loss": "distance from the best level to the end",
        "errors": "that loss in standard errors of its measurement",
        "usual": "median of all values but the last two",
        "least": "the lowest of these",
        "scatter": "the greatest difference from one of them to the next",
        "counting": "standard deviation of a share of so few cases, 0 where it is none",
        "first": "level at the start, a median",
        "last": "level at the end, a median",
    },
    variants={
        "given-back": Variant(
            Level.WARN,
            "{series} gave back most of what it had gained: its best was {best:.4g} at step"
            " {best_step}, at the end it is {end:.4g}.",
            "It had gained {gain:.4g} and lost {loss:.4g} again ({errors:.3g} standard errors) over"
            " {points} values.",
        ),
        "halved": Variant(
            Level.WARN,
            "{series} was {usual:.4g} in the median of all evaluations but the last two, which are"
            " less than half of that; it ends at {end:.4g}.",
            "The lowest of those before is {least:.4g}, and from one to the next they differ by"
            " {scatter:.3g} at most ({points} evaluations in all).",
        ),
        "setting": Variant(
            Level.WARN,
            "{series} was {best:.4g} at step {best_step} and is {end:.4g} at the end; it fell where"
            " {setting} was changed.",
            "The last {low} of {points} values lie below {floor:.0%} of the best one.",
        ),
        "traded": Variant(
            Level.INFO,
            "{series} was {best:.4g} at step {best_step} and is {end:.4g} at the end, while"
            " {reward} improved.",
            "The last {low} of {points} values lie below {floor:.0%} of the best one.",
        ),
    },
    doc=Doc(
        measures="How much of its best value, and of its gain, a metric has at the end.",
        means="The model at the end does the task far worse than an earlier one.",
        does_not_mean="That the weights are damaged: a broken evaluation looks the same.",
        guards=(
            "Only metrics of which the better direction is known; the floor needs it to be up.",
            "A metric that was never above 0.05 is not judged to have collapsed; one of training"
            " batches must have been above it twice within three values.",
            "A metric that was that low before and came back must be so for more than three times"
            " as long; one of training batches, which may be of few cases, for ten values.",
            "A share of few cases (every value a multiple of 1/n) must have lost more than the"
            " counting of n cases can explain.",
            "A policy may learn to avoid what costs most before it succeeds: where a reward"
            " improved it is a note.",
            "Another task, or a harder one, is measured anew: a fall within three rows of a change"
            " of a logged setting is a warning.",
            "The last two of seven evaluations or more are a warning where they lie below all"
            " others, below half of their median, and by more than twice what these differ from one"
            " to the next.",
            "A gain given back is a warning, from twenty values on; without a gain of a tenth of"
            " the best value nothing is judged.",
            "Clean only if the metric demonstrably improved and kept it.",
        ),
        references=(
            "MLPerf Training v4.0, unet3d: 2 of 2 aborted runs, 0 of 1,582 successful ones",
        ),
    ),
    grounds=True,
    fires=Example(
        "0.8, then 0",
        view(series("eval_accuracy", [0.2, 0.4, 0.6, 0.7, 0.8, 0.79, 0.001, 0.0])),
    ),
    silent=Example(
        "a metric that rises",
        view(series("eval_accuracy", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7])),
    ),
)
def metric_collapse(
    metric: Series,
    rewards: tuple[Series, ...],
    beside: Attempt,
    *,
    floor: Annotated[float, Bound("share", "of the best value", ge=0, le=1)] = 0.01,
    share: Annotated[float, Bound("share", "of the gain that was given back", ge=0)] = 0.5,
    least_errors: Annotated[float, Bound("standard errors", "a fall must exceed", ge=1)] = 6.0,
) -> Outcome:
    values, costs = metric.values, as_cost(metric)
    measured: dict[str, Value] = {"points": len(metric), "end": float(values[-1])}
    up = higher_is_better(metric)
    if up is None:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    best_at = int(np.argmin(costs))
    best = float(values[best_at])
    low, lows = _lows(values < floor * best) if up else (0, 0)
    needed = max(BATCHES if metric.split is Split.TRAIN else 2, 3 * lows + 1)
    measured |= {"best": best, "best_step": int(metric.steps[best_at])}
    measured |= {"low": low, "lows": lows, "needed": needed}
    place = where(metric, best_at, -1)
    if _sustained(metric, best) > 0.05 and low >= needed:
        return Fired((_collapsed(metric, rewards, beside, place, measured),))
    seen = cost_profile(metric)
    sign = -1 if up else 1
    measured |= {"first": sign * seen.first, "last": sign * seen.last}
    found = gravest(costs, seen, least_errors)
    if found is None or found.share < share:
        return Clean(measured) if fell(seen) else _halved(metric, measured)
    measured |= {"gain": found.drop, "loss": found.rise, "errors": found.errors}
    measured["counting"] = counting = counting_error(values)
    gained = found.drop > max(least_errors * found.error, 0.1 * abs(best))
    if len(metric) < FEW or not gained or found.rise <= least_errors * counting:
        return _halved(metric, measured)
    return Fired((Evidence(place, measured, "given-back"),))


LEAST_BEFORE = 5
"""Evaluations before the last two that show how much they scatter."""


def _collapsed(
    metric: Series,
    rewards: tuple[Series, ...],
    beside: Attempt,
    place: Where,
    measured: dict[str, Value],
) -> Evidence:
    reward = first_improved(rewards)
    if reward is not None:
        return Evidence(place, {**measured, "reward": reward.tag}, "traded")
    setting = changed_near(beside, metric, len(metric) - int(measured["low"]))
    if setting is not None:
        return Evidence(place, {**measured, "setting": setting.tag}, "setting")
    return Evidence(place, measured)


def _halved(metric: Series, measured: Mapping[str, Value]) -> Outcome:
    """Whether the last two evaluations lie far below all before: two of seven are the lowest by
    chance once in 21 times, and never by more than the others move from one to the next."""
    before, end = metric.values[:-2], metric.values[-2:]
    if not higher_is_better(metric) or metric.split is Split.TRAIN or len(before) < LEAST_BEFORE:
        return Undecided(measured, Skip.LOW_POWER)
    usual, most = median(before), float(end.max())
    scatter = float(np.abs(np.diff(before)).max())
    if not (usual > 0.05 and most < 0.5 * usual and usual - most > 2 * scatter):
        return Undecided(measured, Skip.LOW_POWER)
    if most >= before.min():
        return Undecided(measured, Skip.LOW_POWER)
    more = {"usual": usual, "least": float(before.min()), "scatter": scatter}
    place = where(metric, len(before), -1)
    return Fired((Evidence(place, {**measured, **more}, "halved"),))


def _sustained(metric: Series, best: float) -> float:
    """The best value; of training batches, which may be of few cases, one of three neighbours."""
    if metric.split is not Split.TRAIN or len(metric) < 3:
        return best
    return float(median_of_three(metric.values).max())


BATCHES = 10
"""Values in a row at the end that a metric of training batches must be low for."""


def _lows(mask: Mask) -> tuple[int, int]:
    """Length of the stretch of low values at the end, and of the longest one that ended before
    it; a first stretch, before the metric rose at all, is none."""
    found = stretches(mask)
    ended = [length for start, length in found if start > 0 and start + length < len(mask)]
    return found.tail, max(ended, default=0)


@rule(
    id="TP-CHANCE",
    title="Loss and accuracy are those of a guess",
    level=Level.FAIL,
    message="{series} ends at {end:.4g}, no better than an even guess among {classes} classes"
    " ({guess:.4g}), and {accuracy} at {reached:.3g}, where such a guess reaches {hit:.3g}.",
    evidence="Measured over the last third of {points} values; the classes follow from the loss,"
    " and the accuracy agrees with them.",
    needs={
        "loss": Each((Role.LOSS,), points=20, which=Which.OBJECTIVE),
        "metrics": Companions(Role.METRIC),
        "facts": Declared(),
    },
    measures={
        "points": "values judged",
        "end": "median of the last third",
        "classes": "declared number of classes, or the one whose logarithm the loss is",
        "guess": "natural logarithm of that number",
        "accuracy": "the accuracy series",
        "reached": "its greatest value over the last third",
        "hit": "one over the number of classes",
        "seen": "share of the declared run that the log shows",
    },
    variants={
        "declared": Variant(
            Level.WARN,
            "{series} ends at {end:.4g}, no better than an even guess among the {classes} classes"
            " that the run declares ({guess:.4g}).",
            "Measured over the last third of {points} values; no accuracy is logged beside it.",
        )
    },
    doc=Doc(
        measures="The loss and the accuracy over the last third of the run against ln C and 1/C,"
        " for the declared number of classes C or the one that the loss points to.",
        means="Both say that the model answers as if it had not seen the input.",
        does_not_mean="That the labels are wrong or the network is dead: why it does not learn is"
        " not in these numbers.",
        guards=(
            "Two measurements must agree: loss from 0.95 to 1.005 of ln C, and accuracy at most"
            " 1.2 times 1/C. The loss alone, with declared classes, is a warning.",
            "An accuracy that rises beyond doubt is learning, and so is a loss that passes through"
            " ln C: the last tenth must be there too.",
            "An accuracy below half of 1/C does not confirm a number of classes that only the loss"
            " points to.",
            "A log of less than 90 % of the declared run may show a plateau at the start.",
            "At most 1,000 classes: beyond that the logarithm points to no single number.",
        ),
        references=(
            "tensorflow #12287, caffe-mobilenet-v3 #1, rasbt/deeplearning-models #76",
            "TheDeepChecker: initial loss against -ln(1/C)",
        ),
    ),
    not_for=(Regime.REINFORCEMENT, Regime.ADVERSARIAL, Regime.PREFERENCE),
    fires=Example(
        "ln 10 and one in ten",
        view(
            series("loss", [2.3026 + 0.0002 * (i % 3) for i in range(40)]),
            series("accuracy", [0.1 + 0.002 * (i % 2) for i in range(40)]),
        ),
    ),
    silent=Example(
        "learned",
        view(series("loss", falling(40)), series("accuracy", [0.5 + 0.01 * i for i in range(40)])),
    ),
)
def chance(
    loss: Series,
    metrics: tuple[Series, ...],
    facts: Facts,
    *,
    above: Annotated[float, Bound("ratio", "loss over ln C from which it is a guess", ge=0)] = 0.95,
    better: Annotated[float, Bound("ratio", "accuracy over 1/C up to which it is one", ge=1)] = 1.2,
) -> Outcome:
    end = late_level(loss)
    measured: dict[str, Value] = {"points": len(loss), "end": end}
    classes = facts.num_classes or _classes(end, above)
    if classes is None or classes < 2 or end < above * math.log(classes):
        return Clean(measured)
    measured |= {"classes": classes, "guess": math.log(classes), "hit": 1 / classes}
    if median(loss.values[-max(3, len(loss) // 10) :]) < above * math.log(classes):
        return Clean(measured)
    accuracies = [m for m in metrics if _is_accuracy(m)]
    if not accuracies:
        return _by_declaration(loss, facts, measured)
    best = max(accuracies, key=_reached)
    measured |= {"accuracy": best.tag, "reached": _reached(best)}
    if _reached(best) > better / classes or any(map(improved, accuracies)):
        return Clean(measured)
    if facts.num_classes is None and _reached(best) < AGREES / classes:
        return Undecided(measured)
    if facts.max_epochs and loss.column.axis is Axis.EPOCH:
        measured["seen"] = float(loss.steps[-1] + 1) / facts.max_epochs
    elif facts.max_steps and loss.column.axis is Axis.STEP:
        measured["seen"] = float(loss.steps[-1]) / facts.max_steps
    if float(measured.get("seen", 1.0)) < 0.9:
        return Undecided(measured)
    return Fired((Evidence(where(loss), measured),))


def _classes(end: float, above: float) -> int | None:
    """The number of classes whose logarithm is nearest to the loss, at most a thousand; None
    where the loss is below the share ``above`` of it or beyond it by more than half a percent."""
    if not 0 < end <= math.log(1000):
        return None
    classes = max(2, round(math.exp(end)))
    return classes if above <= end / math.log(classes) <= 1.005 else None


AGREES = 0.5
"""Share of 1/C that an accuracy must reach to confirm a number of classes that is read off the
loss: one far below says that the number is another."""

SUM_OF_TERMS = 1.05
"""A loss beyond this times ln C is no mean cross entropy over C classes: a sum of several terms,
as detectors log it, says nothing about chance."""


def _by_declaration(loss: Series, facts: Facts, measured: dict[str, Value]) -> Outcome:
    beyond = float(measured["end"]) > SUM_OF_TERMS * float(measured["guess"])
    if facts.num_classes is None or beyond:
        return Undecided(measured)
    return Fired((Evidence(where(loss), measured, "declared"),))


def _is_accuracy(metric: Series) -> bool:
    if "acc" not in metric.tag.lower() or screen(metric).nonfinite or len(metric) < 5:
        return False
    return bool(metric.values.min() >= 0 and metric.values.max() <= 1)


def _reached(metric: Series) -> float:
    return float(metric.values[-max(1, len(metric) // 3) :].max())
