"""A run against a baseline: the same series of both, matched by step.

Of several baselines the one that speaks most for the run is the one compared with: a run that fails
is worse than every one of them.
"""

import math
from collections.abc import Mapping
from typing import Annotated

import msgspec
import numpy as np
from msgspec.structs import replace

from trainproof.model.data import Facts, Role, RunView, Series
from trainproof.model.outcome import (
    Clean,
    Evidence,
    Fired,
    Level,
    Outcome,
    Skip,
    Undecided,
    Value,
    Where,
)
from trainproof.model.rule import Doc, SubjectKind, Variant

from .examples import beside, falling, series, view
from .interface import (
    Bound,
    Compared,
    Counterparts,
    Declared,
    Each,
    Example,
    Which,
    Whole,
    rule,
    where,
)
from .multiples import LEAST_BLOCKS, Multiple, multiple, opening_multiple
from .pairs import (
    LEAST_COVER,
    LEAST_POINTS,
    UNCOMPARED,
    Limits,
    Obstacle,
    Pair,
    Standing,
    Unmatched,
    counterpart,
    differences,
    match,
    standing,
)
from .statistics import median, screen, shared_steps

LOSS = Each((Role.LOSS,), points=LEAST_POINTS, which=Which.PRINCIPAL)
PAIRS = Counterparts()
FACTS = Declared()
CERTAIN = 6.0
"""Standard errors by which two levels must differ to differ beyond doubt."""

Errors = Annotated[float, Bound("standard errors", "two levels must differ by", ge=1)]
Ratio = Annotated[float, Bound("ratio", "of two positive levels: above it FAIL", ge=1)]
Share = Annotated[
    float, Bound("share", "of the baseline's fall: a distance below it is none", ge=0)
]
Half = Annotated[
    float, Bound("share", "of the baseline's fall: a distance below it is a warning", ge=0)
]
Lost = Annotated[
    float,
    Bound("share", "of the baseline's fall, where no ratio can be formed: above it FAIL", ge=0),
]


# --- what the rules that compare levels have in common ---------------------------------------

LEVELS: Mapping[str, str] = {
    "baseline": "the baseline compared with: of several, the one that speaks most for the run",
    "baseline_series": "its series",
    "baselines": "baselines that could be compared with",
    "points": "the run's values within the shared steps",
    "start": "the run's level over the first block of the shared steps",
    "floor": "its lowest block level",
    "end": "its level over the last block",
    "base_start": "the baseline's level over the first block",
    "base_floor": "its lowest block level",
    "base_end": "its level over the last block",
    "error": "standard error of the difference between a level of one and of the other; half of"
    " what levels stray without a trend, where that is more",
    "differences": "what both declare about their set-up, and declare differently",
}

STANDING: Mapping[str, str] = {
    "ratio": "the run's level over the baseline's; NaN where not every value is positive",
    "distance": "the run's level minus the baseline's",
    "errors": "the distance in standard errors",
    "lost": "the distance over the baseline's fall; NaN where that did not measurably fall",
}

DECLARED = " Declared differences: {differences}."

RESEARCH = (
    "benchmarks/population.py --pairs: 0 FAIL on 1,128 comparable pairs of published healthy runs"
    " (MLPerf Training v4.0, language-model speed runs)"
)


def _levels(pair: Pair, pairs: tuple[Pair, ...], facts: Facts) -> dict[str, Value]:
    return {
        "baseline": pair.baseline,
        "baseline_series": pair.series,
        "baselines": len(pairs),
        "points": pair.stop - pair.begin,
        "start": pair.start,
        "floor": pair.floor,
        "end": pair.end,
        "base_start": pair.base_start,
        "base_floor": pair.base_floor,
        "base_end": pair.base_end,
        "error": pair.doubt,
        "differences": "; ".join(differences(facts, pair.facts)) or "none",
    }


def _stands(found: Standing) -> dict[str, Value]:
    return {
        "ratio": found.ratio,
        "distance": found.distance,
        "errors": found.errors,
        "lost": found.lost,
    }


def _place(loss: Series, pair: Pair) -> Where:
    return where(loss, pair.begin, pair.stop - 1)


def _by_floor(pairs: tuple[Pair, ...]) -> Pair:
    return min(pairs, key=lambda pair: pair.floor - pair.base_floor)


def _by_end(pairs: tuple[Pair, ...]) -> Pair:
    return min(pairs, key=lambda pair: pair.end - pair.base_end)


GOOD = view(series("loss", falling(60, 4.0, 1.0)))
SIMILAR = beside(view(series("loss", falling(60, 4.1, 1.05))), GOOD)
WORSE = beside(view(series("loss", falling(60, 8.0, 5.0))), GOOD)


# --- whether there is anything to compare -----------------------------------------------------


@rule(
    id="TP-BAD-BASELINE",
    title="The baseline itself fails",
    level=Level.INFO,
    message="The baseline {baseline} fails by itself ({failed}): nothing is compared with it.",
    evidence="{broken} of {baselines} baselines fail at least one rule about single runs: {names}.",
    needs={"run": Compared()},
    measures={
        "baselines": "baselines given",
        "broken": "baselines that fail at least one rule by themselves",
        "baseline": "the first of them",
        "failed": "the rules that it fails",
        "names": "all that fail",
    },
    doc=Doc(
        measures="What the rules about single runs say of the baseline.",
        means="The baseline sets no standard: a run that differs from it may be the sound one.",
        does_not_mean="Anything about the run that was to be compared.",
        guards=(
            "A note, never a finding against the run: without a sound baseline the comparison is"
            " refused, and the exit code is 2.",
            "Of several baselines the sound ones are compared with.",
        ),
        references=("trainproof 0.22 warns and compares all the same",),
    ),
    subject=SubjectKind.PAIR,
    fires=Example("the baseline diverged", beside(GOOD, replace(GOOD, failed=("TP-DIVERGE",)))),
    silent=Example("a sound baseline", SIMILAR),
)
def bad_baseline(run: RunView) -> Outcome:
    baselines = run.baselines
    broken = [one for one in baselines if one.failed]
    measured: dict[str, Value] = {"baselines": len(baselines), "broken": len(broken)}
    if not broken:
        return Clean(measured)
    measured |= {
        "baseline": broken[0].id,
        "failed": ", ".join(broken[0].failed),
        "names": ", ".join(one.id for one in broken),
    }
    return Fired((Evidence(_anywhere(run), measured),))


