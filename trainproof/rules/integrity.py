"""The log itself: what it holds, what it lacks, and how much of the run it shows."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Annotated

import msgspec
import numpy as np

from trainproof.model.data import (
    Attempt,
    Axis,
    Facts,
    Fault,
    FaultCode,
    Floats,
    Regime,
    Rewind,
    Role,
    RunView,
    Series,
    Split,
)
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
from trainproof.model.rule import Doc, Variant

from .examples import falling, series, view
from .interface import (
    Bound,
    Each,
    Example,
    Together,
    Which,
    Whole,
    rule,
    starts_late,
    where,
)
from .statistics import greatest_of, least_of, median, median_of_three, normal_tail, rises, screen

LISTED = 20
"""Places named per rule; the rest is counted."""


@rule(
    id="TP-NOT-A-LOSS",
    title="A series is logged as a loss and is none",
    level=Level.WARN,
    message="{series} is logged as a loss and looks like {looks_like}.",
    evidence="All {points} finite values from step {first_step} to {last_step} fit that, from"
    " {least:.6g} to {greatest:.6g}; no loss rule judged it.",
    needs={"loss": Each((Role.LOSS,), points=5, nonfinite=1.0, screened=False)},
    measures={
        "points": "finite values",
        "looks_like": "what the values are instead",
        "least": "the lowest value",
        "greatest": "the greatest value",
    },
    doc=Doc(
        measures="Whether every value is a power of two from 16 up (a mixed-precision loss scale)"
        " or a greater integer than the one before (a counter).",
        means="Loss rules have nothing to say about such a series, and none was applied to it.",
        does_not_mean="That the run has no loss: it may be logged under another name.",
        guards=("Five values or more, all of which must fit.",),
        references=(
            "mlcommons training_results_v4.0, unet3d: `train_loss` holds the loss scale in 836"
            " of 836 successful runs",
        ),
    ),
    fires=Example(
        "a loss scale under a loss name",
        view(series("loss", [65536.0, 32768.0, 16384.0, 8192.0, 8192.0, 16384.0])),
    ),
    silent=Example("a falling loss", view(series("loss", falling(20)))),
)
def not_a_loss(loss: Series) -> Outcome:
    seen = screen(loss)
    points = len(loss) - seen.nonfinite
    if seen.looks_like is None:
        return Clean({"points": points})
    finite = loss.values[np.isfinite(loss.values)]
    measured: dict[str, Value] = {
        "points": points,
        "looks_like": seen.looks_like,
        "least": float(finite.min()),
        "greatest": float(finite.max()),
    }
    return Fired((Evidence(where(loss), measured),))


@rule(
    id="TP-LOG-TRUNCATED",
    title="A part of the log could not be read",
    level=Level.WARN,
    message="{artifact} could not be read completely: {detail}.",
    evidence="{count} problem(s) of the kind '{code}' in this file; what was read before is"
    " judged.",
    needs={"run": Whole(series=False)},
    measures={
        "count": "problems of this kind in the file, or in all files",
        "code": "kind of problem",
        "detail": "what the reader says of the first one",
    },
    doc=Doc(
        measures="Problems that readers met: a cut last record, a checksum that does not match, a"
        " limit.",
        means="The log holds less than was written, or less than its format promises.",
        does_not_mean="That the run failed: a log that is still being written ends like this.",
        guards=("The verdict covers what could be read, and this finding says what is missing.",),
        references=("Lightning #688: files cut by a crash while writing",),
    ),
    fires=Example(
        "the last record is cut",
        view(
            series("loss", falling(20)),
            faults=(Fault(FaultCode.TRUNCATED, "log.jsonl", "the last line is cut", False, 21),),
        ),
    ),
    silent=Example("everything was read", view(series("loss", falling(20)))),
)
def truncated(run: RunView) -> Outcome:
    if not run.faults:
        return Clean({"count": 0})
    kinds = sorted(run.faults, key=_kind)
    evidence = [_unread(list(group)) for _, group in groupby(kinds, key=_kind)]
    return Fired(tuple(evidence[:LISTED]))


def _kind(fault: Fault) -> tuple[str, str]:
    return fault.artifact, str(fault.code)


def _unread(faults: list[Fault]) -> Evidence:
    first = faults[0]
    place = Where(first.artifact, line=first.line)
    detail = first.detail.rstrip(".") or str(first.code)
    return Evidence(place, {"count": len(faults), "code": str(first.code), "detail": detail})


@rule(
    id="TP-LOG-GAP",
    title="Rows are missing inside the log",
    level=Level.WARN,
    message="{series} has no row between steps {first_step} and {last_step}, where it logs every"
    " {cadence:g} steps.",
    evidence="{gaps} gap(s) of more than {factor:g} times the usual distance before and after;"
    " together they hide {missing:.1%} of the steps from {begin} to {end}.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, points=5, nonfinite=1.0, which=Which.PRINCIPAL),
        "beside": Together(),
    },
    measures={
        "points": "rows logged",
        "cadence": "usual distance between rows around the widest gap, in steps",
        "gaps": "gaps found",
        "missing": "share of the steps that lie within gaps, or behind the last row",
        "begin": "first step logged",
        "end": "last step logged",
        "witness": "a series that was logged on the same steps and goes on",
        "until": "its last step",
        "later": "its rows after the last one of the loss",
    },
    variants={
        "ends": Variant(
            Level.WARN,
            "{series} has no value after step {end}; {witness}, logged on the same steps until"
            " then, goes on to step {until}.",
            "{later} rows of {witness} follow on the {points} of {series}, over {missing:.1%} of"
            " its steps.",
        ),
        "small": Variant(
            Level.INFO,
            "{series} has no row between steps {first_step} and {last_step}, where it logs every"
            " {cadence:g} steps.",
            "{gaps} gap(s) of more than {factor:g} times the usual distance before and after;"
            " together they hide {missing:.1%} of the steps from {begin} to {end}.",
        ),
    },
    doc=Doc(
        measures="Distances between logged steps, against the usual distance just before and just"
        " after; and whether rows go on without a loss.",
        means="Rows of the run are not in this log, or hold no loss; what happened there is not"
        " judged. Some writers (pandas, orjson) leave out a value that is NaN.",
        does_not_mean="That training stopped: a tracker may have dropped rows.",
        guards=(
            "A cadence that changes for good is no gap: both sides must be denser.",
            "One or two missing rows do not count; gaps below 2 % of the steps are a note.",
            "Several rows of one step are one row.",
            "A loss ends before the log only where no other training loss goes on, and a learning"
            " rate, a gradient norm or a metric, logged on nine in ten of its steps, does for five"
            " rows, and three times its distance, at least.",
            "Gaps are looked for from 20 rows on.",
        ),
        references=("wandb #3229: dropped steps", "45 of 1,540 public logs change cadence"),
    ),
    fires=Example(
        "half of the run is missing",
        view(series("loss", falling(40), [*range(10, 210, 10), *range(410, 610, 10)])),
    ),
    silent=Example("a row every ten steps", view(series("loss", falling(40), range(10, 410, 10)))),
)
def gap(
    loss: Series,
    beside: Attempt,
    *,
    factor: Annotated[float, Bound("ratio", "to the usual distance on either side", ge=1)] = 3.0,
    share: Annotated[float, Bound("share", "of the steps within gaps: WARN", ge=0, le=1)] = 0.02,
) -> Outcome:
    ended = _ended(loss, beside, factor, share)
    if ended is not None:
        return Fired((Evidence(where(loss, -1), ended, "ends"),))
    if len(loss) < 20:
        return Undecided({"points": len(loss)}, Skip.NEED_TOO_SHORT)
    steps = loss.steps if rises(loss) else np.unique(loss.steps)
    distances = (steps[1:] - steps[:-1]).astype(np.float64)
    begin, end = steps.item(0), steps.item(-1)
    measured: dict[str, Value] = {
        "points": len(loss),
        "gaps": 0,
        "missing": 0.0,
        "begin": begin,
        "end": end,
    }
    if not np.count_nonzero(distances[1:] != distances[:-1]):  # mostly all of them are equal
        return Clean({**measured, "cadence": distances.item(0) if len(distances) else 0.0})
    around = None if _is_even(distances, factor) else _cadence_around(distances)
    if around is None or not (wide := distances > factor * around).any():
        return Clean({**measured, "cadence": median(distances)})
    missing = float((distances - around)[wide].sum()) / (end - begin)
    measured |= {"gaps": int(np.count_nonzero(wide)), "missing": missing}
    at = int(np.argmax(np.where(wide, distances, 0)))
    measured["cadence"] = float(around[at])
    variant = "" if missing >= share else "small"
    first, last = (int(np.argmax(loss.steps == step)) for step in steps[at : at + 2])
    return Fired((Evidence(where(loss, first, last), measured, variant),))


WITNESSES = frozenset({Role.LR, Role.GRAD_NORM, Role.METRIC})
"""What is logged beside a loss for as long as training goes on."""


def _ended(loss: Series, beside: Attempt, factor: float, share: float) -> dict[str, Value] | None:
    """What shows that the rows of the file go on without a loss."""
    end = loss.steps.item(-1)
    later = [one for one in beside.series if one.steps.item(-1) > end]
    if not later or any(one.role is Role.LOSS and one.split is Split.TRAIN for one in later):
        return None
    found = (
        seen
        for one in later
        if one.role in WITNESSES and (seen := _goes_on(one, loss, factor, share)) is not None
    )
    return next(found, None)


def _goes_on(one: Series, loss: Series, factor: float, share: float) -> dict[str, Value] | None:
    """Whether a series stands on the steps of the loss, and for long on later ones."""
    if one.artifact != loss.artifact or one.column.axis is not loss.column.axis:
        return None
    begin, end, until = loss.steps.item(0), loss.steps.item(-1), one.steps.item(-1)
    later = int(np.count_nonzero(one.steps > end))
    missing = (until - end) / (until - begin)
    if later < max(5, factor * (len(one) - later) / len(loss)) or missing < share:
        return None
    if np.count_nonzero(np.isin(loss.steps, one.steps)) < 0.9 * len(loss):
        return None
    return {
        "points": len(loss),
        "begin": begin,
        "end": end,
        "missing": missing,
        "witness": one.tag,
        "until": until,
        "later": later,
    }


def _is_even(distances: Floats, factor: float) -> bool:
    """Whether no distance exceeds ``factor`` times the least one: no cadence is less."""
    return greatest_of(distances) <= factor * max(least_of(distances), 1.0)


def _cadence_around(distances: Floats) -> Floats:
    """For each distance the greater of the medians of the three before and the three after;
    infinite within three of either end, where a gap cannot be told from a change of cadence."""
    usual = np.full(len(distances), np.inf)
    medians = median_of_three(distances)
    usual[3:-3] = np.maximum(medians[:-4], medians[4:])
    return np.asarray(np.maximum(usual, 1.0))


@rule(
    id="TP-LOG-DOUBLED",
    title="Steps are logged several times, differently",
    level=Level.WARN,
    message="{series} holds two curves: {share:.0%} of its steps are logged twice, with different"
    " values.",
    evidence="{steps} steps, {points} rows; of the two rows of a step the first is the greater in"
    " {first:.0%}, but for the trend (p {p:.2g} if they were of one curve), and the step falls back"
    " {falls} time(s).",
    needs={
        "one": Each(
            (Role.LOSS, Role.REWARD),
            Split.TRAIN,
            points=20,
            nonfinite=1.0,
            which=Which.PRINCIPAL,
        ),
        "run": Whole(),
    },
    measures={
        "points": "rows logged",
        "steps": "different steps among them",
        "doubled": "steps with several rows whose values differ",
        "share": "these over all steps",
        "rows": "rows a step, where most steps have as many",
        "first": "share of the doubled steps whose first row is the greater of two, by more than"
        " the trend around it makes it",
        "p": "two-sided sign test that neither row is usually the greater",
        "falls": "rows at which the step is less than the one before",
        "other": "a held-out series, or a gradient norm, of which most steps have two values too",
        "second": "share of the steps whose second gradient norm is the greater",
    },
    variants={
        "evaluated": Variant(
            Level.WARN,
            "{series} and the held-out {other} are logged twice a step, with different values.",
            "{share:.0%} of {steps} steps have two rows that differ; micro-batches would be"
            " evaluated once.",
        ),
        "stepped": Variant(
            Level.WARN,
            "{series} and the gradient norm {other} are logged twice a step, with different"
            " values.",
            "{share:.0%} of {steps} steps have two rows that differ; the second norm is the greater"
            " in {second:.0%}, so it is no sum over micro-batches: a step has one gradient.",
        ),
        "micro": Variant(
            Level.INFO,
            "{series} is logged {rows} times a step, with different values, on {share:.0%} of its"
            " steps.",
            "{steps} steps, {points} rows; nothing tells the rows of a step apart.",
        ),
    },
    doc=Doc(
        measures="Steps that have more than one row in one log with different values, and whether"
        " first and second rows are two different curves.",
        means="Two processes write to one log, or two executions do: every rule sees their rows as"
        " one series.",
        does_not_mean="Which of the rows are the run's own, nor that training is affected.",
        guards=(
            "Half of the steps at least: a step that is logged again at a resume or at the end of"
            " an epoch does not count, nor do equal values.",
            "Rows of one step that cannot be told apart may be those of micro-batches: a note,"
            " unless what is held out, or the gradient norm, has two values a step as well.",
            "A loss that falls falls between the rows of a step, too: only what is beyond the trend"
            " tells two curves apart.",
            "Where a policy is updated several times with the same data, or a discriminator more"
            " often than its generator, values of one step differ: only a step that falls back or"
            " what is held out makes a warning of them.",
            "A reward is judged where no loss is logged.",
        ),
        references=("wandb #3229; modded-nanogpt: batch_combined_stdout, two runs in one file",),
    ),
    fires=Example(
        "two runs, row by row",
        view(
            series(
                "loss",
                [x for pair in zip(falling(40), falling(40, 5.0, 2.0), strict=True) for x in pair],
                [step for step in range(1, 41) for _ in range(2)],
            )
        ),
    ),
    silent=Example("a row a step", view(series("loss", falling(40)))),
)
def doubled(
    one: Series,
    run: RunView,
    *,
    half: Annotated[float, Bound("share", "of the steps that count", ge=0, le=1)] = 0.5,
    likely: Annotated[float, Bound("p", "below it the two rows are two curves", ge=0)] = 1e-4,
) -> Outcome:
    seen = _rows_of_steps(one)
    measured: dict[str, Value] = {
        "points": len(one),
        "steps": seen.steps,
        "doubled": seen.doubled,
        "share": seen.doubled / seen.steps,
    }
    if seen.doubled < half * seen.steps:
        return Clean(measured)
    beside = _logged_beside(one, run)
    if one.role is Role.REWARD and any(_is_loss(other) for other in beside):
        return Clean(measured)
    first, p = _first_is_greater(seen.pairs)
    falls = int(np.count_nonzero(np.diff(one.steps) < 0))
    measured |= {"rows": seen.usual, "first": first, "p": p, "falls": falls}
    if seen.differ < half * seen.steps:
        return Fired((Evidence(where(one), measured, "micro"),))
    once = _is_updated_once(run.regime, (one, *beside), half)
    if (once and p < likely) or falls > 0.05 * len(one):
        return Fired((Evidence(where(one), measured),))
    variant, more = _also_twice(one, beside, half, once=once)
    return Fired((Evidence(where(one), measured | more, variant),))


def _logged_beside(one: Series, run: RunView) -> list[Series]:
    """The other series of the same log and the same execution."""
    found = next(attempt for attempt in run.attempts if one in attempt.series)
    return [other for other in found.series if other.artifact == one.artifact and other is not one]


def _is_updated_once(regime: Regime, logged: Iterable[Series], half: float) -> bool:
    """Whether one process makes one row of each step: not, where a policy is updated several times
    with the same data, or a discriminator more often than its generator."""
    if regime is not Regime.ADVERSARIAL:
        return regime is not Regime.REINFORCEMENT
    losses = (one for one in logged if one.role is Role.LOSS and one.split is Split.TRAIN)
    return all(_mostly_two(one, half) for one in losses)


def _is_loss(one: Series) -> bool:
    return one.role is Role.LOSS and one.split is Split.TRAIN and one.identity.component is None


def _also_twice(
    one: Series, beside: Iterable[Series], half: float, *, once: bool
) -> tuple[str, dict[str, Value]]:
    """The variant, and what it measured: what else has two values a step. ``once``: an optimizer
    step has one row."""
    for other in beside:
        if other.split is not Split.TRAIN and _learned(other) and _mostly_two(other, half):
            return "evaluated", {"other": other.tag}
    if once and one.column.axis is Axis.STEP:
        for other in beside:
            if other.role is Role.GRAD_NORM and len(other) >= 20 and _mostly_two(other, half):
                first, _ = _first_is_greater(_rows_of_steps(other).pairs)
                if 0.25 < first < 0.75:
                    return "stepped", {"other": other.tag, "second": 1 - first}
    return "micro", {}


def _learned(one: Series) -> bool:
    return one.role in (Role.LOSS, Role.METRIC, Role.REWARD)


class _Rows(msgspec.Struct, frozen=True):
    """``doubled``: steps of several rows that differ. ``usual``: rows of most steps. ``pairs``: the
    values of steps of two rows, (steps, 2); ``differ``: steps among these whose values do."""

    steps: int
    doubled: int
    usual: int
    pairs: Floats
    differ: int


def _rows_of_steps(one: Series) -> _Rows:
    if rises(one):
        return _Rows(steps=len(one), doubled=0, usual=1, pairs=_NO_PAIRS, differ=0)
    order = np.argsort(one.steps, kind="stable")
    steps, begin, rows = np.unique(one.steps[order], return_index=True, return_counts=True)
    values = one.values[order]
    several, two = begin[rows > 1], begin[rows == 2]
    pairs = np.column_stack((values[two], values[two + 1]))
    return _Rows(
        steps=len(steps),
        doubled=int(np.count_nonzero(values[several] != values[several + 1])),
        usual=int(np.bincount(rows).argmax()),
        pairs=pairs,
        differ=int(np.count_nonzero(np.abs(pairs[:, 0] - pairs[:, 1]) > 0)),
    )


_NO_PAIRS: Floats = np.empty((0, 2))


def _mostly_two(one: Series, half: float) -> bool:
    seen = _rows_of_steps(one)
    return seen.steps >= 3 and seen.differ >= half * seen.steps


def _first_is_greater(pairs: Floats) -> tuple[float, float]:
    """Share of the pairs whose first value is the greater, and the p of a two-sided sign test that
    it is a half. A value that falls from row to row falls within a step, too: a quarter of its
    change from the step before to the one after is taken out."""
    change = pairs[:, 1] - pairs[:, 0]
    if len(pairs) > 3:
        means = pairs.mean(axis=1)
        change = change[1:-1] - (means[2:] - means[:-2]) / 4
    above, below = int(np.count_nonzero(change < 0)), int(np.count_nonzero(change > 0))
    return above / max(1, above + below), _sign_test(above, below)


def _sign_test(above: int, below: int) -> float:
    """Two-sided, normal approximation with the correction for continuity."""
    total = above + below
    if not total:
        return 1.0
    return min(1.0, 2 * normal_tail((abs(above - below) - 1) / math.sqrt(total)))


# --- how much of the run ------------------------------------------------------------------------


@rule(
    id="TP-LOG-PREFIX",
    title="The log shows a part of the declared run",
    level=Level.INFO,
    message="The log ends at {unit} {reached} of {planned} that the run declares: this verdict"
    " covers {seen:.2%} of it.",
    evidence="{series} reaches {unit} {reached}; {source} declares {planned}.",
    needs={"run": Whole()},
    measures={
        "unit": "step or epoch",
        "reached": "last one logged",
        "planned": "last one that the run declares",
        "seen": "reached over planned",
        "source": "the declaration that says so",
        "first": "first step logged",
        "last": "last step logged",
    },
    variants={
        "suffix": Variant(
            Level.INFO,
            "The log begins at step {first_step}: rules that need the start of the run do not judge"
            " it.",
            "{series} holds steps {first} to {last}.",
        )
    },
    doc=Doc(
        measures="The last logged step or epoch against the length that the run itself declares,"
        " and the first against the last.",
        means="What lies outside was not seen and is not judged.",
        does_not_mean="That the run was cut: early stopping, a time limit or a copied prefix look"
        " the same.",
        guards=(
            "From 98 % of the plan on a run counts as complete.",
            "A log that begins within two row distances, or the first tenth, is complete in front.",
        ),
        references=(
            "72 of 1,540 public logs of healthy runs end before their declared length",
            "Coqui XTTS log: 125,039 steps of 24,940,000 declared",
        ),
    ),
    fires=Example(
        "40 of 400 declared steps", view(series("loss", falling(40)), facts=Facts(max_steps=400))
    ),
    silent=Example(
        "all declared steps", view(series("loss", falling(40)), facts=Facts(max_steps=40))
    ),
)
def prefix(
    run: RunView,
    *,
    complete: Annotated[
        float, Bound("share", "of the declared length that counts as all of it", ge=0, le=1)
    ] = 0.98,
) -> Outcome:
    farthest = _farthest(run)
    if farthest is None:
        return Undecided({"unit": "step"}, Skip.NEED_ABSENT)
    first, last = farthest.steps.item(0), farthest.steps.item(-1)
    span: dict[str, Value] = {"first": first, "last": last}
    found: list[Evidence] = []
    if starts_late(farthest):
        found.append(Evidence(where(farthest), span, "suffix"))
    plan = _plan(run.facts, farthest, last)
    if plan is not None:
        if float(plan["seen"]) < complete:
            found.append(Evidence(where(farthest), {**span, **plan}))
        span |= plan
    if found:
        return Fired(tuple(found))
    return Clean(span) if plan is not None else Undecided(span, Skip.NEED_ABSENT)


def _farthest(run: RunView) -> Series | None:
    """The series that reaches the highest step: of the losses, where there are any."""
    losses = [one for part in run.attempts for one in part.select(Role.LOSS, Split.TRAIN)]
    return max(losses or _without_loss(run.series), key=_reach, default=None)


def _without_loss(logged: Sequence[Series]) -> Sequence[Series]:
    """What stands for the training where none of its losses is logged."""
    train = [one for one in logged if one.split is Split.TRAIN]
    return train or [one for one in logged if one.role is Role.LOSS] or logged


def _reach(one: Series) -> tuple[int, bool, int]:
    return one.steps.item(-1), one.identity.component is None, len(one)


def _plan(facts: Facts, farthest: Series, last: int) -> dict[str, Value] | None:
    """How far the run was to go, in the unit of the series."""
    if farthest.column.axis is Axis.EPOCH:
        return _share("epoch", last, facts.max_epochs, "the number of epochs")
    if farthest.column.axis is not Axis.STEP:
        return None
    if facts.max_steps:
        return _share("step", last, facts.max_steps, "the number of steps")
    if facts.max_epochs and facts.steps_per_epoch:
        planned = facts.max_epochs * facts.steps_per_epoch
        return _share("step", last, planned, "epochs times steps an epoch")
    return None


def _share(unit: str, last: int, planned: float | None, source: str) -> dict[str, Value] | None:
    if planned is None or not planned > 0:
        return None
    reached = last + 1 if unit == "epoch" and last < planned else last
    whole = int(planned) if planned == int(planned) else planned
    return {
        "unit": unit,
        "reached": reached,
        "planned": whole,
        "seen": min(1.0, reached / planned),
        "source": source,
    }


@rule(
    id="TP-LOG-REWIND",
    title="The log goes back",
    level=Level.INFO,
    message="Step {first_step} of {artifact} follows on step {last_step} and is taken for the"
    " beginning of another execution ({count} such {count:place|places}).",
    evidence="The run is judged as {attempts} execution(s), each by itself.",
    needs={"run": Whole(series=False)},
    measures={
        "count": "places in the file at which the step falls",
        "attempts": "executions that the run is judged as",
        "redone": "steps that were done again after a resume",
        "share": "these over the last steps of all executions",
        "counted_as": "the step that the first row after it is taken for, where the executions are"
        " not told apart",
    },
    variants={
        "resumed": Variant(
            Level.INFO,
            "{artifact} goes back {count} time(s): at step {last_step} training resumes from step"
            " {first_step}.",
            "{redone} steps were done again ({share:.1%} of the run); the later rows are judged.",
        ),
        "costly": Variant(
            Level.WARN,
            "{artifact} goes back {count} time(s), first at step {last_step} to step {first_step}:"
            " much was done again.",
            "{redone} steps were done again ({share:.1%} of the run, limit {much:.0%}); the later"
            " rows are judged.",
        ),
        "anew": Variant(
            Level.INFO,
            "{artifact} starts its count over {count} time(s): after step {last_step} comes step"
            " {first_step}.",
            "The values go on there, or the learning rate where they do not tell: judged as one"
            " execution in which step {first_step} stands for step {counted_as}. It may be the next"
            " epoch, a resume, or another run.",
        ),
    },
    doc=Doc(
        measures="Places at which the logged step falls, and how many steps were done again.",
        means="The file holds a resume, or several executions. They are told apart before any rule"
        " is applied, by the level of the loss, or the learning rate, before and after.",
        does_not_mean="That a resume restored everything: the optimizer's state is not in a log.",
        guards=(
            "A step that starts over with each epoch is no rewind: where a logged epoch rises, or"
            " the count starts over three times or more after equally many steps and no loss starts"
            " over with it.",
            "A resume that repeats less than a tenth of the run is a note.",
        ),
        references=(
            "NeMo #4541, Lightning #13163: resumed runs in one log",
            "20 of 1,540 public logs hold several runs in one file",
        ),
    ),
    fires=Example(
        "two executions in one file",
        view(series("loss", falling(20)), rewinds=(Rewind("log.jsonl", 20, 1, False, 21),)),
    ),
    silent=Example("steps only rise", view(series("loss", falling(20)))),
)
def rewound(
    run: RunView,
    *,
    much: Annotated[float, Bound("share", "of the run done again: WARN", ge=0)] = 0.1,
) -> Outcome:
    attempts = len(run.attempts)
    rewinds = [one for one in run.rewinds if one.back]
    if not rewinds:
        return Clean({"count": 0, "attempts": attempts})
    whole = sum(max(int(one.steps[-1]) for one in attempt.series) for attempt in run.attempts)
    evidence = (_went_back(group, attempts, whole, much) for group in _grouped(rewinds))
    return Fired(tuple(evidence)[:LISTED])


def _grouped(rewinds: Iterable[Rewind]) -> Iterator[list[Rewind]]:
    ordered = sorted(rewinds, key=_place)
    for _, group in groupby(ordered, key=_place):
        yield list(group)


def _place(rewind: Rewind) -> tuple[str, bool, bool]:
    return rewind.artifact, rewind.resume, rewind.counted_as is not None


def _went_back(group: list[Rewind], attempts: int, whole: int, much: float) -> Evidence:
    """``whole``: steps of all executions."""
    first = group[0]
    anew = first.counted_as is not None
    again = first.resume and not anew
    redone = sum(one.from_step - one.to_step for one in group) if again else 0
    share = redone / whole if whole > 0 else 0.0
    variant = ("costly" if share > much else "resumed") if again else ""
    place = Where(
        first.artifact, first_step=first.to_step, last_step=first.from_step, line=first.line
    )
    measured = {"count": len(group), "attempts": attempts, "redone": redone, "share": share}
    if first.counted_as is not None:
        return Evidence(place, measured | {"counted_as": first.counted_as}, "anew")
    return Evidence(place, measured, variant)
