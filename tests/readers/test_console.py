"""The dialects of consoles: every sample is made by hand after what the program prints."""

from __future__ import annotations

import io
from math import inf, isnan, nan

import pytest

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Axis, Declared, Direction, FaultCode, NotJudgeable, Role, Split
from trainproof.readers import READERS
from trainproof.readers.console import ConsoleText
from trainproof.readers.interface import HEAD, Options
from trainproof.readers.names import classify

from .readings import Readout, read

Points = list[tuple[int, float]]


def console(text: str, path: str = "run/train.log") -> Readout:
    """What is read of a text that the console reader, and no other before it, claims."""
    data = text.encode()
    assert next(one for one in READERS if one.claims(path, data[:HEAD])).name == "text"
    return read(ConsoleText(), path, data)


def points(got: Readout, tag: str) -> Points:
    return list(zip(got.steps(tag), got.values(tag), strict=True))


def lines(got: Readout, tag: str) -> list[int]:
    found = got[tag].lines
    assert found is not None
    return found.tolist()


NANOGPT = """\
tokens per iteration will be: 491,520
number of parameters: 10.65M
num decayed parameter tensors: 26, with 10,740,096 parameters
step 0: train loss 4.2874, val loss 4.2823
iter 0: loss 4.2649, time 33000.12ms, mfu -100.00%
iter 10: loss 3.2438, time 33.55ms, mfu 11.02%
step 250: train loss 1.9622, val loss 2.0601
saving checkpoint to out
iter 250: loss 2.0424, time 3300.00ms, mfu 9.99%
"""


def test_nanogpt() -> None:
    got = console(NANOGPT)
    assert got.tags == ["step", "train loss", "val loss", "loss", "time", "mfu"]
    assert points(got, "loss") == [(0, 4.2649), (10, 3.2438), (250, 2.0424)]
    assert points(got, "val loss") == [(0, 4.2823), (250, 2.0601)]
    assert got.values("mfu") == [-100.0, 11.02, 9.99]
    assert lines(got, "loss") == [5, 6, 9]
    assert (got.facts.framework, got.facts.last_step) == ("nanogpt", 250)


SPEED_RUN = """\
import os
val_loss = 0.0
step = 0
lr = 0.1; loss = 3.0
for step in range(100):
    print(f'step:{step}/{args.num_iterations} val_loss:{val_loss:.4f}')
====================================================================
warmup_step:11/20 train_loss:9.0
warmup_step:20/20 train_loss:8.0
step:0/20000 val_loss:6.9357 val_bpb:4.1077 train_time:0ms step_avg:nanms
step:1/20000 train_loss:6.9370 train_time:69ms step_avg:69.31ms
step:200/20000 train_loss:nan train_time:13861ms step_avg:69.3ms
step:200/20000 val_loss:nan val_bpb:nan train_time:13861ms step_avg:69.3ms
step:400/20000 train_loss:nan train_time:23861ms step_avg:69.3ms
final_int8_zlib_roundtrip val_loss:2.0606 val_bpb:1.2204 eval_time:1500ms
"""


def test_speed_run_with_its_source_at_the_top() -> None:
    got = console(SPEED_RUN)
    assert got.tags == ["step", "val_loss", "val_bpb", "train_time", "step_avg", "train_loss"]
    assert got.steps("train_loss") == [1, 200, 400]
    first, *rest = got.values("train_loss")
    assert first == 6.937
    assert all(map(isnan, rest))
    assert lines(got, "val_loss") == [10, 13]
    assert got.facts.max_steps == 20000
    assert got.facts.framework == "modded-nanogpt"


def test_source_that_fills_the_head_is_claimed_as_what_it_may_introduce() -> None:
    source = "import torch\n" + "x = model(x)  # loss = 0.5\n" * 400
    got = console(source + SPEED_RUN, "records/3f2a.txt")
    assert got.steps("train_loss") == [1, 200, 400]
    assert lines(got, "train_loss") == [412, 413, 415]


def test_llm_c() -> None:
    got = console(
        "s:0 tel:11.0092\n"
        "s:0 trl:11.0091 lr:0.000001 norm:15.37\n"
        "s:1 trl:10.9598 lr:0.000002 norm:15.24\n"
        "s:2 tel:10.5\n"
    )
    assert points(got, "trl") == [(0, 11.0091), (1, 10.9598)]
    assert got["trl"].declared == Declared(Role.LOSS, Split.TRAIN, Direction.LOWER)
    assert points(got, "tel") == [(0, 11.0092), (2, 10.5)]
    assert got["tel"].declared == Declared(Role.LOSS, Split.EVAL, Direction.LOWER)
    assert got.facts.framework == "llm.c"


def megatron(prefix: str, step: int, loss: str) -> str:
    return (
        f"{prefix} iteration {step:8d}/{20:8d} | consumed samples: {4 * step:12d} | elapsed time"
        f" per iteration (ms): 17420.8 | learning rate: 1.000E-05 | global batch size:     4"
        f" | lm loss: {loss} | loss scale: 4294967296.0 | grad norm: 894.370"
        f" | number of skipped iterations:   0 | number of nan iterations:   {step - 1} |\n"
    )


