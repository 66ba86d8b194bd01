"""The @rule decorator and the needs: one declaration, checked when it is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Protocol, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from trainproof.model.data import Attempt, Facts, FaultCode, Regime, Role, RunView, Series, Split
from trainproof.model.outcome import Evidence, Level, Outcome, Skip, Value, Where
from trainproof.model.rule import (
    PLACES,
    Doc,
    RuleInfo,
    SubjectKind,
    Threshold,
    Variant,
    fields_of,
)

from .pairs import UNCOMPARED, Pair, match
from .statistics import median, screen

ID = re.compile(r"TP(-[A-Z0-9]+)+")


class DeclarationError(TypeError):
    """A rule was declared wrongly. Raised at import, so no run ever starts with it."""


class Missing(msgspec.Struct, frozen=True):
    """A need that could not be bound, with the typed reason and its numbers."""

    skip: Skip
    detail: Mapping[str, Value]


class Place(msgspec.Struct, frozen=True, eq=False):
    """Where a rule is applied: a view, one attempt of it and, for series rules, one series."""

    view: RunView
    attempt: Attempt
    focus: Series | None = None


class Need(Protocol):
    def bind(self, place: Place) -> object | Missing: ...

    def describe(self) -> str: ...


class Which(StrEnum):
    """ALL series of the role; the PRINCIPAL ones: totals where there are any; or the
    OBJECTIVE: the principal training series, and the held-out ones where there is no other."""

    ALL = "all"
    PRINCIPAL = "principal"
    OBJECTIVE = "objective"


class Choice(msgspec.Struct, frozen=True):
    """Which series ``Each`` is about, whether they can be judged or not; see there."""

    roles: tuple[Role, ...] = ()
    split: Split | None = None
    which: Which = Which.ALL
    parts: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()

    def of(self, view: RunView) -> Sequence[tuple[Attempt, Series]]:
        """The series with their attempts; looked for once, since many rules are about the same."""
        found: Sequence[tuple[Attempt, Series]] | None = view.derived.get(self)
        if found is None:
            found = view.derived[self] = [
                (attempt, series) for attempt in view.attempts for series in self._matching(attempt)
            ]
        return found

    def _matching(self, attempt: Attempt) -> Sequence[Series]:
        found: Sequence[Series] = ()
        for role in self.roles:
            selected = attempt.select(role, self.split)
            found = [*found, *selected] if found else selected
        if not found:
            return found
        if self.parts:
            found = [s for s in found if self.parts & set((s.identity.component or "").split("_"))]
        if self.named:
            found = [s for s in found if s.identity.base in self.named]
        if self.which is Which.ALL:
            return found
        if self.which is Which.OBJECTIVE:
            found = [s for s in found if s.split is Split.TRAIN] or found
        return [s for s in found if s.identity.component is None] or found


class Each(msgspec.Struct, frozen=True):
    """Every series of the given roles, judged one at a time.

    ``points``: least number of points. ``nonfinite``: share of non-finite values tolerated
    (0 by default: filtering them out and judging the rest is how a NaN run gets a PASS).
    ``from_start``: the series must cover the start of the run. ``screened``: a series that is
    logged as a loss and cannot be one is not judged as one. ``parts``: only the parts in whose
    name one of these words stands (``disc`` in ``disc_real``). ``named``: only series of which
    the name without split and separators is one of these.
    """

    roles: tuple[Role, ...]
    split: Split | None = None
    points: int = 1
    nonfinite: float = 0.0
    which: Which = Which.ALL
    from_start: bool = False
    screened: bool = True
    parts: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    _choice: Choice = Choice()

    def __post_init__(self) -> None:
        choice = Choice(self.roles, self.split, self.which, self.parts, self.named)
        msgspec.structs.force_setattr(self, "_choice", choice)

    def describe(self) -> str:
        what = " or ".join(self.roles)
        parts = [f"each {'' if self.split is None else self.split + ' '}{what} series"]
        if self.parts:
            parts.append(f"parts named {' or '.join(sorted(self.parts))}")
        if self.named:
            parts.append(f"named {' or '.join(sorted(self.named))}")
        if self.which is not Which.ALL:
            parts.append("totals where there are any")
        if self.which is Which.OBJECTIVE:
            parts.append("held-out ones only where no training series is logged")
        if self.points > 1:
            parts.append(f"at least {self.points} points")
        if self.nonfinite < 1:
            share = f"at most {self.nonfinite:.0%} not finite" if self.nonfinite else "all finite"
            parts.append(share)
        if self.from_start:
            parts.append("from the start of the run")
        return ", ".join(parts)

    def found(self, view: RunView) -> Sequence[tuple[Attempt, Series]]:
        """The series with their attempts, whether they can be judged or not."""
        return self._choice.of(view)

    def bind(self, place: Place) -> object | Missing:
        return place.focus

    def unfit(self, series: Series) -> Missing | None:
        """Why one of the series cannot be judged; None where it can."""
        points = len(series)
        if points < self.points:
            detail: dict[str, Value] = {"points": points, "needed": self.points}
            return Missing(Skip.NEED_TOO_SHORT, detail)
        seen = screen(series)
        if self.screened and seen.looks_like is not None:
            return Missing(Skip.NOT_A_LOSS, {"points": points, "looks_like": seen.looks_like})
        if seen.nonfinite > self.nonfinite * points:
            return Missing(Skip.NOT_FINITE, {"points": points, "nonfinite": seen.nonfinite})
        if self.from_start and starts_late(series):
            first, last = int(series.steps[0]), int(series.steps[-1])
            return Missing(Skip.START_MISSING, {"first_step": first, "last_step": last})
        return None


def starts_late(series: Series) -> bool:
    """First step beyond 10 % of the last and beyond two cadences.

    Learned from 834 published series that begin half-way through their run.
    """
    steps = series.steps
    if len(steps) < 2 or not (first := float(steps.item(0))) > 0.1 * steps.item(-1):
        return False
    return first > 2 * median(np.diff(steps).astype(np.float64))


def where(series: Series, first: int = 0, last: int = -1) -> Where:
    """The place of the points from index ``first`` to ``last``."""
    return Where(
        series.artifact,
        series=series.tag,
        first_step=int(series.steps[first]),
        last_step=int(series.steps[last]),
        line=series.line(first),
    )


class Companion(msgspec.Struct, frozen=True):
    """The series of another role that bears on the same question, in the same attempt.

    Of several: the same artifact first, then a total before a component, then most points.
    """

    role: Role
    split: Split | None = None
    points: int = 1

    def describe(self) -> str:
        split = "" if self.split is None else f"{self.split} "
        return f"a {split}{self.role} series with at least {self.points} points"

    def bind(self, place: Place) -> Series | Missing:
        found = place.attempt.select(self.role, self.split)
        enough = [s for s in found if len(s) >= self.points]
        if not enough:
            return _short(self.role, found, self.points) or absent(place.view, self.role)
        home = place.focus.artifact if place.focus is not None else ""
        near = [s for s in enough if s.artifact == home] or enough
        if len(near) == 1:
            return near[0]
        return max(near, key=lambda s: (s.identity.component is None, len(s)))


def _short(role: Role, found: Sequence[Series], needed: int) -> Missing | None:
    if not found:
        return None
    detail: dict[str, Value] = {
        "role": str(role),
        "points": max(map(len, found)),
        "needed": needed,
    }
    return Missing(Skip.NEED_TOO_SHORT, detail)


class Companions(msgspec.Struct, frozen=True):
    """All series of a role in the same attempt, possibly none."""

    role: Role
    split: Split | None = None

    def describe(self) -> str:
        return f"the {'' if self.split is None else self.split + ' '}{self.role} series, if any"

    def bind(self, place: Place) -> tuple[Series, ...]:
        return tuple(place.attempt.select(self.role, self.split))


class Together(msgspec.Struct, frozen=True):
    """The attempt itself: for what may be logged under many roles."""

    def describe(self) -> str:
        return "what is logged beside it"

    def bind(self, place: Place) -> Attempt:
        return place.attempt


class Optional(msgspec.Struct, frozen=True):
    """A need that may be missing: the rule then gets None."""

    need: Need

    def describe(self) -> str:
        return f"optionally {self.need.describe()}"

    def bind(self, place: Place) -> object | None:
        got = self.need.bind(place)
        return None if isinstance(got, Missing) else got


class Declared(msgspec.Struct, frozen=True):
    """The run's own declarations; with ``field``, one of them that must be there."""

    field: str | None = None

    def describe(self) -> str:
        return f"the declared {self.field}" if self.field else "what the run declares"

    def bind(self, place: Place) -> Facts | Missing:
        if self.field is not None and getattr(place.view.facts, self.field) is None:
            return Missing(Skip.NEED_ABSENT, {"declared": self.field})
        return place.view.facts


