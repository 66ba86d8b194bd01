"""Sparse rows to columns: what trainer states, JSON lines and tables have in common.

Rows that hold the same keys are stored together, so that the row numbers are kept once for all
their columns; a million rows of five numbers take 56 MB. All limits are checked before storing.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from trainproof.model.artifact import Content
from trainproof.model.data import (
    Axis,
    Column,
    Facts,
    FaultCode,
    Floats,
    Ints,
    Item,
    NotJudgeable,
    Role,
    Split,
)

from .interface import Options
from .names import COST, axis_rank, classify, split_of, told, word_set, words_of
from .text import FaultLog

MAX_COLUMNS = 4096
MAX_VALUES = 1 << 25
"""Numbers kept of one artifact (256 MiB)."""

MAX_GROUPS = 512
"""Sets of keys stored together; beyond that a column is stored for itself."""

MAX_PATTERNS = 64
"""Ways in which the cells of one block may be empty before its columns are stored apart."""

MAX_DEPTH = 8
"""Levels of nested objects that become ``a/b/c``."""

MAX_STEP = 2**53
"""The largest step that a float64 holds exactly."""

RUN_SUMMARY = "train_runtime"
"""Key of the row that transformers' Trainer writes once, at the end of the run. The
``train_loss`` beside it is an average over the whole run and no point of the training loss."""

SPLIT_KEYS = frozenset({"mode", "split", "phase", "stage", "subset", "set"})
"""Columns whose text says which split a row is about."""

EVENT_KEYS = frozenset({"event", "type", "kind"})
"""The same where that text is a word or two, and no sentence."""

VALUE = "value"
VALUE_KEYS = frozenset({"metric", "metric_name", "name", "key", "tag", "variable"})
"""Columns whose text says what the ``value`` of a row is: a table with a row for each number."""

LOGGER_KEYS = frozenset({"level", "msg", "message", "logger", "event", "name"}) | SPLIT_KEYS
"""Text that structured loggers put beside the numbers of a row."""

BARE = frozenset({Role.LOSS, Role.REWARD, Role.GRAD_NORM})
"""What makes a table without a step column the log of a training; a cost does not."""

ANSWERS = word_set(
    "label labels target targets gold y_true pred preds prediction predictions y_pred"
)
"""Columns of a table with a row for each case."""

BOOKKEEPING = frozenset({Role.STEP, Role.EPOCH, Role.WALL_TIME, Role.OTHER})

ABSENT = frozenset({"", "na", "n/a", "none", "null", "-", "--"})

_MISSING = math.nan

Array = Ints | Floats
Row = Mapping[str, Any]
"""Keys to numbers, texts, null, nested objects and lists."""


def number(value: object) -> float | None:
    """The number that a JSON value or a text is, ``nan``, ``inf``, ``50.3%`` and ``tensor(0.5)``
    included; else None."""
    if isinstance(value, str):
        if "_" in value:  # "1_000" is a number for Python only
            return _printed(value.strip())
    elif not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except ValueError:
        return _printed(str(value).strip())
    except OverflowError:
        return math.inf if isinstance(value, int) and value > 0 else -math.inf


_WRAPPED = re.compile(
    r"(?:tensor|Tensor|array|Array|(?:np|numpy)\.(?:float|int)\d+)\(\[?([^\s,()\[\]]{1,40})\]?(?:,.*)?\)",
    re.DOTALL,
)
"""What ``str`` makes of a number that lies on a device, or in an array."""

_MICROSOFT = re.compile(r"(-?)(?:1\.#(?:(INF)|QNAN|SNAN|IND)0*|nan\((?:ind|snan)\))")
"""What Microsoft's runtimes print of a number that is none."""


def _printed(text: str) -> float | None:
    """The number in a text that is not one by itself."""
    if text.endswith("%"):
        share = text[:-1].rstrip()
        return number(share) if share[-1:].isdigit() else None
    if text.endswith(")") and (wrapped := _WRAPPED.fullmatch(text)):
        return number(wrapped[1])
    if found := _MICROSOFT.fullmatch(text):
        sign = -1.0 if found[1] else 1.0
        return sign * math.inf if found[2] else math.nan
    return None


class _Group(msgspec.Struct):
    """Rows with the same keys: row numbers, and one array of values per key."""

    rows: array[int]
    values: dict[str, array[float]]

    def sort(self) -> None:
        """Put the rows in order; rows that had to be cleaned were added after the others."""
        rows = np.frombuffer(self.rows, dtype=np.int64)
        if not bool((rows[1:] > rows[:-1]).all()):
            order = np.argsort(rows, kind="stable")
            self.rows = array("q", rows[order].tobytes())
            for name, values in self.values.items():
                self.values[name] = array("d", np.frombuffer(values)[order].tobytes())


