"""Metrics of boosted trees: what CatBoost, XGBoost and LightGBM call them, and what they mean.

Their objectives carry the names of metrics (``RMSE``, ``l2``, ``mlogloss``), so that within one of
their logs a name says what it could not say elsewhere: the first one that can be trained for is
the loss.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainproof.model.data import Declared, Direction, Role, Split

from .names import word_set

OBJECTIVES = word_set(
    # CatBoost
    "rmse logloss crossentropy multiclass multiclassonevsall mae mape poisson quantile"
    " multiquantile loglinquantile lq huber expectile tweedie logcosh rmsewithuncertainty"
    " multirmse multilogloss multicrossentropy pairlogit pairlogitpairwise queryrmse"
    " querysoftmax querycrossentropy cox survivalaft focal groupquantile"
    # XGBoost
    " mlogloss rmsle mphe poissonnloglik gammanloglik coxnloglik gammadeviance tweedienloglik"
    " aftnloglik"
    # LightGBM
    " l1 l2 mse fair gamma binarylogloss multilogloss xentropy crossentropylambda xentlambda"
    " kullbackleibler"
)

HIGHER = word_set(
    "auc aucpr prauc aucmu averageprecision queryauc accuracy balancedaccuracy f1 f totalf1 mcc"
    " kappa wkappa precision recall pre precisionat recallat ndcg dcg filtereddcg map mrr err"
    " pfound queryaverage r2 normalizedgini ams intervalregressionaccuracy"
)

LOWER = word_set(
    "error merror binaryerror multierror zerooneloss hammingloss balancederrorrate brierscore smape"
    " medianabsoluteerror msle hingeloss numerrors"
)


def meanings(names: Iterable[str], split: Split | None = None) -> dict[str, Declared]:
    """What each metric of one log is, in the order in which it is logged."""
    members = list(names)
    loss = next((plain for name in members if (plain := _plain(name)) in OBJECTIVES), None)
    return {name: _meaning(_plain(name), loss, split) for name in members}


def _meaning(plain: str, loss: str | None, split: Split | None) -> Declared:
    if plain == loss:
        return Declared(Role.LOSS, split, Direction.LOWER)
    if plain in OBJECTIVES or plain in LOWER:
        return Declared(Role.METRIC, split, Direction.LOWER)
    if plain in HIGHER:
        return Declared(Role.METRIC, split, Direction.HIGHER)
    return Declared(split=split)


def _plain(name: str) -> str:
    """``NDCG:top=10;type=Base``, ``ndcg@5`` and ``ndcg@5-`` are all ``ndcg``."""
    stem = name.partition(":")[0].partition("@")[0]
    return "".join(char for char in stem.lower() if char.isalnum())


def is_known(name: str) -> bool:
    """Whether one of the three libraries has a metric of this name."""
    return _plain(name) in OBJECTIVES | HIGHER | LOWER


def split_of_set(name: str) -> Split:
    """What the name of a data set says. All but the training set are there to stop on, whatever
    they are called: their metrics are those of an evaluation."""
    lower = name.lower()
    return Split.TRAIN if "train" in lower or lower == "learn" else Split.EVAL
