"""A run among several others of the same task: what it needed, how fast it was, what it shares."""

import math
from itertools import pairwise
from typing import Annotated

import msgspec
import numpy as np

from trainproof.model.data import Facts, Floats, Role, RunView, Series, Split
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Skip, Undecided, Value
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
    rule,
    where,
)
from .pairs import LEAST_POINTS, Pair, counterpart, differences
from .statistics import median, printed_quantum, profile, shared_steps, stretches
from .throughput import SPEEDS

FIVE = Counterparts(least=5)
FOUR = Counterparts(least=4)
LOSS = Each((Role.LOSS,), points=LEAST_POINTS, which=Which.PRINCIPAL)

REST = 0.1
"""Share of a sibling's fall that may be left at the target: nearer to the end it hardly falls."""

AMONG_FIVE = tuple(
    view(series("loss", falling(100, 4.0 + k / 50, 1.0 + k / 200))) for k in range(5)
)


# --- what it needed -------------------------------------------------------------------------------


@rule(
    id="TP-STEPS-TO-TARGET",
    title="The run needs more steps than its siblings",
    level=Level.WARN,
    message="{series} reaches {target:.4g}, which all of its {baselines} siblings reached, at step"
    " {reached:.0f}; the slowest of them did at step {slowest:.0f}.",
    evidence="That is {ratio:.3g} times the siblings' median of {usual:.0f} (limit {limit:g});"
    " a standard error of {error:.3g} is in the run's favour.",
    needs={"loss": LOSS, "pairs": FIVE, "facts": Declared()},
    measures={
        "baselines": "siblings compared with",
        "target": "the highest level at which a sibling has nine tenths of its fall behind it",
        "reached": "step at which the run reaches the target, by block medians",
        "usual": "the median of the siblings' steps",
        "slowest": "the greatest of them",
        "ratio": "reached over usual",
        "error": "standard error of a level of the run against one of a sibling",
        "end": "the run's lowest level",
    },
    variants={
        "never": Variant(
            Level.WARN,
            "{series} never reaches {target:.4g}, which all of its {baselines} siblings reached by"
            " step {slowest:.0f}: its lowest level is {end:.4g}.",
            "The siblings needed {usual:.0f} steps in the median; the run was followed for more"
            " than {limit:g} times as many, and a standard error of {error:.3g} is in its favour.",
        )
    },
    doc=Doc(
        measures="The step at which a level is reached that lies behind nine tenths of the fall of"
        " each of at least five siblings.",
        means="It learns the same more slowly: by more than their spread and a fifth.",
        does_not_mean="That it ends worse.",
        guards=(
            "Five siblings at least, each of which fell beyond doubt.",
            "Later than the slowest sibling and than 1.2 times the median; a level counts as"
            " reached a standard error above the target.",
            "A run that was not followed for long enough is not judged.",
        ),
        references=(
            "MLPerf reference convergence points; Training v4.0: 99 % of results of seven tasks"
            " within 1.2 times the median",
        ),
    ),
    subject=SubjectKind.PAIR,
    fires=Example(
        "three fifths slower",
        beside(view(series("loss", falling(160, 4.0, 1.0))), *AMONG_FIVE),
    ),
    silent=Example(
        "among five seeds", beside(view(series("loss", falling(100, 4.05, 1.01))), *AMONG_FIVE)
    ),
)
def steps_to_target(
    loss: Series,
    pairs: tuple[Pair, ...],
    facts: Facts,
    *,
    limit: Annotated[float, Bound("ratio", "to the siblings' median of steps", ge=1)] = 1.2,
) -> Outcome:
    fell = [pair for pair in pairs if pair.base_fell and pair.finite]
    measured: dict[str, Value] = {"baselines": len(fell)}
    if len(fell) < FIVE.least:
        return Undecided(measured, Skip.LOW_POWER)
    target = max(pair.base_floor + REST * (pair.base_start - pair.base_floor) for pair in fell)
    needed = [_reached(pair.centres, pair.base, target) for pair in fell]
    usual, slowest = median(np.array(needed)), max(needed)
    error = max(pair.doubt for pair in fell)
    seen = profile(loss)
    middles = np.array([loss.steps[a:b].mean() for a, b in pairwise(seen.edges)])
    reached = _reached(middles, seen.medians, target + error)
    measured |= {
        "target": target,
        "usual": usual,
        "slowest": slowest,
        "error": error,
        "end": float(seen.medians.min()),
    }
    least = max(limit * usual, slowest)
    if math.isfinite(reached):
        measured |= {"reached": reached, "ratio": reached / usual if usual > 0 else math.inf}
        return Clean(measured) if reached <= least else Fired((Evidence(where(loss), measured),))
    if loss.steps[-1] <= least:
        return Undecided(measured)
    return Fired((Evidence(where(loss), measured, "never"),))


