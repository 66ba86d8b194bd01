"""What readers produce and what rules are bound from: columns, series, facts, faults, views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from .artifact import Content
from .checkpoint import Checkpoint, Drift, Kept

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Role(StrEnum):
    """What a logged scalar measures."""

    LOSS = "loss"
    METRIC = "metric"
    REWARD = "reward"
    LR = "lr"
    GRAD_NORM = "grad_norm"
    STEP = "step"
    EPOCH = "epoch"
    WALL_TIME = "wall_time"
    STEP_TIME = "step_time"
    LOADER_TIME = "loader_time"
    THROUGHPUT = "throughput"
    LOSS_SCALE = "loss_scale"
    GPU_UTIL = "gpu_util"
    GPU_MEMORY = "gpu_memory"
    KL = "kl"
    ENTROPY = "entropy"
    OTHER = "other"
    UNKNOWN = "unknown"


class Split(StrEnum):
    TRAIN = "train"
    EVAL = "eval"
    TEST = "test"


class Scope(StrEnum):
    """Whether one point stands for an optimizer step (or a window of them) or for an epoch."""

    STEP = "step"
    EPOCH = "epoch"


class Direction(StrEnum):
    """Which way is better."""

    LOWER = "lower"
    HIGHER = "higher"
    NONE = "none"


class Axis(StrEnum):
    """What the step numbers of a column count."""

    STEP = "step"
    EPOCH = "epoch"
    SAMPLES = "samples"
    INDEX = "index"


class Regime(StrEnum):
    """The kind of training, as far as the logged columns show it."""

    SUPERVISED = "supervised"
    PREFERENCE = "preference"
    REINFORCEMENT = "reinforcement"
    ADVERSARIAL = "adversarial"


class Identity(msgspec.Struct, frozen=True):
    """What the one table of names says about a logged tag.

    ``component`` is None for the total (``loss``) and a name for a part of it (``loss_cls``).
    ``base`` is the tag without split, scope and separators: two writers of one run that log
    ``train/loss`` and ``train_loss`` agree on it. ``dataset`` names the held-out set where the run
    has several (``wiki`` of ``eval_wiki_loss``).
    """

    role: Role
    base: str
    split: Split = Split.TRAIN
    scope: Scope = Scope.STEP
    component: str | None = None
    direction: Direction = Direction.NONE
    dataset: str | None = None


class Declared(msgspec.Struct, frozen=True):
    """What the format says about a column, over what its tag says. None where it is silent.

    CatBoost writes which way each metric improves; in its files the name of the file is the
    split, and the objective is called ``RMSE`` and not "loss".
    """

    role: Role | None = None
    split: Split | None = None
    direction: Direction | None = None

    def over(self, identity: Identity) -> Identity:
        """``identity`` with what is declared; a declared loss is the total."""
        return replace(
            identity,
            role=self.role or identity.role,
            component=None if self.role else identity.component,
            split=self.split or identity.split,
            direction=self.direction or identity.direction,
        )


class Column(msgspec.Struct, frozen=True, eq=False):
    """One logged scalar as a reader found it, in log order.

    ``steps``: int64 (n,), numbers of the ``axis``. ``values``: float64 (n,), NaN and infinities
    kept. ``lines``: int64 (n,), 1-based source lines, for text formats. ``walls``: float64 (n,),
    seconds since the epoch, where the format records a clock. ``declared``: what the format
    itself says about the column, where it does.
    """

    tag: str
    steps: Ints
    values: Floats
    axis: Axis = Axis.STEP
    lines: Ints | None = None
    walls: Floats | None = None
    declared: Declared | None = None

    def __post_init__(self) -> None:
        shape = self.values.shape
        for array in (self.steps, self.values, self.lines, self.walls):
            if array is None:
                continue
            if array.shape != shape or len(shape) != 1:
                raise ValueError(f"{self.tag}: arrays differ in shape")
            array.setflags(write=False)  # three times as fast as through ``flags``

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: Ints | NDArray[np.bool_] | slice) -> Column:
        """The same column at the given positions."""
        return Column(
            self.tag,
            self.steps[index],
            self.values[index],
            self.axis,
            None if self.lines is None else self.lines[index],
            None if self.walls is None else self.walls[index],
            self.declared,
        )


class Series(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """A column with its place and its meaning. The only thing series rules judge.

    ``derived``: what was computed from it once, for all who ask again, by what computes it.
    """

    artifact: str
    identity: Identity
    column: Column
    also_in: tuple[str, ...] = ()
    derived: dict[Callable[[Series], Any], Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "derived", {})  # never that of what it replaces

    @property
    def tag(self) -> str:
        return self.column.tag

    @property
    def steps(self) -> Ints:
        return self.column.steps

    @property
    def values(self) -> Floats:
        return self.column.values

    @property
    def role(self) -> Role:
        return self.identity.role

    @property
    def split(self) -> Split:
        return self.identity.split

    def __len__(self) -> int:
        return len(self.column.values)

    def line(self, index: int) -> int | None:
        """1-based source line of the point at ``index``, where the format has lines."""
        lines = self.column.lines
        return None if lines is None else int(lines[index])


class FaultCode(StrEnum):
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    TOO_LARGE = "too-large"
    IO = "io"
    READER_FAILED = "reader-failed"
    CRASHED = "reader-crashed"
    TIMEOUT = "reader-timeout"
    MEMORY = "reader-memory"
    APART = "apart"


class Fault(msgspec.Struct, frozen=True):
    """A problem met while reading; a value, never an exception across a boundary.

    ``fatal`` means that nothing (more) of the artifact could be read and that this was not
    the file's natural end. A cut last record is a fault that is not fatal, and so is a file that
    was set apart from the run beside which it lies.
    """

    code: FaultCode
    artifact: str
    detail: str
    fatal: bool
    line: int | None = None


class Facts(msgspec.Struct, frozen=True):
    """What a run declares about itself. None where it does not say."""

    framework: str | None = None
    max_steps: int | None = None
    max_epochs: float | None = None
    steps_per_epoch: int | None = None
    last_step: int | None = None
    last_epoch: float | None = None
    logging_steps: int | None = None
    warmup_steps: int | None = None
    batch_size: int | None = None
    grad_accumulation: int | None = None
    world_size: int | None = None
    seed: int | None = None
    precision: str | None = None
    scheduler: str | None = None
    learning_rate: float | None = None
    max_grad_norm: float | None = None
    best_metric_name: str | None = None
    best_metric: float | None = None
    best_checkpoint: str | None = None
    greater_is_better: bool | None = None
    num_classes: int | None = None
    regime: Regime | None = None
    finished: bool | None = None

    def over(self, other: Facts) -> Facts:
        """Self where it says something, ``other`` elsewhere."""
        mine, others = _values(self), _values(other)
        if others.count(None) == len(others):
            return self
        if mine.count(None) == len(mine):
            return other
        return Facts(*(b if a is None else a for a, b in zip(mine, others, strict=True)))

    def said(self) -> dict[str, Any]:
        """What it does say, by name."""
        pairs = zip(FACTS, _values(self), strict=True)
        return {name: value for name, value in pairs if value is not None}


FACTS = Facts.__struct_fields__
_values: Callable[[Facts], tuple[Any, ...]] = attrgetter(*FACTS)


class NotJudgeable(msgspec.Struct, frozen=True):
    """A reader's word that a file it claimed holds no series to judge."""

    content: Content
    detail: str = ""


