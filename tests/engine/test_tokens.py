"""Rows of added tokens, from the files of a directory to findings."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.saved import write
from trainproof import api
from trainproof.config import Config
from trainproof.model.report import SubjectReport
from trainproof.model.tensors import Depth

TOKENS = {60: "<|user|>", 61: "<|end|>", 62: "<pad>"}
Matrix = NDArray[np.float32]


def embedding(seed: int = 0) -> Matrix:
    """60 tokens, and three that were added as the mean of all."""
    values = np.random.default_rng(seed).standard_normal((63, 8)).astype("f4")
    values[60:] = values[:60].mean(axis=0)
    return values


def model(directory: Path, values: Matrix) -> Path:
    """A directory of transformers."""
    entry = {"dtype": "F32", "shape": [*values.shape], "data_offsets": [0, values.nbytes]}
    header = json.dumps({"model.embed_tokens.weight": entry}).encode()
    data = struct.pack("<Q", len(header)) + header + values.tobytes()
    write(directory / "model.safetensors", data)
    write(directory / "config.json", b'{"model_type": "llama", "vocab_size": 63}')
    added = [{"id": id, "content": text} for id, text in TOKENS.items()]
    write(directory / "tokenizer.json", json.dumps({"added_tokens": added}).encode())
    write(directory / "chat_template.jinja", b"<|user|>{{ text }}<|end|>")
    return directory


def judged(directory: Path, against: Path | None = None) -> SubjectReport:
    baseline = None if against is None else str(against)
    config = Config(paths=(str(directory),), baseline=baseline, isolation=False)
    (report,) = api.audit_checkpoints(config, Depth.TENSORS).reports
    return report


def messages(report: SubjectReport) -> dict[str, str]:
    return {one.id: one.message for one in report.findings if "TOKEN" in one.id}


def test_tokens_that_were_added_and_never_trained_are_told(tmp_path: Path) -> None:
    found = messages(judged(model(tmp_path / "checkpoint-100", embedding())))
    assert found == {
        "TP-CKPT-TOKEN-ROWS": "2 of 2 added tokens have a row of model.embed_tokens.weight in"
        " model.safetensors that is zero or lies beside that of another one: <|user|>, <|end|>."
    }


def test_tokens_with_rows_of_their_own_are_none(tmp_path: Path) -> None:
    values = embedding()
    values[60:] += np.eye(3, 8, dtype="f4")
    assert messages(judged(model(tmp_path / "checkpoint-100", values))) == {}


def test_the_row_that_pads_may_be_zero(tmp_path: Path) -> None:
    values = embedding()
    values[60:] += np.eye(3, 8, dtype="f4")
    values[61] = 0
    directory = model(tmp_path / "checkpoint-100", values)
    assert list(messages(judged(directory))) == ["TP-CKPT-TOKEN-ROWS"]
    write(directory / "config.json", b'{"vocab_size": 63, "pad_token_id": 61}')
    assert messages(judged(directory)) == {}


def test_rows_beyond_the_last_token_are_none_of_a_token(tmp_path: Path) -> None:
    values = np.vstack([embedding(), np.zeros((65, 8), "f4")])
    values[60:63] += np.eye(3, 8, dtype="f4")
    assert messages(judged(model(tmp_path / "checkpoint-100", values))) == {}


def test_rows_that_stand_still_while_the_others_move_are_told(tmp_path: Path) -> None:
    values = embedding()
    values[60:] += np.eye(3, 8, dtype="f4")
    later = values.copy()
    later[:60] += 0.5
    earlier = model(tmp_path / "checkpoint-100", values)
    found = messages(judged(model(tmp_path / "checkpoint-200", later), earlier))
    assert found == {
        "TP-CKPT-TOKENS-STILL": "The rows of 2 of 2 added tokens in model.embed_tokens.weight of"
        f" model.safetensors are bit by bit those of {earlier}, and 60 of 61 other rows changed:"
        " <|user|>, <|end|>."
    }


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_without_the_files_there_is_nothing_to_tell(tmp_path: Path, name: str) -> None:
    directory = model(tmp_path / "checkpoint-100", embedding())
    (directory / name).rename(directory / f"{name}.bak")
    assert messages(judged(directory)) == {}
