"""Losses that rose where a setting of the training was changed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from tests.rules.judging import judge, level, measured
from trainproof.model.data import Identity, Role, RunView
from trainproof.model.outcome import Level
from trainproof.rules.examples import series, view

STAGES = 4
ROWS = 25


def curriculum(setting: Sequence[float], tag: str = "difficulty", *extra: float) -> RunView:
    """A loss that falls within each stage, and begins the next one higher: the data are harder."""
    chance = random.Random(0)
    loss = [
        (0.4 * stage + (1.2 if stage == 0 else 0.4) * math.exp(-row / 4) + 0.01)
        * math.exp(0.05 * chance.gauss(0, 1))
        for stage in range(STAGES)
        for row in range(ROWS)
    ]
    found = [
        series("loss", loss),
        series(tag, list(setting), identity=Identity(Role.UNKNOWN, tag)),
    ]
    if extra:
        steps = range(20, STAGES * ROWS + 1, 20)
        found.append(series("eval_loss", list(extra), steps))
    return view(*found)


BY_STAGE = [float(stage) for stage in range(STAGES) for _ in range(ROWS)]


def test_a_rise_where_the_difficulty_changed_is_no_failure() -> None:
    cell = judge("TP-DIVERGE", curriculum(BY_STAGE))
    assert level(cell) == (Level.WARN, "setting")
    assert measured(cell)["setting"] == "difficulty"


def test_beside_a_held_out_loss_at_its_best_it_is_only_told() -> None:
    cell = judge("TP-DIVERGE", curriculum(BY_STAGE, "difficulty", 1.6, 1.4, 1.2, 1.0, 0.9))
    assert level(cell) == (Level.INFO, "setting-held-out")


def test_a_held_out_accuracy_that_got_worse_keeps_the_warning() -> None:
    """A rate that is too high: the held-out loss fell from an explosion to that of a guess."""
    one = curriculum(BY_STAGE, "difficulty", 260.0, 400.0, 22.0, 2.7, 1.4)
    accuracy = series("eval_accuracy", [0.55, 0.51, 0.34, 0.26, 0.24], range(20, 101, 20))
    both = view(*one.attempts[0].series, accuracy)
    assert level(judge("TP-DIVERGE", both)) == (Level.WARN, "held-out-at-best")


@pytest.mark.parametrize(
    ("setting", "tag"),
    [
        ([1.0] * STAGES * ROWS, "difficulty"),
        ([float(row // 33) for row in range(STAGES * ROWS)], "difficulty"),
        ([float(row) for row in range(STAGES * ROWS)], "tokens"),
        (BY_STAGE, "skipped_batches"),
    ],
    ids=["constant", "changes elsewhere", "changes with each row", "counts events"],
)
def test_a_column_that_does_not_explain_the_rise_changes_nothing(
    setting: list[float], tag: str
) -> None:
    assert level(judge("TP-DIVERGE", curriculum(setting, tag))) == (Level.FAIL, "")


# --- spikes and shifts ----------------------------------------------------------------------------


def longer(setting: Sequence[float], tag: str = "seq_len") -> RunView:
    """A loss that lies higher for the second half of 400 rows."""
    chance = random.Random(1)
    values = [
        1.0 + 2.0 * math.exp(-i / 30) + (0.8 if i >= 200 else 0.0) + chance.gauss(0, 0.02)
        for i in range(400)
    ]
    identity = Identity(Role.OTHER, tag)
    return view(series("loss", values), series(tag, list(setting), identity=identity))


@pytest.mark.parametrize("rule", ["TP-LOSS-SPIKE", "TP-LEVEL-SHIFT"])
def test_a_rise_at_a_setting_that_was_changed_is_neither_a_spike_nor_a_shift(rule: str) -> None:
    changed = [128.0] * 200 + [512.0] * 200
    assert level(judge(rule, longer([128.0] * 400))) == (Level.WARN, "")
    assert not judge(rule, longer(changed)).hits
    assert level(judge(rule, longer(changed, "restarts"))) == (Level.WARN, "")


def test_a_spike_elsewhere_is_still_one() -> None:
    run = longer([128.0] * 200 + [512.0] * 200)
    loss, setting = run.attempts[0].series
    values = loss.values.tolist()
    values[350:354] = [9.0] * 4
    cell = judge("TP-LOSS-SPIKE", view(series("loss", values), setting))
    assert level(cell) == (Level.WARN, "")
    assert (measured(cell)["spikes"], measured(cell)["longest"]) == (4, 4)


def test_a_metric_that_fell_where_the_task_was_changed_is_a_warning() -> None:
    """Continual learning: what was learned first is forgotten with the next task."""
    values = [0.9 * (1 - math.exp(-i / 5)) for i in range(40)] + [0.002] * 40
    identity = Identity(Role.UNKNOWN, "task")
    accuracy = series("eval_accuracy", values)

    def beside(change: int) -> RunView:
        task = [0.0] * change + [1.0] * (80 - change)
        return view(accuracy, series("task", task, identity=identity))

    cell = judge("TP-METRIC-COLLAPSE", beside(40))
    assert level(cell) == (Level.WARN, "setting")
    assert measured(cell)["setting"] == "task"
    assert level(judge("TP-METRIC-COLLAPSE", beside(20))) == (Level.FAIL, "")
