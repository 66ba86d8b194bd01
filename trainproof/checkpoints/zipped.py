"""The directory of a ZIP file, read the way torch's own reader (miniz) reads it.

What torch would open is decided by the central directory alone: names without regard to case,
the first of several, and the local header only for where the data begins. Everything in which
another program could see something else is recorded as a lie of the container.
"""

from __future__ import annotations

import stat
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from trainproof.model.data import FaultCode
from trainproof.model.tensors import Defect, DefectCode

from .limits import LIMITS, Limits
from .source import Damage, Source

LOCAL = b"PK\x03\x04"
_CENTRAL = b"PK\x01\x02"
_END = b"PK\x05\x06"
_END64 = b"PK\x06\x06"
_LOCATOR64 = b"PK\x06\x07"

_END_SIZE, _LOCATOR_SIZE, _CENTRAL_SIZE, LOCAL_SIZE = 22, 20, 46, 30
_MAX_COMMENT = 0xFFFF

STORED, DEFLATED = 0, 8
_ENCRYPTED = 0x1 | 0x20 | 0x40
DESCRIPTOR = 0x8
"""Flag: sizes and checksum follow the data, and are zero in the local header."""

_central = struct.Struct("<4xHHHHHHIIIHHHHHII")
local_header = struct.Struct("<4xHHHHHIIIHH")
"""version, flags, method, time, date, crc, compressed, size, name length, extra length"""


class Entry(msgspec.Struct, frozen=True):
    """One file of the archive. ``start``: where its data begin; ``stored``: bytes in the file."""

    name: str
    flags: int
    method: int
    crc: int
    stored: int
    size: int
    header: int
    start: int

    @property
    def end(self) -> int:
        return self.start + self.stored

    @property
    def no_checksum(self) -> bool:
        """A zero stands for "not computed" (``set_crc32_options(False)``, ``skip_data``)."""
        return self.crc == 0 and self.size > 0


class Archive(msgspec.Struct):
    """Entries in directory order. ``defects`` grows while entries are read."""

    source: Source
    entries: list[Entry]
    defects: list[Defect]
    limits: Limits = LIMITS
    _first: dict[str, Entry] = msgspec.field(default_factory=dict)
    _room: int = 0

    def __post_init__(self) -> None:
        self._room = self.limits.unpacked + self.limits.rescan * self.source.size
        for entry in self.entries:
            self._first.setdefault(entry.name.lower(), entry)

    @property
    def root(self) -> str:
        """The directory in which torch expects everything: that of the first entry."""
        return self.entries[0].name.partition("/")[0] if self.entries else ""

    def find(self, name: str) -> Entry | None:
        """The first entry of this name, in whatever case."""
        return self._first.get(name.lower())

    def read(self, entry: Entry, limit: int) -> bytes:
        """All of one entry. Raises Damage where it is larger than ``limit`` or does not inflate."""
        if entry.size > limit:
            what = f"{entry.name} has {entry.size} bytes, more than the limit of {limit}"
            raise Damage(FaultCode.TOO_LARGE, what)
        if entry.method == STORED and not entry.flags & _ENCRYPTED:
            self._spend(entry)
            return self.source.read(entry.start, entry.size)
        if entry.size > self.limits.inflate:
            what = f"{entry.name} is compressed, and {entry.size} bytes are over the limit"
            raise Damage(FaultCode.TOO_LARGE, what)
        return b"".join(bytes(piece) for piece in self.pieces(entry))

    def pieces(self, entry: Entry) -> Iterator[memoryview]:
        """The data of one entry in pieces; each is valid until the next one is asked for."""
        if entry.flags & _ENCRYPTED:
            raise Damage(FaultCode.CORRUPT, f"{entry.name} is marked as encrypted")
        self._spend(entry)
        if entry.method == STORED:
            return self.source.chunks(entry.start, entry.size, self.limits.chunk)
        if entry.method == DEFLATED:
            return even(self._inflated(entry), self.limits.chunk)
        raise Damage(FaultCode.CORRUPT, f"{entry.name}: compression method {entry.method}")

    def _spend(self, entry: Entry) -> None:
        self._room -= entry.size
        if self._room < 0:
            raise Damage(FaultCode.TOO_LARGE, "the entries together are over the limit")

    def _inflated(self, entry: Entry) -> Iterator[memoryview]:
        if entry.size > self.limits.ratio * max(entry.stored, 1):
            what = f"{entry.name} inflates {entry.size // max(entry.stored, 1)}-fold"
            raise Damage(FaultCode.TOO_LARGE, what)
        inflater, left = zlib.decompressobj(-zlib.MAX_WBITS), entry.size
        for piece in self.source.chunks(entry.start, entry.stored, self.limits.chunk):
            data = bytes(piece)
            while data and left >= 0:
                made = _inflate(inflater, data, self.limits.chunk, entry.name)
                left -= len(made)
                yield memoryview(made)
                data = inflater.unconsumed_tail
        if left or not inflater.eof:
            what = f"{entry.name} does not inflate to its {entry.size} bytes"
            raise Damage(FaultCode.CORRUPT, what)


