"""The files of a dataset: which they are, what they hold, and on which side of a split."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

from trainproof.model.artifact import Content
from trainproof.model.data import Fault, FaultCode
from trainproof.model.inspection import DatasetRequest
from trainproof.stores import Entry, Passed, Store, StoreError, open_store
from trainproof.stores.compressed import (
    LIMITS,
    Decompressed,
    Limits,
    decompressed,
    trouble_of,
)

from .json_document import json_document
from .json_lines import json_lines, plain_text
from .rows import Item
from .tables import columnar, delimited


class Form(StrEnum):
    """How rows are written."""

    JSON_LINES = "json-lines"
    JSON = "json"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    ARROW = "arrow"
    TEXT = "text"


_ENDS = {
    ".jsonl": Form.JSON_LINES,
    ".ndjson": Form.JSON_LINES,
    ".json": Form.JSON,
    ".csv": Form.CSV,
    ".tsv": Form.TSV,
    ".parquet": Form.PARQUET,
    ".arrow": Form.ARROW,
    ".txt": Form.TEXT,
    ".text": Form.TEXT,
}
_COMPRESSED = re.compile(r"\.(?:gz|bz2|xz|zst)$", re.IGNORECASE)
_ABOUT = frozenset(
    {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "config.json"}
)
"""Files beside the data of a directory that describe them."""
_WORDS = re.compile(r"[^a-z]+")
_TRAIN = frozenset({"train", "training"})
_HELD_OUT = frozenset({"test", "valid", "validation", "val", "dev", "eval", "evaluation"})
_HEAD = 1 << 16
_STREAMED = frozenset(Form) - {Form.PARQUET, Form.ARROW}
_FORWARD = Limits(total=1 << 42)
"""Read once from end to end, a compressed file may unfold to as much as it likes, in proportion."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file. ``artifact``: its name in the report; ``path``: in its store."""

    store: Store
    path: str
    artifact: str
    held_out: bool = False


def sources(
    root: str, name: str, asked: DatasetRequest, held_out: bool = False
) -> Iterator[Source | Fault]:
    """The files of the dataset at ``root``/``name``, sorted. Files whose names say that they are
    held out count so beside others that say "train"."""
    path = os.path.join(root, name)
    try:
        store = open_store(
            path, asked.follow_symlinks, include=asked.include, exclude=asked.exclude
        )
        if not os.path.isdir(path):
            yield Source(store, os.path.basename(name), name, held_out)
            return
        found = list(store.walk())
    except StoreError as error:
        yield Fault(FaultCode.IO, name, error.detail, fatal=True)
        return
    for item in found:
        if isinstance(item, StoreError):
            yield Fault(FaultCode.IO, f"{name}/{item.path}", item.detail, fatal=True)
    paths = _data([item.path for item in found if isinstance(item, Entry)])
    if not paths:
        yield Fault(FaultCode.IO, name, _nothing(found), fatal=True)
    split = any(_TRAIN & _words(path) for path in paths)
    for path in paths:
        apart = held_out or (split and bool(_HELD_OUT & _words(path)) and not _is_train(path))
        yield Source(store, path, f"{name}/{path}", apart)


def _nothing(found: Sequence[Entry | Passed | StoreError]) -> str:
    """Why a directory holds no rows."""
    links = (Content.LINK_OUT_OF_ROOT, Content.NOT_REGULAR)
    if any(isinstance(item, Passed) and item.content in links for item in found):
        return "holds no file of a known format, and links that are not followed"
    return "holds no file of a known format"


def _data(paths: Sequence[str]) -> list[str]:
    """Those that hold rows: text only where nothing else does."""
    known = [p for p in paths if _by_name(p) and os.path.basename(p) not in _ABOUT]
    return [p for p in known if _by_name(p) is not Form.TEXT] or known


def _by_name(path: str) -> Form | None:
    return _ENDS.get(os.path.splitext(_COMPRESSED.sub("", path))[1].lower())


def _words(path: str) -> set[str]:
    return set(_WORDS.split(path.lower()))


def _is_train(path: str) -> bool:
    return bool(_TRAIN & _words(os.path.basename(path)))


def read(source: Source, said: Callable[[Form], None]) -> Iterator[Item]:
    """The rows of one file; ``said`` is told its form before the first."""
    try:
        limits = _FORWARD if _by_name(source.path) in _STREAMED else LIMITS
        opened = decompressed(source.store.open(source.path), source.artifact, limits)
        with contextlib.closing(opened) as stream:
            form = _form(source.path, stream)
            said(form)
            yield from _rows(form, stream, source.artifact)
            if trouble := trouble_of(stream):
                yield Fault(trouble.code, source.artifact, trouble.detail, fatal=True)
    except StoreError as error:
        yield Fault(FaultCode.IO, source.artifact, error.detail, fatal=True)


def _form(path: str, stream: BinaryIO) -> Form:
    """By its name, and by its beginning where the name does not tell."""
    form = _by_name(path)
    if form not in (None, Form.JSON):
        return form
    head = _head(stream)
    if head.startswith(b"PAR1"):
        return Form.PARQUET
    if head.startswith(b"ARROW1"):
        return Form.ARROW
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if begin not in (b"{", b"["):
        return form or Form.TEXT
    return Form.JSON_LINES if begin == b"{" and _is_whole_line(head) else Form.JSON


def _head(stream: BinaryIO) -> bytes:
    """The beginning of a file. What is compressed must not be read twice: it would be unfolded
    into a temporary file."""
    if isinstance(stream, Decompressed):
        return stream.peek(_HEAD)[:_HEAD]
    head = stream.read(_HEAD)
    stream.seek(0)
    return head


def _is_whole_line(head: bytes) -> bool:
    """Whether the first line is an object by itself, and another line follows."""
    first, newline, rest = head.lstrip().partition(b"\n")
    return bool(newline) and first.rstrip().endswith(b"}") and rest.lstrip()[:1] == b"{"


def _rows(form: Form, stream: BinaryIO, artifact: str) -> Iterator[Item]:
    match form:
        case Form.JSON_LINES:
            return json_lines(stream)
        case Form.JSON:
            return json_document(stream, artifact)
        case Form.CSV | Form.TSV:
            return delimited(stream, form is Form.TSV)
        case Form.PARQUET | Form.ARROW:
            return columnar(stream, artifact, form is Form.ARROW)
        case Form.TEXT:
            return plain_text(stream)
