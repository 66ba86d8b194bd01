"""An audit of runs and of the checkpoints that they keep, start to end."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path

import pytest

from tests.support.saved import HEALTHY, Values, safetensors_bytes, torch_bytes, write
from trainproof import api
from trainproof.config import Config
from trainproof.model.outcome import Skip
from trainproof.model.report import ExitCode, Report, SubjectReport, Verdict, exit_code

NAN: Values = {"w": [math.nan, 1.0]}


def log_of(rows: int = 60, bad: int = 0) -> bytes:
    losses = [2 - 0.01 * step if step <= rows - bad else math.nan for step in range(1, rows + 1)]
    rows_ = (f'{{"step": {step}, "loss": {loss}}}\n' for step, loss in enumerate(losses, 1))
    return "".join(rows_).replace("nan", "NaN").encode()


def trainer(home: Path, step: int, values: Values = HEALTHY) -> None:
    write(home / "model.safetensors", safetensors_bytes(values))
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        write(home / name, torch_bytes())
    state = {"global_step": step, "log_history": []}
    write(home / "trainer_state.json", json.dumps(state).encode())


def audited(root: Path, **settings: object) -> Report:
    config = Config(paths=(str(root),), isolation=False, **settings)  # type: ignore[arg-type]
    return api.audit(config)


def by_id(report: Report) -> dict[str, SubjectReport]:
    return {one.id: one for one in report.reports}


def fired(subject: SubjectReport) -> list[tuple[str, str, str]]:
    return [(one.id, str(one.level), one.variant) for one in subject.findings]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of sixty steps that keeps two of three checkpoints whole."""
    write(tmp_path / "log.jsonl", log_of())
    for step, value in ((20, 1.0), (40, 2.0)):
        write(tmp_path / f"step_{step}.pt", torch_bytes({"w": [value, 0.5]}))
    write(tmp_path / "step_60.pt", torch_bytes({"w": [3.0, 0.5]})[:-40])
    return tmp_path


def test_a_run_lists_its_checkpoints_and_each_is_judged_by_itself(run: Path) -> None:
    report = audited(run)
    subjects = by_id(report)
    assert {id: one.kind for id, one in subjects.items()} == {
        ".": "run",
        "step_20.pt": "checkpoint",
        "step_40.pt": "checkpoint",
        "step_60.pt": "checkpoint",
    }
    kept = [(one.id, one.step, one.verdict, one.files) for one in subjects["."].kept]
    assert kept == [
        ("step_20.pt", 20, Verdict.PASS, 1),
        ("step_40.pt", 40, Verdict.PASS, 1),
        ("step_60.pt", 60, Verdict.FAIL, 1),
    ]
    assert fired(subjects["."]) == [("TP-KEPT-NEWEST", "WARN", "")]
    assert subjects["."].findings[0].measured["whole"] == "step_40.pt"
    assert subjects["step_40.pt"].drift is not None
    assert report.not_judged.counts == {}
    assert exit_code(report) is ExitCode.FAIL


