"""Numbers and shapes: the same line is understood in the same way however it is matched."""

from __future__ import annotations

import pytest

from trainproof.model.data import Axis, Split
from trainproof.readers.console.numbers import pattern_of, pieces_of, value_of, without_bars
from trainproof.readers.console.plan import Kind, Plan, plan_of

from .test_console import FLAIR, NANOGPT, SPEED_RUN, TRANSFORMERS, megatron, swin


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("loss: 4.28", ["4.28"]),
        ("loss:-1.5e-05,", ["-1.5e-05"]),
        ("time 33ms, mfu -100.00%", ["33", "-100.00"]),
        ("0.56G 5.24M 1.2E+01", ["0.56", "5.24", "1.2E+01"]),
        ("iter:  20,000, lr:(1.992e-04,)", ["20,000", "1.992e-04"]),
        ("2023-06-04 23:15:29,530", ["2023", "06", "04", "23", "15", "29,530"]),
        ("step_avg:nanms loss=NaN, -inf Infinity", ["nan", "NaN", "-inf", "Infinity"]),
        ("INFO nanotech number of nan iterations: 0", ["0"]),
        ("loss_0 v1.2 Acc@1 checkpoint-500 0x1f 3f2a0 tp1pp4", []),
        ("mAP@0.5:0.95", []),
        ("9/ 20", ["9", "20"]),
        ("loss 5.", ["5."]),
    ],
)
def test_numbers(text: str, numbers: list[str]) -> None:
    assert pieces_of(text)[1::2] == numbers


def test_value_of_what_python_would_not_read() -> None:
    assert value_of("150,100") == 150100
    assert value_of("1,234.5") == 1234.5
    assert value_of("-inf") == float("-inf")


def test_bars_do_not_make_shapes() -> None:
    early = without_bars(" 10%|█         | 1/10 [00:01<00:09, loss=0.5]")
    late = without_bars(" 90%|█████████ | 9/10 [00:09<00:01, loss=0.4]")
    assert pieces_of(early)[::2] == pieces_of(late)[::2]


LINES = [
    without_bars(line)
    for text in (
        FLAIR, NANOGPT, SPEED_RUN, TRANSFORMERS, megatron("[default0]:", 1, "nan"), swin(0, 1, 2.5)
    )
    for line in text.replace("\r", "\n").split("\n")
]  # fmt: skip


@pytest.mark.parametrize("text", LINES)
def test_the_pattern_of_a_shape_gives_the_same_numbers(text: str) -> None:
    pieces = pieces_of(text)
    found = pattern_of(pieces[::2]).match(text)
    assert found is not None
    assert list(found.groups()) == pieces[1::2]


def test_the_pattern_of_a_shape_does_not_match_what_is_cut_otherwise() -> None:
    pattern = pattern_of(pieces_of("loss 4")[::2])
    assert pattern.match("loss   4.5")
    assert not pattern.match("loss4")
    assert not pattern.match("loss 4 ")


def plan(text: str) -> Plan:
    found = plan_of(pieces_of(text))
    assert found is not None
    return found


def test_record() -> None:
    got = plan("step:200/20000 val_loss:3.2 step_avg:69.3ms")
    assert got.kind is Kind.RECORD
    assert got.columns == (("val_loss", 2), ("step_avg", 3))
    (step,) = got.steps
    assert (step.at, step.total, step.axis, step.inner) == (0, 1, Axis.STEP, False)
    assert got.framework == "modded-nanogpt"


def test_epoch_and_the_step_within_it() -> None:
    got = plan("Epoch(val) [3][10/125]  loss: 0.5")
    assert got.epoch is not None
    assert (got.epoch.at, got.epoch.total) == (0, None)
    (step,) = got.steps
    assert (step.at, step.total, step.inner) == (1, 2, True)
    assert got.split is Split.EVAL
    assert got.columns == (("val/loss", 3),)


def test_places_without_values() -> None:
    assert plan("Epoch 3/10").kind is Kind.EPOCH
    assert plan("----- Epoch: 3 -----").kind is Kind.EPOCH
    assert plan("Validation ValSet, # psnr: 31.5").kind is Kind.LOOSE


@pytest.mark.parametrize(
    "text",
    [
        "best epoch 3",
        "Resuming training from epoch: 24, iter: 150000.",
        "max_epochs: 100",
        "epochs = 100",
        "warmup_step:11/20 train_loss:9.0",
        "Namespace(epoch=5, loss=0.5, seed=1)",
        "learning rate warmup 500",
        "took 5 s",
        "step 5 cost 2.31s",
        "step 5: done, cost = 120 ms",
        "[logging.py:96] hello",
    ],
)
def test_no_plan(text: str) -> None:
    assert plan_of(pieces_of(text)) is None


def test_a_cost_without_a_unit_of_time_is_a_value() -> None:
    assert plan("step 5 cost 2.31").columns == (("cost", 1),)
    assert plan("step 5 loss 0.5 cost 2.31s").columns == (("loss", 1),)


def test_fraction_of_a_whole() -> None:
    got = plan("Test set: Average loss: 0.05, Accuracy: 9837/10000 (98%)")
    assert got.columns == (("Test/Average loss", 0), ("Test/Accuracy", 1))
    assert got.ratios == (("Test/Accuracy", 2),)
