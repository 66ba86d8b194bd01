"""The queues of trackers that are offline; ``test_frameworks`` reads those that they wrote."""

from __future__ import annotations

import json

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, FaultCode
from trainproof.readers.named_only import Aim
from trainproof.readers.offline import ClearMl, Neptune
from trainproof.readers.scalars import MAX_COLUMNS

from .readings import Readout, read


def operation(kind: str, *path: str, **members: object) -> str:
    return json.dumps({"obj": {"type": kind, "path": path, **members}, "version": 1, "at": 1.5})


def floats(*path: str, value: object, step: object = None, ts: object = 1.7e9) -> str:
    return operation("LogFloats", *path, values=[{"value": value, "step": step, "ts": ts}])


def neptune(*lines: str) -> Readout:
    data = "".join(f"{line}\n" for line in lines).encode()
    assert Neptune().claims(".neptune/offline/run__x/data-1.log", data[:4096])
    return read(Neptune(), "data-1.log", data)


def test_points_settings_and_what_the_client_logs_by_itself() -> None:
    got = neptune(
        operation("AssignString", "sys", "name", value="lr"),
        floats("monitoring", "x", "cpu", value=50.0),
        operation("AssignFloat", "parameters", "lr", value=0.01),
        floats("train", "loss", value=2.0, step=10),
        floats("train", "loss", value=1.5, step=20, ts=1.7e9 + 1),
        floats("acc", value=0.5),
        floats("acc", value=0.75),
    )
    assert got.tags == ["train/loss", "acc"]
    assert (got.steps("train/loss"), got.values("train/loss")) == ([10, 20], [2.0, 1.5])
    walls = got["train/loss"].walls
    assert walls is not None and walls.tolist() == [1.7e9, 1.7e9 + 1]
    assert (got["acc"].axis, got.steps("acc")) == (Axis.INDEX, [0, 1])
    assert (got.facts.framework, got.facts.learning_rate) == ("neptune", 0.01)


def test_values_that_are_no_points_are_left_out() -> None:
    got = neptune(
        floats("loss", value="x", step=1),
        floats("loss", value=2.0, step="x"),
        floats("loss", value=2.0, step=2**70),
        floats("loss", value=2.0, step=1.5),
        operation("LogFloats", "loss", values=[1, None]),
        operation("LogFloats", "loss", values=7),
        floats("loss", value=1.0, step=5),
    )
    assert (got.steps("loss"), got.values("loss")) == ([0, 0, 0, 5], [2.0, 2.0, 2.0, 1.0])


def test_lines_that_are_broken_or_cut_are_told() -> None:
    good = floats("loss", value=1.0, step=5)
    got = neptune(good, "{", "[1]", '{"obj": 7}', f"{good}\n{good[:-9]}")
    assert got.codes == [
        (FaultCode.CORRUPT, False),
        (FaultCode.CORRUPT, False),
        (FaultCode.CORRUPT, False),
        (FaultCode.CORRUPT, False),
    ]
    cut = read(Neptune(), "data-1.log", f"{good}\n{good[:-9]}".encode())
    assert (cut.codes, cut.values("loss")) == ([(FaultCode.TRUNCATED, False)], [1.0])


def test_a_queue_without_points() -> None:
    got = neptune(operation("AssignString", "sys", "name", value="x"))
    assert (got.content, got.columns) == (Content.HEADER_ONLY, ())


def test_more_names_than_are_kept() -> None:
    got = neptune(*(floats(f"m{i}", value=1.0) for i in range(MAX_COLUMNS + 1)))
    assert got.codes == [(FaultCode.TOO_LARGE, True)]


def test_events_of_clearml() -> None:
    def scalar(metric: str, variant: str, value: float, at: int) -> dict[str, object]:
        return {
            "timestamp": 1_700_000_000_000 + at, "type": "training_stats_scalar", "task": "t",
            "iter": at, "metric": metric, "variant": variant, "value": value,
        }  # fmt: skip

    lines = [
        [scalar("loss", "val", 2.0, 0), scalar("acc", "acc", 0.5, 0)],
        [{"timestamp": 5, "type": "plot", "task": "t"}, scalar("loss", "val", 1.0, 9)],
        {"timestamp": 5},
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert ClearMl().claims("offline-x/metrics.jsonl", data)
    assert not ClearMl().claims("offline-x/log.jsonl", data)
    got = read(ClearMl(), "metrics.jsonl", data)
    assert (got.steps("loss/val"), got.values("loss/val")) == ([0, 9], [2.0, 1.0])
    assert (got.tags, got.codes) == (["loss/val", "acc"], [(FaultCode.CORRUPT, False)])
    assert got.facts.framework == "clearml"


def test_an_aim_repository_is_named() -> None:
    head = b"SQLite format 3\0" + bytes(100)
    assert Aim().claims(".aim/run_metadata.sqlite", head)
    assert not Aim().claims(".aim/other.sqlite", head)
    assert not Aim().claims(".aim/run_metadata.sqlite", b"text")
    assert read(Aim(), ".aim/run_metadata.sqlite", head).content is Content.UNSUPPORTED
