"""What particular programs print in words of their own, and steps that stand in a line alone."""

from __future__ import annotations

import pytest

from trainproof.readers.console import ConsoleText
from trainproof.readers.interface import HEAD

from .readings import Readout, read, survives


def readout(*lines: str, path: str = "train.log") -> Readout:
    data = "".join(f"{line}\n" for line in lines).encode()
    assert ConsoleText().claims(path, data[:HEAD])
    return read(ConsoleText(), path, data)


def points(got: Readout, tag: str) -> list[tuple[int, float]]:
    return list(zip(got.steps(tag), got.values(tag), strict=True))


def event(key: str, value: str, place: str) -> str:
    origin = '"file": "train.py", "lineno": 12'
    return (
        ':::MLLOG {"namespace": "", "time_ms": 1592000000000, "event_type": "POINT_IN_TIME", '
        f'"key": "{key}", "value": {value}, "metadata": {{{origin}, {place}}}}}'
    )


MLPERF = [
    event("opt_base_learning_rate", "0.1", '"rank": 0'),
    event("eval_accuracy", "0.1", '"epoch_num": 1'),
    "0: " + event("tracked_stats", '{"train_loss": 2.5, "throughput": 99.0}', '"step": 100'),
    event("eval_accuracy", "0.2", '"samples_count": 200'),
    "0: " + event("tracked_stats", '{"train_loss": NaN, "throughput": 98.0}', '"step": 200'),
    event("eval_accuracy", "0.3", '"step": 300, "epoch_num": 3'),
    ":::MLLOG {not json}",
    event("run_stop", "null", '"status": "success"'),
]


def test_mlperf() -> None:
    got = readout(*MLPERF)
    assert repr(points(got, "train_loss")) == "[(100, 2.5), (200, nan)]"
    assert got.values("eval_accuracy") == [0.1, 0.2, 0.3]
    assert got.steps("eval_accuracy")[1:] == [200, 300]
    assert "opt_base_learning_rate" not in got.tags


def test_marian() -> None:
    start = "[2021-01-01 10:00:00]"
    got = readout(
        *(
            line
            for i in (1, 2)
            for line in (
                f"{start} Ep. 1 : Up. {i}000 : Sen. 123,456 : Cost {9 - i}.5 * 12,345,678 @ 12,345"
                f" after 123,456,789 : Time 123.45s : 12345.67 words/s : gNorm 1.2 : L.r. 1.2e-04",
                f"{start} [valid] Ep. 1 : Up. {i}000 : cross-entropy : {99 - i}.5 : new best",
            )
        )
    )
    assert points(got, "Cost") == [(1000, 8.5), (2000, 7.5)]
    assert points(got, "valid/cross-entropy") == [(1000, 98.5), (2000, 97.5)]
    assert got.values("gNorm") == [1.2, 1.2]


def test_darknet() -> None:
    got = readout(
        " 1: 800.123456, 801.5 avg loss, 0.000010 rate, 1.2 seconds, 64 images, 9 hours left",
        " 2: 700.123456, -nan avg loss, 0.000020 rate, 1.2 seconds, 128 images",
        " 3: 600.123456, 601.5 avg loss, 0.000030 rate, 1.2 seconds, 192 images",
    )
    assert repr(points(got, "loss")) == "[(1, 801.5), (2, nan), (3, 601.5)]"
    assert got.values("lr") == [1e-5, 2e-5, 3e-5]


def test_mindspore() -> None:
    got = readout(*(f"epoch: 1 step: {i}00, loss is {4 - i}.5" for i in (1, 2)))
    assert points(got, "loss") == [(100, 3.5), (200, 2.5)]


def test_ml_agents() -> None:
    got = readout(
        *(
            f"[INFO] 3DBall. Step: {i}2000. Time Elapsed: 17.1 s. Mean Reward: {i}.25."
            f" Std of Reward: 0.7. Training."
            for i in (1, 2, 3)
        )
    )
    assert points(got, "Mean Reward") == [(12000, 1.25), (22000, 2.25), (32000, 3.25)]


