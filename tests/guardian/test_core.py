"""The guardian of loops of one's own: when it judges, what it says, and when it asks to stop."""

from __future__ import annotations

import json
import logging
import math
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainproof.config import Config
from trainproof.guardian import Guardian, Policy
from trainproof.guardian.core import CONFIRM, PATIENT
from trainproof.guardian.journal import MAX_TAGS, Journal, scalar
from trainproof.model.data import Axis, Facts, Role
from trainproof.model.report import Verdict
from trainproof.rules import REGISTRY

EXAMPLES = Path(__file__).parents[2] / "examples" / "guardian"
NOISE = np.random.default_rng(0).normal(0, 0.02, 4000)


def healthy(step: int) -> float:
    return float(1 + 3 * math.exp(-step / 40) + NOISE[step])


def run(guardian: Guardian, values: list[float]) -> int:
    """Log them all, or up to where the guardian asks to stop; the steps that were done."""
    for step, value in enumerate(values, 1):
        guardian.log(step, loss=value)
        if guardian.should_stop:
            return step
    return len(values)


HEALTHY = [healthy(step) for step in range(400)]
DIVERGING = HEALTHY[:200] + [1.0 * 1.2**step for step in range(200)]
BROKEN = HEALTHY[:200] + [math.nan] * 200
FLAT = [2.0 + float(noise) for noise in NOISE[:400]]


@pytest.mark.parametrize("values", [DIVERGING, BROKEN])
def test_a_training_that_fails_is_asked_to_stop(values: list[float]) -> None:
    guardian = Guardian(policy="stop_on_fail")
    assert 200 < run(guardian, values) < 260
    assert guardian.verdict is Verdict.FAIL
    assert guardian.finish().worst_verdict is Verdict.FAIL


@pytest.mark.parametrize("values", [DIVERGING, BROKEN])
def test_by_default_nothing_is_stopped(values: list[float]) -> None:
    guardian = Guardian()
    assert run(guardian, values) == 400
    assert guardian.finish().worst_verdict is Verdict.FAIL


def test_a_healthy_training_goes_on_and_passes() -> None:
    guardian = Guardian(policy=Policy.STOP_ON_FAIL)
    assert run(guardian, HEALTHY) == 400
    assert guardian.finish().worst_verdict is Verdict.PASS


def test_one_bad_value_stops_nothing() -> None:
    values = [*HEALTHY[:200], math.nan, *HEALTHY[200:]]
    assert run(Guardian(policy="stop_on_fail"), values) == 401


def test_what_may_still_come_stops_nothing_in_the_first_half() -> None:
    assert run(Guardian(policy="stop_on_fail"), FLAT) == 400
    assert run(Guardian(policy="stop_on_fail", facts=Facts(max_steps=1000)), FLAT) == 400
    assert 200 <= run(Guardian(policy="stop_on_fail", facts=Facts(max_steps=400)), FLAT) < 400


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="stop_always"):
        Guardian(policy="stop_always")


def test_patient_rules_are_rules() -> None:
    assert set(REGISTRY) >= PATIENT
    assert CONFIRM == 2


def test_judgements_become_rarer_as_the_log_grows() -> None:
    guardian, seen = Guardian(), [None]
    for step in range(1, 3001):
        guardian.log(step, loss=HEALTHY[step % 400])
        if guardian.report is not seen[-1]:
            seen.append(guardian.report)  # type: ignore[arg-type]
        if step == 15:
            assert len(seen) == 3  # after 10 and 15 rows
    assert len(seen) == 88


def test_a_fail_is_said_once_and_only_when_it_stands(caplog: pytest.LogCaptureFixture) -> None:
    guardian = Guardian()
    with caplog.at_level(logging.WARNING, "trainproof.guardian"):
        run(guardian, BROKEN)
        guardian.finish()
    assert [record.message.count("FAIL TP-NAN") for record in caplog.records] == [1]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "trainproof.guardian"):
        run(Guardian(), [*HEALTHY[:200], math.nan, *HEALTHY[200:]])
    assert caplog.records == []


def test_the_report_stands_beside_the_run_and_is_no_log(tmp_path: Path) -> None:
    guardian = Guardian(tmp_path / "run")
    run(guardian, HEALTHY)
    guardian.finish()
    report = json.loads((tmp_path / "run" / "trainproof-report.json").read_text())
    assert report["worst_verdict"] == "PASS"
    assert report["reports"][0]["id"] == str(tmp_path / "run")
    assert (tmp_path / "run" / "trainproof-report.md").read_text().startswith("## trainproof: PASS")
    from trainproof import audit  # noqa: PLC0415 - that the report is passed over

    assert audit(str(tmp_path), isolation=False).reports == ()


@pytest.mark.parametrize("options", [{"directory": None}, {"writes": False}])
def test_nothing_is_written_where_nobody_asked(tmp_path: Path, options: dict[str, Any]) -> None:
    guardian = Guardian(**({"directory": tmp_path} | options))
    run(guardian, HEALTHY[:50])
    guardian.finish()
    assert list(tmp_path.iterdir()) == []


def test_rules_and_thresholds_are_the_callers() -> None:
    guardian = Guardian(policy="stop_on_fail", config=Config(ignore=("TP-NAN*",)))
    assert run(guardian, BROKEN) == 400


def test_metrics_may_be_a_mapping_of_any_names() -> None:
    guardian = Guardian()
    for step, value in enumerate(HEALTHY):
        guardian.log(step, {"train/loss": value}, lr=1e-3, note="text", none=None)
    (subject,) = guardian.finish().reports
    assert {one.name: one.points for one in subject.series} == {"train/loss": 400, "lr": 400}


