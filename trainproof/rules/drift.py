"""A checkpoint against an earlier one: what moved, what did not, and what cannot be resumed.

Whether a tensor is the same is known from its checksum; how much of it changed, from its elements.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np

from trainproof.model.checkpoint import Change, Checkpoint, Drift, Twin
from trainproof.model.outcome import Clean, Evidence, Level, Outcome, Skip, Undecided, Value, Where
from trainproof.model.rule import Doc, SubjectKind, Variant
from trainproof.model.tensors import Depth, Group, TensorInfo

from .interface import Bound, Example, Missing, Need, Place, rule
from .saved import UNREAD, Saved, is_float, named, place_of, settle, stats_of, total, unopened
from .saved_examples import counted, drifted, halved, tensor, twin
from .statistics import median

_BUFFER = re.compile(
    r"running_(mean|var)|num_batches|inv_freq|rotary|rope|freqs|position_ids|[._]mask$|causal"
    r"|\b(tril|triu|window|anchors?)\b|alibi|attn_bias|attention_bias|sinusoid|(sin|cos)(_cached)?$"
    r"|mel_|basis|original_module|\bscale_inv\b",
    re.IGNORECASE,
)
"""Names of tensors that are computed once, counted or kept, and not trained."""

_FEW = 16
_UNKNOWN_STEPS = -1

REFERENCE: Mapping[str, str] = {
    "reference": "the checkpoint compared with",
    "steps": "steps between the two, -1 where they do not say",
    "apart": "the same in words",
    **UNREAD,
}


class Reference(msgspec.Struct, frozen=True):
    """What is between the checkpoint and another one, which could be opened."""

    def describe(self) -> str:
        return "an earlier checkpoint"

    def bind(self, place: Place) -> Drift | Missing:
        drift = place.view.drift
        if drift is None:
            return Missing(Skip.NEED_ABSENT, {"references": 0})
        if not drift.before.files:
            lost = next(iter(drift.before.lost), drift.reference)
            return Missing(Skip.NEED_UNREADABLE, {"artifact": lost, "reference": drift.reference})
        return drift


_NEEDS: Mapping[str, Need] = {"checkpoint": Saved(), "drift": Reference()}


def _steps(drift: Drift) -> int:
    return _UNKNOWN_STEPS if drift.distance is None else abs(drift.distance)


def between(drift: Drift) -> dict[str, Value]:
    """What every rule says of the two checkpoints."""
    steps = _steps(drift)
    told = (
        "an unknown number of steps"
        if steps == _UNKNOWN_STEPS
        else f"{steps:,} step{'s' * (steps != 1)}"
    )
    lies = "lies" if steps in (1, _UNKNOWN_STEPS) else "lie"
    apart = f"{told} {lies} between the two"
    return {"reference": drift.reference, "steps": steps, "apart": apart}


def _weights(drift: Drift) -> list[Twin]:
    """Tensors of floating-point numbers that are trained, as far as their names say."""
    return [twin for twin in drift.twins if _is_weight(twin.tensor)]


def _is_weight(one: TensorInfo) -> bool:
    return one.group is Group.MODEL and is_float(one) and not _BUFFER.search(one.name)


def _matrices(twins: Iterable[Twin]) -> list[Twin]:
    """Of two or more dimensions, and neither tiny nor zero: what a gradient always moves."""
    return [twin for twin in twins if _is_matrix(twin.tensor)]


def _is_matrix(one: TensorInfo) -> bool:
    shape = one.shape or ()
    zero = one.stats is not None and one.stats.all_zero
    return len(shape) > 1 and math.prod(shape) >= _FEW and not zero


def _which(twins: Iterable[Twin], *changes: Change) -> list[Twin]:
    return [twin for twin in twins if twin.change in changes]


def _names(twins: Iterable[Twin]) -> str:
    return named(twin.tensor.name for twin in twins)


def _unknown(twins: Iterable[Twin]) -> Iterator[str]:
    """Tensors of which it is not known whether they changed."""
    for one in _which(twins, Change.UNKNOWN):
        yield f"{one.tensor.artifact}: {one.tensor.name} ({one.unread or 'no checksum'})"


def _lost(checkpoint: Checkpoint, drift: Drift) -> list[str]:
    """Files of either that were not read."""
    return [*unopened(checkpoint), *drift.before.lost, *unopened(drift.before)]


class _Pair(msgspec.Struct, frozen=True):
    """The two checkpoints that a rule compares."""

    checkpoint: Checkpoint
    drift: Drift

    def settle(
        self,
        found: Sequence[Evidence],
        measured: Mapping[str, Value],
        left: Iterable[str],
        depth: Depth,
        *,
        there: bool,
    ) -> Outcome:
        """As ``settle`` for one checkpoint, with the files of either that were not read. ``left``:
        tensors that were read and could not be compared, which leave it undecided."""
        lost = _lost(self.checkpoint, self.drift)
        outcome = settle(self.checkpoint, found, measured, lost, depth, there=there)
        rest = list(left)
        if rest and isinstance(outcome, Clean):
            return Undecided({**measured, "unread": len(rest), "first_unread": rest[0]})
        return outcome


# --- never updated ------------------------------------------------------------------------------


@rule(
    id="TP-CKPT-NEVER-UPDATED",
    title="The weights are those of the earlier checkpoint",
    level=Level.FAIL,
    message="{tensors:The only weight tensor|All {tensors:,} weight tensors} in {artifact}"
    " {tensors:is|are} bit by bit {tensors:that|those} of {reference}, although the optimizer went"
    " on.",
    evidence="{optimizer:,} {optimizer:tensor|tensors} of the optimizer changed, and its count of"
    " steps grew by {clock:,}; {apart}.",
    needs=_NEEDS,
    measures={
        "tensors": "weight tensors that both checkpoints have",
        "moved": "of these, tensors that changed",
        "optimizer": "tensors of the optimizer that changed",
        "clock": "by how much the optimizer's count of steps grew",
        **REFERENCE,
    },
    variants={
        "unexplained": Variant(
            Level.WARN,
            "{tensors:The only weight tensor|All {tensors:,} weight tensors} in {artifact}"
            " {tensors:is|are} bit by bit {tensors:that|those} of {reference}.",
            "No optimizer beside the weights shows whether they were trained; {apart}.",
        ),
        "rate": Variant(
            Level.WARN,
            "{tensors:The only weight tensor|All {tensors:,} weight tensors} in {artifact}"
            " {tensors:is|are} bit by bit {tensors:that|those} of {reference}: the learning rate"
            " saved with one of the two is zero.",
            "{optimizer:,} {optimizer:tensor|tensors} of the optimizer changed, and its count of"
            " steps grew by {clock:,}; {apart}.",
        ),
    },
    doc=Doc(
        measures="The checksums of all weight tensors that two checkpoints have in common.",
        means="Nothing that was trained in between is in the later one: the optimizer holds other"
        " parameters than the model that was saved, or every step was skipped or rounded away.",
        does_not_mean="That the optimizer did nothing: it may have trained a copy.",
        guards=(
            "FAIL only where the optimizer that was saved with the weights went on, at a learning"
            " rate that is not zero: a warmup begins at zero, and a schedule may end there. One"
            " step from a rate of zero is left open.",
            "A part that was frozen on purpose and saved on its own is a WARN.",
            "Two checkpoints of the same step may be equal (best and last).",
            "Buffers are left out by name.",
        ),
        references=(
            "pytorch #149205; accelerate #2665, #3256; transformers #34530; dlrover #584",
            "TrainCheck (OSDI 2025): parameters that an optimizer step does not change",
        ),
    ),
    fires=Example(
        "the optimizer moved alone",
        drifted(twin("fc.weight"), twin("exp_avg", Change.MOVED, group=Group.OPTIMIZER)),
    ),
    silent=Example("the weights moved", drifted(twin("fc.weight", Change.MOVED, share=0.9))),
    subject=SubjectKind.CHECKPOINT_PAIR,
)
def never_updated(checkpoint: Checkpoint, drift: Drift) -> Outcome:
    twins = _weights(drift)
    moved = _which(twins, Change.MOVED)
    measured: dict[str, Value] = {
        "tensors": len(twins),
        "moved": len(moved),
        **between(drift),
    }
    if moved:
        return Clean(measured)
    same = _which(twins, Change.SAME)
    if not same or len(same) < len(twins) or _lost(checkpoint, drift):
        pair = _Pair(checkpoint, drift)
        return pair.settle((), measured, _unknown(twins), Depth.INTEGRITY, there=bool(twins))
    if drift.distance == 0:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    state = [one for one in drift.twins if one.tensor.group is Group.OPTIMIZER]
    trained = len(_which(state, Change.MOVED))
    clock = _clock(checkpoint) - _clock(drift.before)
    measured |= {"optimizer": trained, "clock": max(clock, 0)}
    variant = "" if trained or clock > 0 else "unexplained"
    rates = (_rate(drift.before), _rate(checkpoint))
    if not variant and not min(rates):
        if clock <= 1 and rates[1]:
            return Undecided(measured, Skip.NEED_TOO_SHORT)
        variant = "rate"
    evidence = [Evidence(place_of(same[0].tensor), measured, variant)]
    return settle(checkpoint, evidence, measured, ())


def _clock(checkpoint: Checkpoint) -> int:
    """The largest count of steps in the state of any optimizer, 0 where there is none."""
    counts = [
        int(step)
        for file in checkpoint.files
        for optimizer in file.facts.optimizers
        for step in optimizer.steps
        if 0 <= step <= _MAX_STEP
    ]
    return max(counts, default=0)


_MAX_STEP = 2**53


# --- frozen -----------------------------------------------------------------------------------

_BASE = re.compile(r"(^|[./])(base_layer|original_module)[./]")
_LORA = re.compile(r"(^|[./_])lora_")
_NUMBER = re.compile(r"\d+")
_PARTS = re.compile(r"[./]")
_HALVES = frozenset({"bfloat16", "float16"})
_SPARSE = re.compile(r"embed|wte|wpe|token|lookup|expert", re.IGNORECASE)
_ROUNDED = 0.05
"""Share of the elements, as in TP-CKPT-STALL."""
_USED = 20
"""Steps after which a module that half of them use was used: all but once in a million times."""


@rule(
    id="TP-CKPT-FROZEN",
    title="Some weights did not move with the rest",
    level=Level.WARN,
    message="{stuck:,} of {tensors:,} weight matrices in {artifact} {stuck:is|are} bit by bit"
    " {stuck:that|those} of {reference}, and {stuck:its|their} counterparts in layers before and"
    " after {stuck:it|them} moved: {names}.",
    evidence="{moved:,} {moved:matrix|matrices} moved; {apart}.",
    needs=_NEEDS,
    measures={
        "tensors": "weight matrices that both checkpoints have",
        "moved": "of these, matrices that changed",
        "stuck": "of these, matrices that did not change",
        "names": "the first of them",
        **REFERENCE,
    },
    variants={
        "base": Variant(
            Level.WARN,
            "{stuck:,} {stuck:matrix|matrices} of the base model below an adapter in {artifact}"
            " {stuck:is not that|are not those} of {reference}: {names}.",
            "What an adapter is added to is not trained; {apart}.",
        ),
        "part": Variant(
            Level.INFO,
            "{stuck:,} of {tensors:,} weight matrices in {artifact} {stuck:is|are} bit by bit"
            " {stuck:that|those} of {reference}: {names}.",
            "{moved:,} {moved:matrix|matrices} moved; {apart}.",
        ),
    },
    doc=Doc(
        measures="Which weight matrices changed from one checkpoint to the next, by checksum.",
        means="A matrix that stands still between layers that move is in no group of the optimizer,"
        " gets no gradient, or its gradient is cut off.",
        does_not_mean="That a part was not frozen on purpose: whole parts that stand still are told"
        " as INFO.",
        guards=(
            "WARN only for a matrix whose counterparts (the same name with other numbers) moved"
            " both before and after it, in more than 5 % of their elements where that is known:"
            " small updates are rounded away in some matrices and not in others.",
            "More of its counterparts must have moved than stood still, and at least twenty steps"
            " must lie between the two, where they say: a step may use some modules of many"
            " (stochastic depth, one head for each task).",
            "Embeddings and experts are no such matrix: those that nothing was sent to get no"
            " gradients.",
            "Only matrices of sixteen elements or more that are not zero; buffers are left out.",
            "Names of adapters decide what is a base model.",
        ),
        references=("transformers PR #23990; open-unlearning #178", "TrainCheck (OSDI 2025)"),
    ),
    fires=Example(
        "the second of three layers stands still",
        drifted(
            twin("layers.0.w", Change.MOVED, share=0.9),
            twin("layers.1.w"),
            twin("layers.2.w", Change.MOVED, share=0.9),
        ),
    ),
    silent=Example(
        "all layers moved",
        drifted(*(twin(f"layers.{i}.w", Change.MOVED, share=0.9) for i in range(3))),
    ),
    subject=SubjectKind.CHECKPOINT_PAIR,
)
def frozen(checkpoint: Checkpoint, drift: Drift) -> Outcome:
    base = [one for one in drift.twins if _is_base(one.tensor, drift)]
    twins = [one for one in _matrices(_weights(drift)) if one not in base]
    moved, stuck = _which(twins, Change.MOVED), _which(twins, Change.SAME)
    thawed = _which(base, Change.MOVED)
    measured: dict[str, Value] = {
        "tensors": len(twins),
        "moved": len(moved),
        "stuck": len(stuck),
        **between(drift),
    }
    found = []
    if thawed:
        measures = measured | {"stuck": len(thawed), "names": _names(thawed)}
        found.append(Evidence(place_of(thawed[0].tensor), measures, "base"))
    if moved and stuck:
        found += _stuck(stuck, moved, measured, short=0 <= _steps(drift) < _USED)
    pair = _Pair(checkpoint, drift)
    return pair.settle(found, measured, _unknown(twins), Depth.INTEGRITY, there=bool(moved))


def _is_base(one: TensorInfo, drift: Drift) -> bool:
    adapted = any(_LORA.search(twin.tensor.name) for twin in drift.twins)
    return adapted and _is_matrix(one) and _BASE.search(one.name) is not None


def _stuck(
    stuck: Sequence[Twin], moved: Sequence[Twin], measured: Mapping[str, Value], *, short: bool
) -> Iterator[Evidence]:
    felt = [one for one in moved if not _rounded(one)]
    dense = [one for one in stuck if not short and not _SPARSE.search(one.tensor.name)]
    still = Counter(map(_role, dense))
    rest = Counter(map(_role, felt))
    fewer = [one for one in dense if still[_role(one)] < rest[_role(one)]]
    between = [one for one in fewer if _between(one, felt)]
    if between:
        measures = {**measured, "stuck": len(between), "names": _names(between)}
        yield Evidence(place_of(between[0].tensor), measures)
        return
    parts = list(_whole_parts(stuck, moved))
    yield Evidence(place_of(stuck[0].tensor), {**measured, "names": named(parts)}, "part")


def _rounded(one: Twin) -> bool:
    """Whether so few elements changed that most updates were rounded away, or of low precision it
    is not known how many: a neighbour may then stand still although it is trained."""
    changed = one.compared - one.identical
    known = one.compared > 0 or one.tensor.dtype in _HALVES
    return known and changed <= _ROUNDED * one.compared


def _between(one: Twin, moved: Sequence[Twin]) -> bool:
    """Whether the same matrix of a layer before it and of one after it moved."""
    role, place = _role(one), _numbers(one)
    siblings = [_numbers(other) for other in moved if _role(other) == role]
    return any(number < place for number in siblings) and any(n > place for n in siblings)


def _role(one: Twin) -> str:
    return _NUMBER.sub("*", one.tensor.name)


def _numbers(one: Twin) -> list[int]:
    return [int(digits[:18]) for digits in _NUMBER.findall(one.tensor.name)]


def _whole_parts(stuck: Sequence[Twin], moved: Sequence[Twin]) -> Iterator[str]:
    """The shortest beginnings of names under which nothing moved, each once."""
    moving = {prefix for one in moved for prefix in _beginnings(one.tensor.name)}
    seen = set[str]()
    for one in stuck:
        part = next(p for p in (*_beginnings(one.tensor.name), one.tensor.name) if p not in moving)
        if part not in seen:
            seen.add(part)
            yield part


def _beginnings(name: str) -> Iterator[str]:
    """``a``, ``a.b`` of ``a.b.c``."""
    for separator in _PARTS.finditer(name):
        yield name[: separator.start()]


# --- stall ------------------------------------------------------------------------------------


@rule(
    id="TP-CKPT-STALL",
    title="Most weights of low precision stand still",
    level=Level.WARN,
    message="Only {share:.2%} of the elements of {tensors:,} {dtype} weight"
    " {tensors:matrix|matrices} in {artifact} changed since {reference}, {steps:,} steps ago.",
    evidence="{compared:,} elements were compared, {changed:,} {changed:is|are} not bit by bit the"
    " same (limit {least:.0%}).",
    needs=_NEEDS,
    measures={
        "tensors": "weight matrices of bf16 or fp16 that changed at all",
        "dtype": "the type of the first of them",
        "compared": "elements of these that were compared",
        "changed": "of these, elements that are not the same",
        "share": "changed over compared",
        **REFERENCE,
    },
    doc=Doc(
        measures="How many elements of the weight matrices that are kept in bf16 or fp16 changed.",
        means="An update smaller than half the distance to the next number of the type is lost"
        " (1/512 of the weight in bf16): trained without a copy in fp32, most weights stay where"
        " they are.",
        does_not_mean="That no copy in fp32 exists: with a very small learning rate few elements"
        " change in what is saved of it.",
        guards=(
            "At least a hundred steps between the two, by their own account, and no learning rate"
            " that fell below a tenth.",
            "The limit of 5 % lies between what was measured of a small transformer over 100 steps"
            " of AdamW: with a copy in fp32 9 % change at a rate of 3e-7, 22 % at 1e-6 and 73 % at"
            " 1e-5; in bf16 alone 0.3 % at 1e-6 and 3 % at 1e-5.",
            "Matrices that did not change at all are left out: they may be frozen.",
            "Embeddings and experts are left out: only parts of them get gradients.",
        ),
        references=(
            "Zamirai et al. 2020, Revisiting BFloat16 Training: updates that are rounded away",
            "ml-by-hand PR #85, OneTrainer #996",
        ),
    ),
    fires=Example(
        "one element in two hundred",
        drifted(twin("fc.weight", Change.MOVED, share=0.005, dtype="bfloat16", shape=(40, 50))),
    ),
    silent=Example(
        "most elements",
        drifted(twin("fc.weight", Change.MOVED, share=0.8, dtype="bfloat16", shape=(40, 50))),
    ),
    subject=SubjectKind.CHECKPOINT_PAIR,
)
def stall(
    checkpoint: Checkpoint,
    drift: Drift,
    *,
    least: Annotated[float, Bound("share", "of the elements that must change", ge=0, le=1)] = 0.05,
    apart: Annotated[int, Bound("steps", "that must lie between the two", ge=1)] = 100,
) -> Outcome:
    halves = [
        one
        for one in _matrices(_weights(drift))
        if one.tensor.dtype in _HALVES and not _SPARSE.search(one.tensor.name)
    ]
    moved = [one for one in _which(halves, Change.MOVED) if one.compared]
    compared = total(one.compared for one in moved)
    changed = compared - total(one.identical for one in moved)
    measured: dict[str, Value] = {
        "tensors": len(moved),
        "compared": compared,
        "changed": changed,
        "share": changed / compared if compared else math.nan,
        **between(drift),
    }
    unread = list(_uncompared(halves))
    if not moved or unread or _lost(checkpoint, drift) or changed >= least * compared:
        pair = _Pair(checkpoint, drift)
        return pair.settle((), measured, unread, Depth.TENSORS, there=bool(moved or unread))
    if _steps(drift) < apart:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    if _rate(checkpoint) < 0.1 * _rate(drift.before) < math.inf:
        return Undecided(measured)
    first = moved[0].tensor
    return settle(
        checkpoint, [Evidence(place_of(first), measured | {"dtype": first.dtype})], {}, ()
    )


def _rate(checkpoint: Checkpoint) -> float:
    """The largest learning rate of any optimizer, infinity where none tells."""
    rates = [
        rate
        for file in checkpoint.files
        for optimizer in file.facts.optimizers
        for rate in optimizer.lrs
        if rate >= 0
    ]
    return max(rates, default=math.inf)


def _uncompared(twins: Iterable[Twin]) -> Iterator[str]:
    """Tensors that changed, or may have, and whose values were not compared."""
    for one in _which(twins, Change.MOVED, Change.UNKNOWN):
        if not one.compared:
            why = one.unread or "its values were not compared"
            yield f"{one.tensor.artifact}: {one.tensor.name} ({why})"


# --- narrowed ---------------------------------------------------------------------------------

_WIDER = frozenset({"float64", "float32", "bfloat16"})
_LARGEST = 65504.0


@rule(
    id="TP-CKPT-FP16-LOST",
    title="Values were lost in fp16",
    level=Level.WARN,
    message="{bad:,} of {tensors:,} weight {tensors:matrix|matrices} in {artifact} that"
    " {tensors:is|are} of fp16 and {tensors:was|were} of a wider type in {reference}"
    " {bad:has|have} more zeros than there: {names}.",
    evidence="Of the {elements:,} values of the first, {zeros:,} are zero, {zeros_before:,} were;"
    " {small:.0%} of those that are not zero lie below 6.1e-5, where fp16 has fewer than its 11"
    " bits.",
    needs=_NEEDS,
    measures={
        "tensors": "weight matrices of fp16 that were of a wider type",
        "bad": "of these, those that lost values",
        "names": "the first of them",
        "elements": "values of the first of them",
        "zeros": "of these, values that are zero",
        "zeros_before": "of these, values that were zero",
        "small": "share of the others, in a sample, that lie below 6.1e-5",
        "absmax_before": "the largest magnitude before, of the first that was clipped",
        "ended": "its values that are infinite, or plus or minus 65504",
        **REFERENCE,
    },
    variants={
        "clipped": Variant(
            Level.WARN,
            "{bad:,} of {tensors:,} weight {tensors:matrix|matrices} in {artifact} that"
            " {tensors:is|are} of fp16 and {tensors:was|were} of a wider type in {reference} had"
            " values there that fp16 cannot hold: {names}.",
            "The first reached {absmax_before:.4g}; {ended:,} of its {elements:,} values"
            " {ended:is|are} infinite, or plus or minus 65504, the largest number of fp16.",
        )
    },
    doc=Doc(
        measures="Zeros of each weight matrix of fp16 against those of the same matrix of a wider"
        " type, and values at the end of the range of fp16 against what was there.",
        means="The weights were converted to a type that cannot hold them.",
        does_not_mean="That the model is of no use: it shows in its results whether these values"
        " mattered.",
        guards=(
            "Zeros count where at least one value in a hundred became zero, and half of the others"
            " are below 6.1e-5: values become zero below 3e-8, and whatever has many such values"
            " has more that are a little larger. Pruning leaves others.",
            "Only where both types are known, and the values of both were read.",
        ),
        references=(
            "tensorflow #43719; Bekman, ML Engineering: numbers beyond the range of fp16",
            "IEEE 754-2019, binary16",
        ),
    ),
    fires=Example("a twentieth became zero", drifted(halved(zeros=5, subnormal=90))),
    silent=Example("a conversion without loss", drifted(halved(zeros=0, subnormal=1))),
    subject=SubjectKind.CHECKPOINT_PAIR,
)
def lost_in_fp16(
    checkpoint: Checkpoint,
    drift: Drift,
    *,
    lost: Annotated[float, Bound("share", "of the values that became zero", ge=0, le=1)] = 0.01,
    small: Annotated[float, Bound("share", "of the others below 6.1e-5", ge=0, le=1)] = 0.5,
) -> Outcome:
    narrowed = [one for one in _which(_matrices(_weights(drift)), Change.RETYPED) if _halved(one)]
    known = [one for one in narrowed if one.tensor.stats and one.before.stats]
    measured: dict[str, Value] = {"tensors": len(known), **between(drift)}
    found = []
    zeroed = [one for one in known if _zeroed(one) >= lost and _small(one) >= small]
    if zeroed:
        found.append(_lost_evidence(zeroed, measured, _zeros(zeroed[0])))
    clipped = [one for one in known if _ended(one) and _absmax(one.before) > _LARGEST]
    if clipped:
        found.append(_lost_evidence(clipped, measured, _ends(clipped[0]), "clipped"))
    unread = [f"{one.tensor.artifact}: {one.tensor.name}" for one in narrowed if one not in known]
    pair = _Pair(checkpoint, drift)
    return pair.settle(found, measured, unread, Depth.TENSORS, there=bool(narrowed))


def _lost_evidence(
    bad: Sequence[Twin], measured: Mapping[str, Value], more: Mapping[str, Value], variant: str = ""
) -> Evidence:
    told: dict[str, Value] = {**measured, **more, "bad": len(bad), "names": _names(bad)}
    return Evidence(place_of(bad[0].tensor), told, variant)


def _halved(one: Twin) -> bool:
    return one.tensor.dtype == "float16" and one.before.dtype in _WIDER


def _zeroed(one: Twin) -> float:
    """Share of the elements by which the zeros became more."""
    now, before = stats_of(one.tensor), stats_of(one.before)
    return (now.zeros - before.zeros) / max(now.elements, 1)


def _small(one: Twin) -> float:
    stats = stats_of(one.tensor)
    return stats.subnormal / max(stats.sampled, 1)


def _ended(one: Twin) -> int:
    stats = stats_of(one.tensor)
    return stats.largest + stats.inf


def _zeros(one: Twin) -> dict[str, Value]:
    now, before = stats_of(one.tensor), stats_of(one.before)
    return {
        "elements": now.elements,
        "zeros": now.zeros,
        "zeros_before": before.zeros,
        "small": _small(one),
    }


def _ends(one: Twin) -> dict[str, Value]:
    return {
        "elements": stats_of(one.tensor).elements,
        "absmax_before": _absmax(one.before),
        "ended": _ended(one),
    }


# --- averages -----------------------------------------------------------------------------------

_AVERAGED = re.compile(r"^(model_)?(ema|swa|averaged?|shadow)(_model|_params)?[._]|^module\.")


@rule(
    id="TP-CKPT-EMA",
    title="The averaged weights are no average",
    level=Level.WARN,
    message="{tensors:The only averaged weight tensor|All {tensors:,} averaged weight tensors} in"
    " {artifact} {tensors:is|are} bit by bit {tensors:that|those} of {reference}, although"
    " {updates:,} {updates:update|updates} of the average {updates:was|were} counted since.",
    evidence="{moved:,} weight {moved:tensor|tensors} changed; {apart}.",
    needs=_NEEDS,
    measures={
        "tensors": "averaged weight tensors that both checkpoints have",
        "stuck": "of these, tensors that did not change",
        "raw": "averaged tensors that equal the weights of their own checkpoint",
        "moved": "weight tensors that changed",
        "updates": "updates of the average between the two by its own count, -1 where it is not"
        " counted",
        **REFERENCE,
    },
    variants={
        "raw": Variant(
            Level.WARN,
            "{raw:The only averaged weight tensor|All {raw:,} averaged weight tensors} in"
            " {artifact} {raw:is|are} bit by bit its weights, which moved since {reference}.",
            "{moved:,} weight {moved:tensor|tensors} changed, and {updates:,}"
            " {updates:update|updates} of the average {updates:was|were} counted; {apart}.",
        ),
        "uncounted": Variant(
            Level.INFO,
            "{tensors:The only averaged weight tensor|All {tensors:,} averaged weight tensors} in"
            " {artifact} {tensors:is|are} bit by bit {tensors:that|those} of {reference}, while the"
            " weights moved.",
            "{moved:,} weight {moved:tensor|tensors} changed; {apart}. No count says whether"
            " averaging had begun.",
        ),
        "raw-uncounted": Variant(
            Level.INFO,
            "{raw:The only averaged weight tensor|All {raw:,} averaged weight tensors} in"
            " {artifact} {raw:is|are} bit by bit its weights, which moved since {reference}.",
            "{moved:,} weight {moved:tensor|tensors} changed; {apart}. No count says whether"
            " averaging had begun.",
        ),
    },
    doc=Doc(
        measures="Checksums of averaged weights (EMA, SWA) against those of the earlier checkpoint"
        " and against the weights beside them; and how many updates the average counted.",
        means="The average is never updated, or is a second name of the weights themselves: what"
        " is evaluated is not what was meant.",
        does_not_mean="That averaging had to have begun: it may start late.",
        guards=(
            "The weights themselves must have moved.",
            "All averaged tensors must agree; one that does not settles it.",
            "WARN only where the average counts its updates (n_averaged of torch, num_updates,"
            " updates) and counted some between the two. An average that starts late is the"
            " weights of the start, or a copy of the present ones, until then: without a count it"
            " is INFO.",
            "The average of one model is that one.",
        ),
        references=(
            "MultimediaTechLab/YOLO #97; waifu-diffusion #31; Samudra #282",
            "torch documentation, AveragedModel: n_averaged; diffusers, EMAModel:"
            " update_after_step",
        ),
    ),
    fires=Example(
        "the average stands still, and counts",
        drifted(
            twin("model/fc.weight", Change.MOVED, share=0.9),
            twin("ema/fc.weight", group=Group.AVERAGE),
            counted("ema/n_averaged", 5, before=2),
        ),
    ),
    silent=Example(
        "both moved",
        drifted(
            twin("model/fc.weight", Change.MOVED, share=0.9, crc=1),
            twin("ema/fc.weight", Change.MOVED, share=0.9, group=Group.AVERAGE, crc=2),
        ),
    ),
    subject=SubjectKind.CHECKPOINT_PAIR,
)
def average(checkpoint: Checkpoint, drift: Drift) -> Outcome:
    averaged = [
        one
        for one in drift.twins
        if one.tensor.group is Group.AVERAGE and is_float(one.tensor) and _is_matrix(one.tensor)
    ]
    moved, stuck = _which(_weights(drift), Change.MOVED), _which(averaged, Change.SAME)
    raw = _raw(averaged, checkpoint)
    count, before = _averaged(checkpoint), _averaged(drift.before)
    updates = None if count is None or before is None else max(count - before, 0)
    measured: dict[str, Value] = {
        "tensors": len(averaged),
        "stuck": len(stuck),
        "raw": raw,
        "moved": len(moved),
        "updates": -1 if updates is None else updates,
        **between(drift),
    }
    found = []
    there = bool(averaged and moved)
    if there and updates != 0:
        where = place_of(averaged[0].tensor)
        if len(stuck) == len(averaged):
            found.append(Evidence(where, measured, "uncounted" if updates is None else ""))
        elif raw == len(averaged) and count != 1:
            found.append(Evidence(where, measured, "raw-uncounted" if updates is None else "raw"))
    pair = _Pair(checkpoint, drift)
    return pair.settle(found, measured, _unknown(averaged), Depth.INTEGRITY, there=there)


_COUNT = re.compile(
    r"(?:(?:^|.*[/._])(?:ema|swa|averaged?)(?:[/._].*)?[/.])(?:n_averaged|num_updates|updates)"
    r"|updates"
)
"""Names of what counts the updates of an average, and no others: ``step`` and its like count those
that are put off too."""


def _averaged(checkpoint: Checkpoint) -> int | None:
    """How many times the average was updated, by the count beside it; None without one."""
    counts: list[object] = [
        one.stats.max
        for one in checkpoint.tensors
        if one.stats is not None and one.stats.elements == 1 and _COUNT.fullmatch(one.name)
    ]
    for file in checkpoint.files:
        counts += (one.value for one in file.facts.scalars if _COUNT.fullmatch(one.name))
    whole = (one for one in counts if isinstance(one, int | float) and 0 <= one < _MAX_STEP)
    return max(map(int, whole), default=None)


def _raw(averaged: Sequence[Twin], checkpoint: Checkpoint) -> int:
    """Averaged tensors with the bytes of the weights that they are an average of."""
    own = defaultdict[str, set[int | None]](set)
    for one in checkpoint.tensors:
        if one.group is Group.MODEL:
            own[_inner(one.name)].add(one.crc)
    return sum(
        own.get(_inner(one.tensor.name)) == {one.tensor.crc} and one.tensor.crc is not None
        for one in averaged
    )


def _inner(name: str) -> str:
    """The name below the outermost key, without what wrappers put in front of it."""
    inner = name.partition("/")[2] or name
    while (stripped := _AVERAGED.sub("", inner)) != inner:
        inner = stripped
    return inner


# --- can it be resumed ----------------------------------------------------------------------------


@rule(
    id="TP-CKPT-DRIFT",
    title="The two checkpoints do not fit into one another",
    level=Level.WARN,
    message="{artifact} cannot be loaded into the model of {reference} as it is: {added:,}"
    " {added:tensor is|tensors are} new ({added_names}), {gone:,} {gone:is|are} missing"
    " ({gone_names}).",
    evidence="{tensors:,} {tensors:tensor|tensors} of the model {tensors:has|have} the same name"
    " in both.",
    needs=_NEEDS,
    measures={
        "tensors": "tensors of the model, of its average and of the optimizer that both have",
        "added": "tensors of the model that only the checkpoint has",
        "added_names": "the first of them",
        "gone": "tensors of the model that only the reference has",
        "gone_names": "the first of them",
        "differing": "tensors that have another shape, or another type",
        "names": "the first of them",
        "what": "shape or type of the first of them, before and now",
        "prefix": "what names begin with in the checkpoint alone",
        "prefix_before": "what names begin with in the reference alone",
        **REFERENCE,
    },
    variants={
        "shape": Variant(
            Level.WARN,
            "{differing:,} {differing:tensor|tensors} in {artifact} {differing:has|have} another"
            " shape than in {reference}: {names}.",
            "The first: {what}. {tensors:,} {tensors:tensor has|tensors have} the same name in"
            " both.",
        ),
        "prefix": Variant(
            Level.WARN,
            "The names of the weights in {artifact} begin with {prefix!r}, those of {reference}"
            " with {prefix_before!r}.",
            "Without that, {tensors:,} {tensors:tensor has|tensors have} the same name in both.",
        ),
        "type": Variant(
            Level.INFO,
            "{differing:,} {differing:tensor|tensors} in {artifact} {differing:has|have} another"
            " type than in {reference}: {names}.",
            "The first: {what}.",
        ),
    },
    doc=Doc(
        measures="Names, shapes and types of the tensors of two checkpoints.",
        means="One cannot be resumed into the other: loading stops, or, where it is told not to be"
        " strict, leaves weights at random.",
        does_not_mean="That either is damaged: a model may have been changed on purpose.",
        guards=(
            "What wraps a state dictionary in a file is taken off before names are compared.",
            "A prefix that all names share (module., _orig_mod.) is told as such.",
            "Optimizer, schedulers and the like are not missed: weights may be saved alone.",
            "Another type alone is INFO.",
            "Ranges that are observed for a quantisation take their shape from the first batch.",
        ),
        references=(
            "nanoGPT #325: _orig_mod. in front of every name; transformers #36594",
            "peft #2415, unsloth #978: another number of embeddings",
            "transformers #33780: another type",
        ),
    ),
    fires=Example("a layer is new", drifted(twin("a.weight"), added=(tensor("b.weight"),))),
    silent=Example("all names are the same", drifted(twin("a.weight"))),
    subject=SubjectKind.CHECKPOINT_PAIR,
)
def drift(checkpoint: Checkpoint, drift: Drift) -> Outcome:
    twins = [one for one in drift.twins if one.tensor.group is not Group.STATE]
    measured: dict[str, Value] = {
        "tensors": len(twins),
        **between(drift),
    }
    lost = _lost(checkpoint, drift)
    where = _first_place(checkpoint, drift)
    found = [] if lost else list(_keys(drift, where, measured))
    reshaped = [one for one in _which(twins, Change.RESHAPED) if not _OBSERVED.search(_name(one))]
    found += _differing(reshaped, "shape", measured)
    found += _differing(_which(twins, Change.RETYPED), "type", measured)
    if _module(drift.prefix) or _module(drift.prefix_before):
        prefixes = {"prefix": drift.prefix, "prefix_before": drift.prefix_before}
        found.append(Evidence(where, {**measured, **prefixes}, "prefix"))
    return settle(checkpoint, found, measured, lost, there=bool(twins))


_OBSERVED = re.compile(r"fake_quant|activation_post_process|observer")
"""Ranges that are observed for a quantisation: they take their shape from the first batch."""


def _name(one: Twin) -> str:
    return one.tensor.name


def _first_place(checkpoint: Checkpoint, drift: Drift) -> Where:
    file = next(iter(checkpoint.files), None)
    return Where(drift.reference if file is None else file.facts.artifact)


def _keys(drift: Drift, where: Where, measured: Mapping[str, Value]) -> Iterator[Evidence]:
    added = [one.name for one in drift.added if one.group is Group.MODEL]
    gone = [one.name for one in drift.gone if one.group is Group.MODEL]
    if added or gone:
        yield Evidence(
            where,
            {
                **measured,
                "added": len(added),
                "added_names": named(added) or "none",
                "gone": len(gone),
                "gone_names": named(gone) or "none",
            },
        )


def _differing(
    twins: Sequence[Twin], variant: str, measured: Mapping[str, Value]
) -> Iterator[Evidence]:
    if twins:
        first = twins[0]
        before, now = (
            (first.before.dtype, first.tensor.dtype)
            if variant == "type"
            else (_shape(first.before), _shape(first.tensor))
        )
        found: dict[str, Value] = {
            "differing": len(twins),
            "names": _names(twins),
            "what": f"{before}, now {now}",
        }
        yield Evidence(place_of(first.tensor), {**measured, **found}, variant)


def _shape(one: TensorInfo) -> str:
    return "x".join(map(str, one.shape or ())) or "scalar"


def _module(prefix: str) -> bool:
    """Whether the prefix belongs to the names of a model: keys of the file end in a slash."""
    return bool(prefix) and not prefix.endswith("/")


# --- jumps --------------------------------------------------------------------------------------


@rule(
    id="TP-CKPT-JUMP",
    title="A weight changed its scale, and the others did not",
    level=Level.WARN,
    message="The norm of {tensor} in {artifact} is {ratio:.3g} times that in {reference}; of the"
    " other matrices it is {usual:.3g} times, in the median.",
    evidence="From {norm_before:.4g} to {norm:.4g}, largest magnitude from {absmax_before:.4g} to"
    " {absmax:.4g}; {jumped:,} of {tensors:,} {tensors:matrix|matrices} did so; {apart}.",
    needs=_NEEDS,
    measures={
        "tensors": "weight matrices whose values were compared",
        "jumped": "of these, matrices that changed their scale",
        "ratio": "norm of the first of them over its norm before",
        "usual": "median of that ratio over all matrices",
        "norm": "its norm over the elements that were compared",
        "norm_before": "the same of the reference",
        "absmax": "its largest magnitude",
        "absmax_before": "the same of the reference",
        **REFERENCE,
    },
    doc=Doc(
        measures="The norm of each weight matrix over its norm in the earlier checkpoint.",
        means="Something happened to this one matrix: it blew up, was initialised anew, lost its"
        " values, or was damaged in the file.",
        does_not_mean="That training caused it.",
        guards=(
            "The norm must grow or shrink tenfold, and ten times more than the median does.",
            "Matrices that were zero are left out: they start there by design.",
            "At least eight matrices must have been compared.",
        ),
        references=(
            "SimpleTuner #2714: a file was overwritten while it was mapped",
            "Amazon SageMaker Debugger, WeightUpdateRatio",
        ),
    ),
    fires=Example(
        "one of eight blew up",
        drifted(
            *(twin(f"l.{i}.w", Change.MOVED, share=1.0) for i in range(7)),
            twin("l.7.w", Change.MOVED, share=1.0, norm=50.0),
        ),
    ),
    silent=Example(
        "all grew alike",
        drifted(*(twin(f"l.{i}.w", Change.MOVED, share=1.0, norm=1.2) for i in range(8))),
    ),
    subject=SubjectKind.CHECKPOINT_PAIR,
)
def jump(
    checkpoint: Checkpoint,
    drift: Drift,
    *,
    times: Annotated[float, Bound("ratio", "of the norms, or of the reciprocals", ge=1)] = 10.0,
    least: Annotated[int, Bound("matrices", "that must have been compared", ge=2)] = 8,
) -> Outcome:
    twins = [one for one in _weights(drift) if _is_matrix(one.before)]
    ratios = {id(one): ratio for one in twins if (ratio := _ratio(one)) is not None}
    measured: dict[str, Value] = {
        "tensors": len(ratios),
        **between(drift),
    }
    unread, pair = list(_uncompared(twins)), _Pair(checkpoint, drift)
    if len(ratios) < least:
        if ratios and not unread and not _lost(checkpoint, drift):
            return Undecided(measured, Skip.NEED_TOO_SHORT)
        return pair.settle((), measured, unread, Depth.TENSORS, there=bool(unread))
    usual = median(np.array(list(ratios.values())))
    jumped = [one for one in twins if id(one) in ratios and _far(ratios[id(one)], usual, times)]
    found = []
    if jumped:
        first = max(jumped, key=lambda one: _size(ratios[id(one)]))
        shown = {"jumped": len(jumped), "ratio": ratios[id(first)], "usual": usual}
        found.append(Evidence(place_of(first.tensor), {**measured, **shown, **_scale(first)}))
    return pair.settle(found, measured, unread, Depth.TENSORS, there=True)


def _ratio(one: Twin) -> float | None:
    """None where the values were not compared."""
    if one.change is Change.SAME:
        return 1.0
    if not one.norm_before > 0 or math.isnan(one.norm):
        return None
    return one.norm / one.norm_before


def _far(ratio: float, usual: float, times: float) -> bool:
    return _size(ratio) > times and _size(ratio / usual if usual else ratio) > times


def _size(ratio: float) -> float:
    """How far from 1, in either direction."""
    if not ratio:
        return math.inf
    return max(ratio, 1 / ratio)


def _scale(one: Twin) -> dict[str, Value]:
    return {
        "norm": one.norm,
        "norm_before": one.norm_before,
        "absmax": _absmax(one.tensor),
        "absmax_before": _absmax(one.before),
    }


def _absmax(one: TensorInfo) -> float:
    largest = None if one.stats is None else one.stats.absmax
    return math.nan if largest is None else float(largest)
