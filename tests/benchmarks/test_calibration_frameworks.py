"""Trainings by frameworks: their own writers leave what the audit reads and judges."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

for library in ("torch", "transformers", "lightning", "tensorboard"):
    pytest.importorskip(library)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from benchmarks.calibration import frameworks
    from benchmarks.calibration.outcomes import Outcome


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The frameworks warn of their own deprecations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("framework", frameworks.FRAMEWORKS)
def test_a_framework_trains_and_a_learning_rate_of_zero_fails(
    tmp_path: Path, framework: str
) -> None:
    setting = replace(
        frameworks.draw("curve", framework, 0), rows=40, every=1, batch=32, rate=0.01, evaluations=8
    )
    control = frameworks.run(tmp_path, setting, frameworks.CLEAN, None)
    assert control.outcome is Outcome.HEALTHY
    assert not control.flagged("FAIL")
    assert frameworks.run(tmp_path, setting, "lr-zero", control).flagged("FAIL")


@pytest.mark.parametrize("setup", frameworks.SETUPS)
def test_a_sound_training_with_an_odd_loss_is_not_warned_of(tmp_path: Path, setup: str) -> None:
    setting = replace(frameworks.draw("curve", setup, 0), rows=40, every=1, batch=32, rate=0.01)
    run = frameworks.run(tmp_path, setting, frameworks.CLEAN, None)
    assert run.outcome is Outcome.HEALTHY
    assert not run.flagged("FAIL", "WARN")
