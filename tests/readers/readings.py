"""What a reader makes of some bytes, and bytes as accidents leave them."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Column, Facts, Fault, FaultCode, NotJudgeable, Parts
from trainproof.readers.interface import HEAD, Options, Reader

DATA = Path(__file__).parent / "data"
EVERY = 97
"""Bytes between the places at which a file is cut."""


class Readout(msgspec.Struct, frozen=True):
    columns: tuple[Column, ...]
    facts: Facts
    faults: tuple[Fault, ...]
    content: Content | None
    parts: tuple[str, ...] = ()

    def __getitem__(self, tag: str) -> Column:
        (one,) = (column for column in self.columns if column.tag == tag)
        return one

    def values(self, tag: str) -> list[float]:
        return self[tag].values.tolist()

    def steps(self, tag: str) -> list[int]:
        return self[tag].steps.tolist()

    @property
    def tags(self) -> list[str]:
        return [column.tag for column in self.columns]

    @property
    def codes(self) -> list[tuple[FaultCode, bool]]:
        return [(fault.code, fault.fatal) for fault in self.faults]


def read(
    reader: Reader, path: str, data: bytes, options: Options | None = None, part: str = ""
) -> Readout:
    """The whole outcome; every item has one of the types that the interface names."""
    artifact = Artifact("root", path, len(data), reader.kind, reader.name, part)
    items = list(reader.read(artifact, io.BytesIO(data), options or Options()))
    facts = Facts()
    for item in items:
        assert isinstance(item, Column | Facts | Fault | NotJudgeable | Parts)
        facts = item.over(facts) if isinstance(item, Facts) else facts
    return Readout(
        tuple(item for item in items if isinstance(item, Column)),
        facts,
        tuple(item for item in items if isinstance(item, Fault)),
        next((item.content for item in items if isinstance(item, NotJudgeable)), None),
        next((item.names for item in items if isinstance(item, Parts)), ()),
    )


def read_file(reader: Reader, name: str) -> Readout:
    """A file of ``DATA``, which the reader must claim."""
    data = (DATA / name).read_bytes()
    assert reader.claims(name, data[:HEAD])
    return read(reader, name, data)


def damaged(data: bytes) -> Iterator[bytes]:
    """The same bytes cut, flipped, with their lines twice or shuffled, or overwritten."""
    chance = random.Random(0)
    yield from (data[:size] for size in range(0, len(data), EVERY))
    lines = data.splitlines(keepends=True)
    yield b"".join(line + line for line in lines)
    yield b"".join(chance.sample(lines, len(lines)))
    for _ in range(60):
        flipped = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            flipped[chance.randrange(len(flipped))] = chance.randrange(256)
        yield bytes(flipped)
    yield data + data
    yield b"\0" * len(data)
    yield data[: len(data) // 2] + b"\xff" * 500 + data[len(data) // 2 :]


def survives(reader: Reader, path: str, data: bytes) -> None:
    """Whatever happened to the file, reading it says something and raises nothing."""
    for version in damaged(data):
        reader.claims(path, version[:HEAD])
        got = read(reader, path, version)
        assert reader.kind is Kind.CONFIG or got.columns or got.faults or got.content
