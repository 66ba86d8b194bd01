"""Files beside the one that is read, where that one says that its values are in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from .source import Beat, Source

Open = Callable[[str], BinaryIO]
"""A file of the directory by its name there. Raises OSError where there is none."""

_OPEN_FILES = 64


class Beside:
    """Each file is opened when it is needed; a bounded number stays open.

    ``total``: bytes of all files that were opened, each once.
    """

    def __init__(self, open_file: Open, beat: Beat | None = None) -> None:
        self._open, self._beat = open_file, beat
        self._held: dict[str, tuple[BinaryIO, Source]] = {}
        self._sizes: dict[str, int] = {}

    @property
    def total(self) -> int:
        return sum(self._sizes.values())

    def source(self, path: str) -> Source:
        """Raises OSError."""
        held = self._held.pop(path, None)
        if held is None:
            stream = self._open(path)
            held = stream, Source.of(stream, self._beat)
            self._sizes[path] = held[1].size
        self._held[path] = held
        while len(self._held) > _OPEN_FILES:
            self._held.pop(next(iter(self._held)))[0].close()
        return held[1]

    def close(self) -> None:
        for stream, _ in self._held.values():
            stream.close()


def leaves(path: str) -> bool:
    """Whether a name would lead out of the directory."""
    return not path or path.startswith("/") or "\\" in path or ".." in path.split("/")
