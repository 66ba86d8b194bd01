"""What the event reader claims, yields and refuses."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterable

import numpy as np
import pytest

from tests.support import tfevents as tb
from trainproof.model.artifact import Artifact, Content, Kind
from trainproof.model.data import Axis, Column, Fault, FaultCode, Item, NotJudgeable
from trainproof.readers.interface import HEAD, Options
from trainproof.readers.tfevents import Limits, TfEvents, Tuning

NAME = "run/events.out.tfevents.1700000000.host.1.0"


def read(data: bytes, reader: TfEvents | None = None) -> list[Item]:
    artifact = Artifact("/runs", NAME, len(data), Kind.LOG, "tfevents")
    return list((reader or TfEvents()).read(artifact, io.BytesIO(data), Options()))


def columns(items: Iterable[Item]) -> dict[str, Column]:
    return {item.tag: item for item in items if isinstance(item, Column)}


def faults(items: Iterable[Item]) -> list[Fault]:
    return [item for item in items if isinstance(item, Fault)]


def tensor_value(proto: bytes, plugin: str | None = "scalars") -> list[float]:
    """The values read from one Event whose only Summary.Value holds this tensor."""
    record = tb.event(tb.summary(tb.tensor("x", proto, plugin)), step=1)
    return [v for c in columns(read(tb.event_file([record]))).values() for v in c.values.tolist()]


# ---- what is claimed


def test_an_event_file_is_claimed_whatever_its_name() -> None:
    head = tb.event_file([tb.scalar("loss", 1.0, 1)])[:HEAD]
    assert TfEvents().claims("upload/blob-17", head)


def test_the_name_without_a_suffix_that_catboost_writes_is_claimed() -> None:
    assert TfEvents().claims("catboost_info/learn/events.out.tfevents", tb.version())


def test_the_name_that_sagemaker_writes_is_claimed() -> None:
    assert TfEvents().claims("000000000000_worker_0.tfevents", tb.version())


def test_a_first_record_with_scalars_but_without_a_version_is_claimed() -> None:
    assert TfEvents().claims("blob", tb.scalar("loss", 1.0, 1))


def test_a_record_file_of_examples_is_not_claimed() -> None:
    example = tb.frame(tb.block(1, tb.block(1, tb.block(1, b"label"))))
    assert not TfEvents().claims("train-00000.tfrecord", example)


def test_a_first_record_longer_than_the_head_is_claimed_by_its_name_only() -> None:
    head = tb.event(tb.block(4, bytes(2 * HEAD)))[:HEAD]
    assert TfEvents().claims(NAME, head)
    assert not TfEvents().claims("blob", head)


@pytest.mark.parametrize("damaged", [3, 9, 15, 30])
def test_a_damaged_first_record_is_claimed_by_its_name_only(damaged: int) -> None:
    head = bytearray(tb.version())
    head[damaged] ^= 16
    assert TfEvents().claims(NAME, bytes(head))
    assert not TfEvents().claims("blob", bytes(head))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
        b"<!DOCTYPE html>\n<html>",
        b"\n  <html><body>404</body></html>",
        b'<?xml version="1.0"?><Error>',
    ],
)
def test_what_another_layer_names_is_not_claimed(head: bytes) -> None:
    assert not TfEvents().claims(NAME, head)


@pytest.mark.parametrize("path", ["tools/read_tfevents.py", "tfevents", "a.tfevents.d/x.txt"])
def test_a_name_that_only_mentions_event_files_is_not_claimed(path: str) -> None:
    assert not TfEvents().claims(path, b"import sys\n" * 9)


# ---- columns


def test_a_tag_becomes_a_column_with_steps_values_and_wall_times() -> None:
    data = tb.event_file(tb.scalar("loss", 0.5 / (s + 1), s * 10, 1e9 + s) for s in range(4))
    (column,) = read(data)
    assert isinstance(column, Column)
    assert column.tag == "loss"
    assert column.axis is Axis.STEP
    assert column.steps.tolist() == [0, 10, 20, 30]
    assert column.values.tolist() == [0.5, 0.25, float(np.float32(0.5 / 3)), 0.125]
    assert column.walls is not None
    assert column.walls.tolist() == [1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3]
    assert column.lines is None
    assert (column.steps.dtype, column.values.dtype) == (np.int64, np.float64)


def test_columns_come_sorted_by_tag_with_the_raw_tag() -> None:
    tags = ["val/Loss ", "Loss/train", "损失"]
    items = read(tb.event_file(tb.scalar(tag, 1.0, 1) for tag in tags))
    assert [item.tag for item in items if isinstance(item, Column)] == sorted(tags)


def test_a_tag_that_is_no_text_is_spelled_with_escapes() -> None:
    value = tb.block(1, b"loss\xff") + tb.fixed32(2, struct.pack("<f", 1.0))
    assert list(columns(read(tb.event_file([tb.event(tb.summary(value))])))) == ["loss\\xff"]


def test_steps_that_go_back_and_repeat_stay_in_log_order() -> None:
    steps = [1, 2, 3, 2, 2, 7, -5, 0]
    data = tb.event_file(tb.scalar("r", float(i), s) for i, s in enumerate(steps))
    assert columns(read(data))["r"].steps.tolist() == steps
    assert columns(read(data))["r"].values.tolist() == list(range(8))


def test_nan_and_infinities_are_kept() -> None:
    data = tb.event_file(tb.scalar("x", v, 1) for v in (math.nan, math.inf, -math.inf, -0.0))
    values = columns(read(data))["x"].values
    assert math.isnan(values[0])
    assert values[1:].tolist() == [math.inf, -math.inf, 0.0]


def test_a_step_of_six_bytes_is_read() -> None:
    data = tb.event_file(tb.scalar("x", 1.0, 2**40 + s) for s in range(3))
    assert columns(read(data))["x"].steps.tolist() == [2**40, 2**40 + 1, 2**40 + 2]


def test_several_values_of_one_event_share_its_step() -> None:
    record = tb.event(tb.summary(tb.simple("a", 1.0), tb.simple("b", 2.0)), step=7)
    found = columns(read(tb.event_file([record])))
    assert {tag: (c.steps.tolist(), c.values.tolist()) for tag, c in found.items()} == {
        "a": ([7], [1.0]),
        "b": ([7], [2.0]),
    }


def test_all_else_is_stepped_over() -> None:
    records = [
        tb.event(tb.block(4, bytes(3000))),  # graph_def
        tb.event(tb.summary(tb.histogram("h", 900), tb.image("i", 5000)), step=1),
        tb.event(tb.block(6, b"a log message"), step=1),
        tb.scalar("loss", 2.0, 1),
    ]
    items = read(tb.event_file(records))
    assert list(columns(items)) == ["loss"]
    assert len(items) == 1


def test_of_several_members_of_the_oneof_the_last_counts() -> None:
    value = tb.simple("x", 3.0) + tb.block(5, b"")
    assert columns(read(tb.event_file([tb.event(tb.summary(value))]))) == {}


def test_unknown_fields_change_nothing() -> None:
    value = tb.number(77, 5) + tb.simple("x", 3.0) + tb.block(99, b"new")
    record = tb.event(tb.fixed64(50, bytes(8)), tb.summary(value), tb.fixed32(51, bytes(4)), step=4)
    column = columns(read(tb.event_file([record])))["x"]
    assert (column.steps.tolist(), column.values.tolist()) == ([4], [3.0])


def test_a_field_stated_twice_counts_where_it_is_stated_last() -> None:
    late = tb.fixed64(1, struct.pack("<d", 5.0)) + tb.number(2, 99)
    records = [tb.scalar("x", 1.0, 1)]
    records += [tb.event(tb.summary(tb.simple("x", 2.0)), late, step=s) for s in (2, 3)]
    column = columns(read(tb.event_file(records)))["x"]
    assert column.steps.tolist() == [1, 99, 99]
    assert column.walls is not None
    assert column.walls.tolist() == [tb.WALL, 5.0, 5.0]


# ---- tensors


@pytest.mark.parametrize(
    ("dtype", "raw", "value"),
    [
        (1, struct.pack("<f", 0.75), 0.75),
        (2, struct.pack("<d", 1 / 3), 1 / 3),
        (3, struct.pack("<i", -70_000), -70_000.0),
        (4, b"\xc8", 200.0),
        (5, struct.pack("<h", -300), -300.0),
        (6, b"\xff", -1.0),
        (9, struct.pack("<q", -(2**40)), -(2.0**40)),
        (10, b"\x01", 1.0),
        (14, b"\xc0\x3f", 1.5),
        (17, struct.pack("<H", 65_535), 65_535.0),
        (19, struct.pack("<e", 0.5), 0.5),
        (22, struct.pack("<I", 2**32 - 1), 2.0**32 - 1),
        (23, struct.pack("<Q", 2**63), 2.0**63),
    ],
)
def test_tensor_content_is_read_as_its_type_says(dtype: int, raw: bytes, value: float) -> None:
    assert tensor_value(tb.tensor_content(dtype, raw)) == [value]


@pytest.mark.parametrize(
    ("dtype", "field", "value"),
    [
        (1, tb.block(5, struct.pack("<f", 0.75)), 0.75),
        (1, tb.fixed32(5, struct.pack("<f", 0.75)), 0.75),
        (2, tb.block(6, struct.pack("<d", 1 / 3)), 1 / 3),
        (2, tb.fixed64(6, struct.pack("<d", 1 / 3)), 1 / 3),
        (3, tb.block(7, tb.varint(-70_000)), -70_000.0),
        (4, tb.number(7, 200), 200.0),
        (6, tb.number(7, -1), -1.0),
        (9, tb.number(10, -(2**40)), -(2.0**40)),
        (10, tb.number(11, 1), 1.0),
        (14, tb.number(13, 0x3FC0), 1.5),
        (19, tb.block(13, tb.varint(0x3800)), 0.5),
        (22, tb.number(16, 2**32 - 1), 2.0**32 - 1),
        (23, tb.block(17, tb.varint(2**63)), 2.0**63),
    ],
)
def test_a_listed_value_is_read_packed_or_not(dtype: int, field: bytes, value: float) -> None:
    assert tensor_value(tb.number(1, dtype) + tb.block(2, b"") + field) == [value]


@pytest.mark.parametrize(
    ("dtype", "field"),
    [(1, tb.number(5, 2**27)), (2, tb.fixed32(6, b"abcd")), (3, tb.fixed32(7, b"abcd"))],
)
def test_a_listed_value_of_another_wire_type_is_an_unknown_field(dtype: int, field: bytes) -> None:
    assert tensor_value(tb.number(1, dtype) + field) == [0.0]


def test_a_tensor_without_a_shape_is_a_scalar_and_without_a_value_is_zero() -> None:
    assert tensor_value(tb.number(1, tb.DOUBLE)) == [0.0]


@pytest.mark.parametrize(
    "proto",
    [
        tb.number(1, 1) + tb.block(2, tb.block(2, tb.number(1, 1))) + tb.block(4, bytes(4)),
        tb.number(1, 7) + tb.block(8, b"text"),
        tb.number(1, 8) + tb.block(4, bytes(8)),
        tb.tensor_content(tb.FLOAT, bytes(8)),
        tb.number(1, 1) + tb.block(5, bytes(8)),
        tb.number(1, 3) + tb.number(7, 1) + tb.number(7, 2),
        tb.number(1, 3) + tb.block(7, b"\x01\x02"),
    ],
    ids=["rank 1", "string", "complex", "two floats", "two packed", "two listed", "two varints"],
)
def test_a_tensor_that_is_no_numeric_scalar_is_stepped_over(proto: bytes) -> None:
    assert tensor_value(proto) == []


@pytest.mark.parametrize("plugin", ["hparams", "text", "pr_curves"])
def test_a_tensor_of_another_plugin_is_no_scalar(plugin: str) -> None:
    assert tensor_value(tb.tensor_content(tb.FLOAT, bytes(4)), plugin) == []


def test_a_tensor_that_names_no_plugin_is_a_scalar() -> None:
    assert tensor_value(tb.tensor_content(tb.FLOAT, struct.pack("<f", 2.0)), None) == [2.0]


# ---- files without scalars


@pytest.mark.parametrize(
    "records",
    [[], [tb.event(tb.summary(tb.histogram("h", 100)), step=1)], [tb.event(tb.block(4, b"graph"))]],
    ids=["version only", "histogram", "graph"],
)
def test_a_file_without_scalars_is_named_header_only(records: list[bytes]) -> None:
    (item,) = read(tb.event_file(records))
    assert isinstance(item, NotJudgeable)
    assert item.content is Content.HEADER_ONLY


# ---- faults


def test_a_cut_file_is_read_up_to_the_cut() -> None:
    data = tb.event_file(tb.scalar("loss", 1.0, s) for s in range(1, 4))
    cut = data[:-10]
    column, fault = read(cut)
    assert isinstance(column, Column)
    assert column.steps.tolist() == [1, 2]
    last = len(data) - len(tb.scalar("loss", 1.0, 3))
    assert fault == Fault(
        FaultCode.TRUNCATED,
        NAME,
        f"the file ends within the record at byte {last}; {len(cut) - last} bytes are lost",
        fatal=False,
    )


def test_a_file_cut_in_a_record_header_is_truncated() -> None:
    data = tb.event_file([tb.scalar("loss", 1.0, 1)])
    _, fault = read(data + tb.scalar("loss", 1.0, 2)[:5])
    assert isinstance(fault, Fault)
    assert (fault.code, fault.fatal) == (FaultCode.TRUNCATED, False)
    assert f"byte {len(data)}; 5 bytes" in fault.detail


def test_a_cut_before_any_scalar_leaves_a_fault_and_a_header() -> None:
    fault, rest = read(tb.version() + tb.scalar("loss", 1.0, 1)[:20])
    assert isinstance(fault, Fault)
    assert (fault.code, fault.fatal) == (FaultCode.TRUNCATED, False)
    assert rest == NotJudgeable(Content.HEADER_ONLY, "no scalar in any record")


def corrupted(offset: int) -> tuple[bytes, int]:
    """Three records of which the second has one bit flipped; where that record begins."""
    before = tb.event_file([tb.scalar("loss", 1.0, 1)])
    bad = bytearray(tb.scalar("loss", 2.0, 2))
    bad[offset] ^= 1
    return before + bytes(bad) + tb.scalar("loss", 3.0, 3), len(before)


@pytest.mark.parametrize(
    ("offset", "what"),
    [
        (0, "record length"),
        (7, "record length"),
        (8, "record length"),
        (12, "record data"),
        (30, "record data"),
        (-1, "record data"),
    ],
)
def test_a_flipped_bit_ends_the_reading_at_its_record(offset: int, what: str) -> None:
    data, at = corrupted(offset)
    column, fault = read(data)
    assert isinstance(column, Column)
    assert column.values.tolist() == [1.0]
    detail = f"record at byte {at}: the checksum of the {what} does not match"
    assert fault == Fault(FaultCode.CORRUPT, NAME, detail, fatal=True)


@pytest.mark.parametrize("garbage", [b"x", b"not a log\n", b"\0" * 40, bytes(range(256)) * 8])
def test_what_is_only_named_an_event_file_is_loudly_corrupt(garbage: bytes) -> None:
    (fault,) = read(garbage)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.fatal) == (FaultCode.CORRUPT, True)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x09\0",
        b"\xff" * 12,
        b"\x10" + b"\x80" * 11,
        b"\x2a\x7f\x0a",
        b"\x2b",
        b"\x02\0",
        tb.block(5, tb.block(1, b"\x0a\x05x")),
        tb.block(5, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        tb.fixed64(1, bytes(8)) + b"\x10" + b"\xff" * 10,
        tb.block(5, tb.block(1, tb.block(8, tb.number(1, 3) + tb.block(7, b"\x80")))),
    ],
)
def test_a_record_with_right_checksums_that_is_no_event_is_corrupt(payload: bytes) -> None:
    before = tb.event_file([tb.scalar("loss", 1.0, 1)])
    column, fault = read(before + tb.frame(payload) + tb.scalar("loss", 2.0, 2))
    assert isinstance(column, Column)
    assert len(column) == 1
    detail = f"record at byte {len(before)}: the record is not a valid Event message"
    assert fault == Fault(FaultCode.CORRUPT, NAME, detail, fatal=True)


def test_a_step_without_an_end_in_a_record_like_the_others_is_corrupt() -> None:
    known = tb.scalar("loss", 1.0, 1)
    endless = tb.fixed64(1, bytes(8)) + b"\x10" + b"\xff" * (len(known) - 16 - 10)
    column, fault = read(tb.event_file([known, known, tb.frame(endless)]))
    assert isinstance(column, Column)
    assert len(column) == 2
    assert isinstance(fault, Fault)
    assert fault.code is FaultCode.CORRUPT


def test_deep_nesting_is_not_entered() -> None:
    deep = b""
    for _ in range(5000):
        deep = tb.block(1, deep)
    record = tb.event(tb.block(5, tb.block(1, tb.block(9, deep) + tb.simple("x", 1.0))), step=1)
    assert columns(read(tb.event_file([record])))["x"].values.tolist() == [1.0]


class Unplugged(io.BytesIO):
    """A disk that goes away after 64 bytes."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() >= 64:
            raise OSError(5, "Input/output error")
        return super().read(min(size or 0, 64))

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self.tell() >= 64:
            raise OSError(5, "Input/output error")
        return super().readinto(buffer[:64])


