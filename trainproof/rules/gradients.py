"""The size of the gradients."""

import math
from functools import lru_cache
from typing import Annotated

import numpy as np

from trainproof.model.data import Facts, Floats, Ints, Regime, Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import falling, series, view
from .interface import Bound, Companions, Declared, Each, Example, Which, rule, where
from .shape import first_improved, improved, principal
from .statistics import (
    FEW,
    MOST_BLOCKS,
    NORMAL_MAD,
    Mask,
    block_medians,
    deviation,
    equal_parts,
    greatest_of,
    least_change,
    least_of,
    measure,
    median,
    printed_quantum,
    profile,
    screen,
    shared_steps,
    stretches,
    tail_at,
    trend,
    widths,
)

LOSSES = Companions(Role.LOSS, Split.TRAIN)


@rule(
    id="TP-ZERO-GRAD",
    title="The gradients are exactly zero",
    level=Level.FAIL,
    message="{series} is exactly 0 from step {first_step} to the end, while the loss is not.",
    evidence="The last {tail} of {points} logged values are 0.0 (limit {in_a_row}); the level just"
    " before was {before:.4g}.",
    needs={
        "grad": Each((Role.GRAD_NORM,), points=5),
        "others": Companions(Role.GRAD_NORM),
        "losses": LOSSES,
    },
    measures={
        "points": "values logged",
        "zeros": "values that are exactly 0",
        "tail": "consecutive values at the end that are exactly 0",
        "before": "median of the last five values that are not 0",
        "loss_name": "the training loss",
        "loss_first": "its level at the start",
        "loss_last": "its level at the end",
        "other": "another gradient series that is not zero",
    },
    variants={
        "always": Variant(
            Level.FAIL,
            "{series} is exactly 0 on every row, and {loss_name} does not fall.",
            "{zeros} of {points} logged values are 0.0; {loss_name} went from {loss_first:.4g} to"
            " {loss_last:.4g}.",
        ),
        "unclear": Variant(
            Level.WARN,
            "{series} is exactly 0 on every row, and no loss shows whether it was recorded.",
            "{zeros} of {points} logged values are 0.0. Some trainers print 0 where clipping is"
            " off; a loss that clearly falls would show that.",
        ),
        "one-of-several": Variant(
            Level.INFO,
            "{series} is exactly 0 on every row, while {other} is not.",
            "{zeros} of {points} logged values are 0.0.",
        ),
    },
    doc=Doc(
        measures="Exact zeros of the logged gradient norm: on every row, or on the last ones.",
        means="No update can come from such gradients.",
        does_not_mean="That a graph is cut or a layer frozen: the norm does not show where.",
        guards=(
            "All zero while the loss falls: the norm was not recorded, and nothing is judged.",
            "All zero with a loss too noisy to tell is a warning.",
            "A norm that sinks to its printed unit, or zeros beside a zero loss: not judged here.",
            "Reinforcement learning is out of scope: a group of equal rewards has no gradient.",
        ),
        references=(
            "Coqui trainer: prints a gradient norm of 0.0 where clipping is off",
            "SageMaker Debugger: VanishingGradient",
        ),
    ),
    not_for=(Regime.REINFORCEMENT,),
    fires=Example(
        "zero from the middle on",
        view(
            series("grad_norm", [1.031, 1.207, 0.914] * 5 + [0.0] * 10),
            series("loss", [2.0] * 25),
        ),
    ),
    silent=Example("gradients of ordinary size", view(series("grad_norm", [1.0, 1.2, 0.9] * 5))),
)
def zero_gradient(
    grad: Series,
    others: tuple[Series, ...],
    losses: tuple[Series, ...],
    *,
    in_a_row: Annotated[int, Bound("points", "zeros at the end that count", ge=2)] = 5,
    units: Annotated[
        float, Bound("printed units", "a level before that rounding could hide", ge=0)
    ] = 10.0,
) -> Outcome:
    values = grad.values
    zeros = len(values) - int(np.count_nonzero(values))
    measured: dict[str, Value] = {"points": len(values), "zeros": zeros}
    if zeros == len(values):
        return _all_zero(grad, others, losses, measured)
    tail = tail_at(values, 0.0)
    measured["tail"] = tail
    if tail < in_a_row:
        return Clean(measured)
    measured["before"] = median(values[values != 0][-5:])
    quantum = printed_quantum(values) or 0.0
    if float(measured["before"]) <= units * quantum or not any(
        _loss_present(grad, tail, loss) for loss in losses
    ):
        return Undecided(measured)
    return Fired((Evidence(where(grad, len(grad) - tail), measured),))


