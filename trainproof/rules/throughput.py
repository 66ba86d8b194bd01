"""Speed: how fast the run went and what it waited for."""

from typing import Annotated

import numpy as np

from trainproof.model.data import Attempt, Floats, Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Undecided, Value
from trainproof.model.rule import Doc

from .examples import series, view
from .interface import Bound, Companion, Each, Example, Together, rule, where
from .stages import stages
from .statistics import higher_p, measure, median, shared_steps, theil_sen

SPEEDS = (Role.STEP_TIME, Role.THROUGHPUT)


@rule(
    id="TP-STEP-CLIFF",
    title="Training became slower",
    level=Level.WARN,
    message="By {series}, training ran at {ratio:.0%} of its earlier speed over the last fifth of"
    " the log, from step {first_step} on.",
    evidence="Median over the first half {before:.4g}, over the last fifth {after:.4g}, of"
    " {points} values (limit {slower:.0%}); Mann-Whitney p {p:.2g}.",
    needs={"speed": Each(SPEEDS, Split.TRAIN, points=25), "beside": Together()},
    measures={
        "points": "values judged",
        "before": "median over the first half, the first 5 % left out",
        "after": "median over the last fifth",
        "ratio": "speed at the end over speed before",
        "p": "one-sided Mann-Whitney p that the end is not slower",
    },
    doc=Doc(
        measures="The median step time, or throughput, of the last fifth of the log against its"
        " first half.",
        means="A step takes longer at the end than it did, for long enough to move the median.",
        does_not_mean="That the machine degraded: longer sequences, another job on a shared host"
        " or a different batch size look the same.",
        guards=(
            "Where a logged setting was changed (the length of the sequences, the batch size) and"
            " steps took longer at once, nothing is judged.",
            "Medians: evaluations, checkpoints and other slow single steps do not count.",
            "The first 5 % (compilation, caches) are left out.",
        ),
        references=(
            "MLPerf Training v4.0: 0 of 1,192 logs fall below 85 %; shared hosts need 70 %",
            "MONAI #3116, mmdetection #1956",
        ),
    ),
    fires=Example(
        "steps take twice as long in the last third",
        view(series("step_time", [0.1, 0.11, 0.09] * 10 + [0.2, 0.22, 0.21] * 5)),
    ),
    silent=Example("a steady step time", view(series("step_time", [0.1, 0.11, 0.09] * 15))),
)
def slower(
    speed: Series,
    beside: Attempt,
    *,
    slower: Annotated[
        float, Bound("share", "of the earlier speed, below which the rule fires", ge=0, le=1)
    ] = 0.7,
) -> Outcome:
    sign = 1.0 if speed.role is Role.STEP_TIME else -1.0
    count = len(speed)
    before = speed.values[count // 20 : count // 2]
    after = speed.values[count - count // 5 :]
    was, now = median(before), median(after)
    if was <= 0 or now <= 0:
        return Undecided({"points": count, "before": was, "after": now})
    ratio = was / now if sign > 0 else now / was
    measured: dict[str, Value] = {"points": count, "before": was, "after": now, "ratio": ratio}
    if ratio >= slower:
        return Clean(measured)
    measured["p"] = higher_p(sign * before, sign * after)
    if float(measured["p"]) > 1e-3 or len(stages(beside, speed, sign)):
        return Undecided(measured)
    return Fired((Evidence(where(speed, count - count // 5), measured),))


@rule(
    id="TP-STEP-TIME-GROWTH",
    title="Steps take longer and longer",
    level=Level.WARN,
    message="{series} grows all along: from {first:.4g} to {last:.4g}, {times:.3g}-fold.",
    evidence="Levels of the first and the last of twenty parts of {judged} rows, the first 5 % left"
    " out; Mann-Kendall p of a rise: {p:.2g}; median slope {slope:.3g} a thousand steps (a growth"
    " by {least:g} counts).",
    needs={"time": Each((Role.STEP_TIME,), Split.TRAIN, points=110)},
    measures={
        "points": "values logged",
        "judged": "values after the first 5 %",
        "first": "level of the first part, a median",
        "last": "level of the last part, a median",
        "times": "last over first",
        "p": "one-sided Mann-Kendall p of a rise, over block medians",
        "slope": "Theil-Sen slope between block medians, per 1,000 steps",
    },
    doc=Doc(
        measures="The trend of the step time over twenty parts of the log.",
        means="Something accumulates: a graph that is kept, a list that grows, a store that fills.",
        does_not_mean="That it is a leak: a curriculum of longer sequences looks the same.",
        guards=(
            "A growth by 30 % and an established trend (p < 0.001) through all of the log, of which"
            " no part brings more than half; a single change of speed is judged by TP-STEP-CLIFF.",
            "The first 5 % (compilation, caches) are left out, 100 rows at least remain.",
        ),
        references=("neural-enhance #23, CARN #12: steps that slow down all along",),
    ),
    fires=Example(
        "twice as long at the end",
        view(series("step_time", [0.1 * (1 + i / 200) + 0.002 * (i % 3) for i in range(200)])),
    ),
    silent=Example("a steady step time", view(series("step_time", [0.1, 0.11, 0.09] * 50))),
)
def longer_steps(
    time: Series,
    *,
    least: Annotated[float, Bound("ratio", "of the last part over the first", ge=1)] = 1.3,
    likely: Annotated[float, Bound("p", "below it a rise is established", ge=0, le=1)] = 1e-3,
) -> Outcome:
    values = time.values[len(time) // 20 :]
    seen = measure(values)
    half = median(seen.medians[len(seen.medians) // 2 - 2 : len(seen.medians) // 2 + 2])
    span = float(time.steps[-1] - time.steps[len(time) // 20]) / seen.blocks
    measured: dict[str, Value] = {
        "points": len(time),
        "judged": len(values),
        "first": seen.first,
        "last": seen.last,
        "p": seen.p_rise,
        "times": seen.last / seen.first if seen.first > 0 else 0.0,
        "slope": 1000 * theil_sen(seen.medians) / span if span > 0 else 0.0,
    }
    if not seen.first > 0:
        return Undecided(measured)
    grown = seen.last >= least * seen.first and seen.last - seen.first > 3 * seen.error
    steady = seen.first + 0.2 * (seen.last - seen.first) < half < seen.last
    steady = steady and float(np.diff(seen.medians).max()) <= 0.5 * (seen.last - seen.first)
    if not (grown and steady and seen.p_rise < likely):
        return Clean(measured)
    return Fired((Evidence(where(time), measured),))


@rule(
    id="TP-LOADER-BOUND",
    title="Training waits for data",
    level=Level.WARN,
    message="{series}, the time spent waiting for data, is {ratio:.0%} of the step time"
    " {step_name} in the median.",
    evidence="Median of {loader:.4g} against {step:.4g} over {points} rows that hold both (limit"
    " {share:.0%}).",
    needs={
        "loader": Each((Role.LOADER_TIME,), Split.TRAIN, points=20),
        "step": Companion(Role.STEP_TIME, Split.TRAIN, points=20),
    },
    measures={
        "points": "rows with both times",
        "loader": "median time spent waiting for data",
        "step": "median step time",
        "step_name": "the step-time series",
        "ratio": "waiting time over step time",
    },
    doc=Doc(
        measures="The median time spent waiting for data over the median step time.",
        means="The accelerator idles for a good part of every step.",
        does_not_mean="That more loader workers would help: storage, decoding or the network may"
        " be the limit.",
        guards=(
            "Medians: the first batch of an epoch does not count.",
            "Trainers differ in whether the step time includes the wait: with half as much wait"
            " as step time, at least a third of the time is spent waiting in either case.",
        ),
        references=("SageMaker Debugger: Dataloader, IOBottleneck",),
    ),
    fires=Example(
        "80 ms of waiting in steps of 100 ms",
        view(series("loader_time", [0.08] * 30), series("step_time", [0.1] * 30)),
    ),
    silent=Example(
        "5 ms of waiting in steps of 100 ms",
        view(series("loader_time", [0.005] * 30), series("step_time", [0.1] * 30)),
    ),
)
def loader_bound(
    loader: Series,
    step: Series,
    *,
    share: Annotated[
        float, Bound("ratio", "waiting time over step time from which it fires", ge=0)
    ] = 0.5,
) -> Outcome:
    both = shared_steps(loader, step)
    waits = loader.values[both.here]
    steps = step.values[both.there]
    usable = np.isfinite(steps) & (steps > 0)
    measured: dict[str, Value] = {"points": int(np.count_nonzero(usable)), "step_name": step.tag}
    if int(measured["points"]) < 20:
        return Undecided(measured)
    wait, whole = median(waits[usable]), median(steps[usable])
    ratio = wait / whole
    measured |= {"loader": wait, "step": whole, "ratio": ratio}
    if ratio < share:
        return Clean(measured)
    return Fired((Evidence(where(loader), measured),))


@rule(
    id="TP-THROUGHPUT",
    title="Measured speed",
    level=Level.INFO,
    message="{series}: {middle:.4g} in the median, from step {first_step} to {last_step}.",
    evidence="Over {points} values, nine in ten lie between {low:.4g} and {high:.4g}.",
    needs={"speed": Each(SPEEDS, Split.TRAIN, points=5)},
    measures={
        "points": "values logged",
        "middle": "median",
        "low": "5th percentile",
        "high": "95th percentile",
    },
    doc=Doc(
        measures="The median and the spread of the logged throughput or step time.",
        means="This is how fast the run went, in the unit of the log.",
        does_not_mean="That this is fast or slow for the machine: nothing is compared.",
        guards=("Never a warning.",),
        references=("MLPerf Training v4.0: logged throughput",),
    ),
    fires=Example("a steady step time", view(series("step_time", [0.1, 0.11, 0.09] * 15))),
    silent=Example("all zero: not measured", view(series("step_time", [0.0] * 10))),
)
def throughput(speed: Series) -> Outcome:
    low, middle, high = _quantiles(speed.values)
    if not speed.values.any():
        return Clean({"points": len(speed), "middle": middle})
    measured = {"points": len(speed), "middle": middle, "low": low, "high": high}
    return Fired((Evidence(where(speed), measured),))


def _quantiles(values: Floats) -> tuple[float, float, float]:
    """5th, 50th and 95th percentile, each an element of ``values``."""
    last = len(values) - 1
    at = (last // 20, last // 2, last - last // 20)
    low, middle, high = np.partition(values, at)[list(at)].tolist()
    return low, middle, high


@rule(
    id="TP-GPU-UTIL",
    title="The accelerator is not busy",
    level=Level.INFO,
    message="{series} is {middle:.0f} % in the median, from step {first_step} to {last_step}.",
    evidence="Over {points} values, nine in ten lie between {low:.0f} % and {high:.0f} %"
    " (noted below {busy:g} %).",
    needs={"util": Each((Role.GPU_UTIL,), points=20)},
    measures={
        "points": "values logged",
        "middle": "median utilisation, percent",
        "low": "5th percentile",
        "high": "95th percentile",
    },
    doc=Doc(
        measures="The median of the logged utilisation of the accelerator, in percent.",
        means="For half of the samples the accelerator was less busy than this.",
        does_not_mean="That the run is slow for a reason inside it: utilisation counts the time"
        " in which any kernel ran, not how much of the chip it used.",
        guards=(
            "Values up to 1 throughout are taken as shares.",
            "Never a warning: small models on large devices are idle by nature.",
        ),
        references=("SageMaker Debugger: LowGPUUtilization, p95 below 70 %",),
    ),
    fires=Example("a third busy", view(series("gpu_util", [30.0, 35.0, 33.0] * 10))),
    silent=Example("busy", view(series("gpu_util", [95.0, 97.0, 96.0] * 10))),
)
def gpu_utilisation(
    util: Series,
    *,
    busy: Annotated[float, Bound("percent", "median from which nothing is noted", ge=0)] = 50.0,
) -> Outcome:
    values = util.values * 100 if util.values.max() <= 1 else util.values
    low, middle, high = _quantiles(values)
    measured = {"points": len(util), "middle": middle, "low": low, "high": high}
    if middle >= busy:
        return Clean(measured)
    return Fired((Evidence(where(util), measured),))
