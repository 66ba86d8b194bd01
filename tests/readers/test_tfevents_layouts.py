"""All ways of decoding give exactly what the plainest decoder gives, intact file or not."""

from __future__ import annotations

import io
import math
import random
import struct
from collections.abc import Callable, Iterator

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tfevents as tb
from tests.support import tfevents_reference as reference
from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Column, Fault, Item
from trainproof.readers.interface import Options
from trainproof.readers.tfevents import TfEvents, Tuning
from trainproof.readers.tfevents.bulkcrc import change, length_crcs, mask_all
from trainproof.readers.tfevents.framing import length_crc, masked

Records = Iterator[bytes]

TAGS = [
    f"{split}/{name * (1 + i % 3)}"
    for split in ("train", "val")
    for i, name in enumerate(("loss", "lr", "grad_norm", "acc", "mfu"))
]


def noise(seed: int) -> Callable[[], float]:
    return random.Random(seed).random


def period(steps: int = 60, stride: int = 1) -> Records:
    rand = noise(1)
    for s in range(steps):
        for i, tag in enumerate(TAGS):
            yield tb.scalar(tag, rand(), s * stride, tb.WALL + s + i / 1000)


def wide_steps() -> Records:
    """Steps of one to seven bytes and more, so the records' lengths change on the way."""
    return period(60, 2**44)


def growing_steps() -> Records:
    for power in range(1, 50):
        for s in range(12):
            yield tb.scalar("loss", float(s), 2**power + s)


def shuffled() -> Records:
    rand = random.Random(2)
    for s in range(60):
        for tag in rand.sample(TAGS, len(TAGS)):
            yield tb.scalar(tag, rand.random(), s, tb.WALL + rand.random())


def cadence() -> Records:
    rand = noise(3)
    for s in range(130):
        for tag in TAGS[:3]:
            yield tb.scalar(tag, rand(), s)
        if s % 10 == 9:
            for tag in TAGS[3:]:
                yield tb.scalar(tag, rand(), s)
        if s % 50 == 49:
            yield tb.scalar("epoch", s / 50, s)


def many_tags() -> Records:
    rand = noise(4)
    for s in range(12):
        for i in range(200):
            yield tb.scalar(f"layer{i // 4}/{'wgua'[i % 4]}", rand(), s)


def many_values() -> Records:
    rand = noise(5)
    for s in range(150):
        values = [tb.simple(tag, rand()) for tag in TAGS]
        yield tb.event(tb.summary(*values), step=s, wall=tb.WALL + s)


def very_many_values() -> Records:
    for s in range(60):
        values = [tb.simple(f"w{i}", float(i + s)) for i in range(70)]
        yield tb.event(tb.summary(*values), step=s)


def tensors() -> Records:
    rand = noise(6)
    for s in range(100):
        for tag in TAGS[:4]:
            yield tb.scalar2(tag, rand(), s, tb.WALL + s)


def listed_tensors() -> Records:
    rand = noise(7)
    for s in range(150):
        for tag in TAGS[:3]:
            proto = tb.number(1, 1) + tb.block(2, b"") + tb.block(5, struct.pack("<f", rand()))
            yield tb.event(tb.summary(tb.tensor(tag, proto)), step=s)


def doubles_and_integers() -> Records:
    rand = noise(8)
    for s in range(130):
        proto = tb.tensor_content(tb.DOUBLE, struct.pack("<d", rand()))
        yield tb.event(tb.summary(tb.tensor("loss", proto)), step=s)
        proto = tb.number(1, 3) + tb.number(7, s - 60)
        yield tb.event(tb.summary(tb.tensor("count", proto)), step=s)
        yield tb.scalar("lr", rand(), s)


def negative_steps() -> Records:
    for s in range(-200, 200):
        yield tb.scalar("loss", s / 7, s)


def no_steps() -> Records:
    for s in range(300):
        yield tb.scalar(TAGS[s % 3], s / 7, 0, tb.WALL + s)


def not_finite() -> Records:
    odd = [math.nan, math.inf, -math.inf, -0.0, 1e-45]
    for s in range(200):
        yield tb.scalar("loss", odd[s % 5], s)
        yield tb.event(tb.summary(tb.simple_raw("raw", b"\x01\0\x80\x7f")), step=s)


