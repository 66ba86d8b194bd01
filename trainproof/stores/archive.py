"""Archives of runs: zip and tar, spooled to flat files before anything in them is judged.

Nothing here trusts an archive. Its names never become names on disk: a member is written to a
file named by the digest of its stored name. ``spool`` needs the standard library only and is
meant for a child process with a limit on time and memory; an index, written line by line, keeps
what came before its death.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import IO, Any, BinaryIO, Protocol, cast

import msgspec

from trainproof.model.artifact import Content

from .interface import Entry, Passed, StoreError
from .regular import open_below, open_regular, reason
from .selection import PASSED_OVER, Selection


class Format(StrEnum):
    ZIP = "zip"
    TAR = "tar"
    TAR_GZ = "tar.gz"
    TAR_BZ2 = "tar.bz2"
    TAR_XZ = "tar.xz"


class Limits(msgspec.Struct, frozen=True):
    """What an archive may unfold to: number of members; bytes of one member and of all;
    ``ratio`` times its own size, beyond the ``floor`` that any archive may reach."""

    members: int = 100_000
    single: int = 2 << 30
    total: int = 8 << 30
    ratio: int = 1000
    floor: int = 64 << 20

    def budget(self, archive_size: int) -> int:
        """Bytes that an archive of this size may unfold to."""
        return min(self.total, max(self.floor, self.ratio * archive_size))


class Spooled(msgspec.Struct, frozen=True):
    """One member: its stored name, normalised, and its size in bytes."""

    path: str
    size: int


Item = Spooled | Passed | StoreError

INDEX = "index.jsonl"
_CHUNK = 1 << 16
_LONGEST_NAME = 4096
_SHOWN = 200
"""Characters of a refused name that are told."""
_LONGEST_READ = 1 << 20
"""What tarfile may ask for in one read: it takes a whole extended header into memory."""
_DIRECTORY_ENTRY = 256
"""Bytes of a zip directory allowed for each member: 46, the name and the extra fields."""

_BAD_DATA = (
    OSError,
    EOFError,
    ValueError,
    ArithmeticError,
    LookupError,
    RuntimeError,  # zipfile: encrypted; RecursionError: a chain of tar headers
    MemoryError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
)
"""What the standard library raises on hostile archives."""


# --- recognition ----------------------------------------------------------------------------

NOT_OF_RUNS = (
    *(".pt", ".pth", ".ckpt", ".bin", ".pt2", ".ptl", ".mar", ".nemo", ".safetensors", ".pkl"),
    *(".keras", ".h5", ".npz", ".onnx", ".skops", ".mlpackage", ".whl", ".jar", ".apk", ".egg"),
    *(".xlsx", ".docx", ".pptx", ".odt", ".ods", ".epub"),
)
"""Names of files that are zip or tar inside and are one thing: checkpoints, packages, papers."""

_CHECKPOINT_MEMBERS = frozenset({"data.pkl", "model.weights.h5"})
_RECOGNITION_READ = 4 << 20
"""The longest zip directory that is searched for a checkpoint: beyond, there are 40,000 members."""
_XZ_MEMORY = 256 << 20
"""``xz -9`` needs 65 MiB; a header may ask for 4 GiB."""

_DECODERS: dict[bytes, tuple[Format, Callable[[], Any]]] = {
    b"\x1f\x8b": (Format.TAR_GZ, partial(zlib.decompressobj, wbits=31)),
    b"BZh": (Format.TAR_BZ2, bz2.BZ2Decompressor),
    b"\xfd7zXZ\0": (Format.TAR_XZ, partial(lzma.LZMADecompressor, memlimit=_XZ_MEMORY)),
}


def archive_format(path: str) -> Format | None:
    """The format of a file that is an archive of runs, by content; None for anything else.

    A zip that holds ``data.pkl`` at its top or one level below is a checkpoint. Raises nothing.
    """
    if path.lower().endswith(NOT_OF_RUNS):
        return None
    try:
        with open_regular(os.path.realpath(path)) as stream:
            return _format(stream)
    except _BAD_DATA:
        return None


def _format(stream: BinaryIO) -> Format | None:
    head = stream.read(512)
    if head[:4] in (b"PK\3\4", b"PK\5\6"):
        return None if _is_checkpoint(stream) else Format.ZIP
    if _is_tar(head):
        return Format.TAR
    for magic, (format, decoder) in _DECODERS.items():
        if head.startswith(magic):
            start: bytes = decoder().decompress(head + stream.read(1 << 20), 512)
            return format if _is_tar(start) else None
    return None


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def _is_checkpoint(stream: BinaryIO) -> bool:
    try:
        with zipfile.ZipFile(cast(BinaryIO, _Bounded(stream, _RECOGNITION_READ))) as archive:
            names = archive.namelist()
    except _BAD_DATA:
        return False  # spooling it says what is wrong
    shallow = {name.split("/")[-1] for name in names if name.count("/") <= 1}
    arrays = bool(names) and all(name.endswith(".npy") for name in names)
    return arrays or not shallow.isdisjoint(_CHECKPOINT_MEMBERS)


# --- spooling -------------------------------------------------------------------------------


def spool(archive_path: str, target: str, limits: Limits | None = None) -> Iterator[Item]:
    """Write each regular member below ``target``, an empty directory, and yield what was met.

    Members that are no regular files, are encrypted or have unsafe names are passed; so are
    directories that hold no runs, once each. Of members with one name the last counts. A
    damaged member and one above its limit is a StoreError; so is what ends the archive early,
    and then what came before stays. Only when consumed to its end does it complete the index.
    """
    with open(os.path.join(target, INDEX), "x", encoding="ascii") as index:
        for item in _contents(archive_path, target, limits or Limits()):
            print(json.dumps(_recorded(item)), file=index, flush=True)
            yield item
        print(json.dumps(_END), file=index)


def _contents(archive_path: str, target: str, limits: Limits) -> Iterator[Item]:
    """What ``spool`` yields; whatever ends the archive early is the last item."""
    format = archive_format(archive_path)
    try:
        if format is None:
            raise _Stop("not an archive of runs")
        with open_regular(os.path.realpath(archive_path)) as stream:
            budget = limits.budget(stream.seek(0, os.SEEK_END))
            stream.seek(0)
            if format is Format.ZIP:
                members = _zip_members(stream, limits)
            else:
                members = _tar_members(_decoded(stream, format, budget))
            yield from _Spooler(target, limits, budget).run(members)
    except _Stop as stop:
        yield StoreError(".", str(stop))
    except _BAD_DATA as error:
        yield StoreError(".", f"damaged or cut archive: {reason(error)}")


class _Stop(Exception):
    """Why spooling cannot go on."""


class _Budget:
    """Bytes that may still be unfolded."""

    def __init__(self, size: int) -> None:
        self._size = self._left = size

    def spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise _Stop(f"unfolds to more than {self._size} bytes")


class _Member(msgspec.Struct, frozen=True):
    """One member as the archive declares it; ``obstacle``: what forbids opening it.

    ``isolated``: damage to it does not spoil the members after it.
    """

    name: str
    size: int
    open: Callable[[], IO[bytes]]
    obstacle: tuple[Content, str] | None
    isolated: bool


class _Spooler:
    def __init__(self, target: str, limits: Limits, budget: int) -> None:
        self._target = target
        self._limits = limits
        self._budget = _Budget(budget)
        self._written: set[str] = set()
        self._passed_over: set[str] = set()

    def run(self, members: Iterator[_Member]) -> Iterator[Item]:
        for number, member in enumerate(members):
            if number >= self._limits.members:
                raise _Stop(f"more than {self._limits.members} members")
            path = _normalised(member.name)
            if path is None:
                yield Passed(member.name[:_SHOWN], Content.EXCLUDED, "unsafe name")
            elif (directory := _passed_over(path)) is None:
                yield from self._member(path, member)
            elif directory not in self._passed_over:
                self._passed_over.add(directory)
                holds = PASSED_OVER[directory.rpartition("/")[2]]
                yield Passed(directory, Content.EXCLUDED, holds)

    def _member(self, path: str, member: _Member) -> Iterator[Item]:
        if member.obstacle is not None:
            yield Passed(path, *member.obstacle)
            return
        if member.size > self._limits.single:
            yield StoreError(path, f"larger than {self._limits.single} bytes")
            return
        part = os.path.join(self._target, "incoming")
        try:
            size = self._copy(member, part)
        except _BAD_DATA as error:
            if not member.isolated:
                raise _Stop(f"damaged or cut in {path}: {reason(error)}") from error
            yield StoreError(path, f"damaged: {reason(error)}")
            return
        if path in self._written:
            yield Passed(path, Content.EXCLUDED, "stored again later under the same name")
        self._written.add(path)
        os.replace(part, os.path.join(self._target, _flat_name(path)))
        yield Spooled(path, size)

    def _copy(self, member: _Member, part: str) -> int:
        size = 0
        with member.open() as source, _created(part) as out:
            while chunk := source.read(_CHUNK):
                self._budget.spend(len(chunk))
                _write(out, chunk)
                size += len(chunk)
        return size


def _created(path: str) -> BinaryIO:
    try:
        return open(path, "wb", buffering=0)
    except OSError as error:
        raise _Stop(f"cannot spool: {reason(error)}") from error


def _write(out: BinaryIO, chunk: bytes) -> None:
    """All of ``chunk``; trouble with our own disk is not the archive's damage."""
    rest = memoryview(chunk)
    try:
        while rest:
            rest = rest[out.write(rest) :]
    except OSError as error:
        raise _Stop(f"cannot spool: {reason(error)}") from error


