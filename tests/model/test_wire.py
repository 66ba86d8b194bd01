"""Frames hold whatever a name may hold."""

from __future__ import annotations

import pytest

from trainproof.model.artifact import Artifact, Kind, Run
from trainproof.model.wire import (
    LENGTH,
    Batch,
    Begin,
    Done,
    FrameError,
    RunResult,
    Settings,
    Task,
    pack,
    unpack_answer,
    unpack_order,
)

NAMES = ["loss.csv", "손실.csv", "loss-\udcff\x00.csv", "\ud800é.csv"]


def run_of(path: str) -> Run:
    return Run(path, "runs", (Artifact("runs", path, 1, Kind.LOG, "csv"),))


@pytest.mark.parametrize("path", NAMES)
def test_orders_arrive_as_they_were_given(path: str) -> None:
    for order in (
        Batch((Task(0, run_of(path), (run_of("b"),)),)),
        Begin(Settings(("TP-NAN",), thresholds={"TP-NAN": {"least": 3}}, spools={path: "/tmp/x"})),
    ):
        assert unpack_order(pack(order)[LENGTH:]) == order


@pytest.mark.parametrize("path", NAMES)
def test_answers_arrive_as_they_were_given(path: str) -> None:
    answer = Done(3, RunResult((), strangers=(path,)))
    assert unpack_answer(pack(answer)[LENGTH:]) == answer


@pytest.mark.parametrize(
    "body",
    [
        b"\x91",
        b"\x91\x01",
        b"\x91\xa3\xe4\xb8\x80",  # beyond Latin 1
        b"\x91\xa2\xc3\xbf",  # not UTF-8
        b"\x91" * 5000 + b"\x90",
        b"\x91\x81\x90\x01",  # a key that no mapping can have
    ],
)
def test_what_is_no_frame_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError):
        unpack_answer(body)
