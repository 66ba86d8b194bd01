"""What a watch knows about a run beyond its log: how long ago the log last grew."""

from __future__ import annotations

import msgspec


class Following(msgspec.Struct, frozen=True):
    """``silent``: seconds since a file of the run last changed, by the clock of the watch.
    ``artifact``: the file that changed last. ``finished``: the run says that it is over."""

    silent: float
    artifact: str
    finished: bool = False
