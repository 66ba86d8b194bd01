"""Follow the files of runs: look at them now and then, read what is new, judge what has changed.

A look costs one ``stat`` for each file. A judgement costs in proportion to the whole log, so that
of a large log waits until enough came together, or until nothing more comes: the time spent per
byte stays the same, however long the log.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from trainproof.api import Session
from trainproof.config import Config
from trainproof.model.artifact import Artifact, Kind, Run
from trainproof.model.following import Following
from trainproof.model.report import Finding, Report, SubjectReport, Verdict
from trainproof.readers import reader
from trainproof.readers.interface import HEAD, Growing
from trainproof.stores.interface import Entry, StoreError
from trainproof.stores.local import LocalStore

SMALL = 1 << 20
"""Bytes of all files of a run up to which it is judged whenever they change."""
GROWTH = 50
"""A larger run is judged once it grew by one part in this many, or once it rests."""


class Look(msgspec.Struct, frozen=True):
    """What the system says of one file. ``changed``: its content or its permissions, by which it
    may become readable again."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


Looks = Mapping[tuple[str, str], Look]
"""Root and path below it to the file; a root that is a file stands under its own name."""


class Change(msgspec.Struct, frozen=True):
    """One run whose verdict or findings are not what they were. ``previous``: None for a run that
    is new. ``findings``: those that are new."""

    subject: SubjectReport
    previous: Verdict | None
    findings: tuple[Finding, ...]

    @property
    def of_verdict(self) -> bool:
        return self.previous is not self.subject.verdict


class _Known(msgspec.Struct):
    """One run. ``judged`` and ``seen``: its files at the last judgement and at the last look;
    ``settled``: they were judged at rest; ``changed``: when they last differed, by the clock."""

    seen: tuple[Look | None, ...]
    changed: float
    last: str
    judged: tuple[Look | None, ...] | None = None
    settled: bool = False


_Key = tuple[str, str]
_Shown = tuple[Verdict, frozenset[tuple[str, str, str | None]]]


@dataclass(slots=True)
class Watch:
    """The runs below the paths of ``config``. ``stall``: seconds without a change after which a
    run is said to have stalled. ``clock``: seconds that never go back."""

    config: Config
    stall: float = 300.0
    clock: Callable[[], float] = time.monotonic
    report: Report | None = field(default=None, init=False)
    _session: Session = field(init=False)
    _looks: Looks | None = field(default=None, init=False)
    _known: dict[_Key, _Known] = field(default_factory=dict, init=False)
    _shown: dict[_Key, _Shown] = field(default_factory=dict, init=False)
    _stalled: frozenset[_Key] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        told = {**self.config.thresholds, "TP-STALL": {"seconds": float(self.stall)}}
        self._session = Session(replace(self.config, thresholds=told))

    def poll(self) -> tuple[Change, ...]:
        """Look once. The changes since the last time, worst verdict first.

        Where everything has vanished, as between the two halves of a rotation, what was known
        stays.
        """
        now, looks = self.clock(), look(self.config)
        if self.report is not None and not looks and self._looks:
            return ()
        moved = self._looks is None or is_new_scene(self._looks, looks)
        if moved:
            self._session.find()
        self._looks = looks
        due = [run for run in self._session.runs if self._is_due(run, looks, now)]
        if due:
            self._session.judge([measured(run, looks) for run in due])
            self._note(looks, now)
        stalled = frozenset(key_of(run) for run in self._session.runs if self._is_silent(run, now))
        if not (moved or due or stalled != self._stalled):
            return ()
        self._stalled = stalled
        self.report = self._session.report(lambda run: self._following(run, now))
        return tuple(sorted(self._changes(self.report), key=_severity, reverse=True))

    def close(self) -> None:
        self._session.close()

    # --- what is due ---------------------------------------------------------------------------

    def _is_due(self, run: Run, looks: Looks, now: float) -> bool:
        files = files_of(run, looks)
        known = self._known.get(key_of(run))
        if known is None:
            known = self._known[key_of(run)] = _Known(files, now, _newest(run, looks))
        resting = files == known.seen
        if not resting:
            known.seen, known.changed, known.last = files, now, _newest(run, looks)
        if known.judged is None or not self._session.is_judged(run):
            return True
        if files == known.judged:
            # it may have been met in the middle of being rewritten
            return resting and not known.settled and not is_appended(run)
        return resting or _grew(known.judged, files)

    def _note(self, looks: Looks, now: float) -> None:
        """Remember the files of what was judged, also of runs that came to light in it."""
        for run in self._session.runs:
            files = files_of(run, looks)
            known = self._known.setdefault(key_of(run), _Known(files, now, _newest(run, looks)))
            if self._session.is_judged(run) and known.seen == files:
                known.settled = known.judged == files
                known.judged = files

    # --- what is silent ------------------------------------------------------------------------

    def _is_silent(self, run: Run, now: float) -> bool:
        return now - self._known[key_of(run)].changed >= self.stall

    def _following(self, run: Run, now: float) -> Following:
        known = self._known[key_of(run)]
        finished = self._session.facts(run).finished is True
        return Following(round(now - known.changed, 1), known.last, finished)

    # --- what has changed ----------------------------------------------------------------------

    def _changes(self, report: Report) -> Iterator[Change]:
        for subject in report.reports:
            key = (subject.root, subject.id)
            found = {(one.id, str(one.level), one.series): one for one in subject.findings}
            previous, before = self._shown.get(key, (None, frozenset()))
            self._shown[key] = subject.verdict, frozenset(found)
            if previous is not subject.verdict or frozenset(found) != before:
                new = tuple(one for name, one in found.items() if name not in before)
                yield Change(subject, previous, new)


