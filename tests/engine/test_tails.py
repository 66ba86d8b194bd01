"""Reading on where a file was left, against reading all of it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.tfevents import event_file, scalar
from trainproof.engine.tails import MOST, Tails
from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Column, Facts, Fault, Item, NotJudgeable
from trainproof.readers import reader
from trainproof.readers.interface import Options

JSONL = b"".join(
    json.dumps(
        {"step": i, "loss": 3.0 / (i + 1), **({"val_loss": 1.0} if i % 7 == 6 else {})}
    ).encode()
    + b"\n"
    for i in range(60)
)
CSV = b"epoch,loss,val_loss\n" + b"".join(
    b"%d,%.4f,%s\n" % (i, 2.0 / (i + 1), b"" if i % 3 else b"0.5") for i in range(60)
)
TEXT = b"".join(
    b"step %d/60 | loss %.4f | lr 1e-3 | 0.2 s\n" % (i, 2.0 / (i + 1)) for i in range(1, 61)
)
EVENTS = event_file(scalar("loss", 2.0 / (i + 1), i) for i in range(60))
STATE = json.dumps(
    {
        "global_step": 6,
        "log_history": [{"step": i, "loss": 1.0 / i, "epoch": i / 6} for i in range(1, 7)],
    },
    indent=2,
).encode()

CASES = {"jsonl": JSONL, "csv": CSV, "text": TEXT, "tfevents": EVENTS}


def artifact(path: Path, name: str) -> Artifact:
    return Artifact(str(path.parent), path.name, path.stat().st_size, Kind.LOG, name)


def followed(tails: Tails, path: Path, name: str) -> list[Item]:
    with path.open("rb") as stream:
        return list(tails.items(artifact(path, name), stream, Options()))


def whole(data: bytes, path: Path, name: str) -> list[Item]:
    one = Artifact(str(path.parent), path.name, len(data), Kind.LOG, name)
    return list(reader(name).read(one, io.BytesIO(data), Options()))


def plain(items: list[Item]) -> Iterator[object]:
    for item in items:
        if isinstance(item, Column):
            lines = None if item.lines is None else item.lines.tolist()
            yield item.tag, item.steps.tolist(), item.values.tobytes(), item.axis, lines
        else:
            yield item


def whole_records(data: bytes, name: str) -> bytes:
    """The data up to the last whole record."""
    if name != "tfevents":
        return data[: data.rfind(b"\n") + 1]
    end = at = 0
    while at < len(data):
        at += 16 + int.from_bytes(data[at : at + 8], "little")
        end = at if at <= len(data) else end
    return data[:end]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_a_file_that_grows_is_read_as_the_whole_would_be(
    tmp_path: Path, name: str, seed: int
) -> None:
    data, path, tails = CASES[name], tmp_path / "log", Tails()
    cuts = np.random.default_rng(seed).integers(200, len(data), 12)
    for cut in [*sorted(cuts.tolist()), len(data)]:
        path.write_bytes(data[:cut])
        so_far = whole_records(data[:cut], name)
        assert list(plain(followed(tails, path, name))) == list(plain(whole(so_far, path, name)))


@pytest.mark.parametrize("name", CASES)
def test_what_was_read_is_not_read_again(tmp_path: Path, name: str) -> None:
    data, path, tails = CASES[name], tmp_path / "log", Tails()
    path.write_bytes(whole_records(data[: len(data) // 2], name))
    followed(tails, path, name)
    path.write_bytes(data)

    class Counting(io.FileIO):
        count = 0

        def readinto(self, buffer: object) -> int | None:
            got = super().readinto(buffer)  # type: ignore[arg-type]
            Counting.count += got or 0
            return got

        def read(self, size: int | None = -1) -> bytes:
            got = super().read(size)
            Counting.count += len(got or b"")
            return got or b""

    with Counting(path) as stream:
        items = list(tails.items(artifact(path, name), stream, Options()))
    new = len(data) - len(whole_records(data[: len(data) // 2], name))
    assert Counting.count <= new + 2 * 4096 + 2 * 64
    assert list(plain(items)) == list(plain(whole(data, path, name)))


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_was_truncated_or_replaced_is_read_from_its_start(
    tmp_path: Path, name: str
) -> None:
    data, path, tails = CASES[name], tmp_path / "log", Tails()
    path.write_bytes(data)
    followed(tails, path, name)
    short = whole_records(data[: len(data) // 2], name)
    path.write_bytes(short)
    assert list(plain(followed(tails, path, name))) == list(plain(whole(short, path, name)))
    path.rename(tmp_path / "log.1")
    path.write_bytes(data)
    assert list(plain(followed(tails, path, name))) == list(plain(whole(data, path, name)))


def test_a_file_that_was_written_anew_with_more_in_it_is_read_from_its_start(
    tmp_path: Path,
) -> None:
    path, tails = tmp_path / "log", Tails()
    path.write_bytes(JSONL[:1000])
    followed(tails, path, "jsonl")
    other = JSONL.replace(b'"loss": 3', b'"loss": 4')
    path.write_bytes(other)
    assert list(plain(followed(tails, path, "jsonl"))) == list(plain(whole(other, path, "jsonl")))


def test_a_line_that_is_being_written_is_no_fault_and_is_read_when_it_is_whole(
    tmp_path: Path,
) -> None:
    path, tails = tmp_path / "log", Tails()
    path.write_bytes(JSONL + b'{"step": 60, "lo')
    items = followed(tails, path, "jsonl")
    assert not [one for one in items if isinstance(one, Fault)]
    path.write_bytes(JSONL + b'{"step": 60, "loss": 9.0}\n')
    loss = next(
        i for i in followed(tails, path, "jsonl") if isinstance(i, Column) and i.tag == "loss"
    )
    assert loss.values[-1] == 9.0
    assert len(loss) == 61


def test_an_unchanged_file_is_not_opened_again_by_its_reader(tmp_path: Path) -> None:
    path, tails = tmp_path / "trainer_state.json", Tails()
    path.write_bytes(STATE)
    first = followed(tails, path, "hf-trainer")
    again = followed(tails, path, "hf-trainer")
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_a_state_in_the_middle_of_being_rewritten_does_not_lose_what_was_known(
    tmp_path: Path,
) -> None:
    path, tails = tmp_path / "trainer_state.json", Tails()
    path.write_bytes(STATE)
    before = followed(tails, path, "hf-trainer")
    path.write_bytes(STATE[: len(STATE) // 2])
    during = followed(tails, path, "hf-trainer")
    assert list(plain(during)) == list(plain(before))
    settled = followed(tails, path, "hf-trainer")  # nobody is writing: the file is cut
    assert [str(i.code) for i in settled if isinstance(i, Fault)] == ["truncated"]
    path.write_bytes(STATE)
    assert list(plain(followed(tails, path, "hf-trainer"))) == list(plain(before))


def test_a_broken_record_stays_broken(tmp_path: Path) -> None:
    path, tails = tmp_path / "events.out.tfevents.1", Tails()
    broken = bytearray(EVENTS)
    broken[-6] ^= 1
    path.write_bytes(bytes(broken))
    (fault,) = [i for i in followed(tails, path, "tfevents") if isinstance(i, Fault)]
    path.write_bytes(bytes(broken) + scalar("loss", 1.0, 60))
    assert [i for i in followed(tails, path, "tfevents") if isinstance(i, Fault)] == [fault]


def test_the_oldest_states_are_forgotten(tmp_path: Path) -> None:
    tails = Tails()
    paths = [tmp_path / f"{number}.jsonl" for number in range(MOST + 2)]
    for path in paths:
        path.write_bytes(JSONL[:400])
        followed(tails, path, "jsonl")
    assert len(tails._known) == MOST
    path = paths[0]
    with path.open("ab") as file:
        file.write(b'{"step": 99, "loss": 1.0}\n')
    assert list(plain(followed(tails, path, "jsonl"))) == list(
        plain(whole(path.read_bytes(), path, "jsonl"))
    )


def test_a_file_that_is_not_on_the_disk_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(JSONL)
    items = list(Tails().items(artifact(path, "jsonl"), io.BytesIO(JSONL), Options()))
    assert list(plain(items)) == list(plain(whole(JSONL, path, "jsonl")))


def test_a_file_that_is_no_log_stays_none(tmp_path: Path) -> None:
    path, tails = tmp_path / "log.jsonl", Tails()
    path.write_bytes(b'{"name": "a"}\n' * 30)
    for _ in range(2):
        items = followed(tails, path, "jsonl")
        assert [type(i) for i in items] == [NotJudgeable]
        with path.open("ab") as file:
            file.write(b'{"name": "b"}\n')
            os.fsync(file.fileno())


def test_facts_follow_the_file(tmp_path: Path) -> None:
    path, tails = tmp_path / "log.jsonl", Tails()
    path.write_bytes(JSONL + b'{"step": 60, "loss": 1.0, "seed": 3}\n')
    facts = next(i for i in followed(tails, path, "jsonl") if isinstance(i, Facts))
    assert facts.seed == 3
