"""Reading is bounded, and a file that shrinks meanwhile is a fault."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.support import pickles as p
from tests.support.checkpoints import read
from tests.support.zips import torch_zip
from trainproof.checkpoints.reader import read_checkpoint
from trainproof.checkpoints.source import Damage, Source
from trainproof.model.data import Fault, FaultCode


def test_a_file_of_the_operating_system_and_a_stream_give_the_same(tmp_path: Path) -> None:
    data = torch_zip(p.pickle(p.dict_({"w": p.tensor("0", (4,))})), {"0": bytes(16)})
    path = tmp_path / "m.pt"
    path.write_bytes(data)
    with path.open("rb") as stream:
        items = list(read_checkpoint(stream, "model.pt"))
    got = read(data)
    assert items == [*got.tensors.values(), got.facts]


def test_pieces_and_parts() -> None:
    source = Source.of(io.BytesIO(bytes(range(20))))
    assert [bytes(piece) for piece in source.chunks(2, 7, 3)] == [b"\2\3\4", b"\5\6\7", b"\x08"]
    inner = source.part(5, 4)
    assert (inner.size, inner.read(1, 2), inner.head(9)) == (4, b"\6\7", b"\5\6\7\x08")


@pytest.mark.parametrize(("at", "count"), [(-1, 2), (0, -1), (19, 2), (21, 0)])
def test_nothing_outside_of_the_file_is_read(at: int, count: int) -> None:
    source = Source.of(io.BytesIO(bytes(20)))
    with pytest.raises(Damage):
        source.read(at, count)
    with pytest.raises(Damage):
        source.part(at, count)


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    path.write_bytes(bytes(100))
    with path.open("rb") as stream:
        source = Source.of(stream)
        path.write_bytes(bytes(10))
        with pytest.raises(Damage, match="ended at byte 10 while it was read"):
            source.read(0, 50)


def test_a_stream_that_cannot_be_read_is_a_fault() -> None:
    class Broken(io.BytesIO):
        def seek(self, offset: int, whence: int = 0, /) -> int:
            raise OSError(5, "Input/output error")

    faults = [one for one in read_checkpoint(Broken(), "m.pt") if isinstance(one, Fault)]
    assert [(fault.code, fault.detail) for fault in faults] == [
        (FaultCode.IO, "Input/output error")
    ]


def test_each_read_is_told_before_it_is_done() -> None:
    beats: list[int] = []
    source = Source.of(io.BytesIO(bytes(10)), beats.append)
    assert [len(piece) for piece in source.chunks(0, 10, 4)] == [4, 4, 2]
    assert source.part(2, 4).read(0, 2) == bytes(2)
    assert beats == [4, 4, 2, 2]