def _reached(centres: Floats, levels: Floats, target: float) -> float:
    """Where the levels first fall to the target, between the middles of blocks; else infinity."""
    low = np.flatnonzero(levels <= target)
    if not len(low):
        return math.inf
    at = int(low[0])
    if not at:
        return float(centres[0])
    above, below = float(levels[at - 1]), float(levels[at])
    share = (above - target) / (above - below) if above > below else 1.0
    return float(centres[at - 1] + share * (centres[at] - centres[at - 1]))


# --- how fast it was ------------------------------------------------------------------------------


@rule(
    id="TP-SLOWER-THAN-SIBLINGS",
    title="The run is slower than its siblings",
    level=Level.WARN,
    message="By {series}, the run goes at {ratio:.0%} of the median speed of its {baselines}"
    " siblings; the slowest of them goes at {slowest:.0%}.",
    evidence="Medians: {own:.4g} here, {usual:.4g} among the siblings (limit {limit:.0%}).",
    needs={
        "speed": Each(SPEEDS, Split.TRAIN, points=LEAST_POINTS),
        "pairs": FOUR,
        "facts": Declared(),
    },
    measures={
        "baselines": "siblings compared with",
        "own": "median of the run's values",
        "usual": "median of the siblings' medians",
        "ratio": "speed of the run over the siblings' median speed",
        "slowest": "the slowest sibling's speed over their median speed",
        "differences": "what the run declares differently from its siblings",
    },
    doc=Doc(
        measures="The median step time, or throughput, against that of at least four siblings.",
        means="On the same work this run is slower than every one of them.",
        does_not_mean="That its machine is at fault: a different batch or sequence length, or"
        " another machine, is slower too.",
        guards=(
            "Four siblings at least; the run must be slower than the slowest of them.",
            "Declared differences in batch, accumulation, devices or precision: not judged.",
        ),
        references=(
            "MLPerf Training v4.0: 0 of 1,474 runs below 90 % of the median of their siblings",
        ),
    ),
    subject=SubjectKind.PAIR,
    fires=Example(
        "a fifth slower than four",
        beside(
            view(series("step_time", [0.12, 0.13, 0.125] * 10)),
            *(view(series("step_time", [0.1 + k / 1000, 0.11, 0.1] * 10)) for k in range(4)),
        ),
    ),
    silent=Example(
        "as fast as four",
        beside(
            view(series("step_time", [0.1, 0.11, 0.1] * 10)),
            *(view(series("step_time", [0.1 + k / 1000, 0.11, 0.1] * 10)) for k in range(4)),
        ),
    ),
)
def slower_than_siblings(
    speed: Series,
    pairs: tuple[Pair, ...],
    facts: Facts,
    *,
    limit: Annotated[
        float, Bound("share", "of the siblings' median speed, below which it is slow", ge=0, le=1)
    ] = 0.9,
) -> Outcome:
    own, others = median(speed.values), np.array([median(pair.base) for pair in pairs])
    usual = median(others)
    measured: dict[str, Value] = {"baselines": len(pairs), "own": own, "usual": usual}
    changed = [one for pair in pairs for one in differences(facts, pair.facts) if _matters(one)]
    if changed:
        return Undecided({**measured, "differences": changed[0]})
    if not (own > 0 and others.min() > 0):
        return Undecided(measured, Skip.NEED_DEGENERATE)
    timed = speed.role is Role.STEP_TIME
    ratio = usual / own if timed else own / usual
    slowest = float(usual / others.max() if timed else others.min() / usual)
    measured |= {"ratio": ratio, "slowest": slowest}
    if ratio >= min(limit, slowest):
        return Clean(measured)
    return Fired((Evidence(where(speed), measured),))


def _matters(difference: str) -> bool:
    """Whether a declared difference changes the work of a step."""
    work = ("batch_size", "grad_accumulation", "world_size", "precision")
    return difference.split(" ", 1)[0] in work


# --- what it shares -------------------------------------------------------------------------------