class Whole(msgspec.Struct, frozen=True):
    """The whole view, for rules about the log itself rather than about a series."""

    series: bool = True

    def describe(self) -> str:
        return "the run's log with at least one series" if self.series else "the run's log"

    def bind(self, place: Place) -> RunView | Missing:
        if self.series and not any(attempt.series for attempt in place.view.attempts):
            return absent(place.view, None)
        return place.view


class Inspected(msgspec.Struct, frozen=True):
    """What was measured of a subject that is no run: an instance of ``kind``."""

    kind: type
    what: str

    def describe(self) -> str:
        return self.what

    def bind(self, place: Place) -> object | Missing:
        got = place.view.inspected
        return got if isinstance(got, self.kind) else absent(place.view, None)


class Compared(msgspec.Struct, frozen=True):
    """The whole view of a run that is compared with at least one other."""

    def describe(self) -> str:
        return "a baseline"

    def bind(self, place: Place) -> RunView | Missing:
        return place.view if place.view.baselines else Missing(Skip.NEED_ABSENT, {"baselines": 0})


class Counterparts(msgspec.Struct, frozen=True):
    """The same series, over the same steps, of each baseline that does not fail by itself; at
    least ``least`` of them. ``scale``: its scale is asked for, which a loss has also where it is
    no measure of progress."""

    least: int = 1
    scale: bool = False

    def describe(self) -> str:
        many = f"at least {self.least} baselines" if self.least > 1 else "a baseline"
        return f"the same series over the same steps of {many} that would not fail an audit"

    def bind(self, place: Place) -> tuple[Pair, ...] | Missing:
        baselines, focus = place.view.baselines, place.focus
        if not baselines or focus is None:
            return Missing(Skip.NEED_ABSENT, {"baselines": len(baselines)})
        comparable = self.scale or place.view.regime not in UNCOMPARED
        found = [match(focus, one) for one in baselines if comparable and not one.failed]
        pairs = tuple(one for one in found if isinstance(one, Pair))
        if not pairs:
            return Missing(Skip.UNCOMPARABLE, {"baselines": len(baselines)})
        if len(pairs) < self.least:
            return Missing(Skip.NEED_TOO_SHORT, {"baselines": len(pairs), "needed": self.least})
        return pairs


