"""Clocks, and the promise that nothing in a callback stops a training."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from trainproof.guardian.harmless import harmless
from trainproof.guardian.measuring import Stopwatch, gpu


def test_a_step_lasts_from_asking_for_the_batch_to_its_end() -> None:
    watch = Stopwatch()
    watch.idle()
    for _ in range(3):
        time.sleep(0.01)
        watch.begin()
        time.sleep(0.02)
        watch.end()
    found = watch.take()
    assert found["loader_time"] >= 0.01
    assert found["step_time"] >= found["loader_time"] + 0.02
    assert watch.take() == {}


def test_what_is_done_between_steps_counts_nowhere() -> None:
    watch = Stopwatch()
    watch.idle()
    watch.begin()
    watch.end()
    time.sleep(0.2)  # an evaluation
    watch.idle()
    watch.begin()
    watch.end()
    assert watch.take()["step_time"] < 0.1


def test_a_step_that_was_not_begun_is_not_counted() -> None:
    watch = Stopwatch()
    watch.end()
    assert watch.take() == {}


class Cuda:
    def __init__(self, *, started: bool = True, fails: bool = False) -> None:
        self.started, self.fails = started, fails

    def is_initialized(self) -> bool:
        return self.started

    def memory_reserved(self) -> int:
        if self.fails:
            raise RuntimeError("driver")
        return 2**30

    def utilization(self) -> int:
        return 37


@pytest.mark.parametrize(
    ("cuda", "found"),
    [
        (Cuda(started=False), {}),
        (Cuda(fails=True), {}),
        (Cuda(), {"gpu_memory": 2.0**30, "gpu_util": 37.0}),
    ],
)
def test_a_device_is_asked_only_where_it_runs_already(
    monkeypatch: pytest.MonkeyPatch, cuda: Cuda, found: dict[str, float]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace())
    assert gpu() == found


def test_without_torch_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert gpu() == {}


def test_a_fault_is_told_once_by_kind_and_goes_no_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @harmless
    def hook(error: Exception | None) -> Any:
        if error is not None:
            raise error
        return 7

    assert [hook(ValueError()), hook(ValueError()), hook(OSError()), hook(None)] == [
        None,
        None,
        None,
        7,
    ]
    assert [record.getMessage() for record in caplog.records] == [
        "trainproof: ValueError in hook: the training goes on",
        "trainproof: OSError in hook: the training goes on",
    ]


def test_an_interrupt_is_no_fault() -> None:
    @harmless
    def hook() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hook()
