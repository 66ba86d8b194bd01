from __future__ import annotations

import pytest

from trainproof.rules.beginning import beginning
from trainproof.rules.examples import series

HELD_OUT = series("eval_loss", [1.0] * 3, [4, 8, 12])
FLAT = [1.0] * 16


def test_the_level_is_the_first_row_where_it_is_greatest() -> None:
    found = beginning(HELD_OUT, [series("loss", [4.0, 3.0, 2.0, 2.0, *FLAT])])
    assert found is not None
    assert (found.series, found.level, found.most, found.left) == ("loss", 4.0, 4.0, True)


def test_else_it_is_a_median_of_the_rows_up_to_the_first_evaluation() -> None:
    found = beginning(HELD_OUT, [series("loss", [1.0, 3.0, 2.0, 4.0, 9.0, *FLAT])])
    assert found is not None
    assert (found.level, found.most) == (2.5, 9.0)


@pytest.mark.parametrize("rows", [[1.0] * 20, [1.0, 1.2, 0.9, 1.1, *[0.8, 1.2] * 8]])
def test_rows_that_do_not_lie_above_the_others_have_not_been_left(rows: list[float]) -> None:
    found = beginning(HELD_OUT, [series("loss", rows)])
    assert found is not None
    assert not found.left


def test_a_loss_over_other_steps_is_not_taken() -> None:
    assert beginning(HELD_OUT, [series("loss", [1.0] * 20, range(5, 25))]) is None


def test_without_a_training_loss_there_is_none() -> None:
    assert beginning(HELD_OUT, []) is None
