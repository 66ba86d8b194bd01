"""Directories and single files of this machine."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from trainproof.model.artifact import Content

from .interface import Entry, Passed, StoreError
from .regular import open_below, open_regular, reason, resolved
from .selection import PASSED_OVER, Selection

BY_HASH = re.compile(
    r"/(?:\.git/annex/objects|\.dvc/cache|(?:models|datasets|spaces)--[^/]+/blobs)/", re.DOTALL
)
"""Where git-annex, DVC and the Hugging Face cache keep content under hashes. The links to it
carry the names, so these places are passed over and links into them are followed."""


class LocalStore:
    """A directory tree, or one file.

    Links out of the root are followed only with ``follow_symlinks``. A link to something inside
    the root never counts: its target is met under its own name. ``include`` and ``exclude`` are
    globs, see ``Selection``. Raises StoreError for a root that does not exist.
    """

    def __init__(
        self,
        root: str,
        follow_symlinks: bool = False,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> None:
        try:
            mode, self._base = resolved(root)
        except (OSError, ValueError) as error:
            raise StoreError(root, reason(error)) from error
        self._only = None if stat.S_ISDIR(mode) else os.path.basename(os.path.normpath(root))
        self._regular = stat.S_ISREG(mode)
        self._follow = follow_symlinks
        self._selection = Selection(include, exclude)

    def walk(self) -> Iterator[Entry | Passed | StoreError]:
        """In the order of the paths as strings, which is also the order of an object store."""
        if self._only is None:
            return _Walk(self._base, self._follow, self._selection).run()
        if self._regular:
            return iter((Entry(self._only),))
        return iter((Passed(self._only, Content.NOT_REGULAR),))

    def open(self, path: str) -> BinaryIO:
        try:
            if self._only is not None:
                return self._open_only(path)
            if not path or path[0] == "/" or ".." in path.split("/"):
                raise StoreError(path, "not a path below the root")
            return self._open(path)
        except (OSError, ValueError) as error:
            raise StoreError(path, reason(error)) from error

    def _open_only(self, path: str) -> BinaryIO:
        if path != self._only:
            raise StoreError(path, "not in this store")
        return open_regular(self._base)

    def _open(self, path: str) -> BinaryIO:
        try:
            return open_below(self._base, path)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
        real = os.path.realpath(os.path.join(self._base, path), strict=True)
        if self._follow or (_inside(self._base, real) and BY_HASH.search(real)):
            return open_regular(real)
        raise StoreError(path, "a link that is not followed")


class _Walk:
    """One walk: depth first without recursion, each directory listed once."""

    def __init__(self, base: str, follow: bool, selection: Selection) -> None:
        self._base = base
        self._follow = follow
        self._selection = selection
        self._seen: set[tuple[int, int]] = set()

    def run(self) -> Iterator[Entry | Passed | StoreError]:
        if self._follow:
            self._is_new(os.stat(self._base))
        levels = [("", iter(self._level("")))]
        while levels:
            prefix, items = levels[-1]
            for item in items:
                if not isinstance(item, str):
                    yield item
                elif item[-1] == "/":
                    inner = prefix + item
                    levels.append((inner, iter(self._level(inner))))
                    break
                else:
                    yield Entry(prefix + item)
            else:
                levels.pop()

    def _level(self, prefix: str) -> list[str | Passed | StoreError]:
        """What one directory holds: names of files, names of directories with a slash after
        them (so that they sort as in whole paths), and what is not entered."""
        listing = _Listing(os.path.join(self._base, prefix))
        if prefix and listing.is_environment:
            return [Passed(prefix[:-1], Content.EXCLUDED, "virtual environment")]
        special: dict[str, Passed | StoreError] = {}
        for name in listing.odd:
            special[name] = Passed(prefix + name, Content.NOT_REGULAR)
        names = listing.files
        directories, links = sorted(listing.directories), sorted(listing.links)
        names += [name + "/" for name in directories if self._enters(prefix, name, special)]
        names += self._followed(prefix, links, special)
        if not self._selection.everything:
            self._select(prefix, names, special)
        items: list[str | Passed | StoreError] = []
        if listing.error is not None:
            items.append(StoreError(prefix[:-1] or ".", reason(listing.error)))
        if special:
            items += [special.get(name, name) for name in sorted({*names, *special})]
        else:
            names.sort()
            items += names
        return items

    def _enters(self, prefix: str, name: str, special: dict[str, Passed | StoreError]) -> bool:
        path = prefix + name
        if name in PASSED_OVER:
            special[name] = Passed(path, Content.EXCLUDED, PASSED_OVER[name])
            return False
        if name in ("cache", "blobs") and BY_HASH.search(f"{self._base}/{path}/"):
            special[name] = Passed(path, Content.EXCLUDED, "content kept under hashes")
            return False
        if not self._follow:
            return True
        try:
            return self._is_new(os.stat(os.path.join(self._base, path), follow_symlinks=False))
        except OSError as error:
            special[name] = StoreError(path, reason(error))
            return False

    def _select(
        self, prefix: str, names: list[str], special: dict[str, Passed | StoreError]
    ) -> None:
        for name in names:
            if name[-1] == "/":
                pruned = self._selection.prunes(prefix + name[:-1])
                why = "excluded by pattern" if pruned else ""
            else:
                why = self._selection.refuses(prefix + name)
            if why:
                special[name] = Passed((prefix + name).rstrip("/"), Content.EXCLUDED, why)

    def _followed(
        self, prefix: str, links: list[str], special: dict[str, Passed | StoreError]
    ) -> list[str]:
        """Names of links to enter or to open; links out of the root are told in ``special``."""
        names = []
        for name in links:
            target = self._target(prefix + name)
            if isinstance(target, Passed):
                special[name] = target
            elif target is not None:
                names.append(name + target)
        return names

    def _target(self, path: str) -> str | Passed | None:
        """What a link stands for: "" a file, "/" a directory; None: met under another name."""
        link = os.path.join(self._base, path)
        try:
            real = os.path.realpath(link, strict=True)
            told = os.stat(real)
            inside = _inside(self._base, real)
            if not inside and not self._follow:
                return Passed(path, Content.LINK_OUT_OF_ROOT, os.readlink(link))
        except OSError as error:
            return Passed(path, Content.NOT_REGULAR, f"link: {reason(error)}")
        if inside and not (BY_HASH.search(real) and stat.S_ISREG(told.st_mode)):
            return None
        if stat.S_ISREG(told.st_mode):
            return "" if self._is_new(told) else None
        if stat.S_ISDIR(told.st_mode):
            return "/" if self._is_new(told) else None
        return Passed(path, Content.NOT_REGULAR)

    def _is_new(self, told: os.stat_result) -> bool:
        """Whether this is the first time that a file or a directory is met."""
        key = (told.st_dev, told.st_ino)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


class _Listing:
    """The names in one directory by kind, unsorted, up to the error that ended the listing."""

    __slots__ = ("directories", "error", "files", "links", "odd")

    def __init__(self, directory: str) -> None:
        self.files: list[str] = []
        self.directories: list[str] = []
        self.links: list[str] = []
        self.odd: list[str] = []
        self.error: OSError | None = None
        add = self.files.append
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        add(entry.name)
                    elif entry.is_dir(follow_symlinks=False):
                        self.directories.append(entry.name)
                    elif entry.is_symlink():
                        self.links.append(entry.name)
                    else:
                        self.odd.append(entry.name)
        except OSError as error:
            self.error = error

    @property
    def is_environment(self) -> bool:
        """Whether this is a virtual environment, of venv or of conda."""
        return "pyvenv.cfg" in self.files or "conda-meta" in self.directories


def _inside(base: str, real: str) -> bool:
    return real == base or real.startswith(base.rstrip("/") + "/")
