"""Bytes to lines, within bounds: encodings, line ends, NUL bytes, terminal sequences.

Everything the text readers see has passed here: UTF-8, ``\\n`` line ends, no NUL, no line longer
than ``MAX_LINE``. What had to be dropped for that is a fault with its line.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import BinaryIO

import msgspec

from trainproof.model.data import Fault, FaultCode

CHUNK = 2 << 20
"""Bytes read at a time."""

MAX_LINE = 8 << 20
"""Bytes of one line that are kept; the longest log lines hold whole configurations."""

MAX_FAULTS = 20
"""Faults of one kind reported one by one; the rest are counted."""

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Control sequences of ECMA-48, and the title strings of xterm."""


class FaultLog:
    """The faults of one artifact, bounded: a file of a million broken lines is one story."""

    def __init__(self, artifact: str) -> None:
        self.artifact = artifact
        self._faults: list[Fault] = []
        self._seen: dict[FaultCode, int] = {}

    def add(
        self, code: FaultCode, detail: str, line: int | None = None, *, fatal: bool = False
    ) -> None:
        count = self._seen[code] = self._seen.get(code, 0) + 1
        if count <= MAX_FAULTS or fatal:
            self._faults.append(Fault(code, self.artifact, detail, fatal, line))

    def once(self, code: FaultCode, detail: str) -> None:
        """Add a fault that is about the whole artifact, unless it is already there."""
        if all((one.code, one.detail) != (code, detail) for one in self._faults):
            self.add(code, detail)

    def __iter__(self) -> Iterator[Fault]:
        yield from self._faults
        for code, count in self._seen.items():
            if count > MAX_FAULTS:
                more = f"{count - MAX_FAULTS} more faults of this kind"
                yield Fault(code, self.artifact, more, False)

    def __bool__(self) -> bool:
        return bool(self._faults)


def encoding_of(head: bytes) -> str:
    """The encoding that the first bytes of a text show: UTF-8 unless they say otherwise."""
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if head.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    if 0 not in head:
        return "utf-8"
    pairs = len(head) // 2
    low, high = head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
    if pairs and max(low, high) > 0.8 * pairs and min(low, high) < 0.1 * pairs:
        return "utf-16-le" if high > low else "utf-16-be"  # ASCII in UTF-16 without a mark
    return "utf-8"


def decode_head(head: bytes) -> str:
    """The head of a file as text with ``\\n`` line ends; a character cut at the end is dropped.

    Bytes that are no text stay visible as ``\\xNN``.
    """
    encoding = encoding_of(head)
    if encoding == "utf-8":
        text, _ = codecs.utf_8_decode(head, "backslashreplace")
    else:
        text = codecs.getincrementaldecoder(encoding)("backslashreplace").decode(head)
    return _with_newlines(text.removeprefix("\ufeff"))


def _with_newlines(text: str) -> str:
    if "\r" not in text:
        return text
    text = text.replace("\r\r\n", "\n").replace("\r\n", "\n")
    return text if "\n" in text else text.replace("\r", "\n")


def strip_ansi(text: str) -> str:
    return ANSI.sub("", text) if "\x1b" in text else text


class Block(msgspec.Struct, frozen=True):
    """Whole lines of UTF-8 text. ``first_line`` is 1-based; only the last block of a file may
    lack the final newline."""

    data: bytes
    first_line: int


class Line(msgspec.Struct, frozen=True):
    """One line without its end, as a person sees it: no colours, the last state of a
    progress bar. ``number`` is 1-based; ``ended`` is False for a last line without newline."""

    number: int
    text: str
    ended: bool = True


