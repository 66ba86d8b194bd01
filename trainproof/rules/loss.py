"""The shape of the training loss."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated

import numpy as np

from trainproof.model.data import Attempt, Floats, Regime, Role, RunView, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import falling, series, view
from .interface import (
    Bound,
    Companion,
    Companions,
    Each,
    Example,
    Optional,
    Together,
    Which,
    Whole,
    rule,
    starts_late,
    where,
)
from .quarters import Ends, Relapse, ends_of, relapse
from .shape import (
    LEAST_TRAINING,
    NEVER_BY_CHANCE,
    QUADRUPLED,
    SATURATED,
    STRAYS,
    TENFOLD,
    GiveBack,
    Kept,
    as_cost,
    at_its_best,
    fell,
    first_improved,
    gravest,
    higher_is_better,
    improved,
    may_have_risen,
    multiplied,
    restarts_late,
    tries_rates,
)
from .stages import changed_setting, stages
from .statistics import (
    FEW,
    REMEMBERS,
    Mask,
    Profile,
    Stretches,
    curvature_noise,
    least_change,
    measure,
    median,
    printed_quantum,
    profile,
    screen,
    shared_steps,
    spikes,
    stretches,
    tail_at,
    theil_sen,
)

NOT_SUPERVISED = (Regime.REINFORCEMENT, Regime.ADVERSARIAL)
"""There the loss is no measure of progress: it is zero by construction, or a game's."""

OBJECTIVE = Each((Role.LOSS,), points=5, which=Which.OBJECTIVE)
HELD_OUT = Companions(Role.LOSS, Split.EVAL)
SIBLINGS = Companions(Role.LOSS, Split.TRAIN)
METRICS = Companions(Role.METRIC)
RESTART_WINDOW = 0.2
"""Last share of the steps in which a learning rate that restarts explains a rise."""

CERTAIN = 6.0
"""Standard errors that a rise must exceed to be a divergence."""

NOTHING = 0.02
"""Share of the level by which first rows that lie above the others show nothing."""

SCATTERED = 0.3
"""Noise of one point over the level, above which a loss may be flat by nature: at random times of
a diffusion, for one."""

GRADIENT = Optional(Companion(Role.GRAD_NORM))


# --- exactly zero -----------------------------------------------------------------------------


@rule(
    id="TP-ZERO-LOSS",
    title="The loss is exactly zero",
    level=Level.FAIL,
    message="{series} is exactly 0 on every one of its {points} rows.",
    evidence="{zeros} of {points} logged values are 0.0; gradient norm logged beside it: {beside}.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, points=5, which=Which.PRINCIPAL),
        "grad": GRADIENT,
        "metrics": METRICS,
        "siblings": SIBLINGS,
    },
    measures={
        "points": "values logged",
        "zeros": "values that are exactly 0",
        "beside": "what the gradient norm shows on the zero rows: positive, zero, not finite, or"
        " not logged",
        "other": "a series of the same execution that shows the zero to be rounding",
    },
    variants={
        "rounded": Variant(
            Level.INFO,
            "{series} prints as 0 on every row; {other} shows that the loss is small, not absent.",
            "{zeros} of {points} logged values are 0.0; gradient norm beside it: {beside}.",
        ),
        "component": Variant(
            Level.INFO,
            "{series}, a part of the loss, is exactly 0 on every row; {other} is not.",
            "{zeros} of {points} logged values of this part are 0.0.",
        ),
    },
    doc=Doc(
        measures="Whether every logged value of the training loss is exactly 0.",
        means="Nothing is being optimised: every target is masked, or the loss that is logged is"
        " not the one that is trained.",
        does_not_mean="That the data are at fault: the log does not show where the targets went.",
        guards=(
            "A positive, finite gradient norm or a training accuracy above one half shows a loss"
            " below the printed precision: a note.",
            "Reinforcement learning is out of scope: such a loss is 0 by construction.",
            "A part of the loss that is 0 while another is not is a note: its weight may be 0.",
        ),
        references=(
            "transformers #25021, peft #334, LLaMA-Factory #8004, trl #6025, #6668: masked targets",
            "trl #3452, open-r1 #239, unsloth #2291: 0 by construction or by rounding",
        ),
    ),
    not_for=NOT_SUPERVISED,
    fires=Example("every row is 0", view(series("loss", [0.0] * 12))),
    silent=Example("a falling loss", view(series("loss", falling(12)))),
)
def zero_loss(
    loss: Series, grad: Series | None, metrics: tuple[Series, ...], siblings: tuple[Series, ...]
) -> Outcome:
    points = len(loss)
    zeros = points - int(np.count_nonzero(loss.values))
    measured: dict[str, Value] = {"points": points, "zeros": zeros}
    if zeros < points:
        return Clean(measured)
    beside = _gradient_where(loss, loss.values == 0, grad)
    measured["beside"] = beside
    variant, other = _zero_explained(loss, beside, grad, metrics, siblings)
    if other is not None:
        measured["other"] = other.tag
    return Fired((Evidence(where(loss), measured, variant),))


def _gradient_where(loss: Series, zero: Mask, grad: Series | None) -> str:
    """What the gradient norm shows on the rows where the loss is zero."""
    if grad is None:
        return "not logged"
    both = shared_steps(loss, grad)
    beside = grad.values[both.there][zero[both.here]]
    if not len(beside):
        return "not logged"
    if np.count_nonzero(np.isfinite(beside)) * 2 <= len(beside):
        return "not finite"
    return "positive" if np.count_nonzero(beside > 0) * 2 > len(beside) else "zero"


def _zero_explained(
    loss: Series,
    beside: str,
    grad: Series | None,
    metrics: tuple[Series, ...],
    siblings: tuple[Series, ...],
) -> tuple[str, Series | None]:
    if loss.identity.component is not None:
        other = next((one for one in siblings if bool(np.any(one.values != 0))), None)
        if other is not None:
            return "component", other
    if beside == "positive":
        return "rounded", grad
    accurate = (m for m in metrics if m.split is Split.TRAIN and _accurate(m))
    other = next(accurate, None) if beside == "not logged" else None
    return ("rounded", other) if other is not None else ("", None)


def _accurate(metric: Series) -> bool:
    return "acc" in metric.tag.lower() and median(metric.values[-5:]) > 0.5


