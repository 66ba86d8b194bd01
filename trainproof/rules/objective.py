"""Objectives: whether the targets, the loss and the output layer speak of the same classes."""

from typing import Annotated

from msgspec.structs import replace

from trainproof.model.data import RunView
from trainproof.model.objective import Alignment, Objective, Targets
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

from .interface import Bound, Example, Inspected, rule

HERE = Where("objective")
"""Findings about an objective have no file to point at."""

_OBJECTIVE = Inspected(Objective, "the classes of an output layer, and targets or labels")
_TARGETS = Targets(
    total=400,
    classes=400,
    seen=4,
    rarest=90,
    missing=0,
    unseen=(),
    masked=0,
    inside=0,
    outside=0,
    torch_ignored=0,
    first_outside=None,
)
_HEALTHY = Objective(4, -100, targets=_TARGETS, loss_shifts=True)


def _example(text: str, objective: Objective) -> Example:
    return Example(text, RunView("objective", inspected=objective))


def _fired(measured: dict[str, Value], variant: str = "") -> Fired:
    return Fired((Evidence(HERE, measured, variant),))


@rule(
    id="TP-OBJ-IGNORE-INDEX-COLLISION",
    title="The loss ignores a class of the output layer",
    level=Level.FAIL,
    message="The loss ignores targets equal to {ignore_index}, which is one of the {classes}"
    " classes of the output layer, and {inside} of the ignored targets stand where no padding"
    " stands.",
    evidence="{masked} of {total} targets are ignored, {inside} of them between other targets of"
    " their row.",
    needs={"objective": _OBJECTIVE},
    measures={
        "ignore_index": "the target that the loss leaves out",
        "classes": "classes of the output layer",
        "total": "targets counted",
        "masked": "targets equal to ignore_index",
        "inside": "those of them between other targets of their row",
    },
    variants={
        "padding": Variant(
            Level.WARN,
            "The loss ignores targets equal to {ignore_index}, which is one of the {classes}"
            " classes of the output layer: that class is never learned.",
            "{masked} of {total} targets counted are ignored, none where padding cannot stand.",
        )
    },
    doc=Doc(
        measures="Whether ignore_index is one of the classes 0 to C-1 of the output layer, and"
        " where ignored targets stand.",
        means="Every target of that class is left out of the loss, so the model cannot learn it.",
        does_not_mean="That a model which reserves a class for padding is wrong: say padding="
        " ignore_index, and the rule is silent.",
        guards=(
            "An index outside of the classes, such as torch's -100 or C, is clean.",
            "FAIL only where an ignored target stands between other targets of its row (a batch of"
            " labels is a row): padding stands at the ends.",
            "Without targets, and where all ignored ones may be padding, it is a warning.",
        ),
        references=(
            "torch.nn.CrossEntropyLoss: ignore_index",
            "fairseq and tensor2tensor reserve a class for padding and ignore it",
        ),
    ),
    fires=_example(
        "class 0 of a classifier is its ignore_index",
        Objective(4, 0, targets=replace(_TARGETS, masked=100, classes=300, seen=3, inside=100)),
    ),
    silent=_example("ignore_index is -100", _HEALTHY),
    grounds=True,
    subject=SubjectKind.OBJECTIVE,
)
def ignored_class(objective: Objective) -> Outcome:
    index, targets = objective.ignore_index, objective.targets
    if index is None:
        return Undecided({"classes": objective.classes}, Skip.NEED_ABSENT)
    measured: dict[str, Value] = {"ignore_index": index, "classes": objective.classes}
    if not 0 <= index < objective.classes or index == objective.padding:
        return Clean(measured)
    measured |= {
        "total": targets.total if targets else 0,
        "masked": targets.masked if targets else 0,
        "inside": targets.inside if targets else 0,
    }
    return _fired(measured, "" if measured["inside"] else "padding")