def _anywhere(run: RunView) -> Where:
    return Where(next((one.artifact for one in run.series), ""))


@rule(
    id="TP-CMP-UNCOMPARABLE",
    title="The run cannot be compared with the baseline",
    level=Level.INFO,
    message="The comparison is refused: run and baseline log no loss of the same meaning.",
    evidence="The run logs {losses}; the baseline {baseline} logs {base_losses}.",
    needs={"run": Compared()},
    measures={
        "baselines": "baselines given",
        "compared": "pairs of a loss of the run and the same loss of a baseline",
        "baseline": "the baseline that came nearest to being comparable",
        "losses": "total losses that the run logs",
        "base_losses": "total losses that the baseline logs",
        "series": "the series of the run that has a counterpart",
        "baseline_series": "its counterpart",
        "points": "values of the run within the shared steps",
        "baseline_points": "values of the baseline within them",
        "cover": "share of the run's steps that the baseline covers",
        "regime": "the kind of training",
        "failed": "the rules that the baseline fails by itself",
    },
    variants={
        "regime": Variant(
            Level.INFO,
            "The comparison is refused: in {regime} training the loss does not measure progress.",
            "The run logs {losses}; the baseline is {baseline}.",
        ),
        "bad-baseline": Variant(
            Level.INFO,
            "The comparison is refused: no baseline is sound.",
            "The baseline {baseline} fails {failed} by itself.",
        ),
        Obstacle.UNREADABLE: Variant(
            Level.INFO,
            "The comparison is refused: the baseline {baseline} could not be read.",
            "The run logs {losses}; nothing of the baseline is known.",
        ),
        Obstacle.AXES: Variant(
            Level.INFO,
            "The comparison is refused: the steps of {series} and of the baseline's"
            " {baseline_series} count different things.",
            "Of the two logs, one numbers its rows by step, epoch, sample or row, the other"
            " differently; the baseline is {baseline}.",
        ),
        Obstacle.STEPS: Variant(
            Level.INFO,
            "The comparison is refused: {series} and the baseline's {baseline_series} share too few"
            " points.",
            "Over the steps that both cover the run has {points} values and the baseline"
            " {baseline} has {baseline_points}; each needs " + f"{LEAST_POINTS}.",
        ),
        Obstacle.COVER: Variant(
            Level.INFO,
            "The comparison is refused: the baseline's {baseline_series} covers {cover:.0%} of the"
            " steps of {series}.",
            "The end of the run lies beyond the baseline {baseline}, which must cover at least "
            f"{LEAST_COVER:.0%}"
            " of the run's steps; {points} values of the run lie within it.",
        ),
        Obstacle.NOT_FINITE: Variant(
            Level.INFO,
            "The comparison is refused: the baseline's {baseline_series} is not finite.",
            "The baseline {baseline} has {baseline_points} values within the steps of {series}; at"
            " least one of them is not finite.",
        ),
    },
    doc=Doc(
        measures="Whether a total loss of the run has a counterpart in a sound baseline: the same"
        " role, split and name, numbered alike, with enough points over shared steps.",
        means="There is nothing to compare; which of the two runs is better is not known.",
        does_not_mean="That the run is bad: the exit code is 2, never 1.",
        guards=(
            "One comparable loss is enough; parts of a loss are not needed.",
            "Runs may differ in length and in how often they log: the steps that both cover are"
            " compared.",
        ),
        references=("trainproof 0.22 gives FAIL and exit code 1 to a log that is too short",),
    ),
    subject=SubjectKind.PAIR,
    fires=Example(
        "the baseline logs another loss only",
        beside(GOOD, view(series("eval_loss", falling(60, 4.0, 1.0)))),
    ),
    silent=Example("the same loss over the same steps", SIMILAR),
)
def uncomparable(run: RunView) -> Outcome:
    baselines = run.baselines
    sound = [one for one in baselines if not one.failed]
    mine = _totals(run)
    found = [(loss, match(loss, one)) for loss in mine for one in sound]
    compared = sum(isinstance(other, Pair) for _, other in found)
    measured: dict[str, Value] = {
        "baselines": len(baselines),
        "compared": compared,
        "baseline": baselines[0].id,
        "losses": _named(mine),
    }
    if run.regime in UNCOMPARED:
        measured["regime"] = str(run.regime)
        return Fired((Evidence(_anywhere(run), measured, "regime"),))
    if not sound:
        measured["failed"] = ", ".join(baselines[0].failed)
        return Fired((Evidence(_anywhere(run), measured, "bad-baseline"),))
    if compared:
        return Clean(measured)
    return Fired((_nearest_miss(run, sound, found, measured),))


def _nearest_miss(
    run: RunView,
    sound: list[RunView],
    found: list[tuple[Series, Pair | Unmatched]],
    measured: dict[str, Value],
) -> Evidence:
    """Of all series and baselines, the one that came nearest to being comparable."""
    misses = [(loss, one) for loss, one in found if isinstance(one, Unmatched)]
    order = list(Obstacle)
    loss, miss = max(misses, key=lambda item: order.index(item[1].obstacle), default=(None, None))
    if loss is None or miss is None or miss.obstacle is Obstacle.NO_SERIES:
        base = {"baseline": sound[0].id, "base_losses": _named(_totals(sound[0]))}
        return Evidence(_anywhere(run), {**measured, **base})
    measured |= {
        "baseline": miss.baseline,
        "series": loss.tag,
        "baseline_series": miss.baseline_series,
        "points": miss.points,
        "baseline_points": miss.baseline_points,
        "cover": miss.cover,
    }
    return Evidence(where(loss), measured, str(miss.obstacle))