def test_epochs_can_be_what_is_counted() -> None:
    guardian = Guardian(policy="stop_on_fail", axis=Axis.EPOCH, facts=Facts(max_epochs=300.0))
    assert 150 <= run(guardian, FLAT[:300]) < 300


# --- the journal --------------------------------------------------------------------------------


class Tensor:
    """As torch's tensors behave: one element is a number, more are none."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def __float__(self) -> float:
        if len(self.values) != 1:
            raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")
        return self.values[0]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (np.float32(0.5), 0.5),
        (np.array([2.0]).reshape(()), 2.0),
        (Tensor(3.0), 3.0),
        (Tensor(1.0, 2.0), None),
        (10**400, math.inf),
        (True, None),
        ("1.0", None),
        (b"1", None),
        (None, None),
        ([1.0], None),
        ({}, None),
    ],
)
def test_numbers_and_tensors_of_one_element_are_scalars(value: object, number: object) -> None:
    assert scalar(value) == number


class Loss(Tensor):
    """A tensor that is part of a graph: torch warns where such a one is made a number."""

    def __float__(self) -> float:
        warnings.warn("requires_grad", UserWarning, stacklevel=1)
        return super().__float__()

    def detach(self) -> Tensor:
        return Tensor(*self.values)


def test_a_loss_is_taken_without_a_warning() -> None:
    assert scalar(Loss(0.5)) == 0.5


def test_a_journal_grows_while_a_view_of_it_is_in_use() -> None:
    journal = Journal()
    journal.add(1, {"loss": 1.0}, 5.0)
    view = journal.view("run", Facts())
    journal.add(2, {"loss": 2.0}, 6.0)
    (series,) = view.series
    assert (series.role, series.values.tolist()) == (Role.LOSS, [1.0])
    assert series.column.walls is not None
    assert series.column.walls.tolist() == [5.0]


def test_tags_without_end_are_dropped_and_counted() -> None:
    journal = Journal()
    for step in range(MAX_TAGS + 5):
        journal.add(step, {f"loss_{step}": 1.0}, 0.0)
    journal.add(9, {"loss_0": 2.0}, 0.0)
    assert journal.dropped == 5
    assert len(journal.view("run", Facts()).series) == MAX_TAGS


# --- the example --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_example_of_an_own_loop_is_stopped(tmp_path: Path) -> None:
    main = runpy.run_path(str(EXAMPLES / "own_loop.py"))["main"]
    guardian = main(str(tmp_path))
    assert guardian.should_stop
    assert 400 < guardian.journal.rows < 800
    assert (tmp_path / "trainproof-report.json").exists()


def written(directory: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((directory / "trainproof-report.json").read_text())
    return report


def test_a_training_that_raises_leaves_its_report(tmp_path: Path) -> None:
    guardian = Guardian(tmp_path)
    run(guardian, BROKEN)
    del guardian
    assert written(tmp_path)["worst_verdict"] == "FAIL"


def test_a_program_that_raises_leaves_the_report_of_its_training(tmp_path: Path) -> None:
    program = (
        "from trainproof.guardian import Guardian\n"
        f"guardian = Guardian({str(tmp_path)!r})\n"
        "for step in range(1, 200):\n"
        "    guardian.log(step, loss=float('nan') if step > 150 else 1 / step)\n"
        "raise MemoryError\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr.strip().split(b"\n")[-1]) == (1, b"MemoryError")
    assert written(tmp_path)["worst_verdict"] == "FAIL"


def test_what_was_finished_or_never_begun_is_left_alone(tmp_path: Path) -> None:
    guardian = Guardian(tmp_path)
    run(guardian, HEALTHY)
    guardian.finish()
    (tmp_path / "trainproof-report.json").unlink()
    guardian.leave()
    del guardian
    Guardian(tmp_path).leave()
    Guardian(tmp_path, writes=False).log(1, loss=1.0)
    assert not (tmp_path / "trainproof-report.json").exists()


class Odd:
    """A value whose class raises whatever it likes."""

    def __float__(self) -> float:
        raise KeyError("no number")

    @property
    def detach(self) -> object:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (np.float32(0.5), 0.5),
        (np.array(2), 2.0),
        (np.array([2.5]), 2.5),
        (np.array([1.0, 2.0]), None),
        (np.array([]), None),
        (np.True_, None),
        (np.array("text"), None),
        (Odd(), None),
        ({"loss": 1.0}, None),
    ],
)
def test_a_value_is_its_number_or_none(value: object, number: float | None) -> None:
    assert scalar(value) == number


@pytest.mark.parametrize("step", [None, "first", math.nan, 2**70])
def test_a_step_that_is_none_is_told_once_and_stops_nothing(
    step: Any, caplog: pytest.LogCaptureFixture
) -> None:
    guardian = Guardian()
    assert [guardian.log(step, loss=1.0) for _ in range(3)] == [Verdict.NOT_CHECKED] * 3
    assert guardian.log(1, loss=1.0) is Verdict.NOT_CHECKED
    assert caplog.text.count("Error in log: the training goes on") == 1


def test_a_report_that_cannot_be_written_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    guardian = Guardian(tmp_path / "file" / "run")
    run(guardian, HEALTHY)
    assert guardian.finish().worst_verdict is Verdict.PASS
    assert "NotADirectoryError in finish: no report was written" in caplog.text
