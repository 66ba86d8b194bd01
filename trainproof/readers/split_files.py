"""Logs of one run that lie side by side in a file for each split: ``train.csv`` and ``val.csv``.

Their names differ by the word for the split alone. That is no proof: ``test.log`` may be the log
of a trial, and ``dev.csv`` an experiment. Only who has read them knows whether their steps go
together; this module says what their names allow for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from trainproof.model.compression import bare
from trainproof.model.data import Role, Split

from .names import CONTAINERS, SPLITS, classify, word_set, words_of

_SUFFIX = re.compile(
    r"(?:\.(?:csv|tsv|json|jsonl|ndjson|log|txt|dat|out|err)|(?<=\.log)\.\d{1,4})$", re.IGNORECASE
)
_SHARD = re.compile(r"(?<![a-z])((?:rank|node|worker|process)[._-]?)\d+", re.IGNORECASE)

_RANK = re.compile(r"(?<![a-z])rank[._-]?(\d{1,6})(?!\d)", re.IGNORECASE)

DVCLIVE = "/plots/metrics/"
"""Folder of DVCLive, which writes one table for each metric and puts its name in the path."""

GENERIC = CONTAINERS | word_set(
    "log logs logger history hist result results output out curve curves record records file data"
    " progress epoch epochs step steps stat values monitor console run"
)
"""Words of a file's name that do not tell one run from another."""

TELLING = word_set("val valid validation eval evaluation")
"""Words for a split that no experiment is called by."""


def stem_of(path: str) -> str:
    """The file's name without its suffixes and without the number of the process it is of."""
    name = bare(path.rpartition("/")[2])
    stem = name
    while (suffix := _SUFFIX.search(stem)) is not None and suffix.start() > 0:
        stem = stem[: suffix.start()]
    return _SHARD.sub(r"\1", stem).rstrip("._-") or name


def rank_of(path: str) -> int | None:
    """The rank of the process that wrote a file, where its name says so: ``log_rank3.txt``."""
    found = _RANK.findall(path.rpartition("/")[2])
    return int(found[0]) if len(found) == 1 else None


class SplitFile(msgspec.Struct, frozen=True):
    """A file's name: the word for the split (``""`` where there is none) and the other words."""

    word: str
    rest: tuple[str, ...]

    @property
    def split(self) -> Split:
        return SPLITS.get(self.word, Split.TRAIN)

    @property
    def generic(self) -> bool:
        """Whether the other words are those of any log."""
        return all(word in GENERIC or _is_quantity(word) for word in self.rest)

    @property
    def home(self) -> str:
        """What names the run beside its directory: nothing where any log may be called so."""
        return "" if self.generic else "_".join(self.rest)


def split_file(path: str) -> SplitFile | None:
    """None for a name with several words for splits."""
    words = words_of(stem_of(path))
    found = [i for i, word in enumerate(words) if word in SPLITS]
    if len(found) > 1:
        return None
    rest = tuple(word for i, word in enumerate(words) if i not in found)
    return SplitFile(words[found[0]] if found else "", rest)


def _is_quantity(word: str) -> bool:
    return classify(word).role not in (Role.UNKNOWN, Role.OTHER)


def companies(paths: Iterable[str]) -> list[Mapping[str, SplitFile]]:
    """Of files of one kind in one directory, those that may be the splits of one run: one of the
    training and one of each other split. A name that only any log could have (``loss.csv``) stands
    for the training where no other does. What DVCLive writes is one run whatever its name."""
    loose = (path for path in paths if DVCLIVE not in f"/{path}")
    named = {path: one for path in loose if (one := split_file(path)) is not None}
    alike: dict[tuple[str, ...], dict[str, SplitFile]] = defaultdict(dict)
    for path, one in named.items():
        alike[one.rest][path] = one
    return [found for members in alike.values() if (found := _company(members)) is not None]


def _company(members: Mapping[str, SplitFile]) -> Mapping[str, SplitFile] | None:
    plain = {path for path, one in members.items() if not one.word}
    trained = any(one.word and one.split is Split.TRAIN for one in members.values())
    generic = all(one.generic and one.rest for one in members.values())
    if plain and (trained or not generic):
        members = {path: one for path, one in members.items() if path not in plain}
    splits = [one.split for one in members.values()]
    if len(splits) < 2 or len(set(splits)) < len(splits) or Split.TRAIN not in splits:
        return None
    return members
