"""Checkpoints as numbers: what is in the tensors."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

from trainproof.model.checkpoint import Checkpoint, SavedFile
from trainproof.model.outcome import Evidence, Level, Outcome, Value
from trainproof.model.rule import Doc, SubjectKind, Variant
from trainproof.model.tensors import Extent, Group, Kind, Layout, TensorInfo

from .interface import Bound, Example, rule
from .saved import (
    UNREAD,
    Saved,
    facts_of,
    is_float,
    keeps_means,
    leaf_of,
    named,
    place_of,
    settle,
    settle_values,
    stats_of,
    total,
    untrained,
    weights,
)
from .saved_examples import saved, tensor, trained, zero

_HEALTHY = Example("finite weights", saved(tensor("fc.weight"), tensor("fc.bias", (4,))))
_TENSORS = "weight tensors of floating-point numbers whose values were read"
_FIRST = "the first of them"


def _all_weights(checkpoint: Checkpoint) -> list[TensorInfo]:
    return [one for file in checkpoint.files for one in weights(file)]


_Candidates = Callable[[SavedFile], Iterator[TensorInfo]]


def _bad_by_file(
    checkpoint: Checkpoint, bad: Callable[[TensorInfo], bool], candidates: _Candidates
) -> Iterator[tuple[SavedFile, list[TensorInfo], int]]:
    """Files that hold such tensors, the tensors, and the number of those that were looked at."""
    for file in checkpoint.files:
        looked = list(candidates(file))
        found = [one for one in looked if bad(one)]
        if found:
            yield file, found, len(looked)


def _sifted(
    checkpoint: Checkpoint,
    bad: Callable[[TensorInfo], bool],
    candidates: _Candidates,
    more: Callable[[SavedFile, list[TensorInfo]], Mapping[str, Value]],
    variant: Callable[[Mapping[str, Value]], str] = lambda _: "",
) -> Outcome:
    """Fired with one place for each file that holds such tensors: how many, and the first names.

    ``more``: what else is measured of those of one file. ``variant``: the form, by what was
    measured.
    """
    found = []
    for file, these, looked in _bad_by_file(checkpoint, bad, candidates):
        measured = {**_counted(these, looked), **more(file, these)}
        found.append(Evidence(place_of(these[0]), measured, variant(measured)))
    return settle_values(
        checkpoint, found, sum(1 for file in checkpoint.files for _ in candidates(file))
    )


def _counted(bad: list[TensorInfo], looked: int) -> dict[str, Value]:
    return {"tensors": looked, "bad": len(bad), "names": named(one.name for one in bad)}


_MASK = re.compile(r"mask|causal|alibi|attn_bias|attention_bias|\btril\b|\btriu\b", re.IGNORECASE)
_ARRAYS = frozenset({Layout.NPY, Layout.NPZ, Layout.PICKLE, Layout.JOBLIB, Layout.XGBOOST})
"""Layouts in which arrays of any kind are kept."""


@rule(
    id="TP-CKPT-NAN",
    title="Weights are not finite",
    level=Level.FAIL,
    message="{bad:,} of {tensors:,} weight {tensors:tensor|tensors} in {artifact} {bad:holds|hold}"
    " NaN or infinity: {names}.",
    evidence="{nan:,} NaN and {inf:,} infinite {inf:value|values} among the {elements:,} of"
    " {bad:this tensor|these tensors}.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": _TENSORS + "; where there are none, tensors of the optimizer",
        "bad": "of these, tensors that hold NaN or infinity",
        "names": _FIRST,
        "nan": "values in them that are NaN",
        "inf": "values in them that are infinite",
        "elements": "all values in them",
        **UNREAD,
    },
    variants={
        "optimizer": Variant(
            Level.WARN,
            "{bad:,} of {tensors:,} {tensors:tensor|tensors} of the optimizer in {artifact}"
            " {bad:holds|hold} NaN or infinity: {names}.",
            "{nan:,} NaN and {inf:,} infinite {inf:value|values} among the {elements:,} of"
            " {bad:this tensor|these tensors}. The weights of a run that resumes from it are lost"
            " at its first step.",
        ),
        "arrays": Variant(
            Level.WARN,
            "{bad:,} of {tensors:,} {tensors:array|arrays} in {artifact} {bad:holds|hold} NaN or"
            " infinity: {names}.",
            "{nan:,} NaN and {inf:,} infinite {inf:value|values} among the {elements:,} of"
            " {bad:this array|these arrays}.",
        ),
    },
    doc=Doc(
        measures="Counts NaN and infinite values over every element of every tensor.",
        means="The model computes nothing any more, and training cannot repair it.",
        does_not_mean="That earlier checkpoints are damaged: look at those.",
        guards=(
            "Masks and attention biases may hold negative infinity by design.",
            "Arrays of NumPy, of pickles, of XGBoost and of HDF5 files that Keras did not write"
            " need not be weights, nor need constants of an ONNX graph that are infinite: a WARN.",
            "State of schedulers and callbacks is left out: a best value starts at infinity. So are"
            " tensors called min, max or best that are infinite throughout (observers of"
            " quantisation, metrics); others that are, and are not called weight or bias, are a"
            " WARN.",
        ),
        references=(
            "kohya_ss #1112, sd-scripts #293, #820; unsloth #3690",
            "ainode #186: an adapter of NaN alone was recorded as a success",
            "IEEE 754-2019, section 6",
        ),
    ),
    grounds=True,
    fires=Example("one NaN in a weight", saved(tensor("fc.weight", nan=1), tensor("fc.bias"))),
    silent=_HEALTHY,
    subject=SubjectKind.CHECKPOINT,
)
def nonfinite(checkpoint: Checkpoint) -> Outcome:
    found = []
    for file, bad, looked in _bad_by_file(checkpoint, _not_finite, weights):
        variant = "arrays" if _any_kind(file, bad) else ""
        found.append(Evidence(place_of(bad[0]), _not_finite_measures(bad, looked), variant))
    for _, bad, looked in _bad_by_file(checkpoint, _not_finite, _optimizer):
        found.append(Evidence(place_of(bad[0]), _not_finite_measures(bad, looked), "optimizer"))
    state = sum(1 for file in checkpoint.files for _ in _optimizer(file))
    return settle_values(checkpoint, found, len(_all_weights(checkpoint)) or state)


def _any_kind(file: SavedFile, bad: list[TensorInfo]) -> bool:
    """Whether the tensors need not be weights: graphs of ONNX hold masks of infinities, and what is
    infinite throughout was filled so, whether by design or not."""
    layout = file.facts.layout
    if all(_filled(one) and leaf_of(one.name) not in _TRAINED for one in bad):
        return True
    if layout is Layout.ONNX:
        return not any(stats_of(one).nan for one in bad)
    if layout is Layout.HDF5:
        return not any(_KERAS.search(one.name) for one in file.tensors)
    return layout in _ARRAYS


_KERAS = re.compile(r"^model_weights/|/vars/\d+$")
"""Where Keras keeps weights in HDF5."""


_TRAINED = frozenset({"weight", "bias", "kernel", "embedding"})
_EXTREME = re.compile(r"(^|_)(min|max|best)(_|$)", re.IGNORECASE)
"""Names of what starts at infinity: ranges of quantisation, best values."""


def _not_finite(one: TensorInfo) -> bool:
    stats = stats_of(one)
    masks = stats.neginf == stats.nonfinite and _MASK.search(one.name) is not None
    extreme = _filled(one) and _EXTREME.search(leaf_of(one.name)) is not None
    return stats.nonfinite > 0 and not masks and not extreme


def _filled(one: TensorInfo) -> bool:
    """Whether it is infinite throughout."""
    stats = stats_of(one)
    return stats.nan == 0 and stats.inf == stats.elements > 0


def _optimizer(file: SavedFile) -> Iterator[TensorInfo]:
    for one in file.tensors:
        if one.group is Group.OPTIMIZER and one.stats is not None and is_float(one):
            yield one


def _not_finite_measures(bad: list[TensorInfo], looked: int) -> dict[str, Value]:
    return {
        **_counted(bad, looked),
        "nan": total(stats_of(one).nan for one in bad),
        "inf": total(stats_of(one).inf for one in bad),
        "elements": total(stats_of(one).elements for one in bad),
    }


_WEIGHT = frozenset({"weight", "kernel", "embedding", "w", "weights", "qkv"})
_ZERO_BY_ROLE = re.compile(
    r"lora|ada_?ln|ada_?norm|modulation|zero|controlnet|proj_out|conv_out|gate|alpha|gamma|residual"
    r"|skip|pos|time|token_type|mask|buffer|cache|running|queue|delta|scale|hypernet|value_head"
    r"|relative|momentum|adapter|offset|refpoint|bbox_embed|final_layer|(?<!s)oft_r",
    re.IGNORECASE,
)
_FEW = 16


@rule(
    id="TP-CKPT-ZERO",
    title="Weight matrices are zero throughout",
    level=Level.WARN,
    message="{bad:,} of {tensors:,} weight {tensors:matrix|matrices} in {artifact} {bad:is|are}"
    " zero throughout: {names}.",
    evidence="All {elements:,} values of {bad:it|these} are zero.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "weights of two or more dimensions whose values were read",
        "bad": "of these, those that are zero throughout",
        "names": _FIRST,
        "elements": "values in them",
        "scales": "scales of normalisation, where each of them has one value, else 0",
        **UNREAD,
    },
    variants={
        "start": Variant(
            Level.INFO,
            "{bad:,} of {tensors:,} weight {tensors:matrix|matrices} in {artifact} {bad:is|are}"
            " zero throughout: {names}.",
            "All {elements:,} values of {bad:it|these} are zero. Nothing shows that it was"
            " trained: each of {scales:,} scales of normalisation has one value, as at the start.",
        )
    },
    doc=Doc(
        measures="Weights of two or more dimensions in which every value is zero.",
        means="A layer that passes nothing on, and most often data that were lost: a hole in the"
        " file, a shard that was never gathered, a file overwritten while it was mapped.",
        does_not_mean="That training did it.",
        guards=(
            "One-dimensional tensors are zero at the start: biases, running means; also those whose"
            " further dimensions are 1.",
            "Roles that start at zero by design are left out by name: LoRA, adaptive norms, zero"
            " convolutions, gates, positions and the like.",
            "Tensors of fewer than sixteen values are left out, and checkpoints of step 0 or with"
            " an optimizer that has no state yet: output layers may start at zero.",
            "INFO where each scale of normalisation is as at the start: the first step moves them.",
        ),
        references=(
            "microsoft/BitNet #608: the published file is half zeros",
            "SimpleTuner #2714: a mapped file was overwritten",
            "TheDeepChecker: parameters that are zero",
        ),
    ),
    fires=Example("a matrix of zeros", saved(zero("fc.weight"), tensor("head.weight"))),
    silent=_HEALTHY,
    subject=SubjectKind.CHECKPOINT,
)
def all_zero(checkpoint: Checkpoint) -> Outcome:
    begun = checkpoint.step != 0 and not _unstepped(checkpoint)
    return _sifted(
        checkpoint,
        lambda one: begun and stats_of(one).all_zero,
        _matrices,
        lambda file, bad: {
            "elements": total(stats_of(one).elements for one in bad),
            "scales": untrained(file),
        },
        lambda measured: "start" if measured["scales"] else "",
    )


def _unstepped(checkpoint: Checkpoint) -> bool:
    """Whether optimizers of Adam's family were saved, none of which has a state."""
    adams = [
        one.states
        for facts in facts_of(checkpoint)
        for one in facts.optimizers
        if one.parameters and keeps_means(facts, one)
    ]
    return bool(adams) and not any(adams)


