"""How much memory a process here may use: the machine's, or less where control groups say so.

A container sees the memory of its host in /proc/meminfo; what it may use is the limit of its
control group, and of each one around that.
https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.max)
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html (memory.limit_in_bytes)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainproof.model.environment import Memory

_MOST = 1 << 16
"""Bytes that are read of each of these files."""
_KIB = 1024


class _Names(msgspec.Struct, frozen=True):
    """The files of one version of control groups."""

    limit: str
    usage: str
    cache: str


_V2 = _Names("memory.max", "memory.current", "inactive_file")
_V1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def memory(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> Memory | None:
    """None where the system does not say (it is not Linux)."""
    told = _fields(proc / "meminfo")
    total = told.get("MemTotal:", 0) * _KIB
    if not total:
        return None
    available = told.get("MemAvailable:", told.get("MemFree:", 0)) * _KIB
    ceiling, limited = total, False
    for directory, names in _groups(proc, cgroup):
        limit = _number(directory / names.limit)
        if limit is None or limit >= total:
            continue
        ceiling, limited = min(ceiling, limit), True
        cache = _fields(directory / "memory.stat").get(names.cache, 0)
        used = (_number(directory / names.usage) or 0) - cache
        available = min(available, max(0, limit - max(0, used)))
    return Memory(total, ceiling, available, limited)


def _groups(proc: Path, root: Path) -> Iterator[tuple[Path, _Names]]:
    """Directories of all control groups around this process.

    Paths are those that the host sees: in a container the own group may be mounted as the root,
    and what lies below the path does not exist. One outside of the namespace begins with ``..``.
    """
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            yield from ((home, _V2) for top in (root, root / "unified") for home in _up(top, path))
        elif "memory" in controllers.split(","):
            yield from ((home, _V1) for home in _up(root / "memory", path))


def _up(top: Path, path: str) -> Iterator[Path]:
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for count in range(len(parts), -1, -1):
        yield top.joinpath(*parts[:count])


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _fields(path: Path) -> dict[str, int]:
    """First word to first number of each line."""
    found = {}
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isascii() and words[1].isdigit():
            found[words[0]] = int(words[1])
    return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""
