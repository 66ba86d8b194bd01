"""Leaps over periods: they happen, and give what decoding record by record gives, bit for bit."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest

from tests.support import tfevents as tb
from trainproof.readers.tfevents.framing import Damage
from trainproof.readers.tfevents.limits import Limits
from trainproof.readers.tfevents.points import Points
from trainproof.readers.tfevents.records import Known, RecordDecoder
from trainproof.readers.tfevents.repeats import Repeating

Records = Iterator[bytes]
Columns = list[tuple[str, bytes, bytes, bytes]]


class Told(msgspec.Struct):
    """All that decoding gives: columns to the last bit, where it ended, and why."""

    columns: Columns
    end: int
    damage: tuple[str, str] | None


class Counting(RecordDecoder):
    """Also counts the bytes it decoded, and how often it was asked what a record is."""

    def __init__(self, points: Points, limits: Limits) -> None:
        super().__init__(points, limits)
        self.decoded = self.asked = 0

    def advance(self, data: bytes, at: int, stop: int) -> int:
        after = super().advance(data, at, stop)
        self.decoded += after - at
        return after

    def known(self, data: bytes, at: int) -> Known | None:
        self.asked += 1
        return super().known(data, at)


def told(points: Points, advance: Callable[[], int]) -> Told:
    end, damage = -1, None
    try:
        end = advance()
    except Damage as found:
        end, damage = found.at, (str(found.code), found.what)
    columns = [
        (
            c.tag,
            c.steps.tobytes(),
            b"" if c.walls is None else c.walls.tobytes(),
            c.values.tobytes(),
        )
        for c in points.columns()
    ]
    return Told(columns, end, damage)


def singly(data: bytes) -> Told:
    points = Points()
    records = RecordDecoder(points, Limits())
    return told(points, lambda: records.advance(data, 0, len(data)))


def leaping(data: bytes) -> tuple[Told, Counting]:
    points = Points()
    records = Counting(points, Limits())
    return told(points, lambda: Repeating(records).advance(data, 0)), records


def in_windows(data: bytes, size: int) -> Told:
    """The same with no more than about ``size`` bytes in hand."""
    points = Points()
    decoder = Repeating(RecordDecoder(points, Limits()))

    def advance() -> int:
        base = done = 0
        while base < len(data):
            try:
                done = decoder.advance(data[base : base + size], 0)
            except Damage as damage:
                damage.at += base
                raise
            if not done:
                break
            base += done
        return base

    return told(points, advance)


def assert_equal(data: bytes) -> Counting:
    found, records = leaping(data)
    assert found == singly(data)
    return records


TAGS = ["train/loss", "train/grad_norm", "lr", "epoch"]


def steady(steps: Iterable[int] = range(128, 400), tags: list[str] = TAGS) -> Records:
    rand = random.Random(1)
    for step in steps:
        for i, tag in enumerate(tags):
            yield tb.scalar(tag, rand.gauss(0, 9), step, tb.WALL + rand.random() + i)


# ---- what is leapt over


def a_tag() -> Records:
    return steady(range(1, 1000), ["RMSE"])


def steps_of_one_byte() -> Records:
    return steady(range(1, 128))


def steps_that_repeat() -> Records:
    return steady([s // 3 for s in range(900, 2000)])


def steps_that_go_back() -> Records:
    return steady([*range(500, 700), *range(300, 500)])


def no_steps() -> Records:
    return steady([0] * 300)


def steps_of_seven_bytes() -> Records:
    return steady([2**44 + 999 * s for s in range(300)])


def many_tags() -> Records:
    return steady(range(200, 240), [f"layer{i}/norm" for i in range(40)])


def tensors() -> Records:
    rand = random.Random(2)
    for step in range(128, 400):
        for tag in TAGS:
            yield tb.scalar2(tag, rand.random(), step, tb.WALL + step)


def a_tag_twice() -> Records:
    for step in range(128, 400):
        for place, tag in enumerate(["loss", "lr", "loss", "loss", "acc"]):
            yield tb.scalar(tag, step + place / 8, step, tb.WALL + step)


def steps_of_two_widths() -> Records:
    """Epochs beside steps, in a period of records whose steps are not equally long."""
    for s in range(300):
        yield tb.scalar("loss", s / 3, 20_000 + s)
        yield tb.scalar("val", s / 7, s % 100 + 1)
        yield tb.scalar("acc", s / 9, 200 + s)


def evaluations() -> Records:
    for step in range(128, 528):
        yield from steady([step])
        if step % 10 == 9:
            yield from steady([step], ["eval/loss", "eval/acc"])


def a_tag_of_both() -> Records:
    """As transformers does it: the epoch goes with training and with evaluation."""
    for step in range(128, 900):
        yield from steady([step], ["loss", "grad_norm", "lr", "epoch"])
        if step % 10 == 9:
            yield from steady([step], ["eval_loss", "eval_runtime", "eval_acc", "epoch"])


def odd_floats() -> Records:
    """NaNs of all kinds, infinities, denormals: bits, not values, are compared."""
    odd = [b"\1\0\x80\x7f", b"\1\0\xc0\xff", b"\0\0\x80\xff", b"\0\0\0\x80", b"\1\0\0\0"]
    for s in range(600):
        yield tb.event(tb.summary(tb.simple_raw("x", odd[s % 5])), step=200 + s)


PERIODIC = [
    a_tag, steps_of_one_byte, steps_that_repeat, steps_that_go_back, no_steps,
    steps_of_seven_bytes, many_tags, tensors, a_tag_twice, steps_of_two_widths, evaluations,
    a_tag_of_both, odd_floats,
]  # fmt: skip


@pytest.mark.parametrize("layout", PERIODIC, ids=lambda layout: layout.__name__)
def test_periods_are_leapt_over_and_give_the_same(layout: Callable[[], Records]) -> None:
    data = tb.event_file(layout())
    records = assert_equal(data)
    assert records.decoded < len(data) / 2


@pytest.mark.parametrize("size", [7_000, 9_001, 20_000])
@pytest.mark.parametrize("layout", PERIODIC, ids=lambda layout: layout.__name__)
def test_windows_change_nothing(layout: Callable[[], Records], size: int) -> None:
    data = tb.event_file(layout())
    assert in_windows(data, size) == singly(data)


# ---- what is not


def negative_steps() -> Records:
    """Of ten bytes, which do not fit a word."""
    return steady(range(-300, -1))


def doubles() -> Records:
    for s in range(300):
        proto = tb.tensor_content(tb.DOUBLE, struct.pack("<d", s / 3))
        yield tb.event(tb.summary(tb.tensor("loss", proto)), step=200 + s)


def several_values() -> Records:
    for s in range(200):
        yield tb.event(tb.summary(tb.simple("a", s / 3), tb.simple("b", s / 7)), step=200 + s)


@pytest.mark.parametrize("layout", [negative_steps, doubles, several_values])
def test_other_records_are_decoded_singly(layout: Callable[[], Records]) -> None:
    data = tb.event_file(layout())
    assert assert_equal(data).decoded == len(data)


@pytest.mark.parametrize("border", [1, 128, 16_384, 2**21])
def test_a_step_that_takes_another_byte_ends_a_period_and_begins_one(border: int) -> None:
    data = tb.event_file(steady(range(max(border - 250, 0), border + 250)))
    records = assert_equal(data)
    assert records.decoded < len(data) / 2


ODD = {
    "another tag": lambda: tb.scalar("train/acc", 1.0, 300),
    "another tag of equal length": lambda: tb.scalar("train/lose", 1.0, 300),
    "a histogram": lambda: tb.event(tb.summary(tb.histogram("h", 90)), step=300),
    "no step": lambda: tb.scalar("train/loss", 1.0, 0),
    "an overlong step": lambda: with_step(b"\x85\x00"),
    "a step that does not end where others do": lambda: with_step(b"\x85\x85"),
    "a shorter step": lambda: with_step(b"\x05\x08"),
    "a negative step": lambda: tb.scalar("train/loss", 1.0, -1),
    "numbers stated again": lambda: tb.event(
        tb.summary(tb.simple("train/loss", 3.0)), tb.number(2, 7), step=300
    ),
    "a record of no bytes": lambda: tb.frame(b""),
    "no message": lambda: tb.frame(b"\xff" * 34),
}


def with_step(raw: bytes) -> bytes:
    """A record like those of ``steady`` but for these two bytes where the step is."""
    payload = bytearray(tb.scalar("train/loss", 1.0, 300)[12:-4])
    assert payload[9] == 0x10
    payload[10:12] = raw
    return tb.frame(bytes(payload))


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [800, 801, 802, 803, 1087])
def test_what_breaks_a_period_is_decoded_as_ever(odd: str, place: int) -> None:
    records = list(steady())
    for at in (place, -place):
        data = tb.event_file([*records[:at], ODD[odd](), *records[at:]])
        assert_equal(data)
        records[at] = ODD[odd]()
        assert_equal(tb.event_file(records))


def test_records_in_any_order_give_the_same() -> None:
    kinds = [
        lambda s: tb.scalar("loss", s / 3, s),
        lambda s: tb.scalar("lr", s / 5, s),
        lambda s: tb.scalar2("acc", s / 7, s),
        lambda s: tb.scalar("val/loss", s / 9, s // 10),
    ]
    for seed in range(60):
        rand = random.Random(seed)
        period = rand.choices(kinds, k=rand.randint(1, 12))
        odd = rand.choice([0.0, 0.001, 0.01, 0.1])
        first, stride = rand.choice([0, 100, 16_000]), rand.choice([0, 1, 10, 1000])
        records = [
            (rand.choice(kinds) if rand.random() < odd else kind)(first + s * stride)
            for s in range(600 // len(period))
            for kind in period
        ]
        assert_equal(tb.event_file(records))


# ---- damage


FILE = tb.event_file(steady(range(128, 190)))
ROW = len(b"".join(steady([150])))


def spread(first: int, last: int) -> list[int]:
    """Every place in one period and in the last one, and one in 29 of all."""
    middle = first + (last - first) // 2
    return sorted({*range(first, last, 29), *range(middle, middle + ROW), *range(last - ROW, last)})


def test_the_file_that_is_damaged_is_leapt_over() -> None:
    assert leaping(FILE)[1].decoded < len(FILE) / 2


def test_a_flipped_bit_is_found_at_the_same_byte() -> None:
    rand = random.Random(3)
    for at in spread(0, len(FILE)):
        damaged = bytearray(FILE)
        damaged[at] ^= 1 << rand.randrange(8)
        found, _ = leaping(bytes(damaged))
        assert found == singly(bytes(damaged))
        assert found.damage is not None


def test_a_cut_ends_the_reading_at_the_same_byte() -> None:
    for end in spread(0, len(FILE)):
        assert_equal(FILE[:end])


def test_damage_under_right_checksums_gives_the_same() -> None:
    rand = random.Random(4)
    records = list(steady(range(128, 190)))
    for _ in range(300):
        index = rand.randrange(len(records))
        payload = bytearray(records[index][12:-4])
        payload[rand.randrange(len(payload))] = rand.randrange(256)
        damaged = [*records[:index], tb.frame(bytes(payload)), *records[index + 1 :]]
        assert_equal(tb.event_file(damaged))


# ---- what nearly repeats


def nearly(every: int) -> Records:
    rand = random.Random(5)
    for s in range(12_000):
        tag = rand.choice("uvwxyz") if s % every == 0 else "abc"[s % 3]
        yield tb.scalar(tag * 4, s / 3, 200 + s % 50)


@pytest.mark.parametrize("every", [2, 5, 20, 60, 120])
def test_little_is_looked_at_in_vain(every: int) -> None:
    records = assert_equal(tb.event_file(nearly(every)))
    assert records.asked < 12_000 / 16


def test_without_leaps_it_gives_up_when_told_to() -> None:
    data = tb.event_file(nearly(5))
    points = Points()
    decoder = Repeating(RecordDecoder(points, Limits()), patience=50_000)
    at = decoder.advance(data, 0)
    assert decoder.gave_up
    assert 50_000 < at < 100_000
    while decoder.gave_up:
        at = decoder.advance(data, at)
    assert at == len(data)
    assert told(points, lambda: at) == singly(data)
