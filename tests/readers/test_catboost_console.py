"""What CatBoost printed: values without a name, of which the best tells the way."""

from __future__ import annotations

import pytest

from trainproof.model.data import Declared, Direction, Role, Split
from trainproof.readers.catboost_console import CatBoostConsole

from .readings import Readout, damaged, read

TIMES = "total: 52.1ms\tremaining: 1m 2s"
LOSS = (
    "Learning rate set to 0.03\n"
    f"0:\tlearn: 0.6759\ttest: 0.6761\tbest: 0.6761 (0)\t{TIMES}\n"
    f"100:\tlearn: 0.4\ttest: 0.45\tbest: 0.44 (90)\t{TIMES}\n"
    f"200:\tlearn: 0.3\ttest: 0.46\tbest: 0.44 (90)\t{TIMES}\n"
    "Stopped by overfitting detector  (50 iterations wait)\n\nbestTest = 0.44\n"
)


def made(text: str) -> Readout:
    assert CatBoostConsole().claims("train.log", text.encode())
    return read(CatBoostConsole(), "train.log", text.encode())


def test_a_loss_of_both_sets() -> None:
    got = made(LOSS)
    assert (got.steps("learn"), got.values("learn")) == ([0, 100, 200], [0.6759, 0.4, 0.3])
    assert got.values("test") == [0.6761, 0.45, 0.46]
    assert got["learn"].declared == Declared(Role.LOSS, Split.TRAIN, Direction.LOWER)
    assert got["test"].declared == Declared(Role.LOSS, Split.EVAL, Direction.LOWER)
    assert got["test"].lines is not None and got["test"].lines.tolist() == [2, 3, 4]
    assert got.facts.framework == "catboost"


@pytest.mark.parametrize(
    ("rows", "role", "direction"),
    [
        (["test: 0.5\tbest: 0.5 (0)", "test: 0.6\tbest: 0.6 (1)"], Role.METRIC, Direction.HIGHER),
        (["test: 0.5\tbest: 0.5 (0)", "test: 0.4\tbest: 0.5 (0)"], Role.METRIC, Direction.HIGHER),
        (["test: 0.5\tbest: 0.5 (0)", "test: 0.6\tbest: 0.5 (0)"], Role.LOSS, Direction.LOWER),
        (
            ["test: 9\ttest1: 5\tbest: 5 (0)", "test: 9\ttest1: 6\tbest: 6 (1)"],
            Role.METRIC,
            Direction.HIGHER,
        ),
        (["learn: 0.5", "learn: 0.4"], Role.LOSS, Direction.LOWER),
        (["learn: 0.5", "learn: nan"], Role.LOSS, Direction.LOWER),
        (["learn: 0.5", "learn: 0.6"], Role.METRIC, Direction.NONE),
    ],
)
def test_the_best_tells_which_way_is_better(
    rows: list[str], role: Role, direction: Direction
) -> None:
    got = made("".join(f"{i}:\t{row}\t{TIMES}\n" for i, row in enumerate(rows)))
    column = got.columns[1]
    assert column.declared is not None
    assert (column.declared.role, column.declared.direction) == (role, direction)


@pytest.mark.parametrize(
    "text", ["", "0: learn: 0.5", "0:\tlearn: 0.5\n", "learn: 0.5\ttotal: 1s\n", "x" * 5000]
)
def test_another_text_is_not_claimed(text: str) -> None:
    assert not CatBoostConsole().claims("train.log", text.encode())


def test_damage_is_survived() -> None:
    for data in damaged(LOSS.encode() * 5):
        read(CatBoostConsole(), "train.log", data)
