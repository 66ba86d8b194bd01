"""Rules about the rows of added tokens."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.rules.judging import judge, level, measured, skipped
from trainproof.model.data import RunView
from trainproof.model.outcome import Level, Skip, State
from trainproof.rules.saved_examples import saved, spoken, tensor, unspoken

ROWS, STILL = "TP-CKPT-TOKEN-ROWS", "TP-CKPT-TOKENS-STILL"


def test_tokens_of_the_template_that_lie_together_are_a_warning() -> None:
    cell = judge(ROWS, spoken(apart=0.0002))
    assert level(cell) == (Level.WARN, "")
    assert measured(cell) == {
        "tokens": 3,
        "bad": 3,
        "names": "<|user|>, <|assistant|>, <|end|>",
        "zero": 0,
        "beside": 3,
        "used": 3,
        "others": 100,
        "typical": 1.0,
        "step": 1000,
    }


def test_rows_of_zeros_are_told_as_such() -> None:
    cell = judge(ROWS, spoken(zero=True))
    assert level(cell) == (Level.WARN, "")
    assert (measured(cell)["zero"], measured(cell)["beside"]) == (3, 0)


@pytest.mark.parametrize(
    "view",
    [spoken(apart=0.0, used=False), spoken(apart=0.0, step=None), spoken(apart=0.0, step=99)],
)
def test_tokens_that_nothing_shows_to_be_trained_are_info(view: RunView) -> None:
    assert level(judge(ROWS, view)) == (Level.INFO, "idle")


@pytest.mark.parametrize("view", [spoken(apart=0.00021), spoken(apart=0.0, step=0)])
def test_rows_apart_and_rows_of_step_0_are_clean(view: RunView) -> None:
    assert judge(ROWS, view).state is State.CLEAN


@pytest.mark.parametrize("field", [{"others": 15}, {"typical": 0.0}, {"typical": float("nan")}])
def test_without_other_rows_that_differ_nothing_is_decided(field: dict[str, float]) -> None:
    view = spoken(apart=0.0)
    assert view.checkpoint is not None
    rows = tuple(replace(one, **field) for one in view.checkpoint.rows)  # type: ignore[arg-type]
    bare = replace(view, checkpoint=replace(view.checkpoint, rows=rows))
    assert skipped(judge(ROWS, bare)) is Skip.NEED_DEGENERATE


def test_without_added_tokens_there_is_nothing_to_judge() -> None:
    assert skipped(judge(ROWS, saved(tensor("w")))) is Skip.NOT_SAVED


# --- from one checkpoint to the next


def test_rows_that_stand_still_among_others_that_move_are_a_warning() -> None:
    cell = judge(STILL, unspoken(moved=90, still=2))
    assert level(cell) == (Level.WARN, "")
    got = measured(cell)
    assert (got["tokens"], got["bad"], got["moved"], got["others"]) == (3, 2, 90, 100)
    assert got["names"] == "<|user|>, <|assistant|>"


def test_tokens_that_are_not_in_the_template_may_stand_still() -> None:
    assert level(judge(STILL, unspoken(moved=100, used=False))) == (Level.INFO, "idle")


@pytest.mark.parametrize("view", [unspoken(moved=89), unspoken(moved=100, still=0)])
def test_where_many_rows_stand_still_or_all_added_ones_move_it_is_clean(view: RunView) -> None:
    assert judge(STILL, view).state is State.CLEAN
