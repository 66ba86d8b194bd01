"""Checkpoints as numbers that belong together: layers, statistics, moments of the optimizer."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated

from trainproof.model.checkpoint import Checkpoint, SavedFile
from trainproof.model.outcome import Evidence, Level, Outcome, Value, Where
from trainproof.model.rule import Doc, SubjectKind, Variant
from trainproof.model.tensors import Depth, Group, Layout, TensorInfo

from .interface import Bound, Example, rule
from .saved import (
    UNREAD,
    Saved,
    is_float,
    leaf_of,
    named,
    place_of,
    settle,
    settle_values,
    stats_of,
    total,
    unmeasured,
    untrained,
    weights,
)
from .saved_examples import copied, narrow, saved, stepped, tensor, zero

_FIRST = "the first of them"


# --- bfloat16 -----------------------------------------------------------------------------------

_GRAPHS = frozenset({Layout.ONNX, Layout.GGUF})
"""Layouts of exported models, which nobody trains on."""


@rule(
    id="TP-CKPT-BF16-CONTENT",
    title="Weights of float32 hold numbers of bfloat16",
    level=Level.INFO,
    message="{tensors:The only weight matrix|All {tensors:,} weight matrices} of float32 in"
    " {artifact} {tensors:holds|hold} only numbers of bfloat16.",
    evidence="The lower 16 bits of each of their {elements:,} values are zero; stored as bfloat16"
    " they would take {saved:,} bytes less.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "matrices of float32 whose values were read and differ from each other",
        "elements": "values in them",
        "saved": "bytes that bfloat16 would save",
        **UNREAD,
    },
    doc=Doc(
        measures="The lower half of every value of the float32 weight matrices of a file.",
        means="The weights were bfloat16 before they were saved as float32: the file is twice as"
        " large as what it holds, and no float32 master copy is in it.",
        does_not_mean="That anything was lost that was there: a model trained in bfloat16"
        " throughout looks the same.",
        guards=(
            "Every matrix of the file must be so; one that is not clears all.",
            "Matrices of one value, and files with fewer values than the threshold, say nothing.",
            "Exported graphs are left out: nobody trains on them.",
        ),
        references=(
            "keras-hub #2629; transformers #33780; Hugging Face blog PR #3386: master weights"
            " that were lost",
            "IEEE 754-2019 binary32: bfloat16 is its upper half",
        ),
    ),
    fires=Example("rounded weights", saved(narrow("fc.weight", (128, 128)))),
    silent=Example("weights of float32", saved(tensor("fc.weight", (128, 128)))),
    subject=SubjectKind.CHECKPOINT,
)
def bf16_content(
    checkpoint: Checkpoint,
    *,
    least: Annotated[int, Bound("values", "values below which a file says nothing", ge=1)] = 10_000,
) -> Outcome:
    found, looked = [], 0
    for file in checkpoint.files:
        matrices = list(_singles(file))
        looked += len(matrices)
        elements = total(stats_of(one).elements for one in matrices)
        if elements >= least and all(stats_of(one).bfloat16 for one in matrices):
            measured: dict[str, Value] = {
                "tensors": len(matrices),
                "elements": elements,
                "saved": 2 * elements,
            }
            found.append(Evidence(Where(file.facts.artifact), measured))
    return settle_values(checkpoint, found, looked)


def _singles(file: SavedFile) -> Iterator[TensorInfo]:
    """Matrices of float32 with different values."""
    if file.facts.layout in _GRAPHS:
        return
    for one in weights(file):
        matrix = one.dtype == "float32" and len(one.shape or ()) > 1
        if matrix and not stats_of(one).constant:
            yield one


# --- cloned layers ------------------------------------------------------------------------------

_LAYER = re.compile(
    r"(?P<before>(?:^|.*[./])(?:layers?|h|blocks?|block))[./](?P<at>\d+)[./](?P<part>.+)"
)
_EXPERT = re.compile(r"expert", re.IGNORECASE)


@rule(
    id="TP-CKPT-CLONED-LAYERS",
    title="Layers are copies of each other",
    level=Level.WARN,
    message="{bad:,} of {layers:,} layers in {artifact} {bad:is|are} bit for bit the same as"
    " another one: {names}.",
    evidence="All {tensors:,} matrices of {bad:it|the first of them} have the size and the"
    " checksum of those of {twin}.",
    needs={"checkpoint": Saved()},
    measures={
        "layers": "numbered layers with matrices whose values were read",
        "bad": "of these, those that repeat an earlier one",
        "names": _FIRST,
        "twin": "the layer that the first of them repeats",
        "tensors": "matrices in each of the two",
        "scales": "scales of normalisation, where each of them has one value, else 0",
        **UNREAD,
    },
    variants={
        "start": Variant(
            Level.INFO,
            "{bad:,} of {layers:,} layers in {artifact} {bad:is|are} bit for bit the same as"
            " another one: {names}.",
            "All {tensors:,} matrices of {bad:it|the first of them} have the size and the checksum"
            " of those of {twin}. Nothing shows that they were trained: each of {scales:,} scales"
            " of normalisation has one value, as at the start.",
        )
    },
    doc=Doc(
        measures="Size and checksum of every matrix of each numbered layer, against the layers"
        " before it.",
        means="The layers compute the same: they were copied (a model that was made deeper) and not"
        " trained since, or one was written in the place of another.",
        does_not_mean="That training did it: two layers never become equal by themselves.",
        guards=(
            "Layers that share one storage are tied by design (ALBERT) and left out.",
            "Matrices of one value, as at the start, do not count.",
            "Experts of a mixture are left out: they begin as copies where a model was upcycled.",
            "All matrices of a layer must be equal, and there must be at least two.",
            "Checkpoints of step 0 are left out: torch.nn.TransformerEncoder begins with copies.",
            "INFO where each scale of normalisation is as at the start: the first step moves them.",
            "Only layers of one stack are compared: an average of the model, a teacher or a target"
            " network begins as its copy.",
        ),
        references=(
            "Kim et al. 2024, SOLAR 10.7B: depth up-scaling copies layers before training",
            "Lan et al. 2020, ALBERT: parameters shared across layers",
        ),
    ),
    fires=Example("two equal layers", copied(same=True)),
    silent=Example("two layers", copied(same=False)),
    subject=SubjectKind.CHECKPOINT,
)
def cloned_layers(checkpoint: Checkpoint) -> Outcome:
    found, looked = [], 0
    for file in checkpoint.files:
        layers = _layers(file)
        looked += len(layers)
        twins = list(_twins(layers))
        if twins and checkpoint.step != 0:
            first, twin = twins[0]
            measured: dict[str, Value] = {
                "layers": len(layers),
                "bad": len(twins),
                "names": named(name for name, _ in twins),
                "twin": twin,
                "tensors": len(layers[first]),
                "scales": untrained(file),
            }
            variant = "start" if measured["scales"] else ""
            found.append(Evidence(Where(file.facts.artifact), measured, variant))
    unread = unmeasured(checkpoint)
    there = looked > 0
    return settle(checkpoint, found, {"layers": looked}, unread, Depth.TENSORS, there=there)


_Print = tuple[str, str, str, tuple[int, ...] | None, int]
"""Stack of layers, part, type, shape and checksum of one matrix."""


def _layers(file: SavedFile) -> dict[str, dict[_Print, str | None]]:
    """The matrices of each numbered layer, with their storages."""
    layers: defaultdict[str, dict[_Print, str | None]] = defaultdict(dict)
    for one in weights(file):
        match = _LAYER.fullmatch(one.name)
        plain = len(one.shape or ()) > 1 and one.crc is not None and not stats_of(one).constant
        if match and plain and one.crc is not None and not _EXPERT.search(one.name):
            mark = (match["before"], match["part"], one.dtype, one.shape, one.crc)
            layers[f"{match['before']}.{match['at']}"][mark] = one.storage
    return layers


def _twins(layers: dict[str, dict[_Print, str | None]]) -> Iterator[tuple[str, str]]:
    """Layers that repeat an earlier one without sharing its memory, and that one."""
    seen: dict[frozenset[_Print], str] = {}
    for name, marks in layers.items():
        twin = seen.setdefault(frozenset(marks), name)
        if twin != name and len(marks) > 1 and not _shared(marks, layers[twin]):
            yield name, twin


def _shared(one: dict[_Print, str | None], other: dict[_Print, str | None]) -> bool:
    return all(storage is not None and other[mark] == storage for mark, storage in one.items())


# --- batch normalisation ------------------------------------------------------------------------


@rule(
    id="TP-CKPT-BN-STATIC",
    title="Running statistics are as they were at the start",
    level=Level.WARN,
    message="{bad:,} of {tensors:,} {tensors:layer|layers} of batch normalisation in {artifact}"
    " {bad:has|have} counted batches, and their running statistics are those of the start:"
    " {names}.",
    evidence="The mean is zero and the variance one throughout, after {batches:,}"
    " {batches:batch|batches} in the first of them.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "layers with a running mean, a running variance and a count of batches",
        "bad": "of these, those that have counted and whose statistics have not moved",
        "names": _FIRST,
        "batches": "batches that the first of them has counted",
        **UNREAD,
    },
    doc=Doc(
        measures="running_mean, running_var and num_batches_tracked of each layer.",
        means="In evaluation the layer does not normalise, although it did in training: the"
        " statistics were reset, frozen with a momentum of zero, or not saved.",
        does_not_mean="That the weights are damaged: a pass over training data restores them.",
        guards=(
            "A layer that has counted no batch is left out: a fresh or a frozen one looks so.",
            "Both statistics must be exactly those of the start.",
        ),
        references=(
            "pytorch documentation, BatchNorm2d: mean 0 and variance 1 at the start",
            "pytorch #1206; bts #90",
        ),
    ),
    fires=Example(
        "a layer that has counted",
        saved(
            zero("bn.running_mean", (4,)),
            tensor("bn.running_var", (4,), low=1.0, high=1.0),
            tensor("bn.num_batches_tracked", (), dtype="int64", low=9, high=9),
        ),
    ),
    silent=Example(
        "statistics that moved",
        saved(
            tensor("bn.running_mean", (4,)),
            tensor("bn.running_var", (4,), low=0.5, high=2.0),
            tensor("bn.num_batches_tracked", (), dtype="int64", low=9, high=9),
        ),
    ),
    subject=SubjectKind.CHECKPOINT,
)
def bn_static(checkpoint: Checkpoint) -> Outcome:
    found, looked = [], 0
    for file in checkpoint.files:
        layers = list(_normalised(file))
        looked += len(layers)
        bad = [(name, count) for name, count, still in layers if still and count > 0]
        if bad:
            measured: dict[str, Value] = {
                "tensors": len(layers),
                "bad": len(bad),
                "names": named(name for name, _ in bad),
                "batches": bad[0][1],
            }
            found.append(Evidence(Where(file.facts.artifact), measured))
    return settle_values(checkpoint, found, looked)


def _normalised(file: SavedFile) -> Iterator[tuple[str, int, bool]]:
    """Name, batches counted, and whether the statistics are those of the start."""
    by_name = {one.name: one for one in file.tensors if one.stats is not None}
    for name, variance in by_name.items():
        stem = name.removesuffix("running_var")
        mean, count = by_name.get(f"{stem}running_mean"), by_name.get(f"{stem}num_batches_tracked")
        if stem == name or mean is None or count is None:
            continue
        batches = int(stats_of(count).max or 0)
        still = (
            stats_of(mean).all_zero and stats_of(variance).constant and stats_of(variance).max == 1
        )
        yield stem.rstrip("."), batches, still


# --- moments of the optimizer -------------------------------------------------------------------

_UNDERFLOW = 1e-12
"""A mean of gradients from which on its square is far from the least number of float32."""
_WIDE = frozenset({"float32", "float64", "bfloat16"})
"""Types in which the square of such a number is not zero."""


@rule(
    id="TP-CKPT-NO-GRADIENT",
    title="Parameters have had no gradient",
    level=Level.WARN,
    message="{bad:,} of {tensors:,} second {tensors:moment|moments} of matrices in {artifact}"
    " {bad:is|are} zero throughout after {step:,} {step:step|steps}: {names}.",
    evidence="Every gradient of {bad:this parameter|these parameters} was zero, in each of"
    " {bad:its|their} {elements:,} {elements:value|values}.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "second moments (exp_avg_sq) of two or more dimensions that were read",
        "bad": "of these, those that are zero throughout",
        "names": _FIRST,
        "elements": "values in them",
        "step": "the largest step count of the optimizer",
        **UNREAD,
    },
    doc=Doc(
        measures="exp_avg_sq, the running mean of squared gradients, of each matrix that the"
        " optimizer has a state for.",
        means="The parameters are in the optimizer and nothing reaches them: a branch that is not"
        " used, a graph that was detached, a mask of zeros.",
        does_not_mean="That they were frozen by intent: a frozen parameter has no state at all.",
        guards=(
            "At least ten steps: at the first one, gradients of LoRA A are zero by design.",
            "Only whole matrices: rows of an embedding that never occurred are normal.",
            "States of fp16 are left out: squares of small gradients vanish in it.",
        ),
        references=(
            "Kingma & Ba 2015, Adam, algorithm 1",
            "SageMaker Debugger, VanishingGradient; TheDeepChecker: untrained parameters",
        ),
    ),
    fires=Example("a matrix without gradients", stepped(zero_square=True)),
    silent=Example("matrices with gradients", stepped(zero_square=False)),
    subject=SubjectKind.CHECKPOINT,
)
def no_gradient(
    checkpoint: Checkpoint,
    *,
    steps: Annotated[int, Bound("steps", "steps before which nothing is said", ge=1)] = 10,
) -> Outcome:
    found, looked = [], 0
    for file in checkpoint.files:
        squares = list(_squares(file))
        looked += len(squares)
        step = max((int(s) for one in file.facts.optimizers for s in one.steps), default=0)
        bad = [one for one in squares if stats_of(one).all_zero]
        if bad and step >= steps:
            measured: dict[str, Value] = {
                "tensors": len(squares),
                "bad": len(bad),
                "names": named(one.name for one in bad),
                "elements": total(stats_of(one).elements for one in bad),
                "step": step,
            }
            found.append(Evidence(place_of(bad[0]), measured))
    return settle_values(checkpoint, found, looked)


def _moments(file: SavedFile, leaf: str) -> Iterator[TensorInfo]:
    for one in file.tensors:
        wide = one.stats is not None and one.dtype in _WIDE and is_float(one)
        if wide and one.group is Group.OPTIMIZER and leaf_of(one.name) == leaf:
            yield one


def _squares(file: SavedFile) -> Iterator[TensorInfo]:
    return (one for one in _moments(file, "exp_avg_sq") if len(one.shape or ()) > 1)


@rule(
    id="TP-CKPT-ADAM-STUCK",
    title="First and second moments contradict each other",
    level=Level.FAIL,
    message="{bad:,} of {tensors:,} {tensors:parameter|parameters} in the optimizer's state in"
    " {artifact} {bad:has|have} a mean gradient and no mean square: {names}.",
    evidence="The largest mean gradient of the first is {largest:.3g}, and its mean square is zero"
    " throughout.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "parameters with exp_avg and exp_avg_sq whose values were read",
        "bad": "of these, those with a mean gradient and a mean square of zero",
        "names": _FIRST,
        "largest": "the largest magnitude in exp_avg of the first",
        **UNREAD,
    },
    doc=Doc(
        measures="exp_avg and exp_avg_sq of the same parameter.",
        means="A mean of gradients that is not zero needs a mean of squares that is not: an update"
        " was lost. Adam then divides by its epsilon alone, and the steps explode.",
        does_not_mean="That the weights are damaged already.",
        guards=(
            "The mean must be so large that its square cannot vanish.",
            "States of fp16 and 8-bit states are left out.",
        ),
        references=(
            "E. Pearl 2025: addcmul_ on non-contiguous tensors of MPS left exp_avg_sq at zero",
            "Kingma & Ba 2015, Adam, algorithm 1",
        ),
    ),
    fires=Example(
        "a mean without squares",
        saved(
            tensor("state/0/exp_avg", group=Group.OPTIMIZER),
            zero("state/0/exp_avg_sq", group=Group.OPTIMIZER),
        ),
    ),
    silent=Example(
        "both moments",
        saved(
            tensor("state/0/exp_avg", group=Group.OPTIMIZER),
            tensor("state/0/exp_avg_sq", low=0.0, group=Group.OPTIMIZER),
        ),
    ),
    subject=SubjectKind.CHECKPOINT,
)
def adam_stuck(checkpoint: Checkpoint) -> Outcome:
    found, looked = [], 0
    for file in checkpoint.files:
        squares = {one.name: one for one in _moments(file, "exp_avg_sq")}
        pairs = [
            (one, squares[f"{one.name}_sq"])
            for one in _moments(file, "exp_avg")
            if f"{one.name}_sq" in squares
        ]
        looked += len(pairs)
        bad = [mean for mean, square in pairs if _stuck(mean, square)]
        if bad:
            measured: dict[str, Value] = {
                "tensors": len(pairs),
                "bad": len(bad),
                "names": named(one.name for one in bad),
                "largest": float(stats_of(bad[0]).absmax or 0),
            }
            found.append(Evidence(place_of(bad[0]), measured))
    return settle_values(checkpoint, found, looked)


def _stuck(mean: TensorInfo, square: TensorInfo) -> bool:
    large = (stats_of(mean).absmax or 0) >= _UNDERFLOW
    return large and stats_of(square).elements > 0 and stats_of(square).all_zero