def olmo(step: int) -> list[str]:
    return [
        f"[2024-02-01 12:00:00] INFO [olmo.train:667, rank=0] [step={step}/739328]",
        f"    train/CrossEntropyLoss={12 - step}.25",
        "    train/Perplexity=81,729",
        f"    optim/learning_rate_group0=0.000{step}",
        "    optim/total_grad_norm=1.5",
        "[2024-02-01 12:00:01] INFO [olmo.train:700, rank=0] Checkpointing 7/9",
    ]


def test_values_in_lines_below_their_step() -> None:
    got = readout(*olmo(1), *olmo(2), *olmo(3))
    assert points(got, "train/CrossEntropyLoss") == [(1, 11.25), (2, 10.25), (3, 9.25)]
    assert points(got, "optim/learning_rate_group0") == [(1, 1e-4), (2, 2e-4), (3, 3e-4)]
    assert got.values("optim/total_grad_norm") == [1.5, 1.5, 1.5]
    assert got.facts.max_steps == 739328


def test_the_report_of_an_iteration() -> None:
    got = readout(
        *(
            line
            for i in range(5, 9)
            for line in (
                "#" * 80,
                f"                       Learning iteration {i}/1500                       ",
                "                       Computation: 12345 steps/s (collection: 0.5s)",
                f"               Value function loss: 0.{i}",
                f"                       Mean reward: {i}.5",
                "-" * 80,
                f"                   Total timesteps: {i}98304",
            )
        )
    )
    assert points(got, "Mean reward") == [(5, 5.5), (6, 6.5), (7, 7.5), (8, 8.5)]
    assert points(got, "Value function loss") == [(5, 0.5), (6, 0.6), (7, 0.7), (8, 0.8)]


def test_settings_are_no_measurement_before_a_step() -> None:
    got = readout("learning_rate: 0.1", "grad_norm: 1.0", *olmo(1), *olmo(2), *olmo(3))
    assert "learning_rate" not in got.tags
    got = readout("Epoch 1", "lr: 0.1", "Epoch 2", "loss: 0.5", "Epoch 3", "loss: 0.4", "Epoch 4")
    assert "lr" not in got.tags


@pytest.mark.parametrize("lines", [MLPERF, olmo(1) + olmo(2) + olmo(3)])
def test_whatever_happened_to_the_file(lines: list[str]) -> None:
    survives(ConsoleText(), "train.log", "\n".join(lines).encode())


def test_an_event_that_is_nested_without_end() -> None:
    deep = ":::MLLOG " + '{"a":' * 5000 + "1" + "}" * 5000
    got = readout(*MLPERF, deep)
    assert got.values("eval_accuracy") == [0.1, 0.2, 0.3]


def test_other_counts_do_not_move_a_log_that_says_its_steps_beside_its_values() -> None:
    got = readout(
        *(
            line
            for i in (10, 20, 30)
            for line in (
                f"step: {i} loss: 0.{i}",
                "checking shard: batch 3/7",
                "Validation: batch 5/20",
                f"val accuracy: 0.{i}",
            )
        )
    )
    assert points(got, "loss") == [(10, 0.1), (20, 0.2), (30, 0.3)]
    assert points(got, "val accuracy") == [(10, 0.1), (20, 0.2), (30, 0.3)]


@pytest.mark.parametrize(
    ("said", "tag"),
    [
        ("Cost after iteration {}: {}", "Cost"),
        ("Loss at epoch {} = {}", "Loss"),
        ("INFO:root:Training loss after epoch {}: {}", "Training loss"),
    ],
)
def test_a_place_between_a_name_and_its_number(said: str, tag: str) -> None:
    got = readout(*(said.format(i, 2.5 - i / 10) for i in range(6)))
    assert points(got, tag) == [(i, 2.5 - i / 10) for i in range(6)]


def test_a_tensor_as_python_prints_it() -> None:
    got = readout(*(f"epoch {i} loss tensor({2.5 - i / 10}, grad_fn=<Nll>)" for i in range(6)))
    assert points(got, "loss") == [(i, 2.5 - i / 10) for i in range(6)]


