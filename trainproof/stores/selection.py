"""Which part of a tree is looked at: the caller's globs, and directories that hold no runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

PASSED_OVER = {
    ".git": "version control",
    ".hg": "version control",
    ".svn": "version control",
    "__MACOSX": "resource forks",
    "__pycache__": "byte code",
    "node_modules": "packages",
}
"""Directories that are never entered, and what they hold. Other dot directories are: runs lie
under ``.context/`` and ``.aim/``."""


class Selection:
    """The caller's ``include`` and ``exclude`` globs on paths relative to the root.

    ``*`` and ``?`` stop at a slash, ``**`` spans directories, ``[ab]`` is a set. A pattern
    without a slash is compared with each name on the path, one with a slash with the path from
    the root. A pattern that matches a directory stands for everything in it. Exclusion wins.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = _compiled(include)
        self._exclude = _compiled(exclude)

    @property
    def everything(self) -> bool:
        return self._include is None and self._exclude is None

    def refuses(self, path: str) -> str:
        """Why the file is left out; empty when it is not."""
        if self.prunes(path):
            return "excluded by pattern"
        if self._include is not None and not self._include.fullmatch(path):
            return "not included by pattern"
        return ""

    def prunes(self, directory: str) -> bool:
        """Whether everything below the directory is excluded."""
        return self._exclude is not None and self._exclude.fullmatch(directory) is not None


def _compiled(globs: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(_regex, globs)), re.DOTALL) if globs else None


def _regex(glob: str) -> str:
    parts = [part for part in glob.split("/") if part not in ("", ".")]
    if "/" not in glob.rstrip("/"):
        parts.insert(0, "**")
    while len(parts) > 1 and parts[-1] == "**":
        parts.pop()  # what a pattern matches stands for everything in it anyway
    spelled = ["(?:[^/]+/)*" if part == "**" else _name(part) + "/" for part in parts]
    if parts == ["**"]:
        return ".*"
    return "".join(spelled).removesuffix("/") + "(?:/.*)?"


_TOKEN = re.compile(r"\*+|\?|\[(!?)(\][^\]]*|[^\]]+)\]")


def _name(part: str) -> str:
    """The regular expression of one path component."""
    spelled, done = [], 0
    for token in _TOKEN.finditer(part):
        spelled += [re.escape(part[done : token.start()]), _wildcard(token)]
        done = token.end()
    return "".join([*spelled, re.escape(part[done:])])


def _wildcard(token: re.Match[str]) -> str:
    if token[0][0] != "[":
        return "[^/]" if token[0] == "?" else "[^/]*"
    members = re.sub(r"([\\^\[\]&~|])", r"\\\1", token[2])
    members = re.sub(r"(?<=.)--", r"-\\-", members, flags=re.DOTALL)  # a range that ends with one
    spelled = f"[{'^' if token[1] else ''}{members}]"
    try:
        re.compile(spelled)
    except re.error:  # a range that runs backwards holds nothing
        return "[^/]" if token[1] else "(?!)"
    return "(?!/)" + spelled