@rule(
    id="TP-COPIED-SERIES",
    title="A part of the log is that of another run",
    level=Level.WARN,
    message="{series} and the baseline {baseline} hold the same {equal} values, digit by digit, at"
    " the same steps, {first_step} to {last_step}.",
    evidence="{equal} consecutive rows of {points} are equal (from {rows} on they count), with"
    " {distinct} distinct values; seeds declared: {seed} here, {base_seed} there.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, points=20, which=Which.PRINCIPAL),
        "run": Compared(),
        "facts": Declared(),
    },
    measures={
        "points": "rows at the same steps",
        "equal": "most consecutive rows at the same steps with equal values",
        "distinct": "distinct values among them",
        "baseline": "the run that holds the same values",
        "seed": "the declared seed, or none",
        "base_seed": "the baseline's",
    },
    variants={
        "replayed": Variant(
            Level.INFO,
            "{series} and the baseline {baseline}, which declare the same seed, hold the same"
            " {equal} values, digit by digit.",
            "{equal} consecutive rows of {points} are equal, with {distinct} distinct values.",
        )
    },
    doc=Doc(
        measures="The longest stretch of rows that is equal to the last digit in two runs.",
        means="One of the two was written, in part, from the other: a copied log, or a run that was"
        " continued under another name. They are not two independent runs.",
        does_not_mean="That anything is wrong with the training.",
        guards=(
            "Twenty rows at least, with ten distinct values of six digits or more.",
            "Equal seeds may replay the same values: a note.",
        ),
        references=("KellerJordan/modded-nanogpt: 54 of 1,538 logs hold a copied baseline",),
    ),
    subject=SubjectKind.PAIR,
    fires=Example(
        "the first half is the same",
        beside(
            view(series("loss", falling(60) + falling(60, 1.0, 0.5))),
            view(series("loss", falling(60) + falling(60, 1.1, 0.6))),
        ),
    ),
    silent=Example(
        "two runs",
        beside(view(series("loss", falling(60, 4.01))), view(series("loss", falling(60)))),
    ),
)
def copied(
    loss: Series,
    run: RunView,
    facts: Facts,
    *,
    rows: Annotated[int, Bound("rows", "consecutive equal ones that count", ge=5)] = 20,
    distinct: Annotated[int, Bound("values", "different ones among them", ge=2)] = 10,
) -> Outcome:
    twins = [(one, counterpart(loss, one)) for one in run.baselines]
    found = [_shared(loss, twin, one) for one, twin in twins if twin is not None]
    if not found:
        return Undecided({"points": 0}, Skip.UNCOMPARABLE)
    best = max(found, key=lambda item: item.equal)
    same = loss.values[best.begin : best.begin + best.equal]
    other = best.baseline.facts.seed
    measured: dict[str, Value] = {
        "points": best.points,
        "equal": best.equal,
        "distinct": len(np.unique(same)),
        "baseline": best.baseline.id,
        "seed": _told(facts.seed),
        "base_seed": _told(other),
    }
    if best.equal < rows or len(np.unique(same)) < distinct:
        return Clean(measured)
    quantum = printed_quantum(same)
    if quantum is not None and quantum > 1e-5 * abs(median(same)):
        return Undecided(measured, Skip.LOW_POWER)
    replayed = facts.seed is not None and facts.seed == other
    place = where(loss, best.begin, best.begin + best.equal - 1)
    return Fired((Evidence(place, measured, "replayed" if replayed else ""),))


class _Shared(msgspec.Struct, frozen=True, eq=False):
    """Rows of the same steps in both; ``begin`` and ``equal``: the longest stretch of equal ones,
    by rows of the run."""

    baseline: RunView
    points: int
    begin: int
    equal: int


def _shared(loss: Series, twin: Series, baseline: RunView) -> _Shared:
    if loss.column.axis is not twin.column.axis:
        return _Shared(baseline, 0, 0, 0)
    both = shared_steps(loss, twin)
    same = np.zeros(len(loss), np.bool_)
    same[both.here] = loss.values[both.here] == twin.values[both.there]
    runs = stretches(same)
    if not len(runs.starts):
        return _Shared(baseline, len(both.here), 0, 0)
    longest = int(np.argmax(runs.lengths))
    begin, equal = int(runs.starts[longest]), int(runs.lengths[longest])
    return _Shared(baseline, len(both.here), begin, equal)


def _told(seed: int | None) -> str:
    return "none" if seed is None else str(seed)
