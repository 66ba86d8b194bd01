"""``trainproof env`` and ``trainproof data`` as a shell sees them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_commands import run
from tests.support.audio import tone, write_wav


def test_env_says_what_it_measured_and_found_and_exits_so(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("x = 1\n")
    (tmp_path / "bad.py").write_text("import os\nos._exit(0)\n")
    assert run("env", "--module", "good", "-q", cwd=tmp_path).returncode == 0
    assert run("env", "-q", cwd=tmp_path).returncode == 2
    done = run("env", "--module", "bad", "--cwd", tmp_path)
    assert done.returncode == 1
    assert "memory_available_gb" in done.stdout
    assert "FAIL TP-ENV-IMPORT-CRASH  Importing bad ended the interpreter" in done.stdout


def test_env_takes_as_long_as_it_may(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)\n")
    done = run("env", "--module", "train", "--timeout", "1", "-q", cwd=tmp_path)
    assert done.returncode == 0
    assert "TP-ENV-IMPORT-TIMEOUT" in done.stdout


def test_env_judges_settings_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("max_steps: 100\nsave_steps: 500\n")
    report = tmp_path / "report.json"
    run("env", "mine.yaml", "--json", report, cwd=tmp_path)
    (finding,) = json.loads(report.read_text())["reports"][0]["findings"]
    assert (finding["id"], finding["location"]["line"]) == ("TP-CONFIG-CADENCE", 2)
    assert run("validate", report).returncode == 0


def test_data_judges_and_reports(tmp_path: Path) -> None:
    write_wav(tmp_path / "0.wav", tone())
    (tmp_path / "metadata.csv").write_text("0.wav|some words\n9.wav|other words\n")
    done = run("data", ".", "--sarif", "r.sarif", "--junit", "r.xml", cwd=tmp_path)
    assert done.returncode == 1
    assert "FAIL TP-DATA-MISSING-AUDIO" in done.stdout
    results = json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"]
    assert [one["ruleId"] for one in results if one["level"] == "error"] == [
        "TP-DATA-MISSING-AUDIO"
    ]
    assert (tmp_path / "r.xml").read_text().startswith("<?xml")
