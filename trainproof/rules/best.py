"""The best evaluation, the checkpoint kept for it, and what came after."""

import math
from typing import Annotated

import numpy as np

from trainproof.model.data import Facts, Regime, Role, RunView, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import falling, series, view
from .interface import Bound, Declared, Each, Example, Which, Whole, rule, where
from .shape import as_cost, cost_profile, gravest, higher_is_better
from .statistics import screen

EQUAL = 1e-6
"""Relative distance at which the recorded best metric is a logged one."""


@rule(
    id="TP-BEST-CHECKPOINT",
    title="The checkpoint kept as the best is not the best",
    level=Level.WARN,
    message="The checkpoint recorded as the best has {series} {recorded:.4g}, the worst of {points}"
    " evaluations; the best is {best:.4g}, at step {first_step}.",
    evidence="{series} is better when {better}; the record names {checkpoint}.",
    needs={"run": Whole(), "facts": Declared("best_metric")},
    measures={
        "points": "evaluations logged",
        "recorded": "the metric that the run recorded as its best",
        "best": "best logged value",
        "worst": "worst logged value",
        "better": "which way the metric is better",
        "checkpoint": "the checkpoint that the run recorded",
    },
    variants={
        "missed": Variant(
            Level.INFO,
            "The best value of {series} in the log is {best:.4g}, at step {first_step}; the"
            " checkpoint recorded as the best has {recorded:.4g}.",
            "Of {points} evaluations; {series} is better when {better}; the record names"
            " {checkpoint}.",
        )
    },
    doc=Doc(
        measures="The metric that the run recorded for its best checkpoint against all values of"
        " that metric in the log.",
        means="Where it is the worst of all, the comparison ran the wrong way: the run kept its"
        " worst checkpoint and, if it loads the best one at the end, returns that.",
        does_not_mean="That the better checkpoint exists: only evaluations at which one was saved"
        " could be kept.",
        guards=(
            "Only metrics of which the better direction is known from their name.",
            "Three different values at least.",
            "A better evaluation that was not kept is a note: it may not have been saved.",
        ),
        references=(
            "transformers PR #31142: greater_is_better and the default metric",
            "transformers #15089, Lightning #1008, #2636",
        ),
    ),
    fires=Example(
        "the greatest loss is recorded",
        view(
            series("eval_loss", [2.0, 1.5, 1.2, 1.1]),
            facts=Facts(best_metric=2.0, best_metric_name="eval_loss", best_checkpoint="run/1"),
        ),
    ),
    silent=Example(
        "the least loss is recorded",
        view(
            series("eval_loss", [2.0, 1.5, 1.1, 1.2]),
            facts=Facts(best_metric=1.1, best_metric_name="eval_loss", best_checkpoint="run/3"),
        ),
    ),
)
def best_checkpoint(run: RunView, facts: Facts) -> Outcome:
    recorded = facts.best_metric if facts.best_metric is not None else math.nan
    measured: dict[str, Value] = {"recorded": recorded}
    named = [one for one in run.series if one.tag == facts.best_metric_name]
    if not named:
        return Undecided(measured, Skip.NEED_ABSENT)
    metric = max(named, key=len)
    measured["points"] = len(metric)
    up = higher_is_better(metric)
    if up is None:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    if screen(metric).nonfinite:
        return Undecided(measured, Skip.NOT_FINITE)
    if len(np.unique(metric.values)) < 3:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    costs = as_cost(metric)
    at = int(np.argmin(costs))
    measured |= {
        "best": float(metric.values[at]),
        "worst": float(metric.values[int(np.argmax(costs))]),
        "better": "higher" if up else "lower",
        "checkpoint": facts.best_checkpoint or "no checkpoint",
    }
    if _close(recorded, float(measured["best"])):
        return Clean(measured)
    variant = "" if _close(recorded, float(measured["worst"])) else "missed"
    return Fired((Evidence(where(metric, at, at), measured, variant),))


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=EQUAL, abs_tol=1e-12)


@rule(
    id="TP-BEST-LONG-AGO",
    title="The best evaluation was long ago",
    level=Level.INFO,
    message="{series} was best at step {best_step} ({best:.4g}), which was not reached again in the"
    " {since} evaluations since: {wasted:.0%} of the run.",
    evidence="Its level at the end is {end:.4g}, {errors:.3g} standard errors (limit"
    " {least_errors:g}) worse than the best level, over {points} evaluations.",
    needs={"metric": Each((Role.LOSS, Role.METRIC), Split.EVAL, points=15, which=Which.PRINCIPAL)},
    measures={
        "points": "evaluations judged",
        "best": "best value",
        "best_step": "the last step that reached it",
        "since": "evaluations after it",
        "wasted": "steps after it over all steps of the series",
        "end": "level at the end, a median",
        "errors": "distance of the levels in standard errors of its measurement",
    },
    doc=Doc(
        measures="How many evaluations followed the best one, where the level at the end is"
        " measurably worse.",
        means="An earlier stop would have cost less and kept the same best checkpoint.",
        does_not_mean="That training should have stopped: the best may come later still, and"
        " another metric may have improved.",
        guards=(
            "The best must lie in the first half, ten evaluations or more before the end.",
            "A level within three standard errors of the best one is a plateau, whose best is"
            " chance.",
            "Metrics without a known better direction are not judged.",
        ),
        references=(
            "SageMaker Debugger: Overtraining",
            "Prechelt 1998, Early Stopping: But When?",
        ),
    ),
    not_for=(Regime.ADVERSARIAL,),
    fires=Example(
        "best at a fifth",
        view(series("eval_loss", [*falling(6, 2, 1), *falling(20, 1.05, 1.6)])),
    ),
    silent=Example("best at the end", view(series("eval_loss", falling(26)))),
)
def best_long_ago(
    metric: Series,
    *,
    since: Annotated[int, Bound("evaluations", "after the best that count", ge=2)] = 10,
    half: Annotated[float, Bound("share", "of the steps, in which the best lies", ge=0)] = 0.5,
    least_errors: Annotated[float, Bound("standard errors", "the levels must differ", ge=1)] = 3.0,
) -> Outcome:
    measured: dict[str, Value] = {"points": len(metric)}
    if higher_is_better(metric) is None:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    costs = as_cost(metric)
    best = len(costs) - 1 - int(np.argmin(costs[::-1]))  # the last time that it was reached
    span = float(metric.steps[-1] - metric.steps[0])
    wasted = float(metric.steps[-1] - metric.steps[best]) / span if span > 0 else 0.0
    measured |= {
        "best": float(metric.values[best]),
        "best_step": int(metric.steps[best]),
        "wasted": wasted,
    }
    after = len(metric) - 1 - best
    found = gravest(costs, cost_profile(metric), least_errors)
    if after < since or wasted < 1 - half or found is None:
        return Clean(measured)
    sign = -1 if higher_is_better(metric) else 1
    measured |= {"since": after, "end": sign * found.end, "errors": found.errors}
    return Fired((Evidence(where(metric, best, -1), measured),))
