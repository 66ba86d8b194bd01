"""Columns to a run view: meaning, twins, segments, attempts, regime. Pure.

The segmenter runs here, before any rule: it decides what a rule may see as one curve. Joining
two executions into one curve invents divergences; judging one execution twice invents runs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from .carried import without_repeats
from .counting import Clock, Course, Fall, cadence, countable, course, falls, meanings
from .model.artifact import Artifact, Kind
from .model.compression import bare
from .model.data import (
    FACTS,
    Attempt,
    Axis,
    Column,
    Facts,
    Fault,
    Floats,
    Identity,
    Ints,
    NotJudgeable,
    Rewind,
    Role,
    RunView,
    Scope,
    Series,
    Split,
)
from .readers import held_out, stand_ins
from .readers.names import SPLITS, classify, split_of
from .readers.split_files import (
    TELLING,
    SplitFile,
    companies,
    rank_of,
    split_file,
    stem_of,
)
from .regimes import regime_of
from .rules.statistics import median, noise

T = TypeVar("T", bound=np.generic)

AXIS_ROLES = frozenset({Role.STEP, Role.EPOCH, Role.WALL_TIME})
"""Columns that place points rather than measure something."""

LEARNED = frozenset({Role.LOSS, Role.METRIC, Role.REWARD})

SPLIT_READERS = frozenset({"csv", "json", "jsonl", "text", "numbers"})
"""Readers of formats in which a training may write a file for each split."""

LEADS = tuple(f"{word}/" for word, split in SPLITS.items() if split is not Split.TRAIN)

GOES_FURTHER = 1.02
"""A later attempt supersedes an earlier one when it gets at least this much further."""

NOISES = 3.0
"""Noises of one value by which the losses of two ranks, each on data of its own, may differ."""

PRINTED = "text"
"""The reader of what is printed for people, with few digits."""

Tolerance = tuple[float, float]
"""Relative and absolute difference of two numbers that are one."""

FLOAT32: Tolerance = (1e-5, 1e-12)
ROUNDED: Tolerance = (5e-3, 5.1e-5)
"""Three significant digits, or four behind the point."""


class Reading(msgspec.Struct, frozen=True, eq=False):
    """What one reader said about one artifact."""

    artifact: Artifact
    columns: tuple[Column, ...] = ()
    facts: Facts = msgspec.field(default_factory=Facts)
    faults: tuple[Fault, ...] = ()
    not_judgeable: NotJudgeable | None = None
    parts: tuple[str, ...] = ()


Key = tuple[Role, str, Split, Scope, str | None, str | None]
"""What a series measures, whatever its writer calls it."""

Name = tuple[Key, str]
"""What a series measures and what its writer calls it: one writer may log one thing twice."""


class Piece(msgspec.Struct, frozen=True, eq=False):
    """One execution as one artifact shows it."""

    artifact: Artifact
    series: tuple[Series, ...]

    @property
    def names(self) -> dict[Name, Series]:
        return {_name(one): one for one in self.series}


def assemble(
    id: str,
    readings: Sequence[Reading],
    known_faults: Iterable[Fault] = (),
    tags: Mapping[str, str] | None = None,
) -> RunView:
    """The view of one run. ``tags`` maps a logged tag to the role the caller gave it."""
    tags = tags or {}
    readings, tags = _named_by_files(readings), _of_all_splits(tags)
    rewinds: list[Rewind] = []
    pieces: list[Piece] = []
    sets = _in_company(tuple(sorted({column.tag for one in readings for column in one.columns})))
    for reading in sorted(readings, key=_began):
        series = without_repeats(tuple(_series(id, reading, tags, sets)))
        for piece in _pieces(reading, series, rewinds):
            pieces.append(piece)
    attempts = _attempts(_without_copies(pieces), rewinds)
    facts = _facts(readings)
    faults = (*known_faults, *(fault for reading in readings for fault in reading.faults))
    regime = facts.regime or regime_of(one for attempt in attempts for one in attempt.series)
    return RunView(id, attempts, facts, faults, tuple(rewinds), regime)


@lru_cache(maxsize=64)
def _in_company(tags: tuple[str, ...]) -> Mapping[str, Identity]:
    """What tags mean beside one another, for those of which they do not say it alone.

    Once for the many runs of one program, which log the same tags.
    """
    return {**stand_ins.identities(tags), **held_out.identities(tags)}


def strangers(id: str, readings: Sequence[Reading]) -> tuple[str, ...]:
    """Paths of the evaluations that belong to another training than the rest of the run."""
    return tuple(sorted({*_left_behind(id, readings), *_of_no_company(readings)}))


def _left_behind(id: str, readings: Sequence[Reading]) -> tuple[str, ...]:
    declared = (column.declared for one in readings for column in one.columns)
    if not any(one is not None and one.split is Split.EVAL for one in declared):
        return ()
    pieces = [Piece(one.artifact, tuple(_series(id, one, {}, {}))) for one in readings]
    trained = [one for one in pieces if Split.TRAIN in _declared_splits(one)]
    evaluated = [one for one in pieces if _declared_splits(one) == {Split.EVAL}]
    left = [one for one in evaluated if any(_is_left_behind(other, one) for other in trained)]
    copies = (one for one in pieces if any(_is_copy(one, other) for other in left))
    return tuple(one.artifact.path for one in (*left, *copies))


def _declared_splits(piece: Piece) -> set[Split]:
    return {one.identity.split for one in _declared_losses(piece)}


def _is_copy(piece: Piece, other: Piece) -> bool:
    """Whether every series of the piece stands in the other one too."""
    return bool(piece.series) and all(
        any(_may_be_twins(one, two) and _same(one, two) for two in other.series)
        for one in piece.series
    )


def _facts(readings: Sequence[Reading]) -> Facts:
    """What the logs say goes before what the settings beside them say, and the log that came
    furthest before those of earlier checkpoints; where two files of settings contradict each other,
    neither is believed."""
    logs = [one.facts for one in readings if one.artifact.kind is not Kind.CONFIG]
    logs.sort(key=lambda one: -1 if one.last_step is None else one.last_step, reverse=True)
    known = reduce(lambda known, facts: known.over(facts), logs, Facts())
    settings = [one.facts for one in readings if one.artifact.kind is Kind.CONFIG]
    if not settings:
        return known
    said = {name: {getattr(one, name) for one in settings} - {None} for name in FACTS}
    agreed: dict[str, Any] = {name: told.pop() for name, told in said.items() if len(told) == 1}
    return known.over(Facts(**agreed))


_ROTATED = re.compile(r"(?P<log>.+\.\w+)\.(?:\d{1,3}|\d{4}-\d\d-\d\d.*)", re.DOTALL)
"""``train.log.2`` and ``train.log.2023-01-31``: parts of ``train.log``, older or newer ones."""


def _began(reading: Reading) -> tuple[float, str, int, str]:
    """Artifacts in the order in which they were begun, as far as they record a clock; of the parts
    of one log, by their steps."""
    filled = [one for one in reading.columns if len(one)]
    walls = [one.walls[0] for one in filled if one.walls is not None]
    path = reading.artifact.path
    rotated = _ROTATED.fullmatch(bare(path))
    log = bare(path) if rotated is None else rotated["log"]
    first = min((int(one.steps[0]) for one in filled), default=0)
    return (float(min(walls)) if walls else 0.0, log, first, path)


# --- meaning -------------------------------------------------------------------------------


def _series(
    id: str, reading: Reading, tags: Mapping[str, str], sets: Mapping[str, Identity]
) -> Iterator[Series]:
    """``sets``: what is known of tags that mean something else in the company of others."""
    folder = _folder(id, reading.artifact.path)
    for column in reading.columns:
        known = sets.get(column.tag) or classify(column.tag)
        identity = _identity(column, known, folder, tags)
        if len(column) and identity.role not in AXIS_ROLES:
            yield Series(reading.artifact.path, identity, column)


def _folder(id: str, path: str) -> str:
    """The writer's sub-directory within the run: Keras and add_scalars put the split there."""
    parts = path.split("/")
    inside = parts[len(id.split("/")) :] if path.startswith(f"{id}/") else parts
    return inside[-2] if len(inside) > 1 else ""


