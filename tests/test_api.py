"""The audit end to end, on files as people have them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd
from msgspec.structs import replace

from tests.support.logs import broken, healthy, jsonl, mlflow_database, trainer_state
from trainproof import Config, ConfigError, Report, Verdict, audit
from trainproof.emit import EMITTERS
from trainproof.model.report import FailOn, exit_code
from trainproof.rules.examples import falling


def ids(report: Report) -> dict[str, set[str]]:
    """Run id to the ids of its findings at FAIL or WARN."""
    return {r.id: {f.id for f in r.findings if f.level != "INFO"} for r in report.reports}


def test_a_healthy_run_passes_and_cites_what_it_measured(tmp_path: Path) -> None:
    healthy(tmp_path / "log.jsonl")
    report = audit(str(tmp_path), isolation=False)
    (run,) = report.reports
    assert run.verdict is Verdict.PASS
    assert run.findings == ()
    applied = run.checks.details["TP-NAN"].applications
    assert [(a.series, a.state, a.measured) for a in applied] == [
        ("loss", "clean", {"points": 60, "nonfinite": 0})
    ]
    (loss,) = [s for s in run.series if s.name == "loss"]
    assert (loss.role, loss.points, loss.first_step, loss.last_step) == ("loss", 60, 1, 60)


def test_a_nan_is_found_at_its_real_line(tmp_path: Path) -> None:
    broken(tmp_path / "log.jsonl", at=40)
    (run,) = audit(str(tmp_path), isolation=False).reports
    (finding,) = [f for f in run.findings if f.id == "TP-NAN"]
    assert (finding.level, finding.location.path, finding.location.line) == (
        "FAIL",
        "log.jsonl",
        41,
    )
    assert (finding.first_step, finding.last_step) == (41, 60)
    assert finding.measured["nonfinite"] == 20


def test_checkpoint_copies_are_one_run_judged_once(tmp_path: Path) -> None:
    loss = falling(60)
    trainer_state(tmp_path / "out" / "trainer_state.json", loss)
    for part in (20, 40):
        trainer_state(
            tmp_path / "out" / f"checkpoint-{part * 10}" / "trainer_state.json",
            loss[:part],
            max_steps=600,
        )
    (run,) = audit(str(tmp_path), isolation=False).reports
    assert run.id == "out"
    (series,) = [s for s in run.series if s.role == "loss"]
    assert series.points == 60
    assert series.also_in == (
        "out/checkpoint-200/trainer_state.json",
        "out/checkpoint-400/trainer_state.json",
    )


def test_a_file_for_each_split_is_one_run_where_the_steps_go_together(tmp_path: Path) -> None:
    for name, rows in (("train.jsonl", 60), ("val.jsonl", 60), ("test.jsonl", 20)):
        jsonl(tmp_path / name, {"loss": falling(rows)})
    report = audit(str(tmp_path), isolation=False)
    assert [[(s.artifact, s.name, s.split) for s in run.series] for run in report.reports] == [
        [("train.jsonl", "loss", "train"), ("val.jsonl", "val/loss", "eval")],
        [("test.jsonl", "loss", "train")],
    ]
    assert [(one.code, one.path, one.fatal) for one in report.problems] == [
        ("apart", "test.jsonl", False)
    ]
    assert exit_code(report, FailOn.FAIL) == 0


def test_the_bytes_do_not_depend_on_isolation_or_the_number_of_workers(tmp_path: Path) -> None:
    for number in range(6):
        make = broken if number % 3 == 0 else healthy
        make(tmp_path / f"run{number}" / "log.jsonl")
    made = [
        audit(str(tmp_path), isolation=False),
        audit(str(tmp_path), jobs=1),
        audit(str(tmp_path), jobs=4),
    ]
    payloads = {EMITTERS["json"](replace(report, invocation=None)) for report in made}
    assert len(payloads) == 1
    assert len(made[0].reports) == 6


def test_two_attempts_in_one_file_are_judged_apart(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "log.jsonl", {"loss": falling(40)})
    first = path.read_text()
    path.write_text(first + first)
    (run,) = audit(str(tmp_path), isolation=False).reports
    assert [(s.first_step, s.last_step) for s in run.segments] == [(1, 40), (1, 40)]
    assert [(r.from_step, r.to_step, r.resume, r.line) for r in run.rewinds] == [(40, 1, False, 41)]
    assert "TP-DIVERGE" not in ids_of(run)


def test_a_resume_replaces_the_steps_it_redid(tmp_path: Path) -> None:
    loss = falling(60, noise=0)
    path = jsonl(tmp_path / "log.jsonl", {"loss": loss[:40]})
    again = jsonl(tmp_path / "again.txt", {"loss": loss[29:]}, start=30)
    path.write_text(path.read_text() + again.read_text())
    again.unlink()
    (run,) = audit(str(tmp_path), isolation=False).reports
    (series,) = [s for s in run.series if s.role == "loss"]
    assert (series.points, series.first_step, series.last_step) == (60, 1, 60)
    assert [(r.to_step, r.resume) for r in run.rewinds] == [(30, True)]


def ids_of(run: object) -> set[str]:
    return {finding.id for finding in run.findings}  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_of_runs_gives_the_verdicts_of_its_directory(tmp_path: Path, kind: str) -> None:
    runs = tmp_path / "runs"
    healthy(runs / "good" / "log.jsonl")
    broken(runs / "bad" / "log.jsonl")
    archive = tmp_path / f"runs.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in sorted(runs.rglob("*.jsonl")):
                packed.write(file, str(file.relative_to(runs)))
    else:
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(runs, ".")
    packed_report, plain = audit(str(archive)), audit(str(runs))
    assert ids(packed_report) == ids(plain)
    assert ids(plain)["bad"] >= {"TP-NAN"}


def test_what_is_no_log_is_counted_and_what_is_expected_to_be_one_is_named(tmp_path: Path) -> None:
    healthy(tmp_path / "log.jsonl")
    (tmp_path / "notes.txt").write_text("nothing to see\n")
    (tmp_path / "trainer_state.json").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    )
    (tmp_path / "empty.csv").write_text("")
    report = audit(str(tmp_path), isolation=False)
    assert report.not_judged.counts == {"empty": 1, "git-lfs-pointer": 1, "not-a-log": 1}
    assert [(f.path, f.content) for f in report.not_judged.files] == [
        ("empty.csv", "empty"),
        ("trainer_state.json", "git-lfs-pointer"),
    ]


def test_a_table_that_is_no_log_is_silent_whatever_its_lines(tmp_path: Path) -> None:
    (tmp_path / "module.pm").write_text("use strict, warnings;\nsub a\n  print 1, 2, 3;\n")
    (tmp_path / "people.csv").write_text("name,town\nAda,London\nAlan\n")
    report = audit(str(tmp_path), isolation=False)
    assert report.reports == ()
    assert report.not_judged.counts == {"not-a-log": 2}


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", zstd.compress)],
)
def test_a_compressed_log_is_judged_as_what_it_stands_for(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    plain = broken(tmp_path / "plain" / "log.jsonl", at=40)
    packed = tmp_path / "packed" / f"log.jsonl.{suffix}"
    packed.parent.mkdir()
    packed.write_bytes(compress(plain.read_bytes()))
    runs = audit(str(tmp_path)).reports
    assert [run.id for run in runs] == ["packed", "plain"]
    (first, second) = ([(f.id, f.location.line, f.measured) for f in r.findings] for r in runs)
    assert first == second
    assert ("TP-NAN", 41) in [(id, line) for id, line, _ in first]


def test_a_compressed_log_that_unfolds_to_too_much_is_a_fault_of_its_own(tmp_path: Path) -> None:
    row = b'{"step": 1, "loss": 2.0}' + b" " * (1 << 20) + b"\n"
    path = tmp_path / "bomb" / "log.jsonl.bz2"
    path.parent.mkdir()
    path.write_bytes(bz2.compress(row * 80))
    (run,) = audit(str(tmp_path), isolation=False).reports
    assert [(p.code, p.path, p.fatal) for p in run.problems] == [
        ("too-large", "bomb/log.jsonl.bz2", True)
    ]


def test_settings_beside_a_log_are_facts_of_its_run(tmp_path: Path) -> None:
    healthy(tmp_path / "run" / "log.jsonl")
    (tmp_path / "run" / "args.yaml").write_text("max_steps: 600\nseed: 7\nfp16: true\n")
    (run,) = audit(str(tmp_path), isolation=False).reports
    assert run.facts == {"max_steps": 600, "seed": 7, "precision": "fp16"}
    assert [(a.path, a.kind, a.status) for a in run.artifacts] == [
        ("run/args.yaml", "config", "facts"),
        ("run/log.jsonl", "log", "read"),
    ]
    assert run.verdict is Verdict.PASS
    assert [(f.id, f.measured["planned"]) for f in run.findings] == [("TP-LOG-PREFIX", 600)]


@pytest.mark.parametrize("text", ["lr: 0.1\nseed: 7\n", "lr: 0.1\nseed: [\n", "lr: 1\nlr: 2\n"])
@pytest.mark.parametrize("log", ["good", "bad", "hollow", "none"])
def test_settings_make_no_run_and_change_no_verdict_and_no_exit_code(
    tmp_path: Path, log: str, text: str
) -> None:
    if log == "good":
        healthy(tmp_path / "log.jsonl")
    elif log == "bad":
        broken(tmp_path / "log.jsonl")
    elif log == "hollow":
        (tmp_path / "log.csv").write_text("step,loss\n")
    else:
        (tmp_path / "notes").write_text("nothing\n")
    before = audit(str(tmp_path), isolation=False)
    (tmp_path / "config.yaml").write_text(text)
    after = audit(str(tmp_path), isolation=False)
    assert [(r.id, r.verdict) for r in after.reports] == [(r.id, r.verdict) for r in before.reports]
    assert [exit_code(after, on) for on in FailOn] == [exit_code(before, on) for on in FailOn]


def test_settings_without_a_log_are_counted(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("lr: 0.1\nseed: 7\n")
    report = audit(str(tmp_path), isolation=False)
    assert (report.reports, report.not_judged.counts) == ((), {"not-a-log": 1})


def test_a_path_that_does_not_exist_is_a_problem_not_an_exception(tmp_path: Path) -> None:
    report = audit(str(tmp_path / "nowhere"))
    assert report.reports == ()
    assert [(p.code, p.fatal) for p in report.problems] == [("io", True)]


def test_an_archive_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.zip", tmp_path / "cut.zip"
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("run/log.csv", "step,loss\n" + "".join(f"{i},1.5\n" for i in range(200)))
    cut.write_bytes(whole.read_bytes()[:-30])
    report = audit(str(whole), str(cut), isolation=False)
    assert [run.root for run in report.reports] == [str(whole)]
    assert [(one.code, one.path) for one in report.problems] == [("io", str(cut))]


def test_a_mapped_column_is_judged_as_what_it_was_mapped_to(tmp_path: Path) -> None:
    jsonl(tmp_path / "log.jsonl", {"zorp": [1.0] * 10 + [float("nan")] * 5})
    (unmapped,) = audit(str(tmp_path), isolation=False).reports
    assert unmapped.unknown_columns == ("zorp",)
    assert unmapped.verdict is Verdict.NOT_CHECKED
    (mapped,) = audit(str(tmp_path), isolation=False, tags=(("loss", "zorp"),)).reports
    assert "TP-NAN" in ids_of(mapped)


def test_rules_that_were_not_selected_are_out_of_scope_by_the_caller(tmp_path: Path) -> None:
    broken(tmp_path / "log.jsonl")
    (run,) = audit(str(tmp_path), isolation=False, ignore=("TP-NAN*",)).reports
    assert run.checks.coverage.states["TP-NAN"] == "OUT_OF_SCOPE/CALLER"
    assert "TP-NAN" not in ids_of(run)


@pytest.mark.parametrize(
    "options",
    [
        {"select": ("TP-NO-SUCH",)},
        {"tags": (("flavour", "x"),)},
        {"format_hint": "nonsense"},
        {"timeout": 0.0},
        {"thresholds": {"TP-NAN": {"in_a_row": 0}}},
        {"thresholds": {"TP-NAN": {"in_a_row": "many"}}},
        {"thresholds": {"TP-NAN": {"nothing": 1}}},
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Config(**options)  # type: ignore[arg-type]


def test_the_runs_of_one_database_are_judged_as_runs(tmp_path: Path) -> None:
    loss = falling(60)
    lost = [*loss[:30], *([float("nan")] * 30)]
    mlflow_database(tmp_path / "mlflow.db", {"good": loss, "lost": lost})
    for isolation in (False, True):
        report = audit(str(tmp_path), isolation=isolation)
        assert {run.id: run.verdict for run in report.reports} == {
            "mlflow.db/good": Verdict.PASS,
            "mlflow.db/lost": Verdict.FAIL,
        }
        assert [run.artifacts[0].path for run in report.reports] == ["mlflow.db", "mlflow.db"]
        assert report.not_judged.counts == {}


def test_what_another_training_left_in_a_directory_is_judged_as_a_run(tmp_path: Path) -> None:
    home = tmp_path / "catboost_info"
    home.mkdir()
    for name, metric, count in (("learn", "RMSE", 50), ("test", "Logloss", 60)):
        rows = (f"{i}\t{value}\n" for i, value in enumerate(falling(count)))
        (home / f"{name}_error.tsv").write_text(f"iter\t{metric}\n" + "".join(rows))
    report = audit(str(tmp_path), isolation=False)
    assert {run.id: [s.name for s in run.series] for run in report.reports} == {
        "catboost_info": ["RMSE"],
        "catboost_info/test_error": ["Logloss"],
    }


@pytest.mark.parametrize("home", ["wandb/run-20200324_181151-zp6vyhqw", f"mlruns/0/{'1' * 32}"])
def test_a_directory_of_a_tracker_without_a_log_is_named_once(tmp_path: Path, home: str) -> None:
    (tmp_path / home / "code").mkdir(parents=True)
    (tmp_path / home / "config.yaml").write_text("learning_rate: 0.1\nmax_steps: 9\nseed: 1\n")
    (tmp_path / home / "code" / "main.py").write_text("import torch\n")
    report = audit(str(tmp_path), isolation=False)
    assert report.reports == ()
    assert dict(report.not_judged.counts) == {"header-only": 1, "not-a-log": 1}
    jsonl(tmp_path / home / "history.jsonl", {"loss": falling(30)})
    report = audit(str(tmp_path), isolation=False)
    assert [run.id for run in report.reports] == [home]
    assert dict(report.not_judged.counts) == {"not-a-log": 1}


def test_settings_that_are_of_no_tracker_are_no_log(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("learning_rate: 0.1\nmax_steps: 9\nseed: 1\n")
    assert dict(audit(str(tmp_path), isolation=False).not_judged.counts) == {"not-a-log": 1}