def test_without_checkpoints_nothing_changes(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", log_of())
    report, without = audited(tmp_path), audited(tmp_path, checkpoints="none")
    assert (report.reports, report.rules) == (without.reports, without.rules)
    assert not any(rule.id.startswith(("TP-CKPT", "TP-KEPT")) for rule in report.rules)


def test_checkpoints_can_be_left_out(run: Path) -> None:
    report = audited(run, checkpoints="none")
    assert [one.kind for one in report.reports] == ["run"]
    assert report.not_judged.counts == {"not-a-log": 3}


@pytest.mark.parametrize("depth", ["structure", "integrity"])
def test_a_lesser_depth_finds_what_it_can_and_gives_no_pass(run: Path, depth: str) -> None:
    subjects = by_id(audited(run, checkpoints=depth))
    assert subjects["step_40.pt"].verdict is Verdict.NOT_CHECKED
    assert subjects["step_60.pt"].verdict is Verdict.FAIL
    assert subjects["step_40.pt"].checks.details["TP-CKPT-NAN"].skip == Skip.DISABLED


def test_what_is_larger_than_the_limit_is_read_to_its_structure_and_says_so(run: Path) -> None:
    size = (run / "step_40.pt").stat().st_size
    subjects = by_id(audited(run, checkpoint_limit=size - 1))
    subject = subjects["step_40.pt"]
    assert subject.verdict is Verdict.NOT_CHECKED
    assert subject.checks.details["TP-CKPT-NAN"].skip == Skip.BUDGET
    (file,) = subject.checkpoints
    assert file.extent == "structure-only"
    assert file.reason == "read to the depth structure: it is larger than the limit"
    assert by_id(audited(run, checkpoint_limit=size))["step_40.pt"].verdict is Verdict.PASS
    assert by_id(audited(run, checkpoint_limit=0))["step_40.pt"].verdict is Verdict.PASS


def test_what_is_small_is_not_compared_with_what_is_too_large(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", log_of())
    write(tmp_path / "step_20.pt", torch_bytes({"w": [1.0] * 500}))
    small = write(tmp_path / "step_40.pt", torch_bytes({"w": [1.0, 2.0]}))
    subjects = by_id(audited(tmp_path, checkpoint_limit=small.stat().st_size))
    assert subjects["step_20.pt"].verdict is Verdict.NOT_CHECKED
    assert (subjects["step_40.pt"].verdict, subjects["step_40.pt"].drift) == (Verdict.PASS, None)


def test_an_audit_reads_sixteen_times_the_limit_at_most(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", log_of())
    for step in range(20):
        write(tmp_path / f"step_{step:02}.pt", torch_bytes())
    size = (tmp_path / "step_00.pt").stat().st_size
    verdicts = [one.verdict for one in audited(tmp_path, checkpoint_limit=size).reports[1:]]
    assert verdicts.count(Verdict.NOT_CHECKED) == 4


def test_files_that_are_no_checkpoint_by_their_name_are_not_opened(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", log_of())
    for name in ("predictions.pt", "arrays.npz", "train_data.pt", "notes.bin", "x.pkl"):
        write(tmp_path / name, torch_bytes(NAN) if name.endswith(".pt") else b"\7\1\2\3" * 9)
    report = audited(tmp_path)
    assert [one.kind for one in report.reports] == ["run"]
    assert report.not_judged.counts == {"not-a-log": 5}


def test_a_checkpoint_that_no_run_keeps_is_not_judged(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "a" / "log.jsonl", log_of())
    write(tmp_path / "runs" / "b" / "log.jsonl", log_of())
    write(tmp_path / "pretrained" / "resnet.pt", torch_bytes(NAN))
    write(tmp_path / "runs" / "b" / "weights" / "last.pt", torch_bytes())
    subjects = by_id(audited(tmp_path))
    assert sorted(subjects) == ["runs/a", "runs/b", "runs/b/weights/last.pt"]
    assert [one.id for one in subjects["runs/b"].kept] == ["runs/b/weights/last.pt"]


def test_saves_beside_the_directory_of_logs_belong_to_its_run(tmp_path: Path) -> None:
    write(tmp_path / "logs" / "version_0" / "metrics.csv", b"step,loss\n1,2\n2,1\n3,1\n")
    write(tmp_path / "checkpoints" / "step=10.ckpt", torch_bytes())
    write(tmp_path / "pretrained" / "base.pt", torch_bytes(NAN))
    subjects = by_id(audited(tmp_path))
    assert sorted(subjects) == ["checkpoints/step=10.ckpt", "logs/version_0"]


def test_what_another_training_left_behind_is_told(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", log_of())
    for step in (20, 40, 9000):
        trainer(tmp_path / f"checkpoint-{step}", step, {"w": [float(step), 1.0]})
    (finding,) = (one for one in by_id(audited(tmp_path))["."].findings)
    assert (finding.id, finding.measured["checkpoint"]) == ("TP-KEPT-STEP", "checkpoint-9000")


def test_a_run_that_kept_nothing_from_before_its_damage_fails(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", log_of(60, bad=30))
    write(tmp_path / "step_40.pt", torch_bytes(NAN))
    found = fired(by_id(audited(tmp_path))["."])
    assert ("TP-KEPT-AFTER-DAMAGE", "FAIL", "") in found
    write(tmp_path / "step_20.pt", torch_bytes())
    found = fired(by_id(audited(tmp_path))["."])
    assert not any(id == "TP-KEPT-AFTER-DAMAGE" for id, _, _ in found)


def test_the_best_of_a_trainer_is_missed(tmp_path: Path) -> None:
    for step in (20, 40):
        trainer(tmp_path / f"checkpoint-{step}", step, {"w": [float(step), 1.0]})
    history = [{"step": step, "loss": 2 - 0.01 * step} for step in range(1, 41)]
    state = {
        "global_step": 40,
        "max_steps": 40,
        "log_history": history,
        "best_metric": 1.0,
        "best_model_checkpoint": "/elsewhere/out/checkpoint-30",
    }
    write(tmp_path / "checkpoint-40" / "trainer_state.json", json.dumps(state).encode())
    found = fired(by_id(audited(tmp_path))["."])
    assert ("TP-KEPT-BEST", "WARN", "") in found


def test_workers_say_the_same_whatever_their_number(run: Path) -> None:
    here = audited(run)
    for jobs in (1, 4):
        there = api.audit(Config(paths=(str(run),), jobs=jobs))
        assert there.reports == here.reports


def test_checkpoints_in_an_archive_of_a_run_are_judged(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("log.jsonl", "step_20.pt", "step_60.pt"):
            archive.write(run / name, f"exp/{name}")
    subjects = by_id(api.audit(Config(paths=(str(path),), jobs=1)))
    assert {id: one.verdict for id, one in subjects.items() if one.kind == "checkpoint"} == {
        "exp/step_20.pt": Verdict.PASS,
        "exp/step_60.pt": Verdict.FAIL,
    }
