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
    # rich takes 40 ms to import, which a pipeline need not pay.
    from rich import progress as bars  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    columns = (
        bars.TextColumn("judging runs"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
