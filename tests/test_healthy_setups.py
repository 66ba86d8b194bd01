"""Healthy trainings as real writers log them, whose verdicts were once wrong: one test for each."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support import tfevents as tb
from trainproof import Verdict, audit
from trainproof.model.report import SubjectReport


def judged(path: Path) -> SubjectReport:
    (run,) = audit(str(path), isolation=False).reports
    return run


def ids(run: SubjectReport, *levels: str) -> set[str]:
    """The rules that fired at these levels."""
    return {one.id for one in run.findings if one.level in levels}


def events(path: Path, columns: Mapping[str, Iterable[float]], every: int = 1) -> Path:
    """An event file: values are stored in single precision."""
    points = (
        tb.scalar(tag, value, (i + 1) * every)
        for tag, values in columns.items()
        for i, value in enumerate(values)
    )
    path.write_bytes(tb.event_file(points))
    return path


# --- losses that were rounded before they were stored ---------------------------------------------


def test_a_rounded_loss_that_sinks_below_its_last_digit_is_no_zero_loss(tmp_path: Path) -> None:
    """Trainer rounds to four digits and hands that to its event file."""
    loss = [round(0.0139 * 0.65**i, 4) for i in range(200)]
    run = judged(events(tmp_path / "events.out.tfevents.1.host", {"train/loss": loss}, every=3))
    assert "TP-ZERO-LOSS-ONSET" in ids(run, "INFO")
    assert not ids(run, "FAIL", "WARN")


def test_equal_evaluations_of_two_digits_are_not_frozen(tmp_path: Path) -> None:
    chance = random.Random(0)
    train = [round(0.7 + 0.9 * 0.93**i + 0.08 * chance.gauss(0, 1), 2) for i in range(120)]
    held_out = [round(0.706 + 0.9 * 0.6**i, 2) for i in range(20)]
    columns = {"loss": train, "val_loss": held_out}
    run = judged(events(tmp_path / "events.out.tfevents.1.host", columns))
    assert not ids(run, "FAIL", "WARN")


# --- which kind of training it is -----------------------------------------------------------------


def test_a_reward_model_is_no_reinforcement(tmp_path: Path) -> None:
    """TRL's RewardTrainer logs rewards and their margin: its loss is a loss."""
    chance = random.Random(0)
    rows = [
        {
            "loss": 0.3 + 0.4 * 0.9**i + 0.01 * chance.gauss(0, 1),
            "accuracy": min(1.0, 0.6 + 0.01 * i),
            "margin": 0.1 * i,
            "mean_reward": 0.05 * chance.gauss(0, 1),
            "step": 2 * i + 2,
        }
        for i in range(30)
    ]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    run = judged(tmp_path)
    assert run.verdict is Verdict.PASS
    assert {"TP-DIVERGE", "TP-FLAT"} <= set(run.checks.ran)
