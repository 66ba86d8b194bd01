"""Tables that trainings draw on the console."""

from __future__ import annotations

import pytest

from trainproof.readers.console import ConsoleText
from trainproof.readers.console.tables import MAX_ROWS, Tables
from trainproof.readers.interface import HEAD

from .readings import Readout, read, survives


def readout(text: str, path: str = "output.log") -> Readout:
    data = text.encode()
    assert ConsoleText().claims(path, data[:HEAD])
    return read(ConsoleText(), path, data)


def box(*rows: str, width: int = 40) -> str:
    rule = "-" * width
    return "\n".join([rule, *rows, rule, ""])


FIRST = box(
    "| rollout/           |          |",
    "|    ep_len_mean     | 22.7     |",
    "|    ep_rew_mean     | 21.5     |",
    "| time/              |          |",
    "|    iterations      | 1        |",
    "|    total_timesteps | 2048     |",
)
SECOND = box(
    "| rollout/                |              |",
    "|    ep_rew_mean          | 26.4         |",
    "| time/                   |              |",
    "|    iterations           | 2            |",
    "|    total_timesteps      | 4096         |",
    "| train/                  |              |",
    "|    learning_rate        | 0.0003       |",
    "|    loss                 | 5.98e-05     |",
    "|    value_loss           | nan          |",
)


def test_boxes_of_stable_baselines() -> None:
    got = readout(f"Using cpu device\n{FIRST}{SECOND}")
    assert got.facts.framework == "stable-baselines3"
    assert got.steps("rollout/ep_rew_mean") == [2048, 4096]
    assert got.values("rollout/ep_rew_mean") == [21.5, 26.4]
    assert got.values("rollout/ep_len_mean") == [22.7]
    assert got.steps("train/loss") == [4096]
    assert got.values("train/loss") == [5.98e-05]
    assert str(got.values("train/value_loss")) == "[nan]"


def test_boxes_among_other_lines() -> None:
    torn = SECOND.replace("| time/  ", "a warning\n| time/  ")
    got = readout(f"{FIRST}Eval num_timesteps=3000, episode_reward=99.00 +/- 1.00\n{torn}")
    assert got.steps("rollout/ep_rew_mean") == [2048, 4096]
    assert got.values("train/learning_rate") == [0.0003]


def test_a_box_that_does_not_end_is_not_reported() -> None:
    got = readout(FIRST + SECOND + FIRST.replace("2048", "6144")[:-60])
    assert got.steps("rollout/ep_rew_mean") == [2048, 4096]


def test_a_box_of_an_epoch_without_sections() -> None:
    rows = ("|             Epoch |               {} |", "|            LossPi |         -0.016{} |")
    got = readout("".join(box(*(row.format(i) for row in rows)) for i in range(3)))
    assert got.values("LossPi") == [-0.016, -0.0161, -0.0162]
    assert got.steps("LossPi") == [0, 1, 2]


def test_rules_without_a_box_are_no_tables() -> None:
    text = "----------\nepoch 1 loss 0.5\n----------\nepoch 2 loss 0.4\n----------\n"
    assert readout(text).values("loss") == [0.5, 0.4]


def test_a_box_is_bounded() -> None:
    tables = Tables()
    tables.line("-" * 20)
    kept = sum(tables.line(f"| name{i} | {i} |") == "" for i in range(2 * MAX_ROWS))
    assert kept == MAX_ROWS


YOLO5 = (
    "     Epoch   gpu_mem       box       obj       cls     total    labels  img_size\n"
    "  0%|          | 0/39 [00:00<?, ?it/s]\n"
    "      {at}/19    0.514G   0.{a}743  0.005827         0   0.{a}326        15       640:"
    "  50%|#####     | 20/39 [01:50<00:00,  2.82s/it]\r"
    "      {at}/19    0.514G   0.{b}743  0.005827         0   0.{b}326        15       640:"
    " 100%|##########| 39/39 [01:50<00:00,  2.82s/it]\n"
    "               Class      Images      Labels           P           R      mAP@.5  mAP@.5:.95:"
    " 100%|##########| 20/20 [00:26<00:01,  1.02s/it]\n"
    "                 all        623        623      0.957      0.{a}5      0.977       0.863\n"
)


def test_epochs_of_yolov5() -> None:
    got = readout("".join(YOLO5.format(at=i, a=9 - i, b=8 - i) for i in range(3)))
    assert got.facts.framework == "yolo"
    assert got.facts.max_epochs == 19
    assert got.steps("train/box_loss") == [0, 1, 2]
    assert got.values("train/box_loss") == [0.8743, 0.7743, 0.6743]
    assert got.values("train/loss") == [0.8326, 0.7326, 0.6326]
    assert got.values("train/cls_loss") == [0.0, 0.0, 0.0]
    assert got.values("metrics/recall") == [0.95, 0.85, 0.75]
    assert got.values("metrics/mAP@0.5:0.95") == [0.863, 0.863, 0.863]
    assert got.steps("metrics/mAP@0.5:0.95") == [0, 1, 2]


