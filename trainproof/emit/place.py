"""Where a finding is shown in a repository: an annotation needs a file that is in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from trainproof.model.report import Anchor, Report
from trainproof.model.text import printable

from .view import full_path

_FOREIGN = re.compile(r"/|~|[A-Za-z]:|[A-Za-z][A-Za-z0-9+.-]*://")
_ARCHIVE = re.compile(r"\.(zip|tgz|tar(\.(gz|bz2|xz|zst))?)$", re.IGNORECASE)


class Place(msgspec.Struct, frozen=True):
    """``path``: POSIX, relative to where the audit was started (the repository's root in CI),
    without ``.`` and ``..``. ``direct``: it is the artifact itself, and ``line`` is a line of
    it. Otherwise something stands for an artifact that no checkout holds."""

    path: str
    line: int | None
    direct: bool

    @property
    def uri(self) -> str:
        """``path`` as a relative URI reference."""
        return quote(printable(self.path), safe="/")


def place(report: Report, root: str, path: str, line: int | None = None) -> Place:
    """The place for ``path`` below ``root``.

    A root with an anchor is shown at its anchor, a file within an archive at the archive. For
    other roots outside of the working directory there is nothing to point at: the artifact's
    path below its root then stands for it, so that it is at least a stable name.
    """
    anchors: Mapping[str, Anchor] = report.anchors or {}
    if (anchor := anchors.get(root)) is not None:
        return Place(anchor.path, anchor.line, False)
    if _FOREIGN.match(root):
        return Place(_inside(path) or _inside(root.rpartition("/")[2]) or "run", line, False)
    if _ARCHIVE.search(root):
        return Place(_inside(root) or "run", None, False)
    whole = full_path(root, path)
    steps = [step for step in whole.split("/") if step not in ("", ".")]
    if ".." in steps:
        return Place(_inside(path) or "run", line, False)
    return Place("/".join(steps) or "run", line, True)


def _inside(path: str) -> str:
    return "/".join(step for step in path.split("/") if step not in ("", ".", ".."))