def test_megatron() -> None:
    got = console(
        "using world size: 8, data-parallel-size: 2\n"
        "  eod_mask_loss ................................... False\n"
        "  initial_loss_scale .............................. 4294967296\n"
        + megatron("[default0]:", 1, "1.080963E+01")
        + megatron("192.168.1.2:", 2, "NaN")
        + "-" * 80
        + "\n validation loss at iteration 2 | lm loss value: 1.06E+01 | lm loss PPL: 3.5E+04 |\n"
    )
    assert got.steps("lm loss") == [1, 2]
    assert got.values("lm loss")[0] == 10.80963
    assert isnan(got.values("lm loss")[1])
    assert points(got, "validation/lm loss") == [(2, 10.6)]
    assert got.values("grad norm") == [894.37, 894.37]
    assert got.values("number of nan iterations") == [0, 1]
    assert got.values("elapsed time per iteration") == [17420.8, 17420.8]
    assert (got.facts.framework, got.facts.max_steps) == ("megatron", 20)


def test_several_jobs_in_one_file_keep_their_order() -> None:
    job = "".join(megatron("", step, f"{10 - step}.5E+00") for step in (1, 2, 3))
    assert console(job + job).steps("lm loss") == [1, 2, 3, 1, 2, 3]


def test_deepspeed() -> None:
    got = console(
        "steps: 15 loss: 11.3586 iter time (s): 28.885 samples/sec: 0.554\n"
        "hn-1: steps: 16 loss: 11.2404 iter time (s): 28.645 samples/sec: 0.559\n"
        "[2024-01-01 10:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=16, skipped=0,"
        " lr=[1.5e-05, 1.5e-05], mom=[(0.9, 0.95)]\n"
    )
    assert points(got, "loss") == [(15, 11.3586), (16, 11.2404)]
    assert got.values("iter time") == [28.885, 28.645]
    assert points(got, "lr") == [(16, 1.5e-05)]
    assert classify("samples/sec").role is Role.THROUGHPUT
    assert got.facts.framework == "deepspeed"


TRANSFORMERS = (
    "\r  0%|          | 0/300 [00:00<?, ?it/s]"
    "\r 10%|█         | 30/300 [00:10<01:30,  3.00it/s]"
    "\r                                                \r"
    "{'loss': 1.2345, 'grad_norm': 0.5, 'learning_rate': 2e-05, 'epoch': 0.1}\r\n\r"
    " 20%|██        | 60/300 [00:20<01:20,  3.00it/s]"
    "{'loss': nan, 'grad_norm': inf, 'learning_rate': 1.8e-05, 'epoch': 0.2}\n"
    "{'loss': '1.1', 'grad_norm': 'tensor(0.5, device='cuda:0')', 'learning_rate': '1.6e-05',"
    " 'epoch': '0.3'}\n"
    "{'loss': 1.05, 'grad_norm': tensor(0.75, device='cuda:0'),"
    " 'learning_rate': np.float64(1.5e-05), 'epoch': 0.4}\n"
    "{'eval_loss': 1.01, 'eval_runtime': 5.1, 'epoch': 1.0}\n"
    "{'train_runtime': 100.5, 'train_samples_per_second': 5, 'train_loss': 0.5, 'epoch': 1.0}\n"
)


def test_dicts_of_transformers_between_progress_bars() -> None:
    got = console(TRANSFORMERS)
    loss = got.values("loss")
    assert loss[:1] + loss[2:] == [1.2345, 1.1, 1.05]
    assert isnan(loss[1])
    assert got["loss"].axis is Axis.INDEX
    assert lines(got, "loss") == [1, 2, 3, 4]
    assert got.values("grad_norm") == [0.5, inf, 0.5, 0.75]
    assert got.values("learning_rate") == [2e-05, 1.8e-05, 1.6e-05, 1.5e-05]
    assert got.values("eval_loss") == [1.01]
    assert got.values("epoch") == [0.1, 0.2, 0.3, 0.4, 1.0]
    assert "train_loss" not in got.tags  # of the summary at the end
    assert (got.facts.framework, got.facts.max_steps) == ("transformers", 300)


def mmdet(rest: str) -> str:
    return f"2021-10-10 10:00:00,000 - mmdet - INFO - {rest}\n"


TIMES = "eta: 1 day, 2:13:14, time: 0.526, data_time: 0.058, memory: 3917"


def test_mmdetection_2() -> None:
    got = console(
        mmdet(f"Epoch [1][50/100]\tlr: 1.978e-03, {TIMES}, loss_cls: 0.5, acc: 93.2, loss: 1.25")
        + mmdet(f"Epoch [1][100/100]\tlr: 1.978e-03, {TIMES}, loss_cls: 0.4, acc: 94, loss: 1.125")
        + mmdet("Saving checkpoint at 1 epochs")
        + mmdet("Epoch(val) [1][25]\tbbox_mAP: 0.301, bbox_mAP_copypaste: 0.301 0.500 0.300")
        + mmdet(f"Epoch [2][50/100]\tlr: 1.978e-03, {TIMES}, loss_cls: 0.3, acc: 95, loss: 1.0")
        + mmdet("Epoch(val) [2][25]\tbbox_mAP: 0.311, bbox_mAP_copypaste: 0.311 0.500 0.300")
    )
    assert points(got, "loss") == [(50, 1.25), (100, 1.125), (150, 1.0)]
    assert points(got, "val/bbox_mAP") == [(100, 0.301), (200, 0.311)]
    assert got.values("memory") == [3917, 3917, 3917]
    assert got.facts.steps_per_epoch == 100
    assert got.facts.max_steps is None
    assert got.facts.framework == "mmcv"


