"""What XGBoost and LightGBM printed and returned."""

from __future__ import annotations

import json

import pytest

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, Declared, Direction, FaultCode, Role, Split
from trainproof.readers.gbdt import BoostingLog, EvalsResult

from .readings import DATA, Readout, read, read_file, survives


def made(text: str) -> Readout:
    data = text.encode()
    assert BoostingLog().claims("train.log", data[:4096])
    return read(BoostingLog(), "train.log", data)


def test_lines_of_xgboost_are_columns_by_set_and_metric() -> None:
    got = read_file(BoostingLog(), "xgboost/train.log")
    assert got.tags == ["iteration", "train/logloss", "train/auc", "eval/logloss", "eval/auc"]
    loss = got["train/logloss"]
    assert (loss.axis, loss.steps.tolist()) == (Axis.STEP, [0, 1, 2, 3, 4])
    assert loss.values.tolist() == [0.49556, 0.38173, 0.29989, 0.24327, 0.20402]
    assert loss.lines is not None and loss.lines.tolist() == [1, 2, 3, 4, 5]
    assert loss.declared == Declared(Role.LOSS, Split.TRAIN, Direction.LOWER)
    assert got["eval/auc"].declared == Declared(Role.METRIC, Split.EVAL, Direction.HIGHER)


def test_the_spread_of_a_cross_validation_is_no_value() -> None:
    got = read_file(BoostingLog(), "xgboost/cv.log")
    assert got.values("train/logloss") == [0.49166, 0.37665, 0.29889]
    assert got.values("test/logloss") == [0.5268, 0.42887, 0.37782]
    assert got["test/logloss"].declared == Declared(Role.LOSS, Split.EVAL, Direction.LOWER)


def test_lightgbm_prints_its_best_iteration_again_and_that_is_no_point() -> None:
    got = read_file(BoostingLog(), "lightgbm/train.log")
    loss = got["training/binary_logloss"]
    assert loss.steps.tolist() == [1, 2, 3, 4]
    assert loss.values.tolist() == [0.620527, 0.561477, 0.512526, 0.471075]
    assert got.values("valid_1/auc") == [0.974545] * 4
    assert (got.faults, got.content) == ((), None)


@pytest.mark.parametrize(
    ("line", "step", "points"),
    [
        ("[17]\ttrain-rmse:1e-05", 17, {"train/rmse": 1e-5}),
        (
            "[12:34:56] [3]\ttrain-error:nan\ttest-error:inf",
            3,
            {"train/error": None, "test/error": float("inf")},
        ),
        ("[0]\tvalidation_0-map@3-:0.5", 0, {"validation_0/map@3-": 0.5}),
        ("[2]\teval-tweedie-nloglik@1.5:-3.5", 2, {"eval/tweedie-nloglik@1.5": -3.5}),
        ("[5]\tvalid_0's l2: 0.25\tvalid_0's l1: 0.5", 5, {"valid_0/l2": 0.25, "valid_0/l1": 0.5}),
        ("[5]\tcv_agg's valid l2: 0.25 + 0.01", 5, {"valid/l2": 0.25}),
        ("[5]\tcv_agg's l2: 0.25 + 0.01", 5, {"cv_agg/l2": 0.25}),
        ("[LightGBM] [Info] Iteration:7, valid_1 auc : 0.97", 7, {"valid_1/auc": 0.97}),
        ("\x1b[32m2024-01-01 INFO\x1b[0m [4]\ttrain-mae:2", 4, {"train/mae": 2.0}),
    ],
)
def test_a_line_holds_an_iteration_and_metrics(
    line: str, step: int, points: dict[str, float | None]
) -> None:
    got = made(f"Loading data\n{line}\n")
    assert {c.tag for c in got.columns} == {"iteration", *points}
    for tag, value in points.items():
        assert got.steps(tag) == [step]
        assert repr(got.values(tag)) == repr([float("nan") if value is None else value])


@pytest.mark.parametrize(
    "head",
    [
        "",
        "[0]\n",
        "[1] Smith-2019: 17\n",
        "[1]\tSmith-2019: 17\n",
        "step 1 train-loss:0.5\n",
        "[INFO]\ttrain-rmse:0.5\n",
        "rows [3]  of-these: 5\n",
        "[1]\t" + "\t" * 3000 + "\n",
    ],
)
def test_other_texts_are_not_claimed(head: str) -> None:
    assert not BoostingLog().claims("train.log", head.encode())


def test_the_results_are_the_same_columns_with_all_digits() -> None:
    for name in ("xgboost", "lightgbm"):
        printed = read_file(BoostingLog(), f"{name}/train.log")
        returned = read_file(EvalsResult(), f"{name}/evals_result.json")
        tags = printed.tags[1:]
        assert returned.tags == tags
        for tag in tags:
            assert returned[tag].declared == printed[tag].declared
            assert returned.values(tag) == pytest.approx(printed.values(tag), abs=6e-6)


def test_the_training_set_of_catboost_is_called_learn() -> None:
    data = json.dumps({"learn": {"RMSE": [0.5, 0.25]}, "validation": {"RMSE": [0.6, 0.7]}})
    got = read(EvalsResult(), "results.json", data.encode())
    assert got["learn/RMSE"].declared == Declared(Role.LOSS, Split.TRAIN, Direction.LOWER)
    assert got["validation/RMSE"].declared == Declared(Role.LOSS, Split.EVAL, Direction.LOWER)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[]",
        b'{"loss": [1, 2]}',
        b'{"history": {"loss": [1], "mae": [2]}}',
        b'{"history": {"mae": [2], "loss": [1]}}',
        b'{"train": {"rmse": 0.5}}',
        b'{"train": {"rmse": []}}',
        b'{"train": {"tokens": [1, 2]}}',
    ],
)
def test_histories_of_another_kind_are_not_claimed(head: bytes) -> None:
    assert not EvalsResult().claims("results.json", head)


def test_a_cut_result_loses_the_value_whose_digits_may_be_missing() -> None:
    got = read(EvalsResult(), "results.json", b'{"train": {"rmse": [0.5, 0.25, 0.12')
    assert got.values("train/rmse") == [0.5, 0.25]
    assert got.codes == [(FaultCode.TRUNCATED, False)]


def test_what_is_no_number_is_no_point() -> None:
    got = read(
        EvalsResult(), "results.json", b'{"train": {"rmse": [0.5, null, {}, NaN], "x": 3}, "y": 1}'
    )
    assert (got.steps("train/rmse"), repr(got.values("train/rmse"))) == ([0, 3], "[0.5, nan]")


def test_a_result_without_values_is_nothing_to_judge() -> None:
    got = read(EvalsResult(), "results.json", b'{"train": {"rmse": [null]}}')
    assert (got.content, got.columns) == (Content.HEADER_ONLY, ())


def test_one_long_metric_among_thousands_is_bounded_work() -> None:
    metrics = {f"m{n}": [1.0] for n in range(5000)}
    got = read(
        EvalsResult(), "r.json", json.dumps({"train": {"rmse": [1.0] * 100_000} | metrics}).encode()
    )
    assert len(got.columns) == 4096
    assert got.codes == [(FaultCode.TOO_LARGE, False)]


def test_damage_is_said_and_never_raised() -> None:
    for name in ("xgboost/cv.log", "lightgbm/train.log"):
        survives(BoostingLog(), "train.log", (DATA / name).read_bytes())
    survives(EvalsResult(), "r.json", (DATA / "xgboost/evals_result.json").read_bytes())
