from __future__ import annotations

import numpy as np
import pytest

from trainproof.model.data import RunView, Series
from trainproof.model.outcome import Level
from trainproof.rules.examples import series, view

from .curves import flat, learning
from .judging import is_clean, judge, level, measured, prose

RULE = "TP-LOSS-SCALE-COLLAPSE"


def run(scale: list[float], *more: Series) -> RunView:
    return view(series("loss_scale", scale), *more)


def stuck(count: int = 60) -> Series:
    return series("loss", flat(count).tolist())


def halving(count: int = 60) -> list[float]:
    return [max(2.0**-14, 65536 * 0.5**i) for i in range(count)]


def test_the_scale_of_a_scaler_without_a_floor_reaches_zero_and_fails() -> None:
    """float32, halved on every step as torch's GradScaler does it: 0 after 165 halvings."""
    scale = np.float32(65536) * np.float32(0.5) ** np.arange(300, dtype=np.float32)
    cell = judge(RULE, run(scale.astype(np.float64).tolist(), stuck(300)))
    assert level(cell) == (Level.FAIL, "zero")
    assert cell.hits[0].evidence.where.first_step == 151


def test_a_scale_that_is_halved_to_nothing_fails() -> None:
    cell = judge(RULE, run(halving(), stuck()))
    assert level(cell) == (Level.FAIL, "")
    assert prose(cell).message.startswith("loss_scale fell from 65536 to 6.1e-05")
    assert measured(cell)["tail"] == 44


def test_a_scale_of_zero_fails_whatever_the_loss_does() -> None:
    learned = series("loss", learning(60).tolist())
    cell = judge(RULE, run([1024.0] * 40 + [0.0] * 20, learned))
    assert level(cell) == (Level.FAIL, "zero")


def test_a_loss_that_improves_makes_it_a_warning() -> None:
    cell = judge(RULE, run(halving(), series("loss", learning(60).tolist())))
    assert level(cell) == (Level.WARN, "learning")


@pytest.mark.parametrize(
    "scale",
    [
        [65536.0, 32768.0, 16384.0, *([8192.0] * 57)],
        [1.0] * 60,
        [128.0] * 60,
        [*([1024.0, 512.0] * 30)],
        [*halving(20), *([2.0**i for i in range(10)] + [1024.0] * 30)],
    ],
    ids=["found", "bfloat16", "static", "at the edge", "recovered"],
)
def test_healthy_scales_are_clean(scale: list[float]) -> None:
    assert is_clean(judge(RULE, run(scale, stuck(len(scale)))))


def test_a_low_scale_for_the_last_rows_only_is_clean() -> None:
    assert is_clean(judge(RULE, run([1024.0] * 52 + [1.0] * 8, stuck())))