def _all_zero(
    grad: Series,
    others: tuple[Series, ...],
    losses: tuple[Series, ...],
    measured: dict[str, Value],
) -> Outcome:
    other = next((one for one in others if bool(np.any(one.values != 0))), None)
    if other is not None:
        evidence = Evidence(where(grad), {**measured, "other": other.tag}, "one-of-several")
        return Fired((evidence,))
    loss = first_improved(losses) or principal(losses)
    if loss is None:
        return Fired((Evidence(where(grad), measured, "unclear"),))
    seen = profile(loss)
    measured |= {"loss_name": loss.tag, "loss_first": seen.first, "loss_last": seen.last}
    if improved(loss):
        return Undecided(measured, Skip.NEED_DEGENERATE)
    hides = 3 * seen.error > 0.05 * abs(seen.first) or len(loss) < FEW
    return Fired((Evidence(where(grad), measured, "unclear" if hides else "always"),))


def _loss_present(grad: Series, tail: int, loss: Series) -> bool:
    """Whether the loss is not zero on the rows where the gradient is."""
    both = shared_steps(grad, loss)
    beside = loss.values[both.there[both.here >= len(grad) - tail]]
    return int(np.count_nonzero(beside)) * 2 > len(beside)


@rule(
    id="TP-GRAD-SPIKE",
    title="The gradients spike",
    level=Level.WARN,
    message="{series} reached {top:.4g} at step {top_step}, {factor:.0f} times the level around"
    " it, and not on a single row only.",
    evidence="{spikes} of {judged} rows are more than {limit:g} times the level around them,"
    " {longest} in a row (limits: {in_a_row} in a row or {share:.0%} of the rows).",
    needs={"grad": Each((Role.GRAD_NORM,), points=20, nonfinite=0.2)},
    measures={
        "points": "values logged",
        "judged": "rows after the first tenth",
        "spikes": "rows above the limit",
        "longest": "longest run of such rows",
        "top": "the greatest value among them",
        "top_step": "its step",
        "factor": "the greatest value over the level around it",
        "scatter": "robust standard deviation of the logarithms of values over level",
    },
    doc=Doc(
        measures="Rows whose gradient norm is more than ten times the median level of the blocks"
        " around them, and more than its usual scatter explains.",
        means="Several batches in a row, or many, pushed the weights much harder than usual.",
        does_not_mean="That the run is damaged: clipping may have caught it. A level that stays"
        " up is a change of level and no spike.",
        guards=(
            "The first tenth of the rows is left out: early bursts are common and benign.",
            "A single row does not count.",
            "Gradients of small batches scatter over several powers of ten: a spike must stand out"
            " by five robust standard deviations of the logarithms.",
            "Rows that are not finite are left to the rule about those.",
            "In reinforcement learning a policy that decided itself has next to no gradient but for"
            " its rare other actions: out of scope.",
        ),
        references=(
            "ZClip 2025, SPAM 2025: gradient spikes in language-model training",
            "trainproof 0.22: a ratio to the median of the whole run fires on benign early bursts",
        ),
    ),
    not_for=(Regime.REINFORCEMENT,),
    fires=Example(
        "three rows at fifty times the level",
        view(series("grad_norm", [1.0, 1.2, 0.9] * 10 + [50.0] * 3 + [1.0, 1.2, 0.9] * 10)),
    ),
    silent=Example("gradients of ordinary size", view(series("grad_norm", [1.0, 1.2, 0.9] * 20))),
)
def gradient_spike(
    grad: Series,
    *,
    limit: Annotated[float, Bound("ratio", "to the level around", ge=1)] = 10.0,
    in_a_row: Annotated[int, Bound("rows", "consecutive rows that count", ge=2)] = 2,
    share: Annotated[float, Bound("share", "of rows that counts, two at least", ge=0, le=1)] = 0.01,
    sigmas: Annotated[
        float, Bound("robust sd", "of the logarithms, by which a spike must stand out", ge=0)
    ] = 5.0,
) -> Outcome:
    points, values = len(grad), _finite(grad)
    if len(values) < 20:
        return Undecided({"points": points}, Skip.NEED_TOO_SHORT)
    around = _around(values)
    ratios = _ratios(values, around)
    scatter = NORMAL_MAD * deviation(np.log(ratios)) if len(ratios) else 0.0
    limit = max(limit, math.exp(min(700.0, sigmas * scatter)))
    # Mostly no ratio comes so near the limit that the last bits of both would matter.
    near = len(ratios) and greatest_of(ratios) > 0.99 * limit
    mask = _above(values, limit, around) if near else np.zeros(len(values), np.bool_)
    count = int(np.count_nonzero(mask))
    longest = stretches(mask).longest if count else 0
    judged = len(values) - len(values) // 10
    measured: dict[str, Value] = {
        "points": points,
        "judged": judged,
        "spikes": count,
        "longest": longest,
        "scatter": scatter,
    }
    if longest < in_a_row and count < max(2.0, share * judged):
        return Clean(measured) if len(values) == points else Undecided(measured, Skip.NOT_FINITE)
    rows = np.flatnonzero(mask)
    at = int(rows[np.argmax(values[rows])])
    places = np.flatnonzero(np.isfinite(grad.values))
    measured |= {
        "top": float(values[at]),
        "top_step": int(grad.steps[places[at]]),
        "factor": float(values[at] / around[at]),
    }
    return Fired((Evidence(where(grad, int(places[rows[0]]), int(places[rows[-1]])), measured),))


