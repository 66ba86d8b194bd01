"""The transaction log of Weights & Biases, as wandb wrote it and as made chunk by chunk."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence

import pytest

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, Facts, FaultCode
from trainproof.readers.wandb import BLOCK, MAGIC, MAX_PATH, Wandb, WandbSummary

from .readings import DATA, Readout, read, read_file, survives

HEADER = MAGIC + b"\0"


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(field: int, body: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(body)) + body


def item(name: str | Sequence[str], value: str) -> bytes:
    names = message(1, name.encode()) if isinstance(name, str) else b""
    names += b"".join(message(2, part.encode()) for part in ("" if names else name))
    return message(1, names + message(16, value.encode()))


def history(*items: bytes) -> bytes:
    return message(2, b"".join(items))


def point(step: int, loss: str = "1.5") -> bytes:
    return history(item("loss", loss), item("_step", str(step)))


def chunk(data: bytes, kind: int = 1) -> bytes:
    return struct.pack("<IHB", zlib.crc32(bytes([kind]) + data), len(data), kind) + data


def log(*records: bytes) -> bytes:
    """A file of these records, cut into chunks at the ends of blocks as LevelDB does."""
    out = HEADER
    for record in records:
        first, rest = True, record
        while first or rest:
            room = BLOCK - len(out) % BLOCK
            if room < 7:
                out += b"\0" * room
                continue
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = (1 if not rest else 2) if first else (4 if not rest else 3)
            out += chunk(part, kind)
            first = False
    return out


def made(data: bytes) -> Readout:
    return read(Wandb(), "run-x.wandb", data)


def test_a_run_that_wandb_wrote_is_read_with_its_configuration_and_end() -> None:
    got = read_file(Wandb(), "wandb/run-finished.wandb")
    loss = got["train/loss"]
    assert loss.axis is Axis.STEP
    assert loss.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert [repr(v) for v in loss.values.tolist()] == ["2.0", "1.5", "nan", "1.25", "inf", "1.0"]
    assert (got.steps("val/loss"), got.values("val/loss")) == ([20], [2.5])
    assert got.values("lr") == [0.001 - 0.0001 * i for i in range(6)]
    assert set(got.tags) == {"_timestamp", "_runtime", "_step", "train/loss", "lr", "val/loss"}
    assert got.facts == Facts(
        framework="wandb", max_epochs=3.0, precision="fp16", learning_rate=0.001, finished=True
    )
    assert (got.faults, got.content) == ((), None)


def test_the_clock_of_the_rows_is_kept() -> None:
    walls = read_file(Wandb(), "wandb/run-finished.wandb")["train/loss"].walls
    assert walls is not None
    assert len(walls) == 6
    assert 1.7e9 < walls[0] <= walls[5] < 1.9e9


def test_a_run_that_crashed_says_so() -> None:
    assert read_file(Wandb(), "wandb/run-crashed.wandb").facts.finished is False


def test_a_run_without_exit_record_does_not_say_how_it_ended() -> None:
    assert made(log(point(0), point(1))).facts == Facts(framework="wandb")


def test_records_over_several_blocks_and_padding_at_their_ends_are_read() -> None:
    long = history(item("loss", "0.5"), item("note", '"' + "x" * (2 * BLOCK) + '"'))
    nearly = BLOCK - 7 - 7 - 3  # leaves three bytes, less than the head of a chunk
    fill = message(4, b"x" * (nearly - 4))
    assert len(log(fill)) == BLOCK - 3
    got = made(log(fill, point(1, "2.0"), long, point(3, "1.0")))
    assert (got.values("loss"), got.faults) == ([2.0, 0.5, 1.0], ())


def test_a_step_that_is_no_item_is_taken_from_the_record() -> None:
    rows = (history(item("loss", "1.5"), message(2, b"\x08" + varint(n))) for n in (3, 300))
    assert made(log(*rows)).steps("loss") == [3, 300]


@pytest.mark.parametrize(
    ("value", "points"),
    [
        ("2", [2.0]),
        ("NaN", [math.nan]),
        ("-Infinity", [-math.inf]),
        ('"0.5"', [0.5]),
        ("1e999", [math.inf]),
    ],
)
def test_numbers_in_every_spelling_are_values(value: str, points: list[float]) -> None:
    values = made(log(point(0, value))).values("loss")
    assert values == pytest.approx(points, nan_ok=True)


@pytest.mark.parametrize(
    "value", ["null", "[1, 2]", '"warm"', '{"_type": "image", "size": 3}', "{", ""]
)
def test_what_is_no_number_is_no_point(value: str) -> None:
    rows = history(item("x", value), item("loss", "1"), item("_step", "0"))
    assert made(log(rows, point(1))).tags == ["loss", "_step"]


def test_objects_are_parts_of_the_name() -> None:
    row = history(item("train", '{"loss": 1, "acc": {"top1": 0.5}}'), item("_step", "0"))
    assert made(log(row)).tags == ["train/loss", "train/acc/top1", "_step"]


def test_a_name_of_too_many_parts_is_cut() -> None:
    row = history(item(["loss"] * 1000, "1"), item("_step", "0"))
    assert made(log(row)).tags[0].split("/") == ["loss"] * MAX_PATH


def test_a_configuration_may_come_later_and_the_last_word_counts() -> None:
    first = message(17, message(4, item("lr", "0.1") + item("seed", "7")))
    got = made(log(first, message(5, item("lr", "0.2")), point(0), point(1)))
    assert (got.facts.learning_rate, got.facts.seed) == (0.2, 7)


@pytest.mark.parametrize("code", [0, 1, 255])
def test_the_exit_code_says_whether_the_run_finished(code: int) -> None:
    ended = message(18, b"\x08" + varint(code) if code else b"")
    assert made(log(point(0), ended)).facts.finished is (code == 0)


def test_a_log_without_history_holds_no_series() -> None:
    got = made(log(message(4, b"output"), message(18, b"")))
    assert (got.content, got.columns) == (Content.HEADER_ONLY, ())
    assert made(HEADER).content is Content.HEADER_ONLY


def test_a_cut_tail_is_told_and_the_rows_before_it_are_kept() -> None:
    whole = log(point(0), point(1))
    for size in range(len(whole) - len(chunk(point(1))) + 1, len(whole)):
        got = made(whole[:size])
        assert got.values("loss") == [1.5]
        assert got.codes == [(FaultCode.TRUNCATED, False)]


def test_a_record_that_goes_on_in_a_lost_block_is_told() -> None:
    whole = log(history(item("loss", "1")), history(item("note", '"' + "x" * BLOCK + '"')))
    got = made(whole[:BLOCK])
    assert got.codes == [(FaultCode.TRUNCATED, False)]


def test_damage_costs_the_rest_of_its_block_only() -> None:
    rows = [point(n) for n in range(2500)]
    data = bytearray(log(*rows))
    data[100] ^= 1
    got = made(bytes(data))
    steps = got.steps("loss")
    assert got.codes[0] == (FaultCode.CORRUPT, False)
    assert (steps[0], steps[-1]) == (0, 2499)
    lost = sorted(set(range(2500)) - set(steps))
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert len(lost) < BLOCK // len(chunk(rows[0])) + 2


def test_a_chunk_that_claims_more_than_its_block_is_damage() -> None:
    filler = log(*[point(n) for n in range(1000)])
    data = bytearray(filler)
    data[7 + 4 : 7 + 6] = b"\xff\xff"
    assert made(bytes(data)).codes[0] == (FaultCode.CORRUPT, False)


def test_records_that_are_no_messages_are_faults() -> None:
    got = made(log(b"\xff" * 40, point(0), message(2, b"\x0a\x7f"), point(1)))
    assert got.steps("loss") == [0, 1]
    assert [fault.code for fault in got.faults] == [FaultCode.CORRUPT] * 2


def test_only_the_mark_of_the_format_makes_a_log() -> None:
    assert Wandb().claims("anything", HEADER)
    assert not Wandb().claims("run-x.wandb", b"version https://git-lfs.github.com/spec/v1\n")
    assert not Wandb().claims("run-x.wandb", b"")


def test_damage_is_said_and_never_raised() -> None:
    survives(Wandb(), "run-x.wandb", (DATA / "wandb/run-finished.wandb").read_bytes())
    survives(Wandb(), "run-x.wandb", log(*[point(n) for n in range(1500)]))


def test_a_summary_is_named_as_one() -> None:
    data = b'{"loss": 0.07, "_step": 4, "_wandb": {"runtime": 24}}'
    path = "wandb/run-1/files/wandb-summary.json"
    assert WandbSummary().claims(path, data)
    assert read(WandbSummary(), path, data).content is Content.SUMMARY_ONLY
    assert not WandbSummary().claims("files/summary.json", data)
    assert not WandbSummary().claims(path, b"<!DOCTYPE html>")
