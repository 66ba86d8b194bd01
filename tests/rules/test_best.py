from __future__ import annotations

import numpy as np
import pytest

from trainproof.model.data import Direction, Facts, Floats, Identity, Role, RunView, Split
from trainproof.model.outcome import Level, Skip
from trainproof.rules.examples import series, view

from .curves import learning, noise
from .judging import is_clean, judge, level, prose, skipped

KEPT = "TP-BEST-CHECKPOINT"
AGO = "TP-BEST-LONG-AGO"


def recorded(best: float, values: list[float], tag: str = "eval_loss") -> RunView:
    facts = Facts(best_metric=best, best_metric_name=tag, best_checkpoint="out/checkpoint-1")
    return view(series(tag, values), facts=facts)


# --- the checkpoint that was kept -----------------------------------------------------------------


def test_the_worst_loss_recorded_as_the_best_is_a_warning() -> None:
    cell = judge(KEPT, recorded(2.5, [2.5, 2.0, 1.5, 1.6]))
    assert level(cell) == (Level.WARN, "")
    assert prose(cell).message == (
        "The checkpoint recorded as the best has eval_loss 2.5, the worst of 4 evaluations; the"
        " best is 1.5, at step 3."
    )


def test_the_worst_accuracy_recorded_as_the_best_is_a_warning() -> None:
    cell = judge(KEPT, recorded(0.3, [0.3, 0.5, 0.6], "eval_accuracy"))
    assert level(cell) == (Level.WARN, "")


def test_a_better_evaluation_that_was_not_kept_is_a_note() -> None:
    """Every second evaluation was saved."""
    cell = judge(KEPT, recorded(1.6, [2.5, 2.0, 1.5, 1.6]))
    assert level(cell) == (Level.INFO, "missed")


@pytest.mark.parametrize("best", [1.5, 1.5 + 1e-9])
def test_the_best_one_is_clean(best: float) -> None:
    assert is_clean(judge(KEPT, recorded(best, [2.5, 2.0, 1.5, 1.6])))


def test_a_metric_without_a_direction_is_not_judged() -> None:
    unknown = Identity(Role.METRIC, "thing", Split.EVAL, direction=Direction.NONE)
    facts = Facts(best_metric=1.0, best_metric_name="eval_thing")
    one = view(series("eval_thing", [1.0, 2.0, 3.0], identity=unknown), facts=facts)
    assert skipped(judge(KEPT, one)) is Skip.NEED_DEGENERATE


def test_two_values_are_too_few() -> None:
    assert skipped(judge(KEPT, recorded(2.0, [2.0, 1.0, 1.0]))) is Skip.NEED_TOO_SHORT


def test_a_metric_that_is_not_logged_is_not_judged() -> None:
    facts = Facts(best_metric=2.0, best_metric_name="eval_wer")
    one = view(series("eval_loss", [2.0, 1.0]), facts=facts)
    assert skipped(judge(KEPT, one)) is Skip.NEED_ABSENT


def test_a_record_without_a_metric_is_not_judged() -> None:
    assert skipped(judge(KEPT, view(series("eval_loss", [2.0, 1.0])))) is Skip.NEED_ABSENT


# --- long ago -------------------------------------------------------------------------------------


def turned(count: int = 30) -> Floats:
    """Best at a third, then worse and worse."""
    third = count // 3
    rise = np.linspace(1, 1.5, count - third)
    return np.concatenate([np.linspace(2, 1, third), rise]) + 0.01 * noise(count)


def test_a_best_at_a_third_is_a_note_with_the_share_since() -> None:
    cell = judge(AGO, view(series("eval_loss", turned().tolist())))
    assert level(cell) == (Level.INFO, "")
    assert "in the 20 evaluations since: 69% of the run" in prose(cell).message


def test_a_best_that_was_reached_again_is_the_later_one() -> None:
    accuracy = (np.round((2.2 - turned()) * 20) / 20).tolist()
    best = max(i for i, one in enumerate(accuracy) if one == max(accuracy))
    assert accuracy.index(max(accuracy)) < best
    found = prose(judge(AGO, view(series("eval_accuracy", accuracy))))
    assert f"was best at step {best + 1} (1.2)" in found.message
    assert f"in the {29 - best} evaluations since" in found.message


def test_an_accuracy_is_judged_upside_down() -> None:
    accuracy = (2.2 - turned()).tolist()
    cell = judge(AGO, view(series("eval_accuracy", accuracy)))
    assert level(cell) == (Level.INFO, "")


def test_a_plateau_has_its_best_by_chance() -> None:
    values = np.concatenate([np.linspace(2, 1, 8), 1 + 0.05 * noise(22)])
    assert is_clean(judge(AGO, view(series("eval_loss", values.tolist()))))


def test_a_loss_that_falls_to_the_end_is_clean() -> None:
    assert is_clean(judge(AGO, view(series("eval_loss", learning(30).tolist()))))


def test_a_best_in_the_second_half_is_clean() -> None:
    values = np.concatenate([np.linspace(2, 1, 20), np.linspace(1, 1.5, 12)])
    assert is_clean(judge(AGO, view(series("eval_loss", values.tolist()))))