def test_mmsegmentation_counts_validation_images_and_not_steps() -> None:
    got = console(
        mmdet(f"Iter [50/160000]\tlr: 1.958e-06, {TIMES}, decode.loss_ce: 2.1, loss: 2.9")
        + mmdet("Iter(val) [2000]\taAcc: 0.8210, mIoU: 0.4510")
        + mmdet(f"Iter [100/160000]\tlr: 1.958e-06, {TIMES}, decode.loss_ce: 2.0, loss: 2.8")
        + mmdet("Iter(val) [2000]\taAcc: 0.8310, mIoU: 0.4610")
    )
    assert points(got, "loss") == [(50, 2.9), (100, 2.8)]
    assert points(got, "val/mIoU") == [(50, 0.451), (100, 0.461)]
    assert got.facts.max_steps == 160000


def mmengine(rest: str) -> str:
    return f"2023/10/10 10:00:00 - mmengine - INFO - {rest}\n"


def test_mmengine() -> None:
    got = console(
        mmengine("Epoch(train)  [1][ 50/100]  lr: 1.978e-03  eta: 2:13:14  loss: 1.25")
        + mmengine("Epoch(train)  [1][100/100]  lr: 1.978e-03  eta: 2:13:14  loss: 1.125")
        + mmengine("Epoch(val)  [1][ 50/125]    eta: 0:00:41  time: 0.5  loss: 9.0")
        + " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.861\n" * 3
        + mmengine("Epoch(val) [1][125/125]    coco/bbox_mAP: 0.301  coco/bbox_mAP_s: nan")
        + mmengine("Epoch(train)  [2][ 50/100]  lr: 1.978e-03  eta: 2:13:14  loss: 1.0")
    )
    assert points(got, "loss") == [(50, 1.25), (100, 1.125), (150, 1.0)]
    assert points(got, "val/coco/bbox_mAP") == [(100, 0.301)]
    assert not {"val/loss", "IoU", "maxDets"} & set(got.tags)
    assert got.facts.framework == "mmengine"


def test_one_line_of_a_known_program_is_a_log_of_one_point() -> None:
    got = console(mmengine("Epoch(val) [25][143/143]    coco/bbox_mAP: 0.605  time: 0.9"), "notes")
    assert points(got, "val/coco/bbox_mAP") == [(25, 0.605)]
    assert got["val/coco/bbox_mAP"].axis is Axis.EPOCH


def test_detectron2_in_colours() -> None:
    head = "\x1b[32m[01/20 13:00:10 d2.utils.events]: \x1b[0m eta: 0:10:20  "
    got = console(
        f"{head}iter: 19  total_loss: 2.168  loss_cls: 0.9  time: 0.5  lr: 4.995e-06  max_mem: 9M\n"
        f"{head}iter: 39  total_loss: 1.968  loss_cls: 0.8  time: 0.5  lr: 9.995e-06  max_mem: 9M\n"
    )
    assert points(got, "total_loss") == [(19, 2.168), (39, 1.968)]
    assert got.values("lr") == [4.995e-06, 9.995e-06]
    assert got.facts.framework == "detectron2"


def swin(epoch: int, step: int, loss: float) -> str:
    return (
        f"[2022-01-01 10:00:10 swin](main.py 215): INFO Train: [{epoch}/150][{step}/100]\t"
        f"eta 1 day, 1:00:00 lr 0.000001\t wd 0.0500\ttime 2.1000 (2.2000)\t"
        f"loss {loss} (6.9000)\tgrad_norm 1.2000 (1.3000)\tloss_scale 65536.0 (65536.0)\tmem 5MB\n"
    )


def test_swin() -> None:
    test = "[2022-01-01 10:00:26 swin](main.py 260): INFO Test: [0/98]\tTime 3.0 (3.0)\tLoss 9 (9)"
    got = console(
        swin(0, 0, 6.9)
        + swin(0, 50, 6.8)
        + f"{test}\tAcc@1 0.78 (0.78)\tMem 5MB\n"
        + "[2022-01-01 10:00:27 swin](main.py 267): INFO  * Acc@1 1.100 Acc@5 4.500\n"
        + swin(1, 0, 6.7)
        + swin(1, 50, 6.6)
        + "[2022-01-01 10:00:47 swin](main.py 267): INFO  * Acc@1 2.100 Acc@5 6.500\n"
    )
    assert points(got, "loss") == [(0, 6.9), (50, 6.8), (100, 6.7), (150, 6.6)]
    assert got.values("time") == [2.1, 2.1, 2.1, 2.1]
    assert points(got, "Acc@1") == [(50, 1.1), (150, 2.1)]
    assert lines(got, "Acc@1") == [4, 7]
    assert "Test/Loss" not in got.tags
    assert (got.facts.max_epochs, got.facts.steps_per_epoch) == (150, 100)
    assert got.facts.framework == "swin"


