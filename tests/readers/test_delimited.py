"""Tables of Keras, Lightning, Ultralytics, Stable-Baselines, DVCLive, Coati and others."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, FaultCode
from trainproof.readers.delimited import ENOUGH, Delimited
from trainproof.readers.interface import HEAD, Options

from .readings import Readout, read, survives


def got(text: str | bytes, path: str = "metrics.csv", options: Options | None = None) -> Readout:
    data = text if isinstance(text, bytes) else text.encode()
    assert Delimited().claims(path, data[:HEAD])
    return read(Delimited(), path, data, options)


def line_numbers(out: Readout, tag: str) -> list[int]:
    found = out[tag].lines
    assert found is not None
    numbers: list[int] = found.tolist()
    return numbers


KERAS = "epoch,accuracy,loss,val_accuracy,val_loss\n0,0.5,2.0,0.5,2.5\n1,0.75,nan,0.5,inf\n"


def test_the_logger_of_keras_counts_epochs() -> None:
    out = got(KERAS, "training.log")
    assert (out["loss"].axis, out.steps("loss")) == (Axis.EPOCH, [0, 1])
    assert [repr(v) for v in out.values("loss")] == ["2.0", "nan"]
    assert out.values("val_loss") == [2.5, math.inf]
    assert line_numbers(out, "val_loss") == [2, 3]


def test_a_table_without_epochs_is_counted_by_row() -> None:
    out = got("val_loss,val_accuracy,loss,accuracy\r\n1.0,0.5,2.0,0.5\r\n0.5,0.75,1.0,0.75\r\n")
    assert (out["loss"].axis, out.steps("loss")) == (Axis.INDEX, [0, 1])
    assert out.values("accuracy") == [0.5, 0.75]


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + KERAS.encode(),
        b"\xff\xfe" + KERAS.encode("utf-16-le"),
        KERAS.replace("\n", "\r\r\n").encode(),
        KERAS.replace("\n", "\r").encode(),
        KERAS.replace(",", ";").encode(),
        KERAS.replace(",", "\t").encode(),
        KERAS.replace(",", ",  ").encode(),
        KERAS.replace("\n", ",\n").encode(),
        KERAS.rstrip().encode(),
        KERAS.replace("\n", "\n\n").encode(),
        b"# made by hand\n" + KERAS.encode(),
        KERAS.replace("2.0", '"2.0"').encode(),
    ],
    ids=str.split(
        "bom utf16 crcrlf cr semicolon tab padded trailing no-newline blank comment quoted"
    ),
)
def test_spellings_of_one_table_read_alike(data: bytes) -> None:
    out, usual = got(data, "log.csv"), got(KERAS)
    assert out.tags == usual.tags
    for tag in usual.tags:
        assert repr(out.values(tag)) == repr(usual.values(tag))
        assert out.steps(tag) == usual.steps(tag)
    assert out.faults == ()


def test_the_logger_of_lightning_leaves_cells_empty() -> None:
    text = (
        "epoch,lr-Adam,step,train_loss,val_loss\n"
        ",0.001,0,,\n0,,49,2.0,\n0,,99,,1.5\n,0.001,100,,\n1,,149,nan,\n1,,199,,1.25\n"
    )
    out = got(text)
    assert (out.steps("train_loss"), out.steps("val_loss")) == ([49, 149], [99, 199])
    assert (out.steps("lr-Adam"), out.values("lr-Adam")) == ([0, 100], [0.001, 0.001])
    assert out.values("train_loss")[0] == 2.0 and math.isnan(out.values("train_loss")[1])
    assert (line_numbers(out, "val_loss"), line_numbers(out, "lr-Adam")) == ([4, 7], [2, 5])


def test_ultralytics_pads_its_cells() -> None:
    names = ("epoch", "train/box_loss", "metrics/mAP50-95(B)", "val/box_loss", "lr/pg0")
    rows = [("1", "2.7979", "0.00471", "nan", "4e-05"), ("2", "2.5625", "0.008", "2.4", "9e-05")]
    text = "\n".join(",".join(cell.rjust(23) for cell in row) for row in (names, *rows)) + "\n"
    out = got(text, "runs/detect/train/results.csv")
    assert out.tags == list(names)
    assert out.steps("train/box_loss") == [1, 2]
    assert out.values("metrics/mAP50-95(B)") == [0.00471, 0.008]
    assert math.isnan(out.values("val/box_loss")[0])
    assert out.facts.framework == "ultralytics"


def test_stable_baselines_counts_timesteps() -> None:
    text = (
        "time/total_timesteps,rollout/ep_rew_mean,time/iterations,train/loss,train/n_updates\n"
        "2048,1.5,1,,\n4096,2.5,2,0.5,10\n"
    )
    out = got(text, "progress.csv")
    assert out.steps("rollout/ep_rew_mean") == [2048, 4096]
    assert out.steps("train/loss") == [4096]
    assert out.facts.framework == "stable-baselines3"


TENSORBOARD = "Wall time,Step,Value\n1.7e9,0,2.0\n1.7e9,10,1.5\n"


@pytest.mark.parametrize(
    ("path", "text", "tag"),
    [
        ("run-1-tag-train_loss.csv", TENSORBOARD, "train_loss"),
        ("a/val_loss.csv", "step,value\n0,2.0\n10,1.5\n", "val_loss"),
        ("a/run-1.csv", TENSORBOARD, "Value"),
    ],
)
def test_a_table_of_the_values_of_one_quantity_is_named_after_it(
    path: str, text: str, tag: str
) -> None:
    """TensorBoard exports such tables."""
    out = got(text, path)
    assert (out.steps(tag), out.values(tag)) == ([0, 10], [2.0, 1.5])


def test_a_table_of_values_without_steps_is_of_no_training() -> None:
    assert "error" not in read(Delimited(), "error.csv", b"time,value\n1,2.0\n2,1.5\n").tags


def test_dvclive_puts_the_name_of_a_metric_in_the_path() -> None:
    out = got("step\tloss\n0\t6.2\n1\t6.1\n", "dvclive/plots/metrics/eval/loss.tsv")
    assert out.tags == ["step", "eval/loss"]
    assert got("step\tloss\n0\t6.2\n", "dvclive/plots/metrics/loss.tsv").tags == ["step", "loss"]
    assert got("step\tloss\n0\t6.2\n", "plots/x/loss.tsv").tags == ["step", "loss"]


def test_coati_writes_no_header() -> None:
    out = got("99,0.5,0.25,0.75\n199,0.25,0.5,1.0\n99,0.125,0.5,1.0\n", "log_2023-04-21 11:33.csv")
    assert out.tags == ["step", "loss", "dist", "acc"]
    assert out.steps("loss") == [99, 199, 99]
    assert line_numbers(out, "loss") == [1, 2, 3]
    assert got("100,,,0.0\n", "log.csv").content is Content.HEADER_ONLY
    assert got("1,2,3,4\n5,6,7,8\n", "points.csv").content is Content.NOT_A_LOG


def test_iterations_that_begin_anew_in_each_epoch_are_counted_on() -> None:
    out = got("epoch,iter,loss\n" + "".join(f"{e},{i},1.0\n" for e in (1, 2, 3) for i in (50, 100)))
    assert out.steps("loss") == [50, 100, 150, 200, 250, 300]
    zero = got("epoch,batch,loss\n" + "".join(f"{e},{i},1.0\n" for e in (0, 1) for i in (0, 1)))
    assert zero.steps("loss") == [0, 1, 2, 3]


def test_a_second_start_is_not_taken_for_another_epoch() -> None:
    out = got("epoch,step,loss\n0,10,2.0\n1,20,1.0\n0,10,2.0\n1,20,1.0\n")
    assert out.steps("loss") == [10, 20, 10, 20]


def test_a_repeated_header_may_bring_other_columns() -> None:
    out = got("step,loss\n1,2.0\n2,1.0\nstep,loss,lr\n1,1.5,0.1\n")
    assert out.steps("loss") == [1, 2, 1]
    assert (out.steps("lr"), line_numbers(out, "lr")) == ([1], [5])
    assert out.faults == ()


def test_a_row_that_is_not_whole_is_a_fault() -> None:
    out = got("step,loss,lr\n1,2.0,0.1\n2,1.0\n3,0.5,0.1,7\n4,0.25,0.1\n")
    assert out.steps("loss") == [1, 4]
    assert [(f.code, f.line, f.fatal) for f in out.faults] == [
        (FaultCode.CORRUPT, 3, False),
        (FaultCode.CORRUPT, 4, False),
    ]
    assert out.faults[0].detail == "2 cells where the header has 3"


def test_a_cut_last_row_is_told_apart() -> None:
    out = got("step,loss,lr\n1,2.0,0.1\n2,1.")
    assert out.steps("loss") == [1]
    assert [(f.code, f.line) for f in out.faults] == [(FaultCode.TRUNCATED, 3)]


def test_absent_cells_and_cells_that_are_not_a_number() -> None:
    out = got("step,loss,val_loss,note\n1,NaN,NA,[1 2]\n2,-inf,,ok\n3,+1,.5,\n4,1e2,null,1_0\n")
    assert [repr(v) for v in out.values("loss")] == ["nan", "-inf", "1.0", "100.0"]
    assert (out.steps("val_loss"), out.values("val_loss")) == ([3], [0.5])
    assert "note" not in out.tags


def test_decimal_commas() -> None:
    out = got("step;loss;lr\n1;2,5;0,1\n2;1,25;0.1\n")
    assert (out.values("loss"), out.values("lr")) == ([2.5, 1.25], [0.1, 0.1])


def test_quoted_cells_may_hold_delimiters_and_newlines() -> None:
    out = got('step,text,loss\n1,"a, b",2.0\n2,"c\nd",1.0\n3,"e",0.5\n')
    assert out.values("loss") == [2.0, 1.0, 0.5]
    assert line_numbers(out, "loss") == [2, 3, 5]


def test_a_lone_quote_costs_one_row() -> None:
    text = "step,text,loss\n" + "".join(f"{i},x,1.0\n" for i in range(1, 50))
    out = got(text.replace("10,x", '10,"x'))
    assert out.steps("loss") == [i for i in range(1, 50) if i != 10]
    assert [(f.code, f.line) for f in out.faults] == [(FaultCode.CORRUPT, 11)]


def test_a_column_says_which_split_a_row_is_about() -> None:
    out = got("phase,epoch,loss\ntrain,1,2.0\nval,1,2.5\ntrain,2,1.0\nval,2,2.0\n")
    assert (out.values("loss"), out.steps("loss")) == ([2.0, 1.0], [1, 2])
    assert (out.values("val/loss"), out.steps("val/loss")) == ([2.5, 2.0], [1, 2])


def test_two_columns_of_one_name() -> None:
    out = got("step,loss,loss\n1,2.0,3.0\n")
    assert (out.values("loss"), out.values("loss (2)")) == ([2.0], [3.0])


def test_a_header_alone_is_a_header() -> None:
    assert got("epoch,loss,val_loss\n").content is Content.HEADER_ONLY
    flair = "EPOCH\tTIMESTAMP\tBAD_EPOCHS\tLEARNING_RATE\tTRAIN_LOSS\tDEV_F1"
    assert got(flair, "loss.tsv").content is Content.HEADER_ONLY


@pytest.mark.parametrize(
    "text",
    [
        "name,age\nAda,36\n",
        "model,accuracy,f1\nbert,0.9,0.8\n",
        "id,val_bpb,memory_gb,status\nabc,1.1,44.0,keep\n",
        "iter\tPassed\tRemaining\n0\t4\t210\n1\t6\t162\n",
        "sepal,petal\n1.0,2.0\n",
    ],
    ids=["people", "benchmark", "experiments", "catboost-time", "flowers"],
)
def test_other_tables_are_no_log(text: str) -> None:
    delimiter = "tsv" if "\t" in text else "csv"
    assert got(text, f"table.{delimiter}").content is Content.NOT_A_LOG


def test_a_table_of_records_with_a_loss_is_no_log() -> None:
    assert got("model,loss\nbert,0.5\ngpt,0.25\n").content is Content.NOT_A_LOG


def test_a_large_table_that_is_no_log_is_not_read_to_its_end() -> None:
    rows = "".join(f"bert,{i}.5\n" for i in range(400_000))
    out = got("model,loss\n" + rows + "ragged\n")
    assert (out.content, out.faults) == (Content.NOT_A_LOG, ())
    assert ENOUGH < 400_000


def test_a_large_table_is_read_in_pieces() -> None:
    count = 200_000
    text = "step,loss,lr\n" + "".join(f"{i},{i}.5,0.001\n" for i in range(count))
    out = got(text)
    assert out.steps("loss") == list(range(count))
    assert out.values("loss")[-1] == count - 0.5
    assert line_numbers(out, "lr")[-1] == count + 1


def test_the_step_may_be_mapped() -> None:
    options = Options((("step", "tokens"),))
    assert got("step,tokens,loss\n1,100,2.0\n2,200,1.0\n", options=options).steps("loss") == [
        100,
        200,
    ]


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n\n",
        b"2019-06-11 10:33:40,495 Evaluation method\n2019-06-11 10:33:45,607 epoch 1 - loss 2.3\n",
        b"step: 1, loss: 2.0\nstep: 2, loss: 1.0\n",
        b"import os, sys\n",
        b"Dear all,\nplease find enclosed, as agreed, the report.\n",
        b"name,age\nAda,36\n",
        bytes(range(256)) * 16,
    ],
)
def test_other_texts_are_not_claimed(head: bytes) -> None:
    assert not Delimited().claims("notes.txt", head)


CELLS = st.sampled_from(["1", "2.5", "", "nan", "inf", "-inf", "1e5", "x", " 3 ", "-0.0", "007"])


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=30))
def test_reading_at_once_and_line_by_line_agree(rows: list[list[str]]) -> None:
    """A quoted cell forces the reading line by line."""
    lines = [",".join([str(i), *row]) for i, row in enumerate(rows)]
    plain = read(Delimited(), "a.csv", ("step,loss,lr,x\n" + "\n".join(lines) + "\n").encode())
    quoted = [line.replace(",", '",', 1) for line in lines]
    slow = read(Delimited(), "a.csv", ('step,loss,lr,x\n"' + '\n"'.join(quoted) + "\n").encode())
    assert [c.tag for c in plain.columns] == [c.tag for c in slow.columns]
    for one, other in zip(plain.columns, slow.columns, strict=True):
        assert repr(one.values.tolist()) == repr(other.values.tolist())
        assert one.steps.tolist() == other.steps.tolist()
        assert one.lines is not None and other.lines is not None
        assert one.lines.tolist() == other.lines.tolist()


def test_damage_never_raises() -> None:
    survives(Delimited(), "metrics.csv", KERAS.encode() * 3)
    survives(Delimited(), "x.tsv", b'step\tloss\ttext\n1\t\t"a\tb"\n2\t1.0\t"c\nd"\n' * 5)


def test_a_percentage_is_a_number() -> None:
    out = got("step,loss,acc\n" + "".join(f"{i},{3 / i},{50 + i}.5%\n" for i in range(1, 5)))
    assert out.values("acc") == [51.5, 52.5, 53.5, 54.5]
