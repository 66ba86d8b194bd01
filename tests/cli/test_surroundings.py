"""``trainproof env`` and ``trainproof data`` as a shell sees them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_commands import run
from tests.support.audio import tone, write_wav


def test_env_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("x = 1\n")
    (tmp_path / "bad.py").write_text("import no_such_package\n")
    assert run("env", "--module", "good", cwd=tmp_path).returncode == 0
    assert run("env", "--module", "bad", "--cwd", tmp_path).returncode == 1
    assert run("env", "--module", "bad", "--cwd", tmp_path, "--fail-on", "never").returncode == 0
    assert run("env", cwd=tmp_path).returncode == 2
    assert run("env", "--module", "good", "--python", "/nowhere", cwd=tmp_path).returncode == 2
    assert run("env", "--required-gb", "many").returncode == 2


def test_env_says_what_it_measured_and_what_it_found(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\nos._exit(0)\n")
    text = run("env", "--module", "train", cwd=tmp_path).stdout
    assert "memory_available_gb" in text
    assert "FAIL TP-ENV-IMPORT-CRASH  Importing train ended the interpreter" in text


def test_env_takes_as_long_as_it_may(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(30)\n")
    done = run("env", "--module", "train", "--timeout", "1", "-q", cwd=tmp_path)
    assert done.returncode == 0
    assert "TP-ENV-IMPORT-TIMEOUT" in done.stdout


def test_env_judges_settings_that_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("max_steps: 100\nsave_steps: 500\n")
    report = json.loads(run("env", path, "--json", "-", cwd=tmp_path).stdout)
    (finding,) = report["reports"][0]["findings"]
    assert (finding["id"], finding["location"]["line"]) == ("TP-CONFIG-CADENCE", 2)
    report_path = tmp_path / "report.json"
    report_path.write_text(json.dumps(report))
    assert run("validate", report_path).returncode == 0


def test_data_exit_codes_and_reports(tmp_path: Path) -> None:
    home = tmp_path / "corpus"
    for number in range(3):
        write_wav(home / f"{number}.wav", tone(pitch=200.0 + number))
        (home / f"{number}.txt").write_text("some words that are spoken")
    assert run("data", home).returncode == 0
    assert run("data", tmp_path / "nowhere").returncode == 2
    (home / "metadata.csv").write_text("0.wav|some words\n9.wav|other words\n")
    done = run("data", home, "--sarif", tmp_path / "r.sarif", "--junit", tmp_path / "r.xml")
    assert done.returncode == 1
    assert "FAIL TP-DATA-MISSING-AUDIO" in done.stdout
    results = json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"]
    assert [one["ruleId"] for one in results if one["level"] == "error"] == [
        "TP-DATA-MISSING-AUDIO"
    ]
    assert (tmp_path / "r.xml").read_text().startswith("<?xml")
