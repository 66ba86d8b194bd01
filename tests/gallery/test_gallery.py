"""What an audit finds in each run of the gallery, locked run by run."""

from __future__ import annotations

import json

import pytest

from trainproof import Report, audit

from .expect import GALLERY, expected, found

RUNS = sorted(str(path.parent.relative_to(GALLERY)) for path in GALLERY.rglob("run_meta.json"))
EXPECTED = expected()


@pytest.fixture(scope="module")
def report() -> Report:
    return audit(str(GALLERY))


def test_every_run_has_an_expectation_and_is_one_report(report: Report) -> None:
    assert sorted(EXPECTED) == RUNS
    assert sorted(run.id for run in report.reports) == RUNS


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gets_the_verdict_and_the_findings_it_is_known_for(report: Report, name: str) -> None:
    assert found(report)[name] == EXPECTED[name]


def test_the_expectations_are_those_of_the_faults() -> None:
    """What they may not become, however the rules change."""
    failing = {"lr_hot": "TP-DIVERGE", "lr_zero": "TP-ZERO-LR", "nan": "TP-NAN-GRAD"}
    for name, one in EXPECTED.items():
        fault = name.split("/")[1]
        if fault == "healthy":
            assert (one.verdict, one.findings) == ("PASS", {}), name
        elif fault in failing:
            assert (one.verdict, one.findings[failing[fault]]) == ("FAIL", "FAIL"), name
        elif fault == "bad_labels":
            assert one.verdict in ("WARN", "FAIL"), name
        else:  # a note where a held-out metric goes on improving
            assert "TP-OVERFIT" in one.findings, name


@pytest.mark.parametrize("name", RUNS)
def test_both_logs_of_a_run_are_read_and_its_values_are_counted_once(
    report: Report, name: str
) -> None:
    (run,) = [run for run in report.reports if run.id == name]
    losses = [s for s in run.series if (s.role, s.split) == ("loss", "train")]
    assert [s.points for s in losses if s.scope == "step"] in ([80], [])
    logs = [artifact for artifact in run.artifacts if artifact.kind == "log"]
    assert len(logs) == (1 if name.startswith("hf/") else 2)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_says_what_was_done_to_it_and_names_no_machine(name: str) -> None:
    meta = json.loads((GALLERY / name / "run_meta.json").read_text("utf-8"))
    assert [meta["framework"], meta["fault"], f"seed{meta['seed']}"] == name.split("/")
    assert bool(meta["injected"]) == (meta["fault"] != "healthy")
    files = sorted(path.name for path in (GALLERY / name).iterdir())
    assert not [f for f in files if "tfevents" in f and not f.endswith(".1700000000.host.1.0")]
    assert sum(path.stat().st_size for path in (GALLERY / name).iterdir()) < 50_000
