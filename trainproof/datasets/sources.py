"""The files of a dataset: which they are, what they hold, and on which side of a split."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import BinaryIO

import msgspec

from trainproof.model.artifact import Content
from trainproof.model.data import Fault, FaultCode
from trainproof.model.inspection import DatasetRequest
from trainproof.stores import Entry, Passed, Store, StoreError, open_store
from trainproof.stores.compressed import LIMITS, Limits, decompressed, trouble_of
from trainproof.stores.watched import watched

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
_MAYBE_ABOUT = frozenset(
    {"metadata.json", "meta.json", "info.json", "stats.json", "index.json", "croissant.json"}
    | {"label_map.json", "labels.json", "id2label.json", "vocab.json", "args.json"}
)
"""And these, where there are others."""
_WORDS = re.compile(r"[^a-z]+")
_TRAIN = frozenset({"train", "training"})
_HELD_OUT = frozenset({"test", "valid", "validation", "val", "dev", "eval", "evaluation"})
_FIRST = 16 << 20
"""Bytes of a first line that are looked at."""
_HEAD = 256
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype|html|\?xml)", re.IGNORECASE)
_BLANK = 1000
"""Lines that may be blank before two that are not."""
_STREAMED = frozenset(Form) - {Form.PARQUET, Form.ARROW}
_FORWARD = Limits(total=1 << 42)
"""Read once from end to end, a compressed file may unfold to as much as it likes, in proportion."""


class Source(msgspec.Struct, frozen=True):
    """One file. ``artifact``: its name in the report; ``path``: in its store; ``size``: its bytes
    on the disk."""

    store: Store
    path: str
    artifact: str
    held_out: bool = False
    size: int = 0


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
            yield Source(store, os.path.basename(name), name, held_out, _size(path))
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
    for inner in paths:
        apart = held_out or (split and bool(_HELD_OUT & _words(inner)) and not _is_train(inner))
        yield Source(store, inner, f"{name}/{inner}", apart, _size(os.path.join(path, inner)))


def _size(path: str) -> int:
    """0 for what cannot be asked: opening it will tell why."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _nothing(found: Sequence[Entry | Passed | StoreError]) -> str:
    """Why a directory holds no rows."""
    links = (Content.LINK_OUT_OF_ROOT, Content.NOT_REGULAR)
    if any(isinstance(item, Passed) and item.content in links for item in found):
        return "holds no file of a known format, and links that are not followed"
    return "holds no file of a known format"


def _data(paths: Sequence[str]) -> list[str]:
    """Those that hold rows: text only where nothing else does."""
    known = [p for p in paths if named(p) and os.path.basename(p) not in _ABOUT]
    known = [p for p in known if os.path.basename(p).lower() not in _MAYBE_ABOUT] or known
    return [p for p in known if named(p) is not Form.TEXT] or known


def _words(path: str) -> set[str]:
    return set(_WORDS.split(path.lower()))


def _is_train(path: str) -> bool:
    return bool(_TRAIN & _words(os.path.basename(path)))


def read(
    source: Source, said: Callable[[Form], None], told: Callable[[int], None]
) -> Iterator[Item]:
    """The rows of one file; ``said`` is told its form before the first, and ``told`` again and
    again how many of its bytes were taken."""
    try:
        form = _form(source)
        if strange := _strange(source, form):
            yield Fault(FaultCode.CORRUPT, source.artifact, strange, fatal=True)
            return
        said(form)
        opened = watched(source.store.open(source.path), told)
        limits = _FORWARD if form in _STREAMED else LIMITS
        with contextlib.closing(decompressed(opened, source.artifact, limits)) as stream:
            yield from _rows(form, stream, source.artifact)
            if trouble := trouble_of(stream):
                yield Fault(trouble.code, source.artifact, trouble.detail, fatal=True)
    except StoreError as error:
        yield Fault(FaultCode.IO, source.artifact, error.detail, fatal=True)


def named(path: str) -> Form | None:
    """What the name of a file says of it."""
    return _ENDS.get(os.path.splitext(_COMPRESSED.sub("", path))[1].lower())


def _form(source: Source) -> Form:
    """By the name, and by the beginning where the name does not tell or people err. Raises
    StoreError."""
    form = named(source.path)
    if form not in (None, Form.JSON, Form.JSON_LINES):
        return form
    opened = source.store.open(source.path)
    with contextlib.closing(decompressed(opened, source.artifact)) as stream:
        first, next_begins = _beginning(stream)
    if first.startswith(b"PAR1"):
        return Form.PARQUET
    if first.startswith(b"ARROW1"):
        return Form.ARROW
    if first[:1] not in (b"{", b"["):
        return form or Form.TEXT
    if form is Form.JSON_LINES:
        return Form.JSON if _is_spread(first, next_begins) else form
    is_line = first.startswith(b"{") and first.endswith(b"}")
    return Form.JSON_LINES if is_line and next_begins == b"{" else Form.JSON


def _strange(source: Source, form: Form) -> str:
    """What lies there in the place of rows; empty where it may be rows. Raises StoreError."""
    opened = source.store.open(source.path)
    with contextlib.closing(decompressed(opened, source.artifact)) as stream:
        head = stream.read(_HEAD)
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer: git lfs pull gets the file"
    if form not in (Form.TEXT, Form.PARQUET) and head.startswith(b"PK\x03\x04"):
        return "a ZIP archive: what is in it can be read once it is unpacked"
    if form is not Form.TEXT and _PAGE.match(head):
        return "a page of HTML or XML, and no rows: what the server answered in the file's place"
    if form not in (Form.PARQUET, Form.ARROW) and head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16: loaders read UTF-8, which iconv -f UTF-16 -t UTF-8 makes of it"
    return ""


def _beginning(stream: BinaryIO) -> tuple[bytes, bytes]:
    """The first line that is not blank, as far as it is looked at, and the first byte of the next
    one."""
    first = b""
    for _ in range(_BLANK):
        line = stream.readline(_FIRST)
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if first and text:
            return first, text[:1]
        first = first or text
        if not line.endswith(b"\n"):
            break
    return first, b""


def _is_spread(first: bytes, next_begins: bytes) -> bool:
    """Whether a record or the list of them goes over several lines. A line that is cut does not,
    nor does one that is a list by itself."""
    if first.startswith(b"["):
        return not (first.endswith(b"]") and next_begins)
    return first == b"{" or (next_begins == b'"' and not first.endswith(b"}"))


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
