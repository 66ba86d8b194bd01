"""Judging checkpoints, start to end, in this process and in workers."""

from __future__ import annotations

import json
import math
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.pickles import EVIL, dict_, pickle
from tests.support.saved import HEALTHY, Values, safetensors_bytes, torch_bytes, write
from tests.support.zips import torch_zip
from trainproof import api
from trainproof.config import Config
from trainproof.emit import EMITTERS
from trainproof.engine.beacon import Phase
from trainproof.engine.checkpoints import judge_checkpoint
from trainproof.model.artifact import Artifact, Kind, Run
from trainproof.model.data import Fault, FaultCode
from trainproof.model.outcome import Skip
from trainproof.model.report import (
    ExitCode,
    FailOn,
    Report,
    SubjectReport,
    Verdict,
    exit_code,
)
from trainproof.model.rule import SubjectKind
from trainproof.model.tensors import Depth
from trainproof.model.wire import Settings, Task

NAN: Values = {**HEALTHY, "head.weight": [1.0, math.nan]}


def judged(root: Path, depth: Depth = Depth.TENSORS) -> dict[str, SubjectReport]:
    config = Config(paths=(str(root),), isolation=False)
    return {one.id: one for one in api.audit_checkpoints(config, depth).reports}


def only(root: Path, depth: Depth = Depth.TENSORS) -> SubjectReport:
    (subject,) = judged(root, depth).values()
    return subject


def fired(subject: SubjectReport) -> list[tuple[str, str]]:
    return [(finding.id, str(finding.level)) for finding in subject.findings]


def test_a_healthy_file_passes_and_is_summed_up(tmp_path: Path) -> None:
    subject = only(write(tmp_path / "model.pt", torch_bytes()))
    assert (subject.kind, subject.verdict, subject.findings) == ("checkpoint", Verdict.PASS, ())
    (file,) = subject.checkpoints
    assert (file.layout, file.extent, file.integrity) == ("torch-zip", "read", "verified")
    assert (file.safety, file.weights_only) == ("safe", True)
    assert (file.tensors, file.parameters, file.nonfinite, file.zeros) == (2, 6, 0, 1)
    weight = subject.tensors[0]
    assert (weight.name, weight.dtype, weight.shape) == ("fc.weight", "float32", (4,))
    assert (weight.min, weight.max, weight.absmax, weight.unread) == (-1.0, 2.0, 2.0, "")


def test_only_rules_about_checkpoints_are_in_its_matrix(tmp_path: Path) -> None:
    subject = only(write(tmp_path / "model.pt", torch_bytes()))
    states = subject.checks.coverage.states
    assert all(id.startswith("TP-CKPT-") for id in states)
    log = write(tmp_path / "runs" / "log.jsonl", b'{"step": 1, "loss": 2.0}\n' * 3)
    (run,) = api.audit(Config(paths=(str(log),), isolation=False)).reports
    assert not any(id.startswith("TP-CKPT-") for id in run.checks.coverage.states)


def test_a_file_without_checksums_passes_by_its_values(tmp_path: Path) -> None:
    subject = only(write(tmp_path / "m.safetensors", safetensors_bytes()))
    assert subject.verdict is Verdict.PASS
    assert subject.checks.details["TP-CKPT-CORRUPT"].skip == Skip.NOT_SAVED


def test_a_nan_names_its_tensor(tmp_path: Path) -> None:
    subject = only(write(tmp_path / "m.safetensors", safetensors_bytes(NAN)))
    assert fired(subject) == [("TP-CKPT-NAN", "FAIL")]
    assert subject.findings[0].tensor == "head.weight"


def test_a_flipped_bit_is_seen(tmp_path: Path) -> None:
    data = bytearray(torch_bytes())
    data[data.index(b"\x00\x00\x80\xbf")] ^= 1  # -1.0, no longer quite
    subject = only(write(tmp_path / "m.pt", bytes(data)))
    assert fired(subject) == [("TP-CKPT-CORRUPT", "FAIL")]


@pytest.mark.parametrize("data", [torch_bytes(), safetensors_bytes()], ids=["zip", "safetensors"])
def test_a_cut_file_fails_at_every_length(tmp_path: Path, data: bytes) -> None:
    for kept in range(0, len(data), 7):
        subject = only(write(tmp_path / "m.safetensors", data[:kept]))
        assert subject.verdict is Verdict.FAIL, kept


def test_a_call_of_code_fails(tmp_path: Path) -> None:
    subject = only(write(tmp_path / "m.pt", torch_zip(pickle(dict_({"w": EVIL})), {})))
    assert ("TP-CKPT-UNSAFE", "FAIL") in fired(subject)
    assert "posix.getpid" in subject.findings[0].message


def test_a_legacy_pickle_that_calls_code_fails(tmp_path: Path) -> None:
    subject = only(write(tmp_path / "m.bin", pickle(EVIL)))
    assert ("TP-CKPT-UNSAFE", "FAIL") in fired(subject)