class Parts(msgspec.Struct, frozen=True):
    """A reader's word that a file holds several runs, each of which is to be read for itself.

    ``names`` are what the ``part`` of an artifact may be.
    """

    names: tuple[str, ...]


Item = Column | Facts | Fault | NotJudgeable | Parts


class Rewind(msgspec.Struct, frozen=True):
    """A place where the step count of one artifact falls back, or where training goes on in
    another file.

    ``resume``: training went on from a saved step; steps that were done again replace the first
    ones. ``counted_as``: the count starts over while training goes on, with an epoch or after a
    resume (the latter for certain where ``resume`` says so), and ``to_step`` stands for this one.
    Otherwise a new attempt (or another run) begins.
    """

    artifact: str
    from_step: int
    to_step: int
    resume: bool
    line: int | None = None
    counted_as: int | None = None

    @property
    def back(self) -> bool:
        """Whether the step falls."""
        return self.to_step <= self.from_step

    @property
    def judged_at(self) -> int:
        """The step of the first row after it in the series that rules see."""
        return self.to_step if self.counted_as is None else self.counted_as


class Attempt(msgspec.Struct, frozen=True, eq=False):
    """One execution of a run. ``superseded``: a later attempt starts over and goes further."""

    index: int
    series: tuple[Series, ...]
    superseded: bool = False
    _selected: Mapping[tuple[Role, Split | None], list[Series]] = MappingProxyType({})

    def __post_init__(self) -> None:
        selected: dict[tuple[Role, Split | None], list[Series]] = {}
        for one in self.series:
            role, split = one.identity.role, one.identity.split
            selected.setdefault((role, None), []).append(one)
            selected.setdefault((role, split), []).append(one)
        msgspec.structs.force_setattr(self, "_selected", selected)

    def select(self, role: Role, split: Split | None = None) -> Sequence[Series]:
        """The series of a role, of one split or of all, in the order of the log."""
        return self._selected.get((role, split), ())


class RunView(msgspec.Struct, frozen=True, eq=False):
    """Everything known about one subject: the only thing a rule's needs can be bound from.

    ``checkpoint``: what was read of it, where the subject is a checkpoint and not a run; ``drift``:
    what is between it and an earlier one. ``kept``: the checkpoints of a run.
    ``inspected``: what was measured of a subject that is neither (a dataset, an environment).
    ``baselines``: the runs to compare it with. ``failed``: of a baseline, the rules that it
    fails by itself. ``derived``: what was computed from the view once, for all who ask again;
    it must not refer to the view.
    """

    id: str
    attempts: tuple[Attempt, ...] = ()
    facts: Facts = msgspec.field(default_factory=Facts)
    faults: tuple[Fault, ...] = ()
    rewinds: tuple[Rewind, ...] = ()
    regime: Regime = Regime.SUPERVISED
    baselines: tuple[RunView, ...] = ()
    failed: tuple[str, ...] = ()
    checkpoint: Checkpoint | None = None
    drift: Drift | None = None
    kept: tuple[Kept, ...] = ()
    inspected: object | None = None
    derived: dict[object, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "derived", {})  # never that of what it replaces

    @property
    def fatal(self) -> Fault | None:
        """The first of the files that could not be read, or not to its end, if any."""
        return next((fault for fault in self.faults if fault.fatal), None) if self.faults else None

    @property
    def series(self) -> tuple[Series, ...]:
        return tuple(one for attempt in self.attempts for one in attempt.series)
