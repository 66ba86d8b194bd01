"""A progress bar on stderr, when stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from trainproof.api import Watcher
from trainproof.model.progress import Progress

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@contextmanager
def reporting(wanted: bool, terminal: TextIO | None = None) -> Iterator[Watcher | None]:
    """Who is to be told how far an audit has come; None where nobody is watching."""
    terminal = sys.stderr if terminal is None else terminal
    if not wanted or not terminal.isatty():
        yield None
        return
    # rich takes 40 ms to import, which a pipeline need not pay.
    from rich import progress as bars  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    columns = (
        bars.TextColumn("judging", markup=False),
        bars.BarColumn(),
        bars.TextColumn("{task.description}", markup=False),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(file=terminal), transient=True) as bar:
        task = bar.add_task("", total=None)

        def told(progress: Progress) -> None:
            read = progress.read
            counted = (progress.judged, progress.subjects)
            done, total = (read.done, read.total) if read.total else counted
            bar.update(task, completed=done, total=total, description=spoken(progress))

        yield told


def spoken(progress: Progress) -> str:
    """What a person reads: ``2 of 7, 1.2 of 12.0 GB, 3,400,000 rows``."""
    read = progress.read
    parts = [f"{progress.judged} of {progress.subjects}"]
    if read.total:
        parts.append(_bytes(read.done, read.total))
    if read.rows:
        parts.append(f"{read.rows:,} rows")
    return ", ".join(parts)


def _bytes(done: int, total: int) -> str:
    """Both in the unit of the total."""
    power = min((len(str(total)) - 1) // 3, len(_UNITS) - 1)
    digits = 1 if power else 0
    scale: int = 1000**power
    return f"{done / scale:.{digits}f} of {total / scale:.{digits}f} {_UNITS[power]}"