_SKIP_FOR = {
    FaultCode.CRASHED: Skip.WORKER_CRASHED,
    FaultCode.TIMEOUT: Skip.WORKER_TIMEOUT,
    FaultCode.MEMORY: Skip.WORKER_MEMORY,
}


def absent(view: RunView, role: Role | None) -> Missing:
    """Not logged; or, where a file of the run could not be read, not known."""
    detail: dict[str, Value] = {} if role is None else {"role": str(role)}
    fatal = view.fatal
    if fatal is None:
        return Missing(Skip.NEED_ABSENT, detail)
    detail |= {"artifact": fatal.artifact, "fault": str(fatal.code), "detail": fatal.detail}
    return Missing(_SKIP_FOR.get(fatal.code, Skip.NEED_UNREADABLE), detail)


class Bound(msgspec.Struct, frozen=True):
    """Metadata of a keyword-only threshold parameter, through Annotated."""

    unit: str
    doc: str
    ge: float | None = None
    le: float | None = None


class Example(msgspec.Struct, frozen=True, eq=False):
    """A tiny subject with what is special about it; the rule's first test and its doc."""

    text: str
    view: RunView


class Rule(msgspec.Struct, frozen=True, eq=False):
    info: RuleInfo
    needs: Mapping[str, Need]
    check: Callable[..., Outcome]
    fires: Example
    silent: Example
    cited: Mapping[str, frozenset[str]]
    """The measures that the templates of each form use; "" is the main form."""
    spreader: Each | None
    """The need that says to which series the rule is applied, one at a time; it is the first."""

    beside: tuple[Need, ...]
    """The other needs, in their order."""

    defaults: Mapping[str, Value]
    measures: frozenset[str]

    def thresholds(self, overrides: Mapping[str, Value]) -> Mapping[str, Value]:
        return {**self.defaults, **overrides} if overrides else self.defaults

    def problem(self, evidence: Evidence) -> str | None:
        """Evidence must carry declared measures only, and all those that its form cites."""
        if evidence.variant and evidence.variant not in self.info.variants:
            return f"undeclared variant {evidence.variant!r}"
        if problem := self.unknown(evidence.measured):
            return problem
        missing = sorted(self.cited[evidence.variant] - set(evidence.measured))
        return f"measures {missing} are cited and not measured" if missing else None

    def unknown(self, measured: Mapping[str, Value]) -> str | None:
        """A clean or undecided outcome cites declared measures only, and at least one."""
        if not self.measures.issuperset(measured):
            return f"undeclared measures {sorted(measured.keys() - self.measures)}"
        return None if measured else "no measure cited"


