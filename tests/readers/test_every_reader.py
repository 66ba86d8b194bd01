"""Every reader meets every input: it yields typed items and raises nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainproof.model.artifact import Kind
from trainproof.readers import READERS, reader
from trainproof.readers.interface import HEAD, Reader

from .readings import DATA, read, survives

COQUI = """ > EPOCH: 0/2
 > TRAINING (2023-01-01 00:00:00)
   --> STEP: 1/2 -- GLOBAL_STEP: 1
     | > loss: 3.01  (3.01)
     | > grad_norm: 1.5  (1.5)
   --> STEP: 2/2 -- GLOBAL_STEP: 2
     | > loss: 2.01  (2.51)
"""
YOLO = "      0/9    1.5G   0.05   0.04   0.03   0.12   7   640" + "   0.5" * 7 + "\n"
RUN = f"mlflow/mlruns/0/{'0' * 32}"
SAMPLES: dict[str, tuple[str, bytes]] = {
    one: (name, (DATA / name).read_bytes())
    for one, name in {
        "tfevents": "lightning/events.out.tfevents.1700000000.host.1.0",
        "hf-trainer": "transformers/trainer_state.json",
        "mlflow": f"{RUN}/metrics/train/loss",
        "mlflow-run": f"{RUN}/meta.yaml",
        "mlflow-param": f"{RUN}/params/learning_rate",
        "mlflow-db": "mlflow/mlflow.db",
        "neptune": "neptune/data-1.log",
        "clearml": "clearml/metrics.jsonl",
        "wandb": "wandb/run-finished.wandb",
        "catboost": "catboost/two/test_error.tsv",
        "catboost-json": "catboost/two/catboost_training.json",
        "sacred": "sacred/completed/metrics.json",
        "sacred-run": "sacred/failed/run.json",
        "evals-result": "xgboost/evals_result.json",
        "boosting-log": "lightgbm/train.log",
        "monitor": "stable_baselines3/monitor.csv",
        "json": "keras/history.json",
        "text": "keras/console.log",
        "csv": "lightning/metrics.csv",
    }.items()
} | {
    "coqui": ("trainer_0_log.txt", COQUI.encode()),
    "catboost-console": (
        "train.log",
        b"".join(
            b"%d:\tlearn: %.5f\ttotal: 5ms\tremaining: 1s\n" % (i, 9 / i) for i in range(1, 99)
        ),
    ),
    "numbers": ("loss.txt", b"".join(b"%d %.4f\n" % (i, 9 / i) for i in range(1, 400))),
    "aim": (".aim/run_metadata.sqlite", b"SQLite format 3\0" + bytes(300)),
    "wandb-summary": ("wandb-summary.json", b'{"loss": 0.5, "_step": 7}'),
    "yolo-results": ("results.txt", YOLO.encode() * 9),
    "jsonl": ("log.jsonl", b'{"step": 1, "loss": 0.5, "epoch": 0.1}\n' * 9),
    "json-settings": ("config.json", b'{"learning_rate": 0.1, "max_steps": 9, "seed": 1}\n'),
    "yaml-settings": ("config.yaml", b"learning_rate: 0.1\nmax_steps: 9\nseed: 1\n"),
}
"""A file of each reader, written by the framework where there is one here."""

NAMES = [one.name for one in READERS]

HUNDRED_MEGABYTES = 100_000_000

JUNK = st.one_of(
    st.binary(max_size=2000),
    st.text(max_size=500).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text(max_size=200).map(lambda text: text.encode("utf-16", "surrogatepass")),
)

PIECES = st.sampled_from(
    [
        b"{", b"}", b"[", b"]", b",", b":", b'"', b"\n", b"\r", b"\0", b"\t", b";", b" ",
        b'"log_history"', b'"step"', b'"loss"', b"step", b"loss", b"epoch", b"1", b"-1", b"0.5",
        b"nan", b"NaN", b"inf", b"1e999", b"null", b"true", b"\xff\xfe", b"\xef\xbb\xbf",
        b"\n  \"log_history\": [\n    {\n", b"\n    },\n    {\n", b"\n    }\n  ]", b"\x1b[1m",
        b" | > loss: 1.0", b"   --> STEP: 1/2 -- GLOBAL_STEP: 3", b" > EPOCH: 0/9", b"'", b"\\",
        b"9" * 400, b"x" * 300,
    ]
)  # fmt: skip

SOUP = st.lists(PIECES, max_size=60).map(b"".join)

each = pytest.mark.parametrize("one", READERS, ids=NAMES)


def meets(one: Reader, data: bytes) -> None:
    one.claims("dir/log.csv", data[:HEAD])
    read(one, "dir/log.csv", data)


@each
@settings(max_examples=60, deadline=None)
@given(data=JUNK)
def test_random_bytes(one: Reader, data: bytes) -> None:
    meets(one, data)


@each
@settings(max_examples=150, deadline=None)
@given(data=SOUP)
def test_pieces_of_every_format(one: Reader, data: bytes) -> None:
    meets(one, data)


@each
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\0" * 10_000,
        b"\xff" * 10_000,
        b"x" * 9_000_000,
        b"{" * 100_000,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'"' * 100_000,
        b"," * 100_000,
        b"\r" * 100_000,
        b'{"loss": "' + b"y" * 9_000_000 + b'"}',
        b'{"log_history": [' + b"{}," * 50_000 + b"{}]}",
        b"step,loss\n" + b'"\n' * 20_000,
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        b"<!DOCTYPE html><html><body>404</body></html>",
    ],
    ids=str.split(
        "empty newline nul ff one-line braces brackets nested quotes commas returns long-string"
        " empty-rows lone-quotes pointer page"
    ),
)
def test_hostile_files(one: Reader, data: bytes) -> None:
    meets(one, data)


def test_there_is_a_sample_for_every_reader() -> None:
    assert SAMPLES.keys() == set(NAMES)


@each
def test_damaged_files(one: Reader) -> None:
    """Cut at every 97th byte, lines twice or shuffled, bytes flipped, overwritten."""
    path, data = SAMPLES[one.name]
    assert one.claims(path, data[:HEAD])
    survives(one, path, data)


@each
def test_a_hundred_megabytes_of_one_line(one: Reader) -> None:
    """The beginning of a real file, over and over, without an end of line."""
    path, data = SAMPLES[one.name]
    line = data[:HEAD].replace(b"\n", b" ").replace(b"\r", b" ")
    read(one, path, line * (HUNDRED_MEGABYTES // len(line)))


@each
def test_nothing_is_claimed_without_content(one: Reader) -> None:
    if one.kind is Kind.LOG:
        assert not one.claims("trainer_state.json", b"")
        assert not one.claims("metrics.csv", b"version https://git-lfs.github.com/spec/v1\n")


def test_names_are_unique_and_found() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(reader(one.name) is one for one in READERS)
    with pytest.raises(KeyError):
        reader("no such reader")
