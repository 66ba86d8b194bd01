"""action.yml: its steps are run as the runner runs them, on runs of the gallery."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from .support.actions import ActionResult, StandIn, run_action

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "examples" / "gallery"
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
UPLOAD = "github/codeql-action/upload-sarif"

Act = Callable[..., ActionResult]


def installed(_: Mapping[str, str]) -> Mapping[str, str]:
    """In the place of the installation: the environment that runs the tests."""
    return {"bin": str(Path(sys.executable).parent)}


def accept(_: Mapping[str, str]) -> Mapping[str, str]:
    return {}


def refuse(_: Mapping[str, str]) -> Mapping[str, str]:
    raise RuntimeError("Resource not accessible by integration")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A checkout with one healthy and one failed run."""
    for fault in ("healthy", "nan"):
        shutil.copytree(GALLERY / "torch" / fault / "seed1", tmp_path / "checkout" / "runs" / fault)
    return tmp_path / "checkout"


@pytest.fixture
def act(workspace: Path, tmp_path: Path) -> Act:
    (tmp_path / "temp").mkdir()

    def act(upload: StandIn = accept, **inputs: str) -> ActionResult:
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        stand_ins = {"actions/setup-python": accept, "install": installed, UPLOAD: upload}
        return run_action(ROOT, workspace, tmp_path / "temp", given, stand_ins)

    return act


# --- what it says of itself -----------------------------------------------------------------


def test_every_input_that_is_used_is_declared_and_the_other_way_round() -> None:
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(STEPS)))
    assert used == set(ACTION["inputs"])


def test_no_input_is_required_and_each_has_a_default_and_a_description() -> None:
    for name, spec in ACTION["inputs"].items():
        assert set(spec) == {"description", "default"}, name
        assert isinstance(spec["default"], str), name