REGISTRY: dict[str, Rule] = {}


def rule(
    *,
    id: str,
    title: str,
    level: Level,
    message: str,
    evidence: str,
    needs: Mapping[str, Need],
    measures: Mapping[str, str],
    doc: Doc,
    fires: Example,
    silent: Example,
    since: str = "1.0",
    grounds: bool = False,
    variants: Mapping[str, Variant] | None = None,
    not_for: Sequence[Regime] = (),
    subject: SubjectKind = SubjectKind.RUN,
) -> Callable[[Callable[..., Outcome]], Rule]:
    """Declare a rule. The function's positional parameters are the needs, in order; its
    keyword-only parameters are thresholds, each ``Annotated[type, Bound(...)]``.

    Raises DeclarationError at import when the declaration contradicts itself.
    """

    def declare(check: Callable[..., Outcome]) -> Rule:
        info = RuleInfo(
            id=id,
            family=check.__module__.rsplit(".", 1)[-1],
            title=title,
            level=level,
            message=message,
            evidence=evidence,
            subject=subject,
            needs={name: need.describe() for name, need in needs.items()},
            measures=dict(measures),
            thresholds=_thresholds(check, needs),
            doc=doc,
            since=since,
            grounds=grounds,
            variants=dict(variants or {}),
            regimes=tuple(str(regime) for regime in not_for),
        )
        _validate(info, needs)
        spreader = next((need for need in needs.values() if isinstance(need, Each)), None)
        defaults = {threshold.name: threshold.default for threshold in info.thresholds}
        made = Rule(
            info=info,
            needs=dict(needs),
            check=check,
            fires=fires,
            silent=silent,
            cited=_cited(info),
            spreader=spreader,
            beside=tuple(need for need in needs.values() if need is not spreader),
            defaults=defaults,
            measures=frozenset(info.measures),
        )
        REGISTRY[id] = made
        return made

    return declare


def _cited(info: RuleInfo) -> dict[str, frozenset[str]]:
    given = PLACES | {t.name for t in info.thresholds}
    forms = {name: info.form(name) for name in ("", *info.variants)}
    return {
        name: (fields_of(form.message) | fields_of(form.evidence)) - given
        for name, form in forms.items()
    }


def _validate(info: RuleInfo, needs: Mapping[str, Need]) -> None:
    _require(ID.fullmatch(info.id) is not None, f"bad id {info.id!r}")
    _require(info.id not in REGISTRY, f"{info.id} declared twice")
    each = [isinstance(need, Each) for need in needs.values()]
    _require(not any(each[1:]), f"{info.id}: an Each that is not the first need")
    known = set(info.measures) | {t.name for t in info.thresholds} | PLACES
    for name in ("", *info.variants):
        form = info.form(name)
        unknown = (fields_of(form.message) | fields_of(form.evidence)) - known
        _require(not unknown, f"{info.id}: templates use unknown fields {sorted(unknown)}")
    doc = info.doc
    sections = (doc.measures, doc.means, doc.does_not_mean, *doc.guards, *doc.references)
    _require(all(s.strip() for s in sections), f"{info.id}: empty doc section")
    _require(bool(doc.guards and doc.references), f"{info.id}: guards and references are needed")


def _thresholds(check: Any, needs: Mapping[str, Need]) -> tuple[Threshold, ...]:
    """``check`` is a plain function: what ``inspect`` would say of it, at a tenth of the time."""
    # Modules of rules do without annotations as strings: each would be compiled here, at start-up.
    hints: Mapping[str, Any] = check.__annotations__
    if any(isinstance(hint, str) for hint in hints.values()):
        hints = get_type_hints(check, include_extras=True)
    _require(hints.get("return") == Outcome, f"{check.__name__} must be annotated -> Outcome")
    code, defaults = check.__code__, check.__kwdefaults__ or {}
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional, thresholds = list(names[: code.co_argcount]), names[code.co_argcount :]
    _require(positional == list(needs), f"{check.__name__}: parameters {positional} != needs")
    return tuple(_threshold(name, defaults.get(name), hints[name]) for name in thresholds)


def _threshold(name: str, default: Any, hint: object) -> Threshold:
    _require(get_origin(hint) is Annotated, f"threshold {name} must be Annotated")
    kind, bound = get_args(hint)
    _require(isinstance(default, kind), f"threshold {name}: default is not {kind.__name__}")
    return Threshold(name, kind.__name__, default, bound.unit, bound.doc, bound.ge, bound.le)


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise DeclarationError(message)