def _totals(run: RunView) -> list[Series]:
    every = Each((Role.LOSS,), which=Which.PRINCIPAL)
    return [loss for _, loss in every.found(run)]


def _named(losses: list[Series]) -> str:
    return ", ".join(dict.fromkeys(one.tag for one in losses)) or "no loss"


# --- levels -----------------------------------------------------------------------------------


@rule(
    id="TP-FLOOR-RATIO",
    title="The loss floor is far above the baseline's",
    level=Level.FAIL,
    message="{series} never came near the baseline's level: its floor is {floor:.4g}, that of"
    " {baseline} {base_floor:.4g}.",
    evidence="Lowest block medians over steps {first_step} to {last_step} of {series} and the"
    " baseline's {baseline_series}: a ratio of {ratio:.3g} (limit {limit:g}), {errors:.3g} standard"
    " errors (limit {certain:g}); {baselines} baseline(s) compared, this one speaks most for the"
    " run." + DECLARED,
    needs={"loss": LOSS, "pairs": PAIRS, "facts": FACTS},
    measures={**LEVELS, **STANDING},
    variants={
        "partial": Variant(
            Level.WARN,
            "{series} never came as low as the baseline: its floor is {floor:.4g}, that of"
            " {baseline} {base_floor:.4g}.",
            "Lowest block medians over steps {first_step} to {last_step}: a ratio of {ratio:.3g} to"
            " the baseline's {baseline_series} (limit {limit:g}), which is {lost:.0%} of what that"
            " fell (a failure from {half:.0%} on), {errors:.3g} standard errors." + DECLARED,
        ),
        "distance": Variant(
            Level.FAIL,
            "{series} never came near the baseline's level: its floor is {floor:.4g}, that of"
            " {baseline} {base_floor:.4g}.",
            "Over steps {first_step} to {last_step} the baseline's {baseline_series} fell from"
            " {base_start:.4g}; of that fall the run's floor lacks {lost:.0%} (limit {most:.0%}),"
            " {errors:.3g} standard errors (limit {certain:g}). Losses are not all positive, so no"
            " ratio is formed." + DECLARED,
        ),
    },
    doc=Doc(
        measures="The lowest block median of the run and of the baseline over the steps that both"
        " cover: their ratio, and their distance in units of the baseline's fall and of the noise.",
        means="At no time did the run do as well as the baseline by a wide margin.",
        does_not_mean="That the run did not learn, or that the data are at fault: a different data"
        " set, model or loss has another floor.",
        guards=(
            "Medians of blocks on both sides: a lucky batch sets no floor.",
            "The ratio must be significant, and the distance at least half of what the baseline"
            " gained, a tenth for a warning: losses of 0.001 and 0.003 do not differ, and seeds"
            " alone may part two runs by a third.",
            "Losses that are not all positive are compared by distance.",
            "A loss that is a whole multiple of the baseline's all along is judged by"
            " TP-LOSS-SCALED.",
            "Of several baselines the run must be worse than every one.",
        ),
        references=(RESEARCH, "trainproof 0.22: the same limit of 2 on single values"),
    ),
    subject=SubjectKind.PAIR,
    fires=Example("a floor five times as high", WORSE),
    silent=Example("nearly the baseline", SIMILAR),
)
def floor_ratio(
    loss: Series,
    pairs: tuple[Pair, ...],
    facts: Facts,
    *,
    limit: Ratio = 2.0,
    least: Share = 0.1,
    half: Half = 0.5,
    most: Lost = 0.75,
    certain: Errors = CERTAIN,
) -> Outcome:
    pair = _by_floor(pairs)
    found = standing(pair, pair.floor, pair.base_floor, Limits(limit, least, half, most, certain))
    return _level_outcome(loss, pair, found, _levels(pair, pairs, facts))


def _level_outcome(
    loss: Series, pair: Pair, found: Standing, measured: dict[str, Value]
) -> Outcome:
    measured |= _stands(found)
    if found.within:
        return Clean(measured)
    if not found.worse:
        return Undecided(measured, Skip.LOW_POWER)
    if multiple(pair) is not None:
        return Undecided(measured)
    variant = "distance" if not pair.natural else "partial" if found.partly else ""
    return Fired((Evidence(_place(loss, pair), measured, variant),))