@rule(
    id="TP-ZERO-LOSS-ONSET",
    title="The loss becomes exactly zero",
    level=Level.FAIL,
    message="{series} drops to exactly 0 at step {first_step} and stays there to the end.",
    evidence="The last {tail} of {points} logged values are 0.0 (limit {in_a_row}); the level"
    " just before was {before:.4g}, at the start {start:.4g}; gradient norm beside it: {beside}.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, points=10, which=Which.PRINCIPAL),
        "grad": GRADIENT,
    },
    measures={
        "points": "values logged",
        "tail": "consecutive values at the end that are exactly 0",
        "before": "median size of the last five values that are not 0",
        "start": "median size of the first five values",
        "quantum": "unit of the last printed decimal, 0 for full precision",
        "beside": "what the gradient norm shows on the zero rows",
        "last": "the last value that is not 0",
        "change": "median change from row to row over the ten values before it",
    },
    variants={
        "reached": Variant(
            Level.WARN,
            "{series} comes down to exactly 0 at step {first_step} and stays there to the end.",
            "The last {tail} of {points} values are 0.0; the value before, {last:.4g}, is less than"
            " twice the change from row to row, {change:.4g}; the start was {start:.4g}; gradient"
            " norm beside it: {beside}.",
        ),
        "below-print": Variant(
            Level.INFO,
            "{series} sinks below its printed precision: it reads 0 from step {first_step} on.",
            "The last {tail} of {points} values are 0.0; just before, the level was {before:.4g},"
            " at the start {start:.4g}; the printed unit is {quantum:.3g}; gradient norm beside"
            " it: {beside}.",
        ),
    },
    doc=Doc(
        measures="The run of exact zeros at the end of a training loss that was not zero before.",
        means="An abrupt zero is no convergence: the targets vanished, or the loss became NaN and"
        " is printed as 0.",
        does_not_mean="That the model is perfect, nor that the weights before it are damaged.",
        guards=(
            "A loss that sinks to the printed unit, or to 1 % of its start, before it reads 0 is a"
            " note.",
            "So is a zero beside a positive, finite gradient norm.",
            "A margin that is met everywhere gives 0: a loss that came down to a quarter of its"
            " start, and whose last step to 0 is no greater than twice the usual one, is a"
            " warning, unless the gradient norm is not finite there.",
            "Reinforcement and adversarial training are out of scope.",
        ),
        references=("transformers #25021", "transformers: losses are logged rounded to 4 digits"),
    ),
    not_for=NOT_SUPERVISED,
    fires=Example("2.0, then 0", view(series("loss", [*falling(20, 4, 2), *([0.0] * 8)]))),
    silent=Example("a falling loss", view(series("loss", falling(20)))),
)
def zero_loss_onset(
    loss: Series,
    grad: Series | None,
    *,
    in_a_row: Annotated[int, Bound("points", "zeros at the end that count", ge=2)] = 5,
    decayed: Annotated[
        float, Bound("share", "of the starting level: below it a loss has decayed", ge=0, le=1)
    ] = 0.01,
) -> Outcome:
    tail = tail_at(loss.values, 0.0)
    measured: dict[str, Value] = {"points": len(loss), "tail": tail}
    if tail < in_a_row or tail == len(loss):
        return Clean(measured)
    zero = loss.values == 0
    sizes = np.abs(loss.values[~zero])
    before, start = median(sizes[-5:]), median(sizes[:5])
    quantum = printed_quantum(loss.values) or 0.0
    beside = _gradient_where(loss, _only_last(zero, tail), grad)
    measured |= {"before": before, "start": start, "quantum": quantum, "beside": beside}
    sank = before <= max(decayed * start, 20 * quantum) or beside == "positive"
    place = where(loss, len(loss) - tail)
    if sank or beside == "not finite":
        return Fired((Evidence(place, measured, "below-print" if sank else ""),))
    last, change = float(sizes[-1]), median(np.abs(np.diff(sizes[-11:])))
    reached = last <= min(2 * change, 0.25 * start)
    measured |= {"last": last, "change": change}
    return Fired((Evidence(place, measured, "reached" if reached else ""),))


def _only_last(mask: Mask, count: int) -> Mask:
    only = np.zeros_like(mask)
    only[-count:] = True
    return only


# --- frozen -------------------------------------------------------------------------------------


@rule(
    id="TP-FLAT",
    title="The loss is frozen to its last printed digit",
    level=Level.FAIL,
    message="{series} does not change any more from step {first_step} on.",
    evidence="The last {frozen} of {points} logged values hold {distinct} distinct value(s)"
    " (at least {rows} rows count); before that one row scattered by {before:.3g}, against"
    " {quantum:.3g}, the unit of its digits or the least difference between two rows.",
    needs={"loss": Each((Role.LOSS,), Split.TRAIN, points=20, which=Which.PRINCIPAL)},
    measures={
        "points": "values logged",
        "frozen": "rows at the end with at most two distinct values",
        "distinct": "distinct values among them",
        "before": "noise of one row over the twenty rows before",
        "quantum": "by how much the loss can differ at all: unit of the last printed decimal,"
        " spacing of half precision, or least difference",
        "value": "the value at the end",
    },
    variants={
        "always": Variant(
            Level.FAIL,
            "{series} has the same value on every row.",
            "All {points} logged values are {value!s}.",
        )
    },
    doc=Doc(
        measures="How many of the last rows hold at most two distinct values, and how noisy the"
        " rows before were.",
        means="A loss that scattered and from some row on repeats itself to the last digit is no"
        " longer computed from new batches, or nothing is updated.",
        does_not_mean="That training converged: mini-batch noise does not vanish at once.",
        guards=(
            "A loss that quietens gradually (full-batch training, decayed learning rate) is not"
            " frozen: the twenty rows before must scatter by more than three printed units.",
            "Values printed too coarsely to show a change of 1 % cannot be judged. The unit of a"
            " loss that was computed in half precision is the spacing of that.",
            "A loss of 0 is judged by the rules for zero loss. One that fell below a millionth is"
            " at the end of single precision: not judged.",
        ),
        references=(
            "mlcommons training_results_v4.0: a loss-scale column under a loss name",
            "LLaMA-Factory #8004",
        ),
    ),
    not_for=NOT_SUPERVISED,
    fires=Example(
        "noisy, then one value", view(series("loss", [*falling(40, noise=0.1), *([1.25] * 30)]))
    ),
    silent=Example("a falling loss", view(series("loss", falling(40)))),
)
def frozen_loss(
    loss: Series,
    *,
    rows: Annotated[int, Bound("points", "rows at the end that count", ge=5)] = 20,
    units: Annotated[float, Bound("printed units", "noise needed before", ge=1)] = 3.0,
    visible: Annotated[
        float, Bound("share", "printed unit over value: above it nothing is judged", ge=0)
    ] = 0.01,
) -> Outcome:
    values = loss.values
    points, end = len(values), values.item(-1)
    frozen, distinct = _frozen_tail(loss, rows)
    measured: dict[str, Value] = {"points": points, "frozen": frozen, "distinct": distinct}
    if frozen < rows or end == 0:
        return Clean(measured)
    if abs(end) <= SATURATED and frozen < points:
        return Undecided(measured, Skip.LOW_POWER)
    least = least_change(values, end)
    quantum = least or _least_step(values)
    measured |= {"value": end, "quantum": quantum}
    if frozen == points:
        if distinct > 1 or least > visible * abs(end):
            return Undecided(measured, Skip.LOW_POWER)
        return Fired((Evidence(where(loss), measured, "always"),))
    begin = points - frozen
    earlier = values[max(0, begin - rows) : begin]
    before = curvature_noise(earlier)
    measured["before"] = before
    # A loss that falls to a fraction scatters by that fraction: it may sink below the last digit.
    share = min(end / median(earlier), 1.0) if values.min() > 0 else 1.0
    if begin < rows or not share * before > units * quantum:
        return Undecided(measured, Skip.LOW_POWER)
    return Fired((Evidence(where(loss, begin), measured),))