class Sheet(msgspec.Struct):
    """Rows collected from one artifact. ``full``: a limit was reached, stop reading."""

    faults: FaultLog
    rows: int = 0
    full: bool = False
    header: tuple[str, ...] = ()
    summary: Row | None = None
    text: set[str] = msgspec.field(default_factory=set)
    _lines: array[int] = msgspec.field(default_factory=lambda: array("q"))
    _lined: bool = True
    _names: dict[str, None] = msgspec.field(default_factory=dict)
    _groups: dict[tuple[str, ...], _Group] = msgspec.field(default_factory=dict)
    _values: int = 0
    _held_out: array[int] = msgspec.field(default_factory=lambda: array("q"))
    _prefixed: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The numeric columns: those of the header in its order, others as they appeared."""
        rest = len(self.header)
        place = {name: i for i, name in enumerate(self.header)}
        return sorted(self._names, key=lambda name: place.get(name, rest))

    # --- filling -----------------------------------------------------------------------------

    def add(self, rows: Sequence[Row], lines: Sequence[int] | Ints | None) -> None:
        """Add rows of numbers, texts and nested objects.

        ``lines``: 1-based source line of each row, None where a row has no line of its own.
        """
        first = self._number(len(rows), lines)
        for names, (indexes, members) in _by_keys(rows, first).items():
            if RUN_SUMMARY in names:
                self.summary = members[-1]
                continue
            try:
                columns = [array("d", [row[name] for row in members]) for name in names]
            except (TypeError, OverflowError):
                self._add_mixed(indexes, members)
            else:
                self._store(names, array("q", indexes), columns)

    def add_table(
        self, names: Sequence[str], table: Floats, absent: NDArray[np.bool_] | None, lines: Ints
    ) -> None:
        """Add a dense float64 (rows, columns) table; ``absent`` marks the cells without value."""
        first = self._number(len(table), lines)
        if absent is None:
            self._store_table(names, np.arange(first, self.rows), table)
            return
        patterns, inverse = _patterns(absent)
        if len(patterns) > MAX_PATTERNS:
            self._store_apart(names, table, absent, first)
            return
        for i, pattern in enumerate(patterns):
            rows = np.flatnonzero(inverse == i)
            kept = [name for name, gone in zip(names, pattern, strict=True) if not gone]
            self._store_table(kept, rows + first, table[np.ix_(rows, ~pattern)])

    def _store_apart(
        self, names: Sequence[str], table: Floats, absent: NDArray[np.bool_], first: int
    ) -> None:
        for i, name in enumerate(names):
            rows = np.flatnonzero(~absent[:, i])
            if len(rows):
                self._store_table([name], rows + first, table[rows, i : i + 1])

    def _number(self, count: int, lines: Sequence[int] | Ints | None) -> int:
        first = self.rows
        self.rows += count
        if lines is None:
            self._lined, lines = False, np.zeros(count, dtype=np.int64)
        self._lines.frombytes(np.asarray(lines, dtype=np.int64).tobytes())
        return first

    def _add_mixed(self, indexes: Sequence[int], members: Sequence[Row]) -> None:
        """Rows with something else than numbers in them: keep the numbers."""
        cleaned = [self._numbers(row, index) for index, row in zip(indexes, members, strict=True)]
        for names, (at, rows) in _by_keys(cleaned, 0).items():
            kept = array("q", [indexes[i] for i in at])
            columns = [array("d", [row[name] for row in rows]) for name in names]
            self._store(names, kept, columns)

    def _numbers(self, row: Row, index: int) -> dict[str, float]:
        found: dict[str, float] = {}
        texts: dict[str, str] = {}
        _flatten(row, "", found, texts, MAX_DEPTH)
        if len(self.text) < MAX_COLUMNS:
            self.text.update(texts)
        if VALUE in found:
            found = _named_value(found, texts)
        told = next((v for k, v in texts.items() if _tells_split(k.lower(), v)), None)
        if told is None or split_of(told) is Split.TRAIN:
            return found
        self._held_out.append(index)
        return {self._prefix(told, name): value for name, value in found.items()}

    def _prefix(self, told: str, name: str) -> str:
        """``val/loss`` for the ``loss`` of a row that says that it is about ``val``."""
        known = self._prefixed.get((told, name))
        if known is None:
            plain = axis_rank(name) is not None or split_of(name) is not None
            known = name if plain else f"{told}/{name}"
            if len(self._prefixed) < MAX_COLUMNS:
                self._prefixed[told, name] = known
        return known

    def _store_table(self, names: Sequence[str], rows: Ints, table: Floats) -> None:
        columns = [array("d", column.tobytes()) for column in table.T]
        self._store(tuple(names), array("q", rows.astype(np.int64).tobytes()), columns)

    def _store(
        self, names: tuple[str, ...], rows: array[int], columns: Sequence[array[float]]
    ) -> None:
        pairs = [
            (name, column)
            for name, column in zip(names, columns, strict=True)
            if name in self._names or self._admit(name)
        ]
        if not pairs or self._overflows(len(rows) * len(pairs)):
            return
        key = tuple(name for name, _ in pairs)
        if key in self._groups or len(self._groups) < MAX_GROUPS:
            self._extend(key, rows, pairs)
        else:
            for name, column in pairs:
                self._extend((name,), rows[:], [(name, column)])

    def _extend(
        self, key: tuple[str, ...], rows: array[int], pairs: Collection[tuple[str, array[float]]]
    ) -> None:
        group = self._groups.get(key)
        if group is None:
            self._groups[key] = _Group(rows, dict(pairs))
            return
        group.rows.extend(rows)
        for name, column in pairs:
            group.values[name].extend(column)

    def _admit(self, name: str) -> bool:
        if len(self._names) < MAX_COLUMNS:
            self._names[name] = None
            return True
        detail = f"more than {MAX_COLUMNS} columns: the others are left out"
        if len(self._names) == MAX_COLUMNS:
            self.faults.once(FaultCode.TOO_LARGE, detail)
        return False

    def _overflows(self, count: int) -> bool:
        self._values += count
        if self._values > MAX_VALUES and not self.full:
            self.full = True
            detail = f"more than {MAX_VALUES} numbers: the rest is not read"
            line = self._lines[-1] if self._lines else None
            self.faults.add(FaultCode.TOO_LARGE, detail, line, fatal=True)
        return self.full

    def copy(self) -> Sheet:
        """A sheet of the same rows: this one can be filled further while columns of the copy, which
        share its memory, are in use."""
        groups = {
            names: _Group(group.rows[:], {name: group.values[name][:] for name in group.values})
            for names, group in self._groups.items()
        }
        return replace(self, _groups=groups, _lines=self._lines[:], _held_out=self._held_out[:])

    # --- judging -----------------------------------------------------------------------------

    def no_log(self) -> NotJudgeable | None:
        """Why these rows are not the log of a training, None where they are one."""
        roles = {classify(name).role for name in self._names}
        if roles <= BOOKKEEPING:
            detail = "no column but counters and clocks" if roles else "no numeric column"
            return NotJudgeable(Content.NOT_A_LOG, detail)
        axes = {rank[1] for name in self._names if (rank := axis_rank(name)) is not None}
        if axes - {Axis.INDEX}:
            return None
        if not any(map(_tells_of_training, self._names)):
            return NotJudgeable(Content.NOT_A_LOG, "no step, no epoch and no training column")
        strange = sorted(name for name in self.text if _is_prose(name))
        answers = sorted(name for name in self._names if name.lower() in ANSWERS)
        if answers:
            detail = f"no step and no epoch, and {answers[0]!r}: a table of records"
            return NotJudgeable(Content.NOT_A_LOG, detail)
        if strange:
            detail = f"no step and no epoch, and text in {strange[0][:80]!r}: a table of records"
            return NotJudgeable(Content.NOT_A_LOG, detail)
        return None

    def items(self, options: Options, facts: Facts) -> Iterator[Item]:
        """What a reader yields of a sheet that is filled: columns, facts and faults; or why
        there is nothing to judge."""
        if not self.rows and any(fault.fatal for fault in self.faults):
            yield from self.faults
            return
        why = self.no_log() if self.rows else NotJudgeable(Content.HEADER_ONLY, "no rows")
        if why is None:
            yield from self.columns(options)
            yield facts
        yield from self.faults
        if why is not None:
            yield why

    # --- columns -----------------------------------------------------------------------------

    def columns(self, options: Options) -> Iterator[Column]:
        """Every numeric column, placed by the best step column that the rows have."""
        for group in self._groups.values():
            group.sort()
        steps, axis = self._steps(options)
        lines = np.frombuffer(self._lines, dtype=np.int64) if self._lined else None
        places = _Places(steps, lines, self._walls())
        for name in self.names:
            groups = [group for group in self._groups.values() if name in group.values]
            if len(groups) > 1 and sum(len(group.rows) for group in groups) == self.rows:
                here, values = places.whole, self.scattered(name)
            else:
                rows, values = _merged(groups, name)
                here = places.at(rows, tuple(map(id, groups)))
            yield Column(name, here.steps, values, axis, here.lines, here.walls)

    def scattered(self, name: str) -> Floats:
        """float64 (rows,): the column, NaN in rows without it."""
        full = np.full(self.rows, _MISSING)
        for group in self._groups.values():
            if name in group.values:
                full[np.frombuffer(group.rows, np.int64)] = np.frombuffer(group.values[name])
        return full

    def _steps(self, options: Options) -> tuple[Ints, Axis]:
        for name, axis in self._axes(options):
            counts = _counts(self.scattered(name))
            if counts is None or self._stands_still(name, axis, counts, options):
                continue
            return (self._unrolled(counts, options) if axis is Axis.STEP else counts), axis
        return np.arange(self.rows, dtype=np.int64), Axis.INDEX

    def _stands_still(self, name: str, axis: Axis, counts: Ints, options: Options) -> bool:
        """Whether the column does not place the rows: many share an epoch, or all rows the step
        (the last batch of each epoch). What the caller named does."""
        if axis is Axis.EPOCH:
            return self._many_per_epoch(counts)
        told = name in (options.tag_for(Role.STEP), options.tag_for(Role.EPOCH))
        still = len(counts) > 2 and counts[0] == counts[-1] and counts.min() == counts.max()
        return not told and bool(still)

    def _axes(self, options: Options) -> Iterator[tuple[str, Axis]]:
        """Candidates, best first: what the caller named, then by the table of names."""
        for role, axis in ((Role.STEP, Axis.STEP), (Role.EPOCH, Axis.EPOCH)):
            told = options.tag_for(role)
            if told in self._names:
                yield str(told), axis
        ranked = [(rank, name) for name in self._names if (rank := axis_rank(name)) is not None]
        ranked.sort(key=lambda one: (not self._covers_half(one[1]), one[0][0]))
        yield from ((name, axis) for (_, axis), name in ranked)

    def _covers_half(self, name: str) -> bool:
        held = sum(len(g.rows) for g in self._groups.values() if name in g.values)
        return 2 * held >= self.rows

    def _many_per_epoch(self, epochs: Ints) -> bool:
        """Whether most rows share their epoch with the row before: it does not place them."""
        most = max(self._groups.values(), key=lambda group: len(group.rows))
        alike = np.diff(epochs[np.frombuffer(most.rows, dtype=np.int64)]) == 0
        return bool(2 * np.count_nonzero(alike) > len(most.rows) > 2)

    def _unrolled(self, steps: Ints, options: Options) -> Ints:
        """One count for the whole run where the logged one begins anew in every epoch.

        OpenMMLab writes the iteration within the epoch; rows about another split stand at the
        end of their epoch.
        """
        fallen = steps[1:] < steps[:-1]
        if not fallen.any():
            return steps
        told = options.tag_for(Role.EPOCH)
        name = told if told in self._names else self._epoch_name()
        if name is None:
            return steps
        falls = np.flatnonzero(fallen) + 1
        epochs = _integers(np.floor(_filled(self.scattered(name))))
        if epochs is None or 2 * np.count_nonzero(epochs[falls] > epochs[falls - 1]) < len(falls):
            return steps
        held_out = np.zeros(self.rows, dtype=np.bool_)
        held_out[np.frombuffer(self._held_out, dtype=np.int64)] = True
        if held_out.all():
            return steps
        train = steps[~held_out]
        length = int(train.max()) + (train.min() == 0)
        epochs = epochs - epochs.min()
        if length * (int(epochs.max()) + 1) > MAX_STEP:
            return steps
        end = (epochs + 1) * length
        return np.asarray(np.where(held_out, end, epochs * length + steps), dtype=np.int64)

    def _epoch_name(self) -> str | None:
        named = (name for name in self._names if classify(name).role is Role.EPOCH)
        return next(named, None)

    def _walls(self) -> Floats | None:
        """Seconds since 1970 of each row, where a column counts them."""
        for name in self._names:
            if classify(name).role is Role.WALL_TIME:
                values = self.scattered(name)
                for unit in (1.0, 1e-3):
                    seconds = values * unit
                    if len(seconds) and bool(((seconds > 1e9) & (seconds < 1e11)).all()):
                        return seconds
        return None


class _Here(msgspec.Struct, frozen=True, eq=False):
    steps: Ints
    lines: Ints | None
    walls: Floats | None


class _Places:
    """Steps, lines and clocks of the rows; columns of the same groups share the arrays."""

    def __init__(self, steps: Ints, lines: Ints | None, walls: Floats | None) -> None:
        self.whole = _Here(steps, lines, walls)
        self._known: dict[tuple[int, ...], _Here] = {}

    def at(self, rows: Ints, groups: tuple[int, ...]) -> _Here:
        whole = self.whole
        if len(rows) == len(whole.steps):
            return whole
        known = self._known.get(groups)
        if known is None:
            lines = None if whole.lines is None else whole.lines[rows]
            walls = None if whole.walls is None else whole.walls[rows]
            known = self._known[groups] = _Here(whole.steps[rows], lines, walls)
        return known


def _by_keys(rows: Sequence[Row], first: int) -> dict[tuple[str, ...], tuple[list[int], list[Row]]]:
    """Rows and their numbers by the set of their keys. The hot loop of all JSON formats."""
    groups: dict[tuple[str, ...], tuple[list[int], list[Row]]] = {}
    for index, row in enumerate(rows, first):
        key = tuple(row)
        try:
            indexes, members = groups[key]
        except KeyError:
            indexes, members = groups[key] = ([], [])
        indexes.append(index)
        members.append(row)
    return groups


def _patterns(absent: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Ints]:
    """The different rows of the mask, and for each row the number of its pattern."""
    packed = np.packbits(absent, axis=1)
    padded = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    words = np.ascontiguousarray(padded).view(np.uint64)
    keys = words[:, 0] if words.shape[1] == 1 else words.view([("", np.uint64)] * words.shape[1])
    _, first, inverse = np.unique(keys.ravel(), return_index=True, return_inverse=True)
    return absent[first], inverse


def _flatten(
    row: Row, prefix: str, found: dict[str, float], texts: dict[str, str], depth: int
) -> None:
    """The numbers of a row, nested objects as ``a/b``; lists are no scalars and are left out."""
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if depth > 0:
                _flatten(value, f"{name}/", found, texts, depth - 1)
            continue
        got = number(value)
        if got is not None:
            found[name] = got
        elif isinstance(value, str) and value.strip().lower() not in ABSENT:
            texts[name] = value


def _tells_split(key: str, text: str) -> bool:
    if key in EVENT_KEYS:
        return len(words_of(text[:100])) <= 2 and split_of(text) is not None
    return key in SPLIT_KEYS and split_of(text) is not None


def _named_value(found: dict[str, float], texts: Mapping[str, str]) -> dict[str, float]:
    """The numbers of a row with the name that it gives to its value, where that is known."""
    for key, name in texts.items():
        if key.lower() in VALUE_KEYS and classify(name).role not in (Role.UNKNOWN, Role.OTHER):
            return {name if one == VALUE else one: number for one, number in found.items()}
    return found


def _tells_of_training(name: str) -> bool:
    seen = told(name)
    return seen.role in BARE and seen.known != COST


def _is_prose(name: str) -> bool:
    return name.lower() not in LOGGER_KEYS and classify(name).role is not Role.WALL_TIME


def _merged(groups: Sequence[_Group], name: str) -> tuple[Ints, Floats]:
    """Row numbers and values of one column, in the order of the rows."""
    parts = [np.frombuffer(group.rows, dtype=np.int64) for group in groups]
    values = [np.frombuffer(group.values[name]) for group in groups]
    if len(groups) == 1:
        return parts[0], values[0]
    rows = np.concatenate(parts)
    order = np.argsort(rows, kind="stable")
    return rows[order], np.concatenate(values)[order]


def _counts(values: Floats) -> Ints | None:
    """The values as int64, missing ones filled in; None where they are no counts."""
    counts = _integers(values)
    return _integers(_filled(values)) if counts is None else counts


def _filled(values: Floats) -> Floats:
    """Rows without a value take the one before them, leading rows the first there is."""
    finite = np.isfinite(values)
    if finite.all() or not finite.any():
        return values
    known = np.flatnonzero(finite)
    last = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    return values[known[np.maximum(last, 0)]]


def _integers(values: Floats) -> Ints | None:
    """The values as int64; None where they are no counts."""
    if not len(values) or not (np.abs(values) < MAX_STEP).all():
        return None  # so is NaN, which no comparison lets pass
    counts = values.astype(np.int64)
    return counts if bool((counts == values).all()) else None
