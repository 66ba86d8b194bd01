"""Arrays of Zarr: which chunk is where, and their bytes in order."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest
from backports import zstd

from tests.support.ocdbt_files import Array, chunks_of, described
from trainproof.checkpoints.source import Damage, Source
from trainproof.checkpoints.zarr import NotRead, array_of

VALUES = np.arange(35, dtype="<f4").reshape(7, 5)


def contents(stored: Mapping[str, bytes]) -> bytes:
    """All bytes of the array ``w``."""

    def get(key: str) -> Source | None:
        return Source.over(stored[key]) if key in stored else None

    array = array_of(get, "w", lambda data, _: json.loads(data))
    return b"".join(array.pieces(get))


def second(values: Array, sizes: tuple[int, ...], **more: object) -> dict[str, bytes]:
    stored = {f"w/{key}": data for key, data in chunks_of(values, sizes).items()}
    return {"w/.zarray": described(values, sizes, more), **stored}


@pytest.mark.parametrize("chunks", [(7, 5), (3, 5), (3, 2), (1, 1), (9, 9)])
def test_chunks_of_any_size_are_put_together(chunks: tuple[int, int]) -> None:
    assert contents(second(VALUES, chunks)) == VALUES.tobytes()


@pytest.mark.parametrize("values", [np.array(7, "<i4"), np.arange(9, dtype="|u1"), VALUES[None]])
def test_arrays_of_any_rank_are_read(values: Array) -> None:
    assert contents(second(values, (2,) * values.ndim)) == values.tobytes()


def test_chunks_may_be_compressed_by_zstandard() -> None:
    large = np.random.default_rng(0).standard_normal((700, 1000)).astype("<f4")
    stored = second(large, (300, 1000), compressor={"id": "zstd", "level": 1})
    packed = {k: one if k.endswith("y") else zstd.compress(one) for k, one in stored.items()}
    assert contents(packed) == large.tobytes()


@pytest.mark.parametrize("fill", [None, 0, 0.0, False])
def test_a_chunk_that_was_not_stored_is_zero(fill: object) -> None:
    stored = second(VALUES, (3, 2), fill_value=fill)
    del stored["w/0.0"]
    expected = VALUES.copy()
    expected[:3, :2] = 0
    assert contents(stored) == expected.tobytes()


@pytest.mark.parametrize("fill", [1.0, "NaN"])
def test_other_values_that_fill_are_not_made_up(fill: object) -> None:
    stored = second(VALUES, (3, 2), fill_value=fill)
    del stored["w/0.0"]
    with pytest.raises(NotRead, match="some of which are not there"):
        contents(stored)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"compressor": {"id": "blosc"}}, "compressed by blosc"),
        ({"filters": [{"id": "delta"}]}, "with filters"),
        ({"order": "F"}, "in the order of columns"),
        ({"dtype": ">f4"}, "type >f4"),
        ({"dtype": [["a", "<f4"]]}, "not measured"),
    ],
)
def test_what_is_not_read_is_named(more: dict[str, object], why: str) -> None:
    with pytest.raises(NotRead, match=why):
        contents(second(VALUES, (3, 2), **more))


@pytest.mark.parametrize(
    "more",
    [
        {"shape": "x"},
        {"shape": [7, -5]},
        {"shape": [7, True]},
        {"shape": [1 << 62, 1 << 62]},
        {"chunks": [3]},
        {"chunks": [0, 2]},
        {"chunks": None},
    ],
    ids=str,
)
def test_a_description_that_makes_no_sense_is_damaged(more: dict[str, object]) -> None:
    with pytest.raises(Damage):
        contents(second(VALUES, (3, 2), **more))


@pytest.mark.parametrize("chunks", [(3, 5), (3, 2)])
@pytest.mark.parametrize("data", [b"", bytes(4), bytes(1000)])
def test_a_chunk_of_another_size_is_damaged(chunks: tuple[int, int], data: bytes) -> None:
    with pytest.raises(Damage):
        contents({**second(VALUES, chunks), "w/1.0": data})


def test_a_chunk_that_unpacks_to_more_or_to_nothing_is_damaged() -> None:
    stored = second(VALUES, (7, 5), compressor={"id": "zstd"})
    whole = VALUES.tobytes()
    for data in (zstd.compress(bytes(1 << 24)), zstd.compress(whole)[:-3], b"no frame", whole):
        with pytest.raises(Damage):
            contents({**stored, "w/0.0": data})


def test_without_a_description_nothing_is_read() -> None:
    with pytest.raises(NotRead, match="description"):
        contents({})


# --- version 3


def third(codecs: object, chunk: tuple[int, int] = (4, 4), **more: object) -> bytes:
    said = {
        "shape": [7, 5],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [*chunk]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": codecs,
        "fill_value": 0.0,
    }
    return json.dumps({**said, **more}).encode()


PLAIN = [{"name": "bytes", "configuration": {"endian": "little"}}]


def shards(chunk: tuple[int, int], codecs: object = PLAIN) -> list[object]:
    index = [*PLAIN, {"name": "crc32c"}]
    form = {"chunk_shape": [*chunk], "codecs": codecs, "index_codecs": index}
    return [{"name": "sharding_indexed", "configuration": form}]


def test_chunks_of_the_third_version_have_keys_of_their_own() -> None:
    stored = {f"w/c/{k.replace('.', '/')}": one for k, one in chunks_of(VALUES, (4, 4)).items()}
    assert contents({"w/zarr.json": third(PLAIN), **stored}) == VALUES.tobytes()
    packed = {key: zstd.compress(one) for key, one in stored.items()}
    codecs = [*PLAIN, {"name": "zstd"}]
    assert contents({"w/zarr.json": third(codecs), **packed}) == VALUES.tobytes()


def test_shards_hold_chunks_and_a_table_of_them() -> None:
    inner = chunks_of(np.pad(VALUES, ((0, 1), (0, 3))), (2, 2))
    stored = {}
    for row, column in np.ndindex(2, 2):
        data, table = b"", b""
        for at in np.ndindex(2, 2):
            chunk = inner[f"{2 * row + at[0]}.{2 * column + at[1]}"]
            zero = not any(chunk)
            table += b"\xff" * 16 if zero else np.array([len(data), 16], "<u8").tobytes()
            data += b"" if zero else chunk
        stored[f"w/c/{row}/{column}"] = data + table + b"sum!"
    assert contents({"w/zarr.json": third(shards((2, 2))), **stored}) == VALUES.tobytes()


@pytest.mark.parametrize(
    "said",
    [
        third([{"name": "transpose"}, *PLAIN]),
        third([{"name": "bytes", "configuration": {"endian": "big"}}]),
        third([*PLAIN, {"name": "gzip"}]),
        third("x"),
        third(PLAIN, chunk_grid={"name": "rectilinear", "configuration": {"chunk_shape": [1, 1]}}),
        third(PLAIN, chunk_key_encoding={"name": "v2"}),
        third(PLAIN, data_type="float7"),
        third(shards((2, 2), [*PLAIN, {"name": "gzip"}])),
    ],
    ids=range(8),
)
def test_other_forms_of_the_third_version_are_not_read(said: bytes) -> None:
    with pytest.raises(NotRead):
        contents({"w/zarr.json": said})


def test_shards_that_are_no_whole_chunks_are_damaged() -> None:
    with pytest.raises(Damage):
        contents({"w/zarr.json": third(shards((3, 2)))})


@pytest.mark.parametrize("data", [b"", bytes(67), b"\x7f" * 68])
def test_a_shard_that_is_cut_or_points_beyond_itself_is_damaged(data: bytes) -> None:
    with pytest.raises(Damage):
        contents({"w/zarr.json": third(shards((2, 2))), "w/c/0/0": data})
