"""Several at once give what one after the other would."""

from __future__ import annotations

import io
import json
import random
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import pickles as p
from tests.support.saved import safetensors_bytes, write
from tests.support.zips import torch_zip
from trainproof.checkpoints import LIMITS
from trainproof.checkpoints.draft import Item
from trainproof.checkpoints.measure import stretches
from trainproof.checkpoints.parts import PART, Values, all_measured
from trainproof.checkpoints.reader import read_checkpoint
from trainproof.checkpoints.source import Damage, Source
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


def giant_torch_file() -> bytes:
    """One storage of three parts, with views that begin and end in any of them."""
    elements = (2 * PART + 3 * LARGE) // 4 + 5
    data = bytearray(random.Random(1).randbytes(4 * elements))
    first = PART // 4 + 77  # of the second part
    data[: 4 * first] = bytes(4 * first)
    data[4 * first : 4 * first + 4] = struct.pack("<f", float("nan"))
    key, ends = "0", {"all": 0, "from_second": PART // 4, "across": PART // 4 - 7}
    tensors = {
        name: p.tensor(key, (elements - at,), offset=at, count=elements)
        for name, at in ends.items()
    }
    tensors["few"] = p.tensor(key, (3, 4), stride=(1, 3), offset=PART // 4 - 5, count=elements)
    tensors["many_times"] = p.tensor(key, (3, PART // 4), stride=(0, 1), offset=100, count=elements)
    tensors["gaps"] = p.tensor(key, (50,), stride=(70_000,), count=elements)
    tensors["nothing"] = p.tensor(key, (0,), offset=first, count=elements)
    return torch_zip(p.pickle(p.dict_(tensors)), {key: bytes(data)})


def giant_safetensors_file() -> bytes:
    data = random.Random(2).randbytes(2 * PART + LARGE)
    halves, header = len(data) // 2, {}
    for number, dtype in enumerate(("F16", "F32")):
        shape = [halves // int(dtype[1:]) * 8]
        ends = [number * halves, (number + 1) * halves]
        header[dtype] = {"dtype": dtype, "shape": shape, "data_offsets": ends}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def read(stream: object, name: str) -> list[Item]:
    return list(read_checkpoint(stream, name, limits=LIMITS))  # type: ignore[arg-type]


FILES = {
    "m.pt": (torch_file, 11),
    "m.safetensors": (safetensors_file, 5),
    "giant.pt": (giant_torch_file, 7),
    "giant.safetensors": (giant_safetensors_file, 2),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_as_a_stream_is_that_only_one_may_read(tmp_path: Path, name: str) -> None:
    make, count = FILES[name]
    data = make()
    alone = read(io.BytesIO(data), name)
    with write(tmp_path / name, data).open("rb") as stream:
        assert read(stream, name) == alone
    tensors = [one for one in alone if isinstance(one, TensorInfo)]
    assert len(tensors) == count
    assert all(one.stats is not None and one.stats.nonfinite for one in tensors[:2])


def test_the_first_place_that_is_not_finite_is_found_in_any_part(tmp_path: Path) -> None:
    with write(tmp_path / "m.pt", giant_torch_file()).open("rb") as stream:
        tensors = {one.name: one for one in read(stream, "m.pt") if isinstance(one, TensorInfo)}
    places = {name: one.stats.first_nonfinite for name, one in tensors.items() if one.stats}
    assert places["all"] == PART // 4 + 77
    assert (places["from_second"], places["across"]) == (77, 84)
    assert places["many_times"] is None


@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fnuz", "int64", "complex64"])
@pytest.mark.parametrize("big", [False, True])
def test_parts_of_a_stretch_say_what_the_stretch_says(
    tmp_path: Path, dtype: str, big: bool
) -> None:
    data = random.Random(3).randbytes(PART + 2 * LARGE)
    several = [
        Values(dtype, 16, len(data) - 16, big),
        Values(dtype, 48, 0, big),
        Values(dtype, 64, LARGE, big),
    ]
    alone = all_measured(Source.of(io.BytesIO(data)), several)
    with write(tmp_path / "data", data).open("rb") as stream:
        made = all_measured(Source.of(stream), several)
    assert made == alone
    assert [crc for _, crc in made] == [
        zlib.crc32(data[one.start : one.start + one.nbytes]) for one in several
    ]
    assert [(stats.sampled, stats.subnormal) for stats, _ in made] == [
        (stats.sampled, stats.subnormal) for stats, _ in alone
    ]


def test_more_bytes_than_there_are_are_not_cut_into_parts(tmp_path: Path) -> None:
    with write(tmp_path / "data", bytes(LARGE)).open("rb") as stream:
        source = Source.of(stream)
        with pytest.raises(Damage, match="outside of 1048576 bytes"):
            all_measured(source, [Values("float32", 0, 1 << 62)])
        assert stretches(source, 4, 1 << 62, LARGE) is None
        assert stretches(source, 4, LARGE - 4, LARGE) is not None
    assert stretches(Source.of(io.BytesIO(bytes(LARGE))), 4, LARGE - 4, LARGE) is None


def test_a_part_that_ends_while_it_is_read_is_damage(tmp_path: Path) -> None:
    with write(tmp_path / "data", bytes(3 * PART)).open("r+b") as stream:
        source = Source.of(stream)
        stream.truncate(2 * PART)
        with pytest.raises(Damage, match=f"the file ended at byte {2 * PART}"):
            all_measured(source, [Values("float32", 0, 3 * PART)])


def test_damage_is_told_of_the_storages_that_have_it(tmp_path: Path) -> None:
    data = bytearray(torch_file())
    for place in (2_000_000, 3_000_000, len(data) - 1_500_000):
        data[place] ^= 1
    alone = read(io.BytesIO(bytes(data)), "m.pt")
    with write(tmp_path / "m.pt", bytes(data)).open("rb") as stream:
        assert read(stream, "m.pt") == alone