def _matrices(file: SavedFile) -> Iterator[TensorInfo]:
    for one in weights(file):
        axes = sum(length > 1 for length in one.shape or ())
        matrix = axes > 1 and stats_of(one).elements >= _FEW
        role = leaf_of(one.name) in _WEIGHT and not _ZERO_BY_ROLE.search(one.name)
        if matrix and role:
            yield one


@rule(
    id="TP-CKPT-EMPTY",
    title="Parameters have no values",
    level=Level.FAIL,
    message="{bad:,} of {tensors:,} {tensors:parameter|parameters} in {artifact} {bad:has|have} a"
    " size of zero: {names}.",
    evidence="{bad:It|The first of them} has the shape {shape}.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "tensors that are named as weights or biases",
        "bad": "of these, those without a single value",
        "names": _FIRST,
        "shape": "the shape of the first",
        **UNREAD,
    },
    variants={
        "meta": Variant(
            Level.FAIL,
            "{bad:,} of {tensors:,} {tensors:parameter|parameters} in {artifact} {bad:was|were}"
            " saved without {bad:its|their} data: {names}.",
            "{bad:It is|They are} on the meta device, which holds shapes only; the first has the"
            " shape {shape}.",
        )
    },
    doc=Doc(
        measures="Tensors named as weights or biases whose shape has a zero in it, and tensors of"
        " the meta device.",
        means="Parameters that are partitioned over processes were saved without being gathered"
        " (DeepSpeed ZeRO stage 3): the file holds names and nothing else.",
        does_not_mean="That they are lost: the optimizer's files may hold them (zero_to_fp32.py).",
        guards=("Only names that end in weight, bias or kernel: buffers may be empty.",),
        references=(
            "transformers #20082; peft #453, #460, #2500",
            "DeepSpeed #4295, #7501, #7900",
        ),
    ),
    fires=Example("a weight without values", saved(tensor("fc.weight", (0,)), tensor("fc.bias"))),
    silent=_HEALTHY,
    subject=SubjectKind.CHECKPOINT,
)
def empty(checkpoint: Checkpoint) -> Outcome:
    found, looked = [], 0
    for file in checkpoint.files:
        named_so = [one for one in file.tensors if _is_parameter(one)]
        looked += len(named_so)
        for variant, bad in (
            ("", [one for one in named_so if 0 in (one.shape or ())]),
            ("meta", [one for one in named_so if one.kind is Kind.META]),
        ):
            if bad:
                found.append(
                    Evidence(place_of(bad[0]), _without_values(bad, len(named_so)), variant)
                )
    return settle(
        checkpoint,
        found,
        {"tensors": looked},
        (file.facts.artifact for file in checkpoint.files if _unlisted(file)),
        there=looked > 0,
    )


