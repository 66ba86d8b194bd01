"""Lines of many programs, each in its own form: six points of one series, read exactly.

The forms follow the format strings of the programs; ``{i}`` counts from 1 and ``{v}`` is the
value.
"""

from __future__ import annotations

import json

import pytest

from trainproof.readers import READERS
from trainproof.readers.interface import HEAD

from .readings import Readout, read

VALUES = [5.0, 2.5, 1.6667, 1.25, 1.0, 0.8333]
BAR = "{i}%|##        | {i}0/1000 [00:1{i}<10:00,  1.2it/s, "
STAMP = "2021-01-01 10:00:00,123"
FORMS: dict[str, tuple[str, str]] = {
    "Caffe": (
        "I0101 10:00:00.123456  1234 solver.cpp:239] Iteration {i}00 (1.2 iter/s, 10.1s/20 iters),"
        " loss = {v}\n"
        "I0101 10:00:00.123456  1234 sgd_solver.cpp:112] Iteration {i}00, lr = 0.001\n",
        "loss",
    ),
    "CleanRL": ("global_step={i}00, episodic_return=[{v}]\nSPS: 1234\n", "episodic_return"),
    "Composer": (
        "[batch={i}/1000]:\n\t Train time/epoch: 0\n\t Train loss/train/total: {v}\n",
        "Train loss/train/total",
    ),
    "diffusers": (f"Steps:   {BAR}lr=1e-5, step_loss={{v}}]\r", "step_loss"),
    "ESPnet": (
        f"[host] {STAMP} (trainer:737) INFO: {{i}}epoch:train:1-500batch: iter_time=1.2e-04,"
        " loss_att=2.1, acc=0.5, loss={v}, backward_time=0.1, optim0_lr0=1.2e-04\n",
        "loss",
    ),
    "fairseq": (
        "2021-01-01 10:00:00 | INFO | train_inner | epoch 001:    {i}00 / 5000 loss={v},"
        " nll_loss=12.1, ppl=4390.1, wps=1234, num_updates={i}00, lr=1.2e-05, gnorm=3.1\n",
        "loss",
    ),
    "fairseq, its dictionaries": (
        '2021-01-01 10:00:00 | INFO | train | {{"epoch": {i}, "train_loss": "{v}",'
        ' "train_num_updates": "{i}00", "train_lr": "0.0001"}}\n',
        "train_loss",
    ),
    "icefall": (
        f"{STAMP} INFO [train.py:895] (0/4) Epoch 1, batch {{i}}0, loss[loss={{v}},"
        " simple_loss=0.9, over 12345.00 frames. ], batch size: 20, lr: 3.00e-03\n",
        "loss",
    ),
    "LitGPT": (
        "Epoch 1 | iter {i}0 step {i} | loss train: {v}, val: n/a | iter time: 123.45 ms (step)\n",
        "loss train",
    ),
    "MaxText": (
        "completed step: {i}, seconds: 12.312, TFLOP/s/device: 12.1, Tokens/s/device: 1234.1,"
        " total_weights: 65536, loss: {v}\n",
        "loss",
    ),
    "MXNet": (
        "INFO:root:Epoch[0] Batch [{i}00]\tSpeed: 1234.12 samples/sec\taccuracy=0.{i}1\t"
        "cross-entropy={v}\n",
        "cross-entropy",
    ),
    "NeMo": (
        f"Epoch 0: :   {BAR}v_num=1, reduced_train_loss={{v}}, global_step={{i}}0.0]\r",
        "reduced_train_loss",
    ),
    "NeMo 2": (
        "Training epoch 0, iteration {i}/999 | lr: 1e-05 | global_batch_size: 8 | global_step: {i}"
        " | reduced_train_loss: {v} | train_step_timing in s: 1.2\n",
        "reduced_train_loss",
    ),
    "nnU-Net": (
        "2023-01-01 10:00:00.123456: Epoch {i}\n"
        "2023-01-01 10:00:00.123456: Current learning rate: 0.01\n"
        "2023-01-01 10:00:00.123456: train_loss {v}\n"
        "2023-01-01 10:00:00.123456: Pseudo dice [np.float32(0.{i}), np.float32(0.2)]\n",
        "train_loss",
    ),
    "OpenNMT": (
        f"[{STAMP} INFO] Step {{i}}00/100000; acc: 4.5; ppl: 10012.1; xent: {{v}}; lr: 1.00e-04;"
        " sents:    1234; bsz: 1234/1200/12; 12345/12345 tok/s;    {i}0 sec;\n",
        "xent",
    ),
    "PaddleDetection": (
        "[01/01 10:00:00] ppdet.engine INFO: Epoch: [0] [  {i}0/1000] learning_rate: 0.001000"
        " loss_bbox: 1.2 loss_cls: 0.4 loss: {v} eta: 1:00:00 batch_cost: 0.5 ips: 2.1 images/s\n",
        "loss",
    ),
    "PaddleNLP": (
        f"[{STAMP}] [    INFO] - loss: {{v}}, learning_rate: 3e-05, global_step: {{i}}0,"
        " interval_runtime: 1.2, interval_samples_per_second: 10.1, epoch: 0.{i}\n",
        "loss",
    ),
    "PaddleOCR": (
        "[2022/01/01 10:00:00] ppocr INFO: epoch: [{i}/500], global_step: {i}0, lr: 0.000500,"
        " acc: 0.000000, loss: {v}, avg_reader_cost: 0.12 s, ips: 120.1 samples/s, eta: 1:00:00\n",
        "loss",
    ),
    "PaddleSeg": (
        "2021-01-01 10:00:00 [INFO]\t[TRAIN] epoch: 1, iter: {i}0/1000, loss: {v}, lr: 0.009,"
        " batch_cost: 0.5, reader_cost: 0.01, ips: 8.1 samples/sec | ETA 00:10:00\n",
        "loss",
    ),
    "TensorFlow Estimator": (
        "INFO:tensorflow:loss = {v}, step = {i}00 (0.512 sec)\n"
        "INFO:tensorflow:global_step/sec: 195.1\n",
        "loss",
    ),
    "TensorFlow Object Detection": (
        "INFO:tensorflow:Step {i}00 per-step time 0.512s loss={v}\n",
        "loss",
    ),
    "Tianshou": (
        "Epoch #{i}: 10001it [00:10, 950.12it/s, env_step={i}0000, len=200, loss={v}, n/ep=0]\n",
        "loss",
    ),
    "torchtitan": (
        "[rank0]:[titan] " + STAMP + " - root - INFO - step:  {i}  loss:  {v}  grad_norm:  1.2"
        "  memory: 12.34GiB(15.1%)  tps: 1,234  tflops: 12.1  mfu: 12.1%\n",
        "loss",
    ),
    "torchvision": (
        "Epoch: [0]  [  {i}0/1000]  eta: 0:10:00  lr: 0.1  img/s: 123.4  loss: {v} (6.9512)"
        "  acc1: 0.7 (0.8)  time: 0.5  data: 0.1  max mem: 1234\n",
        "loss",
    ),
    "verl": (
        "step:{i} - global_seqlen/min:123.000 - actor/pg_loss:{v} - actor/entropy:0.5"
        " - critic/rewards/mean:0.1{i} - timing_s/step:12.3\n",
        "actor/pg_loss",
    ),
    "YOLOX": (
        "2021-01-01 10:00:00 | INFO     | yolox.core.trainer:253 - epoch: 1/300, iter: {i}0/925,"
        " mem: 10123Mb, iter_time: 0.512s, data_time: 0.001s, total_loss: {v}, iou_loss: 4.5,"
        " lr: 1.2e-06, size: 640, ETA: 1 day, 1:00:00\n",
        "total_loss",
    ),
}


