"""What a resume should carry on and did not."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np

from trainproof.model.data import Floats, Regime, Rewind, Role, RunView, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, Variant

from .examples import falling, series, view
from .interface import Bound, Each, Example, Which, Whole, rule, where
from .statistics import higher_p, median, noise

LOCAL = 5
"""Rows on either side of a resume that say how much the rate changes from row to row."""

CLIMB = 20
"""Rows after a resume in which a second warm-up would show."""

STEADY = 1e-3
"""Relative change from row to row of a rate that is constant but for its printed digits."""

SAME_FACTOR = 0.05
"""Relative difference of two factors by which a schedule in steps lowers the rate."""

UNLIKELY = 1e-4
"""Mann-Whitney p below which the loss after a resume is higher than before it."""


def _resumed_at(one: Series, run: RunView) -> list[int]:
    """Positions of the first row after each resume, with rows on both sides.

    The rows that a resume did again are not in the series: those before the position lie before
    the step it went on from.
    """
    if not run.rewinds:
        return []
    files = {one.artifact, *one.also_in}
    resumes = {r.judged_at for r in run.rewinds if r.resume and r.artifact in files}
    places = (int(np.searchsorted(one.steps, step)) for step in sorted(resumes))
    return [at for at in places if 0 < at < len(one)]


def _resumes(run: RunView) -> bool:
    return any(rewind.resume for rewind in run.rewinds)


@rule(
    id="TP-LR-RESUME-JUMP",
    title="The learning rate jumps at a resume",
    level=Level.WARN,
    message="{series} is {before:.4g} before the resume at step {first_step} and {after:.4g} after"
    " it.",
    evidence="From one row to the next it changes by {jump:.0%}, elsewhere around it by at most"
    " {usual:.2g} of its value.",
    needs={"lr": Each((Role.LR,), points=10), "run": Whole()},
    measures={
        "points": "values logged",
        "resumes": "resumes that the series shows",
        "before": "the last rate before the resume",
        "after": "the first rate after it",
        "jump": "change over the rate before",
        "usual": "greatest relative change between neighbouring rows around the resume, but for a"
        " climb that begins there",
        "peak": "highest rate over the rows after the resume",
    },
    variants={
        "warm-up": Variant(
            Level.WARN,
            "{series} falls from {before:.4g} to {after:.4g} at the resume at step {first_step} and"
            " climbs again, as in a warm-up.",
            "Over the next rows it rises to {peak:.4g}.",
        ),
        "lowered": Variant(
            Level.INFO,
            "{series} is {before:.4g} before the resume at step {first_step} and {after:.4g} after"
            " it, each for several rows.",
            "A schedule in steps lowers the rate like this; here it does so where training was"
            " resumed.",
        ),
    },
    doc=Doc(
        measures="The change of the learning rate from the last row before a resume to the first"
        " one after it, against the changes around.",
        means="The schedule did not go on where it was: its state was not restored, or it was laid"
        " out anew.",
        does_not_mean="That this was not intended: a resume with another rate looks the same.",
        guards=(
            "The jump must exceed 10 % of the rate and five times every change around it; a climb"
            " that begins at the resume is that of a warm-up and no measure of it.",
            "A jump as it is found elsewhere in the log, too (steps, cycles and restarts of a"
            " schedule), is the schedule's own; so is a rise where a schedule with restarts is"
            " declared, and a fall from one constant rate to another is a note.",
            "Resumes are seen where steps were done again, or go on in another file; others are"
            " not.",
        ),
        references=(
            "yolov5 #292, Lightning #4655, #5486, gpt-neox #1029, transformers #27749, DPR #99",
            "kohya sd-scripts #1999, DeepSpeech #3620: a second warm-up",
        ),
    ),
    fires=Example(
        "from a half back to the peak",
        view(
            series("learning_rate", [1e-3 * (1 - i / 100) for i in range(50)] + [1e-3] * 20),
            rewinds=(Rewind("log.jsonl", 60, 51, True, 61),),
        ),
    ),
    silent=Example(
        "the decay goes on",
        view(
            series("learning_rate", [1e-3 * (1 - i / 100) for i in range(100)]),
            rewinds=(Rewind("log.jsonl", 60, 51, True, 61),),
        ),
    ),
)
def rate_jumps(
    lr: Series,
    run: RunView,
    *,
    jump: Annotated[float, Bound("share", "of the rate: a change that counts", ge=0)] = 0.1,
    usual: Annotated[float, Bound("ratio", "over the changes around", ge=1)] = 5.0,
) -> Outcome:
    places = _resumed_at(lr, run)
    measured: dict[str, Value] = {"points": len(lr), "resumes": len(places)}
    if not places:
        return Undecided(measured, Skip.NEED_ABSENT) if _resumes(run) else Clean(measured)
    found = [_jump(lr, at, places, jump, usual) for at in places]
    restarts = "restart" in (run.facts.scheduler or "").lower()
    evidence = tuple(
        one for one in found if one is not None and not (restarts and _rises(one.measured))
    )
    if evidence:
        return Fired(evidence)
    return Clean(measured)


def _jump(lr: Series, at: int, places: Sequence[int], jump: float, usual: float) -> Evidence | None:
    values = lr.values
    before, after = float(values[at - 1]), float(values[at])
    size = abs(after - before)
    top = at + _climb(values[at : at + CLIMB])
    around = max(_changes(values[max(0, at - LOCAL) : at]), _changes(values[top : top + LOCAL]))
    if not (before > 0 and size > jump * before and size > usual * around):
        return None
    if _is_usual(values, at, [*places, *range(at, top + 1)]):
        return None
    measured: dict[str, Value] = {
        "points": len(values),
        "before": before,
        "after": after,
        "jump": size / before,
        "usual": around / before,
    }
    peak = float(values[at : at + CLIMB].max())
    steady = around <= STEADY * min(before, after) and at >= LOCAL <= len(values) - at
    return Evidence(
        where(lr, at), measured | {"peak": peak}, _kind(before, after, peak, steady=steady)
    )


def _kind(before: float, after: float, peak: float, *, steady: bool) -> str:
    """The variant. A rate that fell to nearly nothing may still be on its way up at the peak."""
    if after >= before:
        return ""
    if peak > before or (after <= 0.1 * before < peak and peak >= 3 * after):
        return "warm-up"
    return "lowered" if steady else ""


def _rises(measured: Mapping[str, Value]) -> bool:
    return float(measured["after"]) > float(measured["before"])


def _climb(values: Floats) -> int:
    """How many rows in a row the rate rises from the first one on."""
    rises = np.diff(values) > 0
    return len(rises) if rises.all() else int(np.argmin(rises))


def _is_usual(values: Floats, at: int, apart: Sequence[int]) -> bool:
    """Whether the rate changes elsewhere as it does here, ``apart`` from these rows and from the
    warm-up at the start: by half as much or more in the same direction, or by the same factor
    between two constant rates."""
    changes = np.diff(values) * math.copysign(1.0, values[at] - values[at - 1])
    still = np.abs(changes) <= STEADY * np.abs(values[:-1])
    steps = np.zeros(len(changes), bool)
    steps[1:-1] = still[:-2] & still[2:]
    with np.errstate(all="ignore"):
        factors = values[1:] / values[:-1]
        near = np.abs(factors / factors[at - 1] - 1) < SAME_FACTOR
    alike = (changes >= 0.5 * changes[at - 1]) | (near & steps & (changes > 0))
    alike[: _climb(values)] = False
    alike[np.asarray(apart) - 1] = False
    return bool(alike.any())


def _changes(values: Floats) -> float:
    """The greatest change between neighbours, 0 for a single value."""
    return float(np.abs(np.diff(values)).max(initial=0.0))


@rule(
    id="TP-RESUME-LOST-STATE",
    title="The loss is higher after a resume",
    level=Level.WARN,
    message="{series} rises from {before:.4g} to {after:.4g} at the resume at step {first_step}.",
    evidence="Medians of {rows} rows on either side; the rise is {share:.0%} of the fall before it"
    " (limit {least:.0%}), Mann-Whitney p {p:.2g}; its old level is reached again {back}.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, points=60, which=Which.PRINCIPAL),
        "run": Whole(),
    },
    measures={
        "points": "values logged",
        "resumes": "resumes with enough rows on both sides",
        "before": "median of the rows before the resume",
        "after": "median of the rows after it",
        "share": "rise over the fall from the first rows to those before the resume",
        "p": "Mann-Whitney p that the loss after is not above the loss before",
        "back": "when the level before the resume is reached again",
    },
    doc=Doc(
        measures="The loss over twenty rows before a resume and twenty after it.",
        means="Something that the training had built up was not restored: optimizer moments, the"
        " learning rate, a part of the weights.",
        does_not_mean="Which of them: data in another order or other lengths raise the loss too.",
        guards=(
            "The rise must be a quarter of all progress before it, beyond three times the noise of"
            " a row, and in nearly every row (p < 0.0001).",
            "Twenty rows on either side at least.",
            "Resumes are seen where steps were done again, or go on in another file; others are"
            " not.",
        ),
        references=(
            "transformers #33336, sentence-transformers #3756, ultralytics #18046, pytorch #35047",
            "apex #180",
        ),
    ),
    not_for=(Regime.REINFORCEMENT, Regime.ADVERSARIAL),
    fires=Example(
        "from 1 up to 3 again",
        view(
            series("loss", [*falling(60, 4, 1), *falling(60, 3, 1)]),
            rewinds=(Rewind("log.jsonl", 70, 61, True, 71),),
        ),
    ),
    silent=Example(
        "it goes on where it was",
        view(series("loss", falling(120)), rewinds=(Rewind("log.jsonl", 70, 61, True, 71),)),
    ),
)
def lost_state(
    loss: Series,
    run: RunView,
    *,
    rows: Annotated[int, Bound("rows", "on either side", ge=5)] = 20,
    least: Annotated[float, Bound("share", "of the progress before the resume", ge=0)] = 0.25,
) -> Outcome:
    places = [at for at in _resumed_at(loss, run) if rows < at <= len(loss) - rows]
    measured: dict[str, Value] = {"points": len(loss), "resumes": len(places)}
    if not places:
        return Undecided(measured, Skip.NEED_TOO_SHORT) if _resumes(run) else Clean(measured)
    found = [_worse(loss, at, rows, least) for at in places]
    evidence = tuple(one for one in found if one is not None)
    return Fired(evidence) if evidence else Clean(measured)


def _worse(loss: Series, at: int, rows: int, least: float) -> Evidence | None:
    values = loss.values
    low, high = values[at - rows : at], values[at : at + rows]
    before, after = median(low), median(high)
    drop = median(values[: min(LOCAL, at - rows)]) - before
    rise = after - before
    sigma = max(noise(low), noise(high))
    p = higher_p(low, high)
    if not (drop > 0 and rise > least * drop and rise > 3 * sigma and p < UNLIKELY):
        return None
    measured: dict[str, Value] = {
        "points": len(loss),
        "before": before,
        "after": after,
        "share": rise / drop,
        "p": p,
        "back": _back(loss, at, before),
    }
    return Evidence(where(loss, at), measured)


def _back(loss: Series, at: int, level: float) -> str:
    reached = np.flatnonzero(loss.values[at:] <= level)
    return f"at step {int(loss.steps[at + reached[0]])}" if len(reached) else "nowhere in the log"
