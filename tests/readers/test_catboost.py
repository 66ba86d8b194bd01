"""CatBoost's training directory, as CatBoost wrote it, cut, and of another training."""

from __future__ import annotations

import pytest

from trainproof.assembly import Reading, assemble
from trainproof.model.artifact import Artifact, Content
from trainproof.model.data import Axis, Declared, Direction, Facts, FaultCode, Role, Split
from trainproof.readers.catboost import CatBoostDocument, CatBoostTable
from trainproof.readers.interface import Reader
from trainproof.readers.tfevents import TfEvents

from .readings import DATA, read, read_file, survives

ONE, TWO = "catboost/one", "catboost/two"


def data(name: str) -> bytes:
    return (DATA / name).read_bytes()


def test_the_objective_is_the_loss_whatever_it_is_called() -> None:
    got = read_file(CatBoostTable(), f"{ONE}/learn_error.tsv")
    rmse = got["RMSE"]
    assert rmse.declared == Declared(Role.LOSS, Split.TRAIN, Direction.LOWER)
    assert (rmse.axis, rmse.steps.tolist()) == (Axis.STEP, list(range(8)))
    first = [
        float(line.split("\t")[1])
        for line in data(f"{ONE}/learn_error.tsv").decode().split("\n")[1:-1]
    ]
    assert rmse.values.tolist() == first
    assert rmse.lines is not None and rmse.lines.tolist() == list(range(2, 10))
    assert got.facts == Facts(framework="catboost")


def test_what_catboost_calls_the_test_set_is_the_evaluation_set() -> None:
    got = read_file(CatBoostTable(), f"{ONE}/test_error.tsv")
    assert got["RMSE"].declared == Declared(Role.LOSS, Split.EVAL, Direction.LOWER)


def test_metrics_beside_the_objective_have_their_directions() -> None:
    got = read_file(CatBoostTable(), f"{TWO}/test_error.tsv")
    said = {c.tag: c.declared for c in got.columns if c.tag != "iter"}
    loss = Declared(Role.LOSS, Split.EVAL, Direction.LOWER)
    higher = Declared(Role.METRIC, Split.EVAL, Direction.HIGHER)
    assert said == {
        "AUC:0": higher,
        "Logloss:0": loss,
        "Accuracy:0": higher,
        "AUC": higher,
        "Logloss": loss,
        "Accuracy": higher,
    }


def test_the_document_holds_the_same_points_as_the_tables() -> None:
    for folder in (ONE, TWO):
        document = read_file(CatBoostDocument(), f"{folder}/catboost_training.json")
        for name, split in (("learn", Split.TRAIN), ("test", Split.EVAL)):
            table = read_file(CatBoostTable(), f"{folder}/{name}_error.tsv")
            mine = {
                c.tag: c.values.tolist()
                for c in document.columns
                if c.declared and c.declared.split is split
            }
            assert mine == {t: table.values(t) for t in table.tags if t != "iter"}


def test_the_document_says_which_way_a_metric_improves() -> None:
    text = (
        b'{"meta":{"learn_sets":["learn"],"test_sets":[],"test_metrics":[],"iteration_count":2,'
        b'"learn_metrics":[{"best_value":"Max","name":"Logloss"},{"best_value":"Min","name":"mine"},'
        b'{"best_value":0.5,"name":"calibration"}]},"iterations":[\n'
        b'{"learn":[0.1,5,0.5],"iteration":0},\n{"learn":[0.2,4,0.6],"iteration":1}\n]}'
    )
    got = read(CatBoostDocument(), "catboost_training.json", text)
    assert got["Logloss"].declared == Declared(Role.METRIC, Split.TRAIN, Direction.HIGHER)
    assert got["mine"].declared == Declared(None, Split.TRAIN, Direction.LOWER)
    assert got["calibration"].declared == Declared(None, Split.TRAIN, None)


def test_a_document_that_is_closed_is_that_of_a_training_that_ended() -> None:
    got = read_file(CatBoostDocument(), f"{ONE}/catboost_training.json")
    assert got.facts == Facts(framework="catboost", finished=True)


def test_a_cut_document_keeps_its_whole_rows_and_says_what_was_planned() -> None:
    whole = data(f"{ONE}/catboost_training.json")
    cut = whole[: whole.index(b'"iteration":5') + 15]
    got = read(CatBoostDocument(), "catboost_training.json", cut)
    assert got.facts == Facts(framework="catboost", max_steps=8)
    assert [c.steps.tolist() for c in got.columns] == [[0, 1, 2, 3, 4]] * 2
    assert got.codes == [(FaultCode.TRUNCATED, False)]