@rule(
    id="TP-END-RATIO",
    title="The loss ends far above the baseline",
    level=Level.FAIL,
    message="{series} ends far above the baseline at the same step: {end:.4g}, {baseline} is at"
    " {base_end:.4g}.",
    evidence="Last block medians over steps {first_step} to {last_step} of {series} and the"
    " baseline's {baseline_series}: a ratio of {ratio:.3g} (limit {limit:g}), {errors:.3g} standard"
    " errors (limit {certain:g}); {baselines} baseline(s) compared, this one speaks most for the"
    " run." + DECLARED,
    needs={
        "loss": Each((Role.LOSS,), points=LEAST_POINTS, nonfinite=1.0, which=Which.PRINCIPAL),
        "pairs": PAIRS,
        "facts": FACTS,
    },
    measures={**LEVELS, **STANDING},
    variants={
        "partial": Variant(
            Level.WARN,
            "{series} ends above the baseline at the same step: {end:.4g}, {baseline} is at"
            " {base_end:.4g}.",
            "Last block medians over steps {first_step} to {last_step}: a ratio of {ratio:.3g} to"
            " the baseline's {baseline_series} (limit {limit:g}), which is {lost:.0%} of what that"
            " fell (a failure from {half:.0%} on), {errors:.3g} standard errors." + DECLARED,
        ),
        "distance": Variant(
            Level.FAIL,
            "{series} ends far above the baseline at the same step: {end:.4g}, {baseline} is at"
            " {base_end:.4g}.",
            "Over steps {first_step} to {last_step} the baseline's {baseline_series} fell from"
            " {base_start:.4g}; of that fall the run's end lacks {lost:.0%} (limit {most:.0%}),"
            " {errors:.3g} standard errors (limit {certain:g}). Losses are not all positive, so no"
            " ratio is formed." + DECLARED,
        ),
        "not-finite": Variant(
            Level.FAIL,
            "{series} is not finite at the end, where the baseline {baseline} is at"
            " {base_end:.4g}.",
            "The last values of {series} up to step {last_step} are NaN or infinite; the"
            " baseline's {baseline_series} is finite over all of its {points} shared steps."
            + DECLARED,
        ),
    },
    doc=Doc(
        measures="The last block median of the run and of the baseline over the steps that both"
        " cover: their ratio, and their distance in units of the baseline's fall and of the noise.",
        means="At the same step the run is worse than the baseline by a wide margin.",
        does_not_mean="That it would stay so: a run that is still going may only be slower.",
        guards=(
            "The last step that both have, never the last step of each.",
            "The ratio must be significant, and the distance at least half of what the baseline"
            " gained, a tenth for a warning.",
            "Losses that are not all positive are compared by distance.",
            "Clean only where the noise could not hide such a ratio.",
            "Of several baselines the run must be worse than every one.",
        ),
        references=(RESEARCH, "trainproof 0.22: the same limit of 2"),
    ),
    subject=SubjectKind.PAIR,
    grounds=True,
    fires=Example("an end five times as high", WORSE),
    silent=Example("nearly the baseline", SIMILAR),
)
def end_ratio(
    loss: Series,
    pairs: tuple[Pair, ...],
    facts: Facts,
    *,
    limit: Ratio = 2.0,
    least: Share = 0.1,
    half: Half = 0.5,
    most: Lost = 0.75,
    certain: Errors = CERTAIN,
) -> Outcome:
    pair = _by_end(pairs)
    measured = _levels(pair, pairs, facts)
    if not pair.ends_finite:
        return Fired((Evidence(_place(loss, pair), measured, "not-finite"),))
    if screen(loss).nonfinite:
        return Undecided(measured, Skip.NOT_FINITE)
    found = standing(pair, pair.end, pair.base_end, Limits(limit, least, half, most, certain))
    return _level_outcome(loss, pair, found, measured)


# --- improvement --------------------------------------------------------------------------------

GAINS: Mapping[str, str] = {
    "gain": "fall of the run from the first to the last block",
    "base_gain": "the baseline's fall over the same steps",
    "gain_errors": "the run's rise, or what it gained less, in standard errors",
}


@rule(
    id="TP-NEG-IMPROVE",
    title="The loss rose where the baseline's fell",
    level=Level.FAIL,
    message="{series} rose from {start:.4g} to {end:.4g} where the baseline {baseline} fell from"
    " {base_start:.4g} to {base_end:.4g}.",
    evidence="Block medians over steps {first_step} to {last_step}: a rise of {gain_errors:.3g}"
    " standard errors (limit {certain:g}), more than {least:.0%} of what the baseline's"
    " {baseline_series} gained." + DECLARED,
    needs={"loss": LOSS, "pairs": PAIRS, "facts": FACTS},
    measures={**LEVELS, **GAINS},
    doc=Doc(
        measures="Change of level from the first to the last block of the shared steps, in both.",
        means="Over the same steps the baseline learned and the run lost ground.",
        does_not_mean="That the run was bad before: it may have started lower than the baseline.",
        guards=(
            "The rise must exceed six standard errors and a quarter of the baseline's fall.",
            "A baseline that did not measurably fall is no standard: not judged.",
            "Differences only: shift and sign of the loss do not matter.",
        ),
        references=(RESEARCH, "trainproof 0.22: any negative improvement"),
    ),
    subject=SubjectKind.PAIR,
    fires=Example("up from 2 to 4", beside(view(series("loss", falling(60, 2.0, 4.0))), GOOD)),
    silent=Example("nearly the baseline", SIMILAR),
)
def negative_improvement(
    loss: Series,
    pairs: tuple[Pair, ...],
    facts: Facts,
    *,
    least: Annotated[
        float, Bound("share", "of the baseline's fall: a smaller rise is none", ge=0)
    ] = 0.25,
    certain: Errors = CERTAIN,
) -> Outcome:
    pair = _by_end(pairs)
    gain, base_gain = pair.start - pair.end, pair.base_start - pair.base_end
    errors = _in_errors(-gain, pair.here.doubt)
    measured = _levels(pair, pairs, facts)
    measured |= {"gain": gain, "base_gain": base_gain, "gain_errors": errors}
    if not pair.base_fell:
        return Undecided(measured, Skip.LOW_POWER)
    if not -gain > least * base_gain:
        return Clean(measured)
    if not errors > certain:
        return Undecided(measured, Skip.LOW_POWER)
    return Fired((Evidence(_place(loss, pair), measured),))


def _in_errors(difference: float, error: float) -> float:
    if error > 0:
        return difference / error
    return math.copysign(math.inf, difference) if difference else 0.0


