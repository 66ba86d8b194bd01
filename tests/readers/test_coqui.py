"""The console log of Coqui's Trainer."""

from __future__ import annotations

import pytest

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, FaultCode
from trainproof.readers.coqui import Coqui
from trainproof.readers.interface import HEAD
from trainproof.readers.names import classify

from .readings import Readout, read, survives

BOLD, END, RED = "\x1b[1m", "\x1b[0m", "\x1b[91m"

START = f""" > Training Environment:
 | > Precision: float32
 | > Num. of GPUs: 2
 | > Torch seed: 54321
 > Start Tensorboard: tensorboard --logdir=C:\\runs\\x

 > Model has 518442047 parameters

\x1b[4m{BOLD} > EPOCH: 0/1000{END}
 --> C:\\runs\\x
"""

EVALUATION = f"""
{BOLD} > EVALUATION {END}


  {BOLD}--> EVAL PERFORMANCE{END}
     | > avg_loader_time:{RED} 0.01 {END}(+0)
     | > avg_loss: 4.5 {END}(+0)
"""


def step(within: int, steps: int, at: int, loss: float, second: int) -> str:
    return f"""
{BOLD}   --> TIME: 2026-02-11 01:08:{second:02d} -- STEP: {within}/{steps} -- GLOBAL_STEP: {at}{END}
     | > loss: {loss}  ({loss})
     | > current_lr: 5e-06\x20
     | > loader_time: 0.25  (0.5)
"""


def epoch(number: int) -> str:
    return f"\x1b[4m{BOLD} > EPOCH: {number}/1000{END}\n{BOLD} > TRAINING (2026-02-11) {END}\n"


LOG = (
    START
    + EVALUATION
    + epoch(1)
    + step(0, 120, 0, 2.0, 0)
    + step(100, 120, 100, float("nan"), 10)
    + EVALUATION.replace("4.5", "3.5")
    + "\n > BEST MODEL : C:\\runs\\x\\best_model_120.pth\n"
    + epoch(2)
    + step(80, 120, 200, 1.0, 30)
    + " > Keyboard interrupt detected.\n > CHECKPOINT : C:\\runs\\x\\checkpoint_215.pth\n"
)


def got(text: str) -> Readout:
    data = text.encode()
    assert Coqui().claims("trainer_0_log.txt", data[:HEAD])
    return read(Coqui(), "trainer_0_log.txt", data)


def test_training_values_stand_at_the_global_step() -> None:
    loss = got(LOG)["loss"]
    assert (loss.axis, loss.steps.tolist()) == (Axis.STEP, [0, 100, 200])
    assert [repr(v) for v in loss.values.tolist()] == ["2.0", "nan", "1.0"]
    assert loss.lines is not None
    lines = LOG.split("\n")
    assert ["| > loss: " in lines[n - 1] for n in loss.lines.tolist()] == [True] * 3
    assert loss.walls is not None
    assert (loss.walls - loss.walls[0]).tolist() == [0.0, 10.0, 30.0]


def test_evaluations_stand_at_the_end_of_their_epoch() -> None:
    out = got(LOG)
    assert out.steps("EvalStats/avg_loss") == [0, 120]
    assert out.values("EvalStats/avg_loss") == [4.5, 3.5]
    assert out["EvalStats/avg_loss"].walls is None


def test_both_logs_of_a_run_hold_the_same_series() -> None:
    """The tags of the event file that the trainer writes beside the text."""
    board = {
        "TrainIterStats/loss",
        "TrainIterStats/current_lr",
        "TrainIterStats/loader_time",
        "EvalStats/avg_loss",
        "EvalStats/avg_loader_time",
    }
    assert {classify(tag) for tag in got(LOG).tags} == {classify(tag) for tag in board}


def test_facts() -> None:
    facts = got(LOG).facts
    assert (facts.framework, facts.precision, facts.seed) == ("coqui", "float32", 54321)
    assert (facts.world_size, facts.max_epochs, facts.steps_per_epoch) == (2, 1000.0, 120)
    assert (facts.last_step, facts.last_epoch) == (215, 2.0)
    assert (facts.best_checkpoint, facts.finished) == ("best_model_120.pth", False)


def test_a_continued_run_begins_at_its_restored_step() -> None:
    restored = START.replace(" > Model has", " > Model restored from step 1000\n > Model has")
    assert got(restored + EVALUATION).steps("EvalStats/avg_loss") == [1000]


def test_an_epoch_shorter_than_the_print_interval_is_counted() -> None:
    short = epoch(1) + step(0, 10, 0, 2.0, 0) + EVALUATION + epoch(2) + EVALUATION
    assert got(START + short).steps("EvalStats/avg_loss") == [10, 20]


def test_batches_of_an_evaluation_are_no_training_values() -> None:
    batch = f"{BOLD} > EVALUATION {END}\n{BOLD}   --> STEP: 0{END}\n     | > loss: 9.0  (9.0)\n"
    out = got(START + epoch(1) + step(0, 10, 0, 2.0, 0) + batch)
    assert out.values("loss") == [2.0]


def test_averages_of_a_training_epoch_have_their_own_tag() -> None:
    text = f"  {BOLD}--> TRAIN PERFORMACE -- EPOCH TIME: 3.2 sec -- GLOBAL_STEP: 10{END}\n"
    out = got(START + epoch(1) + step(0, 10, 0, 2.0, 0) + text + "     | > avg_loss: 1.5\n")
    assert out.values("TrainEpochStats/avg_loss") == [1.5]
    assert out.steps("TrainEpochStats/avg_loss") == [10]


def test_a_value_that_the_file_ends_in_is_not_believed() -> None:
    second = step(5, 10, 5, 1.25, 1)
    cut = second[: second.index("1.25") + 3]
    out = got(START + epoch(1) + step(0, 10, 0, 2.0, 0) + cut)
    assert out.values("loss") == [2.0]
    assert out.codes == [(FaultCode.TRUNCATED, False)]


def test_a_log_without_values_is_a_header() -> None:
    assert got(START).content is Content.HEADER_ONLY


@pytest.mark.parametrize("head", [b"", b"> a quoted line\n", b" | > 1 | > 2\n", b"epoch,loss\n"])
def test_other_texts_are_not_claimed(head: bytes) -> None:
    assert not Coqui().claims("trainer_0_log.txt", head)


def test_damage_never_raises() -> None:
    survives(Coqui(), "trainer_0_log.txt", LOG.encode())