def _finite(grad: Series) -> Floats:
    values = grad.values
    return values[np.isfinite(values)] if screen(grad).nonfinite else values


def _ratios(values: Floats, around: Floats) -> Floats:
    """Values over level, where both are positive."""
    if least_of(values) > 0 and least_of(around) > 0:
        return values / around
    positive = (values > 0) & (around > 0)
    return values[positive] / around[positive]


def _above(values: Floats, limit: float, around: Floats) -> Mask:
    mask = (values > limit * around) & (around > 0)
    mask[: len(values) // 10] = False
    return mask


def _around(values: Floats) -> Floats:
    """For each row the median of up to five neighbouring blocks' medians, its own included."""
    blocks = min(MOST_BLOCKS, len(values) // 4)
    edges = equal_parts(len(values), blocks)
    near = block_medians(values, edges)[_neighbours(blocks)]
    near.sort(axis=1)
    return near[:, 2].repeat(widths(edges))


@lru_cache(maxsize=MOST_BLOCKS)
def _neighbours(blocks: int) -> Ints:
    """For each block itself and two on either side; the first and the last stand for those that
    would lie outside."""
    near: Ints = np.arange(blocks)[:, None] + np.arange(-2, 3)
    return near.clip(0, blocks - 1)


@rule(
    id="TP-GRAD-GROWTH",
    title="The gradients grow while nothing is learned",
    level=Level.WARN,
    message="{series} grew {times:.3g}-fold, from {first:.4g} to {last:.4g}, and no training loss"
    " improved.",
    evidence="Levels of the first and the last part of {judged} rows, the first tenth left out;"
    " Mann-Kendall p of a rise: {p:.2g} (a growth of {least:g} times counts).",
    needs={
        "grad": Each((Role.GRAD_NORM,), points=45, which=Which.PRINCIPAL),
        "losses": LOSSES,
    },
    measures={
        "points": "values logged",
        "judged": "values after the first tenth",
        "range": "the greatest of them over the least: no growth is greater",
        "first": "level of the first part of them, a median",
        "last": "level of the last part, a median",
        "times": "last over first",
        "p": "one-sided Mann-Kendall p of a rise of their logarithms, over block medians",
        "loss_name": "a training loss: one that improved, or one that ends no lower",
        "loss_first": "its level at the start, a median",
        "loss_last": "its level at the end, a median",
    },
    variants={
        "steady": Variant(
            Level.WARN,
            "{series} grew steadily, {times:.3g}-fold, from {first:.4g} to {last:.4g}, while"
            " {loss_name} ends no lower than it began ({loss_first:.4g}, {loss_last:.4g}).",
            "Levels of the first and the last part of {judged} rows, the first tenth left out;"
            " Mann-Kendall p of a rise: {p:.2g} (below {certain:g} a growth of {slow:g} times"
            " counts); no training loss improved.",
        )
    },
    doc=Doc(
        measures="The trend of the logarithm of the gradient norm, the first tenth left out, and"
        " whether any training loss improved.",
        means="Gradients that grow without a loss that falls come before many a divergence.",
        does_not_mean="That the run will diverge, nor which layers the growth is in.",
        guards=(
            "Norms often grow while the loss falls (the loss gets sharper): clean.",
            "The first tenth, where warm-up raises them, is left out.",
            "A growth by ten and an established trend (p < 0.01), over 40 rows at least. A steady"
            " one (p below a millionth) counts from 2.5 times on where the loss ends no lower than"
            " it began: gradients that are never zeroed add up.",
            "Reinforcement and adversarial training are out of scope.",
        ),
        references=(
            "PaLM 2022, Llama 3 2024, OPT 2022: training notes",
            "TheDeepChecker: growing gradients",
        ),
    ),
    not_for=(Regime.REINFORCEMENT, Regime.ADVERSARIAL),
    fires=Example(
        "a hundredfold growth",
        view(series("grad_norm", falling(200, 1, 100)), series("loss", [2.0, 2.1] * 100)),
    ),
    silent=Example(
        "a steady norm",
        view(series("grad_norm", falling(200, 2, 1)), series("loss", falling(200))),
    ),
)
def gradient_growth(
    grad: Series,
    losses: tuple[Series, ...],
    *,
    least: Annotated[float, Bound("ratio", "of the levels, that counts", ge=1)] = 10.0,
    likely: Annotated[float, Bound("p", "below which a trend is established", ge=0, le=1)] = 0.01,
    slow: Annotated[float, Bound("ratio", "of the levels, of a steady growth", ge=1)] = 2.5,
    certain: Annotated[float, Bound("p", "below which a growth is steady", ge=0, le=1)] = 1e-6,
) -> Outcome:
    points = len(grad)
    values = grad.values[points // 10 :]
    measured: dict[str, Value] = {"points": points, "judged": len(values)}
    lowest, highest = least_of(values), greatest_of(values)
    if not lowest > 0:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    measured["range"] = highest / lowest
    if highest < min(least, slow) * lowest:
        return Clean(measured)
    logs = np.log(values)
    seen = trend(logs)
    growth = seen.last - seen.first
    measured |= {
        "first": float(np.exp(seen.first)),
        "last": float(np.exp(seen.last)),
        "times": float(np.exp(growth)),
        "p": seen.p_rise,
    }
    fast = seen.p_rise <= likely and growth >= np.log(least)
    steady = seen.p_rise < certain and growth >= np.log(slow)
    if not (fast or steady) or growth <= 3 * measure(logs).error:
        return Clean(measured)
    loss = first_improved(losses)
    if loss is not None:
        return Clean({**measured, "loss_name": loss.tag})
    if not losses:
        return Undecided(measured, Skip.NEED_ABSENT)
    if fast:
        return Fired((Evidence(where(grad), measured),))
    ended = next(filter(_ends_no_lower, losses), None)
    if ended is None:
        return Undecided(measured)
    level = profile(ended)
    measured |= {"loss_name": ended.tag, "loss_first": level.first, "loss_last": level.last}
    return Fired((Evidence(where(grad), measured, "steady"),))


def _ends_no_lower(loss: Series) -> bool:
    if len(loss) < FEW or screen(loss).nonfinite:
        return False
    return profile(loss).last >= profile(loss).first


@rule(
    id="TP-GRAD-CONSTANT",
    title="The gradient norm does not change",
    level=Level.INFO,
    message="{series} is {value!s} on each of the last {frozen} rows, from step {first_step} on.",
    evidence="{frozen} of {points} values are equal to the last digit (from {rows} on it counts);"
    " the declared clipping norm is {clip}.",
    needs={
        "grad": Each((Role.GRAD_NORM,), points=20),
        "losses": LOSSES,
        "facts": Declared(),
    },
    measures={
        "points": "values logged",
        "frozen": "values at the end that are equal to the last one",
        "value": "that value",
        "clip": "the declared clipping norm, or 'not declared'",
        "loss_name": "a training loss that improved",
    },
    variants={
        "idle": Variant(
            Level.WARN,
            "{series} is {value!s} on each of the last {frozen} rows, from step {first_step} on,"
            " and no training loss improved.",
            "{frozen} of {points} values are equal to the last digit (from {rows} on it counts);"
            " the declared clipping norm is {clip}.",
        )
    },
    doc=Doc(
        measures="How many of the last gradient norms are equal to the last digit, and not 0.",
        means="The norm is logged after clipping, and every step is clipped; or the gradients do"
        " not depend on the batch.",
        does_not_mean="That training is broken: where the loss falls, the log just does not show"
        " the norm before clipping.",
        guards=(
            "Twenty equal values at least; zeros are judged by TP-ZERO-GRAD.",
            "Values printed so coarsely that a change of a thousandth is not seen: not judged.",
            "A training loss that improved makes it a note.",
        ),
        references=("LLaMA-Factory #8004: a loss of 0 beside a gradient norm of exactly 1.0",),
    ),
    not_for=(Regime.REINFORCEMENT, Regime.ADVERSARIAL),
    fires=Example(
        "1.2345 throughout, while the loss falls",
        view(series("grad_norm", [1.23456] * 40), series("loss", falling(40))),
    ),
    silent=Example("it scatters", view(series("grad_norm", [1.0, 1.2, 0.9] * 20))),
)
def gradient_constant(
    grad: Series,
    losses: tuple[Series, ...],
    facts: Facts,
    *,
    rows: Annotated[int, Bound("rows", "equal values that count", ge=5)] = 20,
    visible: Annotated[
        float, Bound("share", "printed unit over value: above it nothing is judged", ge=0)
    ] = 1e-3,
) -> Outcome:
    value = grad.values.item(-1)
    frozen = tail_at(grad.values, value)
    clip = "not declared" if facts.max_grad_norm is None else facts.max_grad_norm
    measured: dict[str, Value] = {
        "points": len(grad),
        "frozen": frozen,
        "value": value,
        "clip": clip,
    }
    if frozen < rows:
        return Clean(measured)
    quantum = least_change(grad.values, value)
    if value == 0 or (quantum > visible * abs(value) and value != facts.max_grad_norm):
        return Undecided(measured, Skip.LOW_POWER)
    place = where(grad, len(grad) - frozen)
    loss = first_improved(losses)
    if loss is not None:
        return Fired((Evidence(place, {**measured, "loss_name": loss.tag}),))
    return Fired((Evidence(place, measured, "idle" if losses else ""),))