def _without_values(bad: list[TensorInfo], looked: int) -> dict[str, Value]:
    return {
        **_counted(bad, looked),
        "shape": str(list(bad[0].shape or ()))[:100],
    }


def _is_parameter(one: TensorInfo) -> bool:
    named_so = leaf_of(one.name) in ("weight", "bias", "kernel") or one.kind is Kind.META
    return one.group is Group.MODEL and named_so


def _unlisted(file: SavedFile) -> bool:
    """Whether the reader could not list its tensors."""
    return file.facts.extent is Extent.NOT_CHECKED


@rule(
    id="TP-CKPT-BN",
    title="Running variances are impossible",
    level=Level.FAIL,
    message="{bad:,} of {tensors:,} running {tensors:variance|variances} in {artifact}"
    " {bad:is|are} negative or not finite: {names}.",
    evidence="The least value of the first is {least:.4g}; {nan:,} of its values {nan:is|are} not"
    " finite.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "running variances whose values were read",
        "bad": "of these, those with a value that is negative or not finite",
        "names": _FIRST,
        "least": "the least finite value of the first",
        "nan": "values of the first that are not finite",
        **UNREAD,
    },
    doc=Doc(
        measures="The values of running_var, the variance that batch normalisation divides by.",
        means="In evaluation the layer returns NaN, while training looks healthy.",
        does_not_mean="That the weights are damaged: a pass over training data restores it.",
        guards=("A variance of zero is left to other rules: a channel may be constant.",),
        references=("pytorch #1206; bts #90; SparseConvNet #190",),
    ),
    fires=Example("a negative variance", saved(tensor("bn.running_var", (4,), low=-0.1))),
    silent=Example("variances", saved(tensor("bn.running_var", (4,), low=0.1))),
    subject=SubjectKind.CHECKPOINT,
)
def batch_norm(checkpoint: Checkpoint) -> Outcome:
    return _sifted(
        checkpoint,
        _impossible,
        _variances,
        lambda _, bad: {"least": _least(bad[0]), "nan": stats_of(bad[0]).nonfinite},
    )


