"""Bounds on what one event file may make the reader hold, and where its ways part."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Beyond any of these the reader stops with a fatal ``TOO_LARGE``.

    ``record``: payload bytes of one record; a graph definition is one record and can be large.
    ``tags``: distinct scalar tags, and scalars in one record. ``tag``: bytes of one tag.
    ``points``: scalars in the file, 24 bytes of memory each.
    """

    record: int = 128 << 20
    tags: int = 50_000
    tag: int = 1024
    points: int = 20_000_000


class Tuning(msgspec.Struct, frozen=True):
    """Where one way of decoding gives over to another. No result depends on it.

    ``block``: bytes read at a time. ``small``: size of file below which no record is moved to
    others of its shape. ``large``: size from which on tables of checksums are worth their memory;
    at most ``block`` is known of a size. ``patience``: bytes without a period, in files between
    these sizes, and ``hopeless``: records without one, in large files, after which none is looked
    for. ``dense``: records in a block from which on gathering them by shape pays.
    """

    block: int = 4 << 20
    small: int = 1 << 20
    large: int = 4 << 20
    patience: int = 1 << 15
    hopeless: int = 1024
    dense: int = 4096