def _frozen_tail(loss: Series, rows: int) -> tuple[int, int]:
    """Length of the tail of one value, where it is long enough, else of at most two distinct
    values; and their number."""
    values = loss.values
    last = values.item(-1)
    one = tail_at(values, last)
    if one >= rows or one == len(values):
        return one, 1
    second = values.item(-one - 1)
    if values[-rows:].tolist().count(second) < 2:
        return one, 1
    third = np.flatnonzero((values != last) & (values != second))
    return len(values) - (int(third[-1]) + 1 if len(third) else 0), 2


def _least_step(values: Floats) -> float:
    """The least difference between two distinct values; 0 when all are equal."""
    steps = np.diff(np.unique(values))
    return float(steps.min()) if len(steps) else 0.0


# --- where it went ------------------------------------------------------------------------------


@rule(
    id="TP-DIVERGE",
    title="The loss gave its progress back",
    level=Level.FAIL,
    message="{series} ended far above the best level it had reached: {best:.4g} around step"
    " {best_step}, {end:.4g} at the end.",
    evidence="It had fallen by {drop:.4g} and rose again by {rise:.4g} (limit {share:.0%} of the"
    " fall), {errors:.3g} standard errors (limit {least_errors:g}); measured over {points} points"
    " by {form}.",
    needs={
        "loss": OBJECTIVE,
        "held_out": HELD_OUT,
        "metrics": METRICS,
        "lr": Optional(Companion(Role.LR, points=5)),
        "beside": Together(),
    },
    measures={
        "points": "values judged",
        "best": "lowest level reached: of a block's median, or of a running median of three",
        "best_step": "step of the lowest value at that level",
        "end": "level at the end, a median",
        "drop": "fall from the highest level before to the lowest",
        "rise": "rise from the lowest level to the end",
        "gave_back": "rise over drop",
        "errors": "rise in standard errors of its measurement",
        "form": "blocks: medians of equal blocks; points: running medians; ratios: running"
        " medians of the logarithms",
        "p": "Mann-Whitney p of the last block, or quarter, against the best one",
        "start": "the first value",
        "lowest": "the lowest median of a block",
        "highest": "the greatest",
        "wander": "how far such levels stray without a trend, by noise over growing lags",
        "first": "level at the start, a median",
        "last": "level at the end, a median",
        "p_fall": "Mann-Kendall p of a fall over the whole series",
        "noise": "noise of one point",
        "other": "another series of the same execution that bears on the question",
        "other_first": "its first value",
        "other_best": "its best value",
        "other_end": "its last value",
        "lr": "the learning-rate series that restarts near the end",
        "setting": "a logged setting, at whose changes the loss rose",
        "half": "level at the beginning of the second half of the log, a median",
    },
    variants={
        "falling-since": Variant(
            Level.WARN,
            "{series} rose at its start, from {best:.4g} around step {best_step}, and ends at"
            " {end:.4g}; over the second half of the log it falls.",
            "It rose by {rise:.4g}, {errors:.3g} standard errors over {points} points, and fell"
            " again from {half:.4g} beyond doubt.",
        ),
        "part-at-best": Variant(
            Level.WARN,
            "{series} ended above the best level it had reached, {best:.4g} around step"
            " {best_step}: {end:.4g}; {other}, a part of it, has fallen since to its own best.",
            "It had fallen by {drop:.4g} and rose again by {rise:.4g}, {errors:.3g} standard errors"
            " over {points} points; {other} went from {other_first:.4g} to {other_end:.4g}.",
        ),
        "setting": Variant(
            Level.WARN,
            "{series} ended far above the best level it had reached, {best:.4g} around step"
            " {best_step}: {end:.4g}. It rose where {setting} changed.",
            "It had fallen by {drop:.4g} and rose again by {rise:.4g}, {errors:.3g} standard errors"
            " over {points} points; half of that from one row to the next, where that setting took"
            " another value.",
        ),
        "setting-held-out": Variant(
            Level.INFO,
            "{series} rose from its best level {best:.4g} around step {best_step} to {end:.4g}"
            " where {setting} changed, while {other}, measured on held-out data, ended at or near"
            " its own best.",
            "It had fallen by {drop:.4g} and rose again by {rise:.4g}, {errors:.3g} standard errors"
            " over {points} points; {other} went from {other_first:.4g} to {other_end:.4g}, its"
            " best was {other_best:.4g}.",
        ),
        "held-out-at-best": Variant(
            Level.WARN,
            "{series} rose from its best level {best:.4g} around step {best_step} to {end:.4g},"
            " while {other}, measured on held-out data, ended at or near its own best.",
            "It had fallen by {drop:.4g} and rose again by {rise:.4g} ({errors:.3g} standard"
            " errors, {points} points); {other} went from {other_first:.4g} to {other_end:.4g}, its"
            " best was {other_best:.4g}.",
        ),
        "partial": Variant(
            Level.WARN,
            "{series} ended above the best level it had reached: {best:.4g} around step"
            " {best_step}, {end:.4g} at the end.",
            "It gave back {gave_back:.0%} of its fall of {drop:.4g} (a FAIL from {share:.0%} on),"
            " {errors:.3g} standard errors over {points} points, by {form}.",
        ),
        "wandering": Variant(
            Level.WARN,
            "{series} ended above the best level it had reached, by little more than it wanders:"
            " {best:.4g} around step {best_step}, {end:.4g} at the end.",
            "It had fallen by {drop:.4g} and rose again by {rise:.4g}, {errors:.3g} standard errors"
            " of independent points; over longer stretches its level strays by {wander:.3g}, and"
            " a FAIL needs {least_errors:g} times that ({points} points, by {form}).",
        ),
        "held-out-only": Variant(
            Level.WARN,
            "{series}, the only loss logged, is held out and ended far above its best level"
            " {best:.4g}, reached around step {best_step}: {end:.4g}.",
            "It had fallen by {drop:.4g} and rose again by {rise:.4g}, {errors:.3g} standard errors"
            " over {points} points; no training loss is logged to tell overfitting from"
            " divergence.",
        ),
        "by-ranks": Variant(
            Level.WARN,
            "{series} ended higher than it had been: its median was {best:.4g} over the part that"
            " begins at step {best_step}, and is {end:.4g} over the last.",
            "Quarters of {points} values, as single blocks are too noisy; all but surely higher by"
            " ranks (Mann-Whitney p {p:.2g}), by {gave_back:.0%} of the fall of {drop:.4g} before"
            " (limit {share:.0%}).",
        ),
        "above-the-first": Variant(
            Level.WARN,
            "{series} never came back to where it began: its first value is {start:.4g}, its level"
            " {lowest:.4g} at the least and {end:.4g} at the end.",
            "Medians of equal blocks of {points} values; the greatest is {highest:.4g} (twice the"
            " first value counts, where the last is {least_end:g} times that), and no held-out loss"
            " ends below it.",
        ),
        "component": Variant(
            Level.INFO,
            "{series}, a part of the loss, rose from {best:.4g} around step {best_step} to"
            " {end:.4g}, while {other} fell; no total is logged.",
            "It had fallen by {drop:.4g} and rose again by {rise:.4g} ({errors:.3g} standard"
            " errors, {points} points).",
        ),
    },
    doc=Doc(
        measures="How far the level at the end lies above the lowest level reached, as a share of"
        " the fall before it and in standard errors. Two forms: medians of at most twenty equal"
        " blocks with a rank test, and running medians of three for a short or late rise. For"
        " a positive loss that rose to 1.5 times its best or more, the latter also among its"
        " logarithms.",
        means="The weights at the end are worse on the training objective than earlier ones.",
        does_not_mean="That the learning rate is the reason, or that an earlier checkpoint is"
        " good. Nothing is said where the loss did not measurably fall and rise.",
        guards=(
            "Never a last point against a lowest point: both are medians, and the rise must exceed"
            " six standard errors, inflated for autocorrelation.",
            "A rise to less than four times the best level must also exceed six times what the"
            " level strays without a trend: where it does not, a warning, and nothing is said of a"
            " series whose neighbouring values remember each other.",
            "Works on negative losses: the share of the fall does not depend on shift or scale.",
            "A held-out loss at its best, a part of the loss beside one that fell, and a loss that"
            " is held out itself are judged at a lower level.",
            "A rise from the first values that is within four times the noise of a batch, and to"
            " less than four times these, of a loss logged as a running average: not judged. Its"
            " first value was one batch.",
            "A warning where a part of the loss fell all the while, by a tenth of the rise, and"
            " ends at its best: others, or their weights, grew.",
            "A learning rate that doubles in the last fifth (cyclic, warm restart), or is raised a"
            " hundredfold from row to row by one factor, or up to 1 and more (a test of rates): not"
            " judged.",
            "A warning where at least half of the rise came at once with another value of a logged"
            " setting (a difficulty, a task, a length): the loss may mean something else since; a"
            " note where a held-out loss is at its best besides, and no held-out metric got worse.",
            "Low values around one as high as the end are the noise of a loss that grew noisy.",
            "Where the noise hides a rise of single blocks, quarters are compared by ranks: p below"
            " 0.0001 over all quarters looked at, half of the fall before and 5 % of the level. A"
            " warning, and none beside a held-out loss that fell or kept its best.",
            "A loss that rose at once has no level to return to but its first value: a warning"
            " where no block lies below it, one at twice of it and the last at 1.5 times, beyond"
            " four times the noise of one value: the first batch may be an easy one.",
            "A rise from the first fiftieth of the rows, to less than four times the value there,"
            " is a warning where the loss falls beyond doubt over the second half: a queue that"
            " fills, or a weight that grows, makes a loss that begins too low.",
            "Clean only if the loss demonstrably fell and kept it.",
        ),
        references=(
            "benchmarks/population.py: 1 of 2,878 published healthy series (an objective switch)",
            "Mann and Whitney 1947; Kendall 1975; von Neumann 1941 (differences over a lag)",
            "OPT-175B and PaLM training notes: divergence, restart, spikes that recover",
        ),
    ),
    grounds=True,
    not_for=NOT_SUPERVISED,
    fires=Example(
        "down to 1, then back to 3",
        view(series("loss", [*falling(60), *falling(40, 1.0, 3.0)])),
    ),
    silent=Example("a falling loss", view(series("loss", falling(60)))),
)
def divergence(
    loss: Series,
    held_out: tuple[Series, ...],
    metrics: tuple[Series, ...],
    lr: Series | None,
    beside: Attempt,
    *,
    share: Annotated[float, Bound("share", "of the progress given back: FAIL", ge=0)] = 0.5,
    partial: Annotated[float, Bound("share", "of the progress given back: WARN", ge=0)] = 0.2,
    least_errors: Annotated[float, Bound("standard errors", "a rise must exceed", ge=1)] = 6.0,
    restart_window: Annotated[
        float, Bound("share", "of the steps, in which a restart suspends the rule", ge=0, le=1)
    ] = RESTART_WINDOW,
    least_end: Annotated[
        float, Bound("ratio", "of the last block to the first value: it never came back", ge=1)
    ] = 1.5,
) -> Outcome:
    seen = profile(loss)
    found = _risen(loss, seen, least_errors)
    if found is None or found.share < partial:
        measured, slight = _ends(seen), True
    else:
        measured, slight = _given_back(loss, seen, found), False
    if found is None or slight or not _clear(loss, seen, found, least_errors):
        weaker = _weaker(loss, seen, held_out, share, least_end)
        if weaker is not None and not (
            restarts_late(lr, restart_window) or _averaged_start(loss, found)
        ):
            return Fired((weaker,))
        return Clean(measured) if slight and fell(seen) else Undecided(measured, Skip.LOW_POWER)
    if lr is not None and restarts_late(lr, restart_window):
        return Undecided({**measured, "lr": lr.tag})
    variant, other = _circumstance(loss, found, (*held_out, *metrics), beside)
    variant, other = _staged(loss, found, beside, (variant, other))
    if not variant and _begins_low(loss, found) and (half := _falls_since(loss)) is not None:
        variant, other = "falling-since", {"half": half}
    if not variant and found.share < share:
        variant = "partial"
    if not variant and not found.outran(least_errors):
        variant = "wandering"
    return Fired((Evidence(where(loss, found.best_at, -1), {**measured, **other}, variant),))


