"""Which files may be the splits of one run, by their names alone."""

from __future__ import annotations

import pytest

from trainproof.model.data import Split
from trainproof.readers.split_files import companies, split_file, stem_of


def told(*names: str) -> list[dict[str, Split]]:
    return [
        {path: one.split for path, one in company.items()}
        for company in companies(f"x/{name}" for name in names)
    ]


@pytest.mark.parametrize(
    ("train", "held_out"),
    [
        ("train.csv", "val.csv"),
        ("train.jsonl", "valid.jsonl"),
        ("training.log", "validation.log"),
        ("train_log.txt", "val_log.txt"),
        ("log_train.txt", "log_dev.txt"),
        ("trainLoss.csv", "valLoss.csv"),
        ("exp1_train.csv", "exp1-eval.csv"),
        ("loss.csv", "val_loss.csv"),
    ],
)
def test_names_that_differ_by_the_word_for_the_split_are_a_company(
    train: str, held_out: str
) -> None:
    assert told(train, held_out) == [
        {f"x/{train}": Split.TRAIN, f"x/{held_out}": Split.EVAL},
    ]


def test_three_splits_are_one_company_and_two_experiments_are_two() -> None:
    assert told("train.csv", "val.csv", "test.csv") == [
        {"x/train.csv": Split.TRAIN, "x/val.csv": Split.EVAL, "x/test.csv": Split.TEST}
    ]
    assert len(told("a_train.csv", "a_val.csv", "b_train.csv", "b_val.csv")) == 2


@pytest.mark.parametrize(
    "names",
    [
        ("train.csv", "train_2.csv"),
        ("val.csv", "test.csv"),
        ("train_a.csv", "val_b.csv"),
        ("train.csv", "val.csv", "valid.csv"),
        ("resnet.csv", "val_resnet.csv"),
        ("train_val.csv", "train.csv"),
        ("train1.csv", "val1.csv"),
        ("run.csv",),
    ],
)
def test_others_are_none(names: tuple[str, ...]) -> None:
    assert told(*names) == []


def test_the_tables_of_dvclive_are_one_run_whatever_their_names() -> None:
    paths = ["dvclive/plots/metrics/train_loss.tsv", "dvclive/plots/metrics/val_loss.tsv"]
    assert list(companies(paths)) == []


@pytest.mark.parametrize(
    ("name", "home"),
    [("train.csv", ""), ("val_loss_log.csv", ""), ("exp1_train.csv", "exp1"), ("x.csv", "x")],
)
def test_words_of_any_log_do_not_name_a_run(name: str, home: str) -> None:
    one = split_file(name)
    assert one is not None
    assert one.home == home


@pytest.mark.parametrize(
    ("path", "stem"),
    [("a/b.train.log.3", "b.train"), ("log_rank0.txt", "log_rank"), (".csv", ".csv")],
)
def test_a_stem_has_no_suffix_and_no_number_of_a_process(path: str, stem: str) -> None:
    assert stem_of(path) == stem
