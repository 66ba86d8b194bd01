"""Several at once give what one after the other would."""

from __future__ import annotations

import io
import random
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import pickles as p
from tests.support.saved import safetensors_bytes, write
from tests.support.zips import torch_zip
from trainproof.checkpoints import LIMITS
from trainproof.checkpoints.draft import Item
from trainproof.checkpoints.reader import read_checkpoint
from trainproof.checkpoints.threads import LARGE, in_threads
from trainproof.model.tensors import TensorInfo


def test_results_come_in_the_order_of_the_items() -> None:
    assert in_threads(lambda number: number * number, iter(range(100)), 100) == [
        number * number for number in range(100)
    ]
    assert in_threads(str, iter(()), 0) == []


def test_items_are_made_by_one_thread_at_a_time() -> None:
    inside: list[int] = []

    def items() -> Iterator[int]:
        for number in range(200):
            inside.append(threading.get_ident())
            assert len(inside) == 1
            inside.pop()
            yield number

    assert in_threads(str, items(), 200) == [str(number) for number in range(200)]


def test_what_the_first_item_raises_is_raised() -> None:
    def work(number: int) -> int:
        if number in (3, 5):
            raise ValueError(number)
        return number

    for _ in range(20):
        with pytest.raises(ValueError, match="3"):
            in_threads(work, iter(range(10)), 10)
    before = threading.active_count()
    with pytest.raises(ValueError, match="3"):
        in_threads(work, iter(range(10)), 10)
    assert threading.active_count() == before


def values(count: int, seed: int) -> bytes:
    made = random.Random(seed).randbytes(4 * count)
    return struct.pack("<f", float("nan")) + made[4:]


def torch_file() -> bytes:
    """Large and small storages in turn, tied and transposed views among them."""
    large, small = LARGE // 4 + 3, 12
    counts = {str(number): (large, small)[number % 2] for number in range(8)}
    tensors = {f"l.{key}.weight": p.tensor(key, [count]) for key, count in counts.items()}
    tensors["tied"] = tensors["l.2.weight"]
    tensors["turned"] = p.tensor("4", (2, 1000), stride=(1, 2), count=counts["4"])
    tensors["gaps"] = p.tensor("6", (50,), stride=(700,), count=counts["6"])
    return torch_zip(
        p.pickle(p.dict_(tensors)),
        {key: values(count, int(key)) for key, count in counts.items()},
    )


def safetensors_file() -> bytes:
    counts = [LARGE // 4 + 1, 5, LARGE // 2, 7, LARGE // 4]
    return safetensors_bytes(
        {f"l.{n}.weight": [float(n), float("inf")] * (count // 2) for n, count in enumerate(counts)}
    )


def read(stream: object, name: str) -> list[Item]:
    return list(read_checkpoint(stream, name, limits=LIMITS))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["m.pt", "m.safetensors"])
def test_a_file_is_read_as_a_stream_is_that_only_one_may_read(tmp_path: Path, name: str) -> None:
    data = torch_file() if name == "m.pt" else safetensors_file()
    alone = read(io.BytesIO(data), name)
    with write(tmp_path / name, data).open("rb") as stream:
        assert read(stream, name) == alone
    tensors = [one for one in alone if isinstance(one, TensorInfo)]
    assert len(tensors) == (11 if name == "m.pt" else 5)
    assert all(one.stats is not None and one.stats.nonfinite for one in tensors[:3])


def test_damage_is_told_of_the_storages_that_have_it(tmp_path: Path) -> None:
    data = bytearray(torch_file())
    for place in (2_000_000, 3_000_000, len(data) - 1_500_000):
        data[place] ^= 1
    alone = read(io.BytesIO(bytes(data)), "m.pt")
    with write(tmp_path / "m.pt", bytes(data)).open("rb") as stream:
        assert read(stream, "m.pt") == alone