def _begins_low(loss: Series, found: GiveBack) -> bool:
    """Whether the least values are the first ones, and none is four times as great."""
    early = found.best_at <= len(loss) // 50 and loss.split is Split.TRAIN
    return early and 0 < float(loss.values.max()) < QUADRUPLED * found.best


def _falls_since(loss: Series) -> float | None:
    """The level at the beginning of the second half, where that falls beyond doubt."""
    second = measure(loss.values[len(loss) // 2 :])
    return second.first if fell(second) else None


def _clear(loss: Series, seen: Profile, found: GiveBack, errors: float) -> bool:
    """Whether a rise is beyond what the loss wanders, or its values remember nothing."""
    if _averaged_start(loss, found):
        return False
    return len(loss) >= FEW and (found.outran(errors) or seen.rho <= REMEMBERS)


def _averaged_start(loss: Series, found: GiveBack | None) -> bool:
    """Whether the rise may be that of a running average away from its first value, one lucky batch.

    An average over 1 / (1 - a) rows comes half of the way in log(2) / -log(a) rows, and its steps
    are 1 - a times the noise of a batch. They do not undo each other, as those of single batches do
    (whose neighbouring differences correlate by -1/2).
    """
    if found is None or found.share < TENFOLD or len(loss) < FEW:
        return False
    if found.best_at > len(loss) // 10 or 0 < QUADRUPLED * found.best <= found.end:
        return False
    steps = np.diff(loss.values[len(loss) // 2 :])
    steps = steps - steps.mean()
    if not steps[1:] @ steps[:-1] > -0.25 * (steps @ steps):
        return False
    half_way = int((loss.values[found.best_at :] >= found.best + found.rise / 2).argmax())
    if not 3 <= half_way <= len(loss) // 3:  # no average of many rows, or never level
        return False
    batch = float(steps.std()) / (1 - 0.5 ** (1 / half_way))
    return bool(found.rise <= LUCK * batch)


def _risen(loss: Series, seen: Profile, errors: float) -> GiveBack | None:
    """The gravest rise of the loss, or of its logarithm where only that is beyond wandering."""
    if not may_have_risen(loss.values, seen, errors):
        return None
    found = gravest(loss.values, seen, errors)
    if found is not None and found.outran(errors):
        return found
    return multiplied(loss.values, errors) or found


def _weaker(
    loss: Series, seen: Profile, held_out: tuple[Series, ...], share: float, least_end: float
) -> Evidence | None:
    """What can be said of a training loss whose noise hides a rise of single blocks, or that rose
    before the first of them ended."""
    if loss.split is not Split.TRAIN:
        return None
    return _above_first(loss, seen, held_out, least_end) or _by_ranks(loss, seen, held_out, share)


def _by_ranks(
    loss: Series, seen: Profile, held_out: tuple[Series, ...], share: float
) -> Evidence | None:
    found = None if fell(seen) else relapse(loss.values, seen)
    if found is None or not found.p < NEVER_BY_CHANCE or found.share < share:
        return None
    after = int(loss.steps[found.best_at])
    fine = first_improved(held_out) or any(at_its_best(one, after) for one in held_out)
    if fine or found.rise <= max(0.05 * abs(found.best), STRAYS * seen.drift):
        return None
    return Evidence(where(loss, found.best_at, -1), _relapsed(loss, seen, found), "by-ranks")


def _above_first(
    loss: Series, seen: Profile, held_out: tuple[Series, ...], least_end: float
) -> Evidence | None:
    start, levels = float(loss.values[0]), seen.medians
    if not _never_back(levels, start, least_end) or starts_late(loss):
        return None
    if any(median(one.values[-3:]) < start for one in held_out) or _lucky(loss.values, seen):
        return None
    measured: dict[str, Value] = {
        **_ends(seen),
        "start": start,
        "lowest": float(levels.min()),
        "highest": float(levels.max()),
        "end": float(levels[-1]),
    }
    return Evidence(where(loss), measured, "above-the-first")


def _never_back(levels: Floats, start: float, least_end: float) -> bool:
    """Whether a loss doubled its positive first value and no block lies 2 % below that again."""
    doubled = start > 0 and bool(levels.max() >= 2 * start)
    return doubled and bool(levels.min() >= 0.98 * start and levels[-1] >= least_end * start)


LUCK = 4.0
"""Noise of one value, of the logarithms: a first value that lies nearer is an easy batch."""


def _lucky(values: Floats, seen: Profile) -> bool:
    """Whether the first value may be one of the scatter around the levels right after it and at
    the end."""
    if not values.min() > 0:
        return True
    logs, level = np.log(values), max(float(seen.medians[0]), float(seen.medians[-1]))
    return math.log(level) - float(logs[0]) <= LUCK * measure(logs).sigma


def _relapsed(loss: Series, seen: Profile, found: Relapse | GiveBack) -> dict[str, Value]:
    return {
        **_ends(seen),
        "best": found.best,
        "best_step": int(loss.steps[found.best_at]),
        "end": found.end,
        "drop": found.drop,
        "rise": found.rise,
        "gave_back": found.share,
        "p": found.p,
    }


def _ends(seen: Profile) -> dict[str, Value]:
    return {
        "points": seen.points,
        "first": seen.first,
        "last": seen.last,
        "p_fall": seen.p_fall,
        "noise": seen.sigma,
    }


def _given_back(loss: Series, seen: Profile, found: GiveBack) -> dict[str, Value]:
    return {
        **_relapsed(loss, seen, found),
        "errors": found.errors,
        "wander": found.wander,
        "form": found.form,
    }


def _circumstance(
    loss: Series, found: GiveBack, held_out: tuple[Series, ...], beside: Attempt
) -> tuple[str, dict[str, Value]]:
    """The declared circumstance in which a rise is less than a failure, and its numbers."""
    if loss.split is not Split.TRAIN:
        return "held-out-only", {}
    after = int(loss.steps[found.best_at])
    unseen = (one for one in held_out if one.split is not Split.TRAIN and one.steps[0] <= after)
    kept = next(filter(None, (at_its_best(one, after) for one in unseen)), None)
    if kept is not None:
        return "held-out-at-best", _kept(kept)
    siblings = [one for one in beside.select(Role.LOSS, Split.TRAIN) if one is not loss]
    if loss.identity.component is not None:
        other = first_improved(siblings)
        return ("", {}) if other is None else ("component", {"other": other.tag})
    parts = (_since(one, after) for one in siblings if one.identity.component is not None)
    for kept in filter(None, (at_its_best(one, after) for one in parts if improved(one))):
        if kept.first - kept.end >= found.rise / TENFOLD:
            return "part-at-best", _kept(kept)
    return "", {}


def _held_out(beside: Attempt) -> Iterator[Series]:
    for role in (Role.LOSS, Role.METRIC):
        yield from beside.select(role, Split.EVAL)


def _lost(one: Series) -> bool:
    """Whether a series ends nearer to its first value than to its best."""
    if len(one) < LEAST_TRAINING or higher_is_better(one) is None or screen(one).nonfinite:
        return False
    costs = as_cost(one)
    return bool(costs[-1] - costs.min() > 0.5 * (costs[0] - costs.min()))


_Circumstance = tuple[str, dict[str, Value]]


def _staged(
    loss: Series, found: GiveBack, beside: Attempt, circumstance: _Circumstance
) -> _Circumstance:
    """The circumstance, with the setting at whose changes the loss rose."""
    variant, other = circumstance
    if variant not in ("", "held-out-at-best"):
        return circumstance
    setting = changed_setting(beside, loss, found, 0.5)
    if setting is None or (variant and any(map(_lost, _held_out(beside)))):
        return circumstance
    return "setting-held-out" if variant else "setting", {**other, "setting": setting.tag}


def _since(one: Series, step: int) -> Series:
    return Series(one.artifact, one.identity, one.column.take(one.steps >= step))


def _kept(kept: Kept) -> dict[str, Value]:
    return {
        "other": kept.series,
        "other_first": kept.first,
        "other_best": kept.best,
        "other_end": kept.end,
    }


@rule(
    id="TP-DEAD-RUN",
    title="The loss did not fall",
    level=Level.FAIL,
    message="{series} does not end measurably below where it began: {first:.4g} over the first part"
    " of the log, {last:.4g} over the last.",
    evidence="Over {points} points its level changed by {change:+.3g}; a fall of {visible:.3g}"
    " would have shown ({margin:.2g} of the level). Mann-Kendall p of a fall: {p_fall:.2g};"
    " Theil-Sen slope {slope:.3g} per 1,000 steps.",
    needs={
        "loss": Each((Role.LOSS,), points=5, which=Which.OBJECTIVE, from_start=True),
        "held_out": HELD_OUT,
        "siblings": SIBLINGS,
        "metrics": METRICS,
        "lr": Optional(Companion(Role.LR, points=5)),
    },
    measures={
        "points": "values judged",
        "first": "level at the start, a median",
        "last": "level at the end, a median",
        "change": "last minus first",
        "visible": "least fall that the noise could not hide: three standard errors",
        "margin": "visible over the level at the start",
        "p_fall": "one-sided Mann-Kendall p of a fall: over 20 block medians, or over the points"
        " where these are fewer than 100",
        "noise": "noise of one point",
        "slope": "median slope between block medians, per 1,000 steps",
        "quarter": "median of the first quarter",
        "last_quarter": "median of the last quarter",
        "excluded": "the greatest fall between them that two standard errors leave possible, over"
        " the level",
        "other": "another series of the same execution that improved",
        "half": "level at the beginning of the second half of the log, a median",
    },
    variants={
        "falling-since": Variant(
            Level.WARN,
            "{series} does not end below where it began ({first:.4g}, {last:.4g}), but falls over"
            " the second half of the log.",
            "Over {points} points its level changed by {change:+.3g}; from the middle of the log"
            " on, where it is {half:.4g}, it falls beyond doubt.",
        ),
        "no-progress": Variant(
            Level.WARN,
            "Over {points} rows, each with an evaluation, {series} did not fall beyond its scatter"
            " ({first:.4g}, {last:.4g}), and no other loss or metric improved.",
            "Its level changed by {change:+.3g}, where a fall of {visible:.3g} would have shown"
            " ({margin:.2g} of the level: too much for a FAIL). Mann-Kendall p of a fall:"
            " {p_fall:.2g}.",
        ),
        "contradicted": Variant(
            Level.WARN,
            "{series} does not end measurably below where it began ({first:.4g}, {last:.4g}), while"
            " {other} improved.",
            "Over {points} points its level changed by {change:+.3g}; a fall of {visible:.3g}"
            " would have shown. {other} of the same execution improved beyond doubt.",
        ),
        "quarters": Variant(
            Level.WARN,
            "{series} does not end measurably below where it began: {quarter:.4g} over the first"
            " quarter of the log, {last_quarter:.4g} over the last.",
            "Medians of quarters of {points} values: a fall of more than {excluded:.1%} of the"
            " level is excluded by two standard errors (limit {most:.0%}). Mann-Kendall p of a"
            " fall: {p_fall:.2g}; no other series shows progress.",
        ),
        "held-out-only": Variant(
            Level.WARN,
            "{series}, the only loss logged, is held out and does not end measurably below where it"
            " began: {first:.4g}, {last:.4g}.",
            "Over {points} points its level changed by {change:+.3g}; a fall of {visible:.3g}"
            " would have shown. Mann-Kendall p of a fall: {p_fall:.2g}.",
        ),
    },
    doc=Doc(
        measures="The level of the loss at its two ends, the trend between them (Mann-Kendall)"
        " and the least fall that its noise could not hide.",
        means="Measured well enough to see a fall of 5 %, the loss did not fall.",
        does_not_mean="That the learning rate is wrong or that gradients are missing; nor that"
        " nothing was learned where another series improved.",
        guards=(
            "Noise that could hide a fall of 5 % makes it not-checked, never clean; where fifty"
            " rows with an evaluation each (epochs) show no progress anywhere, a warning.",
            "So is a last quarter that, by two standard errors, is less than 8 % below the first"
            " one, where the first rows do not lie above the others, there is no trend, and no"
            " other series shows any sign of progress. A loss that scatters by more than 30 % of"
            " its level (a diffusion's) must end higher than it began.",
            "A log that does not show the start of the run is not judged, nor is a test of learning"
            " rates: one that grows a hundredfold by one factor, or up to 1 and more.",
            "Another loss or metric of the same execution that improved makes it a warning; so does"
            " a loss that begins low, rises and falls beyond doubt over the second half.",
            "Preference tuning, reinforcement and adversarial training are out of scope: their"
            " losses need not fall.",
            "Clean only when a fall is established (p < 0.001, beyond three standard errors and"
            " 1 %): from seven points on, when every one of them falls; six for a fall by a third."
            " So is a fall by a third that came at once (six standard errors, fifty points), and"
            " one of a held-out loss beside a training loss that does not decide it.",
        ),
        references=(
            "benchmarks/population.py: 0 of 2,565 published healthy series",
            "Mann 1945; Kendall 1975; Sen 1968",
            "accelerate #2665, #3256: weights that were never updated",
        ),
    ),
    grounds=True,
    not_for=(*NOT_SUPERVISED, Regime.PREFERENCE),
    fires=Example(
        "level and noise stay",
        view(series("loss", [2.0 + 0.02 * float(np.sin(i * 2.4)) for i in range(200)])),
    ),
    silent=Example("a falling loss", view(series("loss", falling(60)))),
)
def dead_run(
    loss: Series,
    held_out: tuple[Series, ...],
    siblings: tuple[Series, ...],
    metrics: tuple[Series, ...],
    lr: Series | None,
    *,
    hidden: Annotated[
        float, Bound("share", "of the level: noise that hides such a fall is too much", ge=0)
    ] = 0.05,
    no_trend: Annotated[float, Bound("p", "above it there is no trend", ge=0, le=1)] = 0.05,
    unmoved: Annotated[
        float, Bound("share", "of the level: a certain change below it is none", ge=0)
    ] = 0.002,
    epochs: Annotated[
        int, Bound("rows", "with an evaluation each, without any progress: WARN", ge=20)
    ] = 50,
    most: Annotated[
        float, Bound("share", "of the level: a fall from quarter to quarter below it: WARN", ge=0)
    ] = 0.08,
) -> Outcome:
    seen = profile(loss)
    fall, visible = seen.first - seen.last, 3 * seen.error
    level = abs(seen.first)
    measured: dict[str, Value] = {
        **_ends(seen),
        "change": -fall,
        "visible": visible,
        "margin": visible / level if level > 0 else float("inf"),
    }
    if fell(seen):
        return Clean(measured)
    if tries_rates(lr):
        return Undecided(measured, Skip.REGIME)
    well = len(loss) >= FEW and visible <= hidden * level
    trendless = seen.p_fall > no_trend and _least_fall(loss, seen) < visible
    if well and (trendless or abs(fall) + visible <= unmoved * level):
        measured["slope"] = _slope(loss, seen)
        variant, other = _alive(loss, held_out, siblings, metrics)
        if other is not None:
            measured["other"] = other.tag
        elif not variant and fall < 0 and (half := _falls_since(loss)) is not None:
            variant, measured["half"] = "falling-since", half
        return Fired((Evidence(where(loss), measured, variant),))
    if not well and _epochs_in_vain(loss, seen, held_out, metrics, epochs):
        return Fired((Evidence(where(loss), measured, "no-progress"),))
    halves = None if _diverged(loss, seen, lr) else ends_of(loss.values, seen)
    if halves is not None and _idle(halves, seen, most, no_trend, unmoved):
        others = tuple(chain(held_out, metrics, siblings))
        if not any(_progresses(one) for one in others if one is not loss):
            return Fired((Evidence(where(loss), measured | _quarters(halves), "quarters"),))
    generalised = first_improved(one for one in held_out if one is not loss)
    return _undecided(measured, generalised, Skip.UNDECIDED if well else Skip.LOW_POWER)


def _diverged(loss: Series, seen: Profile, lr: Series | None) -> bool:
    """Whether TP-DIVERGE says that the loss rose beyond doubt: that it did not fall is less."""
    found = _risen(loss, seen, CERTAIN)
    if found is None or found.share < 0.5 or not _clear(loss, seen, found, CERTAIN):
        return False
    return not restarts_late(lr, RESTART_WINDOW)


def _idle(ends: Ends, seen: Profile, most: float, no_trend: float, unmoved: float) -> bool:
    """Whether the last quarter excludes a fall that counts, and none came with the first rows."""
    trendless = seen.p_fall > no_trend or ends.most <= unmoved
    judged = seen.sigma <= SCATTERED * abs(ends.first) or ends.higher
    return trendless and judged and ends.most <= most and not ends.began_higher(seen.sigma, NOTHING)


def _progresses(other: Series) -> bool:
    """Whether another series improved beyond doubt, or a held-out loss shows any sign of it."""
    if improved(other):
        return True
    held_out = other.role is Role.LOSS and other.split is not Split.TRAIN and len(other) >= 5
    return held_out and not screen(other).nonfinite and profile(other).p_fall < 0.05


def _quarters(ends: Ends) -> dict[str, Value]:
    return {"quarter": ends.first, "last_quarter": ends.last, "excluded": ends.most}


def _undecided(
    measured: dict[str, Value], other: Series | None, skip: Skip = Skip.UNDECIDED
) -> Outcome:
    """A loss that does not decide it, beside a held-out one that improved beyond doubt, if any."""
    return Undecided(measured, skip) if other is None else Clean({**measured, "other": other.tag})


def _epochs_in_vain(
    loss: Series,
    seen: Profile,
    held_out: tuple[Series, ...],
    metrics: tuple[Series, ...],
    epochs: int,
) -> bool:
    """Whether every row was evaluated (so that a row is an epoch and its scatter is no batch's)
    and nothing improved over many of them."""
    evaluated = any(np.array_equal(one.steps, loss.steps) for one in held_out if one is not loss)
    return (
        len(loss) >= epochs
        and evaluated
        and seen.p_fall > 0.05
        and first_improved(chain(held_out, metrics)) is None
    )


def _least_fall(loss: Series, seen: Profile) -> float:
    """The fall to the end, at its greatest: the last points may be lower than their block."""
    return seen.first - min(seen.last, median(loss.values[-3:]))


def _slope(loss: Series, seen: Profile) -> float:
    steps = float(loss.steps[-1] - loss.steps[0]) / seen.blocks
    return theil_sen(seen.medians) / steps * 1000 if steps > 0 else 0.0


def _alive(
    loss: Series,
    held_out: tuple[Series, ...],
    siblings: tuple[Series, ...],
    metrics: tuple[Series, ...],
) -> tuple[str, Series | None]:
    """Another series of the execution that shows that something was learned all the same."""
    part = loss.identity.component is not None
    parts = (one for one in siblings if part or one.identity.component is not None)
    candidates = (one for one in chain(held_out, metrics, parts) if one is not loss)
    other = first_improved(candidates)
    if other is not None:
        return "contradicted", other
    return ("", None) if loss.split is Split.TRAIN else ("held-out-only", None)


# --- spikes -------------------------------------------------------------------------------------


@rule(
    id="TP-LOSS-SPIKE",
    title="The loss spikes",
    level=Level.WARN,
    message="{series} spiked {runs} time(s) for {in_a_row} rows in a row or more, first at step"
    " {first_step}.",
    evidence="{spikes} of {judged} rows lie more than {sigmas:g} robust standard deviations above"
    " the hundred rows before; the longest spike lasts {longest} rows and reaches {top:.4g} from a"
    " level of {level:.4g}.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, points=150, which=Which.PRINCIPAL),
        "lr": Optional(Companion(Role.LR, points=5)),
        "beside": Together(),
    },
    measures={
        "points": "values logged",
        "judged": "rows with a hundred rows before them, the first 5 % left out",
        "spikes": "rows above the limit",
        "runs": "stretches of such rows that are long enough to count",
        "longest": "length of the longest stretch",
        "top": "greatest value in the longest stretch",
        "level": "median of the rows before the longest stretch",
        "rate": "spikes over judged rows",
    },
    variants={
        "rate": Variant(
            Level.WARN,
            "{series} spikes often: {rate:.1%} of its rows, first at step {first_step}.",
            "{spikes} of {judged} rows lie more than {sigmas:g} robust standard deviations above"
            " the hundred rows before (limit {share:.0%}); the longest spike lasts {longest}"
            " row(s).",
        )
    },
    doc=Doc(
        measures="Rows more than seven robust standard deviations above the median of the hundred"
        " rows before, and how many of them follow one another.",
        means="For a moment training went wrong on more than one batch, or it does so often.",
        does_not_mean="That the run is damaged: most spikes recover, and the divergence rule"
        " judges the end. Nor which batch or setting was the reason.",
        guards=(
            "Single rows do not count: they occur in every one of 80 published healthy logs.",
            "The first 5 % of the rows, and rows after the learning rate has doubled, are left"
            " out; so are the hundred rows after a logged setting was changed (the length of the"
            " sequences, the difficulty) and the loss rose at once.",
            "A rate is judged from 500 rows on.",
            "Where a quarter of the hundred rows is 0, as of a margin that is often met, they have"
            " no spread to compare with.",
        ),
        references=(
            "0 of 92 public logs of healthy runs; their rates reach 0.48 %",
            "OLMo 2 2024: spike score, seven standard deviations",
            "PaLM 2022, section 5.1: about twenty spikes in a run",
        ),
    ),
    not_for=NOT_SUPERVISED,
    fires=Example(
        "five rows at three times the level",
        view(series("loss", [*falling(200, 1.2, 1.0), *([3.0] * 5), *falling(95, 1.0, 0.9)])),
    ),
    silent=Example("a falling loss", view(series("loss", falling(300)))),
)
def loss_spike(
    loss: Series,
    lr: Series | None,
    beside: Attempt,
    *,
    sigmas: Annotated[float, Bound("robust sd", "above the level before", ge=1)] = 7.0,
    in_a_row: Annotated[int, Bound("rows", "consecutive rows that count", ge=2)] = 2,
    share: Annotated[float, Bound("share", "of rows that counts", ge=0, le=1)] = 0.01,
) -> Outcome:
    found = spikes(loss.values, sigmas)
    mask = found.mask.copy()
    start = max(found.first, len(loss) // 20)
    mask[:start] = False
    if mask.any():
        mask &= ~_after_zeros(loss.values, found.first)
        if lr is not None:
            mask &= ~_raised(loss, lr)
        for row in stages(beside, loss).tolist():
            mask[row : row + found.first] = False
    judged = len(loss) - start
    count = int(np.count_nonzero(mask))
    runs = stretches(mask)
    rate = count / judged
    measured: dict[str, Value] = {
        "points": len(loss),
        "judged": judged,
        "spikes": count,
        "runs": int(np.count_nonzero(runs.lengths >= in_a_row)),
        "longest": runs.longest,
        "rate": rate,
    }
    often = rate > share and len(loss) >= 500
    if runs.longest < in_a_row and not often:
        return Clean(measured)
    at, length = _first_longest(runs)
    measured["top"] = float(loss.values[at : at + length].max())
    measured["level"] = found.level(at)
    variant = "" if runs.longest >= in_a_row else "rate"
    first = int(runs.starts[0] if variant else at)
    return Fired((Evidence(where(loss, first, at + length - 1), measured, variant),))


def _after_zeros(values: Floats, before: int) -> Mask:
    """Rows of which a quarter of those ``before`` them are exactly 0."""
    zeros = np.concatenate(([0], np.cumsum(values == 0)))
    after = np.zeros(len(values), np.bool_)
    after[before:] = zeros[before:-1] - zeros[: -before - 1] >= before / 4
    return after


def _first_longest(runs: Stretches) -> tuple[int, int]:
    at = int(np.argmax(runs.lengths))
    return int(runs.starts[at]), int(runs.lengths[at])


def _raised(loss: Series, lr: Series) -> Mask:
    """Rows at which the learning rate is at least twice its lowest over the hundred rows
    before: the loss answers to that."""
    raised = np.zeros(len(loss), np.bool_)
    both = shared_steps(loss, lr)
    rates = lr.values[both.there]
    before = [rates[np.maximum(np.arange(len(rates)) - k, 0)] for k in (25, 50, 75, 100)]
    if before and len(rates) and not screen(lr).nonfinite:
        lowest = np.minimum.reduce(before)
        raised[both.here] = (rates >= 2 * lowest) & (lowest < rates)
    return raised


# --- a level that shifts ------------------------------------------------------------------------


@rule(
    id="TP-LEVEL-SHIFT",
    title="The loss rises at once to another level",
    level=Level.WARN,
    message="{series} rises from {before:.4g} to {after:.4g} around step {at_step} and stays there"
    " for {stays} of {blocks} parts of the log.",
    evidence="The three parts after lie above the three before, by {errors:.3g} standard errors"
    " (limit {least_errors:g}); neither the learning rate nor a resume explains it.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, points=100, which=Which.PRINCIPAL),
        "lr": Optional(Companion(Role.LR, points=5)),
        "beside": Together(),
        "run": Whole(),
    },
    measures={
        "points": "values judged",
        "blocks": "equal parts of the log",
        "before": "median level of the three parts before",
        "after": "median level of the three parts after",
        "at_step": "first step of the first part after the rise",
        "stays": "parts from there on, one after the other, above all three before",
        "errors": "the rise in standard errors of a level",
        "shifts": "places at which three parts lie above the three before by so much",
    },
    doc=Doc(
        measures="Twenty medians of equal parts: three that lie above the three before them by more"
        " than six standard errors and a twentieth of the level, without a slope on either side.",
        means="From one part to the next the loss is measured, or made, differently: another"
        " objective, other data, other weights.",
        does_not_mean="That anything was lost: a longer sequence or a harder stage of a curriculum"
        " has a higher loss.",
        guards=(
            "Three parts after it and three before: a spike or a slow rise is none.",
            "A learning rate that doubled around it, a logged setting that was changed, and a"
            " resume there, explain it: not judged.",
            "A loss that ends up there is judged by TP-DIVERGE; this rule says where it began.",
        ),
        references=("parameter-golf, ByteJEPA: a switch of objectives; OneVision-Encoder PR #65",),
    ),
    not_for=NOT_SUPERVISED,
    fires=Example(
        "from 1 to 2 in the middle",
        view(series("loss", [*falling(200, 2.0, 1.0), *falling(200, 2.0, 1.6)])),
    ),
    silent=Example("a falling loss", view(series("loss", falling(400)))),
)
def level_shift(
    loss: Series,
    lr: Series | None,
    beside: Attempt,
    run: RunView,
    *,
    least_errors: Annotated[float, Bound("standard errors", "a rise must exceed", ge=1)] = 6.0,
    share: Annotated[float, Bound("share", "of the level before: a smaller rise is none", ge=0)] = (
        0.05
    ),
) -> Outcome:
    seen = profile(loss)
    levels = seen.medians
    limit = least_errors * max(seen.error, seen.drift)
    listed = levels.tolist()
    places = [
        at
        for at in range(3, len(levels) - 2)
        if listed[at] - listed[at - 1] > limit and _shifts(listed, at, limit, share)
    ]
    measured: dict[str, Value] = {
        "points": len(loss),
        "blocks": len(levels),
        "shifts": len(places),
    }
    if not places:
        return Clean(measured)
    at = max(places, key=lambda place: float(levels[place] - levels[place - 1]))
    before, after = median(levels[at - 3 : at]), median(levels[at : at + 3])
    above = levels[at:] > levels[at - 3 : at].max()
    measured |= {
        "before": before,
        "after": after,
        "at_step": int(loss.steps[seen.edges[at]]),
        "stays": int(np.argmin(above)) if not above.all() else len(above),
        "errors": (after - before) / seen.error if seen.error > 0 else float("inf"),
    }
    rows = seen.edges[at - 1], min(seen.edges[at + 1], len(loss) - 1)
    begin, end = (int(loss.steps[row]) for row in rows)
    staged = any(rows[0] <= row <= rows[1] for row in stages(beside, loss).tolist())
    if staged or _explained(begin, end, lr, run):
        return Undecided(measured)
    return Fired((Evidence(where(loss, seen.edges[at]), measured),))


def _shifts(levels: Sequence[float], at: int, limit: float, share: float) -> bool:
    before, after = levels[at - 3 : at], levels[at : at + 3]
    rise = min(after) - max(before)
    calm = max(max(before) - min(before), max(after) - min(after)) < 0.5 * rise
    return calm and rise > max(limit, share * abs(before[-1]))


def _explained(begin: int, end: int, lr: Series | None, run: RunView) -> bool:
    """Whether the learning rate doubled, or training was resumed, between two steps."""
    if any(begin <= rewind.judged_at <= end for rewind in run.rewinds):
        return True
    if lr is None or screen(lr).nonfinite:
        return False
    near = lr.values[(lr.steps >= begin) & (lr.steps <= end)]
    return len(near) > 1 and bool(near.max() >= 2 * near.min())
