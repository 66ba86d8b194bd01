"""Encodings, line ends and bounds."""

from __future__ import annotations

import codecs
import io

import pytest

from trainproof.model.data import Fault, FaultCode
from trainproof.readers.text import (
    CHUNK,
    MAX_FAULTS,
    MAX_LINE,
    FaultLog,
    TextSource,
    decode_head,
    encoding_of,
    read_document,
    strip_ansi,
)

TEXT = "step,loss\n1,0.5\n2,0.25\n"


class Dribble(io.BytesIO):
    """A stream that returns a few bytes at a time, as sockets do."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self.size_of_reads = size

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.size_of_reads)


class Broken(io.BytesIO):
    """A stream that fails after its first bytes."""

    def read(self, size: int | None = -1) -> bytes:
        got = super().read(size)
        if not got:
            raise OSError("device gone")
        return got


def text_of(data: bytes, size: int = CHUNK) -> tuple[bytes, list[Fault]]:
    faults = FaultLog("log")
    source = TextSource(Dribble(data, size), faults)
    return b"".join(block.data for block in source.blocks()), list(faults)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\r\r\n").encode(),
    ],
    ids=["utf-8", "bom", "utf-16-le", "utf-16-be", "crlf", "crcrlf"],
)
def test_every_spelling_of_a_text_reads_alike(data: bytes, size: int) -> None:
    if size < 4 and not data[:1].isalpha():
        size = 4  # the mark and a character: what tells the encoding comes in one piece
    assert text_of(data, size) == (TEXT.encode(), [])


def test_utf_16_without_a_mark_is_seen_by_its_zeros() -> None:
    assert encoding_of(TEXT.encode("utf-16-le")) == "utf-16-le"
    assert encoding_of(TEXT.encode("utf-16-be")) == "utf-16-be"
    assert encoding_of(b"\0" * 100) == "utf-8"
    assert text_of(TEXT.encode("utf-16-le"))[0] == TEXT.encode()


def test_a_text_with_carriage_returns_only_has_lines() -> None:
    assert text_of(b"a,b\r1,2\r3,4\r")[0] == b"a,b\n1,2\n3,4\n"
    assert decode_head(b"a,b\r1,2\r") == "a,b\n1,2\n"


def test_a_head_may_end_within_a_character() -> None:
    assert decode_head("Verlust ä".encode()[:-1]) == "Verlust "
    assert decode_head(b"loss \xff\n") == "loss \\xff\n"


def test_bytes_that_are_no_text_stay_visible() -> None:
    faults = FaultLog("log")
    lines = list(TextSource(io.BytesIO(b"lo\xffss\n"), faults).lines())
    assert [line.text for line in lines] == ["lo\\xffss"]


def test_nul_bytes_are_left_out_and_told_once() -> None:
    text, faults = text_of(b"a\nb\0\0\nc\n\0")
    assert text == b"a\nb\nc\n"
    assert faults == [Fault(FaultCode.CORRUPT, "log", "NUL bytes are left out", False, 2)]


def test_lines_are_what_a_person_sees() -> None:
    data = b"\x1b[1m > EPOCH\x1b[0m\n 10%\r 50%\r100%\nlast"
    lines = list(TextSource(io.BytesIO(data), FaultLog("log")).lines())
    assert [(line.number, line.text, line.ended) for line in lines] == [
        (1, " > EPOCH", True),
        (2, "100%", True),
        (3, "last", False),
    ]


def test_terminal_sequences_are_removed() -> None:
    assert strip_ansi("\x1b[91m 0.5 \x1b[0m(+0.1)") == " 0.5 (+0.1)"
    assert strip_ansi("\x1b]0;title\x07text") == "text"
    assert strip_ansi("\x1b[2K\x1b[1Gx") == "x"


def test_blocks_number_their_first_lines() -> None:
    line = b"x" * 999 + b"\n"
    count = 3 * CHUNK // len(line)
    blocks = list(TextSource(io.BytesIO(line * count), FaultLog("log")).blocks())
    assert len(blocks) > 2
    seen = 1
    for block in blocks:
        assert block.first_line == seen
        assert block.data.endswith(b"\n")
        seen += block.data.count(b"\n")
    assert seen == count + 1


def test_a_line_beyond_the_limit_is_left_out_and_the_next_is_read() -> None:
    text, faults = text_of(b"first\n" + b"x" * (MAX_LINE + CHUNK) + b"\nlast\n")
    assert text == b"first\nlast\n"
    assert [(fault.code, fault.line, fault.fatal) for fault in faults] == [
        (FaultCode.TOO_LARGE, 2, False)
    ]


def test_a_last_line_beyond_the_limit_is_left_out() -> None:
    text, faults = text_of(b"x" * (MAX_LINE + CHUNK))
    assert text == b""
    assert [fault.code for fault in faults] == [FaultCode.TOO_LARGE]


def test_lines_after_one_that_was_left_out_keep_their_numbers() -> None:
    data = b"1\n" + b"x" * (MAX_LINE + CHUNK) + b"\n3\n4\n"
    lines = list(TextSource(io.BytesIO(data), FaultLog("log")).lines())
    assert [(line.number, line.text) for line in lines] == [(1, "1"), (3, "3"), (4, "4")]


def test_a_stream_that_fails_is_a_fatal_fault() -> None:
    faults = FaultLog("log")
    blocks = list(TextSource(Broken(b"a\nb\n"), faults).blocks())
    assert [block.data for block in blocks] == [b"a\nb\n"]
    assert list(faults) == [Fault(FaultCode.IO, "log", "reading failed: device gone", True, 3)]


def test_a_document_beyond_the_limit_is_not_kept() -> None:
    faults = FaultLog("log")
    assert read_document([b"12345", b"67"], faults, 7) == b"1234567"
    assert read_document([b"12345", b"678"], faults, 7) is None
    assert [(fault.code, fault.fatal) for fault in faults] == [(FaultCode.TOO_LARGE, True)]


def test_many_faults_of_one_kind_are_counted() -> None:
    faults = FaultLog("log")
    for line in range(1, 100):
        faults.add(FaultCode.CORRUPT, "not JSON", line)
    told = list(faults)
    assert len(told) == MAX_FAULTS + 1
    assert told[-1].detail == f"{99 - MAX_FAULTS} more faults of this kind"