@rule(
    id="TP-IMPROVE-DEFICIT",
    title="The loss improved far less than the baseline's",
    level=Level.FAIL,
    message="{series} gained {gain:.4g} over the steps in which the baseline {baseline} gained"
    " {base_gain:.4g}, and ends above it.",
    evidence="Block medians over steps {first_step} to {last_step}: {start:.4g} to {end:.4g}, the"
    " baseline's {baseline_series} {base_start:.4g} to {base_end:.4g}; less than {least:.0%} of the"
    " baseline's gain, by {gain_errors:.3g} standard errors (limit {certain:g})." + DECLARED,
    needs={"loss": LOSS, "pairs": PAIRS, "facts": FACTS},
    measures={**LEVELS, **STANDING, **GAINS},
    doc=Doc(
        measures="Fall from the first to the last block of the shared steps, in both, and the"
        " distance at the end.",
        means="Over the same steps the run learned a fraction of what the baseline learned, and"
        " ends that much worse.",
        does_not_mean="That the run learns nothing.",
        guards=(
            "A run that starts lower has less to gain: it must end above the baseline by a quarter"
            " of the baseline's gain as well.",
            "Both differences must exceed six standard errors.",
            "A run that lost ground is judged by TP-NEG-IMPROVE.",
            "A baseline that did not measurably fall is no standard: not judged.",
            "Differences only: shift and sign of the loss do not matter.",
        ),
        references=(RESEARCH, "trainproof 0.22: a quarter of the relative improvement"),
    ),
    subject=SubjectKind.PAIR,
    fires=Example("a tenth of the gain", beside(view(series("loss", falling(60, 4.0, 3.7))), GOOD)),
    silent=Example("nearly the baseline", SIMILAR),
)
def improvement_deficit(
    loss: Series,
    pairs: tuple[Pair, ...],
    facts: Facts,
    *,
    least: Annotated[
        float, Bound("share", "of the baseline's gain: less than it is a deficit", ge=0)
    ] = 0.25,
    certain: Errors = CERTAIN,
) -> Outcome:
    pair = _by_end(pairs)
    gain, base_gain = pair.start - pair.end, pair.base_start - pair.base_end
    short = _in_errors(base_gain - gain, math.hypot(pair.here.doubt, pair.there.doubt))
    found = standing(pair, pair.end, pair.base_end, Limits(math.inf, 0.0, 0.0, 0.0, certain))
    measured = {**_levels(pair, pairs, facts), **_stands(found)}
    measured |= {"gain": gain, "base_gain": base_gain, "gain_errors": short}
    if not pair.base_fell:
        return Undecided(measured, Skip.LOW_POWER)
    if gain >= least * base_gain or found.distance <= least * base_gain:
        return Clean(measured)
    if -gain > certain * pair.here.doubt:
        return Undecided(measured)
    if not min(short, found.errors) > certain:
        return Undecided(measured, Skip.LOW_POWER)
    if multiple(pair) is not None:
        return Undecided(measured)
    return Fired((Evidence(_place(loss, pair), measured),))


# --- a multiple -----------------------------------------------------------------------------------


@rule(
    id="TP-LOSS-SCALED",
    title="The loss is a whole multiple of the baseline's",
    level=Level.FAIL,
    message="{series} is {factor} times the baseline's all along ({direction}), which is {named}.",
    evidence="Ratio of block medians over steps {first_step} to {last_step}: {ratio:.4g}, in every"
    " block within {scatter:.1%}, while the baseline {baseline} went from {base_start:.4g} to"
    " {base_end:.4g}." + DECLARED,
    needs={"loss": LOSS, "pairs": Counterparts(scale=True), "facts": FACTS},
    measures={
        **LEVELS,
        "factor": "the whole number",
        "direction": "whether the run's loss is that multiple or that part of the baseline's",
        "ratio": "median ratio of block levels, run over baseline",
        "scatter": "greatest relative deviation of a block's ratio from it",
        "first_ratio": "ratio of the first values, run over baseline",
        "named": "declared values that equal the number",
    },
    variants={
        "undeclared": Variant(
            Level.WARN,
            "{series} is {factor} times the baseline's all along ({direction}).",
            "Ratio of block medians over steps {first_step} to {last_step}: {ratio:.4g}, in every"
            " block within {scatter:.1%}, while the baseline {baseline} went from {base_start:.4g}"
            " to {base_end:.4g}. No declared value equals the number." + DECLARED,
        ),
        "opening": Variant(
            Level.WARN,
            "{series} begins at {factor} times the baseline's ({direction}), on each of its first"
            " three values.",
            "The ratio of the first is {first_ratio:.6g}, that of none of the three deviates by"
            " more than {scatter:.2%}: the same start and the same batches, another scale. Later"
            " the two go different ways; baseline {baseline} went from {base_start:.4g} to"
            " {base_end:.4g}." + DECLARED,
        ),
        "exact": Variant(
            Level.WARN,
            "{series} begins at exactly {factor} times the baseline's ({direction}).",
            "The ratio of the first values is {first_ratio:.8g}: the same start and the same first"
            " batch, another scale. Later the two go different ways; baseline {baseline} went from"
            " {base_start:.4g} to {base_end:.4g}." + DECLARED,
        ),
    },
    doc=Doc(
        measures="The ratio of the block medians of both runs at the same steps, and how flat it"
        " is over the run.",
        means="The loss is summed where the other is averaged: over accumulation steps, devices or"
        " the batch. If gradients are scaled alike, so is the learning rate.",
        does_not_mean="That the run is worse than the baseline, nor which of the two is right.",
        guards=(
            "The ratio must be within 3 % of a whole number, scatter by no more than that from"
            " block to block and nowhere leave it by 9 %, while the baseline moves by a quarter.",
            "Or the first three values of both, logged at the same steps and with digits enough,"
            " have the same whole number as their ratio, to half a percent; or the first ones alone"
            " to a thousandth of a percent, where they are no round numbers: a warning. This holds"
            " for losses of any sign, and where a loss is no measure of progress.",
            "A failure only where a declared value equals the number; a warning otherwise: a sum"
            " may be meant.",
            "The rules for floor, end and improvement then do not judge.",
        ),
        references=(
            "transformers #34191, #37197, #37474: loss not divided by accumulation steps",
            "axolotl #1100, open-instruct #995",
        ),
    ),
    subject=SubjectKind.PAIR,
    fires=Example(
        "four times the loss, four accumulation steps",
        beside(
            view(series("loss", falling(60, 16.0, 4.0)), facts=Facts(grad_accumulation=4)),
            view(series("loss", falling(60, 4.0, 1.0)), facts=Facts(grad_accumulation=1)),
        ),
    ),
    silent=Example("nearly the baseline", SIMILAR),
)
def loss_scaled(loss: Series, pairs: tuple[Pair, ...], facts: Facts) -> Outcome:
    pair = _by_end(pairs)
    measured = _levels(pair, pairs, facts)
    if not pair.natural or pair.blocks < LEAST_BLOCKS:
        return _opens_scaled(loss, pair, measured) or Undecided(measured, Skip.NEED_DEGENERATE)
    measured["ratio"] = median(pair.levels / pair.base)
    found = multiple(pair)
    if found is None:
        return _opens_scaled(loss, pair, measured) or Clean(measured)
    named = _equal_to(found.factor, facts, pair.facts)
    measured |= {
        "factor": found.factor,
        "direction": _direction(found),
        "scatter": found.scatter,
        "named": named or "no declared value",
    }
    return Fired((Evidence(_place(loss, pair), measured, "" if named else "undeclared"),))


