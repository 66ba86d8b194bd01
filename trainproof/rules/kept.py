"""The checkpoints of a run beside its log: do their steps agree, and is there one to go back to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from trainproof.model.checkpoint import Kept
from trainproof.model.data import Axis, Facts, Role, RunView, Series, Split
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
from .interface import Bound, Declared, Each, Example, Missing, Place, Which, rule, where
from .saved import named


@dataclass(frozen=True, slots=True)
class Keeps:
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


KEPT: Mapping[str, str] = {"kept": "checkpoints of the run"}


def keeping(*kept: Kept, run: RunView | None = None) -> RunView:
    """A run that keeps these; for examples and tests."""
    return replace(run or view(series("loss", falling(60))), kept=kept)


# --- steps ------------------------------------------------------------------------------------


@rule(
    id="TP-KEPT-STEP",
    title="A checkpoint disagrees with itself on its step",
    level=Level.WARN,
    message="The directory of {checkpoint} says step {named:,}, the trainer's state in it says step"
    " {counted:,}.",
    evidence="{told:,} of {kept:,} checkpoints of the run say how far the training had come.",
    needs={"kept": Keeps()},
    measures={
        **KEPT,
        "told": "checkpoints with two counts of steps at least",
        "checkpoint": "the checkpoint",
        "named": "the number in the name of its directory, -1 where there is none",
        "counted": "global_step in its trainer_state.json, -1 where there is none",
        "clock": "the largest count of steps in its optimizer, -1 where there is none",
    },
    variants={
        "clock": Variant(
            Level.WARN,
            "The optimizer in {checkpoint} has taken {clock:,} steps, and the trainer's state"
            " beside it says step {counted:,}.",
            "{skipped:.0%} of the steps may be missing, as skipped.",
        )
    },
    doc=Doc(
        measures="The number in the name of a trainer's directory, the step in its state, and the"
        " count of its optimizer.",
        means="Files of several saves lie in one directory, or it was renamed: a resume takes the"
        " weights of one step and the schedule of another.",
        does_not_mean="That the weights are damaged.",
        guards=(
            "Only directories that a trainer wrote (checkpoint-N, trainer_state.json).",
            "Steps that a loss scaler skipped are missing in the optimizer's count: one in ten may"
            " be.",
            "An optimizer that disagrees with the name of its directory is another rule's finding.",
        ),
        references=("transformers #3026; transformers #33336", "speculators PR #900"),
    ),
    fires=Example(
        "the directory was renamed", keeping(Kept("checkpoint-500", 500, named=500, counted=400))
    ),
    silent=Example("both agree", keeping(Kept("checkpoint-500", 500, named=500, counted=500))),
    subject=SubjectKind.KEPT,
)
def steps(
    kept: tuple[Kept, ...],
    *,
    skipped: Annotated[
        float, Bound("share", "share of the steps that may be missing", ge=0, le=1)
    ] = 0.1,
) -> Outcome:
    told = [one for one in kept if sum(n is not None for n in _numbers(one)) > 1]
    found = [item for one in told for item in _disagreeing(one, skipped)]
    measured: dict[str, Value] = {"kept": len(kept), "told": len(told)}
    if found:
        return Fired(
            tuple(
                Evidence(Where(one.id), {**measured, **_counts(one)}, variant)
                for one, variant in found
            )
        )
    return Clean(measured) if told else Undecided(measured, Skip.NOT_SAVED)


def _numbers(one: Kept) -> tuple[int | None, int | None, int | None]:
    return one.named, one.counted, one.clock


def _counts(one: Kept) -> dict[str, Value]:
    numbers = zip(("named", "counted", "clock"), _numbers(one), strict=True)
    counts: dict[str, Value] = {name: -1 if n is None else n for name, n in numbers}
    return {"checkpoint": one.id, **counts}


def _disagreeing(one: Kept, skipped: float) -> Iterator[tuple[Kept, str]]:
    if one.counted is None:
        return
    late = one.clock is not None and not ((1 - skipped) * one.counted <= one.clock <= one.counted)
    if one.named not in (None, one.counted):
        yield one, ""
    elif one.named is None and late:
        yield one, "clock"


# --- after the damage ---------------------------------------------------------------------------


@rule(
    id="TP-KEPT-AFTER-DAMAGE",
    title="No checkpoint from before the damage is kept",
    level=Level.FAIL,
    message="{series} is not finite from step {onset:,} to its end, and the earliest of {kept:,}"
    " checkpoints that are kept is that of step {earliest:,}.",
    evidence="{broken:,} of them hold weights that are not finite, {sound:,} do not, as far as"
    " their values were read.",
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
            "{series} is not finite from step {onset:,} to its end, and the earliest of {kept:,}"
            " checkpoints that are kept is that of step {earliest:,}.",
            "The weights of {sound:,} of them are finite throughout.",
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


# --- the best ---------------------------------------------------------------------------------


@rule(
    id="TP-KEPT-BEST",
    title="The best checkpoint is not kept",
    level=Level.WARN,
    message="The run says that {best} is its best checkpoint, and it is not among the {kept:,} that"
    " are kept.",
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