def test_no_expression_is_pasted_into_a_script() -> None:
    assert [step["name"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_other_actions_are_pinned_by_commit_with_their_version_beside() -> None:
    lines = [line for line in (ROOT / "action.yml").read_text().splitlines() if "uses: " in line]
    assert len(lines) == 2
    for line in lines:
        assert re.search(r"uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)


# --- what it does ---------------------------------------------------------------------------


def test_a_failed_run_fails_the_job_and_is_counted(act: Act, workspace: Path) -> None:
    result = act(paths="runs")
    assert not result.success
    assert {k: v for k, v in result.outputs.items() if k not in ("json", "sarif")} == {
        "verdict": "FAIL",
        "failed": "1",
        "warned": "0",
        "not-checked": "0",
        "passed": "1",
        "exit-code": "1",
        "junit": "",
    }


def test_a_healthy_run_passes_the_job(act: Act) -> None:
    result = act(paths="runs/healthy")
    assert result.success
    assert (result.outputs["verdict"], result.outputs["exit-code"]) == ("PASS", "0")


def test_outputs_name_the_files_that_were_written(act: Act, workspace: Path) -> None:
    result = act(
        paths="runs", json_file="out/report.json", sarif_file="out/a.sarif", junit_file="out/j.xml"
    )
    named = {name: result.outputs[name] for name in ("json", "sarif", "junit")}
    assert named == {"json": "out/report.json", "sarif": "out/a.sarif", "junit": "out/j.xml"}
    assert json.loads((workspace / "out/report.json").read_text())["worst_verdict"] == "FAIL"
    assert json.loads((workspace / "out/a.sarif").read_text())["version"] == "2.1.0"
    assert (workspace / "out/j.xml").read_text().startswith("<?xml")


def test_several_paths_go_one_a_line_and_may_hold_spaces(act: Act, workspace: Path) -> None:
    (workspace / "runs/nan").rename(workspace / "runs/not a number")
    result = act(paths="runs/healthy\nruns/not a number\n")
    assert (result.outputs["failed"], result.outputs["passed"]) == ("1", "1")


def test_nothing_of_an_input_is_run_as_a_command(act: Act, workspace: Path) -> None:
    act(paths="$(touch runs/pwned)`touch runs/pwned`; touch runs/pwned", args="$(touch runs/pwned)")
    assert not (workspace / "runs/pwned").exists()


def test_fail_on_never_keeps_the_job_green(act: Act) -> None:
    result = act(paths="runs", fail_on="never")
    assert result.success
    assert result.outputs["verdict"] == "FAIL"


def test_a_usage_error_is_2_and_not_a_statement_about_a_run(act: Act) -> None:
    result = act(paths="runs", select="TP-NO-SUCH-RULE")
    assert not result.success
    assert (result.outputs["exit-code"], result.outputs["verdict"]) == ("2", "NOT-CHECKED")
    assert (result.outputs["json"], result.outputs["sarif"]) == ("", "")


def test_a_report_of_an_earlier_audit_is_not_taken_for_this_one(act: Act, workspace: Path) -> None:
    act(paths="runs", json_file="report.json")
    assert act(paths="runs", json_file="report.json", select="TP-NO").outputs["json"] == ""


def test_rules_can_be_chosen(act: Act, workspace: Path) -> None:
    act(paths="runs", select="TP-NAN,TP-ZERO-LR", ignore="TP-ZERO-LR", json_file="report.json")
    report = json.loads((workspace / "report.json").read_text())
    states = [run["checks"]["coverage"]["states"] for run in report["reports"]]
    in_scope = {id for run in states for id, state in run.items() if state != "OUT_OF_SCOPE/CALLER"}
    assert in_scope == {"TP-NAN"}


def test_further_arguments_go_one_a_line(act: Act) -> None:
    result = act(paths="runs", args="--exclude\nruns/nan/*\n--exclude\nnan/*")
    assert (result.outputs["failed"], result.outputs["passed"]) == ("0", "1")


def test_a_run_is_compared_with_a_baseline_of_the_working_directory(
    act: Act, workspace: Path
) -> None:
    (workspace / "runs").rename(workspace / "project")
    shutil.copytree(GALLERY / "torch/healthy/seed2", workspace / "project/good")
    result = act(paths="healthy", baseline="good", working_directory="project")
    assert result.outputs["exit-code"] == "0"
    report = json.loads(Path(result.outputs["json"]).read_text("utf-8"))
    compared = {one["baseline"] for run in report["reports"] for one in run["comparisons"]}
    assert compared == {"project/good"}


def test_a_working_directory_keeps_paths_from_the_root_of_the_checkout(
    act: Act, workspace: Path
) -> None:
    project = workspace / "project"
    project.mkdir()
    (workspace / "runs").rename(project / "runs")
    (project / "trainproof.toml").write_text('fail_on = "never"\n')
    result = act(paths="runs/nan", working_directory="project/", sarif_file="audit.sarif")
    assert result.success, result.log
    assert result.outputs["sarif"] == "project/audit.sarif"
    sarif = json.loads((project / "audit.sarif").read_text())
    uris = {
        location["physicalLocation"]["artifactLocation"]["uri"]
        for found in sarif["runs"][0]["results"]
        for location in found["locations"]
    }
    assert {uri.rpartition("/")[0] for uri in uris} == {"project/runs/nan"}


def test_the_summary_goes_to_the_page_of_the_job(act: Act) -> None:
    assert "FAIL" in act(paths="runs").summary
    assert act(paths="runs", job_summary="false").summary == ""


def test_sarif_is_uploaded_in_its_category(act: Act) -> None:
    seen: list[Mapping[str, str]] = []

    def upload(inputs: Mapping[str, str]) -> Mapping[str, str]:
        seen.append(inputs)
        return {}

    result = act(paths="runs", category="nightly", upload=upload)
    assert seen == [{"sarif_file": result.outputs["sarif"], "category": "nightly"}]
    assert "::error" not in result.log


def test_a_refused_upload_becomes_annotations_and_leaves_the_verdict(act: Act) -> None:
    result = act(paths="runs/nan", upload=refuse)
    assert result.steps["upload"].outcome == "failure"
    assert re.search(r"^::error .*file=runs/nan/", result.log, re.MULTILINE)
    assert result.outputs["exit-code"] == "1"
    assert act(paths="runs/healthy", upload=refuse).success


def test_annotations_can_be_forced_and_silenced(act: Act) -> None:
    assert "::error" in act(paths="runs", annotations="true").log
    assert "::error" not in act(paths="runs", annotations="false", upload_sarif="false").log
    assert "::error" in act(paths="runs", upload_sarif="false").log


def test_a_python_of_the_machine_needs_no_setup(act: Act) -> None:
    assert act(paths="runs/healthy", python_version="").steps["python"].outcome == "skipped"


@pytest.mark.skipif(
    "TRAINPROOF_TEST_INSTALL" not in os.environ, reason="installs from a package index"
)
def test_it_installs_itself_from_its_own_checkout(tmp_path: Path, workspace: Path) -> None:
    checkout = tmp_path / "action"
    shutil.copytree(
        ROOT, checkout, ignore=shutil.ignore_patterns(".git", "examples", "tests", "benchmarks")
    )
    (tmp_path / "temp").mkdir()
    stand_ins = {UPLOAD: accept}
    inputs = {"python-version": "", "paths": "runs/healthy"}
    result = run_action(checkout, workspace, tmp_path / "temp", inputs, stand_ins)
    assert result.success, result.log
    assert result.outputs["passed"] == "1"