def even(pieces: Iterator[memoryview], size: int) -> Iterator[memoryview]:
    """The same bytes in pieces of ``size``, the last one excepted: whole elements in each."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= size:
            yield memoryview(bytes(held[:size]))
            del held[:size]
    if held:
        yield memoryview(bytes(held))


def _inflate(inflater: zlib._Decompress, data: bytes, most: int, name: str) -> bytes:
    try:
        return inflater.decompress(data, most)
    except zlib.error:
        raise Damage(FaultCode.CORRUPT, f"{name} does not inflate") from None


def read_directory(source: Source, limits: Limits = LIMITS) -> Archive:
    """The archive that ends the file. Raises Damage where there is no directory to be read."""
    defects: list[Defect] = []
    end, record, others = _end_record(source, defects)
    count, size, at = _extent(source, end, record, defects)
    _check_extent(count, size, limits)
    directory = source.read(at, size)
    entries = [*_entries(source, directory, count, limits, defects)]
    _check_layout(entries, at, defects)
    _check_ends(entries, others, defects)
    _check_names(entries, defects)
    return Archive(source, entries, defects[: limits.defects], limits)


def _lie(defects: list[Defect], detail: str, where: str = "") -> None:
    defects.append(Defect(DefectCode.CONTAINER_LIE, detail, where))


# --- the end of the file ----------------------------------------------------------------------


class _OtherEnd(msgspec.Struct, frozen=True):
    """An end record before the last one. ``closes``: its comment would end with the file."""

    at: int
    closes: bool


def _end_record(source: Source, defects: list[Defect]) -> tuple[int, bytes, list[_OtherEnd]]:
    """Where the last end record is, as miniz finds it, the record, and those before it."""
    base = max(0, source.size - _END_SIZE - _MAX_COMMENT)
    tail = source.read(base, source.size - base)
    places = [at for at in _occurrences(tail, _END) if at + _END_SIZE <= len(tail)]
    if not places:
        raise Damage(FaultCode.TRUNCATED, "the directory at the end of the ZIP file is missing")
    last = places[-1]
    others = [
        _OtherEnd(base + at, at + _END_SIZE + _comment(tail, at) == len(tail))
        for at in places[:-1]
        if _plausible(tail, at, base)
    ]
    comment = _comment(tail, last)
    after = len(tail) - last - _END_SIZE
    if comment:
        defects.append(Defect(DefectCode.CONTAINER_ODD, f"a comment of {comment} bytes"))
    if after != comment:
        detail = f"{after - comment} bytes after the end record"
        defects.append(Defect(DefectCode.CONTAINER_ODD, detail))
    return base + last, tail[last : last + _END_SIZE], others


def _comment(tail: bytes, at: int) -> int:
    """Bytes of the comment that an end record announces."""
    return int.from_bytes(tail[at + 20 : at + 22], "little")


def _occurrences(data: bytes, pattern: bytes) -> Iterator[int]:
    at = data.find(pattern)
    while at >= 0:
        yield at
        at = data.find(pattern, at + 1)


def _plausible(tail: bytes, at: int, base: int) -> bool:
    """Whether these four bytes may really begin an end record: in weights they occur by chance."""
    count, size, offset = struct.unpack_from("<HII", tail, at + 10)
    if 0xFFFFFFFF in (size, offset) or count == 0xFFFF:
        return tail[at - _LOCATOR_SIZE : at - _LOCATOR_SIZE + 4] == _LOCATOR64
    return bool(offset + size <= base + at and count * _CENTRAL_SIZE <= size)


def _extent(source: Source, end: int, record: bytes, defects: list[Defect]) -> tuple[int, int, int]:
    """Entries, bytes and place of the central directory."""
    disk, first_disk, here, count, size, at = struct.unpack_from("<HHHHII", record, 4)
    if disk or first_disk or here != count:
        raise Damage(FaultCode.CORRUPT, "the ZIP file is one of several disks")
    follows = end
    if end >= _LOCATOR_SIZE and source.read(end - _LOCATOR_SIZE, 4) == _LOCATOR64:
        small = (count, size, at)
        count, size, at, follows = _extent64(source, end)
        for said, full, marker in zip(
            small, (count, size, at), (0xFFFF, *[0xFFFFFFFF] * 2), strict=True
        ):
            if said not in (marker, full):
                _lie(defects, f"the two end records disagree: {said} and {full}")
    elif count == 0xFFFF or 0xFFFFFFFF in (size, at):
        raise Damage(FaultCode.CORRUPT, "the 64-bit end record is missing")
    if at + size != follows:
        _lie(defects, f"the directory ends at {at + size}, its end record is at {follows}")
    return count, size, at


def _extent64(source: Source, end: int) -> tuple[int, int, int, int]:
    at = int.from_bytes(source.read(end - _LOCATOR_SIZE + 8, 8), "little")
    if at + 56 > end or source.read(at, 4) != _END64:
        raise Damage(FaultCode.CORRUPT, "the 64-bit end record is not where it should be")
    here, count, size, offset = struct.unpack("<QQQQ", source.read(at + 24, 32))
    if here != count:
        raise Damage(FaultCode.CORRUPT, "the ZIP file is one of several disks")
    return count, size, offset, at


def _check_extent(count: int, size: int, limits: Limits) -> None:
    if count > limits.entries or size > limits.directory:
        what = f"a directory of {count} entries and {size} bytes is over the limit"
        raise Damage(FaultCode.TOO_LARGE, what)
    if count * _CENTRAL_SIZE > size:
        raise Damage(
            FaultCode.CORRUPT, f"{count} entries do not fit in a directory of {size} bytes"
        )


# --- entries ----------------------------------------------------------------------------------


def _entries(
    source: Source, directory: bytes, count: int, limits: Limits, defects: list[Defect]
) -> Iterator[Entry]:
    at = 0
    for _ in range(count):
        if directory[at : at + 4] != _CENTRAL or at + _CENTRAL_SIZE > len(directory):
            raise Damage(FaultCode.CORRUPT, "the ZIP directory is damaged")
        fields = _central.unpack_from(directory, at)
        name_length, extra_length, comment_length = fields[9:12]
        name_at = at + _CENTRAL_SIZE
        extra_at = name_at + name_length
        at = extra_at + extra_length + comment_length
        if name_length > limits.entry_name or at > len(directory):
            raise Damage(FaultCode.CORRUPT, "the ZIP directory is damaged")
        raw = directory[name_at:extra_at]
        extra = directory[extra_at : extra_at + extra_length]
        yield _entry(source, fields, raw, extra, defects)
    if at != len(directory):
        _lie(defects, f"{len(directory) - at} bytes of the directory belong to no entry")


def _entry(
    source: Source, fields: tuple[int, ...], raw: bytes, extra: bytes, defects: list[Defect]
) -> Entry:
    made_by, _, flags, method, _, _, crc = fields[:7]
    attributes = fields[14]
    name = raw.decode("utf-8", "backslashreplace")
    numbers = _wide((fields[7], fields[8], fields[15]), extra)
    if numbers is None:
        _lie(defects, "a 64-bit size is missing", name)
    stored, size, header = numbers or (fields[7], fields[8], fields[15])
    start = _local(source, header, raw, (flags, method, crc, stored, size), defects)
    entry = Entry(name, flags, method, crc, stored, size, header, start)
    if made_by >> 8 == 3 and stat.S_ISLNK(attributes >> 16):
        defects.append(Defect(DefectCode.ENTRY_NAME, "the entry is a symbolic link", name))
    if method == STORED and stored != size:
        _lie(defects, f"it is stored as it is, in {stored} bytes of {size}", name)
    if flags & _ENCRYPTED:
        defects.append(Defect(DefectCode.ENCRYPTED, "the entry is marked as encrypted", name))
    return entry


def _wide(small: tuple[int, int, int], extra: bytes) -> tuple[int, int, int] | None:
    """Stored size, size and place, each from the 64-bit field where the 32-bit one says so.

    None where that field is too short.
    """
    body, at = _extra(extra, 1), 0
    wide: dict[int, int] = {}
    for place in (1, 0, 2):
        if small[place] == 0xFFFFFFFF:
            if at + 8 > len(body):
                return None
            wide[place] = int.from_bytes(body[at : at + 8], "little")
            at += 8
    stored, size, header = (wide.get(place, number) for place, number in enumerate(small))
    return stored, size, header


def _extra(extra: bytes, wanted: int) -> bytes:
    at = 0
    while at + 4 <= len(extra):
        code, length = struct.unpack_from("<HH", extra, at)
        if code == wanted:
            return extra[at + 4 : at + 4 + length]
        at += 4 + length
    return b""


def _local(
    source: Source, header: int, raw: bytes, central: tuple[int, ...], defects: list[Defect]
) -> int:
    """Where the data of an entry begin. Compares its own header with the directory."""
    where = raw.decode("utf-8", "backslashreplace")
    inside = 0 <= header <= source.size - LOCAL_SIZE
    data = source.read(header, LOCAL_SIZE) if inside else b""
    if data[:4] != LOCAL:
        _lie(defects, f"there is no entry at byte {header}", where)
        return source.size
    _, flags, method, _, _, crc, stored, size, name_length, extra_length = local_header.unpack(data)
    start = header + LOCAL_SIZE
    name = source.read(start, min(name_length, source.size - start))
    if name != raw:
        _lie(defects, f"its own header calls it {name[:80]!r}", where)
    if (flags ^ central[0]) & _ENCRYPTED or method != central[1]:
        _lie(defects, "its own header has another encryption or compression", where)
    if not flags & DESCRIPTOR:
        _compare_sizes((crc, stored, size), central[2:], where, defects)
    return start + int(name_length) + int(extra_length)


def _compare_sizes(
    local: Sequence[int], central: Sequence[int], where: str, defects: list[Defect]
) -> None:
    if local[0] != central[0]:
        _lie(defects, "its own header has another checksum", where)
    for mine, other in zip(local[1:], central[1:], strict=True):
        if mine not in (other, 0xFFFFFFFF):
            _lie(defects, f"its own header says {mine} bytes, the directory {other}", where)


# --- what the entries are together --------------------------------------------------------------


def _check_layout(entries: Sequence[Entry], directory: int, defects: list[Defect]) -> None:
    """Entries must follow one another from byte 0 on, and end before the directory."""
    end = 0
    for entry in sorted(entries, key=lambda one: (one.header, one.end)):
        if entry.header < end:
            _lie(defects, "its bytes are also those of another entry", entry.name)
        elif not end and entry.header:
            _lie(defects, f"{entry.header} bytes come before the first entry")
        if entry.end > directory:
            _lie(defects, f"its data would end at {entry.end}, behind the directory", entry.name)
        end = max(end, entry.end)


def _check_ends(
    entries: Sequence[Entry], others: Sequence[_OtherEnd], defects: list[Defect]
) -> None:
    """Another end record is that of a ZIP file that is an entry of this one, or a deceit."""
    ordered = sorted(entries, key=lambda entry: entry.start) if others else []
    for other in others:
        before = bisect_right(ordered, other.at, key=lambda entry: entry.start)
        inside = before > 0 and other.at < ordered[before - 1].end
        if other.closes or not inside:
            _lie(defects, "there are several end records: programs disagree on which counts")
            return


def _check_names(entries: Sequence[Entry], defects: list[Defect]) -> None:
    seen: set[str] = set()
    for entry in entries:
        folded = entry.name.lower()
        if folded in seen:
            _lie(
                defects,
                "there are two entries of this name: programs choose differently",
                entry.name,
            )
        seen.add(folded)
        if _leaves(entry.name):
            defects.append(Defect(DefectCode.ENTRY_NAME, "the name leaves the archive", entry.name))
    roots = {entry.name.partition("/")[0] for entry in entries if "/" in entry.name}
    if len(roots) > 1:
        shown = ", ".join(sorted(roots)[:3])
        defects.append(Defect(DefectCode.CONTAINER_ODD, f"more than one top directory: {shown}"))


def _leaves(name: str) -> bool:
    """Whether extracting it could write outside of the target (or nowhere)."""
    return (
        name.startswith("/")
        or "\\" in name
        or "\0" in name
        or ".." in name.split("/")
        or name[1:2] == ":"
    )
