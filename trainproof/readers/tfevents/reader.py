"""The reader: what is an event file, and the way from its stream to columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Protocol

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Column, Fault, FaultCode, Item, NotJudgeable, Role
from trainproof.readers.interface import Follower, Options
from trainproof.readers.names import classify

from .event import decode_event
from .framing import FOOTER, HEADER, Damage, payload_end, verify_payload
from .limits import Limits, Tuning
from .periodic import Periodic
from .points import Points
from .records import RecordDecoder
from .repeats import Repeating
from .scattered import Scattered
from .template import Templates
from .window import Window

_NAME = re.compile(r"\.tfevents(\.|$)")
_VERSION = b"brain.Event:"
_NOT_EVENTS = re.compile(rb"version https://git-lfs|\s*<(!doctype|html|\?xml)", re.IGNORECASE)

SETTINGS = frozenset({Role.OTHER, Role.LR, Role.EPOCH})
"""What a single point of is no measurement."""

MAX_DETAIL = 200

_IRREGULAR = 7
"""Blocks for which no leap is tried after leaps did not pay."""


class TfEvents:
    """TensorBoard event files, whoever wrote them.

    Every ``simple_value`` and every rank-0 numeric tensor of the scalars plugin is a point of
    the column of its tag; all else is checked and stepped over. Columns come sorted by tag.
    Both checksums of every record are verified; reading ends at the first that is wrong.
    """

    name = "tfevents"
    kind = Kind.LOG

    def __init__(self, limits: Limits | None = None, tuning: Tuning | None = None) -> None:
        self._limits = limits or Limits()
        self._tuning = tuning or Tuning()

    def claims(self, path: str, head: bytes) -> bool:
        """A first record that is an event; or the name, unless the content is known as other.

        What is named an event file and is none is claimed too: a training log that cannot be
        read is to be heard of.
        """
        if _first_is_event(head):
            return True
        named = _NAME.search(path.rsplit("/", 1)[-1]) is not None
        return named and head != b"" and _NOT_EVENTS.match(head) is None

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        """Yield a column per tag, then the fault that ended the reading, if one did."""
        points = Points()
        fault = self._drain(artifact, stream, points)
        return _told(list(points.columns()), fault)

    def follow(self, artifact: Artifact, options: Options) -> Follower:
        return _Records(artifact, self._limits)

    def _drain(self, artifact: Artifact, stream: BinaryIO, points: Points) -> Fault | None:
        """Decode the whole stream into ``points``; returns why it ended early, if it did."""
        window = Window(stream, self._tuning.block, artifact.size)
        path, decoder, done = artifact.path, None, 0
        try:
            while window.advance(done):
                decoder = decoder or self._decoder(len(window.data), points)
                done = decoder.advance(window.data, 0)
                if excess := points.excess(self._limits):
                    raise Damage(FaultCode.TOO_LARGE, done, excess)
        except Damage as damage:
            what = f"record at byte {window.base + damage.at}: {damage.what}"
            return Fault(damage.code, path, what, fatal=True)
        except OSError as error:
            return Fault(FaultCode.IO, path, f"after byte {window.base}: {error}", fatal=True)
        return _cut(path, window.base, window.data) if window.data else None

    def _decoder(self, size: int, points: Points) -> Decoder:
        """The decoder for a stream of this size, or of which this much fits a block."""
        tuning, records = self._tuning, RecordDecoder(points, self._limits)
        if size < tuning.small:
            return Repeating(records)
        templates = Templates(self._limits)
        leaps: Leaps = Repeating(records, tuning.patience)
        if size >= tuning.large:
            leaps = Periodic(points, records, templates, tuning)
        return InBulk(leaps, Scattered(points, records, templates, self._limits, tuning))


class _Records:
    """The records of a file that grows, one by one: few come between two looks."""

    def __init__(self, artifact: Artifact, limits: Limits) -> None:
        self._path, self._limits = artifact.path, limits
        self._points = Points()
        self._decoder = RecordDecoder(self._points, limits)
        self._base = 0
        self._rest = b""
        self._fault: Fault | None = None

    def feed(self, stream: BinaryIO) -> None:
        try:
            while self._fault is None and (data := stream.read(_PIECE)):
                self._take(self._rest + data)
        except Damage as damage:
            what = f"record at byte {self._base + damage.at}: {damage.what}"
            self._fault = Fault(damage.code, self._path, what, fatal=True)
        except OSError as error:
            what = f"after byte {self._base}: {error}"
            self._fault = Fault(FaultCode.IO, self._path, what, fatal=True)

    def _take(self, data: bytes) -> None:
        done = self._decoder.advance(data, 0, len(data))
        self._base += done
        self._rest = data[done:]
        if excess := self._points.excess(self._limits):
            raise Damage(FaultCode.TOO_LARGE, 0, excess)

    def items(self) -> Iterator[Item]:
        return _told(list(self._points.copies()), self._fault)


_PIECE = 1 << 20
"""Bytes read at a time of a file that grows; a longer record is put together from pieces."""


def _told(columns: Sequence[Column], fault: Fault | None) -> Iterator[Item]:
    hollow = all(map(_is_setting, columns))
    if not hollow:
        yield from columns
    if fault:
        yield fault
    if hollow and not (fault and fault.fatal):
        tags = ", ".join(column.tag for column in columns)[:MAX_DETAIL]
        why = f"nothing was measured, only {tags}" if tags else "no scalar in any record"
        yield NotJudgeable(Content.HEADER_ONLY, why)


def _is_setting(column: Column) -> bool:
    """Lightning writes ``hp_metric`` and the first learning rate before anything is measured."""
    return len(column) == 1 and classify(column.tag).role in SETTINGS


def _first_is_event(head: bytes) -> bool:
    """The file begins with a complete record, both checksums right, that only an event is."""
    if len(head) < HEADER:
        return False
    try:
        end = payload_end(head, 0, len(head))
        if end + FOOTER > len(head):
            return False
        verify_payload(head, HEADER, end)
        event = decode_event(head, HEADER, end, len(head))
    except Damage:
        return False
    return event.file_version.startswith(_VERSION) or bool(event.wall_at > 0 and event.scalars)


def _cut(path: str, base: int, data: bytes) -> Fault:
    """What it means that ``data``, at byte ``base``, is left at the end of the file."""
    if base == 0 and len(data) < HEADER:
        what = f"the file has {len(data)} bytes, too few for a record"
        return Fault(FaultCode.CORRUPT, path, what, fatal=True)
    what = f"the file ends within the record at byte {base}; {len(data)} bytes are lost"
    return Fault(FaultCode.TRUNCATED, path, what, fatal=False)


class Decoder(Protocol):
    def advance(self, data: bytes, at: int) -> int:
        """Decode the complete records from ``at``; returns where the incomplete one begins.

        Raises Damage at the first bad record.
        """
        ...


class Leaps(Decoder, Protocol):
    """Stops earlier when it ``gave_up``."""

    gave_up: bool


class InBulk:
    """By leaps while they pay; else by shapes, trying leaps again now and then."""

    def __init__(self, leaps: Leaps, scattered: Decoder) -> None:
        self._leaps = leaps
        self._scattered = scattered
        self._irregular = 0

    def advance(self, data: bytes, at: int) -> int:
        if self._irregular:
            self._irregular -= 1
            return self._scattered.advance(data, at)
        at = self._leaps.advance(data, at)
        if not self._leaps.gave_up:
            return at
        self._irregular = _IRREGULAR
        return self._scattered.advance(data, at)
