"""The shape of a line -> what each of its numbers is.

A number belongs to the name before it: ``loss: 0.5``, ``loss=0.5``, ``'loss': 0.5`` for any
name, ``loss 0.5`` only for a name that the table of names knows. A few forms stand for
themselves: ``9/20`` is a count and its total, ``[1][50/100]`` an epoch and the step within it,
``50/100 [00:10<`` a progress bar. Everything here is decided from the shape alone, so that it
is decided once for all lines of that shape.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import lru_cache

import msgspec

from trainproof.model.data import Axis, Role, Scope, Split
from trainproof.readers.names import (
    COST,
    SPLITS,
    axis_rank,
    classify,
    split_of,
    told,
    word_set,
)

from .dialects import NAMES, PRIVATE, STEP_NAMES, framework_of
from .numbers import HOLE

MAX_FIELDS = 400
"""Numbers of one line that are looked at."""

LOOK_BACK = 300
"""Characters before a number among which its name is looked for."""

MAX_KEY = 80
"""Characters of a name."""

UNNAMED = 50
"""Rank of a counter that has no name; those of the table of names are lower."""

NUMBERED = 60
"""Rank of a number in brackets before the line, which may be the rank of a process as well."""

MAX_WORDS = 4
"""Words of a name; what stands before them is prose."""

OUTCOMES = frozenset({Role.LOSS, Role.METRIC, Role.REWARD})
"""What a line without a step may report."""

TELLING = OUTCOMES | {
    Role.GRAD_NORM, Role.KL, Role.ENTROPY, Role.LR, Role.LOSS_SCALE, Role.STEP_TIME,
    Role.THROUGHPUT,
}  # fmt: skip
"""What a line with a step must report (one of them) to be a record of training."""

_WRAPPER = re.compile(
    r"[\"']?(?:(?:np|numpy|torch|jnp)\.)?(?:[Tt]ensor|float\d*|int\d*|[Aa]rray)?[(\[{]*\s*(?P<quote>[\"']?)$"
)
"""What may stand between a name and its number: ``tensor(``, ``np.float64(``, ``[``, ``'``."""

_SEPARATOR = re.compile(r"\s*(?:[:=]>?|->)\s*$")
_BRACKETED = re.compile(r"\s*[(\[]([^()\[\]]{0,40})[)\]]$")
"""A unit or a split behind a name: ``iter time (s)``, ``Epoch(val)``."""

_QUOTED = re.compile(r"([\"'])([^\"']{1,80})\1$")
_DELIMITER = re.compile(
    r"[,;|{}\[\]()\t\"'<>=]|(?<!@\.5)(?<!@0\.5):|\s[-\u2013\u2014\u2022#>*~]+(?=\s|$)|\s{2,}|\.{3,}"
)
_KEY = re.compile(r"[^\W\d][\w./@#%+: -]*$")
_UNIT = re.compile(r"^(?:(?:%|[^\W\d_]+)(?:/[^\W\d_]+)?(?:\.(?=\s))?| s\.(?=\s))")
"""What is attached to the number before: ``33ms``, ``5ms/step``, ``17.1 s.``."""

_DURATION = re.compile(r"\s*(?:ms|s|secs?|seconds?|mins?|minutes?|hours?|hrs?|h)\b(?!/)")
"""What makes a cost one of time: ``cost 23.1s``."""

_WORD = re.compile(r"[^\W\d][\w@-]*")
_DEVICE = re.compile(r"\b(?:cuda|cpu|xla|mps|npu|hpu):$")
_FILE = re.compile(r"\.(?:py|cc|cpp|cu|c|go|rs|json|yaml|yml|pt|pth|txt|log)\d*$")
_SOURCE = re.compile(r"[(\[ ][A-Za-z_]\w*:$")
_LOGGER = word_set("info debug warning warn error critical root main rank")
"""Words that loggers put before a message."""

_PROSE = word_set(
    "best last max min num total from until warmup every per final lowest highest each next of",
    "resume resumed resuming previous initial since than is was to before",
)
"""Words before ``epoch 3`` after which it does not say where the training is."""

_SECOND_WORDS = word_set("norm rate scale score time error rmse reward return")
"""Words that only mean something with the one before: ``grad norm``."""

_VAGUE = frozenset({"rate", "norm", "scale", "score"})
"""Words that say nothing alone."""

_PLURALS = frozenset({"epochs", "iterations", "updates", "timesteps", "index", "idx"})
"""Plurals with which settings are printed, not where the training is."""

_SETTINGS = re.compile(
    r"\bNamespace\(|\bseed\b|\bnum_workers\b|\bworkers\b|\bweight_decay\b.*\bbatch_size\b"
    r"|\bbatch_size\b.*\b(?:lr|learning_rate|epochs)\b|\b(?:lr|learning_rate|epochs)\b.*\bbatch_size\b",
)
"""A dump of the settings, whose ``epochs=100, lr=0.1`` is no record."""

_WARM_UP = re.compile(r"warm_?-?up[_ -]?(?:step|iter|epoch)?s?[:= ]*" + HOLE)
"""Steps that are undone before the training begins."""

_SPLIT_WORD = re.compile(r"(?<![\w./-])(" + "|".join(SPLITS) + r")(?![\w./-])", re.IGNORECASE)
_TUTORIAL = re.compile(rf"^\s*\[{HOLE},{HOLE}\]")
"""``[1,  2000] loss: 2.1``: epoch and batch in PyTorch's first tutorial."""
_NUMBERED = re.compile(rf"^\s*\[{HOLE}\]:?\s+\w*loss\b", re.IGNORECASE)
"""``[3] loss = 0.5``: a count that has no name, if nothing else in the line is one."""


class Kind(StrEnum):
    RECORD = "record"  # a step or an epoch, and what was measured there
    LOOSE = "loose"  # something measured, at the place that was last named
    EPOCH = "epoch"  # an epoch begins
    PLACE = "place"  # a step, of so many; what was measured there follows in lines of its own


class Counter(msgspec.Struct, frozen=True):
    """A number that says where the training is: position of it and of its total in the line."""

    at: int
    rank: int
    axis: Axis
    total: int | None = None
    inner: bool = False


class Plan(msgspec.Struct):
    """What the numbers of all lines of one shape are.

    ``columns``: tags and the positions of their numbers. ``ratios``: positions of totals by which
    a number is to be divided (``Accuracy: 9837/10000``). ``steps``: best first. ``split``: the
    held-out split that the line names before its first counter, which may then count batches of
    that split. ``bar``: the line is a state of a progress bar. ``stale``: tags whose value a bar
    repeats until there is a new one. ``keras``: a bar of which only the last state of an epoch
    counts. ``held_out``: a tag names a split that is held out. ``texts``: the shape. ``uses`` and
    ``last``: how many lines of this shape there were, and the last number of the last of them.
    """

    kind: Kind
    columns: tuple[tuple[str, int], ...]
    tags: frozenset[str]
    ratios: tuple[tuple[str, int], ...]
    epoch: Counter | None
    steps: tuple[Counter, ...]
    outcome: bool
    split: Split | None
    bar: bool
    stale: frozenset[str]
    keras: bool
    held_out: bool
    framework: str | None
    texts: tuple[str, ...]
    uses: int = 0
    last: str = ""


def plan_of(pieces: Sequence[str], wanted: Collection[str] = ()) -> Plan | None:
    """The plan of a line cut by ``pieces_of``; None where the line reports nothing.

    ``wanted``: tags that the caller has given a role.
    """
    texts = pieces[::2]
    shape = HOLE.join(texts)
    if len(texts) > MAX_FIELDS or not (wanted or _names_something(shape)):
        return None
    if _WARM_UP.search(shape) or _SETTINGS.search(shape):
        return None
    return _Parser(texts, shape, wanted).plan()


class _Key(msgspec.Struct, frozen=True):
    name: str
    explicit: bool


class _Parser(msgspec.Struct):
    texts: Sequence[str]
    shape: str
    wanted: Collection[str]
    split: str | None = None
    columns: dict[str, int] = msgspec.field(default_factory=dict)
    roles: set[Role] = msgspec.field(default_factory=set)
    counters: list[Counter] = msgspec.field(default_factory=list)
    ratio: dict[int, int] = msgspec.field(default_factory=dict)
    lead: Split | None = None
    batches: bool = False
    bar: bool = False
    keras: bool = False

    def plan(self) -> Plan | None:
        self._forms()
        for at in range(len(self.texts) - 1):
            if not self._is_taken(at):
                self._number(at)
        if not self.counters and _NUMBERED.match(self.shape):
            self._count(0, Axis.STEP, NUMBERED)
        kind = self._kind()
        if kind is None:
            return None
        tags = frozenset(self.columns)
        epochs = [one for one in self.counters if one.axis is Axis.EPOCH]
        steps = sorted((one for one in self.counters if one.axis is Axis.STEP), key=_by_rank)
        return Plan(
            kind,
            tuple(self.columns.items()),
            tags,
            tuple((tag, self.ratio[at]) for tag, at in self.columns.items() if at in self.ratio),
            epochs[0] if epochs else None,
            tuple(steps),
            bool(self.roles & OUTCOMES),
            self.lead,
            self.bar,
            frozenset() if self.keras or not self.bar else frozenset(filter(_is_repeated, tags)),
            self.keras,
            any(split_of(tag) not in (None, Split.TRAIN) for tag in tags),
            framework_of(self.shape),
            tuple(self.texts),
        )

    def _kind(self) -> Kind | None:
        if self.counters and self.roles & TELLING:
            return Kind.RECORD
        if self.roles & TELLING:
            return Kind.LOOSE
        if any(one.rank < UNNAMED and one.total and one.axis is Axis.STEP for one in self.counters):
            return None if self.bar else Kind.PLACE
        only_epoch = bool(self.counters) and all(c.axis is Axis.EPOCH for c in self.counters)
        return Kind.EPOCH if only_epoch else None

    # --- forms that stand for themselves -------------------------------------------------------

    def _forms(self) -> None:
        if _TUTORIAL.match(self.shape):
            self._count(0, Axis.EPOCH)
            self._count(1, Axis.STEP, inner=True)
        elif (
            self.texts[0].strip() == "" and self._total(0) and self._after(1, ("[", "-", "\u2501"))
        ):
            self.keras = self.bar = True
            self._count(0, Axis.STEP, inner=True)
        for at, text in enumerate(self.texts[1:-1], 1):
            if text.endswith("%||") and self._total(at):
                self.bar = True
                self._count(at, Axis.STEP, inner=True)
            elif text.strip() == "-" and self._after(at, ("batch",)):  # ESPnet: 1-500batch
                self._count(at, Axis.STEP, inner=True)

    def _total(self, at: int) -> int | None:
        """The position of the total of the number at ``at``: ``9/20``."""
        following = self.texts[at + 1].strip() if at + 2 < len(self.texts) else ""
        return at + 1 if following == "/" else None

    def _after(self, at: int, starts: tuple[str, ...]) -> bool:
        return at + 1 < len(self.texts) and self.texts[at + 1].lstrip().startswith(starts)

    def _is_taken(self, at: int) -> bool:
        return any(at in (one.at, one.total) for one in self.counters) or at in self.ratio.values()

    def _count(self, at: int, axis: Axis, rank: int = UNNAMED, *, inner: bool = False) -> None:
        if not self.counters and self.split is not None:
            self.lead = split_of(self.split)
        inner = inner or self.batches
        self.counters.append(Counter(at, rank, axis, self._total(at), inner))

    # --- numbers behind a name -----------------------------------------------------------------

    def _number(self, at: int) -> None:
        text = self.texts[at]
        if self._after(at, ("%||",)):
            self._look_for_split(text)  # "Validation:  40%|##   |"
        elif self._is_within_epoch(at):
            self._count(at, Axis.STEP, inner=True)
        elif self.texts[at + 1].startswith(("epoch:", "epoch results:")):  # ESPnet: 1epoch:train:
            self._count(at, Axis.EPOCH)
        elif (key := self._key(text if at else f" {text}")) is not None:
            self._named(at, key)
        elif text.strip()[-1:] == "[" and self._closes(at):
            self._bracket(at)

    def _is_within_epoch(self, at: int) -> bool:
        """``[1][50/100]``, ``1 [640/60000``, ``epoch 001: 100 / 500``: right behind an epoch."""
        before = [one for one in self.counters if one.axis is Axis.EPOCH]
        if not before or at - 1 not in (before[-1].at, before[-1].total):
            return False
        text = self.texts[at].strip()
        if text in ("][", "] [", "]  [", "["):
            return True
        return text == ":" and self._total(at) is not None

    def _closes(self, at: int) -> bool:
        """Whether ``a/b]`` follows."""
        return self._total(at) is not None and self._after(at + 1, ("]",))

    def _bracket(self, at: int) -> None:
        """``Train: [0/150][0/924]``: an epoch if another bracket follows, else a step."""
        total = at + 1
        follows = "".join(self.texts[total + 1 : total + 2]).replace(" ", "")
        if follows == "][" and total + 2 < len(self.texts):
            self._count(at, Axis.EPOCH)
        else:
            self._count(at, Axis.STEP)

    def _named(self, at: int, key: _Key) -> None:
        name = key.name
        private = PRIVATE.match(self.shape) is not None
        if private:
            name = STEP_NAMES.get(name, name)
        axis = axis_rank(name)
        if name.lower() in SPLITS:
            self._split(at, name)
        elif axis is not None and axis[1] is not Axis.INDEX and name.lower() not in _PLURALS:
            self._place(at, name, *axis)
        elif name in self.wanted or (private and name in NAMES):
            self._value(at, name, Role.LOSS)
        else:
            role = classify(name).role
            if role is Role.UNKNOWN and self._is_line_of_source(at):
                return
            if self._is_duration(at, name, role):
                return
            if key.explicit or role not in (Role.UNKNOWN, Role.OTHER):
                self._value(at, name, role)

    def _is_duration(self, at: int, name: str, role: Role) -> bool:
        """Whether what is called a cost is one of time."""
        if role is not Role.LOSS or told(name).known != COST:
            return False
        return _DURATION.match(self.texts[at + 1]) is not None

    def _is_line_of_source(self, at: int) -> bool:
        """``(trainer:732)``: where in the program the line was printed."""
        before = self.texts[at]
        return _SOURCE.search(before) is not None and self._after(at, (")", "]"))

    def _split(self, at: int, name: str) -> None:
        """``Test: [0/98]``, ``Train: 3 [  50/1251 (  4%)]``."""
        self._look_for_split(name)
        if self.texts[at].strip().endswith("[") and self._closes(at):
            self._bracket(at)
        elif self.texts[at + 1].strip() == "[" and self._total(at + 1) is not None:
            self._count(at, Axis.EPOCH)

    def _place(self, at: int, name: str, rank: int, axis: Axis) -> None:
        if any(one.axis is axis for one in self.counters):
            self.columns.setdefault(name, at)
        self._count(at, axis, rank)
        self.roles.add(Role.STEP)

    def _value(self, at: int, name: str, role: Role) -> None:
        name = self._with_split(name, role)
        if name in self.columns:
            return
        self.columns[name] = at + self._is_running(at)
        self.roles.add(role)
        total = self._total(at)
        if role is Role.METRIC and total is not None:
            self.ratio[at] = total

    def _is_running(self, at: int) -> bool:
        """Whether the average so far follows, in a line about a pass over held-out data."""
        if self.lead is None or self.lead is Split.TRAIN or at + 2 >= len(self.texts):
            return False
        return self.texts[at + 1].strip() == "("

    def _with_split(self, name: str, role: Role) -> str:
        """``val/loss`` for the ``loss`` of a line, or of a part of it, that is about ``val``."""
        own = split_of(name)
        if own is not None:
            first = name.split(maxsplit=1)[0]
            if " " in name and split_of(first) is own:
                self.split = first if own is not Split.TRAIN else None
            return name
        if self.split is None or role not in OUTCOMES:
            return name
        return f"{self.split}/{name}"

    # --- names ---------------------------------------------------------------------------------

    def _key(self, text: str) -> _Key | None:
        """The name that ends the text before a number."""
        text = _UNIT.sub("", text)[-LOOK_BACK:]
        if _DEVICE.search(text):
            return None
        wrapper = _WRAPPER.search(text)
        bare = text[: wrapper.start()] if wrapper else text
        separator = _SEPARATOR.search(bare)
        if separator is None:
            opened = text[len(bare) :].strip()
            if opened not in ("", "[", "(", "tensor("):
                return None
            return self._implicit(bare.rstrip())
        return self._explicit(bare[: separator.start()])

    def _explicit(self, text: str) -> _Key | None:
        quoted = _QUOTED.search(text)
        if quoted:
            self._look_for_split(text[: quoted.start()])
            return _Key(quoted[2], True) if _KEY.match(quoted[2]) else None
        if text[-1:] in "'\"":
            return None
        name, before = self._cut(text)
        words = [word for word in name.split() if word.lower() not in _LOGGER]
        self._look_for_split(before)
        if not words:
            return None
        name = " ".join(words[-MAX_WORDS:]).removesuffix(" value")
        place = axis_rank(words[-1])
        if place is not None and len(words) > 1 and _PROSE.isdisjoint(map(str.lower, words[:-1])):
            name = name if axis_rank(name) is not None else words[-1]
        return _Key(name, True) if _is_key(name) else None

    def _implicit(self, text: str) -> _Key | None:
        """The shortest end of the text that the table of names knows."""
        name, before = self._cut(text)
        words = name.split()
        self._look_for_split(before)
        if not words:
            return None
        size = 2 if words[-1].lower() in _SECOND_WORDS and len(words) > 1 else 1
        if words[-1] in _PROSE or (size == 1 and words[-1].lower() in _VAGUE):
            return None  # "is" is no inception score, as "IS" is
        known = " ".join(words[-size:])
        self._look_for_split(" ".join(words[:-size]))
        if not _is_key(known) or not _is_known(known):
            self._look_for_split(known)
            return None
        if axis_rank(known) is not None and not _PROSE.isdisjoint(map(str.lower, words[:-size])):
            return None
        if len(words) > size and words[-size - 1].lower() in SPLITS:
            known = f"{words[-size - 1]} {known}"
        return _Key(known, False)

    def _cut(self, text: str) -> tuple[str, str]:
        """The name at the end of the text, without a unit behind it; and what is before it."""
        unit = _BRACKETED.search(text)
        if unit and unit.start() > 0:
            text = text[: unit.start()]
        ends = [match.end() for match in _DELIMITER.finditer(text)]
        begin = ends[-1] if ends else 0
        if unit and unit[1].lower() in SPLITS:  # Iter(val) [2000]: so many batches of them
            self.batches = split_of(unit[1]) is not Split.TRAIN
        before = text[:begin] + (f" {unit[1]} " if unit else "")
        return text[begin:].lstrip("#*->~ ").strip(), before

    def _look_for_split(self, text: str) -> None:
        """What stands between names may say which split the following ones are about."""
        for match in _SPLIT_WORD.finditer(text):
            self.split = match[1] if split_of(match[1]) is not Split.TRAIN else None


def _names_something(shape: str) -> bool:
    """Whether a word of the shape is known: without one there is nothing to find, and most of
    what is printed has none."""
    return bool(_TUTORIAL.match(shape)) or any(map(_is_word, _WORD.findall(shape)))


@lru_cache(maxsize=4096)
def _is_word(word: str) -> bool:
    return word in NAMES or _is_known(word)


def _by_rank(one: Counter) -> int:
    return one.rank


def _is_repeated(tag: str) -> bool:
    identity = classify(tag)
    return identity.split is not Split.TRAIN or identity.scope is Scope.EPOCH


def _is_known(name: str) -> bool:
    if (place := axis_rank(name)) is not None:
        return place[1] is not Axis.INDEX
    return classify(name).role not in (Role.UNKNOWN, Role.OTHER)


def _is_key(name: str) -> bool:
    return len(name) <= MAX_KEY and bool(_KEY.match(name)) and not _FILE.search(name)
