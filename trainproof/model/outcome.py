"""What rules say and what the framework records of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

Value = int | float | str | bool


class Level(StrEnum):
    FAIL = "FAIL"
    WARN = "WARN"
    INFO = "INFO"


class State(StrEnum):
    CLEAN = "clean"
    FIRED = "fired"
    NOT_CHECKED = "not-checked"


class Public(StrEnum):
    """The public coverage vocabulary, ``notchecked/1``, which users of 0.22 already parse."""

    CHECKED = "CHECKED"
    DEGENERATE = "NOT_CHECKED/DATA_DEGENERATE"
    CHECKER_FAILED = "NOT_CHECKED/CHECKER_FAILED"
    WAIVED = "NOT_CHECKED/WAIVED"
    PREREQUISITE = "NOT_CHECKED/PREREQUISITE_FAILED"
    CALLER = "OUT_OF_SCOPE/CALLER"
    TRANSIENT = "OUT_OF_SCOPE/DATA_TRANSIENT"
    PERMANENT = "OUT_OF_SCOPE/DATA_PERMANENT"


class Owner(StrEnum):
    """Who can change that a check did not run."""

    CALLER = "caller"
    RUN = "run"
    FILE = "file"
    TOOL = "trainproof"


class Skip(StrEnum):
    """Why a rule was not applied. The value is public; ``SKIPS`` says what it means."""

    NOT_REACHED = "not-reached"
    DISABLED = "disabled"
    WAIVED = "waived"
    NEED_ABSENT = "need-absent"
    NEED_UNREADABLE = "need-unreadable"
    NEED_TOO_SHORT = "need-too-short"
    NEED_DEGENERATE = "need-degenerate"
    NOT_FINITE = "not-finite"
    NOT_A_LOSS = "not-a-loss"
    START_MISSING = "start-missing"
    REGIME = "regime"
    UNCOMPARABLE = "uncomparable"
    NOT_SAVED = "not-saved"
    LOW_POWER = "low-power"
    UNDECIDED = "undecided"
    BUDGET = "budget"
    CHECKER_FAILED = "checker-failed"
    WORKER_CRASHED = "worker-crashed"
    WORKER_TIMEOUT = "worker-timeout"
    WORKER_MEMORY = "worker-memory"


class SkipInfo(msgspec.Struct, frozen=True):
    """The public face of one skip. ``reason`` is the sentence of ``checks.skipped``."""

    public: Public
    owner: Owner
    reason: str


SKIPS: Mapping[Skip, SkipInfo] = {
    Skip.NOT_REACHED: SkipInfo(Public.CHECKER_FAILED, Owner.TOOL, "the audit ended before it"),
    Skip.DISABLED: SkipInfo(Public.CALLER, Owner.CALLER, "not selected by the caller"),
    Skip.WAIVED: SkipInfo(Public.WAIVED, Owner.CALLER, "waived by the caller"),
    Skip.NEED_ABSENT: SkipInfo(Public.TRANSIENT, Owner.RUN, "what it needs is not there"),
    Skip.NEED_UNREADABLE: SkipInfo(
        Public.PREREQUISITE, Owner.FILE, "a file that may hold what it needs could not be read"
    ),
    Skip.NEED_TOO_SHORT: SkipInfo(Public.DEGENERATE, Owner.RUN, "too few points"),
    Skip.NEED_DEGENERATE: SkipInfo(
        Public.DEGENERATE, Owner.RUN, "the values it needs carry no information for it"
    ),
    Skip.NOT_FINITE: SkipInfo(
        Public.PREREQUISITE, Owner.RUN, "the series holds values that are not finite"
    ),
    Skip.NOT_A_LOSS: SkipInfo(
        Public.PREREQUISITE, Owner.RUN, "the series is logged as a loss and does not look like one"
    ),
    Skip.START_MISSING: SkipInfo(
        Public.DEGENERATE, Owner.RUN, "the log does not show the start of the run"
    ),
    Skip.REGIME: SkipInfo(
        Public.PERMANENT, Owner.RUN, "the rule has no meaning for this kind of training"
    ),
    Skip.UNCOMPARABLE: SkipInfo(
        Public.PREREQUISITE, Owner.CALLER, "the run cannot be compared with the baseline"
    ),
    Skip.NOT_SAVED: SkipInfo(
        Public.TRANSIENT, Owner.RUN, "the checkpoint does not hold what it needs"
    ),
    Skip.LOW_POWER: SkipInfo(
        Public.DEGENERATE, Owner.RUN, "the noise of the series could hide what it looks for"
    ),
    Skip.UNDECIDED: SkipInfo(Public.DEGENERATE, Owner.RUN, "the measurement does not decide it"),
    Skip.BUDGET: SkipInfo(Public.CALLER, Owner.CALLER, "a limit was reached first"),
    Skip.CHECKER_FAILED: SkipInfo(Public.CHECKER_FAILED, Owner.TOOL, "the check itself failed"),
    Skip.WORKER_CRASHED: SkipInfo(Public.CHECKER_FAILED, Owner.TOOL, "its process crashed"),
    Skip.WORKER_TIMEOUT: SkipInfo(Public.CHECKER_FAILED, Owner.TOOL, "its time limit was reached"),
    Skip.WORKER_MEMORY: SkipInfo(Public.CHECKER_FAILED, Owner.TOOL, "its memory limit was reached"),
}

TOOL_FAULTS = frozenset(skip for skip, info in SKIPS.items() if info.owner is Owner.TOOL)


class Where(msgspec.Struct, frozen=True):
    """The place an evidence record points at. ``line`` is 1-based."""

    artifact: str
    series: str | None = None
    tensor: str | None = None
    first_step: int | None = None
    last_step: int | None = None
    line: int | None = None


class Evidence(msgspec.Struct, frozen=True):
    """Measured numbers and their place. Carries no prose.

    ``variant`` names a declared circumstance of the rule, "" for its main form.
    """

    where: Where
    measured: Mapping[str, Value]
    variant: str = ""


class Clean(msgspec.Struct, frozen=True):
    """The rule examined its inputs and found nothing; ``measured`` is what it looked at."""

    measured: Mapping[str, Value]


class Fired(msgspec.Struct, frozen=True):
    evidence: tuple[Evidence, ...]

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError("Fired needs at least one Evidence")


class Undecided(msgspec.Struct, frozen=True):
    """The rule examined its inputs and cannot judge them."""

    measured: Mapping[str, Value] = MappingProxyType({})
    skip: Skip = Skip.UNDECIDED


Outcome = Clean | Fired | Undecided


class Application(msgspec.Struct, frozen=True):
    """One application of a rule, to one series of one segment or to the whole subject."""

    # As published: numbers and names are spelled for JSON, and a report of a later version may
    # hold states and skips that this one does not know.
    state: str
    series: str | None = None
    segment: int = 0
    skip: str | None = None
    measured: Mapping[str, Value] | None = None


class Hit(msgspec.Struct, frozen=True):
    """A rule that fired: where, with which numbers, at which level."""

    level: Level
    evidence: Evidence
    thresholds: Mapping[str, Value]
    attempt: int = 0
    superseded: bool = False


class Cell(msgspec.Struct, frozen=True):
    """One cell of the subject x rule matrix: its state, its applications, and its hits."""

    rule: str
    state: State
    skip: Skip | None
    checks: tuple[Application, ...]
    hits: tuple[Hit, ...] = ()

    def __post_init__(self) -> None:
        due = State.FIRED if self.hits else State.CLEAN if self.skip is None else State.NOT_CHECKED
        if self.state is not due or (self.hits and self.skip is not None):
            raise ValueError("hits go with FIRED, a skip with NOT_CHECKED, neither with CLEAN")
