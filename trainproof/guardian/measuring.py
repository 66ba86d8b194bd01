"""What a callback measures beside the metrics: clocks that are read, nothing that is touched."""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import msgspec


class Stopwatch(msgspec.Struct):
    """Times of the steps since the last ``take``, in seconds.

    A step lasts from ``idle``, when the loop asks for the next batch, over ``begin``, when it has
    it, to ``end``. What is done between ``end`` and the next ``idle`` (evaluation, saving) counts
    nowhere.
    """

    _idle: float | None = None
    _begun: float | None = None
    _waits: list[float] = msgspec.field(default_factory=list)
    _steps: list[float] = msgspec.field(default_factory=list)

    def idle(self) -> None:
        self._idle = time.perf_counter()

    def begin(self) -> None:
        self._begun = time.perf_counter()

    def end(self) -> None:
        now = time.perf_counter()
        if self._idle is not None and self._begun is not None:
            self._waits.append(self._begun - self._idle)
            self._steps.append(now - self._idle)
        self._begun, self._idle = None, now

    def take(self, batches: int = 1) -> dict[str, float]:
        """Medians since the last call: the step time, and the part of it spent waiting for data;
        each for one of the ``batches`` that a step executes."""
        if not self._steps:
            return {}
        found = {
            "step_time": statistics.median(self._steps) / batches,
            "loader_time": statistics.median(self._waits) / batches,
        }
        self._steps.clear()
        self._waits.clear()
        return found


def gpu() -> dict[str, float]:
    """Load in percent and reserved memory in bytes of the current device, where torch has been
    imported, has started CUDA, and can tell. Starts nothing."""
    torch: Any = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return {}
        found = {"gpu_memory": float(torch.cuda.memory_reserved())}
        if "pynvml" in sys.modules or _has_nvml():
            found["gpu_util"] = float(torch.cuda.utilization())
    except Exception:  # noqa: BLE001 - a driver that cannot tell is no trouble of the training
        return {}
    return found


def _has_nvml() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - only where there is a GPU

    return find_spec("pynvml") is not None
