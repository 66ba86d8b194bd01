"""Bounds on what one event file may make the reader hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Beyond any of these the reader stops with a fatal ``TOO_LARGE``.

    ``record``: payload bytes of one record; a graph definition is one record and can be large.
    ``tags``: distinct scalar tags, and scalars in one record. ``tag``: bytes of one tag.
    ``points``: scalars in the file, 24 bytes of memory each.
    """

    record: int = 128 << 20
    tags: int = 50_000
    tag: int = 1024
    points: int = 20_000_000