def _identity(column: Column, identity: Identity, folder: str, tags: Mapping[str, str]) -> Identity:
    """The caller's word on the role goes before the format's, and that before the tag's."""
    declared = column.declared
    if declared is not None:
        identity = declared.over(identity)
    if column.tag in tags:
        return replace(identity, role=Role(tags[column.tag]), component=None)
    if not folder or identity.split is not Split.TRAIN or (declared and declared.split):
        return identity
    told = classify(f"{folder}/loss")
    if told.split is Split.TRAIN:
        told = classify(folder)
        if told.role is not identity.role:
            return identity
    return replace(identity, split=told.split)


def _key(series: Series) -> Key:
    i = series.identity
    return (i.role, i.base, i.split, i.scope, i.component, i.dataset)


def _name(series: Series) -> Name:
    return (_key(series), series.tag)


# --- a file for each split --------------------------------------------------------------------


def _named_by_files(readings: Sequence[Reading]) -> list[Reading]:
    """With ``val/loss`` for the ``loss`` of ``val.csv``."""
    words = {
        path: one.word
        for company in _companies(readings)
        for path, one in company.items()
        if one.split is not Split.TRAIN
    }
    return [
        _renamed(one, word) if (word := words.get(one.artifact.path) or _lone_word(one)) else one
        for one in readings
    ]


