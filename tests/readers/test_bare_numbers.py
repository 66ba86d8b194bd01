"""Files of nothing but numbers, which only their names make a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainproof import audit
from trainproof.model.data import Axis, FaultCode
from trainproof.readers.bare_numbers import BareNumbers, holds_numbers
from trainproof.readers.interface import HEAD

from .readings import damaged, read

ONE = b"# losses\n2.5\n1.5\nnan\n\n1e-1\n"
TWO = b"0 2.5\n10\t1.5\n20, 0.5\n"


def test_one_number_a_line_is_a_loss_by_its_name() -> None:
    assert BareNumbers().claims("run/loss.txt", ONE)
    got = read(BareNumbers(), "run/loss.txt", ONE)
    assert repr(got.values("loss")) == "[2.5, 1.5, nan, 0.1]"
    assert got["loss"].axis is Axis.INDEX
    assert got["loss"].lines is not None
    assert got["loss"].lines.tolist() == [2, 3, 4, 6]


def test_a_count_that_rises_stands_before_it() -> None:
    got = read(BareNumbers(), "train_loss.csv", TWO)
    assert (got.steps("train_loss"), got.values("train_loss")) == ([0, 10, 20], [2.5, 1.5, 0.5])
    assert got["train_loss"].axis is Axis.STEP


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("losses.dat", "losses"),
        ("val_loss.csv", "val_loss"),
        ("trainLossHistory.txt", "train_loss"),
        ("loss_log.txt", "loss"),
        ("d_loss.txt", "d_loss"),
    ],
)
def test_the_tag_is_what_the_name_says(name: str, tag: str) -> None:
    assert BareNumbers().claims(name, ONE)
    assert read(BareNumbers(), name, ONE).tags == [tag]


@pytest.mark.parametrize(
    "name", ["numbers.txt", "cost.txt", "scores.txt", "loss_weight.txt", "loss_lr_0.1.txt", "1.csv"]
)
def test_another_name_says_nothing(name: str) -> None:
    assert not BareNumbers().claims(name, ONE)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1\n2\n",
        b"1 2 3\n1 2 3\n1 2 3\n",
        b"1\n1 2\n1\n",
        b"0 1\n0 1\n0 1\n",
        b"0.5 1\n1.5 1\n2.5 1\n",
        b"-1 1\n0 1\n1 1\n",
        b"1\n2\nx\n",
        b"inf 1\ninf 1\nnan 1\n",
        b"\x00\xff" * 50,
    ],
)
def test_other_texts_are_none(data: bytes) -> None:
    assert not holds_numbers(data)


def test_a_line_that_is_cut_at_the_end_of_the_head_does_not_count() -> None:
    head = (b"0.25\n" * HEAD)[: HEAD - 1] + b"x"
    assert holds_numbers(head)


def test_other_lines_are_faults() -> None:
    got = read(BareNumbers(), "loss.txt", b"1\n2\n3 4\nend\n5\n")
    assert got.values("loss") == [1, 2, 5]
    assert [(one.code, one.line) for one in got.faults] == [
        (FaultCode.CORRUPT, 3),
        (FaultCode.CORRUPT, 4),
    ]


def test_damage_is_survived() -> None:
    for data in damaged(ONE * 20):
        read(BareNumbers(), "loss.txt", data)


def test_what_has_no_name_is_counted_and_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"{5 / (i + 1)}\n" for i in range(40)))
    report = audit(str(path), isolation=False)
    assert (report.reports, dict(report.not_judged.counts)) == ((), {"unnamed-numbers": 1})
    (run,) = audit(str(path), isolation=False, format_hint="numbers").reports
    assert [(one.name, one.role, one.points) for one in run.series] == [("loss", "loss", 40)]