def _least(one: TensorInfo) -> float:
    """The least finite value, NaN where there is none."""
    low = stats_of(one).min
    return math.nan if low is None else float(low)


def _variances(file: SavedFile) -> Iterator[TensorInfo]:
    return (one for one in weights(file) if leaf_of(one.name) == "running_var")


def _impossible(one: TensorInfo) -> bool:
    stats = stats_of(one)
    return stats.nonfinite > 0 or (stats.min is not None and stats.min < 0)


_LORA_B = re.compile(r"lora_(B|up|embedding_B)(?![a-z])")


@rule(
    id="TP-CKPT-LORA-B",
    title="The adapter does nothing",
    level=Level.FAIL,
    message="{tensors:The only LoRA B matrix|All {tensors:,} LoRA B matrices} in {artifact}"
    " {tensors:is|are} zero: the adapter adds nothing.",
    evidence="They start at zero, and the first of them, {names}, is still zero in all of its"
    " {elements:,} values.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "LoRA B matrices whose values were read",
        "bad": "of these, those that are zero throughout",
        "names": _FIRST,
        "elements": "values of the first of them",
        "step": "how far the training had come, -1 where the checkpoint does not tell",
        **UNREAD,
    },
    variants={
        "untold": Variant(
            Level.WARN,
            "{tensors:The only LoRA B matrix|All {tensors:,} LoRA B matrices} in {artifact}"
            " {tensors:is|are} zero: the adapter adds nothing.",
            "They start at zero, and the first of them, {names}, is zero in all of its"
            " {elements:,} values. Nothing beside it tells whether it was trained.",
        ),
        "some": Variant(
            Level.WARN,
            "{bad:,} of {tensors:,} LoRA B matrices in {artifact} {bad:is|are} still zero:"
            " {names}.",
            "{bad:It|The first of them} has {elements:,} {elements:value|values}.",
        ),
    },
    doc=Doc(
        measures="LoRA B (up) matrices that are zero throughout, as they are before training.",
        means="Nothing was trained, or something else was: the adapter was attached after the"
        " optimizer was made, saved from another copy, or its keys did not match.",
        does_not_mean="That the base model is damaged.",
        guards=(
            "A checkpoint of step 0, by its own account or that of its name, is left out.",
            "FAIL only where something tells of a training: a count of steps, the state of an"
            " optimizer, the arguments of a trainer. An adapter that was just made is no failure.",
            "Where only some are zero it is a WARN.",
        ),
        references=(
            "peft #1402, #793; alpaca-lora #357; sd-scripts #91 (264 of 264)",
            "Hu et al. 2021, LoRA, section 4.1: B is zero at the start",
        ),
    ),
    fires=Example(
        "every B is zero after 1,000 steps",
        trained(tensor("q.lora_A.weight"), zero("q.lora_B.weight"), zero("v.lora_B.weight")),
    ),
    silent=Example("B has moved", saved(tensor("q.lora_A.weight"), tensor("q.lora_B.weight"))),
    subject=SubjectKind.CHECKPOINT,
)
def lora_b(checkpoint: Checkpoint) -> Outcome:
    matrices = [one for one in _all_weights(checkpoint) if _LORA_B.search(one.name)]
    bad = [one for one in matrices if stats_of(one).all_zero]
    told = (checkpoint.step, *(one.step for one in checkpoint.directories))
    steps = [step for step in told if step is not None]
    found = []
    if bad and 0 not in steps:
        measured: dict[str, Value] = {
            **_counted(bad, len(matrices)),
            "elements": stats_of(bad[0]).elements,
            "step": max(steps, default=-1),
        }
        whole = "" if max(steps, default=0) > 0 or _is_trained(checkpoint) else "untold"
        variant = whole if len(bad) == len(matrices) else "some"
        found.append(Evidence(place_of(bad[0]), measured, variant))
    return settle_values(checkpoint, found, len(matrices))