def _companies(readings: Iterable[Reading]) -> Iterator[Mapping[str, SplitFile]]:
    """The files of splits, of one kind and in one directory, that the names allow to be one run."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in readings:
        if one.columns and one.artifact.reader in SPLIT_READERS:
            directory = one.artifact.path.rpartition("/")[0]
            alike[directory, one.artifact.reader].append(one.artifact.path)
    several = (paths for paths in alike.values() if len(paths) > 1)
    return (company for paths in several for company in companies(paths))


def _lone_word(reading: Reading) -> str:
    """The word for the split in the name of a file without a company, where it can mean nothing
    else."""
    name = reading.artifact.path.rpartition("/")[2].lower()
    if reading.artifact.reader not in SPLIT_READERS or "val" not in name:
        return ""
    one = split_file(reading.artifact.path)
    if one is None or one.word not in TELLING or not one.generic or _trains(reading):
        return ""
    return one.word


def _trains(reading: Reading) -> bool:
    """Whether a file holds what only a training does."""
    return any(
        classify(one.tag).role in (Role.LR, Role.GRAD_NORM) or split_of(one.tag) is Split.TRAIN
        for one in reading.columns
    )


def _renamed(reading: Reading, word: str) -> Reading:
    columns = tuple(
        one if split_of(one.tag) else replace(one, tag=f"{word}/{one.tag}")
        for one in reading.columns
    )
    return replace(reading, columns=columns)


def _of_all_splits(tags: Mapping[str, str]) -> Mapping[str, str]:
    """The caller knows a column by its name in the file."""
    return tags and {f"{lead}{tag}": role for tag, role in tags.items() for lead in ("", *LEADS)}


def _of_no_company(readings: Sequence[Reading]) -> Iterator[str]:
    """Paths of files that are named like a split of the run and are not known to be one."""
    read = {one.artifact.path: one for one in readings}
    for company in _companies(readings):
        (trained,) = (read[path] for path, one in company.items() if one.split is Split.TRAIN)
        for path, one in company.items():
            if one.split is not Split.TRAIN and not _go_together(trained, read[path], one.split):
                yield path


def _go_together(trained: Reading, evaluated: Reading, split: Split) -> bool:
    """Whether a file is about a held-out split of a training: it holds nothing else, the training's
    own file nothing of that split, and both count the same steps or epochs to the same end."""
    if _trains(evaluated) or any(split_of(one.tag) is split for one in trained.columns):
        return False
    ours, theirs = _counts(trained), _counts(evaluated)
    return any(_end_together(ours[axis], theirs[axis]) for axis in ours.keys() & theirs.keys())


@np.errstate(all="ignore")
def _counts(reading: Reading) -> dict[Axis, Ints]:
    """What the rows of what is learned count, and their epochs, where these are logged too."""
    columns = [one for one in reading.columns if len(one)]
    learned = [one for one in columns if classify(one.tag).role in LEARNED]
    counts = {}
    if learned:
        longest = max(learned, key=len)
        counts[longest.axis] = longest.steps
    epochs = next((one for one in columns if classify(one.tag).role is Role.EPOCH), None)
    if epochs is not None and np.isfinite(epochs.values).all():
        counts.setdefault(Axis.EPOCH, np.floor(epochs.values).astype(np.int64))
    return counts


def _end_together(ours: Ints, theirs: Ints) -> bool:
    """Whether evaluations span the training; one that is still to come may be missing. A single one
    must not be of a later step."""
    if (np.diff(ours) < 0).any() or (np.diff(theirs) < 0).any():
        return False
    each, late = max(1, round(cadence(ours))), int(theirs[-1]) - int(ours[-1])
    if len(theirs) < 2:
        return theirs[0] >= 0 and late <= each
    between, early = max(each, round(cadence(theirs))), int(ours[0]) - int(theirs[0])
    return -between <= late <= each and early <= between


# --- segments within one artifact ------------------------------------------------------------


def _pieces(reading: Reading, series: tuple[Series, ...], rewinds: list[Rewind]) -> Iterator[Piece]:
    """Split one artifact where its steps start over; drop what a resume redid."""
    if not series:
        return
    clock = max(series, key=_clock_rank)
    at = falls(clock.steps).tolist()
    if not at:
        yield Piece(reading.artifact, series)
        return
    epochs = next((c for c in reading.columns if classify(c.tag).role is Role.EPOCH), None)
    falling = meanings(Clock(clock, _rate(series, clock), epochs), at)
    if falling is None:
        yield Piece(reading.artifact, series)
        return
    found = list(zip(at, falling, strict=True))
    counters = [position for position, fall in found if fall in (Fall.COUNTER, Fall.ANEW)]
    cuts = [position for position, fall in found if fall is Fall.RESTART]
    unrolled = tuple(_unrolled(one, clock, counters) for one in series)
    counted = unrolled[series.index(clock)]
    rewinds += (
        _rewind(clock, counted, position, fall)
        for position, fall in found
        if fall is not Fall.COUNTER
    )
    yield from (Piece(reading.artifact, part) for part in _split(unrolled, counted, cuts))


def _rate(series: Iterable[Series], clock: Series) -> Floats | None:
    """The learning rate at the points of the clock, where it is logged there."""
    rates = (one for one in series if one.role is Role.LR and len(one) == len(clock))
    return next(
        (
            one.values
            for one in rates
            if np.array_equal(one.steps, clock.steps) and np.isfinite(one.values).all()
        ),
        None,
    )


def _clock_rank(series: Series) -> tuple[bool, bool, bool, int]:
    """What is learned tells one execution from another; times and counts do not."""
    is_loss = series.role is Role.LOSS
    learned = is_loss or series.role in (Role.METRIC, Role.REWARD)
    return (is_loss, series.split is Split.TRAIN and is_loss, learned, len(series))


def _rewind(clock: Series, counted: Series, at: int, fall: Fall) -> Rewind:
    """``counted``: the clock with steps that go on where the count starts over."""
    return Rewind(
        clock.artifact,
        int(clock.steps[at - 1]),
        int(clock.steps[at]),
        fall is Fall.RESUME,
        clock.line(at),
        int(counted.steps[at]) if fall is Fall.ANEW else None,
    )


def _unrolled(series: Series, clock: Series, counters: Sequence[int]) -> Series:
    """With the steps of what went before added to a count that starts over."""
    if not counters:
        return series
    distance = max(1, round(cadence(clock.steps)))
    lost = [int(clock.steps[at - 1] - clock.steps[at]) + distance for at in counters]
    added = np.concatenate([[0], np.cumsum(lost)])
    passed = np.searchsorted(_edges(series, clock, counters), np.arange(len(series)), "right")
    return _moved(series, added[passed])


def _split(
    series: tuple[Series, ...], clock: Series, cuts: Sequence[int]
) -> Iterator[tuple[Series, ...]]:
    """All series of the artifact, cut where the clock is cut."""
    parts = [[_monotone(p) for p in _cut(one, clock, cuts)] for one in series]
    for number in range(len(cuts) + 1):
        yield tuple(p[number] for p in parts if len(p[number]))


def _cut(series: Series, clock: Series, cuts: Sequence[int]) -> Iterator[Series]:
    edges = [0, *_edges(series, clock, cuts).tolist(), len(series)]
    for begin, end in pairwise(edges):
        yield replace(series, column=series.column.take(slice(begin, end)))


def _edges(series: Series, clock: Series, at: Sequence[int]) -> Ints:
    """Positions in ``series`` that stand for the positions ``at`` in the clock: by source line or
    by wall clock where there are such, else at the falls of the series itself. What is evaluated
    before the first row of an execution stands between two rows of the clock: its own fall says
    where it belongs."""
    after = np.asarray(at, np.int64)
    if series.column is clock.column:
        return after
    own = falls(series.steps)
    for mine, others in (
        (series.column.lines, clock.column.lines),
        (series.column.walls, clock.column.walls),
    ):
        if mine is not None and others is not None and _rises(mine) and _rises(others):
            begin = np.searchsorted(mine, others[after - 1], "right")
            fall = np.append(own, len(series))[np.searchsorted(own, begin)]
            edges: Ints = np.minimum(fall, np.searchsorted(mine, others[after]))
            return edges
    return np.concatenate([own, np.full(len(at), len(series), np.int64)])[: len(at)]


def _rises(places: Ints | Floats) -> bool:
    return bool((places[1:] >= places[:-1]).all())


def _monotone(series: Series) -> Series:
    """Without the points that a later resume redid: the later row wins. Several rows of one step
    without a resume in between stay."""
    steps, at = series.steps, falls(series.steps)
    if not len(at):
        return series
    resumed = np.full(len(steps), np.iinfo(np.int64).max)
    resumed[at - 1] = steps[at]
    least_after = np.minimum.accumulate(resumed[::-1])[::-1]
    return replace(series, column=series.column.take(steps < least_after))


# --- attempts across artifacts ----------------------------------------------------------------


def _without_copies(pieces: Sequence[Piece]) -> list[Piece]:
    """Each series once: a prefix in a checkpoint copy or a twin in another tracker is named in
    ``also_in`` of the one kept, which is the longest (of equals: what was not printed for people,
    with source lines)."""
    printed = {piece.artifact.path for piece in pieces if piece.artifact.reader == PRINTED}
    holders: dict[str, list[Series]] = defaultdict(list)
    dropped: set[int] = set()
    twins: dict[int, list[str]] = defaultdict(list)
    members = [one for piece in pieces for one in piece.series]

    def rank(one: Series) -> tuple[int, bool, bool]:
        return (-len(one), one.artifact in printed, one.column.lines is None)

    def is_twin(one: Series, kept: Series) -> bool:
        rounded = not printed.isdisjoint((one.artifact, kept.artifact))
        return _may_be_twins(one, kept) and _same(one, kept, ROUNDED if rounded else FLOAT32)

    for one in sorted(members, key=rank):
        kept = holders[one.identity.base]
        twin = next((k for k in kept if is_twin(one, k)), None)
        if twin is None:
            kept.append(one)
        else:
            dropped.add(id(one))
            twins[id(twin)].append(one.artifact)
    cleaned = (
        Piece(
            piece.artifact,
            tuple(
                replace(one, also_in=tuple(sorted(twins[id(one)]))) if id(one) in twins else one
                for one in piece.series
                if id(one) not in dropped
            ),
        )
        for piece in pieces
    )
    return [piece for piece in cleaned if piece.series]


def _may_be_twins(one: Series, other: Series) -> bool:
    """What one format declares another may leave unsaid: that ``RMSE`` is the loss."""
    if one.artifact == other.artifact:
        return False
    declared = one.column.declared is not None, other.column.declared is not None
    return _key(one) == _key(other) or declared in ((True, False), (False, True))


def _same(small: Series, large: Series, within: Tolerance = FLOAT32) -> bool:
    """Whether every point of ``small`` is a point of ``large``."""
    a, b = small.values, large.values
    if len(a) == len(b) and _equal(a, b, within) and not _are_parts(small, large):
        return True
    at = np.searchsorted(large.steps, small.steps)
    if not (at < len(b)).all() or not np.array_equal(large.steps[at], small.steps):
        return False
    return _equal(a, b[at], within)


def _are_parts(one: Series, other: Series) -> bool:
    """Whether two series that never change stand on steps one after another: equal values tell
    nothing then."""
    if one.column.axis is not other.column.axis or (one.values != one.values[0]).any():
        return False
    return bool(one.steps[0] > other.steps[-1] or other.steps[0] > one.steps[-1])


@np.errstate(all="ignore")
def _equal(a: Floats, b: Floats, within: Tolerance) -> bool:
    """As ``numpy.allclose`` with equal NaNs, which takes three times as long for short arrays."""
    relative, absolute = within
    near = np.abs(a - b) <= absolute + relative * np.abs(b)
    near = near & np.isfinite(b) | (a == b)
    return bool(near.all()) or bool((near | (np.isnan(a) & np.isnan(b))).all())


def _attempts(pieces: Sequence[Piece], rewinds: list[Rewind]) -> tuple[Attempt, ...]:
    groups: list[list[Piece]] = []
    for piece in pieces:
        if not groups or not _join(groups[-1], piece, rewinds):
            groups.append([piece])
    made = [Attempt(i, tuple(_merged(group))) for i, group in enumerate(groups)]
    return tuple(
        Attempt(i, one.series, True) if any(_supersedes(b, one) for b in made[i + 1 :]) else one
        for i, one in enumerate(made)
    )


def _supersedes(later: Attempt, earlier: Attempt) -> bool:
    """Whether ``later`` is the same training once more, and gets further."""
    again = {_key(one) for one in earlier.series} & {_key(one) for one in later.series}
    return bool(again) and _end(later) >= GOES_FURTHER * _end(earlier)


def _join(group: list[Piece], piece: Piece, rewinds: list[Rewind]) -> bool:
    """Add ``piece`` to the execution that ``group`` shows, unless it shows another one."""
    earlier = _earlier(group, piece)
    if any(_is_left_behind(p, piece) for p in earlier):
        return False
    clash = _clash(earlier, piece)
    if clash is not None:
        before, after = clash
        if before.artifact == after.artifact:
            return False
        resume = bool(after.steps[0] > _second(before))
        added = 0 if resume else _added(earlier, piece)
        rewinds.append(_between(before, after, resume or added > 0, added))
        if not resume and not added:
            return False
        piece = replace(piece, series=tuple(_moved(one, added) for one in piece.series))
    group.append(piece)
    return True


def _added(earlier: Sequence[Piece], piece: Piece) -> int:
    """What the steps of ``piece`` are to be raised by because training went on in this file and
    counts anew; 0 where another execution began. Only a loss, or a learning rate, that certainly
    goes on tells, and only where each file holds the loss: otherwise its steps say nothing about
    the other files."""
    clock = max(piece.series, key=_clock_rank)
    parts = _parts(earlier, clock)
    if clock.role is not Role.LOSS or clock.split is not Split.TRAIN or len(parts) < len(earlier):
        return 0
    rates = [one for one in piece.series if one.role is Role.LR]
    if not any(_goes_on(_parts(earlier, one), one) for one in (clock, *rates)):
        return 0
    before = parts[-1].steps
    if not countable(before) or not countable(clock.steps):
        return 0
    return int(before[-1] - clock.steps[0]) + max(1, round(cadence(before)))


def _parts(pieces: Sequence[Piece], series: Series) -> list[Series]:
    """The same series in each of the pieces that hold it."""
    found = (piece.names.get(_name(series)) for piece in pieces)
    return [one for one in found if one is not None]


def _goes_on(parts: Sequence[Series], after: Series) -> bool:
    before = np.concatenate([one.values for one in parts]) if parts else after.values[:0]
    return bool(parts) and course(before, after.values) is Course.GOES_ON


def _moved(series: Series, steps: int | Ints) -> Series:
    """With these numbers added to its steps."""
    return replace(series, column=replace(series.column, steps=series.steps + steps))


def _earlier(group: Iterable[Piece], piece: Piece) -> list[Piece]:
    """What the piece follows: two artifacts of one format follow one another; of two formats, or
    of two ranks of one training, they run side by side."""
    alike = [one for one in group if one.artifact.reader == piece.artifact.reader]
    if rank_of(piece.artifact.path) is None:
        return alike
    return [one for one in alike if not _of_two_ranks(one, piece)]


def _of_two_ranks(before: Piece, after: Piece) -> bool:
    """Whether two processes of one training wrote these: their names differ by the rank, they log
    at the same steps, and their losses differ by noise."""
    ranks = rank_of(before.artifact.path), rank_of(after.artifact.path)
    if None in ranks or ranks[0] == ranks[1] or _home(before) != _home(after):
        return False
    mine = after.names
    shared = [(one, mine[name]) for name, one in before.names.items() if name in mine]
    longest = max(shared, key=lambda pair: len(pair[0]), default=None)
    if longest is None or not _at_the_same_steps(*longest):
        return False
    losses = (pair for pair in shared if pair[0].role is Role.LOSS)
    return all(_differ_by_noise(*pair) for pair in losses)


def _home(piece: Piece) -> str:
    path = piece.artifact.path
    return path.rpartition("/")[0] + "/" + stem_of(path)


def _at_the_same_steps(one: Series, other: Series) -> bool:
    """But for the last row, which one of them may have yet to write."""
    rows = min(len(one), len(other))
    same = abs(len(one) - len(other)) <= 1 and np.array_equal(one.steps[:rows], other.steps[:rows])
    return same and int(one.steps[-1]) > int(one.steps[0])


@np.errstate(all="ignore")
def _differ_by_noise(one: Series, other: Series) -> bool:
    rows = min(len(one), len(other))
    a, b = one.values[:rows], other.values[:rows]
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.any():
        return True
    between = median(np.abs(a[finite] - b[finite]))
    return between <= NOISES * max(noise(a[finite]), noise(b[finite]))


def _is_left_behind(before: Piece, after: Piece) -> bool:
    """Whether two files of one writer, each for a split of its own, are of two trainings.

    CatBoost reuses its directory: when the second training evaluates on nothing, the evaluation of
    the first one stays. The objectives differ then, or the lengths by more than the row that a
    running training has yet to write.
    """
    mine, others = _declared_losses(after), _declared_losses(before)
    if not mine or not others or {one.split for one in mine} & {one.split for one in others}:
        return False
    ends = {one.identity.base: int(one.steps[-1]) for one in others}
    gaps = [
        abs(int(one.steps[-1]) - ends[one.identity.base])
        for one in mine
        if one.identity.base in ends
    ]
    return not gaps or max(gaps) > 1


def _declared_losses(piece: Piece) -> list[Series]:
    """The losses of which the format says the split."""
    losses = (one for one in piece.series if one.role is Role.LOSS)
    return [one for one in losses if one.column.declared and one.column.declared.split]


def _clash(earlier: Sequence[Piece], piece: Piece) -> tuple[Series, Series] | None:
    """The longest series that both an earlier piece and this one hold."""
    mine = piece.names
    shared = [(one, mine[name]) for p in earlier for name, one in p.names.items() if name in mine]
    return max(shared, key=lambda pair: min(len(pair[0]), len(pair[1])), default=None)


def _second(series: Series) -> int:
    return int(series.steps[min(1, len(series) - 1)])


def _between(before: Series, after: Series, resume: bool, added: int) -> Rewind:
    begin = int(after.steps[0])
    return Rewind(
        after.artifact,
        int(before.steps[-1]),
        begin,
        resume,
        after.line(0),
        begin + added if added else None,
    )


def _merged(group: Sequence[Piece]) -> Iterator[Series]:
    """The series of one execution; those continued in a later shard become one."""
    held: dict[tuple[Name, str, int | None], list[Series]] = {}
    for piece in group:
        rank = rank_of(piece.artifact.path)
        for one in piece.series:
            held.setdefault((_name(one), piece.artifact.reader, rank), []).append(one)
    for parts in held.values():
        yield parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: Sequence[Series]) -> Series:
    first = parts[0]
    columns = [part.column for part in parts]
    column = Column(
        first.tag,
        np.concatenate([c.steps for c in columns]),
        np.concatenate([c.values for c in columns]),
        columns[0].axis,
        _concatenated([c.lines for c in columns]),
        _concatenated([c.walls for c in columns]),
        first.column.declared,
    )
    also = sorted({part.artifact for part in parts[1:]} | {a for p in parts for a in p.also_in})
    return _monotone(replace(first, column=column, also_in=tuple(also)))


def _concatenated(arrays: Sequence[NDArray[T] | None]) -> NDArray[T] | None:
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if len(present) == len(arrays) else None


def _end(attempt: Attempt) -> int:
    losses = [s for s in attempt.series if s.role is Role.LOSS] or list(attempt.series)
    return max((int(s.steps[-1]) for s in losses), default=0)
