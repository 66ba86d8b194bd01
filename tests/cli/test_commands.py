"""The commands as a shell sees them: exit codes, streams, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.logs import broken, healthy
from trainproof import __version__


def run(
    *arguments: str | Path, cwd: Path | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trainproof", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        input=stdin,
    )


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    healthy(tmp_path / "runs" / "good" / "log.jsonl")
    broken(tmp_path / "runs" / "bad" / "log.jsonl")
    return tmp_path / "runs"


def test_exit_codes_say_judged_failed_and_could_not_judge(runs: Path) -> None:
    assert run("audit", runs / "good").returncode == 0
    assert run("audit", runs).returncode == 1
    assert run("audit", runs / "nowhere").returncode == 2
    assert run("audit", runs, "--select", "TP-NO-SUCH").returncode == 2
    assert run("audit", runs, "--no-such-option").returncode == 2
    assert run("audit", runs, "--fail-on", "never").returncode == 0


def test_a_report_on_stdout_is_alone_there_and_people_read_stderr(runs: Path) -> None:
    done = run("audit", runs, "--json", "-")
    report = json.loads(done.stdout)
    assert report["schema_version"] == 4
    assert report["worst_verdict"] == "FAIL"
    assert {r["id"]: r["verdict"] for r in report["reports"]} == {"bad": "FAIL", "good": "PASS"}
    assert "TP-NAN" in done.stderr


def unheard(*arguments: str | Path) -> int:
    """Exit code of a command whose standard output nobody reads."""
    readable, writable = os.pipe()
    os.close(readable)
    try:
        command = [sys.executable, "-m", "trainproof", *map(str, arguments)]
        return subprocess.run(
            command, stdout=writable, stderr=subprocess.PIPE, check=False, timeout=60
        ).returncode
    finally:
        os.close(writable)


def test_a_verdict_does_not_depend_on_who_reads_it(runs: Path) -> None:
    assert unheard("audit", runs / "good") == 0
    assert unheard("audit", runs) == 1
    assert unheard("audit", runs / "good", "--json", "-") == 2
    assert unheard("watch", runs / "good", "--json", "--no-isolation") == 0


def test_every_report_can_be_written_at_once(runs: Path, tmp_path: Path) -> None:
    names = {"json": "r.json", "sarif": "r.sarif", "junit": "r.xml", "markdown": "r.md"}
    flags = [part for name, file in names.items() for part in (f"--{name}", file)]
    assert run("audit", "runs", *flags, cwd=tmp_path).returncode == 1
    assert json.loads((tmp_path / "r.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "r.xml").read_text().startswith("<?xml")
    assert "TP-NAN" in (tmp_path / "r.md").read_text()
    assert [p.name for p in tmp_path.glob(".r.*")] == []


def test_an_output_never_overwrites_what_is_audited(runs: Path) -> None:
    log = runs / "bad" / "log.jsonl"
    before = log.read_bytes()
    done = run("audit", log, "--json", log)
    assert done.returncode == 2
    assert "overwrite" in done.stderr
    assert log.read_bytes() == before
    assert run("doctor", "--json", runs).returncode == 2


def test_an_output_never_overwrites_what_was_found_below_the_path(runs: Path) -> None:
    log = runs / "bad" / "log.jsonl"
    before = log.read_bytes()
    done = run(
        "audit", runs, "--sarif", runs / "new.sarif", "--json", runs / "good/../bad/log.jsonl"
    )
    assert (done.returncode, "would overwrite what was judged" in done.stderr) == (2, True)
    assert log.read_bytes() == before
    assert not (runs / "new.sarif").exists()


def test_two_reports_cannot_share_stdout(runs: Path) -> None:
    assert run("audit", runs, "--json", "-", "--sarif", "-").returncode == 2


def test_two_reports_cannot_share_a_file(runs: Path) -> None:
    done = run("audit", "good", "--json", "report", "--sarif", "./report", cwd=runs)
    assert done.returncode == 2
    assert done.stderr == "trainproof: --json and --sarif would write the same file ./report\n"
    assert not (runs / "report").exists()
    assert (
        run("audit", "good", "--json", "/dev/null", "--sarif", "/dev/null", cwd=runs).returncode
        == 0
    )


def test_a_report_that_cannot_be_written_is_named(runs: Path) -> None:
    done = run("audit", runs / "good", "--json", "/dev/full")
    assert done.returncode == 2
    assert done.stderr == (
        "trainproof: cannot write the report /dev/full: No space left on device\n"
    )


def test_a_target_that_cannot_be_written_is_met_before_the_audit(runs: Path) -> None:
    done = run("audit", runs, "--json", runs / "no" / "such" / "dir.json")
    assert done.returncode == 2
    assert "there is no directory" in done.stderr


def test_paths_can_come_on_stdin(runs: Path) -> None:
    done = run("audit", "-", "--quiet", stdin=f"{runs / 'good'}\n{runs / 'bad'}\n")
    assert done.returncode == 1
    assert run("audit", "-", stdin="").returncode == 2


def test_a_path_that_is_named_twice_is_judged_once(runs: Path) -> None:
    done = run("audit", "good", "bad", "good/", "./bad", "--json", "-", cwd=runs)
    assert [one["root"] for one in json.loads(done.stdout)["reports"]] == ["good", "bad"]


def test_a_list_of_paths_may_have_the_line_ends_of_windows(runs: Path) -> None:
    done = run("audit", "-", "--json", "-", stdin=f"{runs / 'good'}\r\n{runs / 'bad'}\r\n")
    assert len(json.loads(done.stdout)["reports"]) == 2


def test_a_column_that_is_mapped_and_not_there_is_told(runs: Path) -> None:
    done = run("audit", runs / "good", "--map", "loss=loss", "--map", "lr=rate")
    assert done.returncode == 0
    assert done.stderr == "trainproof: --map lr=rate: no column of that name was read\n"


def test_doctor_judges_the_working_directory_by_default(runs: Path) -> None:
    done = run("doctor", cwd=runs)
    assert done.returncode == 1
    assert done.stdout.index("bad") < done.stdout.index("good")


def test_epoch_judges_one_log_and_refuses_a_directory(runs: Path) -> None:
    assert run("epoch", runs / "good" / "log.jsonl").returncode == 0
    assert run("epoch", runs / "bad" / "log.jsonl").returncode == 1
    assert run("epoch", runs).returncode == 2


def test_a_saved_report_validates_and_renders_as_if_it_were_fresh(
    runs: Path, tmp_path: Path
) -> None:
    fresh, saved = tmp_path / "fresh.sarif", tmp_path / "saved.sarif"
    report = tmp_path / "r.json"
    run("audit", runs, "--json", report, "--sarif", fresh)
    assert run("validate", report).returncode == 0
    assert run("render", report, "--sarif", saved).returncode == 0
    assert saved.read_bytes() == fresh.read_bytes()


def test_validate_names_what_is_wrong(runs: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    run("audit", runs, "--json", report)
    document = json.loads(report.read_text())
    document["worst_verdict"] = "GREAT"
    report.write_text(json.dumps(document))
    done = run("validate", report)
    assert done.returncode == 2
    assert "$.worst_verdict" in done.stderr
    assert run("render", report, "--sarif", "-").returncode == 2


def test_rules_are_listed_and_explained() -> None:
    assert "TP-NAN" in run("rules").stdout
    explained = run("rules", "explain", "tp-nan").stdout
    assert "**Does not mean.**" in explained
    assert run("rules", "explain", "TP-NO-SUCH").returncode == 2


def test_version_and_help_need_no_command() -> None:
    assert run("--version").stdout == f"trainproof {__version__}\n"
    assert "audit" in run("--help").stdout
    assert run("audit", "--help").returncode == 0


def test_names_in_logs_cannot_drive_a_terminal(tmp_path: Path) -> None:
    broken(tmp_path / "runs" / "evil\x1b[31m" / "log.jsonl")
    done = run("audit", tmp_path / "runs")
    assert "\x1b" not in done.stdout
    assert "evil\\x1b[31m" in done.stdout