@rule(
    id="TP-OBJ-TARGET-OUT-OF-RANGE",
    title="Targets are no classes of the output layer",
    level=Level.FAIL,
    message="{outside} of {total} targets are neither one of the {classes} classes of the output"
    " layer nor ignored by the loss.",
    evidence="The first of them is {first}; classes are 0 to {last}.",
    needs={"objective": _OBJECTIVE},
    measures={
        "classes": "classes of the output layer",
        "last": "the last class",
        "total": "targets counted",
        "outside": "targets outside of the classes that are not ignored",
        "first": "the first of them",
    },
    doc=Doc(
        measures="Targets below 0 or from C on that are not equal to ignore_index.",
        means="The loss fails on the device with an assertion, or reads outside of its table.",
        does_not_mean="Which of the two is wrong: the targets, or the size of the output layer.",
        guards=(
            "Targets of -100 are not judged where ignore_index is not known: torch ignores them.",
        ),
        references=("torch.nn.CrossEntropyLoss: target in [0, C)",),
    ),
    fires=_example(
        "a target of 7 for 4 classes",
        Objective(4, -100, targets=replace(_TARGETS, classes=399, outside=1, first_outside=7)),
    ),
    silent=_example("all targets are classes", _HEALTHY),
    grounds=True,
    subject=SubjectKind.OBJECTIVE,
)
def out_of_range(objective: Objective) -> Outcome:
    targets = objective.targets
    measured: dict[str, Value] = {"classes": objective.classes, "last": objective.classes - 1}
    if targets is None or not targets.total:
        return Undecided(measured, Skip.NEED_ABSENT)
    certain = targets.outside - targets.torch_ignored
    measured |= {"total": targets.total, "outside": certain}
    if certain and targets.first_outside is not None:
        return _fired({**measured, "first": targets.first_outside})
    return (
        Undecided({**measured, "outside": targets.outside}) if targets.outside else Clean(measured)
    )


_COVERAGE = {
    "classes": "classes of the output layer",
    "seen": "different classes among the targets",
    "missing": "classes that are no target, ignored ones left out",
    "total": "targets that the loss sees",
    "rarest": "targets of the rarest class seen",
    "first": "the first classes that are no target",
}
_Enough = Annotated[int, Bound("targets", "of the rarest class seen, to judge unseen ones", ge=1)]


def _coverage(objective: Objective) -> dict[str, Value] | None:
    """What was counted of the classes; None without a target that the loss sees."""
    targets = objective.targets
    if targets is None or not targets.classes:
        return None
    return {
        "classes": objective.classes,
        "seen": targets.seen,
        "missing": targets.missing,
        "total": targets.classes,
        "rarest": targets.rarest,
    }


def _first(targets: Targets) -> str:
    more = targets.missing - len(targets.unseen)
    return ", ".join(map(str, targets.unseen)) + (f" and {more:,} more" if more else "")


def _is_enough(objective: Objective, rarest: int, least: int) -> bool:
    """Whether a class that is no target can be told from a rare one: no class seen is rare."""
    return objective.complete or rarest >= least


@rule(
    id="TP-OBJ-DEAD-CLASS",
    title="A class is never a target",
    level=Level.FAIL,
    message="{missing} of {classes} classes of the output layer are never a target in the"
    " training data: {first}.",
    evidence="{seen} classes among {total} targets, the rarest {rarest} times.",
    needs={"objective": _OBJECTIVE},
    measures=_COVERAGE,
    variants={
        "sample": Variant(
            Level.WARN,
            "{missing} of {classes} classes of the output layer are no target in the sample:"
            " {first}.",
            "{seen} classes among {total} targets, the rarest {rarest} times (limit {least}).",
        ),
        "spare": Variant(
            Level.WARN,
            "{missing} of {classes} classes of the output layer are never a target in the"
            " training data: {first}.",
            "{seen} classes among {total} targets: more classes are spare than used.",
        ),
    },
    doc=Doc(
        measures="Which classes of the output layer are no target.",
        means="The model is only ever taught not to choose these classes.",
        does_not_mean="That the data are wrong: an output layer may be larger than its labels on"
        " purpose (padded vocabularies, fine-tuning with the labels of another set).",
        guards=(
            "FAIL only where the caller says that the targets are all there are, and most classes"
            " are used.",
            "In a sample an unseen class may be a rare one: not judged unless each class that was"
            " seen came often.",
            "The class that the loss ignores, and padding, are left out.",
        ),
        references=(
            "With 20 targets of the rarest class seen, an unseen one as frequent has p = 2e-9",
            "SageMaker Debugger: ClassImbalance",
        ),
    ),
    fires=_example(
        "class 3 of 4 is no target of the whole data set",
        Objective(
            4,
            -100,
            complete=True,
            targets=replace(_TARGETS, seen=3, missing=1, unseen=(3,)),
        ),
    ),
    silent=_example("all classes are targets", _HEALTHY),
    grounds=True,
    subject=SubjectKind.OBJECTIVE,
)
def dead_class(objective: Objective, *, least: _Enough = 20) -> Outcome:
    measured, targets = _coverage(objective), objective.targets
    if measured is None or targets is None:
        return Undecided({"classes": objective.classes}, Skip.NEED_ABSENT)
    if not targets.missing:
        return Clean(measured)
    if not _is_enough(objective, targets.rarest, least):
        return Undecided(measured, Skip.LOW_POWER)
    measured["first"] = _first(targets)
    if not objective.complete:
        return _fired(measured, "sample")
    return _fired(measured, "" if targets.missing < targets.seen else "spare")


