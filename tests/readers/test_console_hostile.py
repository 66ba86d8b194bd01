"""Console text as accidents and attackers leave it: always a typed outcome, bounded memory."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Fault, FaultCode, Item, NotJudgeable
from trainproof.readers.console import ConsoleText
from trainproof.readers.interface import HEAD, Options

from .readings import read, survives
from .test_console import FLAIR, NANOGPT, SPEED_RUN, TRANSFORMERS, megatron, swin

SAMPLES = {
    "nanogpt": NANOGPT,
    "speed-run": SPEED_RUN,
    "transformers": TRANSFORMERS,
    "flair": FLAIR,
    "megatron": "".join(megatron("[default7]:", step, "1.0E+01") for step in range(1, 9)),
    "swin": "".join(swin(epoch, step, 6.5) for epoch in range(2) for step in (0, 50)),
}


class Lazy(io.RawIOBase):
    """A stream that makes its bytes when they are read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self._rest or next(self._pieces, b"")
        now, self._rest = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(now)] = now
        return len(now)


def read_lazily(pieces: Iterator[bytes]) -> list[Item]:
    artifact = Artifact("root", "a.log", 0, Kind.LOG, "text")
    stream = io.BufferedReader(Lazy(pieces), 1 << 16)
    return list(ConsoleText().read(artifact, stream, Options()))


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_in_every_way(name: str) -> None:
    survives(ConsoleText(), "a.log", SAMPLES[name].encode())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_that_is_cut_holds_no_value_that_the_whole_one_does_not(name: str) -> None:
    data = SAMPLES[name].encode()
    whole = {
        c.tag: set(map(str, c.values.tolist())) for c in read(ConsoleText(), "a", data).columns
    }
    for size in range(0, len(data), 13):
        for column in read(ConsoleText(), "a", data[:size]).columns:
            assert set(map(str, column.values.tolist())) <= whole.get(column.tag, set())


def test_a_line_of_100_megabytes() -> None:
    line = (b"step 1 loss 0.5 " * 4096 for _ in range(100 << 4))
    tracemalloc.start()
    found = read_lazily(line)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [one.code for one in found if isinstance(one, Fault)] == [FaultCode.TOO_LARGE]
    assert isinstance(found[-1], NotJudgeable)
    assert peak < 64 << 20


def test_a_long_line_among_records_is_passed_over() -> None:
    text = "step 1 loss 0.5\n" + "step 2 loss 0.4 " * 2000 + "\nstep 3 loss 0.3\n"
    assert read(ConsoleText(), "a.log", text.encode()).steps("loss") == [1, 3]


def test_lines_of_which_no_two_are_alike_are_not_remembered_for_ever() -> None:
    names = (f"epoch 1 loss_{n:x}{'x' * 12_000}: 0.5\n".encode() for n in range(6_000))
    tracemalloc.start()
    found = read_lazily(names)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(one) for one in found] == [NotJudgeable]
    assert peak < 64 << 20


def test_text_without_a_record_is_not_read_to_its_end() -> None:
    taken = 0

    def prose() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield (b"nothing that a training prints stands here, " * 20 + b"\n") * 60

    (why,) = read_lazily(prose())
    assert isinstance(why, NotJudgeable)
    assert why.content is Content.NOT_A_LOG
    assert taken < 2000


@pytest.mark.parametrize(
    "text",
    [
        " " * 16000 + ":5",
        "loss" + " (" * 8000 + "5",
        "[" * 16000 + "5/5",
        "loss: " * 2700 + "5",
        "1 " * 8000,
        "1a" * 8000,
        "-" * 16000 + "5",
        "%|" * 8000 + "| 5/5",
        "=" * 16000 + "5",
        "1,111" * 3000,
        "nan" * 5000,
        "\x08" * 16000 + "5",
        "\x1b[" * 8000 + "5",
    ],
)
def test_lines_that_invite_backtracking(text: str) -> None:
    data = (f"step 1 loss 0.5\n{text}\n" * 20).encode()
    assert read(ConsoleText(), "a.log", data).columns is not None


def test_numbers_beyond_measure() -> None:
    text = f"step {'9' * 400} loss 1e999\nstep 5 loss -1e999\nstep 6 loss {'9' * 400}\n"
    got = read(ConsoleText(), "a.log", text.encode())
    assert [str(v) for v in got.values("loss")] == ["inf", "-inf", "inf"][-len(got["loss"]) :]


PIECES = st.sampled_from(
    [
        "step", "epoch", "iter", "loss", "val", "acc", "lr", "Epoch(val)", "nan", "inf", "1", "2/9",
        "0.5", "-1e-5", "1,000", "[1][5/9]", "[", "]", "(", ")", "{'loss': ", "'", '"', ": ", "=",
        " ", "  ", "\t", "|", " - ", "%|##  | ", "\r", "\n", "\n", "tensor(", "np.float64(", "ms",
        "Epoch 1/3\n", "s:0 tel:", "\x08", "Traceback (most recent call last):\n", "KeyError: 1",
        "\0", "\x1b[1m", "warmup_step:", "1epoch:train:1-", "batch:", "value", "5/5 [====] - ",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(PIECES, max_size=80))
def test_pieces_of_every_dialect(pieces: list[str]) -> None:
    data = "".join(pieces).encode()
    ConsoleText().claims("a.log", data[:HEAD])
    got = read(ConsoleText(), "a.log", data)
    assert got.columns or got.faults or got.content
    assert got.tags == list(dict.fromkeys(got.tags))
