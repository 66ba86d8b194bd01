"""compare, and --baseline of audit, as a shell sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import run
from tests.rules.curves import learning
from tests.support.logs import broken, jsonl


def log(path: Path, first: float = 4.0, last: float = 1.0, seed: int = 1, count: int = 60) -> Path:
    return jsonl(path, {"loss": learning(count, first, last, seed=seed).tolist()})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A baseline, a run of another seed, one five times as high and one of nine rows."""
    log(tmp_path / "base" / "log.jsonl")
    log(tmp_path / "runs" / "same" / "log.jsonl", seed=2)
    log(tmp_path / "runs" / "high" / "log.jsonl", 9, 5, seed=3)
    log(tmp_path / "short" / "log.jsonl", seed=4, count=9)
    return tmp_path


def test_the_exit_code_follows_the_comparison(runs: Path) -> None:
    assert run("compare", runs / "base", runs / "runs" / "same").returncode == 0
    assert run("compare", runs / "base", runs / "runs" / "high").returncode == 1
    assert run("compare", runs / "base", runs / "runs").returncode == 1
    assert run("compare", runs / "base", runs / "short").returncode == 2
    assert run("compare", runs / "base").returncode == 2


def test_a_refused_comparison_outweighs_one_that_passed_and_not_one_that_failed(
    runs: Path,
) -> None:
    passed = run("compare", runs / "base", runs / "runs" / "same", runs / "short")
    assert passed.returncode == 2
    assert "a comparison that was asked for could not be made" in passed.stdout
    failed = run("compare", runs / "base", runs / "runs" / "high", runs / "short")
    assert failed.returncode == 1


def test_the_table_ranks_the_runs_below_the_baseline(runs: Path) -> None:
    done = run("compare", "base", "runs", "short", cwd=runs)
    rows = [line.split()[:2] for line in done.stdout.splitlines()[3:7]]
    assert rows == [
        ["BASELINE", "base"],
        ["PASS", "runs/same"],
        ["FAIL", "runs/high"],
        ["NOT-CHECKED", "short"],
    ]
    assert "runs/high: loss, steps 1 to 60" in done.stdout
    assert "share too few points" in done.stdout


def test_a_file_a_run_and_a_directory_of_runs_can_be_the_baseline(runs: Path) -> None:
    log(runs / "family" / "a" / "log.jsonl", seed=5)
    log(runs / "family" / "b" / "log.jsonl", seed=6)
    for baseline in (runs / "base" / "log.jsonl", runs / "base", runs / "family"):
        done = run("compare", baseline, runs / "runs" / "high" / "log.jsonl")
        assert done.returncode == 1
    assert "compared with 2 baselines" in done.stdout


def test_a_baseline_that_fails_by_itself_is_refused(runs: Path) -> None:
    broken(runs / "bad" / "log.jsonl")
    done = run("compare", "bad", "runs/same", cwd=runs)
    assert done.returncode == 2
    assert "The baseline bad fails by itself (TP-NAN)" in done.stdout


def test_a_baseline_that_is_not_there_is_never_silent(runs: Path) -> None:
    (runs / "empty").mkdir()
    for baseline, said in (("nowhere", "'nowhere'"), ("empty", "holds no run to compare with")):
        done = run("compare", baseline, "runs/same", cwd=runs)
        assert done.returncode == 2
        assert said in done.stdout
        assert run("audit", "runs/same", "--baseline", baseline, cwd=runs).returncode == 2


def test_a_run_is_never_compared_with_itself(runs: Path) -> None:
    alone = run("compare", "base", "base", cwd=runs)
    assert alone.returncode == 2
    assert "nothing to compare it with" in alone.stdout
    others = run("compare", "runs/same", "runs/same", "base", cwd=runs)
    assert others.returncode == 0
    assert "runs/same  is the baseline" in others.stdout


def test_siblings_are_compared_with_one_another(runs: Path) -> None:
    for seed in range(6):
        log(runs / "family" / f"seed{seed}" / "log.jsonl", seed=10 + seed)
    done = run("compare", "family", "family", "--json", "-", cwd=runs)
    report = json.loads(done.stdout)
    assert {r["verdict"] for r in report["reports"]} == {"PASS"}
    for one in report["reports"]:
        assert one["checks"]["coverage"]["states"]["TP-OUTSIDE-ENVELOPE"] == "CHECKED"
        assert one["id"] not in {c["baseline"].rpartition("/")[2] for c in one["comparisons"]}


def test_the_report_says_that_findings_come_from_the_comparison(runs: Path) -> None:
    done = run("compare", "base", "runs/high", "--json", "-", cwd=runs)
    report = json.loads(done.stdout)
    (one,) = report["reports"]
    assert {(f["id"], f["source"]) for f in one["findings"]} >= {
        ("TP-FLOOR-RATIO", "compare"),
        ("TP-END-RATIO", "compare"),
    }
    (comparison,) = one["comparisons"]
    assert (comparison["baseline"], comparison["series"]) == ("base", "loss")
    assert (comparison["first_step"], comparison["last_step"]) == (1, 60)
    assert len(comparison["curve"]) == len(comparison["baseline_curve"]) == 12
    assert one["checks"]["coverage"]["states"]["TP-NAN"] == "OUT_OF_SCOPE/CALLER"


def test_audit_applies_both_kinds_of_rules(runs: Path) -> None:
    done = run("audit", "runs/high", "--baseline", "base", "--json", "-", cwd=runs)
    assert done.returncode == 1
    (one,) = json.loads(done.stdout)["reports"]
    states = one["checks"]["coverage"]["states"]
    assert states["TP-NAN"] == states["TP-END-RATIO"] == "CHECKED"
    assert run("doctor", "runs/high", "--baseline", "base", cwd=runs).returncode == 1
    plain = run("audit", "runs/high", "--json", "-", cwd=runs)
    assert "TP-END-RATIO" not in json.loads(plain.stdout)["reports"][0]["checks"]["skipped"]


def test_a_refused_comparison_of_an_audit_exits_with_2_and_says_so(runs: Path) -> None:
    log(runs / "long" / "log.jsonl", seed=7, count=600)
    done = run("audit", "long", "--baseline", "base", cwd=runs)
    assert done.returncode == 2
    assert "the run cannot be compared with the baseline" in done.stdout


def test_the_report_of_a_comparison_validates_and_never_overwrites_the_baseline(
    runs: Path, tmp_path: Path
) -> None:
    report = tmp_path / "r.json"
    run("compare", runs / "base", runs / "runs", "--json", report)
    assert run("validate", report).returncode == 0
    log_file = runs / "base" / "log.jsonl"
    assert run("compare", log_file, runs / "runs", "--json", log_file).returncode == 2


def test_the_baseline_may_stand_in_the_settings(runs: Path) -> None:
    (runs / "trainproof.toml").write_text('baseline = "base"\n')
    assert run("audit", "runs/high", cwd=runs).returncode == 1


def test_workers_and_one_process_say_the_same(runs: Path) -> None:
    made = []
    for flag in ("--isolation", "--no-isolation"):
        done = run("compare", "base", "runs", "short", "--json", "-", flag, cwd=runs)
        report = json.loads(done.stdout)
        del report["invocation"]
        made.append(report)
    assert made[0] == made[1]