def test_basicsr() -> None:
    start = "23-05-17 00:12:36.225 - INFO: "
    got = console(
        "  loss_weight: 1\n  psnr:[\n  warmup_iter: -1\n"
        f"{start}Start training from epoch: 0, iter: 0\n"
        f"{start}[epoch:  0, iter:     900, lr:(2.000e-04,)] l_pix: 8.9411e-03 \n"
        f"{start}[epoch:  3, iter:  20,000, lr:(1.992e-04,)] l_pix: 2.1211e-02 \n"
        f"{start}Validation ValSet,\t\t # psnr: 31.5737\n"
        f"{start}[epoch:  4, iter:  25,000, lr:(1.991e-04,)] l_pix: 2.0e-02 \n"
        f"{start}Validation ValSet,\t\t # psnr: 32.5737\n"
    )
    assert points(got, "l_pix") == [(900, 8.9411e-03), (20000, 2.1211e-02), (25000, 2.0e-02)]
    assert got.values("lr") == [2e-4, 1.992e-4, 1.991e-4]
    assert points(got, "Validation/psnr") == [(20000, 31.5737), (25000, 32.5737)]
    meaning = classify("Validation/psnr")
    assert (meaning.role, meaning.split) == (Role.METRIC, Split.EVAL)
    assert got.facts.framework == "basicsr"


def test_paddle() -> None:
    start = "2023-06-04 23:16:23,965 INFO: "
    got = console(
        f"{start}epoch:0, iter:100, lr: 0.000150 loss: 4286.789  eta: 3 days, 2:50:25, time (data):"
        f" 0.821\n"
        f"{start}epoch:0, iter:200, lr: 0.000150 loss: 601.948  eta: 2:50:25, time (data): 0.391\n"
    )
    assert points(got, "loss") == [(100, 4286.789), (200, 601.948)]
    assert got.values("time") == [0.821, 0.391]


def test_keras_bars_count_once_an_epoch() -> None:
    got = console(
        "Epoch 1/3\n"
        "\r   1/938 [..............................] - ETA: 5:12 - loss: 2.3000 - accuracy: 0.1"
        "\x08\x08\x08\x08\r 500/938 [===========>..................] - ETA: 1s - loss: 0.9"
        "\r938/938 [==============================] - 5s 5ms/step - loss: 0.5000 - accuracy: 0.8"
        " - val_loss: 0.4000\n"
        "Epoch 2/3\n"
        "938/938 [==============================] - 5s 5ms/step - loss: 0.3000 - accuracy: 0.9"
        " - val_loss: 0.3500 - lr: 1.0e-04\n"
        "Epoch 3/3\n"
        "938/938 - 5s - 5ms/step - loss: 0.2000 - accuracy: 0.93 - val_loss: 0.3400\n"
        "313/313 [==============================] - 1s 2ms/step - loss: 0.3333 - accuracy: 0.9\n"
    )
    assert points(got, "loss") == [(1, 0.5), (2, 0.3), (3, 0.2)]
    assert points(got, "val_loss") == [(1, 0.4), (2, 0.35), (3, 0.34)]
    assert got["loss"].axis is Axis.EPOCH
    assert lines(got, "loss") == [2, 4, 6]
    assert (got.facts.framework, got.facts.max_epochs) == ("keras", 3)


def test_keras_3() -> None:
    bar, dim = "\x1b[32m━━━━━━━━━━\x1b[0m", "\x1b[37m━━━━━━━━━━\x1b[0m"
    got = console(
        "Epoch 1/2\n"
        f"\x1b[1m  1/100\x1b[0m {dim} \x1b[1m10s\x1b[0m 100ms/step - accuracy: 0.1 - loss: 2.3\r"
        f"\x1b[1m100/100\x1b[0m {bar} \x1b[1m1s\x1b[0m 5ms/step - accuracy: 0.5 - loss: 1.3\n"
        "Epoch 2/2\n"
        f"\x1b[1m100/100\x1b[0m {bar} \x1b[1m1s\x1b[0m 5ms/step - accuracy: 0.7 - loss: 0.9\n"
    )
    assert points(got, "loss") == [(1, 1.3), (2, 0.9)]


def test_cyclegan_counts_within_epochs_without_saying_how_far() -> None:
    line = "(epoch: {}, iters: {}, time: 0.200, data: 0.100) D_A: {} G_A: 0.400 cycle_A: 1.5 \n"
    got = console(
        "================ Training Loss (Mon Jan  1 10:00:00 2024) ================\n"
        + line.format(1, 100, 0.30)
        + line.format(1, 200, 0.29)
        + line.format(2, 100, 0.28)
        + line.format(2, 200, 0.27),
        "checkpoints/experiment_name/loss_log.txt",
    )
    assert points(got, "D_A") == [(100, 0.3), (200, 0.29), (300, 0.28), (400, 0.27)]
    assert got.values("cycle_A") == [1.5] * 4
    assert got.facts.framework == "cyclegan"


def test_torchtune() -> None:
    got = console(
        "Step 1 | loss:1.2345 lr:2e-05 tokens_per_second_per_gpu:1234.5 \n"
        "Step 2 | loss:1.1345 lr:3e-05 tokens_per_second_per_gpu:1234.5 \n",
        "log_1700000000.txt",
    )
    assert points(got, "loss") == [(1, 1.2345), (2, 1.1345)]
    assert got.values("lr") == [2e-05, 3e-05]
    assert got.facts.framework == "torchtune"


