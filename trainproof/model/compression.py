"""Files that were compressed as a whole: how they begin, and what they are called without it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum


class Method(StrEnum):
    GZIP = "gzip"
    BZIP2 = "bzip2"
    XZ = "xz"
    ZSTD = "zstd"


MAGIC: Mapping[Method, re.Pattern[bytes]] = {
    Method.GZIP: re.compile(rb"\x1f\x8b\x08"),  # RFC 1952, with the only method that there is
    Method.BZIP2: re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    Method.XZ: re.compile(rb"\xfd7zXZ\0"),
    Method.ZSTD: re.compile(rb"\x28\xb5\x2f\xfd"),  # RFC 8878
}

_ANY = re.compile(b"|".join(magic.pattern for magic in MAGIC.values()))

_SUFFIX = re.compile(r"(?<=[^/])\.(?:gz|bz2|xz|zst)$", re.IGNORECASE)
_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def method_of(head: bytes) -> Method | None:
    """How a file with these first bytes is compressed."""
    if not _ANY.match(head):
        return None
    return next((method for method, magic in MAGIC.items() if magic.match(head)), None)


def bare(path: str) -> str:
    """The path without the suffix that a compressor added: ``train.log`` for ``train.log.gz``."""
    return _SUFFIX.sub("", path) if path[-4:].lower().endswith(_SUFFIXES) else path