def _opens_scaled(series: Series, pair: Pair, measured: dict[str, Value]) -> Fired | None:
    found = opening_multiple(series, pair)
    if found is None:
        return None
    measured |= {
        "factor": found.factor,
        "direction": _direction(found),
        "first_ratio": found.ratio,
        "scatter": found.scatter,
    }
    variant = "exact" if found.exact else "opening"
    return Fired((Evidence(_place(series, pair), measured, variant),))


def _direction(found: Multiple) -> str:
    return "that part of it" if found.inverse else "that multiple of it"


_MULTIPLIERS = {
    "grad_accumulation": "gradient accumulation",
    "world_size": "world size",
    "batch_size": "batch size",
}


def _equal_to(factor: int, run: Facts, baseline: Facts) -> str:
    """The declared values of either run that equal the number."""
    owners = (("run", run), ("baseline", baseline))
    found = [
        f"the {words} of the {owner}"
        for name, words in _MULTIPLIERS.items()
        for owner, facts in owners
        if getattr(facts, name) == factor
    ]
    found += [
        f"world size times gradient accumulation of the {owner}"
        for owner, facts in owners
        if min(facts.world_size or 1, facts.grad_accumulation or 1) > 1
        and (facts.world_size or 1) * (facts.grad_accumulation or 1) == factor
    ]
    return ", ".join(found)


# --- gradients -----------------------------------------------------------------------------------


@rule(
    id="TP-GRADNORM-RATIO",
    title="The gradient norm is far from the baseline's",
    level=Level.WARN,
    message="{series} is {ratio:.3g} times the baseline's over most of the steps that both cover.",
    evidence="Block medians over steps {first_step} to {last_step}, against {baseline_series} of"
    " {baseline}: in {beyond:.0%} of {blocks} blocks the ratio is beyond {limit:g} (limit"
    " {most:.0%})." + DECLARED,
    needs={
        "grad": Each((Role.GRAD_NORM,), points=LEAST_POINTS, which=Which.PRINCIPAL),
        "pairs": Counterparts(scale=True),
        "facts": FACTS,
        "run": Whole(),
    },
    measures={
        "baseline": LEVELS["baseline"],
        "baseline_series": LEVELS["baseline_series"],
        "blocks": "blocks of steps",
        "ratio": "median ratio of block medians, run over baseline",
        "beyond": "share of the blocks in which the ratio is beyond the limit",
        "differences": LEVELS["differences"],
        "factor": "the whole number that the ratio of the first values is",
        "direction": "whether the run's norm is that multiple or that part of the baseline's",
        "first_ratio": "ratio of the first values, run over baseline",
        "scatter": "greatest relative deviation of the first three ratios from the number",
    },
    variants={
        "below": Variant(
            Level.WARN,
            "{series} is {ratio:.3g} times the baseline's over most of the steps that both cover.",
            "Block medians over steps {first_step} to {last_step}, against {baseline_series} of"
            " {baseline}: in {beyond:.0%} of {blocks} blocks the baseline's is more than {limit:g}"
            " times as large (limit {most:.0%})." + DECLARED,
        ),
        "opening": Variant(
            Level.WARN,
            "{series} begins at {factor} times the baseline's ({direction}), on each of its first"
            " three values.",
            "The ratio of the first is {first_ratio:.6g}, that of none of the three deviates by"
            " more than {scatter:.2%}: the same start and the same batches, another scale."
            + DECLARED,
        ),
        "exact": Variant(
            Level.WARN,
            "{series} begins at exactly {factor} times the baseline's ({direction}).",
            "The ratio of the first values is {first_ratio:.8g}: the same start and the same first"
            " batch, another scale." + DECLARED,
        ),
    },
    doc=Doc(
        measures="The ratio of the block medians of both gradient norms.",
        means="Gradients are scaled differently, or the runs are in different regions.",
        does_not_mean="That either run is wrong: a batch sixteen times smaller alone may make noise"
        " four times as large, and some frameworks log the norm after clipping.",
        guards=(
            "Most blocks must be beyond the limit on the same side, not a spike.",
            "In reinforcement and adversarial training levels say nothing: there it is judged only"
            " whether the norms begin at a whole multiple of one another, as in TP-LOSS-SCALED.",
            "A warning at most; declared differences are listed beside it.",
            "Of several baselines the one with the nearest norm counts.",
        ),
        references=(
            "trainproof 0.22: ratio of gradient norms",
            "the gallery: 0 of 24 pairs of healthy runs, 9 of 9 at a learning rate that is too hot"
            " for plain torch",
        ),
    ),
    subject=SubjectKind.PAIR,
    fires=Example(
        "ten times the norm",
        beside(
            view(series("grad_norm", falling(60, 20.0, 10.0))),
            view(series("grad_norm", falling(60, 2.0, 1.0))),
        ),
    ),
    silent=Example(
        "nearly the same norm",
        beside(
            view(series("grad_norm", falling(60, 2.2, 1.1))),
            view(series("grad_norm", falling(60, 2.0, 1.0))),
        ),
    ),
)
def gradient_ratio(
    grad: Series,
    pairs: tuple[Pair, ...],
    facts: Facts,
    run: RunView,
    *,
    limit: Annotated[float, Bound("ratio", "beyond it, or below its inverse", ge=1)] = 5.0,
    most: Annotated[float, Bound("share", "of the blocks beyond it", ge=0, le=1)] = 0.8,
) -> Outcome:
    positive = [pair for pair in pairs if pair.natural and pair.blocks >= LEAST_BLOCKS]
    if not positive:
        return Undecided({"baseline": pairs[0].baseline, "blocks": 0}, Skip.NEED_DEGENERATE)
    pair = min(positive, key=lambda one: float(np.abs(np.log(_typical(one)))))
    ratios = pair.levels / pair.base
    above, below = float((ratios > limit).mean()), float((ratios < 1 / limit).mean())
    measured: dict[str, Value] = {
        "baseline": pair.baseline,
        "baseline_series": pair.series,
        "blocks": pair.blocks,
        "ratio": _typical(pair),
        "beyond": max(above, below),
        "differences": "; ".join(differences(facts, pair.facts)) or "none",
    }
    if run.regime in UNCOMPARED:
        return _opens_scaled(grad, pair, measured) or Undecided(measured, Skip.UNCOMPARABLE)
    if max(above, below) < most or not max(above, below):
        return Clean(measured)
    return Fired((Evidence(_place(grad, pair), measured, "" if above > below else "below"),))


