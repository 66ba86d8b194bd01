"""The learning rate against what the run declares: where it should warm up, fall and end."""

from typing import Annotated

import numpy as np

from trainproof.model.data import Axis, Facts, Floats, Role, Series
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import series, view
from .interface import Bound, Declared, Each, Example, rule, where
from .statistics import greatest_of, printed_quantum, tail_at

FALLING = frozenset({"linear", "cosine", "polynomial"})
"""Schedules that end near 0 when they are carried through."""

MOST_TIMES = 1024
"""The greatest whole number that is looked for in plan over end: devices times accumulation."""

PLANNED = Declared()


def _planned(lr: Series, facts: Facts) -> float | None:
    """The last step of the plan, in the numbers of the series."""
    if lr.column.axis is Axis.STEP:
        return facts.max_steps
    epochs = facts.max_epochs if lr.column.axis is Axis.EPOCH else None
    return int(epochs) if epochs is not None and epochs.is_integer() else epochs


@rule(
    id="TP-SCHEDULE-ENDED-EARLY",
    title="The schedule ended before the run",
    level=Level.FAIL,
    message="{series} had run out at step {first_step}; the run is planned to step {planned!s}.",
    evidence="It fell from {peak:.4g} to 0 over {falling} rows and is 0 on the last {flat} of"
    " {points}; plan over end is {ratio:.4g}.",
    needs={"lr": Each((Role.LR,), points=20), "facts": PLANNED},
    measures={
        "points": "values logged",
        "peak": "the highest rate",
        "end": "the rate at the end",
        "flat": "rows at the end that are equal to the last one",
        "falling": "rows from the peak to the first of them",
        "planned": "last step, or epoch, that the run declares",
        "ratio": "that step over the one at which the schedule had ended",
        "times": "the whole number that this ratio is",
        "quantum": "unit of the last printed decimal",
    },
    variants={
        "whole": Variant(
            Level.FAIL,
            "{series} had run out at step {first_step}: the schedule went {times} times as fast as"
            " the run, which is planned to step {planned!s}.",
            "It fell from {peak:.4g} to 0 over {falling} rows and is 0 on the last {flat} of"
            " {points}; plan over end is {ratio:.4g}.",
        ),
        "floor": Variant(
            Level.WARN,
            "{series} had fallen to its last value, {end:.3g}, at step {first_step}; the run is"
            " planned to step {planned!s}.",
            "It fell from {peak:.4g} over {falling} rows and stays there on the last {flat} of"
            " {points}; plan over end is {ratio:.4g}.",
        ),
    },
    doc=Doc(
        measures="The step from which the learning rate no longer changes and is at most a"
        " thousandth of its peak, against the declared length of the run.",
        means="The rest of the run trains next to nothing. A whole ratio is what one gets when the"
        " scheduler is stepped once per device or per micro-batch, or was given a length in other"
        " units than the run.",
        does_not_mean="Which of the two lengths is the wrong one.",
        guards=(
            "The rate must have fallen on at least half of the rows from the peak on: schedules"
            " that fall in stages (step decay, on a plateau) may end early by design.",
            "The end must lie before 90 % of the plan, and the rest be five rows and 5 % of the"
            " plan at least.",
            "A rate that stays above 0 is a warning: a floor may be meant.",
            "Rates that were printed, and not seen to change on at least half of the last ten rows"
            " of the fall, may have been rounded: not judged.",
            "Without a declared length nothing is judged.",
        ),
        references=(
            "accelerate #2926, #2142, #2318: the scheduler is stepped once per process",
            "LTX-Video-Trainer #67, diffusers #3954, EasyContext #21, transformers PR #24088",
            "accelerate 1.15 with 2 and 4 processes: a linear schedule of 100 steps is over at 50"
            " and 25; with split_batches it is not",
        ),
    ),
    fires=Example(
        "a plan of 100 steps, over after 25",
        view(
            series("learning_rate", [max(0.0, 1e-3 * (1 - i / 25)) for i in range(100)]),
            facts=Facts(max_steps=100),
        ),
    ),
    silent=Example(
        "a linear decay to the end",
        view(
            series("learning_rate", [1e-3 * (1 - i / 100) for i in range(101)]),
            facts=Facts(max_steps=101),
        ),
    ),
)
def schedule_ended_early(
    lr: Series,
    facts: Facts,
    *,
    before: Annotated[float, Bound("share", "of the plan: an end before it is early", ge=0)] = 0.9,
    ended: Annotated[float, Bound("share", "of the peak: a rate below it has ended", ge=0)] = 1e-3,
    rest: Annotated[float, Bound("share", "of the plan that must have passed since", ge=0)] = 0.05,
    whole: Annotated[float, Bound("share", "that a ratio may be off a whole number", ge=0)] = 0.02,
) -> Outcome:
    values, planned = lr.values, _planned(lr, facts)
    peak, end = greatest_of(values), values.item(-1)
    flat = tail_at(values, end)
    measured: dict[str, Value] = {"points": len(lr), "peak": peak, "end": end, "flat": flat}
    if planned is None:
        return Undecided(measured, Skip.NEED_ABSENT)
    first, last = lr.steps.item(-flat), lr.steps.item(-1)
    measured |= {"planned": planned, "ratio": planned / first if first > 0 else 0.0}
    over = 0 <= end <= ended * peak and peak > 0 and flat >= 5
    if not (over and 0 < first < before * planned and last - first >= rest * planned):
        return Clean(measured)
    fall = values[int(np.argmax(values)) : len(lr) - flat + 1]
    measured["falling"] = len(fall) - 1
    if not _steadily(fall):
        return Undecided(measured)
    quantum = printed_quantum(values)
    if quantum is not None and not _steadily(fall[-11:]):
        return Undecided({**measured, "quantum": quantum}, Skip.LOW_POWER)
    if end > 0:
        return Fired((Evidence(where(lr, len(lr) - flat), measured, "floor"),))
    times = _times(planned, int(lr.steps[-flat - 1]), first, whole)
    if times is not None:
        measured["times"] = times
    place = where(lr, len(lr) - flat)
    return Fired((Evidence(place, measured, "" if times is None else "whole"),))


