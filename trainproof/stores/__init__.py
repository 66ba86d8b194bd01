"""Stores: a root given by the caller to a Store."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from .interface import Entry, Passed, Store, StoreError
from .local import LocalStore

__all__ = ["Entry", "Passed", "Store", "StoreError", "local_path", "open_store"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_store(
    root: str,
    follow_symlinks: bool = False,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    spool: str | None = None,
) -> Store:
    """The store of a directory, of a file, or of an archive that was spooled into ``spool``.

    Raises StoreError for a root that does not exist and for schemes other than ``file``.
    """
    if spool is not None:
        from .archive import SpooledStore  # noqa: PLC0415 - few roots are archives

        return SpooledStore(spool, include, exclude)
    return LocalStore(local_path(root), follow_symlinks, include, exclude)


def local_path(root: str) -> str:
    """``root`` itself, or the path that its ``file`` URL names. Raises StoreError for others."""
    scheme = _URL.match(root)
    if scheme is None or os.path.lexists(root):
        return root
    if scheme[1].lower() != "file":
        raise StoreError(root, f"{scheme[1]}:// needs the remote extra, which is not installed")
    parts = urlsplit(root)
    if parts.netloc not in ("", "localhost"):
        raise StoreError(root, f"a file of another host: {parts.netloc}")
    return unquote(parts.path, errors="surrogateescape")
