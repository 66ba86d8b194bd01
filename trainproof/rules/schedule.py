"""The learning rate."""

from typing import Annotated

import numpy as np

from trainproof.model.data import Attempt, Axis, Facts, Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import series, view
from .interface import Bound, Companions, Declared, Each, Example, Together, rule, where
from .shape import first_improved
from .statistics import Stretches, least_of, printed_quantum, profile, stretches

RATES = Each((Role.LR,), points=5)
LOSSES = Companions(Role.LOSS, Split.TRAIN)


@rule(
    id="TP-ZERO-LR",
    title="The learning rate is zero",
    level=Level.FAIL,
    message="{series} is exactly 0 on every row, from step {first_step} to {last_step}.",
    evidence="{zeros} of {points} logged learning rates are 0.0{declared}.",
    needs={
        "lr": RATES,
        "others": Companions(Role.LR),
        "losses": LOSSES,
        "facts": Declared(),
        "beside": Together(),
    },
    measures={
        "points": "values logged",
        "zeros": "values that are exactly 0",
        "unit": "unit of the last decimal that any number of the file has",
        "declared": "what the run declares as its learning rate, where it does",
        "loss_name": "the training loss",
        "loss_first": "its level at the start",
        "loss_last": "its level at the end",
        "other": "another learning-rate series that is not zero",
    },
    variants={
        "one-group": Variant(
            Level.WARN,
            "{series} is exactly 0 on every row, while {other} is not.",
            "{zeros} of {points} logged learning rates of this group are 0.0.",
        ),
        "printed": Variant(
            Level.WARN,
            "{series} is printed as 0 on every row, from step {first_step} to {last_step}.",
            "{zeros} of {points} logged learning rates are 0{declared}. No number of the file has a"
            " decimal beyond {unit:g}: a smaller rate would look the same.",
        ),
    },
    doc=Doc(
        measures="Whether every logged learning rate is exactly 0.",
        means="With such a rate no weight changes.",
        does_not_mean="That the optimizer saw it: a scheduler may report another rate than the"
        " one applied.",
        guards=(
            "Fewer than five rows are not judged: a last row is 0 at the end of most schedules.",
            "A loss that clearly falls shows that the rate was not recorded, or printed with too"
            " few digits: nothing is judged.",
            "A warning where no number of the file has more decimals than a few: in a text log that"
            " prints 0.0000, or where at least two other columns are rounded as well.",
            "One parameter group at 0 beside others that are not is a warning: it may be frozen.",
        ),
        references=("trainproof gallery: lr_zero", "Ultralytics results.csv: lr/pg0 to lr/pg2"),
    ),
    fires=Example("zero on every row", view(series("learning_rate", [0.0] * 20))),
    silent=Example("a constant rate", view(series("learning_rate", [1e-3] * 20))),
)
def zero_rate(
    lr: Series,
    others: tuple[Series, ...],
    losses: tuple[Series, ...],
    facts: Facts,
    beside: Attempt,
) -> Outcome:
    points = len(lr)
    zeros = points - int(np.count_nonzero(lr.values))
    measured: dict[str, Value] = {"points": points, "zeros": zeros}
    if zeros < points:
        return Clean(measured)
    other = next((one for one in others if bool(np.any(one.values != 0))), None)
    if other is not None:
        return Fired((Evidence(where(lr), {**measured, "other": other.tag}, "one-group"),))
    loss = first_improved(losses)
    if loss is not None:
        seen = profile(loss)
        measured |= {"loss_name": loss.tag, "loss_first": seen.first, "loss_last": seen.last}
        return Undecided(measured, Skip.NEED_DEGENERATE)
    rate = facts.learning_rate
    measured["declared"] = "" if rate is None else f"; the run declares {rate:g}"
    unit = _last_decimal(lr, beside)
    if unit is None:
        return Fired((Evidence(where(lr), measured),))
    return Fired((Evidence(where(lr), {**measured, "unit": unit}, "printed"),))


_TEXTS = (".log", ".txt", ".out", ".err")


def _last_decimal(lr: Series, beside: Attempt) -> float | None:
    """The unit of the last decimal in a file that rounds whatever it prints; None where a number
    has full precision, or too little tells."""
    units = []
    for one in beside.series:
        values = one.values[np.isfinite(one.values)]
        if one.artifact == lr.artifact and one.role is not Role.EPOCH and np.any(values % 1):
            units.append(printed_quantum(values) or 0.0)
    enough = len(units) > (0 if lr.artifact.lower().endswith(_TEXTS) else 1)
    least = min(units, default=0.0)
    return least if enough and least >= _COARSE else None


_COARSE = 1e-6
"""Rates below it are not in use."""