def test_fairseq_writes_numbers_as_strings() -> None:
    start = "2021-01-01 10:00:00 | INFO |"
    got = console(
        f"{start} fairseq_cli.train | Namespace(lr=[0.0005], epoch=5, loss=0.1, seed=1)\n"
        f'{start} train_inner | {{"epoch": 1, "update": 0.2, "loss": "13.5", "ppl": "9000",'
        f' "num_updates": "100", "lr": "1e-05", "gnorm": "2.5"}}\n'
        f'{start} train_inner | {{"epoch": 1, "update": 0.4, "loss": "12.5", "ppl": "8000",'
        f' "num_updates": "200", "lr": "2e-05", "gnorm": "2.4"}}\n'
        f'{start} valid | {{"epoch": 1, "valid_loss": "11.5", "valid_num_updates": "500"}}\n'
        f'{start} train | {{"epoch": 1, "train_loss": "12.9", "train_num_updates": "500"}}\n'
    )
    assert points(got, "loss") == [(100, 13.5), (200, 12.5)]
    assert points(got, "valid_loss") == [(500, 11.5)]
    assert points(got, "train_loss") == [(500, 12.9)]
    assert got.facts.framework == "fairseq"


def test_fairseq_simple() -> None:
    got = console(
        "train_inner | epoch 001:    100 / 500 loss=13.5, ppl=9000, num_updates=100, lr=1e-05\n"
        "valid | epoch 001 | valid on 'valid' subset | loss 11.5 | ppl 5000 | num_updates 500\n"
        "train_inner | epoch 002:    100 / 500 loss=11.5, ppl=7000, num_updates=600, lr=1e-05\n"
    )
    assert points(got, "loss") == [(100, 13.5), (600, 11.5)]
    assert points(got, "valid/loss") == [(500, 11.5)]


def test_espnet() -> None:
    start = "[host] 2021-01-01 10:00:00,000 (trainer:653) INFO: "
    got = console(
        f"{start}1epoch:train:1-500batch: iter_time=0.1, loss_att=90.5, acc=0.1, loss=95.5\n"
        f"{start}1epoch:train:501-1000batch: iter_time=0.1, loss_att=80.5, acc=0.2, loss=85.5\n"
        f"{start}1epoch results: [train] loss_att=85.5, acc=0.15, loss=90.5, time=10 minutes,"
        f" [valid] loss_att=70.5, acc=0.3, loss=75.5, time=10.5 seconds\n"
        f"{start}2epoch:train:1-500batch: iter_time=0.1, loss_att=60.5, acc=0.4, loss=65.5\n"
    )
    assert points(got, "loss") == [(500, 95.5), (1000, 85.5), (1500, 65.5)]
    assert points(got, "epoch/loss") == [(1000, 90.5)]
    assert points(got, "valid/loss") == [(1000, 75.5)]
    assert got.facts.framework == "espnet"


def test_bar_of_kohya_holds_every_step() -> None:
    states = "".join(
        f"\rsteps:   {i}%|▏         | {i}/1600 [00:0{i}<37:39,  1.43s/it, avr_loss=0.{9 - i}]"
        for i in range(1, 6)
    )
    got = console(
        f"steps:   0%|          | 0/1600 [00:00<?, ?it/s]\nepoch 1/10\n{states}\nepoch 2/10\n"
        "steps:   6%|▏         | 6/1600 [00:06<37:39,  1.43s/it, avr_loss=0.3]\n"
    )
    assert points(got, "avr_loss") == [(1, 0.8), (2, 0.7), (3, 0.6), (4, 0.5), (5, 0.4), (6, 0.3)]
    assert lines(got, "avr_loss") == [3, 3, 3, 3, 3, 5]
    assert (got.facts.framework, got.facts.max_steps) == ("kohya", 1600)


def test_bar_of_lightning_repeats_the_last_validation() -> None:
    bar = "\rEpoch {}: {:3d}%|{}   | {}/2 [00:00<00:00, 90.00it/s, v_num=0, train_loss={}{}]"
    got = console(
        bar.format(0, 50, "█", 1, 0.9, "")
        + bar.format(0, 100, "██", 2, 0.8, "")
        + bar.format(0, 100, "██", 2, 0.8, ", val_loss=0.6")
        + bar.format(1, 50, "█", 1, 0.7, ", val_loss=0.6")
        + bar.format(1, 100, "██", 2, 0.6, ", val_loss=0.6")
        + bar.format(1, 100, "██", 2, 0.6, ", val_loss=0.5")
        + "\n"
    )
    assert points(got, "train_loss") == [(1, 0.9), (2, 0.8), (3, 0.7), (4, 0.6)]
    assert points(got, "val_loss") == [(2, 0.6), (4, 0.5)]
    assert (got.facts.framework, got.facts.steps_per_epoch) == ("lightning", 2)


FLAIR = """\
2019-06-11 10:33:45,607 epoch 1 - iter 0/6 - loss 2.35947251
2019-06-11 10:33:45,607 epoch 1 - iter 3/6 - loss 2.25947251
2019-06-11 10:33:45,607 EPOCH 1 done: loss 2.2 - lr 0.1000
2019-06-11 10:33:45,607 DEV : loss 2.1 - f1-score (micro avg) 0.51
2019-06-11 10:33:45,607 epoch 2 - iter 0/6 - loss 2.05947251
2019-06-11 10:33:45,607 epoch 2 - iter 3/6 - loss 1.95947251
2019-06-11 10:33:45,607 EPOCH 2 done: loss 2.0 - lr 0.1000
2019-06-11 10:33:45,607 DEV : loss 1.9 - f1-score (micro avg) 0.61
MICRO_AVG: acc 0.3529 - f1-score 0.5217
AI         tp: 7 - fp: 3 - fn: 2 - tn: 11 - precision: 0.7000 - accuracy: 0.5833
nan        tp: 5 - fp: 3 - fn: 1 - tn: 14 - precision: 0.6250 - accuracy: 0.5556
cloud      tp: 5 - fp: 3 - fn: 1 - tn: 14 - precision: 0.6250 - accuracy: 0.5556
"""