def _severity(change: Change) -> int:
    return change.subject.verdict.severity


def key_of(run: Run) -> _Key:
    return run.root, run.id


# --- files --------------------------------------------------------------------------------------


def look(config: Config) -> dict[tuple[str, str], Look]:
    """Every file below the roots. What cannot be listed or has just vanished is not there."""
    return dict(_looks(config))


def _looks(config: Config) -> Iterator[tuple[tuple[str, str], Look]]:
    for root in config.paths:
        if not os.path.isdir(root):
            if (told := _stat(root)) is not None:
                yield (root, ""), told
            continue
        try:
            store = LocalStore(root, config.follow_symlinks, config.include, config.exclude)
        except StoreError:
            continue
        for item in store.walk():
            told = _stat(os.path.join(root, item.path)) if isinstance(item, Entry) else None
            if told is not None:
                yield (root, item.path), told


def _stat(path: str) -> Look | None:
    try:
        told = os.stat(path)
    except (OSError, ValueError):
        return None
    return Look(told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)


def is_new_scene(before: Looks, now: Looks) -> bool:
    """Whether files must be recognised anew: some came, went or were replaced, or one changed of
    which not even the part that is looked at for that was there."""
    if before.keys() != now.keys():
        return True
    for key, old in before.items():
        new = now[key]
        replaced = (old.device, old.inode) != (new.device, new.inode)
        if replaced or (old != new and old.size < HEAD) or new.size < min(old.size, HEAD):
            return True
    return False


def files_of(run: Run, looks: Looks) -> tuple[Look | None, ...]:
    """The files of a run in its order; a member of an archive is the archive."""
    return tuple(_of(one, looks) for one in run.artifacts)


def measured(run: Run, looks: Looks) -> Run:
    """The run with its files as large as they are now."""
    sizes = ((one, looks.get((one.root, one.path))) for one in run.artifacts)
    artifacts = tuple(replace(one, size=told.size) if told else one for one, told in sizes)
    return replace(run, artifacts=artifacts)


def _of(artifact: Artifact, looks: Looks) -> Look | None:
    return looks.get((artifact.root, artifact.path)) or looks.get((artifact.root, ""))


def is_appended(run: Run) -> bool:
    """Whether all its logs only grow, so that what was read of them stays true."""
    logs = (one for one in run.artifacts if one.kind is Kind.LOG)
    return all(isinstance(reader(one.reader), Growing) for one in logs)


def _newest(run: Run, looks: Looks) -> str:
    """The path of the file that changed last."""
    there = [(told.modified, one.path) for one in run.artifacts if (told := _of(one, looks))]
    return max(there, default=(0, run.id))[1]


def _grew(before: tuple[Look | None, ...], now: tuple[Look | None, ...]) -> bool:
    """Whether enough came together to judge a run that goes on."""
    size = sum(one.size for one in now if one is not None)
    old = sum(one.size for one in before if one is not None)
    return size <= SMALL or size < old or (size - old) * GROWTH >= old
