"""Values that stopped being numbers."""

from functools import lru_cache
from typing import Annotated

import numpy as np

from trainproof.model.data import Facts, Role, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import HUGGING_FACE, falling, series, view
from .interface import Bound, Companion, Companions, Declared, Each, Example, rule, where
from .statistics import Mask, Stretches, screen, shared_steps, stretches

_NAN = float("nan")
_INF = float("inf")

START_ROWS = 10
"""At most so many rows at the very start may be non-finite while mixed precision settles."""

FILTERED_BY = frozenset({"transformers", "trl", "huggingface", "hf", "llamafactory", "axolotl"})
"""Frameworks whose trainer, by default, logs a mean of earlier losses for one that is NaN."""

HALF = ("16", "half", "amp", "mixed")
"""Parts of the names by which runs declare a 16-bit or mixed precision."""

HALVINGS = 16
"""A loss scale that begins at 65,536 can be halved so often before it is 1."""

SETTLING_STEPS = 100
"""A dynamic loss scaler has found its scale by then: it halves once per overflow."""


def _settled(runs: Stretches, start_rows: int) -> list[int]:
    """Lengths of the stretches, without one of at most ``start_rows`` at the very start."""
    return [n for at, n in runs if at > 0 or n > start_rows or n == runs.points]


@rule(
    id="TP-NAN",
    title="The loss is not a number",
    level=Level.FAIL,
    message="{series} is NaN or infinite at step {first_step}, and not only for a moment.",
    evidence="{nonfinite} of {points} logged values are not finite: the longest run is {longest}"
    " in a row, the run at the end {tail}; last finite value before: {last_finite:.4g}.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, nonfinite=1.0, screened=False),
        "siblings": Companions(Role.LOSS, Split.TRAIN),
    },
    measures={
        "points": "values logged",
        "nonfinite": "values that are NaN or infinite",
        "longest": "longest run of consecutive values that are not finite",
        "tail": "consecutive values at the end that are not finite",
        "last_finite": "the last finite value before the first that is not",
        "total": "the total loss of the same execution, where it is finite throughout",
    },
    variants={
        "last": Variant(
            Level.FAIL,
            "{series} ends with a value that is NaN or infinite, at step {last_step}.",
            "{nonfinite} of {points} logged values are not finite, {tail} of them at the end; first"
            " at step {first_step}, last finite value before: {last_finite:.4g}.",
        ),
        "recovered": Variant(
            Level.WARN,
            "{series} was NaN or infinite for a moment, first at step {first_step}, and recovered.",
            "{nonfinite} of {points} logged values are not finite, at most {longest} in a row; the"
            " last value is finite.",
        ),
        "component": Variant(
            Level.WARN,
            "{series}, a part of the loss, is NaN or infinite from step {first_step} on; the total"
            " {total} is finite.",
            "{nonfinite} of {points} logged values are not finite, at most {longest} in a row;"
            " every value of {total} is finite.",
        ),
    },
    doc=Doc(
        measures="Counts logged training-loss values that are NaN or infinite, and their runs.",
        means="Where they persist, the logged objective carries no information any more.",
        does_not_mean="That the weights on disk hold NaN; only their tensors can show that.",
        guards=(
            "Isolated values from which the series recovers are a warning; one that ends it is not:"
            " trainings are stopped by it.",
            "Up to ten values at the very start are not counted as a run: loss scaling settles.",
            "A part of the loss without targets in a batch is NaN by design: with a finite total"
            " it is a warning.",
        ),
        references=(
            "scvi-tools #511, #515: stop after N consecutive NaN, not after one",
            "darknet #511: NaN of a region without objects is normal",
            "IEEE 754-2019, section 6.2",
        ),
    ),
    fires=Example("the loss becomes NaN", view(series("loss", [3.0, 2.0, 1.5, _NAN, _NAN, _NAN]))),
    silent=Example("the loss falls", view(series("loss", falling(30)))),
)
def nonfinite_loss(
    loss: Series,
    siblings: tuple[Series, ...],
    *,
    in_a_row: Annotated[int, Bound("points", "consecutive values that make a FAIL", ge=1)] = 3,
    share: Annotated[
        float, Bound("share", "share of all values that makes a FAIL, three at least", ge=0, le=1)
    ] = 0.01,
) -> Outcome:
    if not screen(loss).nonfinite:
        return Clean({"points": len(loss), "nonfinite": 0})
    bad = ~np.isfinite(loss.values)
    measured, runs = _counted(loss, bad)
    evidence = where(loss, int(runs.starts[0]), int(runs.starts[-1] + runs.lengths[-1] - 1))
    total = _finite_total(loss, siblings)
    if total is not None:
        return Fired((Evidence(evidence, {**measured, "total": total.tag}, "component"),))
    lengths = _settled(runs, START_ROWS)
    often = sum(lengths) >= max(3.0, share * len(loss))
    if max(lengths, default=0) >= in_a_row or often:
        return Fired((Evidence(evidence, measured),))
    return Fired((Evidence(evidence, measured, "last" if runs.tail else "recovered"),))


