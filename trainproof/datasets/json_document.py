"""JSON documents that hold a list of records, read element by element.

``[{…}, …]``, ``{"data": [{…}, …]}`` and objects one after the other. Memory is bounded by the
longest element, however long the list is.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from trainproof.model.data import Fault, FaultCode
from trainproof.model.dataset import Issue

from .json_lines import spelling, whole
from .rows import MAX_LINE, Item, Unusable

_CHUNK = 1 << 20
_SEQUENCES = frozenset({"input_ids", "tokens", "words", "labels", "messages"})
"""Names of lists that are one row each."""
_NO_ROWS = (
    "a table by number of row or column, as to_json of pandas writes it: orient='records' with"
    " lines=True writes rows"
)
_SPACE = re.compile(r"[ \t\r\n]*")


class _Broken(Exception):
    """The document cannot be followed any further."""

    def __init__(self, issue: Issue, line: int) -> None:
        super().__init__(issue)
        self.issue, self.line = issue, line


def json_document(stream: BinaryIO, artifact: str) -> Iterator[Item]:
    """A row for each object of the list; what follows an error of syntax cannot be found."""
    text = _Text(stream)
    try:
        yield from _records(text, artifact)
    except _Broken as broken:
        yield Unusable(broken.line, broken.issue)
        detail = "the list cannot be followed beyond this line"
        yield Fault(FaultCode.CORRUPT, artifact, detail, fatal=True, line=broken.line)


def _records(text: _Text, artifact: str) -> Iterator[Item]:
    rows = 0
    while first := text.peek():
        if first == "[":
            found = _elements(text)
        elif first == "{":
            found = _members(text, artifact, not rows)
        else:
            found = iter((_row(text.line, text.value(), text),))
        for item in found:
            rows += 1
            yield item
    if not rows:
        yield Fault(FaultCode.CORRUPT, artifact, "holds no list of records", fatal=True)


def _elements(text: _Text) -> Iterator[Item]:
    text.expect("[")
    while text.peek() != "]":
        yield _row(text.line, text.value(), text)
        if text.peek() != "]":
            text.expect(",")
    text.expect("]")


def _members(text: _Text, artifact: str, first: bool) -> Iterator[Item]:
    """The lists of objects in an object; one without any is a record itself, or a table where it
    is all that there is."""
    line, others, listed, size = text.line, dict[str, Any](), False, 0
    text.expect("{")
    while text.peek() != "}":
        key = text.value()
        text.expect(":")
        if text.peek() == "[" and text.after("[") == "{" and not _is_turns(key):
            listed = True
            yield from _elements(text)
        else:
            begin = text.passed
            others[str(key)] = text.value()
            size += text.passed - begin
            if size > MAX_LINE:
                raise _Broken(Issue.TOO_LONG, line)
        if text.peek() != "}":
            text.expect(",")
    text.expect("}")
    if listed or not others:
        return
    table = _table(others, artifact) if first and not text.peek() else None
    yield from (_row(line, others, text),) if table is None else table


def _table(value: dict[str, Any], artifact: str) -> Iterator[Item] | None:
    """The rows of an object that holds columns; a fault for one that is keyed by numbers of rows,
    as pandas writes it by default; None for a record."""
    if value.keys().isdisjoint(_SEQUENCES) and _are_columns(list(value.values())):
        columns = zip(*value.values(), strict=True)
        return ((None, dict(zip(value, cells, strict=True)), ()) for cells in columns)
    if value.keys() == {"columns", "index", "data"} or _is_numbered(value):
        return iter((Fault(FaultCode.CORRUPT, artifact, _NO_ROWS, fatal=True),))
    return None


def _are_columns(values: list[Any]) -> bool:
    """Whether all are lists of one length. ``datasets`` takes such an object for columns."""
    sizes = {len(one) if isinstance(one, list) else 0 for one in values}
    return len(sizes) == 1 and min(sizes) > 1


def _is_numbered(value: dict[str, Any]) -> bool:
    """Rows by number, or columns of cells by number."""
    inner = list(value.values())
    if not all(isinstance(one, dict) for one in inner):
        return False
    by_row = len(inner) > 1 and all(map(str.isdecimal, value))
    return by_row or all(len(one) > 1 and all(map(str.isdecimal, one)) for one in inner)


def _is_turns(key: object) -> bool:
    """Lists of objects that are part of one record."""
    return key in (
        "messages",
        "conversations",
        "conversation",
        "contents",
        "prompt",
        "chosen",
        "rejected",
    )


def _row(line: int, value: object, text: _Text) -> Item:
    constants = text.constants[:1]
    text.constants.clear()
    if isinstance(value, dict):
        return line, value, spelling(value, constants)
    return Unusable(line, Issue.NOT_OBJECT)


class _Text:
    """A window on the text of a document, with the line it has come to and all characters that were
    passed over."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self.constants: list[str] = []
        decoder = json.JSONDecoder(parse_constant=self.constants.append, parse_int=whole)
        self._scan = decoder.raw_decode
        self._text, self._at, self._ended = "", 0, False
        self.line = 1
        self.passed = 0

    def peek(self) -> str:
        """The next character that is no white space; none at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None
            self._pass(match.end())
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(_CHUNK):
                return ""

    def after(self, char: str) -> str:
        """The character after the next one, which is ``char``."""
        end = self._at + len(char)
        while True:
            match = _SPACE.match(self._text, end)
            assert match is not None
            if match.end() < len(self._text):
                return self._text[match.end()]
            if not self._more(_CHUNK):
                return ""

    def expect(self, char: str) -> None:
        """Pass over one character. Raises _Broken for another."""
        if self.peek() != char:
            raise _Broken(Issue.SYNTAX, self.line)
        self._pass(self._at + 1)

    def value(self) -> Any:
        """The next value. Raises _Broken."""
        self.peek()
        wanted = _CHUNK
        while True:
            try:
                value, end = self._scan(self._text, self._at)
                if end < len(self._text) or self._ended:
                    self._pass(end)
                    return value
            except RecursionError:
                raise _Broken(Issue.TOO_LONG, self.line) from None
            except ValueError:
                if self._ended:
                    raise _Broken(Issue.SYNTAX, self.line) from None
            if len(self._text) - self._at > MAX_LINE:
                raise _Broken(Issue.TOO_LONG, self.line)
            self._more(wanted)
            wanted *= 2  # so that a long element is not scanned again for each piece

    def _pass(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self.passed += end - self._at
        self._at = end

    def _more(self, size: int) -> bool:
        """Read on; False at the end. Raises _Broken for what is not UTF-8."""
        data = self._stream.read(size)
        self._ended = not data
        try:
            added = self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError:
            raise _Broken(Issue.ENCODING, self.line + self._text.count("\n", self._at)) from None
        self._text, self._at = self._text[self._at :] + added, 0
        return not self._ended