def tag_twice_in_a_cycle() -> Records:
    for s in range(120):
        yield tb.scalar("loss", s + 0.25, s)
        yield tb.scalar("lr", s + 0.5, s)
        yield tb.scalar("loss", s + 0.75, s)


def tag_twice_in_an_event() -> Records:
    for s in range(200):
        values = tb.simple("loss", s + 0.25), tb.simple("lr", 1.0), tb.simple("loss", s + 0.5)
        yield tb.event(tb.summary(*values), step=s)


def unknown_fields() -> Records:
    for s in range(200):
        value = tb.number(70, s % 2) + tb.simple("loss", float(s)) + tb.block(71, b"new")
        yield tb.event(tb.summary(value), tb.block(50, b"later"), step=s)


def mixed() -> Records:
    for s in range(60):
        for tag in TAGS[:6]:
            yield tb.scalar(tag, s / 3, s)
        if s % 7 == 0:
            yield tb.event(tb.summary(tb.histogram("weights", 300)), step=s)
        if s % 30 == 0:
            yield tb.event(tb.summary(tb.image("sample", 70_000)), step=s)


def equal_lengths() -> Records:
    """Scalars, two integers and histograms of one record length, in no order."""
    rand = random.Random(9)
    for s in range(128, 500):
        kind = rand.randrange(4)
        if kind == 0:
            yield tb.event(tb.summary(tb.block(1, b"hi") + tb.block(5, b"\x32\x01x")), step=s)
        else:
            yield tb.scalar("abc"[kind - 1] * 2, s / 3, s)


def equal_lengths_of_other_steps() -> Records:
    """Counts of epochs and of steps in one file: a shorter tag makes up for a longer step."""
    for s in range(120):
        yield tb.scalar("abcde", s / 3, 1 + s)
        yield tb.scalar("abcd", s / 7, 128 + s)
        yield tb.scalar("abc", s / 9, 20_000 + s)
        yield tb.scalar2("ab", s / 5, 1 + s)


def restated_numbers() -> Records:
    """Step and wall time stated again behind the summary, where they count."""
    for s in range(200):
        late = tb.fixed64(1, struct.pack("<d", s / 2)) + tb.number(2, s % 100)
        yield tb.event(tb.summary(tb.simple("loss", float(s))), late, step=s)


def many_irregular() -> Records:
    """More records that have no template than are decoded singly within a block."""
    for s in range(2500):
        proto = tb.tensor_content(19, struct.pack("<e", s % 7))
        yield tb.event(tb.summary(tb.tensor("half", proto)), step=s)
        yield tb.scalar("loss", s / 3, s)


def many_shapes() -> Records:
    """A thousand tags of one length in no order."""
    rand = random.Random(10)
    for s in range(3000):
        yield tb.scalar(f"t{rand.randrange(1000):03}", s / 3, 200)


LARGE = [many_irregular, many_shapes]
LAYOUTS = [
    period, wide_steps, growing_steps, shuffled, cadence, many_tags, many_values,
    very_many_values, tensors, listed_tensors, doubles_and_integers, negative_steps, no_steps,
    not_finite, tag_twice_in_a_cycle, tag_twice_in_an_event, unknown_fields, mixed,
    equal_lengths, equal_lengths_of_other_steps, restated_numbers,
]  # fmt: skip

WAYS = {
    "repeating": Tuning(),
    "repeating, small blocks": Tuning(block=4096, small=1 << 30),
    "repeating, blocks": Tuning(block=12_000, small=1 << 30),
    "repeating while it pays": Tuning(block=50_000, small=0, large=1 << 30, patience=3000),
    "periodic, small blocks": Tuning(block=4096, small=0, large=0),
    "periodic": Tuning(block=50_000, small=0, large=0),
    "periodic, one block": Tuning(small=0, large=0),
    "scattered, small blocks": Tuning(block=10_000, small=0, large=0, hopeless=0, dense=1),
    "scattered, one block": Tuning(small=0, large=0, hopeless=0, dense=1),
}