def test_flair_may_call_a_class_nan() -> None:
    got = console(FLAIR)
    assert points(got, "loss") == [
        (0, 2.35947251), (3, 2.25947251), (6, 2.05947251), (9, 1.95947251)
    ]  # fmt: skip
    assert points(got, "epoch/loss") == [(3, 2.2), (9, 2.0)]
    assert points(got, "DEV/loss") == [(3, 2.1), (9, 1.9)]
    assert classify("DEV/loss").split is Split.EVAL
    assert points(got, "DEV/f1-score") == [(3, 0.51), (9, 0.61)]
    assert not {"precision", "accuracy", "f1-score", "acc"} & set(got.tags)
    assert not any(isnan(v) for column in got.columns for v in column.values.tolist())
    assert (got.facts.framework, got.facts.max_steps) == ("flair", None)


def test_lines_without_an_epoch_belong_to_the_one_before_them() -> None:
    got = console(
        "".join(
            f"Epoch {i}/24\n----------\n"
            f"train Loss: 0.{9 - i} Acc: 0.{7 + i}\nval Loss: 0.{8 - i} Acc: 0.{6 + i}\n\n"
            for i in range(3)
        )
        + "Training complete in 1m 7s\nBest val Acc: 0.800000\n"
    )
    assert points(got, "train Loss") == [(0, 0.9), (1, 0.8), (2, 0.7)]
    assert points(got, "Acc") == [(0, 0.7), (1, 0.8), (2, 0.9)]
    assert points(got, "val Loss") == [(0, 0.8), (1, 0.7), (2, 0.6)]
    assert points(got, "val/Acc") == [(0, 0.6), (1, 0.7), (2, 0.8)]
    assert got["val Loss"].axis is Axis.EPOCH
    assert (got.facts.framework, got.facts.max_epochs) == ("text (inferred)", 24)


def test_mnist_example_of_pytorch() -> None:
    got = console(
        "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.300000\n"
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.200000\n\n"
        "Test set: Average loss: 0.0511, Accuracy: 9837/10000 (98%)\n\n"
        "Train Epoch: 2 [0/60000 (0%)]\tLoss: 0.300000\n"
        "Train Epoch: 2 [640/60000 (1%)]\tLoss: 0.200000\n\n"
        "Test set: Average loss: 0.0411, Accuracy: 9850/10000 (98%)\n"
    )
    assert points(got, "Loss") == [(0, 2.3), (640, 2.2), (60000, 0.3), (60640, 0.2)]
    assert points(got, "Test/Average loss") == [(640, 0.0511), (60640, 0.0411)]
    assert got.values("Test/Accuracy") == [0.9837, 0.985]


def test_first_tutorial_of_pytorch() -> None:
    got = console(
        "[1,  2000] loss: 2.153\n[1,  4000] loss: 1.853\n[2,  2000] loss: 1.553\nFinished\n"
    )
    assert points(got, "loss") == [(2000, 2.153), (4000, 1.853), (6000, 1.553)]


def test_torchvision() -> None:
    got = console(
        "Epoch: [0]  [  0/100]  eta: 0:12:33  lr: 0.1  img/s: 100.5  loss: 6.9 (6.9)  time: 0.5\n"
        "Epoch: [0]  [ 10/100]  eta: 0:12:33  lr: 0.1  img/s: 100.5  loss: 6.8 (6.85)  time: 0.5\n"
        "Test:  [ 0/50]  eta: 0:00:10  loss: 6.5 (6.5)  acc1: 1.0 (1.0)\n"
        "Test:  Acc@1 2.000 Acc@5 7.000\n"
        "Epoch: [1]  [  0/100]  eta: 0:12:33  lr: 0.1  img/s: 100.5  loss: 6.7 (6.7)  time: 0.5\n"
        "Test:  Acc@1 3.000 Acc@5 8.000\n"
    )
    assert points(got, "loss") == [(0, 6.9), (10, 6.8), (100, 6.7)]
    assert points(got, "Test/Acc@1") == [(10, 2.0), (100, 3.0)]
    assert "Test/loss" not in got.tags


def test_timm() -> None:
    train = "Train: {} [{:>4d}/1251 ({:>3d}%)]  Loss: {} (6.90)  Time: 0.5s,  72.2/s  LR: 1.0e-06\n"
    test = "Test: [{:>4d}/195]  Time: 0.1 (0.2)  Loss:  {} (5.5)  Acc@1:  {} ( {})\n"
    got = console(
        train.format(0, 0, 0, 6.9)
        + train.format(0, 50, 4, 6.8)
        + test.format(50, 9.0, 9.0, 9.0)
        + test.format(195, 6.0, 12.5, 10.25)
        + train.format(1, 0, 0, 6.7)
        + test.format(195, 5.0, 22.5, 20.25)
    )
    assert points(got, "Loss") == [(0, 6.9), (50, 6.8), (1251, 6.7)]
    assert points(got, "Test/Acc@1") == [(1251, 10.25), (2502, 20.25)]
    assert got.values("Test/Loss") == [5.5, 5.5]


