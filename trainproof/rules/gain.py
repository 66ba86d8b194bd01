"""What was gained on data that the model was not trained on."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from trainproof.model.data import Axis, Floats, Regime, Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .beginning import Beginning, beginning
from .examples import falling, series, view
from .interface import Bound, Companions, Each, Example, Which, rule, where
from .shape import (
    UNMISTAKABLE,
    cost_profile,
    fell,
    first_improved,
    higher_is_better,
    improved,
    on_same_data,
    rose,
)
from .statistics import counting_error, median, median_of_three, profile, screen, tail_of

GAMES = (Regime.REINFORCEMENT, Regime.ADVERSARIAL)
RISEN = 1.1
"""A held-out loss that ends at this multiple of its first evaluation got worse: only a metric that
improved beyond doubt speaks against it."""

SIGN_OF_FALL = 0.05
"""Mann-Kendall p below which the evaluations may be falling."""

FAR_BELOW = 0.8
"""Share of the level at which training began, below which a first evaluation shows a gain: the
first rows are single batches, and held-out losses lie a little apart."""

SAME_SCALE = 1.25
"""A held-out loss that ends at this multiple of the level at which training began may be averaged
differently."""

STILL = 0.995
"""Share of the second evaluation below which a fall has gone on: how often each answer occurs is
learned at once."""

MANY = 40
"""Evaluations of which one will be low by luck."""

FEWEST = 6
"""Evaluations from which on one can say that nothing was gained."""

ERROR_RATES = frozenset({"wer", "cer", "per", "word_error_rate", "char_error_rate"})

METRICS = Companions(Role.METRIC, Split.EVAL)
TRAINING = Companions(Role.LOSS, Split.TRAIN)


@rule(
    id="TP-NO-HELDOUT-GAIN",
    title="Nothing was gained on held-out data",
    level=Level.WARN,
    message="{series}, measured on held-out data, ends at {last:.4g}; its first evaluation, at step"
    " {first_step}, gave {first:.4g}.",
    evidence="The median of the last three of {points} evaluations is {kept:.1%} of the first one"
    " (limit {least:.0%}), the best is {best:.4g}, and no held-out metric improved.",
    needs={
        "loss": Each((Role.LOSS,), Split.EVAL, points=5, which=Which.PRINCIPAL),
        "train": TRAINING,
        "metrics": METRICS,
    },
    measures={
        "points": "evaluations judged",
        "lowest_late": "the lowest of the last three",
        "first": "the first evaluation",
        "last": "median of the last three",
        "kept": "last over first",
        "best": "the lowest evaluation; from forty on, the lowest running median of three",
        "lowest": "the lowest evaluation",
        "first_at": "step of the first evaluation over the last step",
        "p_fall": "one-sided Mann-Kendall p of a fall over the evaluations",
        "metric": "a held-out metric that improved",
        "train": "the training loss of the same quantity",
        "began": "its level at the start: its first row, or the median of the first five up to the"
        " first evaluation where that is greater",
        "most": "its greatest value",
        "share": "last over began",
        "factor": "lowest over most",
    },
    variants={
        "risen": Variant(
            Level.WARN,
            "{series}, measured on held-out data, rose: its first evaluation, at step {first_step},"
            " gave {first:.4g}, the last three no less than {lowest_late:.4g}.",
            "The median of the last three of {points} evaluations is {kept:.1%} of the first one,"
            " which came after {first_at:.0%} of the run; the best was {best:.4g}.",
        ),
        "as-at-the-start": Variant(
            Level.WARN,
            "{series}, measured on held-out data, ends at {last:.4g}; {train} began at"
            " {began:.4g}.",
            "The median of the last three of {points} evaluations is {share:.1%} of the level at"
            " which training began (limit {least:.0%}), the best is {best:.4g}; they do not fall"
            " (Mann-Kendall p {p_fall:.2g}), and no held-out metric improved.",
        ),
        "far-above": Variant(
            Level.WARN,
            "{series}, measured on held-out data, is never below {lowest:.4g}, {factor:.3g} times"
            " the greatest value of {train} ({most:.4g}), and does not fall.",
            "{points} evaluations, the median of the last three {last:.4g} (from {apart:g} times on"
            " it counts); Mann-Kendall p of a fall {p_fall:.2g}, and no held-out metric improved.",
        ),
    },
    doc=Doc(
        measures="The median of the last three evaluations of a held-out loss against the first,"
        " and against the level at which the training loss of the same quantity began.",
        means="By this measure the run improved nothing that was not in its training data.",
        does_not_mean="That nothing was learned: a model that was good before may have been taught"
        " something this loss does not measure. Nor that the two losses are averaged alike.",
        guards=(
            "Six evaluations at least, the first within the first tenth of the run: later ones"
            " may come after all of the progress. But a rise, by a fifth in each of the last three,"
            " is one from wherever it begins.",
            "A best evaluation 5 % below the first, or a held-out metric that improved beyond"
            " doubt, makes it clean: what was lost again is judged by TP-OVERFIT. Where the loss"
            " ends within 10 % of its start, a metric that ends three standard errors better does;"
            " and so does a training loss whose first rows lie above the others, and by a quarter"
            " above the first evaluation: what was learned before it is a gain.",
            "A fall that is small but certain (p below 0.001), and goes on after the second"
            " evaluation by half a percent, is a gain of which nothing is said.",
            "The level at which training began stands in for a first evaluation from five"
            " evaluations on, where these show no sign of a fall (p above 0.05), the best lies less"
            " than 5 % below it, and they end at less than 1.25 times of it; or where all are ten"
            " times the greatest training loss: between, they may be averaged differently.",
            "Losses that are 0 or negative have no ratio, and two digits of which the last is worth"
            " more than 2 % show no gain: not judged.",
        ),
        references=(
            "0 of 1,750 public logs of healthy runs with such an early first evaluation",
            "accelerate #2665: weights that were never updated",
        ),
    ),
    not_for=(*GAMES, Regime.PREFERENCE),
    fires=Example(
        "ends where it began",
        view(
            series("loss", falling(100, 2.0, 0.5)),
            series("eval_loss", [2.0, 2.1, 2.05, 2.2, 2.1, 2.15], [5, 20, 40, 60, 80, 100]),
        ),
    ),
    silent=Example(
        "falls",
        view(series("eval_loss", [2.0, 1.8, 1.6, 1.5, 1.4, 1.4], [5, 20, 40, 60, 80, 100])),
    ),
)
def no_heldout_gain(
    loss: Series,
    train: tuple[Series, ...],
    metrics: tuple[Series, ...],
    *,
    least: Annotated[float, Bound("share", "of the first evaluation: nothing gained", ge=0)] = 0.98,
    once: Annotated[float, Bound("share", "of the first: an evaluation below it gained", ge=0)] = (
        0.95
    ),
    start: Annotated[float, Bound("share", "of the run, within which the first lies", ge=0)] = 0.1,
    rise: Annotated[float, Bound("ratio", "to the first: a rise from wherever it is", ge=1)] = 1.2,
    apart: Annotated[float, Bound("ratio", "to the greatest training loss: far above", ge=1)] = (
        10.0
    ),
) -> Outcome:
    seen = profile(loss)
    measured: dict[str, Value] = {
        "points": len(loss),
        "first": float(loss.values[0]),
        "last": median(loss.values[-3:]),
        "best": float(_smooth(loss).min()),
        "lowest": float(loss.values.min()),
        "lowest_late": float(loss.values[-3:].min()),
        "first_at": _share_before(loss),
        "p_fall": seen.p_fall,
    }
    if not loss.values.min() > 0:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    measured["kept"] = float(measured["last"]) / float(measured["first"])
    begun = beginning(loss, train)
    if begun is not None:
        measured |= _compared(measured, begun)
    variant = _by_beginning(measured, least, once, apart)
    if not variant:
        risen = float(measured["lowest_late"]) >= rise * float(measured["first"])
        before = begun is not None and not risen and _left(begun, measured)
        if before or _fell_below_first(measured, least, once):
            return Clean(measured)
        if seen.p_fall <= UNMISTAKABLE and float(measured["last"]) < STILL * loss.values[1]:
            return Undecided(measured)
        few, late = len(loss) < FEWEST, float(measured["first_at"]) > start
        if (few or late) and not risen:
            return Undecided(measured, Skip.NEED_TOO_SHORT if few else Skip.START_MISSING)
        variant = "risen" if few or late else ""
    if variant in ("", "as-at-the-start") and seen.quantum > (1 - least) * float(measured["last"]):
        return Undecided(measured, Skip.LOW_POWER)
    metric = _better(metrics, float(measured["last"]) < RISEN * float(measured["first"]))
    if metric is not None:
        return Clean({**measured, "metric": metric.tag})
    return Fired((Evidence(where(loss), measured, variant),))


def _smooth(loss: Series) -> Floats:
    """The evaluations; of many, running medians of three: one of them will be low by luck."""
    return median_of_three(loss.values) if len(loss) >= MANY else loss.values


def _compared(measured: Mapping[str, Value], begun: Beginning) -> dict[str, Value]:
    return {
        "train": begun.series,
        "began": begun.level,
        "most": begun.most,
        "share": float(measured["last"]) / begun.level,
        "factor": float(measured["lowest"]) / begun.most,
    }


def _by_beginning(measured: Mapping[str, Value], least: float, once: float, apart: float) -> str:
    """What the evaluations are, seen from where training began: a variant, or ""."""
    if "began" not in measured or float(measured["p_fall"]) < SIGN_OF_FALL:
        return ""
    if float(measured["factor"]) > apart:
        return "far-above"
    near = least <= float(measured["share"]) < SAME_SCALE
    held = float(measured["best"]) >= once * float(measured["began"])
    return "as-at-the-start" if near and held else ""


def _fell_below_first(measured: Mapping[str, Value], least: float, once: float) -> bool:
    """Whether the evaluations end below the first one, or were once."""
    lower = float(measured["best"]) < once * float(measured["first"])
    return lower or float(measured["kept"]) < least


def _left(begun: Beginning, measured: Mapping[str, Value]) -> bool:
    """Whether training had gained before the first evaluation."""
    return begun.left and float(measured["first"]) < FAR_BELOW * begun.level


def _better(metrics: tuple[Series, ...], near: bool) -> Series | None:
    """A metric that improved beyond doubt or, where the loss ends ``near`` its start, by more
    than its noise."""
    metric = first_improved(metrics)
    if metric is None and near:
        metric = next(filter(_gained, metrics), None)
    return metric


def _gained(metric: Series) -> bool:
    """Whether a metric ends better than it began by more than three standard errors: a rise that
    few evaluations cannot establish as a trend is gain enough to say nothing."""
    if higher_is_better(metric) is None or len(metric) < 5 or screen(metric).nonfinite:
        return False
    seen = cost_profile(metric)
    return seen.first - seen.last > 3 * seen.error > 0


def _share_before(loss: Series) -> float:
    """Share of the run before the first evaluation. Epochs that count from 0 end one later."""
    late = 1 if loss.column.axis is Axis.EPOCH and loss.steps[0] == 0 else 0
    first, last = float(loss.steps[0] + late), float(loss.steps[-1] + late)
    return first / last if last > 0 else 1.0


@rule(
    id="TP-LOSS-METRIC-CONTRADICT",
    title="The held-out loss and metric go opposite ways",
    level=Level.WARN,
    message="{series} got worse, from {first:.4g} to {last:.4g}, while {loss_name}, held out too,"
    " fell from {loss_first:.4g} to {loss_last:.4g}.",
    evidence="Both beyond doubt, over {points} evaluations of the metric (p {p:.2g}) and"
    " {loss_points} of the loss; no other metric improved.",
    needs={
        "metric": Each((Role.METRIC,), Split.EVAL, points=8, which=Which.PRINCIPAL),
        "losses": Companions(Role.LOSS, Split.EVAL),
        "metrics": METRICS,
    },
    measures={
        "points": "evaluations of the metric",
        "first": "its level at the start, a median",
        "last": "its level at the end, a median",
        "p": "one-sided Mann-Kendall p of its turn for the worse",
        "loss_name": "the held-out loss",
        "loss_points": "its evaluations",
        "loss_first": "its level at the start",
        "loss_last": "its level at the end",
        "other": "a held-out metric that improved",
    },
    doc=Doc(
        measures="Whether a held-out metric got worse beyond doubt while the held-out loss fell.",
        means="One of the two does not measure what it should: the metric is computed from other"
        " outputs, has its sign turned, or the loss leaves out what the metric asks for.",
        does_not_mean="Which of them is wrong. A metric that improves while the loss rises is a"
        " drift of confidence, and judged elsewhere.",
        guards=(
            "Both trends must be established: p below 0.001, three standard errors and 1 %.",
            "Metrics without a known better direction are not judged.",
            "A share of few cases (every value a multiple of 1/n) must have moved by more than"
            " three times the binomial error of n cases.",
            "Another held-out metric that improved makes it a trade-off between metrics: clean.",
            "A loss that was not logged any more over the last tenth of the metric's evaluations"
            " says nothing about them.",
        ),
        references=("TheDeepChecker: correlation of loss and metric",),
    ),
    not_for=GAMES,
    fires=Example(
        "both fall",
        view(series("eval_loss", falling(12)), series("eval_accuracy", falling(12, 0.9, 0.4))),
    ),
    silent=Example(
        "the loss falls, the accuracy rises",
        view(series("eval_loss", falling(12)), series("eval_accuracy", falling(12, 0.4, 0.9))),
    ),
)
def contradiction(
    metric: Series, losses: tuple[Series, ...], metrics: tuple[Series, ...]
) -> Outcome:
    measured: dict[str, Value] = {"points": len(metric)}
    up = higher_is_better(metric)
    if up is None:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    seen = profile(metric)
    measured |= {"first": seen.first, "last": seen.last, "p": seen.p_fall if up else seen.p_rise}
    worse = fell(seen) if up else rose(seen)
    if not worse:
        return Clean(measured)
    if abs(seen.last - seen.first) <= 3 * counting_error(metric.values):
        return Undecided(measured, Skip.LOW_POWER)
    beside = on_same_data(metric, losses)
    alongside = (one for one in beside if len(one) >= 8 and _goes_as_far(one, metric))
    loss = next(filter(improved, alongside), None)
    if loss is None:
        return Undecided(measured)
    other = first_improved(metrics)
    if other is not None:
        return Clean({**measured, "other": other.tag})
    level = cost_profile(loss)
    measured |= {
        "loss_name": loss.tag,
        "loss_points": len(loss),
        "loss_first": level.first,
        "loss_last": level.last,
    }
    return Fired((Evidence(where(metric), measured),))


def _goes_as_far(loss: Series, metric: Series) -> bool:
    """Whether the loss was still logged over the last tenth of the metric's evaluations."""
    late = metric.steps[len(metric) - 1 - len(metric) // 10]
    return loss.column.axis is not metric.column.axis or bool(loss.steps[-1] >= late)


@rule(
    id="TP-METRIC-ZERO",
    title="A metric is exactly zero",
    level=Level.WARN,
    message="{series} is exactly 0 on the last {zeros} evaluations, from step {first_step} on,"
    " while {train} fell from {train_first:.4g} to {train_last:.4g}.",
    evidence="{zeros} of {points} evaluations (from {evaluations} on they count), over {share:.0%}"
    " of the run.",
    needs={
        "metric": Each((Role.METRIC,), Split.EVAL, points=5),
        "metrics": METRICS,
        "train": TRAINING,
    },
    measures={
        "points": "evaluations logged",
        "zeros": "evaluations at the end that are exactly 0, or at the greatest error",
        "worst": "the error rate at which everything is wrong: 1 or 100",
        "share": "steps that they cover over all steps of the series",
        "train": "the training loss of the same execution",
        "train_first": "its level at the start",
        "train_last": "its level at the end",
        "other": "another held-out metric that is not 0",
    },
    variants={
        "all-wrong": Variant(
            Level.WARN,
            "{series} is exactly {worst:g}, all wrong, on the last {zeros} evaluations, from step"
            " {first_step} on, while {train} fell from {train_first:.4g} to {train_last:.4g}.",
            "{zeros} of {points} evaluations (from {evaluations} on they count), over {share:.0%}"
            " of the run (half of it counts).",
        ),
        "one-of-several": Variant(
            Level.INFO,
            "{series} is exactly 0 on the last {zeros} evaluations, while {other} is not.",
            "{zeros} of {points} evaluations, over {share:.0%} of the run.",
        ),
    },
    doc=Doc(
        measures="How many of the last evaluations of a metric that should rise are exactly 0; of"
        " an error rate, exactly 1 or 100.",
        means="The model learns something that the evaluation does not see: no prediction passes"
        " the threshold, or outputs and labels are not matched as they should be.",
        does_not_mean="That the model is useless: the fault may be the evaluation's.",
        guards=(
            "Values below 0, as for classes without any object, are not 0. Error rates (word,"
            " character or phone) only over half of the run: a model that learns to align begins"
            " with blanks.",
            "Five evaluations over a tenth of the run at least, and a training loss that fell"
            " beyond doubt: without one nothing is judged.",
            "Another held-out metric above 0 makes it a note.",
        ),
        references=("yolov5 #2937, ultralytics #8422, #14757: mAP 0 while the loss falls",),
    ),
    not_for=GAMES,
    fires=Example(
        "ten zeros",
        view(series("loss", falling(100)), series("eval_accuracy", [0.0] * 10, range(10, 101, 10))),
    ),
    silent=Example(
        "zero at the start only",
        view(series("eval_accuracy", [0.0, 0.0, 0.1, 0.3, 0.4, 0.5])),
    ),
)
def metric_zero(
    metric: Series,
    metrics: tuple[Series, ...],
    train: tuple[Series, ...],
    *,
    evaluations: Annotated[int, Bound("evaluations", "zeros at the end that count", ge=3)] = 5,
    covered: Annotated[float, Bound("share", "of the run that they must cover", ge=0)] = 0.1,
) -> Outcome:
    rate = metric.identity.base in ERROR_RATES
    worst = float(metric.values[-1]) if rate else 0.0
    zeros = tail_of(metric.values == worst)
    measured: dict[str, Value] = {"points": len(metric), "zeros": zeros}
    if not higher_is_better(metric) and not rate:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    if rate:
        measured["worst"] = worst
        covered = max(covered, 0.5)
    if rate and worst not in (1.0, 100.0):
        return Clean(measured)
    span = float(metric.steps[-1] - metric.steps[0])
    since = float(metric.steps[-1] - metric.steps[-max(1, zeros)])
    measured["share"] = since / span if span > 0 else 0.0
    if zeros < evaluations or float(measured["share"]) < covered:
        return Clean(measured)
    place = where(metric, len(metric) - zeros)
    other = next((one for one in metrics if _above_zero(one)), None)
    if other is not None:
        return Fired((Evidence(place, {**measured, "other": other.tag}, "one-of-several"),))
    loss = first_improved(train)
    if loss is None:
        return Undecided(measured)
    seen = profile(loss)
    measured |= {"train": loss.tag, "train_first": seen.first, "train_last": seen.last}
    return Fired((Evidence(place, measured, "all-wrong" if rate else ""),))


def _above_zero(metric: Series) -> bool:
    """Whether a metric that should rise is above 0 over its last third."""
    if not higher_is_better(metric) or screen(metric).nonfinite:
        return False
    ending = metric.values[-max(1, len(metric) // 3) :]
    return bool(np.count_nonzero(ending > 0) * 2 > len(ending))
