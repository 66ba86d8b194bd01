"""A JSON object read as a whole, also when the file is cut in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

import msgspec

from trainproof.model.data import FaultCode

from .json_text import loads, loads_partial
from .text import FaultLog, TextSource, decode_head, read_document

MAX_DOCUMENT = 64 << 20
"""Bytes of a document; parsed, it takes about three times that."""


class Document(msgspec.Struct, frozen=True):
    """``cut``: the end is missing; the last number that is there may lack digits."""

    members: Mapping[str, object] = msgspec.field(default_factory=dict)
    cut: bool = False


def read_object(stream: BinaryIO, faults: FaultLog, limit: int = MAX_DOCUMENT) -> Document:
    """The object that a file of at most ``limit`` bytes holds; empty where it holds something
    else."""
    data = read_document(TextSource(stream, faults).chunks(), faults, limit)
    if data is None:
        return Document(cut=True)
    try:
        return Document(_object(loads(data)))
    except ValueError as error:
        why = f"not JSON: {error}"
    try:
        members = _object(loads_partial(data))
    except ValueError:
        faults.add(FaultCode.CORRUPT, why, fatal=True)
        return Document(cut=True)
    faults.add(FaultCode.TRUNCATED, "the file is cut", data.count(b"\n") + 1)
    return Document(members, cut=True)


def begun_object(head: bytes) -> Mapping[str, object]:
    """What the first bytes of a file hold of an object."""
    text = decode_head(head).lstrip()
    if not text.startswith("{"):
        return {}
    try:
        return _object(loads_partial(text.encode("utf-8", "replace")))
    except ValueError:
        return {}


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