@rule(
    id="TP-ZERO-LR-PARTIAL",
    title="The learning rate is zero for a part of the run",
    level=Level.FAIL,
    message="{series} is exactly 0 on {longest} rows in a row, steps {first_step} to {last_step},"
    " after it had been positive.",
    evidence="{zeros} of {points} logged learning rates are 0.0 after warm-up, not counting the"
    " last row, {longest} in a row (limit {in_a_row}); the run is planned to step {planned}.",
    needs={"lr": RATES, "facts": Declared()},
    measures={
        "points": "values logged",
        "zeros": "values that are exactly 0 after the first positive one, the last row left out",
        "longest": "longest run of such zeros, the last row left out",
        "planned": "last step that the run declares, or 'not declared'",
        "negative": "values below 0",
        "least": "the lowest value",
        "quantum": "unit of the last printed decimal, 0 for full precision",
    },
    variants={
        "negative": Variant(
            Level.FAIL,
            "{series} is negative on {negative} rows, first at step {first_step}.",
            "{negative} of {points} logged learning rates are below 0, the lowest is {least:.4g}.",
        ),
        "at-end": Variant(
            Level.WARN,
            "{series} is exactly 0 on the {longest} rows before the last one, from step"
            " {first_step} on.",
            "{zeros} of {points} logged learning rates are 0.0 after warm-up, not counting the last"
            " row; the run does not declare where it was planned to end.",
        ),
    },
    doc=Doc(
        measures="Runs of exact zeros in the learning rate after it was first positive, and"
        " negative values.",
        means="For those rows no weight changed; a negative rate climbs the loss.",
        does_not_mean="That the steps or the schedule are at fault: either may be the one that is"
        " set wrongly.",
        guards=(
            "Zeros before the first positive value (warm-up, loss scaling) and the last row do"
            " not count.",
            "Zeros in the last 2 % of the declared steps are the planned end of the schedule.",
            "Zeros that follow values of a few printed units are rounding: not judged.",
            "Without a declared length, zeros at the end count from 2 % of the rows on, and are a"
            " warning up to 10 %.",
            "A series that is negative throughout may be a logarithm: not judged.",
        ),
        references=("BELLE #134: rate 0 on the first row", "DPR #99: rate 0 after a resume"),
    ),
    fires=Example(
        "zero for the second half of the plan",
        view(
            series("learning_rate", [1e-3 * (1 - i / 20) for i in range(20)] + [0.0] * 20),
            facts=Facts(max_steps=40),
        ),
    ),
    silent=Example(
        "a linear decay that ends at 0",
        view(series("learning_rate", [1e-3 * (1 - i / 20) for i in range(21)])),
    ),
)
def zero_rate_partial(
    lr: Series,
    facts: Facts,
    *,
    in_a_row: Annotated[int, Bound("rows", "consecutive zeros that count", ge=2)] = 5,
    planned_end: Annotated[
        float, Bound("share", "of the declared steps, from which zeros are planned", ge=0, le=1)
    ] = 0.98,
    ending: Annotated[
        float, Bound("share", "of the rows at the end that may be 0 without a plan", ge=0, le=1)
    ] = 0.02,
    wasted: Annotated[
        float, Bound("share", "of the rows that are 0 at the end: FAIL without a plan", ge=0, le=1)
    ] = 0.1,
) -> Outcome:
    values, planned = lr.values, _planned(lr, facts)
    measured: dict[str, Value] = {"points": len(values), "negative": 0}
    if values.item(-1) >= 0 and least_of(values[:-1]) > 0:  # a last row of 0 does not count
        return Clean({**measured, "zeros": 0, "longest": 0, "planned": _said(planned)})
    negative = int(np.count_nonzero(values < 0))
    if negative:
        return _negative(lr, {**measured, "negative": negative})
    runs = _zeros_after_start(lr)
    if runs is None:
        return Undecided({**measured, "zeros": len(values)}, Skip.NEED_DEGENERATE)
    found = list(runs)
    at, length = max(found, key=lambda run: run[1], default=(0, 0))
    zeros = sum(length for _, length in found)
    measured |= {"zeros": zeros, "longest": length, "planned": _said(planned)}
    if length < in_a_row:
        return Clean(measured)
    first, last = at, at + length - 1
    if _sank(lr, at):
        return Undecided({**measured, "quantum": printed_quantum(values) or 0.0}, Skip.LOW_POWER)
    variant = ""
    if last >= len(lr) - 2:
        if planned is not None and lr.steps[first] >= planned_end * planned:
            return Clean(measured)
        if planned is None and length <= ending * len(lr):
            return Undecided(measured)
        variant = "at-end" if planned is None and length <= wasted * len(lr) else ""
    return Fired((Evidence(where(lr, first, last), measured, variant),))


def _negative(lr: Series, measured: dict[str, Value]) -> Outcome:
    below = np.flatnonzero(lr.values < 0)
    measured["least"] = float(lr.values.min())
    if not (lr.values > 0).any():
        return Undecided(measured, Skip.NEED_DEGENERATE)
    return Fired((Evidence(where(lr, int(below[0]), int(below[-1])), measured, "negative"),))


def _zeros_after_start(lr: Series) -> Stretches | None:
    """Runs of zeros after the first positive value, without the last row; None if all are 0."""
    positive = lr.values > 0
    first = int(positive.argmax())
    if not positive[first]:
        return None
    zero = lr.values == 0
    zero[:first] = False
    zero[-1] = False
    return stretches(zero)


def _planned(lr: Series, facts: Facts) -> int | None:
    """The last step of the plan, in the numbers of the series."""
    return facts.max_steps if lr.column.axis is Axis.STEP else None


def _said(planned: int | None) -> Value:
    return "not declared" if planned is None else planned


def _sank(lr: Series, at: int) -> bool:
    """Whether the values before the zeros are so few printed units that 0 may be rounding."""
    quantum = printed_quantum(lr.values)
    return quantum is not None and float(lr.values[at - 1]) <= 2 * quantum
