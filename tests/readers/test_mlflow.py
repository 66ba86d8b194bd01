"""MLflow's file store, as MLflow wrote it."""

from __future__ import annotations

import io
import math

import pytest

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Axis, Facts, FaultCode
from trainproof.readers.interface import Options
from trainproof.readers.mlflow import MlflowMetric, MlflowParam, MlflowRun, metric_name

from .readings import DATA, read, read_file, survives

RUN = "mlflow/mlruns/0/" + "0" * 32
FAILED = "mlflow/mlruns/0/" + "0" * 31 + "1"
ID = "1f9f0ec610b142ab8eff3eb836994def"


def test_a_metric_is_a_column_with_steps_clock_and_lines() -> None:
    got = read_file(MlflowMetric(), f"{RUN}/metrics/train/loss")
    (loss,) = got.columns
    assert loss.tag == "train/loss"
    assert loss.axis is Axis.STEP
    assert loss.steps.tolist() == [0, 10, 20, 30, 40, 50]
    assert [repr(v) for v in loss.values.tolist()] == ["2.0", "1.5", "nan", "1.25", "inf", "1.0"]
    assert loss.lines is not None and loss.lines.tolist() == [1, 2, 3, 4, 5, 6]
    assert loss.walls is not None and loss.walls.tolist() == [1.7e9 + i for i in range(6)]
    assert (got.faults, got.content) == ((), None)


def test_points_logged_without_a_step_are_numbered() -> None:
    column = read_file(MlflowMetric(), f"{RUN}/metrics/no_step")["no_step"]
    assert (column.axis, column.steps.tolist()) == (Axis.INDEX, [0, 1, 2, 3, 4, 5])


def test_one_value_is_one_point() -> None:
    got = read_file(MlflowMetric(), f"{RUN}/metrics/val/acc")
    assert (got.values("val/acc"), got.steps("val/acc")) == ([0.5], [50])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"mlruns/0/{ID}/metrics/val/loss", "val/loss"),
        (f"mlruns/0/{ID}/metrics/eval/metrics/f1", "eval/metrics/f1"),
        ("metrics/train/loss", "train/loss"),
        ("copied/metrics/loss", "loss"),
        ("loss", "loss"),
    ],
)
def test_the_name_of_a_metric_is_its_path_in_the_run(path: str, name: str) -> None:
    assert metric_name(path) == name


def test_fields_of_newer_versions_and_windows_line_ends_are_accepted() -> None:
    data = b"1700000000000 -1.5E-3 0 data 8f3c m-1\r\n1700000000001 1e+20 7\r\n"
    got = read(MlflowMetric(), "metrics/loss", data)
    assert (got.values("loss"), got.steps("loss")) == ([-0.0015, 1e20], [0, 7])


def test_a_line_without_its_newline_may_lack_digits_and_is_dropped() -> None:
    got = read(MlflowMetric(), "metrics/loss", b"1700000000000 2.5 1\n1700000000001 1.25 1")
    assert got.values("loss") == [2.5]
    assert got.codes == [(FaultCode.TRUNCATED, False)]
    assert got.faults[0].line == 2


def test_a_line_of_something_else_is_a_fault_and_no_point() -> None:
    data = b"1700000000000 2.5 1\n1700000000001 1.2.5 2\nkilled\n1700000000002 1.5 3\n"
    got = read(MlflowMetric(), "metrics/loss", data)
    assert (got.values("loss"), got.steps("loss")) == ([2.5, 1.5], [1, 3])
    assert [(f.code, f.line) for f in got.faults] == [
        (FaultCode.CORRUPT, 2),
        (FaultCode.CORRUPT, 3),
    ]


def test_a_file_of_one_cut_line_holds_nothing() -> None:
    assert read(MlflowMetric(), "metrics/loss", b"17000000").content is Content.EMPTY


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"step,loss\n1,2\n",
        b"1 2.5 1\n",
        b"1700000000000 2.5 1\nhello\n",
        b"1700000000000 two 1\n",
        b'{"a": 1}\n',
    ],
)
def test_other_files_in_a_metrics_folder_are_not_claimed(head: bytes) -> None:
    assert not MlflowMetric().claims(f"mlruns/0/{ID}/metrics/loss", head)


@pytest.mark.parametrize(("run", "finished"), [(RUN, True), (FAILED, False)])
def test_meta_yaml_says_how_the_run_ended(run: str, finished: bool) -> None:
    assert read_file(MlflowRun(), f"{run}/meta.yaml").facts == Facts(finished=finished)


def test_a_run_that_goes_on_says_nothing_about_its_end() -> None:
    data = b"artifact_uri: x\nlifecycle_stage: active\nrun_id: x\nstatus: 1\n"
    assert read(MlflowRun(), "meta.yaml", data).facts == Facts()


def test_the_meta_yaml_of_an_experiment_is_not_that_of_a_run() -> None:
    head = b"artifact_location: x\nexperiment_id: '0'\nlifecycle_stage: active\nname: Default\n"
    assert not MlflowRun().claims("mlruns/0/meta.yaml", head)


def test_parameters_are_facts() -> None:
    rate = read_file(MlflowParam(), f"{RUN}/params/learning_rate")
    assert rate.facts == Facts(learning_rate=0.001)
    assert read_file(MlflowParam(), f"{RUN}/params/epochs").facts == Facts(max_epochs=3.0)


def test_a_parameter_without_a_place_in_the_facts_is_not_claimed() -> None:
    assert not MlflowParam().claims(f"{RUN}/params/activation", b"relu")
    assert not MlflowParam().claims("params/epochs", b"3")


def test_a_failing_store_is_a_fault_of_the_file() -> None:
    class Gone(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError("gone")

    artifact = Artifact("root", "meta.yaml", 9, Kind.CONFIG, "mlflow-run")
    _, fault = MlflowRun().read(artifact, Gone(), Options())
    assert (fault.code, fault.fatal) == (FaultCode.IO, True)  # type: ignore[union-attr]


def test_damage_is_said_and_never_raised() -> None:
    survives(MlflowMetric(), "metrics/loss", (DATA / RUN / "metrics/train/loss").read_bytes() * 5)
    survives(MlflowRun(), "meta.yaml", (DATA / RUN / "meta.yaml").read_bytes())


def test_numbers_of_any_size_are_numbers() -> None:
    data = b"9999999999999 1e999 9999999999999999\n9999999999999 -inf -9999999999999999\n"
    got = read(MlflowMetric(), "metrics/loss", data)
    assert got.values("loss") == [math.inf, -math.inf]
    assert got.steps("loss") == [9999999999999999, -9999999999999999]