def read(data: bytes, tuning: Tuning) -> list[Item]:
    artifact = Artifact("/runs", "a.tfevents", len(data), Kind.LOG, "tfevents")
    return list(TfEvents(tuning=tuning).read(artifact, io.BytesIO(data), Options()))


def assert_equal(data: bytes, tuning: Tuning) -> None:
    """The same points in the same order, and the same fault at the same byte."""
    expected, items = reference.decode(data), read(data, tuning)
    columns = [item for item in items if isinstance(item, Column)]
    assert [column.tag for column in columns] == sorted(expected.points)
    for column in columns:
        steps, walls, values = zip(*expected.points[column.tag], strict=True)
        np.testing.assert_array_equal(column.steps, steps)
        np.testing.assert_array_equal(column.walls, walls)
        np.testing.assert_array_equal(column.values, values)
    found = [item for item in items if isinstance(item, Fault)]
    assert [str(fault.code) for fault in found] == [expected.fault] * bool(expected.fault)
    assert all(f"byte {expected.at}" in fault.detail for fault in found)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", LAYOUTS + LARGE, ids=lambda layout: layout.__name__)
def test_every_way_gives_the_same(layout: Callable[[], Records], way: str) -> None:
    assert_equal(tb.event_file(layout()), WAYS[way])


FILES = {layout.__name__: tb.event_file(layout()) for layout in LAYOUTS if layout is not mixed}


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_flipped_bit_is_found_at_the_same_record(data: st.DataObject) -> None:
    file = bytearray(FILES[data.draw(st.sampled_from(sorted(FILES)))])
    bit = data.draw(st.integers(0, 8 * len(file) - 1))
    file[bit // 8] ^= 1 << bit % 8
    assert reference.decode(bytes(file)).fault == "corrupt"
    assert_equal(bytes(file), WAYS[data.draw(st.sampled_from(sorted(WAYS)))])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_cut_leaves_the_same_records(data: st.DataObject) -> None:
    file = FILES[data.draw(st.sampled_from(sorted(FILES)))]
    cut = file[: data.draw(st.integers(12, len(file)))]
    assert_equal(cut, WAYS[data.draw(st.sampled_from(sorted(WAYS)))])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_bytes_damaged_under_right_checksums_parse_the_same(data: st.DataObject) -> None:
    """Damage that no checksum shows: what is a message is read alike, what is not ends it."""
    records = list(data.draw(st.sampled_from(LAYOUTS[:-2]))())
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(records) - 1))
        payload = bytearray(records[index][12:-4])
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        records[index] = tb.frame(bytes(payload))
    assert_equal(tb.event_file(records), WAYS[data.draw(st.sampled_from(sorted(WAYS)))])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=8), st.sampled_from(sorted(WAYS)))
def test_arbitrary_payloads_parse_the_same(payloads: list[bytes], way: str) -> None:
    assert_equal(tb.event_file(map(tb.frame, payloads)), WAYS[way])


# ---- checksums in bulk


def test_the_masked_checksum_is_that_of_the_format() -> None:
    assert google_crc32c.value(b"123456789") == 0xE3069283
    assert masked(0) == 0xA282EAD8
    assert masked(0x00008000) == 0xA282EAD9
    assert masked(0x00000001) == 0xA284EAD8


def test_the_checksums_of_all_short_lengths_are_those_of_each() -> None:
    lengths = [0, 1, 24, 255, 256, 4096, 65_535]
    assert length_crcs()[lengths].tolist() == [length_crc(length) for length in lengths]


@settings(max_examples=50, deadline=None)
@given(st.binary(min_size=20, max_size=90), st.data())
def test_a_change_of_bytes_changes_the_checksum_as_the_tables_say(
    message: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(message) - 8))
    values = np.array(data.draw(st.lists(st.floats(), min_size=1, max_size=5)))
    blank = message[:at] + bytes(8) + message[at + 8 :]
    expected = [
        masked(google_crc32c.value(message[:at] + value.tobytes() + message[at + 8 :]))
        for value in values
    ]
    crcs = change(values, len(message) - 1 - at, 8) ^ np.uint32(google_crc32c.value(blank))
    assert mask_all(crcs).tolist() == expected