def _typical(pair: Pair) -> float:
    return median(pair.levels / pair.base)


# --- siblings -------------------------------------------------------------------------------------


@rule(
    id="TP-OUTSIDE-ENVELOPE",
    title="The loss runs outside of its siblings' range",
    level=Level.WARN,
    message="{series} runs above all of its {baselines} siblings in {outside} of {blocks} blocks of"
    " steps.",
    evidence="Over steps {first_step} to {last_step} its level lies beyond the siblings' highest by"
    " more than their whole range (and three standard errors) in {outside} blocks, at least {least}"
    " count; in the last block it is at {end:.4g}, they at {lowest:.4g} to {highest:.4g}."
    + DECLARED,
    needs={"loss": LOSS, "pairs": Counterparts(least=5), "facts": FACTS},
    measures={
        "baselines": "siblings compared with",
        "blocks": "blocks of steps that all cover",
        "outside": "blocks in which the run lies outside by more than the siblings' range",
        "least": "blocks that count",
        "end": "the run's level in the last block",
        "lowest": "the lowest of the siblings' there",
        "highest": "the highest of the siblings' there",
        "differences": "what the run declares differently from its siblings",
    },
    variants={
        "below": Variant(
            Level.INFO,
            "{series} runs below all of its {baselines} siblings in {outside} of {blocks} blocks of"
            " steps.",
            "Over steps {first_step} to {last_step} its level lies below the siblings' lowest by"
            " more than their whole range; in the last block it is at {end:.4g}, they at"
            " {lowest:.4g} to {highest:.4g}." + DECLARED,
        )
    },
    doc=Doc(
        measures="In each block of steps, how far the run's level lies outside the range of at"
        " least five siblings, in units of that range.",
        means="The run is not one of them: five runs that differ in their seed set a range that a"
        " sixth rarely leaves by as much again.",
        does_not_mean="That it fails: it may have been meant to differ.",
        guards=(
            "Five siblings at least, otherwise not checked.",
            "A quarter of the blocks must be outside on the same side, and beyond the noise of a"
            " level.",
        ),
        references=(
            "MLPerf reference convergence points: runs are judged against several",
            "SageMaker Debugger: SimilarAcrossRuns",
        ),
    ),
    subject=SubjectKind.PAIR,
    fires=Example(
        "a third above five seeds",
        beside(
            view(series("loss", falling(60, 5.6, 1.4))),
            *(view(series("loss", falling(60, 4.0 + k / 50, 1.0 + k / 200))) for k in range(5)),
        ),
    ),
    silent=Example(
        "among five seeds",
        beside(
            view(series("loss", falling(60, 4.05, 1.01))),
            *(view(series("loss", falling(60, 4.0 + k / 50, 1.0 + k / 200))) for k in range(5)),
        ),
    ),
)
def outside_envelope(
    loss: Series,
    pairs: tuple[Pair, ...],
    facts: Facts,
    *,
    share: Annotated[
        float, Bound("share", "of the blocks that must be outside", ge=0, le=1)
    ] = 0.25,
) -> Outcome:
    coarse = min(pairs, key=lambda pair: (pair.blocks, pair.stop - pair.begin))
    others = np.array([np.interp(coarse.centres, one.centres, one.base) for one in pairs])
    low, high = others.min(axis=0), others.max(axis=0)
    margin = np.maximum(high - low, 3 * coarse.error)
    above = int(np.count_nonzero(coarse.levels > high + margin))
    below = int(np.count_nonzero(coarse.levels < low - margin))
    least = max(2, math.ceil(share * coarse.blocks))
    measured: dict[str, Value] = {
        "baselines": len(pairs),
        "blocks": coarse.blocks,
        "outside": max(above, below),
        "least": least,
        "end": coarse.end,
        "lowest": float(low[-1]),
        "highest": float(high[-1]),
        "differences": _from_all(facts, pairs),
    }
    if max(above, below) < least:
        return Clean(measured)
    return Fired((Evidence(_place(loss, coarse), measured, "" if above >= below else "below"),))


def _from_all(facts: Facts, pairs: tuple[Pair, ...]) -> str:
    """What the run declares differently from every sibling."""
    each = [differences(facts, pair.facts) for pair in pairs]
    common = [one for one in each[0] if all(one in other for other in each)]
    return "; ".join(common) or "none"