YOLO8 = (
    "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
    "        {at}/3         0G      1.{a}04      2.315      1.101         13        640:"
    " 100% \u2501\u2501\u2501\u2501 4/4 2.6it/s 1.5s\n"
    "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95)"
    "     Mask(P          R      mAP50  mAP50-95): 100%|####| 2/2 [00:01<00:00,  2.0it/s]\n"
    "                   all        128        929       0.64      0.537      0.{a}05      0.446"
    "       0.54      0.437      0.505      0.346\n"
    "                person        128         29       0.99      0.957      0.925      0.966"
    "       0.99      0.957      0.925      0.966\n"
)


def test_epochs_of_ultralytics() -> None:
    got = readout("".join(YOLO8.format(at=i, a=i) for i in (1, 2, 3)))
    assert got.values("train/box_loss") == [1.104, 1.204, 1.304]
    assert got.values("train/dfl_loss") == [1.101] * 3
    assert got.steps("train/box_loss") == [1, 2, 3]
    assert got.values("metrics/mAP50") == [0.105, 0.205, 0.305]


def test_an_epoch_that_was_cut_is_not_reported() -> None:
    begun = YOLO5.format(at=2, a=5, b=4).partition("\r")[0]
    got = readout("".join(YOLO5.format(at=i, a=9 - i, b=8 - i) for i in range(2)) + begun)
    assert got.steps("train/box_loss") == [0, 1]


FASTAI = """\
epoch     train_loss  valid_loss  accuracy  time
0         0.494       0.345       0.83      00:12
1         0.394       0.245       0.85      00:12
2         0.294       nan         0.87      00:12
"""
SKORCH = """\
  epoch    train_loss    valid_acc    valid_loss     dur
-------  ------------  -----------  ------------  ------
      1        0.6905       0.6150        0.6749  0.1234
      2        0.6648       0.6450        0.6549  0.1234
"""


def test_a_table_with_its_names_above() -> None:
    got = readout(FASTAI)
    assert got.values("train_loss") == [0.494, 0.394, 0.294]
    assert str(got.values("valid_loss")) == "[0.345, 0.245, nan]"
    assert got.steps("accuracy") == [0, 1, 2]
    assert "time" not in got.tags
    got = readout(SKORCH)
    assert got.values("valid_loss") == [0.6749, 0.6549]
    assert got.steps("train_loss") == [1, 2]


def test_rows_with_other_numbers_of_cells_are_left_alone() -> None:
    got = readout(FASTAI + "3 0.1 0.2\n4 0.1 0.2 0.3 0.4 0.5 0.6\n")
    assert got.steps("train_loss") == [0, 1, 2]


@pytest.mark.parametrize("text", [FIRST + SECOND, YOLO5 * 2, YOLO8 * 2, FASTAI, SKORCH])
def test_whatever_happened_to_the_file(text: str) -> None:
    survives(ConsoleText(), "output.log", text.encode())


def test_rows_that_look_like_lines_that_meant_nothing_before() -> None:
    """Lines that report nothing are remembered by how they look, until names come up."""
    rows = FASTAI.splitlines(keepends=True)
    before = "".join(f"{line[:-1]}\n" for line in rows[1:]) * 3
    assert readout(before + FASTAI).values("train_loss") == [0.494, 0.394, 0.294]
    other = FASTAI.replace("train_loss", "train_cost").replace("valid_loss", "eval_loss ")
    got = readout(FASTAI + before.replace("00:12", "done now") + other)
    assert got.values("train_cost") == [0.494, 0.394, 0.294]
    assert got.values("train_loss") == [0.494, 0.394, 0.294]


def test_a_box_whose_rows_were_seen_before_outside_of_one() -> None:
    inside = "\n".join(FIRST.splitlines()[1:-1]) + "\n"
    got = readout(f"{inside}a line between\n{FIRST}{SECOND}")
    assert got.values("rollout/ep_rew_mean") == [21.5, 26.4]


@pytest.mark.parametrize(
    ("head", "row"),
    [
        (("| epoch | train_loss | val_loss |", "|---|:---:|---|"), "| {} | {} | {} |"),
        (("epoch | train_loss | val_loss", "------|------------|---------"), "{:5} | {:8} | {}"),
        (
            ("+-------+------------+----------+", "| Epoch | train_loss | val_loss |"),
            "| {:5} | {:10} | {:8} |",
        ),
        (("┃ Step ┃ train_loss ┃ val_loss ┃",), "│ {} │ {} │ {} │"),
    ],
    ids=["markdown", "bare", "grid", "rich"],
)
def test_tables_with_bars_between_their_cells(head: tuple[str, ...], row: str) -> None:
    rows = [row.format(i, 2.5 - i / 10, 2.75 - i / 10) for i in range(6)]
    got = readout("\n".join(["loading", *head, *rows, ""]))
    assert got.values("train_loss") == [2.5 - i / 10 for i in range(6)]
    assert got.values("val_loss") == [2.75 - i / 10 for i in range(6)]
    assert got.steps("val_loss") == [0, 1, 2, 3, 4, 5]
