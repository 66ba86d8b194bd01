"""Lines of console text -> rows of a sheet: what is carried from one line to the next."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from trainproof.model.data import Facts, FaultCode, Split
from trainproof.readers.sheet import Row, Sheet
from trainproof.readers.text import FaultLog

from .dialects import INFERRED
from .numbers import HOLE, may_hold_numbers, pattern_of, pieces_of, value_of, without_bars
from .phrases import named
from .plan import NUMBERED, Counter, Kind, Plan, plan_of
from .tables import Tables

MAX_LINE = 16384
"""Characters of a line that reports something; longer ones are dumps."""

ROOM = 8 << 20
"""Bytes of shapes that are remembered; a console prints a few dozen of them over and over."""

PLAN = 1000
"""Bytes that a remembered shape takes besides its text."""

OFTEN = 16
"""Lines after which a shape gets a pattern of its own."""

RECENT = 4
"""Patterns that are tried on every line."""

BATCH = 4096
"""Rows handed to the sheet at a time."""

MAX_EPOCHS = 100_000
"""Epochs whose beginnings are remembered."""

LOOSE = 2
"""Places at which something must have been measured to be a series, if its lines name no step."""

TRACEBACK = "Traceback (most recent call last)"
EXCEPTION = re.compile(r"(?:^|\s)((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(?::.*)?)$")
TRAINING = re.compile(
    r"(?<![A-Za-z])(torch|cuda|tensorflow|keras|jax|paddle|deepspeed|megatron|optimizer"
    r"|learning[ _]rate|epochs?|tokenizer|gradient|dataloader|checkpoint|gpu|nccl"
    r"|batch[ _]size)(?![A-Za-z])",
    re.IGNORECASE,
)
"""Words of which some stand in whatever a training prints before its first step."""

BAR_TOTAL = re.compile(r"^\s*\d+%\|\|\s*\d+/(\d{1,15}) \[")
"""A progress bar without a name, which is how transformers shows the steps of the training."""

_HEADING = re.compile(
    r"\s{0,8}(?:test|val|valid|validation|eval|evaluation)(?: (?:error|results?|set|metrics))?:"
    r"\s{0,2}",
    re.IGNORECASE,
)
"""``Test Error:``, alone in a line: the next one says what that is."""

NEAR = 2
"""Lines from it to that one."""

PROLOGUE = 20_000
"""Lines before the first record in which they are looked for."""


class _Clock(msgspec.Struct):
    """Where the training is. ``inner``: the step counts within the epoch, as has been seen from
    its starting over while the epoch went on. ``begins``: the batches before each epoch, where
    nothing says how many one has. ``per_epoch`` and ``total`` are declared."""

    first: int | None = None
    epoch: int = 0
    step: int = -1
    begins: dict[int, int] = msgspec.field(default_factory=dict)
    inner: bool = False
    per_epoch: int | None = None
    total: int | None = None
    epochs: float | None = None
    last_step: int | None = None
    last_epoch: float | None = None

    def place(self, epoch: float | None, step: int, total: int | None, inner: bool) -> int:
        """The step counted from the start of the run."""
        if inner and total is None and epoch is not None and epoch == int(epoch):
            return self._at(self._uncounted(int(epoch), step))
        if epoch is None or total is None or epoch != int(epoch):
            if total is not None and not inner:
                self.total = total
            return self._at(step)
        now = int(epoch)
        if self.first is None:
            self.first = now
        if now > self.epoch and step <= self.step:
            self.inner = True
        self.epoch, self.step = now, step
        if not (self.inner or inner):
            self.total = total
            return self._at(step)
        self.per_epoch = total
        return self._at((now - self.first) * total + step)

    def _uncounted(self, epoch: int, step: int) -> int:
        """A batch of an epoch of unknown length: as long as it was when the next one began. An
        epoch that comes again begins where it began."""
        if epoch not in self.begins:
            before = self.begins.get(self.epoch, 0) + max(self.step, 0)
            self.begins = self.begins if len(self.begins) < MAX_EPOCHS else {}
            self.begins[epoch] = before
        self.epoch, self.step = epoch, step
        return self.begins[epoch] + step

    def end_of(self, epoch: float | None) -> int | None:
        """The last step of an epoch, where steps are counted within epochs."""
        if epoch is None or self.per_epoch is None or self.first is None or epoch != int(epoch):
            return None
        return self._at((int(epoch) - self.first + 1) * self.per_epoch)

    @property
    def max_steps(self) -> int | None:
        """What is declared of the run and not only of an epoch."""
        return None if self.total == self.per_epoch else self.total

    def _at(self, step: int) -> int:
        self.last_step = max(step, self.last_step or 0)
        return step


class _Loose(msgspec.Struct):
    """Occurrences of a tag in lines without a step. ``again``: without progress between them."""

    turn: int = -1
    places: int = 0
    again: int = 0

    def see(self, turn: int) -> None:
        self.places += self.turn != turn
        self.again += self.turn == turn
        self.turn = turn

    @property
    def may_be_series(self) -> bool:
        """A table, of classes for instance, repeats its names without progress between them."""
        return 2 * self.again <= self.places


class _Crash(msgspec.Struct):
    """The last traceback. ``line`` is where it stands, ``error`` what was raised."""

    line: int = 0
    error: str = ""


class Log(msgspec.Struct):
    """What has been read so far of one file."""

    faults: FaultLog
    sheet: Sheet
    wanted: Collection[str] = ()
    records: int = 0
    crash: _Crash = msgspec.field(default_factory=_Crash)
    words: set[str] = msgspec.field(default_factory=set)
    _plans: dict[str, Plan | None] = msgspec.field(default_factory=dict)
    _room: int = ROOM
    _recent: list[tuple[Plan, re.Pattern[str]]] = msgspec.field(default_factory=list)
    _clock: _Clock = msgspec.field(default_factory=_Clock)
    _epoch: float | None = None
    _step: int | None = None
    _stepped: set[str] = msgspec.field(default_factory=set)
    _bar_total: int | None = None
    _repeated: dict[str, float] = msgspec.field(default_factory=dict)
    _turn: int = 0
    _places: set[tuple[float | None, int | None]] = msgspec.field(default_factory=set)
    _placed: bool = False
    _loose: dict[str, _Loose] = msgspec.field(default_factory=dict)
    _tight: set[str] = msgspec.field(default_factory=set)
    _rows: list[Row] = msgspec.field(default_factory=list)
    _lines: list[int] = msgspec.field(default_factory=list)
    _state: tuple[object, ...] = ()
    _frameworks: dict[str, int] = msgspec.field(default_factory=dict)
    _fitted: tuple[int, int] = (-1, -1)
    _tables: Tables = msgspec.field(default_factory=Tables)
    _idle: set[str] = msgspec.field(default_factory=set)
    _begun: int = 0
    _heading: tuple[str, int] | None = None
    _numbered: tuple[float | None, int] | None = None

    def passes(self, look: str, text: str, line: int) -> bool:
        """Whether a line is known to report nothing, from its ``look``: the line with every digit
        a zero. Two lines that look alike have one shape."""
        if look not in self._idle or self._tables.open:
            return False
        self._note(text, line)
        return True

    def take(self, told: str, line: int, *, ended: bool = True, look: str = "") -> None:
        """Read one line, or one state of a progress bar. ``look``: as of ``passes``."""
        if len(told) > MAX_LINE:
            return
        if ":" in told[-3:] and _HEADING.fullmatch(told):
            self._heading = told.strip(), line
            return
        text = without_bars(self._tables.line(named(told)))
        if self._heading is not None and text.strip():
            text = self._headed(text, line)
        if self._tables.begun != self._begun:
            self._begun = self._tables.begun
            self._idle.clear()  # what stands below names may look like what meant nothing before
        if not text:
            return
        for plan, pattern in self._recent:
            if found := pattern.match(text):
                self._use(plan, found.groups(), line, ended)
                return
        pieces = pieces_of(text) if may_hold_numbers(text) else [text]
        new = self._plan(pieces) if len(pieces) > 1 else None
        if new is None:
            self._note(text, line)
            self._learn(look, same=text == told)
            return
        self._use(new, pieces[1::2], line, ended)
        if new.uses == OFTEN:
            self._recent = [(new, pattern_of(new.texts)), *self._recent[: RECENT - 1]]

    def _headed(self, text: str, line: int) -> str:
        """A line with what stands right above it."""
        assert self._heading is not None
        heading, above = self._heading
        self._heading = None
        return f"{heading} {text}" if line - above <= NEAR else text

    def _learn(self, look: str, *, same: bool) -> None:
        """Remember that lines of this look report nothing; those that were read as another text,
        or in which a digit makes a difference (``mAP@.5:.95``), are not remembered."""
        if look and same and self._tables.passing and "@" not in look and self._room > 0:
            self._room -= len(look) + PLAN
            self._idle.add(look)

    def _use(self, plan: Plan, numbers: Sequence[str], line: int, ended: bool) -> None:
        if not ended and _is_cut(plan, numbers):
            self.faults.add(FaultCode.TRUNCATED, "the file ends within a line", line)
            return
        plan.uses += 1
        plan.last = numbers[-1]
        if plan.kind is Kind.EPOCH:
            self._begin(plan, numbers)
        elif plan.kind is Kind.RECORD:
            self._record(plan, numbers, line)
        elif plan.kind is Kind.PLACE:
            self._arrive(plan, numbers)
        else:
            self._measured(plan, numbers, line)

    def _plan(self, pieces: list[str]) -> Plan | None:
        shape = HOLE.join(pieces[::2])
        try:
            return self._plans[shape]
        except KeyError:
            plan = plan_of(pieces, self.wanted)
            if self._room > 0:
                self._room -= len(shape) + PLAN
                self._plans[shape] = plan
            return plan

    # --- places --------------------------------------------------------------------------------

    def _begin(self, plan: Plan, numbers: Sequence[str]) -> None:
        """An epoch begins: what follows belongs to it."""
        if plan.epoch is None:
            return
        epoch = value_of(numbers[plan.epoch.at])
        if epoch != self._epoch:
            self._turn += 1
            self._step = None
        self._epoch = epoch
        if plan.epoch.total is not None:
            self._clock.epochs = value_of(numbers[plan.epoch.total])

    def _arrive(self, plan: Plan, numbers: Sequence[str]) -> None:
        """A step: what was measured there follows. Not so in a log whose lines say both at once,
        nor where the count is of something held out."""
        if self.records or plan.split not in (None, Split.TRAIN):
            return
        epoch, step, counter = self._counters(plan, numbers)
        if step is None or counter is None or counter.total is None:
            return
        total = _count(numbers[counter.total])
        self._placed = True
        self._turn += 1
        self._epoch, self._step = epoch, self._clock.place(epoch, step, total, counter.inner)

    def _record(self, plan: Plan, numbers: Sequence[str], line: int) -> None:
        epoch, step, counter = self._counters(plan, numbers)
        if counter is not None and counter.rank == NUMBERED and not self._rises(epoch, step):
            return
        total = None
        if counter is not None and counter.total is not None:
            total = _count(numbers[counter.total])
        if _is_unfinished(plan, step, total) or (plan.keras and self._is_evaluation(plan, line)):
            return
        if plan.keras and epoch is not None:
            step = None  # the number of batches of an epoch
        elif step is not None and counter is not None:
            if plan.split is not None and self._counts_batches(counter, total):
                step = self._clock.end_of(epoch)
            else:
                # a bar may be about the whole run although epochs are printed in between
                inner = counter.inner and (plan.epoch is not None or not plan.bar)
                step = self._clock.place(epoch, step, total, inner)
        self._keep(plan, numbers, line, epoch, step)

    def _rises(self, epoch: float | None, step: int | None) -> bool:
        """Whether a number without a name can count steps: those of processes come again."""
        before, self._numbered = self._numbered, (epoch, step or 0)
        if before is None or before[0] != epoch or before[1] < self._numbered[1]:
            return True
        self._numbered = before
        return False

    def _is_evaluation(self, plan: Plan, line: int) -> bool:
        """Whether a bar of Keras that ends is a second one in its epoch: ``evaluate`` draws one
        like ``fit``, which draws its own once more, in the same line, with what was held out."""
        if self._epoch is None:
            return False
        turn, drawn = self._fitted
        if turn == self._turn and drawn != line and not plan.held_out:
            return True
        self._fitted = (self._turn + 1, line)  # the turn after the record
        return False

    def _keep(
        self, plan: Plan, numbers: Sequence[str], line: int, epoch: float | None, step: int | None
    ) -> None:
        if step is not None:
            self._step = step
            self._stepped.update(plan.tags)
        self._epoch = epoch
        if epoch is not None:
            self._clock.last_epoch = epoch
        row = self._row(plan, numbers)
        if step is None and not self._stepped.isdisjoint(row):
            # the average of an epoch whose steps were logged under the same name
            row = {f"epoch/{tag}" if tag in self._stepped else tag: row[tag] for tag in row}
        self._tight.update(plan.tags)
        self._turn += 1
        if plan.outcome:
            self.records += 1
            if len(self._places) < 8:
                self._places.add((epoch, step))
        self._add(row, line, (epoch, step) if plan.bar else ())
        name = plan.framework or INFERRED
        self._frameworks[name] = self._frameworks.get(name, 0) + 1
        self.crash = _Crash()

    def _counters(
        self, plan: Plan, numbers: Sequence[str]
    ) -> tuple[float | None, int | None, Counter | None]:
        """The epoch, the step and what counts it."""
        epoch = self._epoch
        if plan.epoch is not None:
            epoch = value_of(numbers[plan.epoch.at])
            if plan.epoch.total is not None:
                self._clock.epochs = value_of(numbers[plan.epoch.total])
        if epoch is not None and not 0 <= epoch < 1e9:
            epoch = None
        for counter in plan.steps:
            step = _count(numbers[counter.at])
            if step is not None:
                return epoch, step, counter
        return epoch, None, None

    def _counts_batches(self, counter: Counter, total: int | None) -> bool:
        """Whether the counter of a line about held-out data is not the step of the training."""
        return counter.inner or (total is not None and total != self._clock.total)

    # --- values --------------------------------------------------------------------------------

    def _row(self, plan: Plan, numbers: Sequence[str]) -> dict[str, float]:
        """The values of a line, and the place where the training is."""
        row: dict[str, float] = {}
        if self._step is not None:
            row["step"] = self._step
        if self._epoch is not None:
            row["epoch"] = self._epoch
        for tag, at in plan.columns:
            row[tag] = value_of(numbers[at])
        for tag, whole in plan.ratios:
            row[tag] = row[tag] / (value_of(numbers[whole]) or 1.0)
        for tag in plan.stale:
            if self._repeated.get(tag) == row[tag]:
                del row[tag]
            else:
                self._repeated[tag] = row[tag]
        return row

    def _measured(self, plan: Plan, numbers: Sequence[str], line: int) -> None:
        """A line that names no place: it belongs to the last one that was named."""
        if not self._turn or plan.tags & self._tight or not (plan.outcome or self._placed):
            return
        for tag in plan.tags:
            self._loose.setdefault(tag, _Loose()).see(self._turn)
        if not all(self._loose[tag].may_be_series for tag in plan.tags):
            return
        self._add(self._row(plan, numbers), line, ())

    def _add(self, row: Row, line: int, state: tuple[object, ...]) -> None:
        """Add a row; a later state of the same bar at the same step replaces the earlier one."""
        if state and state == self._state and self._rows:
            self._rows[-1], self._lines[-1] = {**self._rows[-1], **row}, line
            return
        if len(self._rows) >= BATCH:
            self.flush()
        self._state = state
        self._rows.append(row)
        self._lines.append(line)

    def flush(self) -> None:
        self.sheet.add(self._rows, self._lines)
        self._rows, self._lines = [], []

    # --- what else is printed ------------------------------------------------------------------

    def _note(self, text: str, line: int) -> None:
        if TRACEBACK in text:
            if not self.crash.line:
                self.crash.line = line
        elif self.crash.line and not self.crash.error and (found := EXCEPTION.search(text)):
            self.crash.error = found[1][:200]
        if not self.records and line < PROLOGUE:
            if len(self.words) < 8:
                self.words.update(word.lower() for word in TRAINING.findall(text))
            if found := BAR_TOTAL.match(text):
                self._bar_total = int(found[1])

    # --- at the end ----------------------------------------------------------------------------

    @property
    def is_log(self) -> bool:
        """Whether something was measured at two places at least."""
        if len(self._places) > 1 or (self.records == 1 and INFERRED not in self._frameworks):
            return True
        return any(one.may_be_series and one.places > LOOSE for one in self._loose.values())

    @property
    def dropped(self) -> frozenset[str]:
        """Tags of lines without a step that turned out to be tables or remarks."""
        return frozenset(
            tag
            for tag, seen in self._loose.items()
            if tag not in self._tight and not (seen.places >= LOOSE and seen.may_be_series)
        )

    def facts(self) -> Facts:
        known = {name: n for name, n in self._frameworks.items() if name != INFERRED}
        framework = max(known, key=lambda name: known[name]) if known else INFERRED
        clock = self._clock
        return Facts(
            framework=framework,
            max_steps=self._bar_total if framework == "transformers" else clock.max_steps,
            max_epochs=clock.epochs,
            steps_per_epoch=clock.per_epoch,
            last_step=clock.last_step,
            last_epoch=clock.last_epoch if clock.last_epoch is not None else self._epoch,
            finished=False if self.crash.error else None,
        )


def _is_cut(plan: Plan, numbers: Sequence[str]) -> bool:
    """Whether the last line of a file, without its end, may lack something: no line had its
    shape before, or its last number has fewer digits behind the point than it had there."""
    if not plan.uses:
        return True
    digits = len(numbers[-1].partition(".")[2])
    return not plan.texts[-1].strip() and digits < len(plan.last.partition(".")[2])


def _is_unfinished(plan: Plan, step: int | None, total: int | None) -> bool:
    """Whether a pass over the data is not at its end yet: running values are no result."""
    if step is None or total is None or not (plan.keras or plan.split is not None):
        return False
    return step + (not plan.keras) < total


def _count(number: str) -> int | None:
    """The whole number that counts steps; None for ``0.5`` and the like. It may end a sentence."""
    number = number.removesuffix(".")
    if number.isdecimal():
        return int(number) if len(number) < 16 else None
    value = value_of(number)
    return int(value) if "." not in number and 0 <= value < 2**53 and value % 1 == 0 else None
