"""The promise of every callback: whatever goes wrong in it, the training goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .core import LOG

Hook = TypeVar("Hook", bound=Callable[..., Any])


def harmless(hook: Hook) -> Hook:
    """The hook, with its faults told once by kind and then held back."""
    told: set[str] = set()

    @wraps(hook)
    def safe(*arguments: Any, **named: Any) -> Any:
        try:
            return hook(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - a fault in here never stops a training
            kind = f"{type(error).__name__} in {hook.__name__}"
            if kind not in told:
                told.add(kind)
                LOG.warning("trainproof: %s: the training goes on", kind, exc_info=True)
            return None

    return safe  # type: ignore[return-value]