def _counted(series: Series, bad: Mask) -> tuple[dict[str, Value], Stretches]:
    runs = stretches(bad)
    first = int(runs.starts[0])
    return {
        "points": len(series),
        "nonfinite": int(np.count_nonzero(bad)),
        "longest": runs.longest,
        "tail": runs.tail,
        "last_finite": float(series.values[first - 1]) if first else _NAN,
    }, runs


def _finite_total(loss: Series, siblings: tuple[Series, ...]) -> Series | None:
    if loss.identity.component is None:
        return None
    totals = (one for one in siblings if one.identity.component is None)
    return next((one for one in totals if len(one) > 1 and not screen(one).nonfinite), None)


@rule(
    id="TP-NAN-HIDDEN",
    title="The logger hides a loss that is not a number",
    level=Level.FAIL,
    message="The gradient norm {series} is NaN or infinite on {longest} rows in a row from step"
    " {first_step} on, while {loss_name} stays finite there: this framework logs a mean in place"
    " of a loss that is not finite.",
    evidence="{hidden} of {rows} rows that hold both have a finite loss and a gradient norm that"
    " is not finite; longest run {longest} (limit {in_a_row}).",
    needs={
        "grad": Each((Role.GRAD_NORM,), nonfinite=1.0),
        "loss": Companion(Role.LOSS, Split.TRAIN),
        "facts": Declared("framework"),
    },
    measures={
        "rows": "steps with both a loss and a gradient norm",
        "hidden": "of these, with a finite loss and a gradient norm that is not finite",
        "longest": "longest run of such rows, the first hundred steps left out",
        "loss_name": "the loss series",
        "framework": "the framework that the run declares",
    },
    doc=Doc(
        measures="Rows with a finite loss and a gradient norm that is NaN or infinite.",
        means="Several in a row are no overflow that a loss scaler skips: the loss of these steps"
        " was very likely not finite, and the logged one is a stand-in.",
        does_not_mean="That the logged losses before those rows are wrong.",
        guards=(
            "Only for frameworks whose trainer filters NaN out of the logged loss.",
            "The first hundred steps are left out: loss scaling settles there.",
        ),
        references=(
            "transformers: TrainingArguments.logging_nan_inf_filter, on by default",
            "transformers #13619, #13911; trl #6702",
        ),
    ),
    fires=Example(
        "finite loss, gradients NaN",
        view(
            series("loss", falling(40), range(10, 410, 10)),
            series("grad_norm", [1.0] * 30 + [_NAN] * 10, range(10, 410, 10)),
            facts=HUGGING_FACE,
        ),
    ),
    silent=Example(
        "one skipped step",
        view(
            series("loss", falling(40), range(10, 410, 10)),
            series("grad_norm", [1.0] * 30 + [_INF] + [1.0] * 9, range(10, 410, 10)),
            facts=HUGGING_FACE,
        ),
    ),
)
def hidden_nonfinite(
    grad: Series,
    loss: Series,
    facts: Facts,
    *,
    in_a_row: Annotated[int, Bound("rows", "consecutive rows that make a FAIL", ge=2)] = 3,
) -> Outcome:
    framework = facts.framework or ""
    both = shared_steps(grad, loss)
    rows = len(both.here)
    if not rows or not _filters(framework):
        return Undecided({"rows": rows, "framework": framework}, Skip.NEED_DEGENERATE)
    measured: dict[str, Value] = {
        "rows": rows,
        "hidden": 0,
        "longest": 0,
        "loss_name": loss.tag,
        "framework": framework,
    }
    if not screen(grad).nonfinite:
        return Clean(measured)
    hidden = ~np.isfinite(grad.values[both.here]) & np.isfinite(loss.values[both.there])
    runs = stretches(hidden & (grad.steps[both.here] > SETTLING_STEPS))
    measured |= {"hidden": int(np.count_nonzero(hidden)), "longest": runs.longest}
    if runs.longest < in_a_row:
        return Clean(measured)
    at = int(np.argmax(runs.lengths))
    first, last = runs.starts[at], runs.starts[at] + runs.lengths[at] - 1
    return Fired((Evidence(where(grad, both.here[first], both.here[last]), measured),))