def test_a_cut_table_loses_the_row_whose_digits_may_be_missing() -> None:
    whole = data(f"{ONE}/learn_error.tsv")
    for missing in (1, 2, 5):
        got = read(CatBoostTable(), f"{ONE}/learn_error.tsv", whole[:-missing])
        assert got.steps("RMSE") == list(range(7))
        assert [(f.code, f.line) for f in got.faults] == [(FaultCode.TRUNCATED, 9)]


def test_a_row_of_something_else_is_a_fault() -> None:
    text = b"iter\tRMSE\n0\t0.5\nkilled\n1\tnan\n2\t0.25\t7\n3\tinf\n"
    got = read(CatBoostTable(), "learn_error.tsv", text)
    assert repr(got.values("RMSE")) == "[0.5, nan, inf]"
    assert [(f.code, f.line) for f in got.faults] == [
        (FaultCode.CORRUPT, 3),
        (FaultCode.CORRUPT, 5),
    ]


def test_tables_document_and_events_of_one_training_are_each_judged_once() -> None:
    readings = [
        reading(CatBoostTable(), f"{ONE}/learn_error.tsv"),
        reading(CatBoostTable(), f"{ONE}/test_error.tsv"),
        reading(CatBoostDocument(), f"{ONE}/catboost_training.json"),
        reading(TfEvents(), f"{ONE}/test/events.out.tfevents"),
    ]
    view = assemble(ONE, readings)
    (attempt,) = view.attempts
    found = {(s.split, s.role, s.artifact, s.also_in) for s in attempt.series}
    document = f"{ONE}/catboost_training.json"
    assert found == {
        (Split.TRAIN, Role.LOSS, f"{ONE}/learn_error.tsv", (document,)),
        (
            Split.EVAL,
            Role.LOSS,
            f"{ONE}/test_error.tsv",
            (document, f"{ONE}/test/events.out.tfevents"),
        ),
    }


def reading(reader: Reader, path: str) -> Reading:
    content = data(path)
    artifact = Artifact("root", path, len(content), reader.kind, reader.name)
    got = read(reader, path, content)
    return Reading(artifact, got.columns, got.facts, got.faults)


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("learn_error.csv", b"iter\tRMSE\n"),
        ("learn_error.tsv", b"step\tRMSE\n"),
        ("time_left.tsv", b"iter\tPassed\tRemaining\n"),
        ("learn_error.tsv", b""),
    ],
)
def test_other_tables_are_not_claimed(path: str, head: bytes) -> None:
    assert not CatBoostTable().claims(path, head)


def test_documents_are_known_by_what_they_hold() -> None:
    head = data(f"{ONE}/catboost_training.json")
    assert CatBoostDocument().claims("renamed.json", head)
    assert not CatBoostDocument().claims("catboost_training.json", b'{"loss": [1, 2]}')


@pytest.mark.parametrize(
    "text",
    [
        b'{"meta": {"learn_metrics": [1, {"name": 2}, {}], "learn_sets": [3]}, "iterations": [4]}',
        b'{"meta": {"learn_metrics": "x", "learn_sets": "y"}, "iterations": {}}',
        b'{"meta": [], "iterations": 5}',
        b'{"meta": {"learn_metrics": [{"name": "a"}], "learn_sets": ["s"]},'
        b' "iterations": [{"s": 1}]}',
        b"[1, 2]",
        b"{}",
    ],
)
def test_documents_of_another_shape_hold_no_iterations(text: bytes) -> None:
    got = read(CatBoostDocument(), "catboost_training.json", text)
    assert (got.content, got.columns) == (Content.HEADER_ONLY, ())


def test_a_set_named_a_million_times_is_read_once() -> None:
    text = (
        b'{"meta": {"learn_metrics": [{"name": "RMSE"}], "learn_sets": ['
        + b'"s",' * 1_000_000
        + b'"s"]}, "iterations": [{"s": [1], "iteration": 0}]}'
    )
    assert read(CatBoostDocument(), "c.json", text).tags == ["RMSE"]


def test_damage_is_said_and_never_raised() -> None:
    survives(CatBoostTable(), "learn_error.tsv", data(f"{TWO}/learn_error.tsv"))
    survives(CatBoostDocument(), "catboost_training.json", data(f"{TWO}/catboost_training.json"))
