"""Verdicts that the tools before this one got wrong on real logs, one test for each behaviour.

Each log is made here with the shape of the real one: the fault is in the shape.
"""

from __future__ import annotations

import csv
import json
import math
import random
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support import tfevents as tb
from tests.support.logs import jsonl, mlflow_database, trainer_state
from trainproof import Report, Verdict, audit
from trainproof.model.report import SeriesSummary, SubjectReport

NAN = math.nan


def audited(path: Path) -> Report:
    return audit(str(path), isolation=False)


def judged(path: Path) -> SubjectReport:
    (run,) = audited(path).reports
    return run


def ids(run: SubjectReport, *levels: str) -> set[str]:
    """The rules that fired, at these levels (all, where none is given)."""
    return {one.id for one in run.findings if not levels or one.level in levels}


def series(run: SubjectReport, name: str) -> SeriesSummary:
    (one,) = (one for one in run.series if one.name == name)
    return one


def settling(count: int, start: float, end: float, noise: float, seed: int = 0) -> list[float]:
    """A loss that falls from ``start`` to ``end`` within a third of the run, and then stays there;
    its noise is a share of its value."""
    chance = random.Random(seed)
    fall = (end + (start - end) * math.exp(-9 * i / count) for i in range(count))
    return [value * math.exp(noise * chance.gauss(0, 1)) for value in fall]


