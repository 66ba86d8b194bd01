"""A progress bar on stderr, when stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from trainproof.api import Progress


@contextmanager
def reporting(wanted: bool) -> Iterator[Progress | None]:
    """The function to call as runs are judged; None where nobody is watching."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - 40 ms that a pipeline need not pay
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (TextColumn("judging runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