def test_the_last_batch_of_each_epoch_places_nothing() -> None:
    got = readout(*(f"epoch {i} batch 937 loss {2.5 - i / 10}" for i in range(6)))
    assert points(got, "loss") == [(i, 2.5 - i / 10) for i in range(6)]


# --- several held-out sets, and what goes without saying ------------------------------------------


def fairseq(epoch: int, loss: float) -> list[str]:
    """What is printed of an epoch: a row within, two validations, the averages."""
    start, update = "2023-02-01 10:00:00 | INFO |", 500 * epoch
    ends = f"ppl 2.5 | wps 6e+04 | num_updates {update}"
    return [
        f"{start} train_inner | epoch {epoch:03d}: {100} / 500 loss={loss}, nll_loss={loss},"
        f" ppl=9.5, wps=2e+04, num_updates={update - 400}, lr=5e-05, gnorm=1.2, wall=40",
        f'{start} fairseq_cli.train | begin validation on "valid" subset',
        f"{start} valid | epoch {epoch:03d} | valid on 'valid' subset | loss {loss + 1} | {ends}",
        f"{start} valid_foo | epoch {epoch:03d} | valid on 'valid_foo' subset | loss {loss + 2}"
        f" | {ends} | best_loss {loss}",
        f"{start} news | epoch {epoch:03d} | valid on 'news' subset | loss {loss + 3} | {ends}",
        f"{start} train | epoch {epoch:03d} | loss {loss + 4} | nll_loss {loss} | {ends}",
    ]


def test_fairseq_tells_sets_and_averages_apart() -> None:
    got = readout(*fairseq(1, 5.5), *fairseq(2, 4.5))
    assert got.facts.framework == "fairseq"
    assert points(got, "loss") == [(100, 5.5), (600, 4.5)]
    assert points(got, "valid/loss") == [(500, 6.5), (1000, 5.5)]
    assert points(got, "valid_foo/loss") == [(500, 7.5), (1000, 6.5)]
    assert points(got, "valid_news/loss") == [(500, 8.5), (1000, 7.5)]
    assert points(got, "epoch/loss") == [(500, 9.5), (1000, 8.5)]
    assert points(got, "valid_foo/ppl") == [(500, 2.5), (1000, 2.5)]


@pytest.mark.parametrize(
    "line",
    [
        "it {}: train {}, val {}",
        "iter {} | train: {} | valid: {}",
        "step {}/9: train {} val {}",
    ],
)
def test_a_loss_may_go_without_saying(line: str) -> None:
    got = readout(*(line.format(i, 3.5 - i, 4.5 - i) for i in range(1, 4)), path="log.txt")
    assert points(got, "train loss") == [(1, 2.5), (2, 1.5), (3, 0.5)]
    (held_out,) = set(got.tags) - {"train loss", "step", "iter", "it"}
    assert points(got, held_out) == [(1, 3.5), (2, 2.5), (3, 1.5)]
    assert held_out in ("val loss", "valid loss")


@pytest.mark.parametrize("line", ["[{}] loss = {}", "[{}] train_loss: {}", "[{}]: Loss {}"])
def test_a_number_in_brackets_counts_where_it_rises(line: str) -> None:
    got = readout(*(line.format(i, 3.5 - i) for i in range(3)))
    (tag,) = set(got.tags) - {"step"}
    assert points(got, tag) == [(0, 3.5), (1, 2.5), (2, 1.5)]


def test_numbers_in_brackets_that_come_again_are_those_of_processes() -> None:
    got = readout(*(f"[{i % 2}] loss = {i / 4}" for i in range(40)))
    assert points(got, "loss") == [(0, 0.0), (1, 0.25)]


def test_numbers_in_brackets_begin_again_with_each_epoch() -> None:
    epochs = ([f"Epoch {e}", *(f"[{i}] loss = {e}.{i}" for i in range(3))] for e in (1, 2))
    got = readout(*(line for lines in epochs for line in lines))
    assert got.values("loss") == [1.0, 1.1, 1.2, 2.0, 2.1, 2.2]


