"""Checkpoints as vocabularies: what was learned of tokens that were added."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from trainproof.model.checkpoint import Checkpoint, Drift, RowDrift, TokenRow, TokenRows
from trainproof.model.outcome import Evidence, Level, Outcome, Skip, Undecided, Value
from trainproof.model.rule import Doc, SubjectKind, Variant
from trainproof.model.tensors import Depth

from .drift import REFERENCE, Reference, between
from .interface import Bound, Example, rule
from .saved import UNREAD, Saved, named, place_of, settle
from .saved_examples import spoken, unspoken

_ADDED = (
    "added tokens with a row in an embedding or output layer, but for fillers and reserved ones"
)
_USED = "of these, tokens that the chat template names, or that begin or end every text"


@rule(
    id="TP-CKPT-TOKEN-ROWS",
    title="Added tokens cannot be told apart",
    level=Level.WARN,
    message="{bad:,} of {tokens:,} added {tokens:token|tokens} {bad:has|have} a row of {tensor} in"
    " {artifact} that is zero or lies beside that of another one: {names}.",
    evidence="{zero:,} {zero:row is|rows are} zero, {beside:,} {beside:lies|lie} within {near:.2%}"
    " of the distance that {others:,} other rows keep from the nearest of them ({typical:.3g});"
    " {used:,} of these tokens {used:is|are} named by the chat template, or {used:begins|begin} or"
    " {used:ends|end} every text. The checkpoint is of step {step:,}.",
    needs={"checkpoint": Saved()},
    measures={
        "tokens": _ADDED,
        "bad": "of these, tokens whose row is zero or lies beside that of another one",
        "names": "the first of them",
        "zero": "of these, rows that are zero",
        "beside": "of these, rows that lie beside another one",
        "used": _USED,
        "others": "rows of other tokens that were looked at, evenly spread",
        "typical": "median of their distances to the nearest of them",
        "step": "how far the training had come, -1 where the checkpoint does not tell",
        **UNREAD,
    },
    variants={
        "idle": Variant(
            Level.INFO,
            "{bad:,} of {tokens:,} added {tokens:token|tokens} {bad:has|have} a row of {tensor} in"
            " {artifact} that is zero or lies beside that of another one: {names}.",
            "{zero:,} {zero:row is|rows are} zero, {beside:,} {beside:lies|lie} within {near:.2%}"
            " of the distance that {others:,} other rows keep from the nearest of them"
            " ({typical:.3g}). Nothing shows that the model was trained with these tokens.",
        )
    },
    doc=Doc(
        measures="The rows of embeddings and output layers that belong to the added tokens of the"
        " tokenizer beside them: whether they are zero, and how far each is from the nearest other"
        " one, against the distances among other rows.",
        means="The model reads these tokens as one and the same, or as nothing: their rows are"
        " still what resizing made of them (zeros, copies, or the mean of all rows).",
        does_not_mean="That they should have been trained: a tokenizer may have tokens that its"
        " model never uses.",
        guards=(
            "WARN only where the chat template names such a token, or it begins or ends every"
            " text, and the checkpoint says that a hundred steps were taken; of step 0 nothing is"
            " told. Tokens for tools, images, sound, code and thoughts are in templates whose"
            " training has none of these: INFO.",
            "Left out by name: padding, unknown, mask, reserved and unused tokens. Rows beyond the"
            " last token, which round the vocabulary up, are none of a token.",
            "Rows that are copies of one another by design (tied output layers) are judged in"
            " each layer alone.",
            "At least sixteen other rows must differ from one another. The limit of 0.02 % lies"
            " between what was measured of a small transformer: rows that resizing drew around the"
            " mean of all lie within 0.005 %, in bf16 too, and 100 steps of AdamW at a rate of 1e-5"
            " move those of three tokens that are seen apart by 0.4 %.",
        ),
        references=(
            "Baichuan2 #155; transformers #29219; unsloth #2188; qlora #214",
            "Hewitt 2021, Initializing new word embeddings: the mean of all rows",
            "transformers documentation, resize_token_embeddings: mean_resizing",
        ),
    ),
    fires=Example("three tokens of the template are one", spoken(apart=0.0)),
    silent=Example("each has its own row", spoken(apart=1.1)),
    subject=SubjectKind.CHECKPOINT,
)
def token_rows(
    checkpoint: Checkpoint,
    *,
    near: Annotated[
        float, Bound("ratio", "of a distance to that among other rows", ge=0, le=1)
    ] = 0.0002,
    least: Annotated[int, Bound("steps", "of a checkpoint whose rows must have moved", ge=1)] = 100,
) -> Outcome:
    tokens = sum(len(one.tokens) for one in checkpoint.rows)
    judged = [one for one in checkpoint.rows if one.others >= _OTHERS and one.typical > 0]
    found = []
    if checkpoint.step != 0:
        found = [e for one in judged if (e := _merged(checkpoint, one, near, least)) is not None]
    outcome = settle(
        checkpoint, found, {"tokens": tokens}, (), Depth.TENSORS, there=bool(checkpoint.rows)
    )
    if not found and checkpoint.rows and not judged:
        return Undecided({"tokens": tokens}, Skip.NEED_DEGENERATE)
    return outcome


_OTHERS = 16
"""Other rows, at least."""


def _merged(checkpoint: Checkpoint, rows: TokenRows, near: float, least: int) -> Evidence | None:
    zero = [one for one in rows.tokens if one.zero]
    beside = [one for one in rows.tokens if one.apart <= near * rows.typical]
    bad = sorted([*zero, *beside], key=lambda one: (not one.used, one.id))
    if not bad:
        return None
    used = sum(one.used for one in bad)
    measured: dict[str, Value] = {
        "tokens": len(rows.tokens),
        "bad": len(bad),
        "names": _texts(bad),
        "zero": len(zero),
        "beside": len(beside),
        "used": used,
        "others": rows.others,
        "typical": rows.typical,
        "step": -1 if checkpoint.step is None else checkpoint.step,
    }
    trained = used and checkpoint.step is not None and checkpoint.step >= least
    return Evidence(place_of(rows.tensor), measured, "" if trained else "idle")


def _texts(tokens: Sequence[TokenRow]) -> str:
    return named(one.text for one in tokens)


# --- from one checkpoint to the next ----------------------------------------------------------


@rule(
    id="TP-CKPT-TOKENS-STILL",
    title="Rows of added tokens did not move with the rest",
    level=Level.WARN,
    message="The rows of {bad:,} of {tokens:,} added {tokens:token|tokens} in {tensor} of"
    " {artifact} are bit by bit those of {reference}, and {moved:,} of {others:,} other rows"
    " changed: {names}.",
    evidence="{used:,} of these tokens {used:is|are} named by the chat template, or"
    " {used:begins|begin} or {used:ends|end} every text; {apart}.",
    needs={"checkpoint": Saved(), "drift": Reference()},
    measures={
        "tokens": _ADDED + ", which moved",
        "bad": "of these, tokens whose row did not change",
        "names": "the first of them",
        "used": _USED,
        "others": "rows of other tokens that were looked at, evenly spread",
        "moved": "of these, rows that changed",
        **REFERENCE,
    },
    variants={
        "idle": Variant(
            Level.INFO,
            "The rows of {bad:,} of {tokens:,} added {tokens:token|tokens} in {tensor} of"
            " {artifact} are bit by bit those of {reference}, and {moved:,} of {others:,} other"
            " rows changed: {names}.",
            "Nothing shows that the model was trained with these tokens; {apart}.",
        )
    },
    doc=Doc(
        measures="Which rows of an embedding or output layer changed from one checkpoint to the"
        " next: those of added tokens, and a sample of the others.",
        means="These rows get no gradient: they are masked, or the tokens do not occur in what is"
        " trained on.",
        does_not_mean="That the tokens are needed: that is said by the data alone.",
        guards=(
            "Only where nine in ten of at least sixteen other rows changed: without weight decay a"
            " row moves only with the tokens that a step has seen.",
            "WARN only for tokens that the chat template names, or that begin or end every text.",
            "Left out by name: padding, unknown, mask, reserved and unused tokens.",
        ),
        references=("unsloth #2188; qlora #214; Baichuan2 #155",),
    ),
    fires=Example("the rows of the template stand still", unspoken(moved=100)),
    silent=Example("they moved", unspoken(moved=100, still=0)),
    subject=SubjectKind.CHECKPOINT_PAIR,
)
def tokens_still(
    checkpoint: Checkpoint,
    drift: Drift,
    *,
    most: Annotated[float, Bound("share", "of other rows that must have moved", ge=0, le=1)] = 0.9,
) -> Outcome:
    looked = [one for one in drift.rows if one.others >= _OTHERS]
    found = [*_still(drift, looked, most)]
    measured: dict[str, Value] = {
        "tokens": sum(one.tokens for one in looked),
        "bad": sum(len(one.still) for one in looked),
        **between(drift),
    }
    return settle(checkpoint, found, measured, (), Depth.TENSORS, there=bool(looked))


def _still(drift: Drift, looked: Sequence[RowDrift], most: float) -> Iterator[Evidence]:
    for one in looked:
        if not one.still or one.moved < most * one.others:
            continue
        used = sum(token.used for token in one.still)
        measured: dict[str, Value] = {
            "tokens": one.tokens,
            "bad": len(one.still),
            "names": _texts(sorted(one.still, key=lambda token: (not token.used, token.id))),
            "used": used,
            "others": one.others,
            "moved": one.moved,
            **between(drift),
        }
        yield Evidence(place_of(one.tensor), measured, "" if used else "idle")
