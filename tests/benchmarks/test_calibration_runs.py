"""Trainings are deterministic, faults do what they say, logs are read back, outcomes are judged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.calibration import check, judging, logs
from benchmarks.calibration.catalogue import WORKLOADS, held_out
from benchmarks.calibration.check import Counts
from benchmarks.calibration.faults import FAULTS
from benchmarks.calibration.outcomes import Outcome, absolute, relative
from benchmarks.calibration.results import Results, detection, family, of_rule
from benchmarks.calibration.runs import (
    CLEAN,
    Case,
    Run,
    Size,
    all_runs,
    run_faulty,
    run_healthy,
    sample,
)
from benchmarks.calibration.settings import Setting, Writer
from benchmarks.calibration.training import Change, History, Loss, train
from benchmarks.calibration.workloads import Defect, Sampler, Split

SETTING = replace(
    WORKLOADS["classification"].setting("classification", 0),
    rows=40,
    every=2,
    evaluations=8,
    optimizer="adam",
    lr=0.02,
    schedule="cosine",
    weight_decay=0.0,
    warmup=0.0,
    half=False,
    pretrained=False,
    resume="no",
    digits=4,
    log_lr=True,
    log_grad_norm=True,
    writer="jsonl",
)


def trained(
    setting: Setting = SETTING, change: Change | None = None, defect: Defect | None = None
) -> History:
    return train(setting, WORKLOADS[setting.workload].make(setting, defect), change)


def losses(history: History) -> list[float]:
    return [row.values["loss"] for row in history.rows if row.split is Split.TRAIN]


# --- trainings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_trains_and_gives_the_same_numbers_again(workload: str) -> None:
    setting = replace(WORKLOADS[workload].setting(workload, 3), rows=12, every=1, evaluations=3)
    first, second = trained(setting), trained(setting)
    assert first.rows == second.rows
    assert first.third == second.third
    assert not np.array_equal(first.weights, first.start)
    assert sum(row.split is Split.TRAIN for row in first.rows) >= 12


def test_no_two_settings_are_the_same() -> None:
    drawn = {
        replace(workload.setting(name, number), workload="", number=0)
        for name, workload in WORKLOADS.items()
        for number in range(40)
    }
    assert len(drawn) == 40 * len(WORKLOADS)


def test_seven_workloads_are_set_aside() -> None:
    assert sorted(filter(held_out, WORKLOADS)) == [
        "adversarial",
        "alignment",
        "autoencoder",
        "bandit",
        "cart-pole",
        "classification",
        "variational-autoencoder",
    ]


def test_a_healthy_training_learns_what_the_third_split_shows() -> None:
    history = trained()
    third = [loss for _, loss in history.third]
    assert third[-1] < 0.7 * third[0]
    assert absolute(third, history.floor, pretrained=False) is Outcome.HEALTHY


@pytest.mark.parametrize("change", [Change(steps=False), Change(lr_factor=0.0)])
def test_without_steps_or_learning_rate_weights_stay(change: Change) -> None:
    history = trained(change=change)
    assert np.array_equal(history.weights, history.start)


def test_a_frozen_layer_stays_and_the_others_do_not() -> None:
    history = trained(replace(SETTING, depth=1), Change(frozen=True))
    moved = history.weights != history.start
    first = (8 + 1) * SETTING.width
    assert not moved[:first].any()
    assert moved[first:].all()


def test_a_hurried_schedule_ends_early() -> None:
    rates = [
        row.values["lr"] for row in trained(change=Change(hurry=4.0)).rows if "lr" in row.values
    ]
    assert rates[0] > 0
    assert rates[10:] == [pytest.approx(0.0, abs=1e-9)] * 30


def test_overflow_skips_every_step_and_halves_the_scale_to_one() -> None:
    history = trained(change=Change(overflows=True))
    assert np.array_equal(history.weights, history.start)
    scales = [row.values["loss_scale"] for row in history.rows if row.split is Split.TRAIN]
    assert scales[:3] == [2.0**14, 2.0**12, 2.0**10]
    assert scales[-1] == 1.0


def test_a_clean_resume_changes_nothing_and_a_forgotten_step_counts_anew() -> None:
    whole, resumed = trained(), trained(replace(SETTING, resume="clean"))
    assert [row.step for row in resumed.rows] == [row.step for row in whole.rows]
    assert losses(resumed) == losses(whole)
    steps = [row.step for row in trained(change=Change(forgets=Loss.STEP)).rows]
    assert steps[-1] == 40
    assert max(steps) == 40


def test_a_rewound_resume_writes_steps_again_unless_the_log_is_part_of_the_checkpoint() -> None:
    setting = replace(SETTING, resume="rewound")
    steps = [row.step for row in trained(setting).rows if row.split is Split.TRAIN]
    assert len(steps) == 44
    assert np.diff(steps).min() == -6
    kept = [r.step for r in trained(replace(setting, writer="hf")).rows if r.split is Split.TRAIN]
    assert kept == list(range(2, 82, 2))


def test_unsupervised_loss_is_hidden_by_the_trainer_and_zero_elsewhere() -> None:
    filtered = trained(replace(SETTING, writer="hf"), defect=Defect.UNSUPERVISED)
    assert losses(filtered) == [0.0] * 40
    assert np.isnan([row.values["grad_norm"] for row in filtered.rows if "lr" in row.values]).all()
    guarded = trained(defect=Defect.UNSUPERVISED)
    assert losses(guarded) == [0.0] * 40
    assert np.array_equal(guarded.weights, guarded.start)


def test_samplers_visit_every_example_once_in_an_epoch() -> None:
    def epochs(sampler: Sampler) -> list[list[int]]:
        rng = np.random.default_rng(0)
        return [np.concatenate([sampler(rng) for _ in range(3)]).tolist() for _ in range(2)]

    first, second = epochs(Sampler(12, 4))
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second
    one, same = epochs(Sampler(12, 4, fixed=True))
    assert one == same != list(range(12))
    assert epochs(Sampler(12, 4, sequential=True)) == [list(range(12))] * 2


# --- outcomes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("third", "outcome"),
    [
        ([2.0, 1.0, 0.5], Outcome.HEALTHY),
        ([2.0, 1.9, 1.8], Outcome.AMBIGUOUS),
        ([2.0, 2.0, 1.99], Outcome.FAULTY),
        ([2.0, 1.0, 1.3], Outcome.AMBIGUOUS),
        ([2.0, 1.0, 1.6], Outcome.FAULTY),
        ([2.0, float("nan"), 0.5], Outcome.FAULTY),
    ],
)
def test_outcome_of_a_training_on_its_own(third: list[float], outcome: Outcome) -> None:
    assert absolute(third, 0.0, pretrained=False) is outcome


@pytest.mark.parametrize(
    ("third", "outcome"),
    [
        ([1.0, 0.99], Outcome.HEALTHY),
        ([1.0, 1.1], Outcome.AMBIGUOUS),
        ([1.0, 1.3], Outcome.FAULTY),
    ],
)
def test_outcome_of_a_training_that_goes_on(third: list[float], outcome: Outcome) -> None:
    assert absolute(third, 0.0, pretrained=True) is outcome


@pytest.mark.parametrize(
    ("third", "outcome"),
    [
        ([2.0, 1.0], Outcome.HEALTHY),
        ([2.0, 1.3], Outcome.AMBIGUOUS),
        ([2.0, 1.6], Outcome.IMPAIRED),
        ([2.0, 2.1], Outcome.FAULTY),
    ],
)
def test_outcome_against_the_same_training_without_the_fault(
    third: list[float], outcome: Outcome
) -> None:
    assert relative(third, 0.0, [2.0, 1.0]) is outcome


# --- logs and judgements ------------------------------------------------------------------------


@pytest.mark.parametrize("writer", ["hf", "keras", "lightning", "jsonl", "tfevents", "text"])
def test_every_format_is_read_as_one_run_with_its_series(tmp_path: Path, writer: Writer) -> None:
    setting = replace(SETTING, writer=writer, evaluations=40 if writer == "keras" else 8)
    case = Case("classification", 0)
    logs.write(tmp_path / case.path, logs.files(trained(setting)))
    judged = judging.judge(tmp_path, [Run(case, Outcome.HEALTHY, True, ())])[case.path]
    assert {"TP-NAN", "TP-DEAD-RUN", "TP-ZERO-LR", "TP-NAN-GRAD", "TP-EVAL-NAN"} <= judged.decided
    assert not judged.at("FAIL", "WARN")


def test_a_run_with_a_fault_is_flagged_and_counted(tmp_path: Path) -> None:
    control = run_healthy(tmp_path, Case("classification", 1))
    assert control.outcome is Outcome.HEALTHY
    faulty = run_faulty(tmp_path, control, "no-step")
    runs = [control, faulty]
    results = Results(runs, judging.judge(tmp_path, runs))
    assert faulty.outcome is Outcome.FAULTY
    found = detection(
        results.judged, results.harmed("no-step", evaluated=control.evaluated), "no-step"
    )
    assert (found.runs, found.fail, found.flagged, found.passed) == (1, 1, 1, 0)
    assert family(results.judged, results.healthy(), "FAIL").events == 0
    assert of_rule(results.judged, results.healthy(), "TP-NAN").decided == 1


@pytest.mark.parametrize("logged", [True, False])
def test_what_a_log_cannot_show_is_decided_by_what_it_holds(logged: bool) -> None:
    number = next(n for n in range(20) if Case("classification", n).setting().log_metric is logged)
    run = Run(Case("classification", number, "softmax-twice"), Outcome.FAULTY, True, ())
    results = Results([run], {run.case.path: judging.Judgement()})
    for hidden in (True, False):
        found = results.harmed("softmax-twice", evaluated=True, hidden=hidden)
        assert found == ([run] if hidden is not logged else [])


def test_a_sum_of_micro_batches_is_judged_against_the_training_without(tmp_path: Path) -> None:
    control = run_healthy(tmp_path, Case("classification", 1))
    summed = run_faulty(tmp_path, control, "loss-summed")
    judged = judging.judge(tmp_path, [control, summed])
    assert "TP-LOSS-SCALED" in judged[summed.case.path].decided
    assert "TP-LOSS-SCALED" not in judged[control.case.path].decided


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.checkpoint])
def test_checkpoints_are_judged_where_the_fault_is_there(tmp_path: Path, name: str) -> None:
    control = run_healthy(tmp_path, Case("adapter", 1))
    run = run_faulty(tmp_path, control, name)
    fired = judging.judge(tmp_path, [control, run])[run.case.path].fired
    # nothing beside an adapter tells whether it was trained
    level = "WARN" if name == "adapter-cut" else "FAIL"
    assert level in {fired[id] for id in fired if id.startswith("TP-CKPT-")}


def test_a_sample_is_what_a_smaller_measurement_would_have_made(tmp_path: Path) -> None:
    faults, few = ["no-zero-grad", "lr-zero"], ("linear-regression",)

    def made(root: Path, size: Size) -> list[Run]:
        with ThreadPoolExecutor(1) as pool:
            return list(all_runs(root, size, pool, faults))

    small = Size(2, 1, few)
    chosen = sample(made(tmp_path / "large", Size(4, 3, few)), small)
    expected = made(tmp_path / "small", small)
    assert {run.case for run in chosen} == {run.case for run in expected}


@pytest.mark.parametrize(
    ("now", "problems"),
    [
        (Counts(0, 2, 50, 20), 0),
        (Counts(1, 2, 50, 20), 1),
        (Counts(0, 4, 48, 18), 0),
        (Counts(0, 5, 47, 17), 3),
    ],
)
def test_a_check_tolerates_two_runs_but_no_false_fail(now: Counts, problems: int) -> None:
    assert len(list(check.worse(now, Counts(0, 2, 50, 20)))) == problems


def test_all_runs_are_the_same_whatever_the_pool(tmp_path: Path) -> None:
    def names(root: Path, workers: int) -> list[tuple[str, Outcome, tuple[float, ...]]]:
        with ThreadPoolExecutor(workers) as pool:
            portion = list(
                all_runs(
                    root, Size(1, 1, ("classification", "bandit")), pool, ["lr-zero", "two-runs"]
                )
            )
        return [(run.case.path, run.outcome, run.third) for run in portion]

    one, two = names(tmp_path / "one", 1), names(tmp_path / "two", 2)
    assert one == two
    assert {path.split("/")[0] for path, _, _ in one} == {CLEAN, "lr-zero", "two-runs"}
