"""``results.txt`` of YOLOv5 and its descendants, row by row as their ``train.py`` prints it."""

from __future__ import annotations

import math

import pytest

from trainproof.assembly import Reading, assemble
from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Axis, Facts, FaultCode, Role, Split
from trainproof.readers.yolo import YoloResults

from .readings import Readout, read, survives

TAGS = [
    "epoch",
    "gpu_mem",
    "train/box_loss",
    "train/obj_loss",
    "train/cls_loss",
    "train/loss",
    "labels",
    "img_size",
    "metrics/precision",
    "metrics/recall",
    "metrics/mAP_0.5",
    "metrics/mAP_0.5:0.95",
    "val/box_loss",
    "val/obj_loss",
    "val/cls_loss",
]


def row(epoch: int, *losses: float, of: int = 2, memory: str = "3.65G") -> str:
    """As YOLOv5 5.0 formats it: ``'%10s' * 2 + '%10.4g' * 6``, then ``'%10.4g' * 7``."""
    losses = losses or (0.012 / (epoch + 1), 0.0035, 0.0, 0.0155)
    numbers = (*losses, 13, 640, 0.98, 0.97, 0.99, 0.9, 0.0088, 0.0021, 0)
    return f"{f'{epoch}/{of}':>10}{memory:>10}" + "".join(f"{n:10.4g}" for n in numbers) + "\n"


def made(text: str) -> Readout:
    data = text.encode()
    assert YoloResults().claims("runs/train/exp/results.txt", data[:4096])
    return read(YoloResults(), "runs/train/exp/results.txt", data)


def test_columns_have_the_names_of_the_same_projects() -> None:
    got = made(row(0, memory="0.56G") + row(1) + row(2))
    assert got.tags == TAGS
    assert got.values("train/box_loss") == [0.012, 0.006, 0.004]
    assert got.values("gpu_mem") == [0.56, 3.65, 3.65]
    assert got.values("metrics/mAP_0.5:0.95") == [0.9] * 3
    assert got.values("val/box_loss") == [0.0088] * 3
    loss = got["train/loss"]
    assert (loss.axis, loss.steps.tolist()) == (Axis.EPOCH, [0, 1, 2])
    assert loss.lines is not None and loss.lines.tolist() == [1, 2, 3]
    assert got.facts == Facts(framework="yolov5", max_epochs=3.0)
    assert (got.faults, got.content) == ((), None)


def test_the_sum_is_the_loss_and_its_parts_are_components() -> None:
    got = made(row(0) + row(1))
    artifact = Artifact("root", "exp/results.txt", 1, Kind.LOG, "yolo-results")
    view = assemble("exp", [Reading(artifact, got.columns)])
    losses = {s.tag: (s.split, s.identity.component) for s in view.series if s.role is Role.LOSS}
    assert losses == {
        "train/box_loss": (Split.TRAIN, "box"),
        "train/obj_loss": (Split.TRAIN, "obj"),
        "train/cls_loss": (Split.TRAIN, "cls"),
        "train/loss": (Split.TRAIN, None),
        "val/box_loss": (Split.EVAL, "box"),
        "val/obj_loss": (Split.EVAL, "obj"),
        "val/cls_loss": (Split.EVAL, "cls"),
    }


@pytest.mark.parametrize(
    ("losses", "sum_at"),
    [((0.1, 0.2, 0.3, 0.4, 1.0), 4), ((0.1, 0.2, 0.3, 0.6, 0.4), 3)],
)
def test_a_fourth_loss_stands_before_the_sum_or_behind_it(
    losses: tuple[float, ...], sum_at: int
) -> None:
    got = made(row(0, *losses) + row(1, *losses))
    assert got.values("train/loss") == [losses[sum_at]] * 2
    assert got.values("train/extra_loss") == [losses[7 - sum_at]] * 2
    assert got.values("metrics/precision") == [0.98] * 2


def test_nan_and_infinity_are_values() -> None:
    got = made(row(0) + row(1, math.nan, math.inf, 0.0, math.nan))
    assert repr(got.values("train/loss")) == "[0.0155, nan]"
    assert got.values("train/obj_loss") == [0.0035, math.inf]


def test_a_row_that_is_cut_or_no_row_is_a_fault() -> None:
    got = made(row(0) + "Traceback (most recent call last):\n" + row(1) + row(2)[:-1])
    assert got.steps("train/loss") == [0, 1]
    assert [(f.code, f.line) for f in got.faults] == [
        (FaultCode.CORRUPT, 2),
        (FaultCode.TRUNCATED, 4),
    ]


def test_a_row_with_more_columns_than_the_first_is_a_fault() -> None:
    got = made(row(0) + row(1, 0.1, 0.2, 0.3, 0.4, 1.0))
    assert got.steps("train/loss") == [0]
    assert got.codes == [(FaultCode.CORRUPT, False)]


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"Epoch gpu_mem box obj cls\n",
        b"0/99 0.5G 1 2 3\n",
        b"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n",
    ],
)
def test_other_texts_of_this_name_are_not_claimed(head: bytes) -> None:
    assert not YoloResults().claims("results.txt", head)


def test_no_row_at_all_is_no_log() -> None:
    assert read(YoloResults(), "results.txt", b"\n").content is Content.HEADER_ONLY


def test_damage_is_said_and_never_raised() -> None:
    survives(YoloResults(), "results.txt", "".join(row(n, of=9) for n in range(10)).encode())
