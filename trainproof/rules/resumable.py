"""Whether the parts of a checkpoint that training goes on from belong to the same moment."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated

from trainproof.model.checkpoint import Checkpoint, SavedFile
from trainproof.model.outcome import Evidence, Level, Outcome, Value, Where
from trainproof.model.rule import Doc, SubjectKind, Variant
from trainproof.model.tensors import (
    CheckpointDirectory,
    CheckpointFacts,
    DirectoryKind,
    Extent,
    Group,
    TensorInfo,
)

from .interface import Bound, Example, rule
from .saved import UNREAD, Saved, facts_of, keeps_means, named, settle, unopened
from .saved_examples import emptied, half_precision, mismatched, timed


@rule(
    id="TP-CKPT-NO-STATE",
    title="The optimizer's states are not those of its parameters",
    level=Level.WARN,
    message="The optimizer in {artifact} lists {parameters:,} {parameters:parameter|parameters}"
    " and has a state for none of them.",
    evidence="It has the betas of Adam, which keeps two means for each parameter from its first"
    " step on; the checkpoint is of step {step:,}.",
    needs={"checkpoint": Saved()},
    measures={
        "optimizers": "optimizers with groups of parameters",
        "parameters": "parameters that the optimizer lists",
        "step": "the step of the checkpoint, by its directory or its own count",
        "states": "parameters that the optimizer has a state for",
        "unlisted": "of these, those that it does not list",
        **UNREAD,
    },
    variants={
        "unlisted": Variant(
            Level.WARN,
            "The optimizer in {artifact} has a state for {unlisted:,}"
            " {unlisted:parameter|parameters} that it does not list.",
            "It lists {parameters:,} {parameters:parameter|parameters} in its groups, and has"
            " {states:,} {states:state|states}.",
        )
    },
    doc=Doc(
        measures="The number of states of each optimizer that has betas, where the checkpoint says"
        " that at least one step was taken; and of any optimizer, states of parameters that none of"
        " its groups lists.",
        means="A resume starts the means again at zero: the first steps are as large as at the"
        " start of training, and the loss jumps.",
        does_not_mean="That the weights are damaged.",
        guards=(
            "Optimizers without betas (SGD) may have no state at all.",
            "A checkpoint that does not say its step, or says zero, may have no state.",
            "An optimizer whose groups list no parameter is left out.",
        ),
        references=(
            "OneVision-Encoder #65; Lightning #2613: the optimizer's state was not saved",
            "torch documentation, Optimizer.state_dict: state and param_groups",
        ),
    ),
    fires=Example("Adam without its means", emptied(step=1000)),
    silent=Example("before the first step", emptied(step=0)),
    subject=SubjectKind.CHECKPOINT,
)
def no_state(checkpoint: Checkpoint) -> Outcome:
    found, looked = [], 0
    for facts in facts_of(checkpoint):
        for one in facts.optimizers:
            looked += 1
            step = _step(checkpoint, facts) if keeps_means(facts, one) else 0
            measured: dict[str, Value] = {"optimizers": 1, "parameters": one.parameters}
            if one.parameters and not one.states and step > 0:
                found.append(Evidence(Where(facts.artifact), {**measured, "step": step}))
            elif one.parameters and one.unlisted:
                measured |= {"states": one.states, "unlisted": one.unlisted}
                found.append(Evidence(Where(facts.artifact), measured, "unlisted"))
    unread = unopened(checkpoint)
    return settle(checkpoint, found, {"optimizers": looked}, unread, there=looked > 0)


_STEPS = frozenset({"global_step", "step", "iteration", "steps", "iter"})
_MAX = 2**53


def _step(checkpoint: Checkpoint, facts: CheckpointFacts) -> int:
    """The largest count of steps that the file or its directory tells, 0 where none does."""
    own = [one.value for one in facts.scalars if one.name in _STEPS and type(one.value) is int]
    around = [one.step for one in checkpoint.directories if facts.artifact in one.files]
    counts = [count for count in (*own, *around) if count is not None and 0 <= count <= _MAX]
    return max(counts, default=0)


# --- shapes -------------------------------------------------------------------------------------


@rule(
    id="TP-CKPT-STATE-SHAPE",
    title="The optimizer's state is that of another model",
    level=Level.WARN,
    message="{bad:,} of {tensors:,} {tensors:mean|means} of the optimizer in {artifact}"
    " {bad:has|have} a shape that no tensor of the model beside it has: {shapes}.",
    evidence="The model in {model} has {others:,} {others:tensor|tensors}.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "tensors called exp_avg or momentum_buffer in the optimizer's state",
        "bad": "of these, those of a shape that the model does not have",
        "shapes": "the first of these shapes",
        "model": "the file of the model, the first where there are several",
        "others": "tensors of the model",
        **UNREAD,
    },
    doc=Doc(
        measures="The shape of each mean against the shapes of the model's tensors, in a directory"
        " of a trainer.",
        means="Loading stops, or the state is given to the wrong parameters: layers or tokens were"
        " added, or the files are of two trainings.",
        does_not_mean="That the weights are damaged.",
        guards=(
            "Only directories of transformers and accelerate whose weights were all read.",
            "Means that are flattened over processes, of one dimension only, are left out as a"
            " whole; so are weights that are quantised.",
            "An adapter of fewer tensors than the optimizer has means holds only what was made of"
            " them (p-tuning), and is left out.",
        ),
        references=(
            "School-of-AI PR #559; UniRL PR #440: states that do not fit",
            "peft #2415: embeddings that were resized before a resume",
        ),
    ),
    fires=Example("means of another model", mismatched(shape=(9, 9))),
    silent=Example("means of the model", mismatched(shape=(4, 4))),
    subject=SubjectKind.CHECKPOINT,
)
def state_shape(checkpoint: Checkpoint) -> Outcome:
    found, looked = [], 0
    for one in checkpoint.directories:
        if one.kind not in (DirectoryKind.TRAINER, DirectoryKind.ACCELERATE):
            continue
        inside = [file for file in checkpoint.files if file.facts.artifact in one.files]
        models = [file for file in inside if _is_model(file)]
        shapes = Counter(t.shape for file in models for t in file.tensors)
        for file in inside:
            means = [t for t in file.tensors if _is_mean(t)]
            whole = any(len(t.shape or ()) > 1 for t in means)
            made = len(means) > shapes.total() and any(map(_is_adapter, models))
            if not shapes or not whole or made or not all(_is_open(file) for file in models):
                continue
            looked += len(means)
            bad = [t for t in means if t.shape not in shapes]
            if bad:
                measured: dict[str, Value] = {
                    "tensors": len(means),
                    "bad": len(bad),
                    "shapes": named(dict.fromkeys(str(list(t.shape or ())) for t in bad)),
                    "model": models[0].facts.artifact,
                    "others": shapes.total(),
                }
                found.append(Evidence(Where(file.facts.artifact, tensor=bad[0].name), measured))
    unread = unopened(checkpoint)
    return settle(checkpoint, found, {"tensors": looked}, unread, there=looked > 0)


def _is_model(file: SavedFile) -> bool:
    return any(one.group is Group.MODEL for one in file.tensors)


def _is_adapter(file: SavedFile) -> bool:
    return file.facts.artifact.rpartition("/")[2].startswith("adapter_model.")


def _is_open(file: SavedFile) -> bool:
    plain = all(one.dtype.startswith(("float", "bfloat", "int64")) for one in file.tensors)
    return plain and file.facts.extent is not Extent.NOT_CHECKED


def _is_mean(one: TensorInfo) -> bool:
    leaf = one.name.rpartition("/")[2]
    return one.group is Group.OPTIMIZER and leaf in ("exp_avg", "momentum_buffer")


# --- clocks -------------------------------------------------------------------------------------


@rule(
    id="TP-CKPT-STEP",
    title="The files of a checkpoint count different steps",
    level=Level.WARN,
    message="The {kind} checkpoint in {directory} is of step {step:,} by its name, and {other} says"
    " {said:,}.",
    evidence="Of {clocks:,} {clocks:count|counts} that its files have, {bad:,} {bad:is|are} not"
    " {step:,}.",
    needs={"checkpoint": Saved()},
    measures={
        "clocks": "counts of steps beside the name of the directory",
        "bad": "of these, those that say another number",
        "directory": "directory of the checkpoint",
        "kind": "kind of the set",
        "step": "the number in the name of the directory",
        "other": "where the first other number is",
        "said": "the first other number",
        **UNREAD,
    },
    doc=Doc(
        measures="global_step of trainer_state.json and last_epoch of the schedule against the"
        " number in the name of the directory.",
        means="A resume skips data or repeats them, or goes on with another learning rate.",
        does_not_mean="Which of the numbers is right.",
        guards=(
            "Only directories called checkpoint-N beside a trainer's files.",
            "A schedule may have been stepped once for each process, and not for steps that a loss"
            " scaler skipped: multiples of the step count as the step, and one in ten may be"
            " missing.",
            "ReduceLROnPlateau counts evaluations, and is left out.",
            "The count of the optimizer is another rule's matter.",
        ),
        references=(
            "maxdiffusion #484; transformers #33336: counts that disagree",
            "accelerate documentation, AcceleratedScheduler: steps times processes",
        ),
    ),
    fires=Example("another global_step", timed(step=1000, global_step=500)),
    silent=Example("one step", timed(step=1000, global_step=1000)),
    subject=SubjectKind.CHECKPOINT,
)
def steps(
    checkpoint: Checkpoint,
    *,
    skipped: Annotated[
        float, Bound("share", "share of the schedule's steps that may be missing", ge=0, le=1)
    ] = 0.1,
) -> Outcome:
    found, clocks = [], 0
    for one in checkpoint.directories:
        named_so = one.path.rpartition("/")[2].startswith("checkpoint-")
        if one.kind is not DirectoryKind.TRAINER or not one.step or not named_so:
            continue
        told = list(_told(checkpoint, one))
        clocks += len(told)
        bad = [(where, said) for where, said in told if not _agrees(where, said, one.step, skipped)]
        if bad:
            measured: dict[str, Value] = {
                "clocks": len(told),
                "bad": len(bad),
                "directory": one.path,
                "kind": str(one.kind),
                "step": min(one.step, _MAX),
                "other": bad[0][0],
                "said": bad[0][1],
            }
            found.append(Evidence(Where(one.files[0] if one.files else one.path), measured))
    return settle(checkpoint, found, {"clocks": clocks}, unopened(checkpoint), there=clocks > 0)


_STATE, _SCHEDULE = "trainer_state.json", "scheduler.pt"


def _told(checkpoint: Checkpoint, one: CheckpointDirectory) -> Iterator[tuple[str, int]]:
    """Counts of steps in the files of a directory, with where they are."""
    for scalar in one.said:
        if scalar.name == f"{_STATE}/global_step" and type(scalar.value) is int:
            yield f"global_step of {_STATE}", min(scalar.value, _MAX)
    for facts in facts_of(checkpoint):
        plateau = any(value.name == "num_bad_epochs" for value in facts.scalars)
        if facts.artifact in one.files and facts.artifact.endswith(_SCHEDULE) and not plateau:
            for value in facts.scalars:
                if value.name == "last_epoch" and type(value.value) is int:
                    yield f"last_epoch of {_SCHEDULE}", min(value.value, _MAX)


def _agrees(where: str, said: int, step: int, skipped: float) -> bool:
    if where.endswith(_STATE):
        return said == step
    times = max(1, round(said / step))
    return (1 - skipped) * step * times <= said <= step * times


# --- loss scaling -------------------------------------------------------------------------------


@rule(
    id="TP-CKPT-NO-SCALER",
    title="The state of the loss scaler is missing",
    level=Level.INFO,
    message="The training in {directory} used fp16, and the state of its loss scaler is not among"
    " the {members:,} {members:file|files} of the checkpoint.",
    evidence="training_args.bin says fp16, and there is no scaler.pt.",
    needs={"checkpoint": Saved()},
    measures={
        "sets": "directories of transformers that say whether they trained in fp16",
        "directory": "directory of the checkpoint",
        "members": "files in it",
        **UNREAD,
    },
    doc=Doc(
        measures="fp16 in training_args.bin, which is walked and not loaded, and whether scaler.pt"
        " is there.",
        means="A resume starts again with the largest loss scale, and skips the first steps until"
        " the scale has come down.",
        does_not_mean="That anything is damaged: earlier versions of transformers never saved it.",
        guards=(
            "Only where the arguments were read, and the optimizer was saved.",
            "bf16 needs no scaler.",
        ),
        references=(
            "the_well #77; transformers #34053: the state of the scaler was not saved",
            "torch documentation, torch.amp.GradScaler: state_dict",
        ),
    ),
    fires=Example("fp16 without a scaler", half_precision(scaler=False)),
    silent=Example("fp16 with its scaler", half_precision(scaler=True)),
    subject=SubjectKind.CHECKPOINT,
)
def no_scaler(checkpoint: Checkpoint) -> Outcome:
    found, looked = [], 0
    for one in checkpoint.directories:
        args = [f for f in facts_of(checkpoint) if f.artifact in one.files and _is_arguments(f)]
        said = {value.name.rpartition(".")[2]: value.value for f in args for value in f.scalars}
        if one.kind is not DirectoryKind.TRAINER or "fp16" not in said:
            continue
        looked += 1
        resumes = _has(one.files, "optimizer.pt")
        if said["fp16"] is True and resumes and not _has(one.files, "scaler.pt"):
            measured: dict[str, Value] = {"directory": one.path or ".", "members": len(one.files)}
            found.append(Evidence(Where(args[0].artifact), measured))
    return settle(checkpoint, found, {"sets": looked}, unopened(checkpoint), there=looked > 0)


def _is_arguments(facts: CheckpointFacts) -> bool:
    return facts.artifact.endswith("training_args.bin")


def _has(files: Iterable[str], name: str) -> bool:
    return any(path.rpartition("/")[2] == name for path in files)