def readout(path: str, text: str) -> Readout:
    data = text.encode()
    one = next(one for one in READERS if one.claims(path, data[:HEAD]))
    return read(one, path, data)


@pytest.mark.parametrize("program", FORMS)
def test_a_series_of_six_points(program: str) -> None:
    form, tag = FORMS[program]
    text = "".join(form.format(i=i, v=value) for i, value in enumerate(VALUES, 1))
    got = readout("train.log", text)
    assert got.values(tag) == VALUES
    steps = got.steps(tag)
    assert len(set(steps)) == len(steps) and steps == sorted(steps)


RLLIB = "info/learner/default_policy/learner_stats/total_loss"


def test_rllib_in_its_two_files() -> None:
    header = f"episode_reward_mean,training_iteration,timesteps_total,{RLLIB}\n"
    rows = (f"{i}.5,{i},{i}000,{value}\n" for i, value in enumerate(VALUES, 1))
    records = (
        json.dumps(
            {
                "episode_reward_mean": i + 0.5, "training_iteration": i,
                "timesteps_total": i * 1000, "config": {"lr": 0.0001},
                "info": {"learner": {"default_policy": {"learner_stats": {"total_loss": value}}}},
                "hist_stats": {"episode_reward": [1.0, 2.0]},
            }
        )
        + "\n"
        for i, value in enumerate(VALUES, 1)
    )  # fmt: skip
    for got in (
        readout("progress.csv", header + "".join(rows)),
        readout("result.json", "".join(records)),
    ):
        assert got.values(RLLIB) == VALUES
        assert got.steps("episode_reward_mean") == [1000, 2000, 3000, 4000, 5000, 6000]


def test_statistics_of_stylegan() -> None:
    rows = (
        {"Loss/G/loss": {"num": 4, "mean": value, "std": 0.1}, "Progress/kimg": {"mean": 4.0 * i}}
        for i, value in enumerate(VALUES)
    )
    got = readout("stats.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert got.values("Loss/G/loss/mean") == VALUES


def test_a_chart_exported_from_a_tracker() -> None:
    names = '"Step","run - train/loss","run - train/loss__MIN","run - train/loss__MAX"\n'
    rows = (f'"{i}0","{v}","{v}","{v}"\n' for i, v in enumerate(VALUES, 1))
    got = readout("export.csv", names + "".join(rows))
    assert got.values("run - train/loss") == VALUES
    assert got.steps("run - train/loss") == [10, 20, 30, 40, 50, 60]


def test_batches_of_an_epoch_of_unknown_length() -> None:
    """ESPnet; the second start of the training does not follow the first."""
    form = "[host] INFO: {e}epoch:train:{a}-{b}batch: iter_time=1.2e-04, loss={v}, acc=0.5\n"
    once = "".join(
        form.format(e=e, a=b - 99, b=b, v=9 - 2 * e - b / 1000)
        for e in (1, 2, 3)
        for b in (100, 200)
    )
    got = readout("train.log", once * 2)
    assert got.steps("loss") == [100, 200, 300, 400, 500, 600] * 2
