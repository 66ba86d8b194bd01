"""What only the other tags of a run can tell: what stands for the loss, and for a split.

* A cost is the loss where nothing is called one. Beside a loss or a reward it is time, money or
  what a policy must not exceed.
* An error that names what is trained on (``train_mse``) is the loss where nothing is called one,
  and so is the same error on held-out data.
* ``va_loss`` beside ``tr_loss`` is about held-out data; alone it may be about anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from trainproof.model.data import Direction, Identity, Role, Split

from .names import COST, classify, split_of, told, words_of

ERRORS = (
    frozenset({("mse",), ("rmse",), ("mean", "squared", "error")}),
    frozenset({("mae",), ("mean", "absolute", "error")}),
)
"""Errors that are trained on, as the table of names knows them; the likeliest objective first."""

SHORT = {"va": "val", "ts": "test"}
"""Short for a split, beside ``tr`` for the training."""


def identities(tags: Collection[str]) -> Mapping[str, Identity]:
    """What the tags of one run measure, for those that mean something else in this company."""
    found = dict(_short(tags))
    losses = [tag for tag in tags if told(tag).role is Role.LOSS]
    costs = [tag for tag in losses if told(tag).known == COST]
    rewarded = any(told(tag).role is Role.REWARD for tag in tags)
    if costs and (rewarded or any(map(_is_trained_loss, losses))):
        return found | {tag: _of_no_loss(classify(tag)) for tag in costs}
    return found if losses or rewarded else found | dict(_errors(tags))


def _is_trained_loss(tag: str) -> bool:
    """Whether a loss on what is trained on is called one."""
    return told(tag).known != COST and told(tag).split is Split.TRAIN


def _of_no_loss(identity: Identity) -> Identity:
    return replace(identity, role=Role.OTHER, component=None, direction=Direction.NONE)


def _errors(tags: Collection[str]) -> Iterator[tuple[str, Identity]]:
    for names in ERRORS:
        found = {tag: classify(tag) for tag in tags if told(tag).known in names}
        errors = {tag: one for tag, one in found.items() if one.role is Role.METRIC}
        trained = {one.base for tag, one in errors.items() if split_of(tag) is Split.TRAIN}
        if trained:
            for tag, one in errors.items():
                if one.base in trained:
                    yield tag, replace(one, role=Role.LOSS)
            return


def _short(tags: Collection[str]) -> Iterator[tuple[str, Identity]]:
    """``tr_loss`` and ``va_loss``: the same words but for the one that is short for a split."""
    words = {tag: tuple(words_of(tag)) for tag in tags}
    trained = {one: tag for tag, one in words.items() if "tr" in one}
    for tag, one in words.items():
        for short, split in SHORT.items():
            twin = tuple("tr" if word == short else word for word in one)
            if short in one and twin in trained:
                yield tag, classify("_".join(split if word == short else word for word in one))
                yield trained[twin], classify("_".join("train" if w == "tr" else w for w in twin))
