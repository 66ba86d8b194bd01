"""What one child process may use."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
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
