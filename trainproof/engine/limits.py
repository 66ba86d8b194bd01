"""What one process may use, and how often it looks for garbage."""

from __future__ import annotations

import gc
import sys

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """``step_seconds``: for one file or one rule. ``memory_bytes``: address space, 0 for none."""

    step_seconds: float = 120.0
    startup_seconds: float = 60.0
    memory_bytes: int = 4 * 1024**3


def limit_this_process(memory_bytes: int) -> bool:
    """No core files, and an address-space limit; False where that cannot be enforced.

    Call it after the heavy imports.
    """
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return False
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not memory_bytes:
        return True
    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    except (OSError, ValueError):
        return False
    return sys.platform == "linux"


def collect_rarely() -> None:
    """What was imported stays, and what readers, rules and reports make holds next to no cycles:
    looking for them took a fifth of a worker's time and a third of its parent's.

    For processes of our own; call it after the imports, in which nobody need look at all.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