@rule(
    id="TP-SEED-START",
    title="Same seed, different start",
    level=Level.WARN,
    message="{series} starts differently from the baseline {baseline}, though both declare the seed"
    " {seed}.",
    evidence="At step {first_step} {first:.6g}, the baseline's {baseline_series} {base_first:.6g}:"
    " {off:.2g} relative (limit {same:g}), over the first {rows} rows {typical:.2g}." + DECLARED,
    needs={
        "loss": Each((Role.LOSS,), points=3, which=Which.OBJECTIVE),
        "run": Compared(),
        "facts": Declared("seed"),
    },
    measures={
        "seed": "the declared seed",
        "baselines": "baselines that declare the same seed and log the same first steps",
        "baseline": "the one whose start is nearest",
        "baseline_series": "its series",
        "rows": "first rows compared, at the same steps",
        "first": "the run's first value",
        "base_first": "the baseline's first value",
        "off": "relative difference of the first values",
        "typical": "median relative difference of the first rows",
        "differences": LEVELS["differences"],
    },
    doc=Doc(
        measures="The first three logged losses of two runs that declare the same seed.",
        means="They did not start from the same weights on the same data: something that is not"
        " the seed differs.",
        does_not_mean="That either is wrong. A changed batch size, data set or precision changes"
        " the start; nondeterministic kernels change it little.",
        guards=(
            "Only rows at the same steps, the first of them among the first twenty steps.",
            "The first row and the median of three must both differ by more than one in a"
            " thousand.",
            "Declared differences that change the start (batch, precision, devices, accumulation):"
            " not judged.",
        ),
        references=(
            "PyTorch notes on reproducibility",
            "Pham et al. 2020: variance of training",
            "the gallery: equal seeds start alike unless labels or rate differ",
        ),
    ),
    subject=SubjectKind.PAIR,
    fires=Example(
        "seed 1 twice, 4.0 and 5.0",
        beside(
            view(series("loss", falling(60, 5.0, 1.0)), facts=Facts(seed=1)),
            view(series("loss", falling(60, 4.0, 1.0)), facts=Facts(seed=1)),
        ),
    ),
    silent=Example(
        "seed 1 twice, the same start",
        beside(
            view(series("loss", falling(60, 4.0, 1.0)), facts=Facts(seed=1)),
            view(series("loss", falling(60, 4.0, 1.0)), facts=Facts(seed=1)),
        ),
    ),
)
def seed_start(
    loss: Series,
    run: RunView,
    facts: Facts,
    *,
    same: Annotated[
        float, Bound("relative", "difference of values that are the same", ge=0)
    ] = 1e-3,
    latest: Annotated[int, Bound("steps", "at which the first row may lie", ge=0)] = 20,
) -> Outcome:
    seed = facts.seed or 0
    starts = [_start(loss, one) for one in run.baselines if one.facts.seed == facts.seed]
    found = [start for start in starts if start is not None]
    measured: dict[str, Value] = {"seed": seed, "baselines": len(found)}
    if not found:
        return Undecided(measured, Skip.NEED_ABSENT)
    start = min(found, key=lambda one: one.off)
    measured |= {
        "baseline": start.baseline.id,
        "baseline_series": start.series.tag,
        "rows": start.rows,
        "first": float(loss.values[start.at]),
        "base_first": float(start.series.values[0]),
        "off": start.off,
        "typical": start.typical,
        "differences": "; ".join(differences(facts, start.baseline.facts)) or "none",
    }
    if max(start.off, start.typical) <= same:
        return Clean(measured)
    if not min(start.off, start.typical) > same or int(loss.steps[start.at]) > latest:
        return Undecided(measured)
    if any(getattr(facts, name) != getattr(start.baseline.facts, name) for name in _STARTING):
        return Undecided(measured)
    return Fired((Evidence(where(loss, start.at, start.at + start.rows - 1), measured),))


_STARTING = ("batch_size", "grad_accumulation", "world_size", "precision")
"""Declared values that change the first batch or its loss."""

_ROWS = 3


class _Start(msgspec.Struct, frozen=True, eq=False):
    """The first rows of both at the same steps; ``at``: their position in the run's series."""

    baseline: RunView
    series: Series
    at: int
    rows: int
    off: float
    typical: float


def _start(loss: Series, baseline: RunView) -> _Start | None:
    twin = counterpart(loss, baseline)
    if twin is None or twin.column.axis is not loss.column.axis:
        return None
    both = shared_steps(loss, twin)
    rows = min(_ROWS, len(both.here))
    if not rows or both.here[0] != 0 or both.there[0] != 0:
        return None
    ours, theirs = loss.values[both.here[:rows]], twin.values[both.there[:rows]]
    off = np.abs(ours - theirs) / np.maximum(np.abs(theirs), np.finfo(np.float64).tiny)
    if not np.isfinite(off).all():
        return None
    return _Start(baseline, twin, 0, rows, float(off[0]), median(off))


# --- the statement of a comparison ------------------------------------------------------------


@rule(
    id="TP-CMP-PASS",
    title="The run keeps up with the baseline",
    level=Level.INFO,
    message="{series} keeps up with the baseline {baseline}: {end:.4g} at the same step, the"
    " baseline {base_end:.4g}.",
    evidence="Block medians over steps {first_step} to {last_step}: {start:.4g} to {end:.4g}, floor"
    " {floor:.4g}; the baseline's {baseline_series} {base_start:.4g} to {base_end:.4g}, floor"
    " {base_floor:.4g}; {errors:+.3g} standard errors at the end." + DECLARED,
    needs={"loss": LOSS, "pairs": PAIRS, "facts": FACTS},
    measures={**LEVELS, **STANDING},
    doc=Doc(
        measures="The same levels as the rules for floor and end.",
        means="Neither floor nor end is beyond the limits, the noise could not hide it, and the end"
        " lies within three standard errors or a quarter of the baseline's gain.",
        does_not_mean="That the run is as good as the baseline: only a wide margin is excluded."
        " Nor that the baseline is good.",
        guards=("Said only where both rules, at their default limits, are clean.",),
        references=("trainproof 0.22: the statement of a comparison that passed",),
    ),
    subject=SubjectKind.PAIR,
    fires=Example("nearly the baseline", SIMILAR),
    silent=Example("an end five times as high", WORSE),
)
def keeps_up(loss: Series, pairs: tuple[Pair, ...], facts: Facts) -> Outcome:
    pair, limits = _by_end(pairs), Limits(2.0, 0.1, 0.5, 0.75, CERTAIN)
    low = _by_floor(pairs)
    end = standing(pair, pair.end, pair.base_end, limits)
    floor = standing(low, low.floor, low.base_floor, limits)
    measured = {**_levels(pair, pairs, facts), **_stands(end)}
    close = end.distance <= 3 * pair.error or end.distance <= 0.25 * (
        pair.base_start - pair.base_end
    )
    if not (end.within and floor.within and close):
        return Clean(measured)
    return Fired((Evidence(_place(loss, pair), measured),))
