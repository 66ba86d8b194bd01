"""The checkpoints of a run beside its log: do their steps agree, and is there one to go back to."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec.structs import replace

from trainproof.model.checkpoint import Kept
from trainproof.model.data import Axis, Facts, Regime, Role, RunView, Series, Split
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

from .examples import falling, series, view
from .interface import (
    Bound,
    Declared,
    Each,
    Example,
    Missing,
    Place,
    Rule,
    Which,
    Whole,
    rule,
    where,
)
from .loss import divergence
from .saved import named


class Keeps(msgspec.Struct, frozen=True):
    """The checkpoints that the run keeps; at least ``least`` of them."""

    least: int = 1

    def describe(self) -> str:
        return (
            f"at least {self.least} checkpoints of the run"
            if self.least > 1
            else ("a checkpoint of the run")
        )

    def bind(self, place: Place) -> tuple[Kept, ...] | Missing:
        kept = place.view.kept
        if len(kept) < self.least:
            skip = Skip.NEED_TOO_SHORT if kept else Skip.NEED_ABSENT
            return Missing(skip, {"kept": len(kept), "needed": self.least})
        return kept


class Judged(msgspec.Struct, frozen=True, eq=False):
    """What another rule finds at the same place, with its default thresholds."""

    other: Rule

    def describe(self) -> str:
        return f"what {self.other.info.id} finds of it"

    def bind(self, place: Place) -> object:
        bound = {name: need.bind(place) for name, need in self.other.needs.items()}
        missing = next((got for got in bound.values() if isinstance(got, Missing)), None)
        return missing or self.other.check(**bound)


KEPT: Mapping[str, str] = {"kept": "checkpoints of the run"}


def keeping(*kept: Kept, run: RunView | None = None) -> RunView:
    """A run that keeps these; for examples and tests."""
    return replace(run or view(series("loss", falling(60))), kept=kept)


# --- steps ------------------------------------------------------------------------------------


@rule(
    id="TP-KEPT-STEP",
    title="A checkpoint is from beyond the end of the log",
    level=Level.WARN,
    message="{checkpoint} says that it is of step {step:,}, and the log of the run ends at step"
    " {last_logged:,}.",
    evidence="Rows lie {cadence:,} {cadence:step|steps} apart; {beyond:,} of {kept:,}"
    " {kept:checkpoint|checkpoints} {beyond:is|are} from beyond the end, {inside:,} from within.",
    needs={"run": Whole(), "kept": Keeps(2)},
    measures={
        **KEPT,
        "told": "checkpoints that tell their step",
        "checkpoint": "the checkpoint of the greatest step",
        "step": "that step",
        "last_logged": "the last step of any loss that counts steps, -1 where none does",
        "cadence": "the usual distance between two rows of that loss",
        "beyond": "checkpoints from beyond the end of the log",
        "inside": "checkpoints from within it",
    },
    doc=Doc(
        measures="The steps of the checkpoints against the last step of the log.",
        means="The checkpoint was left behind by another training in the same directory, which a"
        " resume from the newest would take; or the log is not whole.",
        does_not_mean="Which of the two it is.",
        guards=(
            "Another checkpoint must lie in the second half of the log: then both count the same.",
            "It must lie beyond the end by a tenth of the log and by two rows.",
            "Logs that count epochs or samples are left out.",
            "Two to four times the last step of the log is left open: Lightning counts the steps of"
            " each optimizer, and logs those of all together.",
        ),
        references=("transformers #3026: checkpoints of an earlier training in the directory",),
    ),
    fires=Example(
        "one of step 500 beside one of step 60", keeping(Kept("step_60", 60), Kept("step_500", 500))
    ),
    silent=Example("both lie within", keeping(Kept("step_30", 30), Kept("step_60", 60))),
    subject=SubjectKind.KEPT,
)
def steps(
    run: RunView,
    kept: tuple[Kept, ...],
    *,
    share: Annotated[float, Bound("share", "of the log, beyond its end", ge=0)] = 0.1,
) -> Outcome:
    told = sorted((one for one in kept if one.step is not None), key=_step)
    longest = _longest(run)
    measured: dict[str, Value] = {"kept": len(kept), "told": len(told)}
    if longest is None or not told:
        return Undecided(measured | {"last_logged": -1}, Skip.NOT_SAVED)
    last, cadence = int(longest.steps[-1]), _cadence(longest)
    end = last + max(2 * cadence, share * last)
    beyond = [one for one in told if _step(one) > end]
    measured |= {
        "last_logged": last,
        "cadence": cadence,
        "beyond": len(beyond),
        "inside": len(told) - len(beyond),
    }
    if not beyond:
        return Clean(measured)
    other = _counts_otherwise(_step(beyond[-1]), last, cadence)
    if other or not any(last / 2 <= _step(one) <= end for one in told):
        return Undecided(measured)
    what: dict[str, Value] = {"checkpoint": beyond[-1].id, "step": _step(beyond[-1])}
    return Fired((Evidence(Where(beyond[-1].id), {**measured, **what}),))


_OPTIMIZERS = 4
"""Optimizers of one training, at most, whose steps a checkpoint may count together."""


def _counts_otherwise(step: int, last: int, cadence: int) -> bool:
    """Whether ``step`` is the last one of the log, within two rows, counted several times."""
    times = round(step / last) if last else 0
    return 2 <= times <= _OPTIMIZERS and abs(step / times - last) <= 2 * cadence


def _longest(run: RunView) -> Series | None:
    """The loss that goes furthest, of those that count steps."""
    losses = [
        one
        for one in run.series
        if one.role is Role.LOSS and one.column.axis is Axis.STEP and len(one)
    ]
    return max(losses, key=lambda one: int(one.steps[-1]), default=None)


def _cadence(one: Series) -> int:
    return int(np.median(np.diff(one.steps))) if len(one) > 1 else 0


# --- after the damage ---------------------------------------------------------------------------


@rule(
    id="TP-KEPT-AFTER-DAMAGE",
    title="No checkpoint from before the damage is kept",
    level=Level.FAIL,
    message="{series} is not finite from step {onset:,} to its end, and the {kept:only checkpoint"
    " that is|earliest of {kept:,} checkpoints that are} kept is that of step {earliest:,}.",
    evidence="{broken:,} of them {broken:holds|hold} weights that are not finite, {sound:,}"
    " {sound:does|do} not, as far as their values were read.",
    needs={
        "loss": Each((Role.LOSS,), Split.TRAIN, nonfinite=1.0, which=Which.PRINCIPAL),
        "kept": Keeps(),
    },
    measures={
        **KEPT,
        "points": "values logged",
        "onset": "the step from which on no value is finite",
        "nonfinite": "values from there on",
        "earliest": "the step of the earliest checkpoint, -1 where one does not tell",
        "last_logged": "the last step of the log",
        "broken": "checkpoints with weights that are not finite",
        "sound": "checkpoints with finite weights throughout",
    },
    variants={
        "sound": Variant(
            Level.WARN,
            "{series} is not finite from step {onset:,} to its end, and the {kept:only checkpoint"
            " that is|earliest of {kept:,} checkpoints that are} kept is that of step"
            " {earliest:,}.",
            "The weights of {sound:,} {kept:checkpoint|of them} are finite throughout.",
        )
    },
    doc=Doc(
        measures="The step from which on the training loss is not finite to its end, against the"
        " steps of all checkpoints that are kept.",
        means="There is nothing to go back to: every saved state comes from after the damage.",
        does_not_mean="That the weights are lost where they are finite: that is a WARN.",
        guards=(
            "At least three values that are not finite, up to the end of the log.",
            "All checkpoints must tell their step, and the log must reach those steps: steps and"
            " epochs are not compared with one another.",
        ),
        references=("kohya_ss #1112: every kept LoRA was NaN",),
    ),
    fires=Example(
        "NaN from step 30 on, the first checkpoint at step 40",
        keeping(
            Kept("checkpoint-40", 40),
            run=view(series("loss", [*falling(30), *[float("nan")] * 30])),
        ),
    ),
    silent=Example(
        "a checkpoint from before is kept",
        keeping(
            Kept("checkpoint-20", 20),
            Kept("checkpoint-40", 40),
            run=view(series("loss", [*falling(30), *[float("nan")] * 30])),
        ),
    ),
    subject=SubjectKind.KEPT,
)
def after_damage(
    loss: Series,
    kept: tuple[Kept, ...],
    *,
    least: Annotated[int, Bound("values", "that are not finite, at the end", ge=1)] = 3,
) -> Outcome:
    finite = np.flatnonzero(np.isfinite(loss.values))
    at = int(finite[-1]) + 1 if len(finite) else 0
    steps = [one.step for one in kept if one.step is not None]
    measured: dict[str, Value] = {
        "kept": len(kept),
        "points": len(loss),
        "nonfinite": len(loss) - at,
        "earliest": min(steps) if len(steps) == len(kept) else -1,
        "last_logged": int(loss.steps[-1]),
    }
    if len(loss) - at < least:
        return Clean(measured)
    onset = int(loss.steps[at])
    measured["onset"] = onset
    comparable = loss.column.axis is Axis.STEP and min(steps, default=0) <= loss.steps[-1]
    if len(steps) < len(kept) or not comparable:
        return Undecided(measured, Skip.NOT_SAVED)
    if min(steps) < onset:
        return Clean(measured)
    broken = sum(bool(one.nonfinite) for one in kept)
    sound = sum(one.nonfinite == 0 for one in kept)
    evidence = Evidence(
        where(loss, at), {**measured, "broken": broken, "sound": sound}, "sound" if sound else ""
    )
    return Fired((evidence,))


@rule(
    id="TP-KEPT-AFTER-RISE",
    title="Every checkpoint is from after the loss rose",
    level=Level.WARN,
    message="{series} was at its best around step {best_step:,} and had risen half of the way to"
    " its end by step {onset:,}; the {kept:only checkpoint that is|earliest of {kept:,}"
    " checkpoints that are} kept is that of step {earliest:,}.",
    evidence="From {best:.4g} it rose to {end:.4g}.",
    needs={"loss": divergence.needs["loss"], "found": Judged(divergence), "kept": Keeps()},
    measures={
        **KEPT,
        "points": "values logged",
        "best": "the lowest level reached",
        "best_step": "its step",
        "end": "the level at the end",
        "onset": "the first step above the middle between the two, from which on five values are"
        " so in the median",
        "earliest": "the step of the earliest checkpoint, -1 where one does not tell",
        "last_logged": "the last step of the log",
    },
    doc=Doc(
        measures="Where the training loss, by the rule that found that it diverged, had risen half"
        " of its way, against the steps of all checkpoints that are kept.",
        means="There is no state to go back to from before the training got worse.",
        does_not_mean="That these weights are of no use.",
        guards=(
            "Only where that rule (TP-DIVERGE) fails the run.",
            "All checkpoints must tell their step, and the log must reach those steps.",
        ),
        references=("kohya_ss #1112: every kept checkpoint was from after the damage",),
    ),
    not_for=[Regime(one) for one in divergence.info.regimes],
    fires=Example(
        "the loss explodes at step 90, the first checkpoint is of step 110",
        keeping(
            Kept("checkpoint-110", 110),
            run=view(series("loss", [*falling(90, 4, 1), *([4.0] * 30)])),
        ),
    ),
    silent=Example(
        "a checkpoint from before is kept",
        keeping(
            Kept("checkpoint-80", 80),
            run=view(series("loss", [*falling(90, 4, 1), *([4.0] * 30)])),
        ),
    ),
    subject=SubjectKind.KEPT,
)
def after_rise(loss: Series, found: Outcome, kept: tuple[Kept, ...]) -> Outcome:
    measured: dict[str, Value] = {"kept": len(kept), "points": len(loss)}
    match found:
        case Fired((first, *_)) if not first.variant:
            said = {name: first.measured[name] for name in ("best", "best_step", "end")}
        case _:
            return Clean(measured)
    onset = _half_way(loss, float(said["best"]), float(said["end"]), int(said["best_step"]))
    steps = [one.step for one in kept if one.step is not None]
    measured |= said | {
        "earliest": min(steps) if len(steps) == len(kept) else -1,
        "last_logged": int(loss.steps[-1]),
    }
    comparable = loss.column.axis is Axis.STEP and min(steps, default=0) <= loss.steps[-1]
    if onset is None or len(steps) < len(kept) or not comparable:
        return Undecided(measured, Skip.NOT_SAVED)
    measured["onset"] = onset
    if min(steps) < onset:
        return Clean(measured)
    return Fired((Evidence(where(loss), measured),))


_WINDOW = 5


def _half_way(loss: Series, best: float, end: float, best_step: int) -> int | None:
    """The first step after the best one at which the loss is above the middle, in the median."""
    values = loss.values
    begin, middle = int(np.searchsorted(loss.steps, best_step, "right")), (best + end) / 2
    for at in range(begin, len(values) - _WINDOW + 1):
        if sum(values[at : at + _WINDOW] > middle) > _WINDOW // 2 and values[at] > middle:
            return int(loss.steps[at])
    return None


# --- the best ---------------------------------------------------------------------------------


@rule(
    id="TP-KEPT-BEST",
    title="The best checkpoint is not kept",
    level=Level.WARN,
    message="The run says that {best} is its best checkpoint, and it is not {kept:the one|among"
    " the {kept:,}} that {kept:is|are} kept.",
    evidence="Those that are kept: {names}.",
    needs={"facts": Declared("best_checkpoint"), "kept": Keeps()},
    measures={
        **KEPT,
        "best": "what the run calls its best checkpoint",
        "names": "the first of those that are kept",
        "damaged": "rules that found that the best one cannot be used",
    },
    variants={
        "damaged": Variant(
            Level.FAIL,
            "The run says that {best} is its best checkpoint, and that cannot be used.",
            "Found by {damaged}.",
        )
    },
    doc=Doc(
        measures="best_model_checkpoint in the trainer's state against the checkpoints that are"
        " there, and what was found out about it.",
        means="The weights that the run would report are gone, or cannot be loaded.",
        does_not_mean="That they are lost: they may have been exported under another name.",
        guards=(
            "Names are compared without the directories above: runs are copied.",
            "A run that keeps no checkpoint called like the best one but for its number has moved"
            " them elsewhere: not checked.",
        ),
        references=(
            "transformers #15089, #11748, #25129, PR #31142; Lightning #2636: the best was deleted",
        ),
    ),
    fires=Example(
        "the best was deleted",
        keeping(
            Kept("checkpoint-500", 500), run=view(facts=Facts(best_checkpoint="o/checkpoint-10"))
        ),
    ),
    silent=Example(
        "the best is kept",
        keeping(
            Kept("checkpoint-10", 10), run=view(facts=Facts(best_checkpoint="o/checkpoint-10"))
        ),
    ),
    subject=SubjectKind.KEPT,
)
def best(facts: Facts, kept: tuple[Kept, ...]) -> Outcome:
    said = _leaf((facts.best_checkpoint or "").rstrip("/"))
    measured: dict[str, Value] = {
        "kept": len(kept),
        "best": said[:300],
        "names": named(one.id for one in kept),
    }
    alike = [one for one in kept if _alike(said) in map(_alike, one.id.split("/"))]
    if not alike:
        return Undecided(measured, Skip.NOT_SAVED)
    found = [one for one in alike if said in one.id.split("/")]
    if not found:
        return Fired((Evidence(Where(alike[0].id), measured),))
    damaged = sorted({id for one in found for id in one.damaged})
    if damaged:
        what = {**measured, "damaged": ", ".join(damaged)}
        return Fired((Evidence(Where(found[0].id), what, "damaged"),))
    return Clean(measured)


def _leaf(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


_DIGITS = re.compile(r"\d+")


def _alike(name: str) -> str:
    """The name without its numbers."""
    return _DIGITS.sub("*", name)


# --- the newest -------------------------------------------------------------------------------


@rule(
    id="TP-KEPT-NEWEST",
    title="The newest checkpoint is not whole, and an older one is",
    level=Level.WARN,
    message="{newest}, the newest of {kept:,} checkpoints, cannot be used; the newest that can is"
    " {whole}.",
    evidence="Found by {damaged}.",
    needs={"kept": Keeps(2)},
    measures={
        **KEPT,
        "newest": "the checkpoint of the greatest step",
        "whole": "that of the greatest step which no rule found unusable",
        "damaged": "rules that found that it cannot be used",
        "lacking": "the first files that all others have and it does not",
        "told": "checkpoints that tell their step",
    },
    variants={
        "lacking": Variant(
            Level.WARN,
            "{newest}, the newest of {kept:,} checkpoints, lacks files that all others have:"
            " {lacking}.",
            "The newest that has them is {whole}.",
        )
    },
    doc=Doc(
        measures="What was found out about the newest checkpoint, and the names of its files"
        " against those of all others.",
        means="The save was interrupted: a resume that takes the newest one fails or starts with"
        " less, and the one named is the one to take.",
        does_not_mean="That the run failed: it may be writing at this moment.",
        guards=(
            "At least two checkpoints that tell their step.",
            "Numbers in the names of files do not count, and a file counts only where at least two"
            " other checkpoints, all of them, have it.",
        ),
        references=("Lightning #688: the newest was cut", "speculators PR #739; SimpleTuner #2613"),
    ),
    fires=Example(
        "the newest is cut",
        keeping(Kept("checkpoint-1", 1), Kept("checkpoint-2", 2, damaged=("TP-CKPT-TRUNCATED",))),
    ),
    silent=Example("both are whole", keeping(Kept("checkpoint-1", 1), Kept("checkpoint-2", 2))),
    subject=SubjectKind.KEPT,
)
def newest(kept: tuple[Kept, ...]) -> Outcome:
    told = sorted((one for one in kept if one.step is not None), key=_step)
    measured: dict[str, Value] = {"kept": len(kept), "told": len(told)}
    if len(told) < 2:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    last, whole = told[-1], [one for one in told[:-1] if not one.damaged]
    measured |= {"newest": last.id}
    if last.damaged:
        if not whole:
            return Undecided(measured)
        what = {"whole": whole[-1].id, "damaged": ", ".join(last.damaged)}
        return Fired((Evidence(Where(last.id), {**measured, **what}),))
    lacking = _lacking(last, [one for one in told[:-1] if one.files])
    if lacking:
        what = {"whole": told[-2].id, "lacking": named(lacking)}
        return Fired((Evidence(Where(last.id), {**measured, **what}, "lacking"),))
    return Clean(measured)


def _step(one: Kept) -> int:
    return one.step or 0


def _lacking(last: Kept, others: Sequence[Kept]) -> list[str]:
    """Names that all others have; none where there are not two of them, or it has no files."""
    if len(others) < 2 or not last.files:
        return []
    common = set.intersection(*(set(map(_alike, one.files)) for one in others))
    own = set(map(_alike, last.files))
    return [name for name in others[-1].files if _alike(name) in common - own]