def test_a_page_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    subject = only(write(tmp_path / "m.pt", b"<!DOCTYPE html><html>404</html>"))
    assert fired(subject) == [("TP-CKPT-HOLLOW", "FAIL")]


def test_a_depth_that_reads_no_values_gives_no_pass(tmp_path: Path) -> None:
    path = write(tmp_path / "m.pt", torch_bytes())
    assert only(path, Depth.STRUCTURE).verdict is Verdict.NOT_CHECKED
    subject = only(path, Depth.INTEGRITY)
    assert subject.checks.details["TP-CKPT-CORRUPT"].state == "clean"
    assert subject.checks.details["TP-CKPT-NAN"].skip == Skip.DISABLED
    assert (subject.verdict, subject.tensors[0].unread) == (Verdict.NOT_CHECKED, "not asked for")


def test_a_missing_shard_fails_the_set(tmp_path: Path) -> None:
    index = {"weight_map": {"fc.weight": "model-00001-of-00002.safetensors"}}
    write(tmp_path / "model.safetensors.index.json", json.dumps(index).encode())
    write(tmp_path / "model-00001-of-00002.safetensors", safetensors_bytes())
    subject = only(tmp_path)
    assert ("TP-CKPT-INCOMPLETE", "FAIL") in fired(subject)
    assert ("TP-CKPT-INCOMPLETE", "WARN") in fired(subject)  # fc.bias is not in the index


def test_a_save_that_was_never_committed_fails(tmp_path: Path) -> None:
    write(tmp_path / "step" / "__0_0.distcp", torch_bytes())
    subject = only(tmp_path)
    assert (subject.id, fired(subject)) == ("step", [("TP-CKPT-INCOMPLETE", "FAIL")])
    assert subject.findings[0].variant == "uncommitted"


def test_an_index_without_any_of_its_shards_fails(tmp_path: Path) -> None:
    index = {"weight_map": {"fc.weight": "model-00001-of-00001.safetensors"}}
    write(tmp_path / "m" / "model.safetensors.index.json", json.dumps(index).encode())
    assert fired(only(tmp_path)) == [("TP-CKPT-INCOMPLETE", "FAIL")]


def test_a_trainer_directory_without_its_optimizer_cannot_be_resumed(tmp_path: Path) -> None:
    home = tmp_path / "checkpoint-10"
    write(home / "model.safetensors", safetensors_bytes())
    write(home / "scheduler.pt", torch_bytes())
    write(home / "trainer_state.json", b"{}")
    subject = only(tmp_path)
    assert subject.id == "checkpoint-10"
    assert fired(subject) == [("TP-CKPT-NOT-RESUMABLE", "WARN")]
    assert "optimizer.pt, rng_state.pth" in subject.findings[0].message


def test_a_file_that_killed_a_worker_is_not_opened_again_and_never_passes(tmp_path: Path) -> None:
    for name in ("a.pt", "b.pt"):
        write(tmp_path / name, torch_bytes())
    artifacts = tuple(
        Artifact(str(tmp_path), name, 1, Kind.CHECKPOINT, "checkpoint") for name in ("a.pt", "b.pt")
    )
    run = Run(".", str(tmp_path), artifacts, SubjectKind.CHECKPOINT)
    death = Fault(FaultCode.CRASHED, "a.pt", "SIGSEGV", fatal=True)
    seen: list[tuple[Phase, int]] = []

    class Noted:
        def at(self, phase: Phase, item: int = 0, amount: object = None) -> None:
            seen.append((phase, item))

    settings = Settings(rules=("TP-CKPT-CORRUPT", "TP-CKPT-NAN"))
    result = judge_checkpoint(Task(0, run, known_faults=(death,)), settings, Noted())
    assert [cell.skip for cell in result.cells] == [Skip.NEED_UNREADABLE] * 2
    assert [entry.status for entry in result.artifacts] == ["unread", "read"]
    assert {item for phase, item in seen if phase is Phase.READING} == {1}
    assert result.faults == (death,)


def test_workers_say_the_same_as_this_process(tmp_path: Path) -> None:
    write(tmp_path / "good.pt", torch_bytes())
    write(tmp_path / "bad.safetensors", safetensors_bytes(NAN))
    here = api.audit_checkpoints(Config(paths=(str(tmp_path),), isolation=False))
    there = api.audit_checkpoints(Config(paths=(str(tmp_path),), jobs=2))
    assert there.reports == here.reports


# --- those of no run


def audited(root: Path, **options: object) -> Report:
    return api.audit(Config(paths=(str(root),), **options))  # type: ignore[arg-type]