@dataclass(slots=True)
class TextSource:
    """A stream as blocks of lines. I/O errors end it and become a fatal fault.

    ``growing``: the end of the stream is not the end of the text. What follows the last line end
    is kept, and ``blocks`` is asked again once ``stream`` holds more.
    """

    stream: BinaryIO
    faults: FaultLog
    growing: bool = False
    _rest: bytes = field(default=b"", init=False)
    _skipping: bool = field(default=False, init=False)
    _line: int = field(default=1, init=False)
    _at_end: bool = field(default=False, init=False)
    _begun: Iterator[bytes] | None = field(default=None, init=False)

    def blocks(self) -> Iterator[Block]:
        """The text in blocks of about ``CHUNK`` bytes, each ending at a line end."""
        if self._begun is None:
            self._begun = self.chunks()
        for data in self._begun:
            cut = data.rfind(b"\n") + 1
            if cut:
                yield from self._ended(data, cut)
            else:
                self._rest += data
            if len(self._rest) > MAX_LINE:
                self._drop()
            if self.growing and self._at_end:
                return
        if self._rest and not self._skipping:
            yield Block(self._rest, self._line)

    def chunks(self) -> Iterator[bytes]:
        """The text in pieces that end anywhere."""
        return _without_nul(self._utf8(), self.faults)

    def lines(self) -> Iterator[Line]:
        for block in self.blocks():
            parts = block.data.split(b"\n")
            cut = parts.pop()
            for number, part in enumerate(parts, block.first_line):
                yield Line(number, _visible(part))
            if cut:
                yield Line(block.first_line + len(parts), _visible(cut), ended=False)

    def _ended(self, data: bytes, cut: int) -> Iterator[Block]:
        """The block that ends with the newline before ``cut``; the remainder is kept."""
        if self._skipping:
            begin = data.index(b"\n") + 1
            self._line += 1
            self._skipping = False
            whole = data[begin:cut]
        else:
            whole = self._rest + data[:cut]
        self._rest = data[cut:]
        if whole:
            yield Block(whole, self._line)
            self._line += whole.count(b"\n")

    def _drop(self) -> None:
        if not self._skipping:
            detail = f"a line of more than {MAX_LINE} bytes is left out"
            self.faults.add(FaultCode.TOO_LARGE, detail, self._line)
        self._skipping, self._rest = True, b""

    def _utf8(self) -> Iterator[bytes]:
        """Chunks of UTF-8 without a byte order mark, with ``\\n`` line ends."""
        chunks = self._raw()
        first = next(chunks, b"")
        encoding = encoding_of(first[:4096])
        lone_cr = b"\n" not in first and b"\r" in first
        held = b""
        for data in _transcoded(chain((first,), chunks), encoding):
            body, held = _hold_cr(held + data)
            yield _unified(body, lone_cr)
        if held:
            yield _unified(held, lone_cr)

    def _raw(self) -> Iterator[bytes]:
        """Where the text grows, an empty piece stands for the end of what there is so far."""
        while (data := self._read()) or self.growing:
            self._at_end = not data
            yield data

    def _read(self) -> bytes:
        try:
            return self.stream.read(CHUNK)
        except (OSError, EOFError) as error:
            self.faults.add(FaultCode.IO, f"reading failed: {error}", self._line, fatal=True)
            return b""


def _visible(line: bytes) -> str:
    text = strip_ansi(line.decode("utf-8", "backslashreplace")).rstrip("\r")
    return text.rpartition("\r")[2]


def read_document(chunks: Iterable[bytes], faults: FaultLog, limit: int) -> bytes | None:
    """The whole text; None, and a fatal fault, beyond ``limit`` bytes."""
    parts: list[bytes] = []
    size = 0
    for data in chunks:
        size += len(data)
        if size > limit:
            detail = f"larger than {limit} bytes and not laid out for reading in parts"
            faults.add(FaultCode.TOO_LARGE, detail, fatal=True)
            return None
        parts.append(data)
    return b"".join(parts)


def _transcoded(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    return chunks if encoding == "utf-8" else _decoded(chunks, encoding)


def _decoded(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    if encoding == "utf-8-sig":
        yield next(chunks).removeprefix(codecs.BOM_UTF8)
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(next(chunks)).removeprefix("\ufeff")
    yield text.encode()
    for data in chunks:
        yield decoder.decode(data).encode()
    yield decoder.decode(b"", final=True).encode()


def _hold_cr(data: bytes) -> tuple[bytes, bytes]:
    """Keep back carriage returns at the end: the newline they belong to may follow."""
    body = data.rstrip(b"\r")
    held = data[len(body) :]
    return (body, held) if len(held) <= 2 else (data[:-2], data[-2:])


def _unified(data: bytes, lone_cr: bool) -> bytes:
    if b"\r" not in data:
        return data
    data = data.replace(b"\r\r\n", b"\n").replace(b"\r\n", b"\n")
    return data.replace(b"\r", b"\n") if lone_cr else data


def _without_nul(chunks: Iterator[bytes], faults: FaultLog) -> Iterator[bytes]:
    """NUL bytes are what a file system leaves behind when a machine dies while writing."""
    line, told, before = 1, False, b""
    for data in chunks:
        line += before.count(b"\n")
        at = data.find(0)
        if at >= 0 and not told:
            where = line + data.count(b"\n", 0, at)
            faults.add(FaultCode.CORRUPT, "NUL bytes are left out", where)
            told = True
        before = b"" if told else data
        yield data.replace(b"\0", b"") if at >= 0 else data
