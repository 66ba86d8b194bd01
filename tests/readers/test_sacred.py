"""Sacred's file storage, as Sacred wrote it."""

from __future__ import annotations

import json
import math

import pytest

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, Facts, FaultCode
from trainproof.readers.sacred import SacredMetrics, SacredRun

from .readings import DATA, Readout, read, read_file, survives

METRICS = "sacred/completed/metrics.json"


def made(document: object) -> Readout:
    return read(SacredMetrics(), "1/metrics.json", json.dumps(document).encode())


def test_each_metric_has_steps_of_its_own_and_a_clock() -> None:
    got = read_file(SacredMetrics(), METRICS)
    loss = got["training.loss"]
    assert (loss.axis, loss.steps.tolist()) == (Axis.STEP, [0, 10, 20, 30, 40, 50])
    assert repr(loss.values.tolist()) == "[2.0, 1.5, nan, 1.25, inf, 1.0]"
    assert got.steps("val.accuracy") == [0, 1, 2, 3, 4, 5]
    assert loss.walls is not None and len(loss.walls) == 6
    assert (got.faults, got.content) == ((), None)


def test_clocks_are_in_utc() -> None:
    series = {"steps": [1], "values": [0.5], "timestamps": ["2024-02-12T15:55:19.500000"]}
    walls = made({"loss": series})["loss"].walls
    assert walls is not None and walls.tolist() == [1707753319.5]


@pytest.mark.parametrize("clock", [[], ["yesterday"], [3], ["2024-02-12T15:55:19"]])
def test_a_clock_that_does_not_fit_is_left_out(clock: list[object]) -> None:
    series = {"steps": [1, 2], "values": [0.5, 0.25], "timestamps": clock}
    assert made({"loss": series})["loss"].walls is None


def test_numpy_scalars_and_words_are_numbers() -> None:
    wrapped = {"dtype": "float64", "py/object": "numpy.float64", "value": 0.5}
    series = {"steps": [1, 2, 3], "values": [wrapped, "0.25", math.nan]}
    assert repr(made({"loss": series}).values("loss")) == "[0.5, 0.25, nan]"


@pytest.mark.parametrize(
    "series",
    [
        {"steps": [0, 1, 2], "values": [2.0, 1.0]},
        {"steps": [0, "x", 1], "values": [2.0, 1.5, 1.0]},
        {"steps": [0, 10**30, 1], "values": [2.0, 1.5, 1.0]},
        {"steps": [0, 1, 5], "values": [2.0, 1.0, None]},
    ],
)
def test_points_that_are_no_numbers_are_left_out_and_told(series: dict[str, object]) -> None:
    got = made({"loss": series})
    assert (got.steps("loss"), got.values("loss")) == ([0, 1], [2.0, 1.0])
    assert got.codes == [(FaultCode.CORRUPT, False)]


def test_a_cut_file_loses_the_point_whose_digits_may_be_missing() -> None:
    whole = (DATA / METRICS).read_bytes()
    cut = whole[: whole.rindex(b"0.4") + 3]
    got = read(SacredMetrics(), METRICS, cut)
    assert got.values("training.loss")[:2] == [2.0, 1.5]
    assert got.steps("val.accuracy") == [0, 1, 2, 3]
    assert got.codes == [(FaultCode.TRUNCATED, False)]


def test_too_many_metrics_are_told() -> None:
    got = made({f"m{n}": {"steps": [1], "values": [1]} for n in range(5000)})
    assert len(got.columns) == 4096
    assert got.codes == [(FaultCode.TOO_LARGE, False)]


@pytest.mark.parametrize(
    "document", [{}, [1], {"loss": {"steps": [], "values": []}}, {"loss": {"steps": 1}}]
)
def test_without_points_there_is_nothing_to_judge(document: object) -> None:
    got = made(document)
    assert (got.content, got.columns) == (Content.HEADER_ONLY, ())


@pytest.mark.parametrize(
    "head",
    [b"", b"[1]", b'{"loss": [1, 2]}', b'{"loss": {"values": [1]}}', b'{"acc": 0.9}', b"{\n"],
)
def test_other_metrics_files_are_not_claimed(head: bytes) -> None:
    assert not SacredMetrics().claims("metrics.json", head)


@pytest.mark.parametrize(("name", "finished"), [("completed", True), ("failed", False)])
def test_run_json_says_how_the_run_ended(name: str, finished: bool) -> None:
    got = read_file(SacredRun(), f"sacred/{name}/run.json")
    assert got.facts == Facts(framework="sacred", finished=finished)


def test_a_run_that_goes_on_says_nothing_about_its_end() -> None:
    data = b'{"artifacts": [], "command": "c", "experiment": {}, "status": "RUNNING"}'
    assert SacredRun().claims("1/run.json", data)
    assert read(SacredRun(), "1/run.json", data).facts == Facts(framework="sacred")


def test_other_files_called_run_json_are_not_claimed() -> None:
    assert not SacredRun().claims("run.json", b'{"command": "c"}')
    assert not SacredRun().claims("other.json", (DATA / "sacred/failed/run.json").read_bytes())


def test_damage_is_said_and_never_raised() -> None:
    survives(SacredMetrics(), "metrics.json", (DATA / METRICS).read_bytes())
    survives(SacredRun(), "run.json", (DATA / "sacred/failed/run.json").read_bytes())
