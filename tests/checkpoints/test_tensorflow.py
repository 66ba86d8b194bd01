import struct

import google_crc32c

from tests.support.checkpoints import Read, read
from tests.support.tensorflow_files import DATA, FLOAT, TEXT, VALUES, entry, index
from tests.support.tfevents import masked, varint
from trainproof.model.tensors import DefectCode, Extent, Integrity, Layout, Presence


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
    broken[5] = 9  # shares nine bytes with the key before it, which is empty
    made = read(bytes(broken), "ckpt-1.index")
    assert [one.detail for one in made.faults] == ["a key of the table is damaged"]


def test_the_data_file_alone_says_where_its_list_is():
    made = read(VALUES, DATA)
    assert made.facts.reason == "its tensors are listed in the .index file"