def _is_trained(checkpoint: Checkpoint) -> bool:
    """Whether a file beside the weights is one that only a training leaves."""
    return any(
        facts.artifact.rpartition("/")[2] == "training_args.bin"
        or any(one.states or one.steps for one in facts.optimizers)
        or any(one.name == "ss_steps" for one in facts.metadata)
        for facts in facts_of(checkpoint)
    )


@rule(
    id="TP-CKPT-FP16-RANGE",
    title="Weights sit at the ends of the range of fp16",
    level=Level.WARN,
    message="{bad:,} of {tensors:,} fp16 weight {tensors:tensor|tensors} in {artifact}"
    " {bad:reaches|reach} 65504, the largest number of fp16: {names}.",
    evidence="{clipped:,} of the {elements:,} values of the first {clipped:is|are} plus or minus"
    " 65504.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "weight tensors of fp16 whose values were read; of the variants, matrices",
        "bad": "of these, those with a value of plus or minus 65504; of the variants, those whose"
        " values are mostly subnormal",
        "names": _FIRST,
        "elements": "values of the first of them",
        "clipped": "of these, values of plus or minus 65504",
        "sampled": "values of the first that are not zero and were looked at for their size",
        "subnormal": "of these, subnormal ones",
        "share": "subnormal over sampled",
        **UNREAD,
    },
    variants={
        "small": Variant(
            Level.INFO,
            "{bad:,} of {tensors:,} fp16 weight {tensors:matrix|matrices} in {artifact}"
            " {bad:consists|consist} mostly of numbers below 6.1e-5, where fp16 has fewer than its"
            " 11 bits: {names}.",
            "{subnormal:,} of {sampled:,} values of the first that were looked at and are not zero"
            " (limit {most:.0%}).",
        ),
        "small-bf16": Variant(
            Level.INFO,
            "{bad:,} of {tensors:,} bf16 weight {tensors:matrix|matrices} in {artifact}"
            " {bad:consists|consist} mostly of numbers below 1.2e-38, where bf16 has fewer than its"
            " 8 bits: {names}.",
            "{subnormal:,} of {sampled:,} values of the first that were looked at and are not zero"
            " (limit {most:.0%}).",
        ),
    },
    doc=Doc(
        measures="The values of plus or minus 65504 of each weight tensor that is stored as fp16;"
        " and of fp16 and bf16 matrices, how many of a sample of their values, spread evenly, are"
        " subnormal: below the least number that has all bits of the type.",
        means="Larger values were clipped when the weights were converted to fp16; values that are"
        " too small were rounded coarsely, and those below 3e-8 to zero.",
        does_not_mean="That any value is infinite: that is another rule's finding.",
        guards=(
            "Only weights; masks and biases of attention are left out by name.",
            "Some values of every matrix are subnormal: at a deviation of 0.02, one in 400. Only"
            " where nine in ten are, of at least a hundred that were looked at, is it told, as"
            " INFO.",
            "Roles that start at zero (LoRA, gates, zero convolutions) have small values at first,"
            " and are left out of that.",
        ),
        references=(
            "IEEE 754-2019, binary16: the largest finite number is 65504, the least normal one"
            " 2^-14",
            "tensorflow #43719; Bekman, ML Engineering: numbers beyond the range of fp16",
        ),
    ),
    fires=Example("a clipped weight", saved(tensor("w", dtype="float16", largest=2))),
    silent=Example("weights in range", saved(tensor("w", dtype="float16"))),
    subject=SubjectKind.CHECKPOINT,
)
def fp16_range(
    checkpoint: Checkpoint,
    *,
    most: Annotated[float, Bound("share", "of a sample, subnormal", ge=0, le=1)] = 0.9,
) -> Outcome:
    found = [
        Evidence(place_of(these[0]), {**_counted(these, looked), **_clipped_in(these[0])})
        for _, these, looked in _bad_by_file(checkpoint, _clipped, _halves("float16"))
    ]
    for dtype, variant in (("float16", "small"), ("bfloat16", "small-bf16")):
        for _, these, looked in _bad_by_file(
            checkpoint, lambda one: _subnormal(one) >= most, _dense_halves(dtype)
        ):
            measured = {**_counted(these, looked), **_small_in(these[0])}
            found.append(Evidence(place_of(these[0]), measured, variant))
    halves = sum(1 for file in checkpoint.files for _ in _halves("float16", "bfloat16")(file))
    return settle_values(checkpoint, found, halves)