def test_the_line_of_the_source_is_no_number_of_the_training() -> None:
    start = "[host] 2023-01-01 10:00:00,123 (trainer:732) INFO: 1epoch:train:"
    got = readout(*(f"{start}{i}01-{i + 1}00batch: loss=1.5, acc=0.5" for i in range(3)))
    assert set(got.tags) == {"step", "epoch", "loss", "acc"}


def test_wenet_counts_batches_behind_the_epoch() -> None:
    start = "2023-01-01 10:00:00,123 DEBUG"
    lines = [
        line
        for e in (0, 1)
        for line in (
            f"{start} TRAIN Batch {e}/0 loss {5.5 - e} loss_att 1.5 lr 0.00012 rank 0",
            f"{start} TRAIN Batch {e}/100 loss {5.25 - e} loss_att 1.5 lr 0.00012 rank 0",
            f"{start} CV Batch {e}/0 loss 9.5 loss_att 1.5 history loss 9.5 rank 0",
            f"2023-01-01 10:00:00,123 INFO Epoch {e} CV info cv_loss {4.5 - e}",
        )
    ]
    got = readout(*lines)
    assert got.values("loss") == [5.5, 5.25, 4.5, 4.25]
    assert got.values("cv_loss") == [4.5, 3.5]


def test_a_heading_says_what_the_next_line_is_about() -> None:
    lines = [
        line
        for e in (1, 2)
        for line in (
            f"Epoch {e}",
            "-------------------------------",
            *(f"loss: {9.5 - e}  [{at:5d}/60000]" for at in (64, 6464)),
            "Test Error: ",
            f" Accuracy: {10 * e}.5%, Avg loss: {5.5 - e} ",
            "",
        )
    ]
    got = readout(*lines)
    assert got.values("loss") == [8.5, 8.5, 7.5, 7.5]
    assert got.values("Test/Avg loss") == [4.5, 3.5]
    assert got.values("Test/Accuracy") == [10.5, 20.5]


def test_a_heading_is_about_no_line_further_below() -> None:
    got = readout(
        "Epoch 1, loss: 0.5",
        "Validation:",
        *("something without a number, and something else" for _ in range(3)),
        "Epoch 2, loss: 0.25",
    )
    assert got.values("loss") == [0.5, 0.25]


def test_clu_puts_the_step_in_brackets() -> None:
    got = readout(
        *(
            f"I0817 14:26:4{i}.276523 140469 logging_writer.py:48] [{i}00] accuracy=0.{i},"
            f" loss={9 - i}.5"
            for i in range(1, 4)
        )
    )
    assert points(got, "loss") == [(100, 8.5), (200, 7.5), (300, 6.5)]
    assert points(got, "accuracy") == [(100, 0.1), (200, 0.2), (300, 0.3)]


def test_the_second_tutorial_of_pytorch_ends_an_epoch_with_both_losses() -> None:
    got = readout(
        *(
            line
            for i in range(1, 4)
            for line in (
                f"EPOCH {i}:",
                f"  batch 1000 loss: {3 / i}",
                f"  batch 2000 loss: {2.5 / i}",
                f"LOSS train {2.5 / i} valid {2.75 / i}",
            )
        )
    )
    assert got.values("train LOSS") == [2.5, 1.25, 2.5 / 3]
    assert got.values("valid LOSS") == [2.75, 1.375, 2.75 / 3]
    assert got.values("loss") == [3, 2.5, 1.5, 1.25, 1, 2.5 / 3]


def test_keras_gan_begins_with_the_step() -> None:
    got = readout(*(f"{i} [D loss: 0.6{i}, acc.: 6{i}.25%] [G loss: 1.1{i}]" for i in range(1, 5)))
    assert points(got, "D loss") == [(1, 0.61), (2, 0.62), (3, 0.63), (4, 0.64)]
    assert points(got, "G loss") == [(1, 1.11), (2, 1.12), (3, 1.13), (4, 1.14)]


def test_what_older_runtimes_of_windows_print_is_not_one() -> None:
    got = readout("step 1 loss 1.5", "step 2 loss 1.#QNAN", "step 3 loss -1.#IND00, lr 1.#INF")
    assert repr(got.values("loss")) == "[1.5, nan, nan]"
    assert got.values("lr") == [float("inf")]