def _steadily(fall: Floats) -> bool:
    """Whether the rate fell on at least half of the rows, ten at least."""
    if len(fall) < 11:
        return False
    return int(np.count_nonzero(np.diff(fall) < 0)) * 2 >= len(fall) - 1


def _times(planned: float, before: int, first: int, off: float) -> int | None:
    """The whole number that plan over end is, for an end after step ``before``, up to ``first``."""
    times = round(planned / first)
    nearest = min(max(planned / times, before), first) if times else first
    close = abs(planned / nearest - times) <= off * times if nearest > 0 else False
    return times if close and 2 <= times <= MOST_TIMES else None


@rule(
    id="TP-NEVER-DECAYED",
    title="The schedule is declared to fall and did not",
    level=Level.WARN,
    message="{series} ends at {end:.4g}, {share:.0%} of its peak, though the run is over and"
    " declares a {scheduler} schedule.",
    evidence="The log reaches step {last_step} of {planned!s}; the peak is {peak:.4g}, over"
    " {points} values.",
    needs={
        "lr": Each((Role.LR,), points=5),
        "facts": Declared("scheduler"),
    },
    measures={
        "points": "values logged",
        "peak": "the highest rate",
        "end": "the rate at the end",
        "share": "end over peak",
        "scheduler": "the declared schedule",
        "planned": "last step, or epoch, that the run declares",
    },
    doc=Doc(
        measures="The learning rate at the planned end of the run, for schedules that are declared"
        " to fall to 0.",
        means="The declared schedule is not the one that ran, or it was laid out for a longer run.",
        does_not_mean="That the model is bad: a constant rate trains too.",
        guards=(
            "Only the schedules called linear, cosine and polynomial; those with restarts, a"
            " minimum or a stable phase are left alone.",
            "The log must reach 98 % of the declared length.",
            "A series that never changes may be the configured rate and not the one in use: not"
            " judged.",
        ),
        references=("DeepSpeed #7303, transformers #15508",),
    ),
    fires=Example(
        "a cosine over twice the run",
        view(
            series("learning_rate", [1e-3 * (1 + np.cos(np.pi * i / 300)) / 2 for i in range(101)]),
            facts=Facts(max_steps=101, scheduler="cosine"),
        ),
    ),
    silent=Example(
        "a linear decay to the end",
        view(
            series("learning_rate", [1e-3 * (1 - i / 100) for i in range(101)]),
            facts=Facts(max_steps=101, scheduler="linear"),
        ),
    ),
)
def never_decayed(
    lr: Series,
    facts: Facts,
    *,
    complete: Annotated[float, Bound("share", "of the plan: from it on the run is over", ge=0)] = (
        0.98
    ),
    high: Annotated[float, Bound("share", "of the peak: a rate above it has not fallen", ge=0)] = (
        0.5
    ),
) -> Outcome:
    peak, end = float(lr.values.max()), float(lr.values[-1])
    scheduler = _schedule(facts)
    measured: dict[str, Value] = {
        "points": len(lr),
        "peak": peak,
        "end": end,
        "share": end / peak if peak > 0 else 0.0,
        "scheduler": scheduler,
    }
    if scheduler not in FALLING or not peak > 0 or float(lr.values.min()) == peak:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    planned = _planned(lr, facts)
    if planned is None:
        return Undecided(measured, Skip.NEED_ABSENT)
    measured["planned"] = planned
    if lr.steps[-1] < complete * planned:
        return Undecided(measured)
    if end <= high * peak:
        return Clean(measured)
    return Fired((Evidence(where(lr), measured),))