def _halves(*dtypes: str) -> _Candidates:
    def found(file: SavedFile) -> Iterator[TensorInfo]:
        for one in weights(file):
            if one.dtype in dtypes and not _MASK.search(one.name):
                yield one

    return found


def _dense_halves(dtype: str) -> _Candidates:
    """Matrices of which enough was looked at."""

    def found(file: SavedFile) -> Iterator[TensorInfo]:
        for one in _halves(dtype)(file):
            matrix = len(one.shape or ()) > 1 and not _ZERO_BY_ROLE.search(one.name)
            if matrix and stats_of(one).sampled >= _SAMPLE:
                yield one

    return found


_SAMPLE = 100


def _clipped(one: TensorInfo) -> bool:
    return stats_of(one).largest > 0


def _subnormal(one: TensorInfo) -> float:
    """Share of those that were looked at."""
    return stats_of(one).subnormal / stats_of(one).sampled


def _clipped_in(one: TensorInfo) -> dict[str, Value]:
    return {"elements": stats_of(one).elements, "clipped": stats_of(one).largest}


def _small_in(one: TensorInfo) -> dict[str, Value]:
    stats = stats_of(one)
    return {
        "elements": stats.elements,
        "sampled": stats.sampled,
        "subnormal": stats.subnormal,
        "share": _subnormal(one),
    }