def table(path: Path, columns: Mapping[str, Sequence[object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def events(path: Path, columns: Mapping[str, Iterable[float]], every: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    points = (
        tb.scalar(tag, value, i * every)
        for tag, vs in columns.items()
        for i, value in enumerate(vs)
    )
    path.write_bytes(tb.event_file(points))
    return path


def state(path: Path, history: Sequence[Mapping[str, float]], **members: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"log_history": list(history), **members}, indent=2))
    return path


# --- a healthy run is no failure ------------------------------------------------------------------


def whisper(steps: int) -> list[dict[str, float]]:
    """Trainer rounds the loss to four digits: at the end it is one or two units of the last."""
    loss = settling(steps, 1.5, 0.00012, 0.05)
    rows: list[dict[str, float]] = []
    for i, value in enumerate(loss):
        rows.append({"loss": round(value, 4), "step": 25 * (i + 1), "epoch": i / 40})
        if i % 40 == 39:
            late = 0.0002 * max(0, i - 40)
            step = 25 * (i + 1)
            rows.append({"eval_loss": 0.9 + late, "eval_wer": 75.0 - i / 50, "step": step})
    rows[-2]["loss"] = 0.0002
    return rows


def test_one_unit_of_a_rounded_loss_is_no_divergence(tmp_path: Path) -> None:
    best = {"best_metric": 71.02, "metric_for_best_model": "wer", "global_step": 5000}
    run = judged(state(tmp_path / "trainer_state.json", whisper(200), max_steps=5000, **best))
    assert run.verdict is not Verdict.FAIL
    assert "TP-DIVERGE" not in ids(run)


def test_every_checkpoint_of_a_run_gets_one_verdict(tmp_path: Path) -> None:
    for step in (3000, 4000, 5000):
        rows = [row for row in whisper(200) if row["step"] <= step]
        state(tmp_path / f"checkpoint-{step}" / "trainer_state.json", rows, max_steps=5000)
    (run,) = audited(tmp_path).reports
    assert run.verdict is not Verdict.FAIL
    assert len(series(run, "loss").also_in) == 2


def test_the_metric_that_chose_the_checkpoint_speaks_for_the_run(tmp_path: Path) -> None:
    best = {"best_metric": 71.02, "metric_for_best_model": "wer", "greater_is_better": False}
    run = judged(state(tmp_path / "trainer_state.json", whisper(200), max_steps=5000, **best))
    assert "TP-OVERFIT" not in ids(run, "FAIL", "WARN")


def policy(count: int, gain: float, seed: int = 1) -> dict[str, list[float]]:
    """GRPO: the loss is zero at the start by construction and grows with the divergence."""
    chance = random.Random(seed)
    share = [i / count for i in range(count)]
    return {
        "reward": [0.2 + gain * s + 0.08 * chance.gauss(0, 1) for s in share],
        "reward_std": [0.2 + 0.02 * chance.random() for _ in share],
        "kl": [0.02 * s + 0.001 * chance.random() for s in share],
        "grad_norm": [0.0 if chance.random() < 0.2 else chance.random() for _ in share],
        "learning_rate": [5e-6 * (1 - s) for s in share],
    }


def test_a_loss_that_begins_at_zero_and_grows_is_no_divergence(tmp_path: Path) -> None:
    extra = policy(250, 1.2)
    loss = [round(0.04 * kl, 6) for kl in extra["kl"]]
    loss[0] = 0.0
    run = judged(trainer_state(tmp_path / "trainer_state.json", loss, every=1, extra=extra))
    assert (run.verdict, ids(run, "FAIL", "WARN")) == (Verdict.PASS, set())
    assert series(run, "reward").role == "reward"


def test_a_policy_is_judged_by_its_reward(tmp_path: Path) -> None:
    chance = random.Random(2)
    loss = [round(0.001 * chance.gauss(0, 1), 6) for _ in range(500)]
    extra = policy(500, 0.3)
    run = judged(trainer_state(tmp_path / "trainer_state.json", loss, every=1, extra=extra))
    assert run.verdict is Verdict.PASS
    applied = {
        one.series
        for detail in run.checks.details.values()
        for one in detail.applications
        if one.state == "clean"
    }
    assert "reward" in applied


def test_the_last_point_and_the_least_of_thousands_are_not_compared(tmp_path: Path) -> None:
    loss = settling(2501, 0.0363, 0.0315, 0.15)
    loss[-1], loss[1700] = 0.032, 0.017
    held_out = [4.88 - 2.29 * (i / 40) ** 0.5 for i in range(41)]
    rows = [{"step": i, "loss": value} for i, value in enumerate(loss)]
    rows += [{"step": 62 * i, "eval_loss": value} for i, value in enumerate(held_out)]
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert judged(tmp_path / "log.jsonl").verdict is Verdict.PASS


@pytest.mark.parametrize(("start", "end", "last"), [(0.91, 0.0066, 0.0089), (0.8, 0.0156, 0.021)])
def test_a_noisy_loss_that_converged_is_no_divergence(
    tmp_path: Path, start: float, end: float, last: float
) -> None:
    loss = settling(400, start, end, 0.25)
    loss[-1] = last
    run = judged(table(tmp_path / "metrics.csv", {"step": range(400), "train_loss": loss}))
    assert (run.verdict, ids(run, "FAIL", "WARN")) == (Verdict.PASS, set())


def test_an_outlier_is_not_where_the_loss_had_got_to(tmp_path: Path) -> None:
    chance = random.Random(3)
    loss = [0.00245 * 0.5 ** (i / 139) * math.exp(0.2 * chance.gauss(0, 1)) for i in range(140)]
    loss[90] = 0.0002
    run = judged(table(tmp_path / "metrics.csv", {"step": range(140), "train_loss": loss}))
    assert "TP-DIVERGE" not in ids(run)
    assert run.verdict is not Verdict.FAIL


def test_a_memorised_training_set_is_overfit_and_not_diverged(tmp_path: Path) -> None:
    loss = settling(55, 2.29, 0.026, 0.2)
    loss[-1], loss[45] = 0.029, 0.013
    held_out = [1.37 - 0.68 * min(1, i / 12) + 1.07 * max(0, i - 12) / 42 for i in range(55)]
    run = judged(
        events(tmp_path / "events.out.tfevents.1.host", {"loss": loss, "val_loss": held_out})
    )
    assert run.verdict is Verdict.WARN
    assert ids(run, "FAIL", "WARN") == {"TP-OVERFIT"}


def test_ten_points_are_no_dead_run(tmp_path: Path) -> None:
    loss = [2.435, 2.41, 2.38, 2.35, 2.33, 2.30, 2.27, 2.25, 2.21, 2.192]
    accuracy = [0.18, 0.19, 0.21, 0.20, 0.24, 0.25, 0.27, 0.28, 0.30, 0.31]
    columns = {"epoch": range(10), "train/loss": loss, "val/acc": accuracy}
    run = judged(table(tmp_path / "metrics.csv", columns))
    assert "TP-DEAD-RUN" not in ids(run)
    assert run.verdict is not Verdict.FAIL


def test_a_rise_at_the_noise_floor_is_no_overfit(tmp_path: Path) -> None:
    held_out = [max(2.9e-5, 0.437 * 0.6**i) for i in range(30)]
    held_out[-3:] = [6e-5, 8e-5, 1e-4]
    columns = {
        "epoch": range(30),
        "train_loss": settling(30, 0.5, 3e-5, 0.05),
        "val_loss": held_out,
    }
    run = judged(table(tmp_path / "metrics.csv", columns))
    assert "TP-OVERFIT" not in ids(run, "FAIL", "WARN")


def test_a_total_beside_its_parts_is_the_loss(tmp_path: Path) -> None:
    """Detectron2: JSON lines in a ``.json``, seconds for each iteration in ``time``."""
    loss = settling(200, 2.17, 0.35, 0.05)
    rows = (
        {
            "iteration": 20 * i + 19, "total_loss": value, "loss_cls": 0.6 * value, "lr": 0.002,
            "loss_box_reg": 0.4 * value, "time": 0.037, "data_time": 0.001, "eta_seconds": 9.0,
        }
        for i, value in enumerate(loss)
    )  # fmt: skip
    (tmp_path / "metrics.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run = judged(tmp_path / "metrics.json")
    assert run.verdict is Verdict.PASS
    assert (series(run, "total_loss").role, series(run, "total_loss").component) == ("loss", None)
    assert not any("per second" in one.message or "/s" in one.message for one in run.findings)


def yolo(*, clock: bool) -> dict[str, Sequence[object]]:
    fall = [3.0 * 0.97**i for i in range(75)]
    columns: dict[str, Sequence[object]] = {"epoch": range(1, 76)}
    if clock:
        columns["time"] = [round(12.5 * (i + 1), 2) for i in range(75)]
    for part in ("box", "cls", "dfl"):
        columns[f"train/{part}_loss"] = fall
        columns[f"val/{part}_loss"] = [1.05 * value for value in fall]
    columns["metrics/mAP50-95(B)"] = [0.2 * (1 - 0.96**i) for i in range(75)]
    columns["lr/pg0"] = [0.07 * 0.95**i for i in range(75)]
    return columns


def test_each_form_of_one_log_gets_one_verdict(tmp_path: Path) -> None:
    """Ultralytics with and without its clock, and its event file."""
    scalars = {tag: vs for tag, vs in yolo(clock=False).items() if tag != "epoch"}
    runs = [
        judged(table(tmp_path / "a" / "results.csv", yolo(clock=False))),
        judged(table(tmp_path / "b" / "results.csv", yolo(clock=True))),
        judged(events(tmp_path / "c" / "events.out.tfevents.1.host", scalars)),  # type: ignore[arg-type]
    ]
    assert [run.verdict for run in runs] == [Verdict.PASS] * 3
    assert series(runs[1], "train/box_loss").role == "loss"


def test_a_name_with_its_split_is_found_in_a_table_as_in_events(tmp_path: Path) -> None:
    loss = settling(60, 2.4, 1.1, 0.02)
    csv_run = judged(table(tmp_path / "a" / "metrics.csv", {"step": range(60), "train/loss": loss}))
    tb_run = judged(events(tmp_path / "b" / "events.out.tfevents.1.host", {"train/loss": loss}))
    assert csv_run.verdict is tb_run.verdict is Verdict.PASS
    assert series(csv_run, "train/loss").role == series(tb_run, "train/loss").role == "loss"


def test_reinforcement_without_a_loss_is_judged_by_its_reward(tmp_path: Path) -> None:
    chance = random.Random(4)
    columns = {
        "rollout/ep_rew_mean": [10 + 4 * i + 5 * chance.gauss(0, 1) for i in range(60)],
        "train/learning_rate": [3e-4] * 60,
    }
    run = judged(events(tmp_path / "events.out.tfevents.1.host", columns, every=2048))
    assert run.verdict is Verdict.PASS


def test_a_shard_of_test_scores_is_part_of_its_run(tmp_path: Path) -> None:
    name = "events.out.tfevents.1729486915.host.70985"
    events(tmp_path / f"{name}.0", {"train/loss": settling(60, 2.4, 1.1, 0.02)})
    events(tmp_path / f"{name}.1", {"test/loss": [1.2], "hp_metric": [1.2]})
    run = judged(tmp_path)
    assert run.verdict is Verdict.PASS
    assert {one.name for one in run.series} >= {"train/loss", "test/loss"}


def test_an_objective_that_is_called_by_its_name_is_a_loss(tmp_path: Path) -> None:
    """CatBoost: the table, the document and the event file of one training."""
    error = [0.497 * 0.995**i for i in range(50)]
    rows = [
        {"learn": [value], "iteration": i, "passed_time": 0.1 * i, "remaining_time": 1.0}
        for i, value in enumerate(error)
    ]
    metrics = [{"best_value": "Min", "name": "RMSE"}]
    meta = {
        "test_sets": [], "test_metrics": [], "learn_metrics": metrics, "launch_mode": "Train",
        "parameters": "", "iteration_count": 50, "learn_sets": ["learn"], "name": "experiment",
    }  # fmt: skip
    home = tmp_path / "catboost_info"
    events(home / "learn" / "events.out.tfevents", {"RMSE": error})
    text = json.dumps({"meta": meta, "iterations": rows})
    (home / "catboost_training.json").write_text(text)
    lines = (f"{i}\t{value!r}\n" for i, value in enumerate(error))
    (home / "learn_error.tsv").write_text("iter\tRMSE\n" + "".join(lines))
    whole = judged(tmp_path)
    assert (whole.verdict, [one.role for one in whole.series]) == (Verdict.PASS, ["loss"])
    for name in ("catboost_training.json", "learn_error.tsv"):
        assert judged(home / name).verdict is Verdict.PASS


def test_returns_may_rise_with_the_loss_of_the_critic(tmp_path: Path) -> None:
    chance = random.Random(5)
    reward = [min(4950.0, 1.003 ** (4 * i) * (1 + 0.1 * chance.random())) for i in range(900)]
    loss = [2.7 + 0.042 * value + 0.3 * chance.random() for value in reward]
    columns = {
        "time/total_timesteps": range(2048, 2048 * 901, 2048),
        "rollout/ep_rew_mean": reward,
        "train/loss": loss,
        "train/learning_rate": [1e-4] * 900,
    }
    run = judged(table(tmp_path / "progress.csv", columns))
    assert run.verdict is not Verdict.FAIL
    assert ids(run, "FAIL", "WARN").isdisjoint({"TP-DIVERGE", "TP-DEAD-RUN"})


# --- too little is no verdict ---------------------------------------------------------------------


def test_a_summary_holds_no_series(tmp_path: Path) -> None:
    home = tmp_path / "wandb" / "run-20240411_102909-abcdefgh" / "files"
    home.mkdir(parents=True)
    last = {"loss": 0.3, "lr": 0.0, "_step": 77, "_runtime": 9.0, "_timestamp": 1.7e9}
    (home / "wandb-summary.json").write_text(json.dumps(last))
    report = audited(tmp_path)
    assert (report.reports, report.not_judged.counts) == ((), {"summary-only": 1})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", "epoch,accuracy,loss,val_loss\n0,0.5,7.6666,7.6666\n"),
        (
            "20230101_000000.log.json",
            '{"env_info": "sys.platform: linux", "seed": 0}\n'
            '{"mode": "train", "epoch": 1, "iter": 50, "lr": 0.001, "loss": 2.5, "time": 0.5}\n',
        ),
    ],
)
def test_one_record_is_neither_flat_nor_anything_else(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    report = audited(tmp_path / name)
    assert all(run.verdict is Verdict.NOT_CHECKED for run in report.reports)
    assert report.worst_verdict is Verdict.NOT_CHECKED


def test_a_table_of_experiments_is_no_log(tmp_path: Path) -> None:
    columns = {
        "name": [f"experiment {i}" for i in range(30)],
        "val_loss": [1.2 + 0.01 * (i * 7 % 11) for i in range(30)],
        "learning_rate": [0.01] * 30,
        "notes": ["tried a wider layer"] * 30,
    }
    report = audited(table(tmp_path / "results.tsv", columns))
    assert (report.reports, dict(report.not_judged.counts)) == ((), {"not-a-log": 1})


def test_the_losses_of_two_networks_that_compete_are_no_proof(tmp_path: Path) -> None:
    """Those that settle near zero show convergence or a dead critic: one cannot tell."""
    chance = random.Random(6)
    damped = [
        math.exp(-i / 60) * chance.gauss(0, 1) + 0.05 * chance.gauss(0, 1) for i in range(320)
    ]
    columns = {
        "step": range(320),
        "train_disc_loss": [-value for value in damped],
        "train_gen_loss": damped,
    }
    run = judged(table(tmp_path / "metrics.csv", columns))
    assert run.verdict is Verdict.NOT_CHECKED
    assert run.because


# --- a broken run is no pass ----------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_loss_that_is_lost_is_found_in_console_text(tmp_path: Path, encoding: str) -> None:
    lines = (
        f"step:{s}/20000 train_loss:{'nan' if s >= 200 else f'{7 - s / 100:.4f}'} train_time:{s}ms"
        f" step_avg:69.3ms\n"
        for s in range(0, 1500, 40)
    )
    (tmp_path / "run.txt").write_text("import torch\nloss = 0.0\n" + "".join(lines), encoding)
    run = judged(tmp_path / "run.txt")
    assert (run.verdict, ids(run, "FAIL")) == (Verdict.FAIL, {"TP-NAN"})
    (finding,) = (one for one in run.findings if one.id == "TP-NAN")
    assert (finding.first_step, finding.location.line) == (200, 8)


def test_a_loss_of_zero_on_every_line_is_seen(tmp_path: Path) -> None:
    lines = (
        f"[2021-01-01 10:00:00 swin] (main.py 226): INFO Train: [{e}/300][{i}/1251]\teta 0:10:00 lr"
        f" 0.000001\t time 0.5 (0.6)\tloss 0.0000 (0.0000)\tgrad_norm 0.0000 (0.0000)\tmem 9MB\n"
        for e in range(3)
        for i in range(0, 1251, 10)
    )
    (tmp_path / "log_rank0.txt").write_text("".join(lines))
    assert judged(tmp_path / "log_rank0.txt").verdict in (Verdict.FAIL, Verdict.WARN)


def test_a_loss_by_another_name_is_searched_for_what_is_not_finite(tmp_path: Path) -> None:
    columns = {
        "step": range(320),
        "train_disc_loss": [1.6e24, *[NAN] * 319],
        "train_gen_loss": [NAN] * 320,
    }
    run = judged(table(tmp_path / "metrics.csv", columns))
    assert run.verdict is Verdict.FAIL
    assert {one.series for one in run.findings if one.id == "TP-NAN"} >= {"train_gen_loss"}


def test_a_loss_that_swings_without_getting_anywhere_is_no_pass(tmp_path: Path) -> None:
    chance = random.Random(7)
    columns = {
        "epoch": range(61),
        "loss": [1.49, *(0.9 + 0.05 * chance.gauss(0, 1) for _ in range(60))],
        "accuracy": [0.52 + 0.04 * chance.gauss(0, 1) for _ in range(61)],
        "val_loss": [1.0 + 0.35 * chance.random() for _ in range(61)],
        "val_accuracy": [0.37 + 0.39 * chance.random() for _ in range(61)],
    }
    assert judged(table(tmp_path / "log.csv", columns)).verdict is not Verdict.PASS


def test_executions_that_follow_one_another_are_no_curve(tmp_path: Path) -> None:
    """MAE: the log is appended to by every start, here three of two epochs."""
    rows = (
        {"train_lr": 1e-5, "train_loss": 1.05 - 0.06 * e + 0.001 * n, "epoch": e}
        for n in range(3)
        for e in (0, 1)
    )
    (tmp_path / "log.txt").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run = judged(tmp_path / "log.txt")
    assert (len(run.segments), run.verdict) == (3, Verdict.NOT_CHECKED)


def test_one_epoch_that_was_begun_twice_is_no_pass(tmp_path: Path) -> None:
    rows = ({"epoch": 0, "train_loss": 24.53 + 0.09 * n, "test_loss": 20.0} for n in (0, 1))
    (tmp_path / "log.txt").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert audited(tmp_path / "log.txt").worst_verdict is Verdict.NOT_CHECKED


# --- names and files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "role", "split"),
    [
        ("Loss/Train", "loss", "train"),
        ("Loss/Validation", "loss", "eval"),
        ("lm loss", "loss", "train"),
        ("grad-norm", "grad_norm", "train"),
        ("learning-rate", "lr", "train"),
        ("loss-scale", "loss_scale", "train"),
        ("Losses/Policy Loss", "loss", "train"),
        ("Environment/Cumulative Reward", "reward", "train"),
        ("episode_reward", "reward", "train"),
        ("loss/policy_gradient_loss", "loss", "train"),
        ("loss/entropy_loss", "entropy", "train"),
    ],
)
def test_tags_of_every_writer_have_a_meaning(
    tmp_path: Path, tag: str, role: str, split: str
) -> None:
    run = judged(events(tmp_path / "events.out.tfevents.1.host", {tag: settling(60, 3, 1, 0.02)}))
    one = series(run, tag)
    assert (one.role, one.split) == (role, split)


def wandb_history(path: Path) -> None:
    """A transaction log of the smallest kind: records of history, one in each chunk."""
    body = b":W&B\xe1\xbe\x00"
    for step, value in enumerate(settling(30, 3, 1, 0.02)):
        items = (("loss", repr(value)), ("_step", str(step)))
        history = b"".join(
            tb.block(1, tb.block(1, name.encode()) + tb.block(16, text.encode()))
            for name, text in items
        )
        record = tb.block(2, history)
        crc = zlib.crc32(b"\x01" + record)
        body += struct.pack("<IHB", crc, len(record), 1) + record
    path.write_bytes(body)


def console(path: Path) -> None:
    loss = settling(30, 3, 1, 0.02)
    path.write_text("".join(f"step {i} loss {value:.4f}\n" for i, value in enumerate(loss)))


def mlruns(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    loss = settling(30, 3, 1, 0.02)
    path.write_text("".join(f"{1_700_000_000_000 + i} {v} {i}\n" for i, v in enumerate(loss)))


FILES: Mapping[str, Callable[[Path], object]] = {
    "metrics.json": lambda p: p.write_text(json.dumps({"loss": settling(30, 3, 1, 0.02)})),
    "20230101.log.json": lambda p: jsonl(p, {"loss": settling(30, 3, 1, 0.02)}),
    "run-x.wandb": wandb_history,
    "loss.tsv": lambda p: p.write_text(
        "step\tloss\n" + "".join(f"{i}\t{v}\n" for i, v in enumerate(settling(30, 3, 1, 0.02)))
    ),
    "slurm-1.out": console,
    f"mlruns/0/{'0' * 32}/metrics/train_loss": mlruns,
    "mlflow.db": lambda p: mlflow_database(p, {"a": settling(30, 3, 1, 0.02)}),
}


@pytest.mark.parametrize("name", FILES)
def test_logs_are_found_whatever_their_suffix(tmp_path: Path, name: str) -> None:
    FILES[name](tmp_path / name)
    run = judged(tmp_path)
    assert run.verdict is Verdict.PASS


def test_no_run_is_left_out_because_there_are_many(tmp_path: Path) -> None:
    for number in range(45):
        jsonl(tmp_path / f"run{number}" / "log.jsonl", {"loss": settling(30, 3, 1, 0.02)})
    assert len(audited(tmp_path).reports) == 45


def test_the_time_that_a_batch_costs_is_no_loss(tmp_path: Path) -> None:
    """PaddlePaddle's logs, of a training whose batches take longer and longer."""
    text = (
        f"[2023/04/01 10:00:00] ppocr INFO: epoch: [1/5], global_step: {i}0, lr: 0.0005, loss:"
        f" {value:.4f}, avg_reader_cost: {0.01 + i / 1000:.4f} s, avg_batch_cost:"
        f" {0.2 + i / 100:.4f} s, ips: 300.1 samples/s, eta: 1:00:00\n"
        for i, value in enumerate(settling(200, 5.0, 1.0, 0.02), 1)
    )
    (tmp_path / "train.log").write_text("".join(text))
    run = judged(tmp_path)
    assert {one.name for one in run.series if one.role == "loss"} == {"loss"}
    assert ids(run, "FAIL") == set()


def test_what_a_step_costs_is_no_loss_beside_one(tmp_path: Path) -> None:
    loss = settling(100, 3.0, 0.5, 0.02)
    costs = [20 + i / 10 for i in range(100)]
    table(tmp_path / "log.csv", {"step": range(100), "loss": loss, "cost": costs})
    run = judged(tmp_path)
    assert (run.verdict, series(run, "cost").role) == (Verdict.PASS, "other")


def test_an_error_that_is_trained_on_is_searched_for_what_is_not_finite(tmp_path: Path) -> None:
    error = [*settling(30, 3.0, 0.5, 0.02), *[NAN] * 30]
    table(tmp_path / "log.csv", {"epoch": range(60), "train_mse": error, "val_mse": error})
    assert "TP-NAN" in ids(judged(tmp_path), "FAIL")


def test_a_held_out_loss_by_a_short_name_may_rise(tmp_path: Path) -> None:
    chance = random.Random(3)
    table(
        tmp_path / "log.csv",
        {
            "epoch": range(60),
            "tr_loss": settling(60, 2.0, 0.05, 0.02),
            "va_loss": [
                0.5 + 1.5 * math.exp(-i / 4) + 0.03 * max(0, i - 12) + chance.gauss(0, 0.01)
                for i in range(60)
            ],
        },
    )
    run = judged(tmp_path)
    assert (run.verdict, "TP-OVERFIT" in ids(run)) == (Verdict.WARN, True)


def test_a_loss_that_is_left_out_where_it_is_not_finite_is_no_pass(tmp_path: Path) -> None:
    """pandas writes NaN as an empty cell."""
    loss = [*settling(50, 3.0, 0.5, 0.02), *[""] * 50]
    accuracy = [0.5 + 0.004 * i for i in range(50)] + [0.7] * 50
    table(tmp_path / "history.csv", {"epoch": range(100), "loss": loss, "accuracy": accuracy})
    run = judged(tmp_path)
    assert (run.verdict, ids(run, "WARN")) == (Verdict.WARN, {"TP-LOG-GAP"})
    (ended,) = (one for one in run.findings if one.id == "TP-LOG-GAP")
    assert ended.location is not None
    assert (ended.location.line, ended.variant) == (51, "ends")


def test_the_last_evaluation_in_every_row_is_not_frozen(tmp_path: Path) -> None:
    """A loop that keeps ``val_loss`` in a variable, and evaluates every hundred steps."""
    chance = random.Random(4)
    evaluated = [round(1.2 + 3 * math.exp(-i / 1.5) + chance.gauss(0, 0.01), 5) for i in range(10)]
    table(
        tmp_path / "log.csv",
        {
            "step": range(1000),
            "loss": settling(1000, 4.0, 1.0, 0.02),
            "val_loss": [evaluated[i // 100] for i in range(1000)],
        },
    )
    run = judged(tmp_path)
    assert (run.verdict, series(run, "val_loss").points) == (Verdict.PASS, 10)
