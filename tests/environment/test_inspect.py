"""The parts together, and judged, as ``trainproof env`` does it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.saved import torch_bytes, write
from trainproof import api
from trainproof.config import Config
from trainproof.model.inspection import EnvironmentRequest, Requests
from trainproof.model.report import ExitCode, Report, SubjectReport, Verdict, exit_code
from trainproof.model.rule import SubjectKind


def report(home: Path, *, isolation: bool = False, **request: object) -> Report:
    asked = Requests(environment=EnvironmentRequest(**request))  # type: ignore[arg-type]
    config = Config(paths=(str(home),), isolation=isolation)
    return api.inspect(config, SubjectKind.ENVIRONMENT, asked)


def judged(home: Path, **request: object) -> SubjectReport:
    (subject,) = report(home, **request).reports
    return subject


def fired(subject: SubjectReport) -> list[tuple[str, str]]:
    return [(finding.id, str(finding.level)) for finding in subject.findings]


def test_nothing_that_was_asked_for_is_nothing_that_was_judged(tmp_path: Path) -> None:
    found = report(tmp_path)
    assert exit_code(found) is ExitCode.CANNOT_JUDGE
    (subject,) = found.reports
    assert (subject.kind, subject.verdict) == ("environment", Verdict.NOT_CHECKED)
    assert subject.checks.coverage.states["TP-ENV-IMPORT-FAIL"] == "OUT_OF_SCOPE/CALLER"


def test_what_was_measured_is_told(tmp_path: Path) -> None:
    measured = judged(tmp_path, output_dir=str(tmp_path / "runs")).measured
    assert measured is not None
    assert {"memory_gb", "memory_limit_gb", "output_free_gb", "open_files"} <= set(measured)
    assert {"gpus", "version_python", "version_numpy"} <= set(measured)


def test_a_module_that_can_be_imported_passes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import json\n")
    found = report(tmp_path, isolation=True, module="train")
    assert exit_code(found) is ExitCode.OK
    assert found.worst_verdict is Verdict.PASS


def test_an_exception_has_its_line_below_the_directory(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\nimport no_such_package\n")
    subject = judged(tmp_path, module="train")
    assert fired(subject) == [("TP-ENV-IMPORT-FAIL", "FAIL")]
    (finding,) = subject.findings
    assert (finding.location.path, finding.location.line) == ("train.py", 2)
    assert finding.message == (
        "Importing train raised ModuleNotFoundError: No module named 'no_such_package'."
    )


def test_a_crash_costs_the_audit_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import ctypes\nctypes.string_at(1)\n")
    (subject,) = report(tmp_path, isolation=True, module="train").reports
    assert fired(subject) == [("TP-ENV-IMPORT-CRASH", "FAIL")]
    assert subject.findings[0].measured["signal"] == "SIGSEGV"


def test_an_import_may_take_more_memory_than_a_worker(tmp_path: Path) -> None:
    reserved = "mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000"  # MAP_NORESERVE
    source = f"import mmap\nblock = mmap.mmap(-1, 6 << 30, flags={reserved})\n"
    (tmp_path / "train.py").write_text(source)
    found = report(tmp_path, isolation=True, module="train")
    assert found.worst_verdict is Verdict.PASS


def test_a_hang_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(60)\n")
    subject = judged(tmp_path, module="train", seconds=1.0)
    assert fired(subject) == [("TP-ENV-IMPORT-TIMEOUT", "WARN")]


def test_a_relative_interpreter_is_relative_to_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    subject = judged(tmp_path / "project", python="bin/python", module="json")
    assert subject.verdict is Verdict.PASS


@pytest.mark.parametrize("wrong", [{"python": "/nowhere/python"}, {"cwd": "/nowhere"}])
def test_a_place_without_an_interpreter_cannot_be_judged(
    tmp_path: Path, wrong: dict[str, str]
) -> None:
    found = report(tmp_path, module="json", **wrong)
    assert exit_code(found) is ExitCode.CANNOT_JUDGE
    (subject,) = found.reports
    assert subject.findings == ()
    assert [problem.path for problem in subject.problems] == list(wrong.values())


def test_a_whole_checkpoint_passes(tmp_path: Path) -> None:
    path = write(tmp_path / "start.pt", torch_bytes())
    assert judged(tmp_path, checkpoint=str(path)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("data", "id"),
    [
        (b"", "TP-ENV-CKPT-EMPTY"),
        (torch_bytes()[:300], "TP-ENV-CKPT-TRUNCATED"),
        (torch_bytes().replace(b"\x00\x00\x80\xbf", b"\x00\x00\x80\xbe"), "TP-ENV-CKPT-CORRUPT"),
        (b"version https://git-lfs.github.com/spec/v1\n", "TP-ENV-CKPT-UNREADABLE"),
        (b"\0" * 5000, "TP-ENV-CKPT-UNREADABLE"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "TP-ENV-CKPT-UNREADABLE"),
    ],
)
def test_a_broken_checkpoint_fails(tmp_path: Path, data: bytes, id: str) -> None:
    path = write(tmp_path / "start.pt", data)
    assert fired(judged(tmp_path, checkpoint=str(path))) == [(id, "FAIL")]


def test_a_checkpoint_that_is_not_there_fails(tmp_path: Path) -> None:
    subject = judged(tmp_path, checkpoint="nowhere.pt")
    assert fired(subject) == [("TP-ENV-CKPT-MISSING", "FAIL")]
    assert subject.findings[0].location.path == "nowhere.pt"


def test_a_format_that_is_not_known_cannot_be_judged(tmp_path: Path) -> None:
    path = write(tmp_path / "start.xyz", b"\x07\x01\x02\x03" * 100)
    found = report(tmp_path, checkpoint=str(path))
    assert exit_code(found) is ExitCode.CANNOT_JUDGE
    assert found.reports[0].findings == ()


def test_a_directory_is_for_another_command(tmp_path: Path) -> None:
    found = report(tmp_path, checkpoint=str(tmp_path))
    assert exit_code(found) is ExitCode.CANNOT_JUDGE
    assert "trainproof checkpoint" in found.reports[0].problems[0].detail


def test_more_than_there_is_of_memory_and_disk_fails(tmp_path: Path) -> None:
    subject = judged(tmp_path, required_gb=1e6, output_dir=str(tmp_path), checkpoint_gb=1e6, keep=2)
    assert fired(subject) == [
        ("TP-ENV-MEM-INSUFFICIENT", "FAIL"),
        ("TP-ENV-DISK-INSUFFICIENT", "FAIL"),
    ]


def test_little_is_no_problem(tmp_path: Path) -> None:
    asked = {"required_gb": 0.001, "output_dir": str(tmp_path), "checkpoint_gb": 0.001}
    assert judged(tmp_path, **asked).verdict is Verdict.PASS


def test_settings_beside_the_training_are_judged_at_their_line(tmp_path: Path) -> None:
    settings = {"max_steps": 300, "save_steps": 500, "warmup_steps": 400}
    (tmp_path / "training_args.json").write_text(json.dumps(settings, indent=2))
    subject = judged(tmp_path)
    places = {one.id: (one.location.path, one.location.line) for one in subject.findings}
    assert places == {
        "TP-CONFIG-CADENCE": ("training_args.json", 3),
        "TP-CONFIG-WARMUP": ("training_args.json", 4),
    }


def test_named_settings_that_cannot_be_read_are_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text("{")
    assert exit_code(report(tmp_path, configs=(str(path),))) is ExitCode.CANNOT_JUDGE
