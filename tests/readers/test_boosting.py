"""What metrics of boosted trees mean within their logs."""

from __future__ import annotations

import pytest

from trainproof.model.data import Declared, Direction, Role, Split
from trainproof.readers.boosting import meanings

LOSS = Declared(Role.LOSS, None, Direction.LOWER)
LOWER = Declared(Role.METRIC, None, Direction.LOWER)
HIGHER = Declared(Role.METRIC, None, Direction.HIGHER)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["RMSE"], [LOSS]),
        (["auc", "logloss"], [HIGHER, LOSS]),
        (["error", "mlogloss", "merror"], [LOWER, LOSS, LOWER]),
        (["l2", "l1"], [LOSS, LOWER]),
        (["binary_logloss", "ndcg@5", "map@3-"], [LOSS, HIGHER, HIGHER]),
        (["Quantile:alpha=0.1", "Quantile:alpha=0.9"], [LOSS, LOSS]),
        (["tweedie-nloglik@1.5"], [LOSS]),
        (["NDCG:top=10;type=Base"], [HIGHER]),
        (["mine"], [Declared()]),
    ],
)
def test_the_first_metric_that_can_be_trained_for_is_the_loss(
    names: list[str], said: list[Declared]
) -> None:
    assert meanings(names) == dict(zip(names, said, strict=True))


def test_the_split_is_said_of_every_metric() -> None:
    assert meanings(["mine", "auc"], Split.EVAL) == {
        "mine": Declared(split=Split.EVAL),
        "auc": Declared(Role.METRIC, Split.EVAL, Direction.HIGHER),
    }