def _flat_name(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()


_DRIVE = re.compile(r"[A-Za-z]:")


def _normalised(name: str) -> str | None:
    """The stored name as a relative path; None where it leads out or is no name at all."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if parts and _DRIVE.fullmatch(parts[0]):
        del parts[0]
    unsafe = not parts or ".." in parts or "\0" in name or len(name) > _LONGEST_NAME
    return None if unsafe else "/".join(parts)


def _passed_over(path: str) -> str | None:
    """The directory on the way to ``path`` that holds no runs."""
    parts = path.split("/")
    at = next((i for i, part in enumerate(parts[:-1]) if part in PASSED_OVER), None)
    return None if at is None else "/".join(parts[: at + 1])


# --- zip ------------------------------------------------------------------------------------


def _zip_members(stream: BinaryIO, limits: Limits) -> Iterator[_Member]:
    bounded = _Bounded(stream, max(_RECOGNITION_READ, limits.members * _DIRECTORY_ENTRY))
    with zipfile.ZipFile(cast(BinaryIO, bounded)) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                name = info.filename.replace("\\", "/")
                opened = partial(archive.open, info)
                yield _Member(name, info.file_size, opened, _zip_obstacle(info), isolated=True)


def _zip_obstacle(info: zipfile.ZipInfo) -> tuple[Content, str] | None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return Content.NOT_REGULAR, "link" if kind == stat.S_IFLNK else ""
    if info.flag_bits & 0x1:
        return Content.UNSUPPORTED, "encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # zipfile decodes the others without a limit on what one read unfolds to
        return Content.UNSUPPORTED, f"compression method {info.compress_type}"
    return None


class _Bounded:
    """A file that refuses to be read by the gigabyte: zipfile reads a whole directory at once."""

    def __init__(self, stream: BinaryIO, longest: int) -> None:
        self.seek, self.tell = stream.seek, stream.tell
        self._stream = stream
        self._longest = longest

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size > self._longest:
            raise ValueError(f"a directory of {size} bytes")
        return self._stream.read(size if size >= 0 else self._longest)


# --- tar ------------------------------------------------------------------------------------


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def seek(self, position: int, /) -> int: ...


class _Forward:
    """The bytes of a tar as tarfile may see them: read on and on, never back, never at once.

    A negative size in a header would send tarfile back for ever; an extended header is read
    whole, whatever size it declares. ``budget`` bounds what a decoder may unfold to.
    """

    def __init__(self, stream: _Source, budget: _Budget | None) -> None:
        self._stream = stream
        self._budget = budget
        self._at = 0
        self.last = b""

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LONGEST_READ:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self.last = self._stream.read(size)
        self._at += len(self.last)
        if self._budget is not None:
            self._budget.spend(len(self.last))
        return self.last

    def seek(self, position: int) -> None:
        if position < self._at:
            raise tarfile.ReadError("a member that begins within another")
        if self._budget is None:
            self._at = self._stream.seek(position)
        while self._at < position and self.read(min(_CHUNK, position - self._at)):
            pass


def _decoded(stream: BinaryIO, format: Format, budget: int) -> _Forward:
    match format:
        case Format.TAR_GZ:
            return _Forward(gzip.GzipFile(fileobj=stream), _Budget(budget))
        case Format.TAR_BZ2:
            return _Forward(bz2.BZ2File(stream), _Budget(budget))
        case Format.TAR_XZ:
            return _Forward(lzma.LZMAFile(stream), _Budget(budget))
        case _:
            return _Forward(stream, None)


def _tar_members(source: _Forward) -> Iterator[_Member]:
    with tarfile.open(fileobj=cast(IO[bytes], source), mode="r:", encoding="utf-8") as archive:
        while (info := archive.next()) is not None:
            cast(Any, archive).members.clear()  # it would keep them all
            if not info.isdir():
                opened = partial(_opened, archive, info)
                yield _Member(info.name, info.size, opened, _tar_obstacle(info), isolated=False)
    if not source.last:
        raise _Stop("cut: no end mark")
    if source.last.strip(b"\0"):
        raise _Stop("damaged or cut: no header where one must be")


def _opened(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    return cast(IO[bytes], archive.extractfile(info))


def _tar_obstacle(info: tarfile.TarInfo) -> tuple[Content, str] | None:
    if info.isreg():
        return None
    return Content.NOT_REGULAR, "link" if info.issym() or info.islnk() else ""


# --- what was spooled -----------------------------------------------------------------------

_END = {"end": True}


def _recorded(item: Item) -> dict[str, str | int]:
    match item:
        case Spooled():
            return {"path": item.path, "size": item.size}
        case Passed():
            return {"path": item.path, "content": str(item.content), "detail": item.detail}
        case StoreError():
            return {"path": item.path, "error": item.detail}


class SpooledStore:
    """The archive whose members were spooled into ``directory``; paths are its stored names."""

    def __init__(
        self, directory: str, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> None:
        self._directory = directory
        self._selection = Selection(include, exclude)

    def walk(self) -> Iterator[Entry | Passed | StoreError]:
        entries: dict[str, Entry] = {}
        others: list[Passed | StoreError] = []
        for item in self._index():
            if isinstance(item, Entry):
                entries[item.path] = item
            else:
                others.append(item)
        for item in sorted([*entries.values(), *others], key=lambda item: item.path):
            why = self._selection.refuses(item.path) if isinstance(item, Entry) else ""
            yield Passed(item.path, Content.EXCLUDED, why) if why else item

    def open(self, path: str) -> BinaryIO:
        try:
            return open_below(self._directory, _flat_name(path))
        except OSError as error:
            raise StoreError(path, reason(error)) from error

    def _index(self) -> Iterator[Entry | Passed | StoreError]:
        """Without its end mark the index is that of a spooling that was stopped."""
        try:
            with open(os.path.join(self._directory, INDEX), encoding="ascii") as index:
                for line in index:
                    match json.loads(line):
                        case {"path": str(path), "size": int(size)}:
                            yield Entry(path, size)
                        case {"path": str(path), "content": str(content), "detail": str(detail)}:
                            yield Passed(path, Content(content), detail)
                        case {"path": ".", "error": str(detail)}:
                            yield StoreError(".", detail)
                            return
                        case {"path": str(path), "error": str(detail)}:
                            yield StoreError(path, detail)
                        case {"end": True}:
                            return
            yield StoreError(".", "unfolding the archive was stopped before its end")
        except (OSError, ValueError) as error:
            yield StoreError(".", f"unfolding the archive was stopped: {reason(error)}")
