"""Runs of the gallery against a healthy run of the same trainer, of another seed or not."""

from __future__ import annotations

import pytest

from trainproof import audit

from .expect import GALLERY

DIFFERS = {"TP-FLOOR-RATIO", "TP-END-RATIO", "TP-IMPROVE-DEFICIT", "TP-NEG-IMPROVE"}
"""What tells a run from a healthy one by its losses."""


@pytest.mark.parametrize("seed", ["seed1", "seed2", "seed3"])
@pytest.mark.parametrize("trainer", ["hf", "lightning", "torch"])
def test_a_baseline_tells_the_spoiled_runs_from_the_healthy_ones(trainer: str, seed: str) -> None:
    healthy = GALLERY / trainer / "healthy" / seed
    report = audit(str(GALLERY / trainer), baseline=str(healthy))
    assert len(report.reports) >= 17
    for run in report.reports:
        found = {finding.id for finding in run.findings if finding.level == "FAIL"} & DIFFERS
        if run.id.startswith("healthy"):
            assert (run.verdict, found) == ("PASS", set()), run.id
        elif not run.id.startswith("nan"):
            assert (run.verdict, bool(found)) == ("FAIL", True), run.id