@lru_cache(maxsize=64)
def _filters(framework: str) -> bool:
    words = framework.lower().replace("-", "").replace("_", "").split()
    return any(word in FILTERED_BY for word in words)


@rule(
    id="TP-NAN-GRAD",
    title="The gradients are not finite, step after step",
    level=Level.FAIL,
    message="{series} is NaN or infinite again and again from step {first_step} on.",
    evidence="{nonfinite} of {points} logged values are not finite ({share_later:.1%} after the"
    " first hundred steps, limit {share:.0%}): the longest run is {longest} in a row (limit"
    " {in_a_row}), the run at the end {tail} (limit {at_end}).",
    needs={
        "grad": Each((Role.GRAD_NORM,), nonfinite=1.0),
        "scale": Companions(Role.LOSS_SCALE),
        "facts": Declared(),
    },
    measures={
        "points": "values logged",
        "nonfinite": "values that are NaN or infinite",
        "longest": "longest run of consecutive values that are not finite",
        "tail": "consecutive values at the end that are not finite",
        "last_finite": "the last finite value before the first that is not",
        "share_later": "share of values that are not finite after the first hundred steps",
        "scaled": "whether the run logs a loss scale or declares 16-bit precision",
    },
    variants={
        "scaler": Variant(
            Level.INFO,
            "{series} was not finite on {nonfinite} rows, at most {longest} in a row, first at step"
            " {first_step}, as at the steps that a loss scaler skips.",
            "{nonfinite} of {points} logged values are not finite, {share_later:.1%} after the"
            " first hundred steps.",
        ),
        "isolated": Variant(
            Level.WARN,
            "{series} was NaN or infinite on {nonfinite} rows, at most {longest} in a row, first at"
            " step {first_step}.",
            "{nonfinite} of {points} logged values are not finite; the run declares no 16-bit"
            " precision and logs no loss scale.",
        ),
    },
    doc=Doc(
        measures="Counts logged gradient norms that are NaN or infinite, and their runs.",
        means="Updates with such gradients are skipped at best, and applied at worst.",
        does_not_mean="That one of them is a failure: dynamic loss scaling overflows now and then"
        " and skips that step.",
        guards=(
            "Fewer than five in a row, at most 5 % later on and a finite end: no FAIL.",
            "A run of up to sixteen at the very start under a loss scaler: it halves from 65,536.",
        ),
        references=(
            "Micikevicius et al. 2018, Mixed Precision Training, section 3.2",
            "DeepSpeed #931; Time-MoE #71; TableMASTER-mmocr #32: isolated overflow is normal",
        ),
    ),
    fires=Example(
        "gradients stay NaN", view(series("grad_norm", [1.0, 1.1, 0.9] * 5 + [_NAN] * 6))
    ),
    silent=Example("finite gradients", view(series("grad_norm", [1.0, 1.1, 0.9] * 5))),
)
def nonfinite_gradient(
    grad: Series,
    scale: tuple[Series, ...],
    facts: Facts,
    *,
    in_a_row: Annotated[int, Bound("points", "consecutive values that make a FAIL", ge=1)] = 5,
    share: Annotated[
        float, Bound("share", "share that makes a FAIL, after 100 steps", ge=0, le=1)
    ] = 0.05,
    at_end: Annotated[int, Bound("points", "values at the end that make a FAIL", ge=1)] = 3,
) -> Outcome:
    if not screen(grad).nonfinite:
        return Clean({"points": len(grad), "nonfinite": 0})
    bad = ~np.isfinite(grad.values)
    counted, runs = _counted(grad, bad)
    later = grad.steps > SETTLING_STEPS
    late = int(np.count_nonzero(bad & later))
    share_later = late / max(1, int(np.count_nonzero(later)))
    precision = (facts.precision or "").lower()
    scaled = bool(scale) or any(word in precision for word in HALF)
    measured: dict[str, Value] = {**counted, "share_later": share_later, "scaled": scaled}
    longest = max(_settled(runs, HALVINGS if scaled else 0), default=0)
    often = late >= 3 and share_later > share
    if longest >= in_a_row or runs.tail >= at_end or often:
        variant = ""
    else:
        variant = "scaler" if scaled or share_later <= 0.01 else "isolated"
    first, last = int(runs.starts[0]), int(runs.starts[-1] + runs.lengths[-1] - 1)
    return Fired((Evidence(where(grad, first, last), measured, variant),))
