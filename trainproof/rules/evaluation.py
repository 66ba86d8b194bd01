"""Held-out data."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from trainproof.model.data import Direction, Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import falling, series, view
from .interface import Bound, Companion, Companions, Each, Example, Which, rule, where
from .shape import LEAST_FALL, GiveBack, Kept, at_its_best, give_back
from .statistics import Profile, profile, screen, stretches

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
    },
    measures={
        "points": "evaluations logged",
        "nonfinite": "evaluations that are NaN or infinite",
        "longest": "longest run of consecutive evaluations that are not finite",
        "tail": "consecutive evaluations at the end that are not finite",
        "train": "the training loss of the same execution",
        "train_points": "its number of values",
    },
    variants={
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
            "One evaluation that is not finite, not the last, is a warning.",
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
    first, last = int(runs.starts[0]), int(runs.starts[-1] + runs.lengths[-1] - 1)
    return Fired((Evidence(where(loss, first, last), measured, variant),))


@rule(
    id="TP-OVERFIT",
    title="The held-out loss rises while the training loss falls",
    level=Level.WARN,
    message="{series}, measured on held-out data, was best at step {best_step} ({best:.4g}) and"
    " rose to {end:.4g} by step {last_step}, while {train} kept falling.",
    evidence="It gave back {gave_back:.0%} of its fall of {drop:.4g} ({errors:.1f} standard"
    " errors, limit {least_errors}) over {points} evaluations; {train} fell from {train_first:.4g}"
    " to {train_last:.4g}.",
    needs={
        "loss": Each((Role.LOSS,), Split.EVAL, points=7, which=Which.PRINCIPAL),
        "train": Companion(Role.LOSS, Split.TRAIN, points=5),
        "metrics": Companions(Role.METRIC, Split.EVAL),
    },
    measures={
        "points": "evaluations judged",
        "best": "lowest held-out loss",
        "best_step": "its step",
        "end": "level at the end, a median",
        "drop": "fall from the highest level before to the lowest",
        "rise": "rise from the lowest level to the end",
        "gave_back": "rise over drop",
        "errors": "rise in standard errors of its measurement",
        "noise": "noise of one evaluation",
        "train": "the training loss of the same execution",
        "train_first": "its level at the start",
        "train_last": "its level at the end",
        "metric": "a held-out metric that improved after the best step and ended at its best",
        "metric_then": "its value at the best step of the loss",
        "metric_end": "its last value",
    },
    variants={
        "metric-at-best": Variant(
            Level.INFO,
            "{series}, measured on held-out data, rose from {best:.4g} at step {best_step} to"
            " {end:.4g}, while {metric} went on improving, from {metric_then:.4g} to"
            " {metric_end:.4g}.",
            "It gave back {gave_back:.0%} of its fall of {drop:.4g} ({errors:.1f} standard errors)"
            " over {points} evaluations; {train} fell from {train_first:.4g} to {train_last:.4g}.",
        )
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
            "A training loss that does not fall is no overfitting: not checked.",
        ),
        references=(
            "Prechelt 1998, Early Stopping: But When?",
            "trainproof gallery: overfit, three seeds",
            "transformers whisper fine-tunes: word error rate improves while the loss rises",
        ),
    ),
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
    train: Series,
    metrics: tuple[Series, ...],
    *,
    share: Annotated[float, Bound("share", "of the fall that was given back", ge=0)] = 0.5,
    least_errors: Annotated[float, Bound("standard errors", "a rise must exceed", ge=1)] = 6.0,
) -> Outcome:
    seen = profile(loss)
    forms = give_back(loss.values, seen)
    found = next((f for f in forms if f.significant(least_errors) and f.share >= share), None)
    if found is None:
        best = int(np.argmin(loss.values))
        return Clean({**_best(loss, best), "end": forms[-1].end, "noise": seen.sigma})
    measured = _rise(loss, seen, found)
    if screen(train).nonfinite:
        return Undecided({**measured, "train": train.tag}, Skip.NOT_FINITE)
    other = profile(train)
    measured |= {"train": train.tag, "train_first": other.first, "train_last": other.last}
    if not _falls(other):
        return Undecided(measured)
    best = int(np.argmin(loss.values))
    kept = _still_improving(metrics, int(loss.steps[best]))
    variant = ""
    if kept is not None:
        variant = "metric-at-best"
        measured |= {"metric": kept.series, "metric_then": kept.first, "metric_end": kept.end}
    return Fired((Evidence(where(loss, best, -1), measured, variant),))


def _best(loss: Series, best: int) -> dict[str, Value]:
    return {
        "points": len(loss),
        "best": float(loss.values[best]),
        "best_step": int(loss.steps[best]),
    }


def _rise(loss: Series, seen: Profile, found: GiveBack) -> dict[str, Value]:
    return {
        **_best(loss, int(np.argmin(loss.values))),
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
    """A directed metric that gained a tenth or more after the loss was best and kept it."""
    for metric in metrics:
        if metric.identity.direction is Direction.NONE:
            continue
        later = metric.column.take(metric.steps >= best_step)
        kept = at_its_best(Series(metric.artifact, metric.identity, later), best_step)
        if kept is not None and abs(kept.end - kept.first) >= 0.1 * _range(metric):
            return kept
    return None


def _range(series: Series) -> float:
    return float(series.values.max() - series.values.min())
