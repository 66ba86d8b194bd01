import struct

import google_crc32c

from tests.support.checkpoints import Read, read
from tests.support.tfevents import block, fixed32, masked, number, varint
from trainproof.model.tensors import DefectCode, Extent, Integrity, Layout, Presence

FLOAT, TEXT = 1, 7
VALUES = struct.pack("<3f", 1.0, float("nan"), -2.0)
DATA = "ckpt-1.data-00000-of-00001"


def entry(dtype: int, shape: list[int], offset: int, data: bytes, crc: int | None = None) -> bytes:
    dims = b"".join(block(2, number(1, size)) for size in shape)
    checksum = google_crc32c.value(data) if crc is None else crc
    place = number(4, offset) + number(5, len(data))
    return (
        number(1, dtype) + block(2, dims) + place + fixed32(6, struct.pack("<I", masked(checksum)))
    )


def table(pairs: dict[bytes, bytes]) -> bytes:
    """One data block, an empty meta block, an index, a footer."""
    data = _block(pairs)
    meta = _block({})
    handle = varint(0) + varint(len(data) - 5)
    index = _block({b"\xff": handle})
    footer = varint(len(data)) + varint(len(meta) - 5)
    footer += varint(len(data) + len(meta)) + varint(len(index) - 5)
    magic = struct.pack("<Q", 0xDB4775248B80FB57)
    return data + meta + index + footer.ljust(40, b"\0") + magic


def _block(pairs: dict[bytes, bytes]) -> bytes:
    """Every key shares with the one before it what it can."""
    made, last = b"", b""
    for key, value in pairs.items():
        shared = next((n for n in range(len(last), 0, -1) if key[:n] == last[:n]), 0)
        rest = key[shared:]
        made += varint(shared) + varint(len(rest)) + varint(len(value)) + rest + value
        last = key
    return made + struct.pack("<II", 0, 1) + bytes(5)


def index(**entries: bytes) -> bytes:
    named = {f"{name}/.ATTRIBUTES/VARIABLE_VALUE".encode(): one for name, one in entries.items()}
    return table({b"": number(1, 1), **dict(sorted(named.items()))})


def both(data: bytes, **entries: bytes) -> Read:
    return read(index(**entries), "ckpt-1.index", beside={DATA: data})


def test_tensors_are_read_from_the_data_files():
    made = both(VALUES, a=entry(FLOAT, [2], 0, VALUES[:8]), b=entry(FLOAT, [], 8, VALUES[8:]))
    assert made.shown == {"a": ("float32", (2,), 1), "b": ("float32", (), 0)}
    assert (made.facts.layout, made.facts.extent) == (Layout.TF_INDEX, Extent.READ)
    assert made.facts.integrity is Integrity.VERIFIED


def test_a_wrong_checksum_is_a_defect():
    made = both(VALUES, a=entry(FLOAT, [3], 0, VALUES, crc=1))
    assert made.codes == [DefectCode.CRC]
    assert made.facts.integrity is Integrity.BROKEN


def test_texts_have_a_checksum_of_their_own_form():
    lengths = google_crc32c.value(struct.pack("<I", 2))
    sealed = struct.pack("<I", masked(lengths))
    crc = google_crc32c.extend(google_crc32c.extend(lengths, sealed), b"ab")
    data = varint(2) + sealed + b"ab"
    made = both(data, t=entry(TEXT, [], 0, data, crc))
    assert made.shown == {"t": ("string", (), -1)}
    assert made.facts.integrity is Integrity.VERIFIED


def test_alone_the_index_is_structure_only():
    made = read(index(a=entry(FLOAT, [3], 0, VALUES)), "ckpt-1.index")
    assert made.shown == {"a": ("float32", (3,), -1)}
    assert made.facts.extent is Extent.STRUCTURE_ONLY
    assert made.facts.reason == "its values are in another file"


def test_a_data_file_that_is_missing_is_a_defect():
    made = read(index(a=entry(FLOAT, [3], 0, VALUES)), "ckpt-1.index", beside={})
    assert made.codes == [DefectCode.SHARD_MISSING]
    assert made.tensors["a"].presence is Presence.ABSENT


def test_a_data_file_that_is_too_short_is_a_defect():
    made = both(VALUES[:8], a=entry(FLOAT, [3], 0, VALUES))
    assert made.codes == [DefectCode.TRUNCATED]
    assert made.tensors["a"].presence is Presence.CUT


def test_an_index_that_is_cut_says_so():
    made = read(index(a=entry(FLOAT, [3], 0, VALUES))[:-1], "ckpt-1.index")
    assert made.codes == [DefectCode.TRUNCATED]
    assert made.facts.extent is Extent.NOT_CHECKED


def test_a_damaged_key_is_a_fault():
    broken = bytearray(index(a=entry(FLOAT, [3], 0, VALUES)))
    broken[0] = 9  # shares nine bytes with a key that is not there
    made = read(bytes(broken), "ckpt-1.index")
    assert [one.detail for one in made.faults] == ["a key of the table is damaged"]


def test_the_data_file_alone_says_where_its_list_is():
    made = read(VALUES, DATA)
    assert made.facts.reason == "its tensors are listed in the .index file"
