"""Held-out sets with names of their own: which of a run's tags are about which set.

A tag alone does not tell: ``val_wiki_loss`` is the loss on one of two sets, ``val_box_loss`` one
term of a sum. What else is logged does:

* transformers' Trainer measures the time of each evaluation: with ``eval_wiki_runtime`` beside it,
  everything that begins with ``eval_wiki_`` is about ``wiki``.
* Lightning ends the tags of several data loaders with ``/dataloader_idx_1``.
* Elsewhere a set has a loss of which training logs no such part, and a metric of its own or a
  place of its own in the path of the tag (``valid_wiki/loss``, ``eval/wiki/loss``); and it is one
  of several.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from trainproof.model.data import Identity, Role, Split

from .names import Told, classify, split_of, told, words_of

TRAINER = re.compile(r"(?P<home>(?:.*/)?)eval[_/](?P<set>.+)_runtime", re.DOTALL)
LIGHTNING = re.compile(r"(?P<tag>.+)/(?P<set>dataloader_idx_\d{1,9})", re.DOTALL)
MAX_SETS = 100
"""Sets of one run that are told apart."""


class _Set(NamedTuple):
    """One held-out set as hand-written loops name it: words that stand beside the split's."""

    split: Split
    words: tuple[str, ...]


def identities(tags: Collection[str]) -> Mapping[str, Identity]:
    """What the tags of one run measure, for those that are about one of several held-out sets.

    A total on such a set is a total; ``dataset`` names the set.
    """
    found = {tag: one for tag in tags if (one := _loader(tag)) is not None}
    prefixes = _trainer_prefixes(tags)
    for tag in tags if prefixes else ():
        prefix = next((one for one in prefixes if tag.startswith(one)), None)
        if prefix is not None:
            lead, name = prefixes[prefix]
            found[tag] = _of(f"{lead}{tag[len(prefix) :]}", name)
    left = [tag for tag in tags if tag not in found]
    return found | _hand_written(left)


def _of(tag: str, dataset: str) -> Identity:
    """What a tag measures that was cleared of the name of its set."""
    if split_of(dataset) is Split.TRAIN:  # an evaluation of what is trained on
        return replace(classify(tag), split=Split.TRAIN, component=f"eval_{dataset}")
    return replace(classify(tag), dataset=dataset)


def _loader(tag: str) -> Identity | None:
    match = LIGHTNING.fullmatch(tag) if tag[-1:].isdigit() else None
    return None if match is None else replace(classify(match["tag"]), dataset=match["set"])


def _trainer_prefixes(tags: Iterable[str]) -> dict[str, tuple[str, str]]:
    """``eval_wiki_`` -> ``eval_`` and ``wiki``, longest first; trackers write ``eval/wiki_``."""
    runtimes = (TRAINER.fullmatch(tag) for tag in tags if tag.endswith("_runtime"))
    sets = sorted({(one["home"], one["set"]) for one in runtimes if one}, key=_longest)[:MAX_SETS]
    return {
        f"{home}{lead}{name}_": (f"{home}{lead}", name)
        for home, name in sets
        for lead in ("eval_", "eval/")
    }


def _longest(one: tuple[str, str]) -> tuple[int, tuple[str, str]]:
    return -len(one[1]), one


# --- hand-written loops ---------------------------------------------------------------------------

_BOTH = frozenset({Role.LOSS, Role.METRIC})


def _hand_written(tags: Iterable[str]) -> dict[str, Identity]:
    known = {tag: one for tag in tags if (one := told(tag)).role in _BOTH}
    if not any(one.left and one.split is not Split.TRAIN for one in known.values()):
        return {}
    trained = {one.left for one in known.values() if one.split is Split.TRAIN}
    members: dict[_Set, list[str]] = defaultdict(list)
    for tag, one in known.items():
        if one.split is not Split.TRAIN and one.left not in trained - {()}:
            members[_Set(one.split, one.left)].append(tag)
    named = {
        key: tags
        for key, tags in members.items()
        if key.words and any(known[tag].role is Role.LOSS for tag in tags)
    }
    sets = chain.from_iterable(_sets(split, members, named, known) for split in Split)
    return {
        tag: replace(classify(tag), component=None, dataset="_".join(one.words))
        for one in sets
        for tag in named[one]
    }


def _sets(
    split: Split,
    members: Mapping[_Set, list[str]],
    named: Mapping[_Set, list[str]],
    known: Mapping[str, Told],
) -> Iterator[_Set]:
    """The sets of a split, where there are several: beside a loss on no set in particular, which
    may be their sum, only those that have a place of their own in the path of each tag."""
    mine = [one for one in named if one.split is split]
    placed = [one for one in mine if all(_is_placed(tag, one.words) for tag in named[one])]
    unnamed = members.get(_Set(split, ()), ())
    if any(known[tag].role is Role.LOSS for tag in unnamed):
        found, several = placed, len(placed) > 0
    else:
        measured = [one for one in mine if {known[tag].role for tag in named[one]} >= _BOTH]
        found = [one for one in mine if one in placed or one in measured]
        several = len(found) > 1
    yield from found[:MAX_SETS] if several else ()


def _is_placed(tag: str, words: tuple[str, ...]) -> bool:
    """Whether a segment of the tag's path names the set and nothing else but its split, or the
    set is a number behind the word for the split."""
    if words[0].isdigit() and any(
        split_of(word) and word.endswith(words) for word in words_of(tag)
    ):
        return True
    return any(
        tuple(words_of(segment)) == words or _unknown(segment) == words
        for segment in tag.split("/")
    )


def _unknown(segment: str) -> tuple[str, ...]:
    """The words of a segment that names no quantity."""
    one = told(segment)
    return one.left if one.role is Role.UNKNOWN else ()