@rule(
    id="TP-CKPT-ADAM",
    title="The optimizer's second moments are impossible",
    level=Level.FAIL,
    message="{bad:,} of {tensors:,} second {tensors:moment|moments} of the optimizer in {artifact}"
    " {bad:is|are} negative: {names}.",
    evidence="The least value of the first is {least:.4g}.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "second moments (exp_avg_sq) whose values were read",
        "bad": "of these, those with a negative value",
        "names": _FIRST,
        "least": "the least finite value of the first",
        **UNREAD,
    },
    doc=Doc(
        measures="The values of exp_avg_sq, a running mean of squares.",
        means="A mean of squares cannot be negative: the state is damaged, or a kernel is wrong.",
        does_not_mean="That the weights are damaged.",
        guards=("Only tensors in the optimizer's state that are called exp_avg_sq.",),
        references=("Kingma & Ba 2015, Adam, algorithm 1", "TrenTorch PR #187"),
    ),
    fires=Example(
        "a negative mean of squares",
        saved(tensor("optimizer/state/0/exp_avg_sq", low=-0.5, group=Group.OPTIMIZER)),
    ),
    silent=Example(
        "means of squares",
        saved(tensor("optimizer/state/0/exp_avg_sq", low=0.0, group=Group.OPTIMIZER)),
    ),
    subject=SubjectKind.CHECKPOINT,
)
def adam(checkpoint: Checkpoint) -> Outcome:
    return _sifted(checkpoint, _negative, _squares, lambda _, bad: {"least": _least(bad[0])})


def _squares(file: SavedFile) -> Iterator[TensorInfo]:
    return (one for one in _optimizer(file) if leaf_of(one.name) == "exp_avg_sq")


def _negative(one: TensorInfo) -> bool:
    low = stats_of(one).min
    return low is not None and low < 0