def test_yolox() -> None:
    line = (
        "2021-08-05 10:00:00 | INFO     | yolox.core.trainer:266 - epoch: {}/300, iter: {}/400,"
        " mem: 5000Mb, iter_time: 0.326s, data_time: 0.001s, total_loss: {}, iou_loss: 4.6,"
        " lr: 6.2e-09, size: 640, ETA: 1 day, 2:00:00\n"
    )
    got = console(line.format(1, 10, 15.2) + line.format(1, 20, 14.2) + line.format(2, 10, 13.2))
    assert points(got, "total_loss") == [(10, 15.2), (20, 14.2), (410, 13.2)]
    assert (got.facts.max_epochs, got.facts.steps_per_epoch) == (300, 400)
    assert got.facts.max_steps is None


def test_estimator_of_tensorflow() -> None:
    got = console(
        "INFO:tensorflow:loss = 2.3, step = 1\n"
        "INFO:tensorflow:global_step/sec: 100.5\n"
        "INFO:tensorflow:loss = 1.3, step = 101 (0.995 sec)\n"
    )
    assert points(got, "loss") == [(1, 2.3), (101, 1.3)]


def test_brackets_around_everything() -> None:
    got = console(
        "[Epoch 0/200] [Batch 0/938] [D loss: 0.691] [G loss: 0.712]\n"
        "[Epoch 0/200] [Batch 1/938] [D loss: 0.591] [G loss: 0.812]\n"
        "[Epoch 1/200] [Batch 0/938] [D loss: 0.491] [G loss: 0.912]\n"
    )
    assert points(got, "D loss") == [(0, 0.691), (1, 0.591), (938, 0.491)]
    assert got.facts.max_epochs == 200


def test_home_made_lines() -> None:
    got = console(
        "Epoch: 1 | Train Loss: 0.900 | Train Acc: 60.5% | Val. Loss: 0.800 | Val. Acc: 65.00%\n"
        "Epoch: 2 | Train Loss: 0.700 | Train Acc: 70.5% | Val. Loss: 0.600 | Val. Acc: 75.00%\n"
        "Epoch: 3 | Train Loss: 0.500 | Train Acc: 80.5% | Val. Loss: 0.550 | Val. Acc: 78.00%\n"
    )
    assert points(got, "Train Loss") == [(1, 0.9), (2, 0.7), (3, 0.5)]
    assert points(got, "Val. Acc") == [(1, 65.0), (2, 75.0), (3, 78.0)]
    assert got.facts.framework == "text (inferred)"


def test_detection_metrics_with_a_range_in_their_name() -> None:
    got = console(
        "epoch 1 mAP@0.5: 0.5 mAP@0.5:0.95: 0.3\nepoch 2 mAP@0.5: 0.6 mAP@0.5:0.95: 0.4\n"
    )
    assert points(got, "mAP@0.5") == [(1, 0.5), (2, 0.6)]
    assert points(got, "mAP@0.5:0.95") == [(1, 0.3), (2, 0.4)]


def test_a_tag_that_the_caller_named() -> None:
    text = b"step 1 crit: 0.5\nstep 2 crit: 0.4\nstep 3 crit: 0.3\n"
    assert not read(ConsoleText(), "a.log", text).columns
    got = read(ConsoleText(), "a.log", text, Options((("loss", "crit"),)))
    assert points(got, "crit") == [(1, 0.5), (2, 0.4), (3, 0.3)]


# --- encodings and ends ----------------------------------------------------------------------

TUNE = "".join(f"Step {i} | loss:{3 - i / 10:.4f} lr:2e-05 grad_norm:0.5\n" for i in range(1, 9))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16", "utf-8-sig"])
def test_encodings(encoding: str) -> None:
    data = TUNE.encode(encoding)
    assert ConsoleText().claims("a.log", data[:HEAD])
    assert points(read(ConsoleText(), "a.log", data), "loss")[:2] == [(1, 2.9), (2, 2.8)]


@pytest.mark.parametrize("end", ["\r\n", "\r\r\n", "\r"])
def test_line_ends(end: str) -> None:
    got = read(ConsoleText(), "a.log", TUNE.replace("\n", end).encode())
    assert lines(got, "loss") == [1, 2, 3, 4, 5, 6, 7, 8]


def test_nul_bytes_are_told_and_left_out() -> None:
    got = read(ConsoleText(), "a.log", TUNE.encode() + b"\0" * 100 + TUNE.encode())
    assert len(got["loss"]) == 16
    assert got.codes == [(FaultCode.CORRUPT, False)]


def test_a_last_line_without_newline_is_whole_when_its_last_number_is_as_long_as_before() -> None:
    whole = "".join(f"step {i} lr:0.01 loss:{3 - i / 10:.4f}\n" for i in range(4))
    got = read(ConsoleText(), "a.log", (whole + "step 4 lr:0.01 loss:2.6000").encode())
    assert (len(got["loss"]), got.codes) == (5, [])
    cut = read(ConsoleText(), "a.log", (whole + "step 4 lr:0.01 loss:2.60").encode())
    assert (len(cut["loss"]), cut.codes) == (4, [(FaultCode.TRUNCATED, False)])


