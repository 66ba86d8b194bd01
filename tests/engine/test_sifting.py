"""What looks like a checkpoint and is none is told from one that is damaged."""

from __future__ import annotations

import io

import pytest

from tests.support.pickles import EVIL, dict_, pickle
from tests.support.saved import safetensors_bytes, torch_bytes
from tests.support.zips import torch_zip
from trainproof.checkpoints.reader import read_checkpoint
from trainproof.engine.sifting import content_of
from trainproof.model.artifact import Content
from trainproof.model.checkpoint import SavedFile
from trainproof.model.tensors import CheckpointFacts, Depth, TensorInfo

DATA = {"x": [1.0, 2.0], "y": [0.0]}


def read(data: bytes, path: str = "a.pt") -> SavedFile:
    items = list(read_checkpoint(io.BytesIO(data), path, Depth.STRUCTURE))
    (facts,) = (one for one in items if isinstance(one, CheckpointFacts))
    return SavedFile(facts, tuple(one for one in items if isinstance(one, TensorInfo)))


@pytest.mark.parametrize(
    "data",
    [
        torch_bytes(),
        safetensors_bytes(),
        torch_zip(pickle(dict_({"state_dict": dict_({})})), {}),
        torch_zip(pickle(dict_({"state": dict_({}), "param_groups": dict_({})})), {}),
    ],
    ids=["torch", "safetensors", "state_dict", "optimizer"],
)
def test_a_state_of_a_training_is_told_by_its_names(data: bytes) -> None:
    assert content_of([read(data)]) is None


@pytest.mark.parametrize("data", [torch_bytes(DATA), safetensors_bytes(DATA)])
def test_tensors_of_other_names_are_data(data: bytes) -> None:
    assert content_of([read(data)]) is Content.SAVED_DATA


def test_one_state_among_the_files_makes_the_set_one() -> None:
    assert content_of([read(torch_bytes(DATA)), read(torch_bytes())]) is None


def test_what_would_run_code_is_judged_whatever_it_is() -> None:
    assert content_of([read(torch_zip(pickle(dict_({"x": EVIL})), {}))]) is None
    assert content_of([read(pickle(EVIL))]) is None


def test_bytes_that_are_no_pickle_call_nothing() -> None:
    assert content_of([read(b"K\x01\x82\x07R\xb5\xb5", "weights.bin")]) is Content.NOT_A_LOG
    assert content_of([read(EVIL + b"\xb5", "weights.bin")]) is None


def test_damage_is_damage_whatever_it_is() -> None:
    assert content_of([read(torch_bytes(DATA)[:-40])]) is None
    assert content_of([read(safetensors_bytes(DATA)[:-1], "a.safetensors")]) is None
    assert content_of([read(torch_bytes()[:90])]) is None
    assert content_of([read(b"\xff" * 8 + b"{", "a.safetensors")]) is None


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"Sess\xc3\xa3o do parlamento\n", Content.NOT_A_LOG),
        (b"", Content.EMPTY),
        (b"<!doctype html>", Content.MARKUP_PAGE),
        (bytes(5000), Content.NOT_A_LOG),
    ],
)
def test_what_is_in_no_such_format_is_what_it_is(data: bytes, content: Content) -> None:
    assert content_of([read(data)]) is content