def _schedule(facts: Facts) -> str:
    """``SchedulerType.COSINE`` is ``cosine``."""
    return (facts.scheduler or "").rpartition(".")[2].lower()


@rule(
    id="TP-WARMUP-MISSING",
    title="The declared warm-up did not happen",
    level=Level.WARN,
    message="{series} is {start:.4g} at step {first_step}, {share:.0%} of its peak, though the run"
    " declares {warmup} steps of warm-up.",
    evidence="The peak over {points} values is {peak:.4g}.",
    needs={"lr": Each((Role.LR,), points=5), "facts": Declared("warmup_steps")},
    measures={
        "points": "values logged",
        "start": "the first rate",
        "peak": "the highest rate",
        "share": "start over peak",
        "warmup": "declared steps of warm-up",
        "planned": "last step that the run declares",
    },
    variants={
        "endless": Variant(
            Level.WARN,
            "The run declares {warmup} steps of warm-up and is planned to step {planned}:"
            " {series} never reaches its full height.",
            "The highest rate over {points} values is {peak:.4g}.",
        )
    },
    doc=Doc(
        measures="The first logged learning rate against the peak, and the declared warm-up"
        " against the declared length of the run.",
        means="The declared warm-up was not carried out, or it is as long as the run.",
        does_not_mean="That training suffers from it.",
        guards=(
            "The first row must lie within the first fifth of the warm-up: later ones cannot tell.",
            "A series that never changes may be the configured rate and not the one in use: not"
            " judged.",
        ),
        references=("accelerate #2124, LLaMA-Factory #1515",),
    ),
    fires=Example(
        "at its peak on the first step",
        view(
            series("learning_rate", [1e-3 * (1 - i / 100) for i in range(100)]),
            facts=Facts(warmup_steps=50, max_steps=100),
        ),
    ),
    silent=Example(
        "a linear warm-up",
        view(
            series("learning_rate", [1e-3 * min(1.0, i / 50) for i in range(100)]),
            facts=Facts(warmup_steps=50, max_steps=100),
        ),
    ),
)
def warmup_missing(
    lr: Series,
    facts: Facts,
    *,
    early: Annotated[float, Bound("share", "of the warm-up that the first row may take", ge=0)] = (
        0.2
    ),
    full: Annotated[float, Bound("share", "of the peak that the first row must reach", ge=0)] = (
        0.95
    ),
) -> Outcome:
    start, peak = float(lr.values[0]), float(lr.values.max())
    warmup = facts.warmup_steps or 0
    measured: dict[str, Value] = {
        "points": len(lr),
        "start": start,
        "peak": peak,
        "share": start / peak if peak > 0 else 0.0,
        "warmup": warmup,
    }
    if lr.column.axis is not Axis.STEP or not peak > 0 or float(lr.values.min()) == peak:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    if facts.max_steps is not None and warmup >= facts.max_steps:
        endless = {**measured, "planned": facts.max_steps}
        return Fired((Evidence(where(lr), endless, "endless"),))
    if lr.steps[0] >= early * warmup:
        return Undecided(measured)
    if start < full * peak:
        return Clean(measured)
    return Fired((Evidence(where(lr), measured),))