# --- what is no log ----------------------------------------------------------------------------


def content(text: str, path: str = "train.log") -> Content | None:
    return read(ConsoleText(), path, text.encode()).content


CRASH = """\
loading tokenizer for the model
Traceback (most recent call last):
  File "train.py", line 62, in <module>
    tokenizer = build()
RuntimeError: CUDA error: out of memory
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 1
"""


def test_crash_before_the_first_record() -> None:
    data = CRASH.encode()
    assert ConsoleText().claims("last_logs.txt", data[:HEAD])
    artifact = Artifact("root", "last_logs.txt", len(data), Kind.LOG, "text")
    assert list(ConsoleText().read(artifact, io.BytesIO(data), Options())) == [
        NotJudgeable(
            Content.HEADER_ONLY,
            "crashed before the first record (line 2: RuntimeError: CUDA error: out of memory)",
        )
    ]


def test_a_training_that_raised_at_its_end_did_not_finish() -> None:
    steps = "".join(f"step {i} loss {3 / i}\n" for i in range(1, 4))
    error = "Traceback (most recent call last):\n  ...\ntorch.cuda.OutOfMemoryError: 2 GiB\n"
    assert read(ConsoleText(), "t.log", (steps + error).encode()).facts.finished is False
    resumed = steps + error + steps
    assert read(ConsoleText(), "t.log", resumed.encode()).facts.finished is None


def test_a_table_with_tabs_keeps_its_names() -> None:
    table = "epoch\tloss\tval_loss\n" + "".join(f"{i}\t{3 / i}\t{4 / i}\n" for i in range(1, 9))
    assert not ConsoleText().claims("log.tsv", table.encode())
    assert ConsoleText().claims("train.csv", b"step 1 loss 0.5\nstep 2 loss 0.4\nstep 3 loss 0.3\n")


def test_one_record_is_no_series() -> None:
    assert content("step 1 loss 0.5\n") is Content.SUMMARY_ONLY


def test_a_training_that_printed_nothing_yet() -> None:
    text = "torch 2.1, cuda 12\noptimizer AdamW, batch_size 8, epochs 3\nloading tokenizer\n"
    assert content(text) is Content.HEADER_ONLY
    assert content(text, "notes.txt") is Content.NOT_A_LOG


@pytest.mark.parametrize(
    "text",
    [
        "",
        "In our experiments at step 100 the loss is 3.2; later accuracy rose to 0.9.\n",
        "import torch\nlr = 0.1\nepoch = 0\nloss = 3.0\nstep = 100\nbest_loss = 1.0\nepochs = 9\n",
        "Namespace(epochs=100, lr=0.1, batch_size=32, loss=0.5)\n" * 5,
        "{'epochs': 100, 'batch_size': 32, 'lr': 0.1, 'loss_weight': 0.5}\n" * 5,
        '10.0.0.1 - - [10/Oct/2023:13:55:36] "GET /epoch/3?loss=0.5 HTTP/1.1" 200 2326\n' * 5,
        "class a precision: 0.5 recall: 0.4\nclass b precision: 0.4 recall: 0.3\n" * 5,
        "(image: 2269_fake_B,  loss_percentage : 29.64% ) \n"
        "(image: 2270_fake_B,  loss_percentage : 15.03% ) \n" * 5,
    ],
    ids=["empty", "prose", "source", "settings", "settings dict", "web", "table", "images"],
)
def test_not_a_log(text: str) -> None:
    got = read(ConsoleText(), "notes.txt", text.encode())
    assert (got.columns, got.content) == ((), Content.NOT_A_LOG)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("labels/0001.txt", "0 0.5 0.5 0.1 0.1\n1 0.4 0.4 0.2 0.2\n"),
        ("Makefile", "all:\n\tgcc -O2 a.c\n"),
        ("LICENSE", "Permission is hereby granted, free of charge, to any person\n"),
        ("training.log", "epoch,loss,val_loss\n0,0.5,0.6\n1,0.4,0.5\n"),
        ("a.log", '{"a": 1}\n'),
        ("a.out", "\x7fELF" + "\x01\x02\x03" * 500),
    ],
)
def test_not_claimed(path: str, text: str) -> None:
    assert not ConsoleText().claims(path, text.encode()[:HEAD])


def test_nan_alone_is_read_as_one() -> None:
    got = console("step 1 loss nan\nstep 2 loss -inf\nstep 3 loss NaN\n")
    assert [str(v) for v in got.values("loss")] == [str(nan), str(-inf), str(nan)]


def test_a_line_that_looks_like_many_without_meaning_may_differ_in_a_letter_only() -> None:
    noise = "".join(f"worker {i} read shard {i} of 90\n" for i in range(50))
    got = console(f"{noise}step 7 loss 0.5\n{noise}step 8 loss nan\n{noise}step 9 loss 0.25\n")
    assert repr(points(got, "loss")) == "[(7, 0.5), (8, nan), (9, 0.25)]"
    assert lines(got, "loss") == [51, 102, 153]


def test_a_traceback_that_was_seen_before_is_a_crash_again() -> None:
    text = "cuda epoch optimizer checkpoint\n" + "Traceback (most recent call last):\n" * 3
    got = read(ConsoleText(), "a.log", (text + "RuntimeError: gone\n").encode())
    assert got.content is Content.HEADER_ONLY
