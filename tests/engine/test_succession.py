"""A checkpoint beside an earlier one, start to end, in this process and in workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.distributed_files import chunk, metadata, tensor
from tests.support.saved import HEALTHY, Values, safetensors_bytes, torch_bytes, write
from trainproof import api
from trainproof.config import Config
from trainproof.engine.baselines import Baselines
from trainproof.engine.beacon import Phase
from trainproof.engine.checkpoints import judge_checkpoint
from trainproof.engine.local import Bench
from trainproof.engine.succession import step_of
from trainproof.model.artifact import Artifact, Kind, Run
from trainproof.model.checkpoint import Checkpoint, SavedFile
from trainproof.model.data import Fault, FaultCode
from trainproof.model.outcome import Skip
from trainproof.model.report import ExitCode, Report, SubjectReport, exit_code
from trainproof.model.rule import SubjectKind
from trainproof.model.tensors import (
    CheckpointFacts,
    Depth,
    Extent,
    Layout,
    OptimizerState,
    Scalar,
)
from trainproof.model.wire import RunResult, Settings, Task

LATER: Values = {**HEALTHY, "fc.weight": [0.5, -1.0, 2.0, 1.0]}


def audited(*roots: Path, against: Path | None = None, depth: Depth = Depth.TENSORS) -> Report:
    baseline = None if against is None else str(against)
    config = Config(paths=tuple(map(str, roots)), baseline=baseline, isolation=False)
    return api.audit_checkpoints(config, depth)


def only(report: Report) -> SubjectReport:
    (subject,) = report.reports
    return subject


def changes(subject: SubjectReport) -> dict[str, str]:
    assert subject.drift is not None
    return {one.name: one.change for one in subject.drift.tensors}


@pytest.mark.parametrize("made", [torch_bytes, safetensors_bytes])
def test_what_moved_is_counted_element_by_element(
    tmp_path: Path, made: Callable[[Values], bytes]
) -> None:
    before = write(tmp_path / "step_10.pt", made(HEALTHY))
    subject = only(audited(write(tmp_path / "step_20.pt", made(LATER)), against=before))
    drift = subject.drift
    assert drift is not None
    assert (drift.reference, drift.step, drift.step_before) == (str(before), 20, 10)
    assert (drift.changes, drift.prefix) == ({"moved": 1, "same": 1}, "")
    weight, bias = drift.tensors
    assert (weight.name, weight.compared, weight.identical) == ("fc.weight", 4, 3)
    assert (weight.norm, weight.norm_before, weight.distance) == (2.5, 5.25**0.5, 1.0)
    assert (bias.change, bias.compared, bias.identical) == ("same", 2, 2)


def test_a_checkpoint_of_another_format_is_compared_as_well(tmp_path: Path) -> None:
    before = write(tmp_path / "a.safetensors", safetensors_bytes(HEALTHY))
    subject = only(audited(write(tmp_path / "b.pt", torch_bytes(LATER)), against=before))
    assert changes(subject) == {"fc.weight": "moved", "fc.bias": "same"}


def test_values_in_the_chunks_of_several_files_are_compared(tmp_path: Path) -> None:
    for step, last in ((10, 4.0), (20, 5.0)):
        chunks = {"__0_0.distcp": chunk(1.0, 2.0), "__1_0.distcp": chunk(3.0, last)}
        places = [("w", name, 0, len(data)) for name, data in chunks.items()]
        listed = metadata({"w": tensor((4,), [(2,), (2,)])}, places, [(0,), (2,)])
        for name, data in {**chunks, ".metadata": listed}.items():
            write(tmp_path / f"step-{step}" / name, data)
    subject = only(audited(tmp_path / "step-20", against=tmp_path / "step-10"))
    assert subject.drift is not None
    (row,) = subject.drift.tensors
    assert (row.change, row.compared, row.identical, row.distance) == ("moved", 4, 3, 1.0)


def test_without_values_a_checksum_still_tells_what_moved(tmp_path: Path) -> None:
    before = write(tmp_path / "a.pt", torch_bytes(HEALTHY))
    after = write(tmp_path / "b.pt", torch_bytes(LATER))
    structure = only(audited(after, against=before, depth=Depth.STRUCTURE))
    assert set(changes(structure).values()) == {"unknown"}
    assert structure.checks.details["TP-CKPT-NEVER-UPDATED"].skip == Skip.DISABLED
    assert structure.checks.details["TP-CKPT-DRIFT"].state == "clean"


def test_checkpoints_of_one_training_are_compared_in_their_order(tmp_path: Path) -> None:
    for step in (500, 1000, 9000):
        write(tmp_path / f"checkpoint-{step}" / "model.pt", torch_bytes({"w": [step, 1.0]}))
    found = {one.id: one.drift for one in audited(tmp_path).reports}
    assert found["checkpoint-500/model.pt"] is None
    for step, before in ((1000, 500), (9000, 1000)):
        drift = found[f"checkpoint-{step}/model.pt"]
        assert drift is not None
        assert (drift.step, drift.step_before) == (step, before)
        assert drift.reference == f"{tmp_path}/checkpoint-{before}/model.pt"


def test_a_directory_is_compared_place_by_place(tmp_path: Path) -> None:
    for name in ("old", "new"):
        for part in ("a.pt", "b.pt"):
            write(tmp_path / name / part, torch_bytes({part: [1.0, 2.0]}))
    report = audited(tmp_path / "new", against=tmp_path / "old")
    assert [one.drift.reference for one in report.reports if one.drift] == [
        f"{tmp_path}/old/a.pt",
        f"{tmp_path}/old/b.pt",
    ]
    assert exit_code(report) is ExitCode.OK


def test_what_has_nothing_to_be_compared_with_is_told(tmp_path: Path) -> None:
    for part in ("a.pt", "b.pt", "c.pt"):
        write(tmp_path / "new" / part, torch_bytes())
    for part in ("a.pt", "b.pt"):
        write(tmp_path / "old" / part, torch_bytes())
    report = audited(tmp_path / "new", against=tmp_path / "old")
    assert [problem.path for problem in report.problems] == [f"{tmp_path}/new/c.pt"]
    assert exit_code(report) is ExitCode.CANNOT_JUDGE
    nowhere = audited(tmp_path / "new" / "a.pt", against=tmp_path / "nowhere")
    assert exit_code(nowhere) is ExitCode.CANNOT_JUDGE


def test_a_checkpoint_is_not_compared_with_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pt", torch_bytes())
    report = audited(path, against=path)
    assert (only(report).drift, report.problems) == (None, ())


def test_a_reference_that_cannot_be_read_leaves_every_comparison_open(tmp_path: Path) -> None:
    before = write(tmp_path / "a.pt", torch_bytes()[:40])
    report = audited(write(tmp_path / "b.pt", torch_bytes()), against=before)
    details = only(report).checks.details
    open_ones = {
        id: detail.skip
        for id, detail in details.items()
        if id in ("TP-CKPT-NEVER-UPDATED", "TP-CKPT-DRIFT", "TP-CKPT-FROZEN")
    }
    assert set(open_ones.values()) == {"need-unreadable"}
    assert [problem.path for problem in report.problems] == ["a.pt"]
    assert exit_code(report) is ExitCode.CANNOT_JUDGE


def test_weights_that_stand_still_are_a_finding(tmp_path: Path) -> None:
    for step in (1, 2):
        write(tmp_path / f"step_{step}.pt", torch_bytes())
    first, second = audited(tmp_path).reports
    assert "TP-CKPT-NEVER-UPDATED" not in first.checks.details or not first.findings
    (finding,) = second.findings
    assert (finding.id, finding.level, finding.variant) == (
        "TP-CKPT-NEVER-UPDATED",
        "WARN",
        "unexplained",
    )
    assert (finding.source, finding.measured["steps"]) == ("checkpoint-pair", 1)


def test_a_faulty_reference_inside_the_audit_is_told_once(tmp_path: Path) -> None:
    write(tmp_path / "step_1.pt", torch_bytes()[:40])
    write(tmp_path / "step_2.pt", torch_bytes())
    report = audited(tmp_path)
    assert report.problems == ()
    assert [len(one.problems) for one in report.reports] == [1, 0]


def test_workers_say_the_same_whatever_their_number(tmp_path: Path) -> None:
    for step in range(6):
        values = {"w": [1.0, 2.0 + step], "b": [3.0]}
        write(tmp_path / f"step_{step}.safetensors", safetensors_bytes(values))
    here = audited(tmp_path)
    for jobs in (1, 4):
        there = api.audit_checkpoints(Config(paths=(str(tmp_path),), jobs=jobs))
        assert there.reports == here.reports


def counted(*scalars: Scalar, clock: float | None = None) -> Checkpoint:
    optimizers = () if clock is None else (OptimizerState("", 1, 1, 1, 0, (clock,)),)
    facts = CheckpointFacts(
        "m", Layout.TORCH_ZIP, 1, Extent.READ, optimizers=optimizers, scalars=scalars
    )
    return Checkpoint((SavedFile(facts),))


@pytest.mark.parametrize(
    ("id", "saved", "step"),
    [
        ("run/checkpoint-500/model.pt", counted(), 500),
        ("epoch=3-step=00120.ckpt", counted(), 120),
        ("epoch_3.pt", counted(), None),
        ("v2_model.pt", counted(), None),
        ("last.pt", counted(clock=70), 70),
        ("checkpoint-500", counted(clock=70), 500),
        ("checkpoint-500", counted(Scalar("global_step", 600)), 600),
        ("m.pt", counted(Scalar("step", True)), None),
        ("m.pt", counted(Scalar("args/step", 3)), None),
    ],
)
def test_how_far_a_training_had_come(id: str, saved: Checkpoint, step: int | None) -> None:
    assert step_of(id, saved) == step


def test_the_report_stays_valid_json_with_odd_names(tmp_path: Path) -> None:
    odd: Values = {"a\x1b[31m\udcff": [1.0, 2.0]}
    before = write(tmp_path / "a.safetensors", safetensors_bytes(HEALTHY))
    subject = only(
        audited(write(tmp_path / "b.safetensors", safetensors_bytes(odd)), against=before)
    )
    assert subject.drift is not None
    assert json.dumps([one.name for one in subject.drift.tensors]).isascii()
    assert "\x1b" not in "".join(one.name for one in subject.drift.tensors)


def test_a_file_of_the_reference_that_killed_a_worker_is_not_opened_again(tmp_path: Path) -> None:
    def run_of(name: str) -> Run:
        write(tmp_path / name, torch_bytes())
        artifact = Artifact(str(tmp_path), name, 1, Kind.CHECKPOINT, "checkpoint")
        return Run(name, str(tmp_path), (artifact,), SubjectKind.CHECKPOINT)

    death = Fault(FaultCode.CRASHED, "a.pt", "SIGSEGV", fatal=True)
    rules = ("TP-CKPT-NAN", "TP-CKPT-NEVER-UPDATED", "TP-CKPT-DRIFT")
    task = Task(0, run_of("b.pt"), (run_of("a.pt"),), baseline_faults=(death,))
    results: dict[int, RunResult] = {}
    Bench(Settings(rules=rules)).judge([task], results.__setitem__)
    result = results[0]
    assert [cell.skip for cell in result.cells] == [None, *[Skip.NEED_UNREADABLE] * 2]
    assert (result.baseline_faults, result.faults) == ((death,), ())


def test_what_was_just_judged_is_not_read_again_to_be_compared_with(tmp_path: Path) -> None:
    def run_of(name: str) -> Run:
        write(tmp_path / name, torch_bytes())
        artifact = Artifact(str(tmp_path), name, 1, Kind.CHECKPOINT, "checkpoint")
        return Run(name, str(tmp_path), (artifact,), SubjectKind.CHECKPOINT)

    seen: list[Phase] = []

    class Noted:
        def at(self, phase: Phase, item: int = 0, amount: object = None) -> None:
            seen.append(phase)

    first, second = run_of("step_1.pt"), run_of("step_2.pt")
    settings, baselines = Settings(rules=()), Baselines()
    judge_checkpoint(Task(0, first), settings, Noted(), keep=baselines.keep)
    (view,) = baselines.views(Task(1, second, (first,)), settings, Noted())
    assert Phase.BASELINE not in seen
    assert view.id == f"{tmp_path}/step_1.pt"
    baselines.views(Task(1, first, (second,)), settings, Noted())
    assert Phase.BASELINE in seen
