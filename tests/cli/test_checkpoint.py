"""``trainproof checkpoint`` as a shell sees it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.cli.test_commands import run
from tests.support.saved import HEALTHY, safetensors_bytes, torch_bytes, write


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    write(tmp_path / "saved" / "good.pt", torch_bytes())
    bad = {**HEALTHY, "head\x1b[31m.weight": [math.inf, math.nan]}
    write(tmp_path / "saved" / "bad.safetensors", safetensors_bytes(bad))
    return tmp_path / "saved"


def test_exit_codes_say_judged_failed_and_could_not_judge(saved: Path) -> None:
    assert run("checkpoint", saved / "good.pt").returncode == 0
    assert run("checkpoint", saved).returncode == 1
    assert run("checkpoint", saved, "--fail-on", "never").returncode == 0
    assert run("checkpoint", saved, "--ignore", "TP-CKPT-NAN").returncode == 2
    assert run("checkpoint", saved / "nowhere.pt").returncode == 2
    assert run("checkpoint", saved / "good.pt", "--depth", "structure").returncode == 2
    assert run("checkpoint", saved, "--depth", "all").returncode == 2


def test_a_table_for_people_has_a_line_for_each_file(saved: Path) -> None:
    text = run("checkpoint", "saved", cwd=saved.parent).stdout
    assert "2 checkpoints: 1 FAIL, 1 PASS" in text
    bad = next(line for line in text.splitlines() if "saved/bad.safetensors  " in line)
    assert bad.split()[:2] == ["FAIL", "saved/bad.safetensors"]
    assert bad.split()[-5:] == ["3", "8", "2", "12.50", "%"]
    assert "TP-CKPT-NAN" in text
    assert "fc.weight" not in text


def test_tensors_are_listed_where_asked_for_and_drive_no_terminal(saved: Path) -> None:
    text = run("checkpoint", saved, "--tensors").stdout
    assert "\x1b" not in text
    row = next(line for line in text.splitlines() if line.startswith("  head\\x1b[31m.weight"))
    assert row.split()[1:] == ["float32", "2", "2", "0", "%", "-"]


def test_a_report_on_stdout_is_alone_there_and_valid(saved: Path, tmp_path: Path) -> None:
    done = run("checkpoint", saved, "--json", "-")
    report = json.loads(done.stdout)
    assert {one["id"]: one["verdict"] for one in report["reports"]} == {
        "bad.safetensors": "FAIL",
        "good.pt": "PASS",
    }
    assert [one["kind"] for one in report["reports"]] == ["checkpoint", "checkpoint"]
    assert "TP-CKPT-NAN" in done.stderr
    path = write(tmp_path / "report.json", done.stdout.encode())
    assert run("validate", path).returncode == 0


def test_every_report_can_be_written_at_once(saved: Path, tmp_path: Path) -> None:
    names = {"sarif": "r.sarif", "junit": "r.xml", "markdown": "r.md"}
    flags = [part for name, file in names.items() for part in (f"--{name}", file)]
    assert run("checkpoint", "saved", *flags, cwd=tmp_path).returncode == 1
    assert json.loads((tmp_path / "r.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "r.xml").read_text().startswith("<?xml")
    assert "TP-CKPT-NAN" in (tmp_path / "r.md").read_text()


def test_a_report_never_overwrites_a_checkpoint(saved: Path) -> None:
    path = saved / "good.pt"
    before = path.read_bytes()
    assert run("checkpoint", path, "--json", path).returncode == 2
    assert path.read_bytes() == before


def test_a_checkpoint_is_compared_with_an_earlier_one(tmp_path: Path) -> None:
    write(tmp_path / "step_1.pt", torch_bytes())
    write(tmp_path / "step_2.pt", torch_bytes({**HEALTHY, "fc.bias": [0.25, 4.0], "new": [1.0]}))
    done = run("checkpoint", "step_2.pt", "--against", "step_1.pt", cwd=tmp_path)
    lines = done.stdout.splitlines()
    at = lines.index("step_2.pt since step_1.pt")
    assert lines[at + 1] == "  from step 1 to step 2: 1 added, 1 moved, 1 same"
    assert [line.split() for line in lines[at + 3 : at + 5]] == [
        ["new", "added", "float32", "1", "-", "-"],
        ["fc.bias", "moved", "float32", "2", "50.00", "%", "0.55902", "->", "4.0078"],
    ]
    assert "TP-CKPT-DRIFT" in done.stdout
    assert done.returncode == 0


def test_a_reference_that_is_not_there_cannot_be_judged(saved: Path) -> None:
    done = run("checkpoint", saved / "good.pt", "--against", saved / "nowhere.pt")
    assert done.returncode == 2


def test_a_report_never_overwrites_what_is_compared_with(saved: Path) -> None:
    path = saved / "bad.safetensors"
    before = path.read_bytes()
    assert run("checkpoint", saved / "good.pt", "--against", path, "--json", path).returncode == 2
    assert path.read_bytes() == before


def test_an_audit_judges_the_checkpoints_of_a_run_unless_told_not_to(tmp_path: Path) -> None:
    rows = (f'{{"step": {step}, "loss": {2 - step / 100}}}\n' for step in range(1, 61))
    write(tmp_path / "log.jsonl", "".join(rows).encode())
    write(tmp_path / "step_60.pt", torch_bytes({"w.weight": [math.nan, 1.0]}))
    done = run("audit", ".", cwd=tmp_path)
    assert (done.returncode, "1 run and 1 checkpoint" in done.stdout) == (1, True)
    assert run("audit", ".", "--no-checkpoints", cwd=tmp_path).returncode == 0
    assert run("audit", ".", "--checkpoints", "structure", cwd=tmp_path).returncode == 0
    limited = run("audit", ".", "--checkpoint-limit", "1", "--json", "-", cwd=tmp_path)
    (subject,) = (s for s in json.loads(limited.stdout)["reports"] if s["kind"] == "checkpoint")
    assert subject["checks"]["details"]["TP-CKPT-NAN"]["skip"] == "budget"
    assert run("audit", ".", "--checkpoints", "half", cwd=tmp_path).returncode == 2
    text = run("doctor", ".", cwd=tmp_path).stdout
    assert "Checkpoints: 1" in text
    assert "FAIL  step_60.pt: step 60, 1 file, " in text