def stored(root: Path) -> Path:
    """A directory of checkpoints, and of other tensors, without any log."""
    write(root / "a" / "net_G.pth", torch_bytes())
    write(root / "b" / "checkpoint-5" / "model.safetensors", safetensors_bytes(NAN))
    write(root / "b" / "checkpoint-5" / "config.json", b"{}")
    write(root / "b" / "images.pt", torch_bytes({"fc.weight": [math.nan]}))
    write(root / "b" / "points.pt", torch_bytes({"x": [math.nan]}))
    write(root / "b" / "europarl.pt", b"Sess\xc3\xa3o do parlamento\n")
    write(root / "b" / "x.npy", b"\x93NUMPY")
    write(root / "c" / "model.safetensors", POINTER)
    return root


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 977\n"


def test_checkpoints_of_no_run_are_judged_and_other_tensors_are_counted(tmp_path: Path) -> None:
    report = audited(stored(tmp_path), isolation=False)
    assert {one.id: (one.kind, str(one.verdict)) for one in report.reports} == {
        "a/net_G.pth": ("checkpoint", "PASS"),
        "b/checkpoint-5": ("checkpoint", "FAIL"),
    }
    assert report.not_judged.counts == {"git-lfs-pointer": 1, "not-a-log": 4, "saved-data": 1}
    (named,) = report.not_judged.files
    assert (named.path, named.detail) == ("c/model.safetensors", "977 bytes were not fetched")
    assert exit_code(report) is ExitCode.FAIL
    write(tmp_path / "b" / "checkpoint-5" / "model.safetensors", safetensors_bytes())
    assert exit_code(audited(tmp_path, isolation=False)) is ExitCode.OK
    assert audited(tmp_path, isolation=False, checkpoints="none").reports == ()


def test_nothing_but_other_tensors_is_nothing_to_judge(tmp_path: Path) -> None:
    write(tmp_path / "points.pt", torch_bytes({"x": [math.nan]}))
    report = audited(tmp_path)
    assert (report.reports, report.not_judged.counts) == ((), {"saved-data": 1})
    assert exit_code(report) is ExitCode.CANNOT_JUDGE


def test_a_log_makes_no_difference_to_the_checkpoints_of_no_run(tmp_path: Path) -> None:
    write(stored(tmp_path) / "run" / "log.jsonl", b"".join(rows()))
    report = audited(tmp_path, isolation=False)
    assert [(one.id, str(one.verdict)) for one in report.reports] == [
        ("run", "PASS"),
        ("b/checkpoint-5", "FAIL"),
        ("a/net_G.pth", "PASS"),
    ]
    assert report.reports[0].kept == ()


def rows() -> Iterator[bytes]:
    return (b'{"step": %d, "loss": %.3f}\n' % (step, 2 - step / 100) for step in range(1, 61))


def test_data_beside_a_log_are_no_checkpoint_that_the_run_keeps(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", b"".join(rows()))
    write(tmp_path / "points.pt", torch_bytes({"x": [math.nan]}))
    (run,) = audited(tmp_path, isolation=False).reports
    assert (run.kept, str(run.verdict)) == ((), "PASS")
    assert not any(id.startswith("TP-KEPT") for id in run.checks.coverage.states)


def test_one_file_of_weights_may_be_all_that_is_audited(tmp_path: Path) -> None:
    (one,) = audited(write(tmp_path / "net.pt", torch_bytes())).reports
    assert (one.kind, one.verdict) == ("checkpoint", Verdict.PASS)


def test_of_those_beyond_the_limit_the_structure_is_judged(tmp_path: Path) -> None:
    report = audited(stored(tmp_path), isolation=False, checkpoint_limit=1)
    assert [(one.id, str(one.verdict)) for one in report.reports] == [
        ("b/checkpoint-5", "NOT-CHECKED"),
        ("a/net_G.pth", "NOT-CHECKED"),
    ]
    assert report.reports[0].checks.details["TP-CKPT-NAN"].skip == "budget"


def test_those_of_no_run_are_the_same_bytes_in_an_archive_and_with_any_number_of_workers(
    tmp_path: Path,
) -> None:
    home = stored(tmp_path / "store")
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz") as archive:
        archive.add(home, ".")
    made = [audited(home, isolation=False), audited(home, jobs=1), audited(home, jobs=4)]
    for name in ("json", "sarif", "junit", "markdown"):
        emit = EMITTERS[name]
        assert len({emit(replace(one, invocation=None), FailOn.FAIL) for one in made}) == 1
    packed = audited(tmp_path / "packed.tar.gz")
    assert [(one.id, one.verdict, one.findings) for one in packed.reports] == [
        (one.id, one.verdict, one.findings) for one in made[0].reports
    ]
    assert packed.not_judged.counts == made[0].not_judged.counts


def test_shards_of_distributed_checkpoints_are_read_with_their_list(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", b"".join(rows()))
    home = tmp_path / "checkpoint"
    write(home / "__0_0.distcp", b"PK\x03\x04")
    write(home / ".metadata", pickle(dict_({})))
    _, saved = audited(tmp_path, isolation=False).reports
    assert [(file.path, file.status) for file in saved.artifacts] == [
        ("checkpoint/.metadata", "not-checked"),
        ("checkpoint/__0_0.distcp", "part"),
    ]