@pytest.mark.parametrize("told", [0, 9, 10_000])
def test_an_error_of_the_disk_is_a_fault_of_its_own(told: int) -> None:
    data = tb.event_file(tb.scalar("loss", 1.0, s) for s in range(9))
    artifact = Artifact("/runs", NAME, told, Kind.LOG, "tfevents")
    (fault,) = TfEvents().read(artifact, Unplugged(data), Options())
    assert isinstance(fault, Fault)
    assert (fault.code, fault.fatal) == (FaultCode.IO, True)
    assert "Input/output error" in fault.detail


class Dripping(io.BytesIO):
    """A stream that gives a few bytes at a time, as one that is decompressed may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 50))

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return super().readinto(buffer[:50])


@pytest.mark.parametrize("stream", [io.BytesIO, Dripping])
@pytest.mark.parametrize("told", [0, 1, 500, -1, 1 << 40])
def test_the_size_of_a_file_is_no_promise(told: int, stream: type[io.BytesIO]) -> None:
    """It may have grown, or be compressed; -1 stands for what it is."""
    data = tb.event_file(tb.scalar("loss", float(s), s) for s in range(500))
    size = len(data) if told < 0 else told
    artifact = Artifact("/runs", NAME, size, Kind.LOG, "tfevents")
    reader = TfEvents(tuning=Tuning(block=5000))
    (column,) = reader.read(artifact, stream(data), Options())
    assert isinstance(column, Column)
    assert column.steps.tolist() == list(range(500))


# ---- limits


def too_large(data: bytes, limits: Limits) -> tuple[dict[str, Column], str]:
    items = read(data, TfEvents(limits))
    (fault,) = faults(items)
    assert (fault.code, fault.fatal) == (FaultCode.TOO_LARGE, True)
    return columns(items), fault.detail


def test_a_length_is_not_believed_before_its_checksum() -> None:
    data = tb.event_file([tb.scalar("x", 1.0, 1)]) + struct.pack("<QI", 2**62, 0) + bytes(64)
    (fault,) = faults(read(data))
    assert fault.code is FaultCode.CORRUPT


def test_a_huge_length_with_the_right_checksum_is_refused() -> None:
    length = struct.pack("<Q", 2**62)
    header = length + tb.checksum(length)
    found, detail = too_large(tb.event_file([tb.scalar("x", 1.0, 1)]) + header, Limits())
    assert len(found["x"]) == 1
    assert f"has {2**62} bytes, more than the limit of" in detail


def test_a_large_length_that_the_file_does_not_have_is_a_cut() -> None:
    length = struct.pack("<Q", 100 << 20)
    header = length + tb.checksum(length)
    (fault,) = faults(read(tb.event_file([tb.scalar("x", 1.0, 1)]) + header + bytes(100)))
    assert fault.code is FaultCode.TRUNCATED


def test_more_tags_than_the_limit_are_refused() -> None:
    data = tb.event_file(tb.scalar(f"t{i}", 1.0, 1) for i in range(9))
    found, detail = too_large(data, Limits(tags=8))
    assert len(found) == 9
    assert "more than 8 tags" in detail


def test_more_scalars_in_a_record_than_the_limit_are_refused() -> None:
    record = tb.event(tb.summary(*[tb.simple("x", 1.0)] * 9), step=1)
    found, detail = too_large(tb.event_file([record]), Limits(tags=8))
    assert found == {}
    assert "more than 8 scalars" in detail


def test_a_tag_longer_than_the_limit_is_refused() -> None:
    _, detail = too_large(tb.event_file([tb.scalar("x" * 1025, 1.0, 1)]), Limits())
    assert "more than 1024 bytes" in detail


def test_more_points_than_the_limit_are_refused() -> None:
    data = tb.event_file(tb.scalar("x", 1.0, s) for s in range(11))
    _, detail = too_large(data, Limits(points=10))
    assert "more than 10 points" in detail


def test_a_record_longer_than_a_block_is_read() -> None:
    big = tb.event(tb.summary(tb.image("i", 3 << 20), tb.simple("x", 5.0)), step=3)
    data = tb.event_file([tb.scalar("x", 1.0, 1), big, tb.scalar("x", 2.0, 4)])
    items = read(data, TfEvents(tuning=Tuning(block=10_000)))
    assert columns(items)["x"].values.tolist() == [1.0, 5.0, 2.0]
    assert faults(items) == []


def test_settings_alone_are_no_measurement() -> None:
    """Lightning writes these before a training that then dies."""
    settings = [tb.scalar("hp_metric", -1.0, 0), tb.scalar("lr-Adam", 1e-4, 0)]
    items = read(tb.event_file(settings))
    assert items == [
        NotJudgeable(Content.HEADER_ONLY, "nothing was measured, only hp_metric, lr-Adam")
    ]
    measured = columns(read(tb.event_file([*settings, tb.scalar("train_loss", 1.0, 0)])))
    assert list(measured) == ["hp_metric", "lr-Adam", "train_loss"]
    assert list(columns(read(tb.event_file([*settings, tb.scalar("lr-Adam", 1e-5, 9)]))))
