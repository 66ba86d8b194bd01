"""What stands for the loss, and for a split, in the company of other tags."""

from __future__ import annotations

from trainproof.model.data import Direction, Role, Split
from trainproof.readers.stand_ins import identities


def told(*tags: str) -> dict[str, tuple[Role, Split, str | None]]:
    """By tag, of those that mean something else beside the others: role, split and component."""
    return {
        tag: (one.role, one.split, one.component) for tag, one in sorted(identities(tags).items())
    }


def test_a_cost_is_the_loss_where_nothing_is_called_one() -> None:
    assert told("train_cost", "valid_cost", "valid_loss", "lr") == {}


def test_a_cost_beside_a_loss_is_none() -> None:
    assert told("loss", "acc", "cost") == {"cost": (Role.OTHER, Split.TRAIN, None)}
    assert identities(["loss", "cost"])["cost"].direction is Direction.NONE


def test_what_a_policy_must_not_exceed_is_no_loss() -> None:
    assert told("reward", "avg_cost") == {"avg_cost": (Role.OTHER, Split.TRAIN, None)}


def test_an_error_that_is_trained_on_is_the_loss_where_nothing_is_called_one() -> None:
    assert told("MSE/train", "MSE/test", "MAE/train", "R2/test") == {
        "MSE/train": (Role.LOSS, Split.TRAIN, None),
        "MSE/test": (Role.LOSS, Split.TEST, None),
    }
    assert told("train_mae", "val_mae") == {
        "train_mae": (Role.LOSS, Split.TRAIN, None),
        "val_mae": (Role.LOSS, Split.EVAL, None),
    }
    assert told("train_mse", "train_loss") == told("train_mse", "reward") == {}


def test_an_error_that_does_not_say_of_what_may_be_that_of_an_evaluation() -> None:
    assert told("epoch", "rmse", "val_mse") == {}


def test_short_words_for_splits_explain_one_another() -> None:
    assert told("tr_loss", "va_loss", "ts_loss", "va_entropy") == {
        "tr_loss": (Role.LOSS, Split.TRAIN, None),
        "ts_loss": (Role.LOSS, Split.TEST, None),
        "va_loss": (Role.LOSS, Split.EVAL, None),
    }
    assert told("va_loss", "total_loss") == {}