@rule(
    id="TP-OBJ-COVERAGE-INSUFFICIENT",
    title="Too few targets to say which classes are never one",
    level=Level.INFO,
    message="The sample of targets cannot show which classes are never a target.",
    evidence="{seen} of {classes} classes among {total} targets, the rarest {rarest} times"
    " (limit {least}).",
    needs={"objective": _OBJECTIVE},
    measures=_COVERAGE,
    doc=Doc(
        measures="Whether classes are unseen while some of the seen ones are rare.",
        means="TP-OBJ-DEAD-CLASS was not checked. A larger sample would decide it.",
        does_not_mean="Anything about the objective.",
        guards=("Silent where all classes were seen, or the targets are all there are.",),
        references=("trainproof 0.22",),
    ),
    fires=_example(
        "40 targets for 1000 classes",
        Objective(1000, -100, targets=replace(_TARGETS, seen=38, rarest=1, missing=962)),
    ),
    silent=_example("all classes are targets", _HEALTHY),
    subject=SubjectKind.OBJECTIVE,
)
def coverage(objective: Objective, *, least: _Enough = 20) -> Outcome:
    measured, targets = _coverage(objective), objective.targets
    if measured is None or targets is None:
        return Undecided({"classes": objective.classes}, Skip.NEED_ABSENT)
    if not targets.missing or _is_enough(objective, targets.rarest, least):
        return Clean(measured)
    return _fired(measured)


@rule(
    id="TP-OBJ-LABEL-SHIFT-DOUBLE",
    title="Labels and loss do not agree on who shifts",
    level=Level.FAIL,
    message="Labels are the inputs one position later, and the loss shifts them once more: the"
    " model is trained to predict two tokens ahead.",
    evidence="In {shifted} of {rows} rows ({positions} positions at which the two differ).",
    needs={"objective": _OBJECTIVE},
    measures={
        "rows": "rows that were compared",
        "positions": "positions compared: not ignored, and the next input differs from this one",
        "aligned": "rows whose labels are the inputs",
        "shifted": "rows whose labels are the inputs one position later",
    },
    variants={
        "copy": Variant(
            Level.FAIL,
            "Labels are the inputs, and the loss does not shift them: the model is trained to"
            " emit the token that it was just given.",
            "In {aligned} of {rows} rows ({positions} positions at which the two differ).",
        )
    },
    doc=Doc(
        measures="Whether labels equal the inputs at the same or at the next position, where the"
        " two differ.",
        means="A causal language model learns the wrong distance, while the loss falls as usual.",
        does_not_mean="Anything about models that are no causal language models: an autoencoder's"
        " labels are its inputs.",
        guards=(
            "Which arrangement is right is a property of the loss: where nobody says whether it"
            " shifts, nothing is judged.",
            "All rows that were compared must agree.",
            "Repeated tokens and ignored labels are not compared; a row needs 32 positions.",
        ),
        references=("transformers: causal language models shift labels inside the model",),
    ),
    fires=_example(
        "labels were shifted before a model that shifts them",
        replace(_HEALTHY, alignment=Alignment(480, 8, 0, 8)),
    ),
    silent=_example(
        "labels are the inputs, and the model shifts them",
        replace(_HEALTHY, alignment=Alignment(480, 8, 8, 0)),
    ),
    grounds=True,
    subject=SubjectKind.OBJECTIVE,
)
def double_shift(objective: Objective) -> Outcome:
    found = objective.alignment
    if found is None:
        return Undecided({"rows": 0}, Skip.NEED_ABSENT)
    measured: dict[str, Value] = {
        "rows": found.rows,
        "positions": found.positions,
        "aligned": found.aligned,
        "shifted": found.shifted,
    }
    if not found.rows:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    copied, moved = found.aligned == found.rows, found.shifted == found.rows
    if objective.loss_shifts is None or not (copied or moved):
        return Undecided(measured)
    if moved and objective.loss_shifts:
        return _fired(measured)
    return _fired(measured, "copy") if copied and not objective.loss_shifts else Clean(measured)
