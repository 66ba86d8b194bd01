"""The layout of ``torch.save``, honest files first, then each way in which one can lie."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support import pickles as p
from tests.support.checkpoints import read
from tests.support.zips import Part, archive, torch_parts, torch_zip
from trainproof.checkpoints import Limits
from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    DefectCode,
    Depth,
    Extent,
    Group,
    Integrity,
    Kind,
    Layout,
    OptimizerState,
    Presence,
    Safety,
    Scalar,
    TensorInfo,
    TensorStats,
)

W = np.array([[1.0, -2.0, 0.0], [np.nan, np.inf, 3.0]], np.float32)
STATE = p.pickle(p.dict_({"w": p.tensor("0", (2, 3))}))
PLAIN = torch_zip(STATE, {"0": W.tobytes()})
ONE = p.pickle(p.dict_({"w": p.tensor("0", (4,))}))
FOUR = np.arange(4, dtype=np.float32).tobytes()
EVIL = p.pickle(p.dict_({"x": p.EVIL, "w": p.tensor("0", (4,))}))


def test_a_state_dict_is_read_with_the_statistics_of_each_tensor() -> None:
    got = read(PLAIN)
    assert got.faults == ()
    assert got.tensors["w"] == TensorInfo(
        name="w",
        dtype="float32",
        shape=(2, 3),
        nbytes=24,
        artifact="model.pt",
        stats=TensorStats(6, 1, 1, 0, 1, -2.0, 3.0, 3.0, 3, bfloat16=True),
        storage="0",
        crc=zlib.crc32(W.tobytes()),
        place=PLAIN.index(W.tobytes()),
    )
    facts = got.facts
    assert (facts.layout, facts.extent) == (Layout.TORCH_ZIP, Extent.READ)
    assert (facts.integrity, facts.safety) == (Integrity.VERIFIED, Safety.SAFE)
    assert (facts.weights_only, facts.keys, facts.defects) == (True, ("w",), ())


def test_the_structure_can_be_read_without_the_values() -> None:
    got = read(PLAIN, depth=Depth.STRUCTURE)
    assert got.tensors["w"].stats is None
    assert got.facts.extent is Extent.STRUCTURE_ONLY
    assert got.facts.reason == "read to the depth structure"
    assert got.facts.integrity is Integrity.NOT_CHECKED
    assert read(PLAIN, depth=Depth.INTEGRITY).facts.integrity is Integrity.VERIFIED


def test_tied_transposed_and_strided_views_of_one_storage() -> None:
    data = np.arange(12, dtype=np.float32)
    whole = p.tensor("0", (3, 4))
    state = {
        "a": whole,
        "tied": whole,
        "transposed": p.tensor("0", (4, 3), count=12, stride=(1, 4)),
        "column": p.tensor("0", (3,), count=12, offset=1, stride=(4,)),
        "row": p.tensor("0", (4,), count=12, offset=4),
    }
    got = read(torch_zip(p.pickle(p.dict_(state)), {"0": data.tobytes()}))
    ranges = {n: (t.stats.min, t.stats.max) for n, t in got.tensors.items() if t.stats}
    assert ranges == {
        "a": (0.0, 11.0),
        "tied": (0.0, 11.0),
        "transposed": (0.0, 11.0),
        "column": (1.0, 9.0),
        "row": (4.0, 7.0),
    }
    assert {t.storage for t in got.tensors.values()} == {"0"}
    assert got.tensors["row"].crc is None


def test_an_optimizer_with_its_step_counts() -> None:
    state = p.dict_(
        [
            (p.integer(0), p.dict_({"step": p.tensor("0", ()), "exp_avg": p.tensor("1", (2,))})),
            (p.integer(1), p.dict_({"step": p.number(9.0)})),
        ]
    )
    groups = p.list_(p.dict_({"lr": p.number(0.5), "params": p.list_(*map(p.integer, (0, 1, 2)))}))
    root = {
        "model": p.dict_({"fc.weight": p.tensor("1", (2,))}),
        "optimizer": p.dict_({"state": state, "param_groups": groups}),
        "global_step": p.integer(10),
    }
    step = np.array(10, np.float32).tobytes()
    got = read(torch_zip(p.pickle(p.dict_(root)), {"0": step, "1": bytes(8)}))
    assert got.facts.optimizers == (
        OptimizerState("optimizer", 1, 3, 2, 0, steps=(9.0, 10.0), lrs=(0.5,)),
    )
    assert Scalar("global_step", 10) in got.facts.scalars
    assert {n: t.group for n, t in got.tensors.items()} == {
        "model/fc.weight": Group.MODEL,
        "optimizer/state/0/step": Group.OPTIMIZER,
        "optimizer/state/0/exp_avg": Group.OPTIMIZER,
    }


def test_big_endian_files() -> None:
    parts = torch_parts(ONE, {"0": np.arange(4, dtype=">f4").tobytes()})
    parts[1] = replace(parts[1], data=b"big")
    stats = read(archive(parts)).tensors["w"].stats
    assert stats is not None
    assert (stats.min, stats.max) == (0.0, 3.0)


def test_an_untyped_storage_with_the_type_beside_it() -> None:
    rebuilt = p.typed_tensor("0", 3, "float8_e5m2", 1)
    got = read(torch_zip(p.pickle(rebuilt), {"0": bytes([0x3C, 0x7C, 0x7D])}))
    assert got.tensors[""].dtype == "float8_e5m2"
    assert got.tensors[""].stats == TensorStats(3, 1, 1, 0, 0, 1.0, 1.0, 1.0, 1)


def test_a_tensor_saved_without_its_values_is_listed_and_not_measured() -> None:
    meta = p.call(
        "torch._utils",
        "_rebuild_meta_tensor_no_storage",
        p.global_("torch", "float16"),
        p.tuple_(p.integer(3)),
        p.tuple_(p.integer(1)),
        b"\x89",
    )
    got = read(torch_zip(p.pickle(p.dict_({"w": meta})), {}))
    assert got.tensors["w"].kind is Kind.META
    assert got.tensors["w"].unread == "it was saved without its values"
    assert got.facts.extent is Extent.STRUCTURE_ONLY


def test_a_sparse_tensor_is_measured_by_its_values() -> None:
    layout = p.call("torch.serialization", "_get_layout", p.text("torch.sparse_coo"))
    size = p.call("torch", "Size", p.tuple_(p.integer(3), p.integer(3)))
    indices = p.tensor("1", (2, 4), kind="LongStorage")
    for parts, found in (((indices, p.tensor("0", (4,)), size), True), ((indices,), False)):
        sparse = p.call("torch._utils", "_rebuild_sparse_tensor", layout, p.tuple_(*parts))
        state = p.pickle(p.dict_({"s": sparse}))
        got = read(torch_zip(state, {"0": FOUR, "1": bytes(64)}))
        assert ("s" in got.tensors) is found
    assert [one.name for one in got.facts.unread] == ["s"]


def test_64_bit_directory_entries() -> None:
    parts = [replace(part, wide=True) for part in torch_parts(ONE, {"0": FOUR})]
    for wide in (False, True):
        got = read(archive(parts, wide=wide))
        assert got.facts.defects == ()
        assert got.facts.integrity is Integrity.VERIFIED


def test_a_64_bit_end_record_that_is_missing_or_misplaced() -> None:
    data = archive(torch_parts(ONE, {"0": FOUR}), wide=True)
    at = data.index(b"PK\6\7")
    for damaged in (data[:at] + b"xx" + data[at + 2 :], data[: at + 8] + b"\7" + data[at + 9 :]):
        got = read(damaged)
        assert [f.code for f in got.faults] == [FaultCode.CORRUPT]
        assert got.codes == [DefectCode.CONTAINER_LIE]


def test_script_modules_name_their_tensors_as_modules_do() -> None:
    layer = p.global_("__torch__.Net", "Net") + p.EMPTY_TUPLE + b"\x81"
    layer += p.dict_({"weight": p.tensor("0", (4,))}) + p.BUILD
    root = p.global_("__torch__.Top", "Top") + p.EMPTY_TUPLE + b"\x81"
    root += p.dict_({"fc": layer}) + p.BUILD
    parts = torch_parts(p.pickle(root), {"0": FOUR})
    parts += [Part("m/constants.pkl", p.pickle(p.EMPTY_TUPLE)), Part("m/code/x.py", b"pass")]
    got = read(archive(parts))
    assert list(got.tensors) == ["fc.weight"]
    assert (got.facts.layout, got.facts.safety) == (Layout.TORCH_SCRIPT, Safety.SAFE)
    assert got.facts.code == ("m/code/x.py",)


def test_the_tensors_of_a_package() -> None:
    pickle = p.pickle(p.dict_({"w": p.tensor("7", (4,))}))
    parts = [
        Part("m/.data/extern_modules", b"torch"),
        Part("m/.data/7.storage", FOUR),
        Part("m/model/model.pkl", pickle),
        Part("m/model/net.py", b"pass"),
    ]
    got = read(archive(parts))
    assert got.facts.layout is Layout.TORCH_PACKAGE
    assert got.facts.code == ("m/model/net.py",)
    stats = got.tensors["model/model.pkl/w"].stats
    assert stats is not None
    assert stats.max == 3.0


# --- damage -----------------------------------------------------------------------------------


def test_a_flipped_bit_in_the_weights_is_found_by_the_checksum() -> None:
    at = PLAIN.index(W.tobytes())
    got = read(PLAIN[:at] + bytes([PLAIN[at] ^ 1]) + PLAIN[at + 1 :])
    assert [(d.code, d.where) for d in got.facts.defects] == [(DefectCode.CRC, "m/data/0")]
    assert got.facts.integrity is Integrity.BROKEN


def test_a_file_written_without_checksums_is_not_damaged() -> None:
    parts = [replace(part, crc=0) for part in torch_parts(ONE, {"0": FOUR})]
    got = read(archive(parts))
    assert (got.facts.integrity, got.facts.defects) == (Integrity.ABSENT, ())


def test_storages_that_were_skipped_are_placeholders() -> None:
    parts = [
        replace(part, crc=0) if "/data/" in part.name else part
        for part in torch_parts(ONE, {"0": bytes([0] * 15 + [1])})
    ]
    got = read(archive(parts))
    assert got.codes == [DefectCode.PLACEHOLDER]
    assert got.facts.integrity is Integrity.BROKEN


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_a_cut_file_names_the_tensors_that_are_whole(kept: float) -> None:
    keys = [str(number) for number in range(10)]
    state = {f"w{key}": p.tensor(key, (256,)) for key in keys}
    data = np.ones(256, np.float32).tobytes()
    whole = torch_zip(p.pickle(p.dict_(state)), dict.fromkeys(keys, data))
    cut = whole[: int(len(whole) * kept)]
    expected = []
    for key in keys:
        start = whole.index(f"m/data/{key}".encode()) + len(f"m/data/{key}")
        there = min(max(len(cut) - start, 0), 1024)
        state_of = Presence.CUT if there else Presence.ABSENT
        expected.append(Presence.WHOLE if there == 1024 else state_of)
    got = read(cut)
    assert [t.presence for t in got.tensors.values()] == expected
    assert [t.stats is not None for t in got.tensors.values()] == [
        one is Presence.WHOLE for one in expected
    ]
    assert [f.code for f in got.faults] == [FaultCode.TRUNCATED]
    assert got.codes == [DefectCode.TRUNCATED]


def test_a_save_that_failed_leaves_only_its_markers() -> None:
    parts = [Part("m/version", b"3\n"), Part("m/byteorder", b"little")]
    got = read(archive([*parts, Part("m/.data/serialization_id", b"1" * 40)]))
    assert got.codes == [DefectCode.SAVE_FAILED]
    assert (got.facts.extent, got.facts.reason) == (Extent.NOT_CHECKED, "nothing was saved")


@pytest.mark.parametrize(
    ("storages", "codes"),
    [
        ({}, [DefectCode.STORAGE_MISSING]),
        ({"0": FOUR[:8]}, [DefectCode.STORAGE_SIZE]),
        ({"0": FOUR * 2}, [DefectCode.STORAGE_SIZE]),
        ({"0": FOUR, "7": b"1234"}, [DefectCode.STORAGE_ORPHAN]),
    ],
)
def test_storages_are_compared_with_what_the_pickle_says(
    storages: dict[str, bytes], codes: list[DefectCode]
) -> None:
    assert read(torch_zip(ONE, storages)).codes == codes


def test_one_storage_described_in_two_ways() -> None:
    state = {"w": p.tensor("0", (4,)), "v": p.tensor("0", (4,), kind="IntStorage")}
    assert read(torch_zip(p.pickle(p.dict_(state)), {"0": FOUR})).codes == [
        DefectCode.STORAGE_CONFLICT
    ]


@pytest.mark.parametrize(
    "tensor",
    [
        p.tensor("0", (5,), count=4),
        p.tensor("0", (4,), offset=-1),
        p.tensor("0", (2, 2), count=4, stride=(1,)),
        p.tensor("0", (1 << 40, 1 << 40), count=4, stride=(0, 0)),
    ],
)
def test_views_that_torch_refuses_are_defects(tensor: bytes) -> None:
    got = read(torch_zip(p.pickle(p.dict_({"w": tensor})), {"0": FOUR}))
    assert DefectCode.TENSOR_LAYOUT in got.codes
    assert got.tensors == {}


def test_four_numbers_expanded_to_billions_are_measured_and_said_to_be() -> None:
    state = p.pickle(p.dict_({"w": p.tensor("0", (1 << 31, 4), count=4, stride=(0, 1))}))
    got = read(torch_zip(state, {"0": FOUR}))
    assert got.codes == [DefectCode.TENSOR_EXPANDED]
    stats = got.tensors["w"].stats
    assert stats is not None
    assert (stats.elements, stats.zeros) == (1 << 33, 1 << 31)


def test_a_compressed_storage_is_measured_and_said_to_be_compressed() -> None:
    parts = [replace(part, deflate="/data/" in part.name) for part in torch_parts(ONE, {"0": FOUR})]
    got = read(archive(parts))
    assert got.codes == [DefectCode.COMPRESSED_STORAGE]
    assert got.tensors["w"].stats is not None


def test_a_compressed_bomb_is_refused_before_it_inflates() -> None:
    parts = torch_parts(ONE, {"0": FOUR})
    parts[0] = replace(parts[0], data=bytes(65 << 20), deflate=True)
    got = read(archive(parts))
    assert got.facts.extent is Extent.NOT_CHECKED
    assert got.facts.safety is Safety.UNKNOWN


# --- lies -------------------------------------------------------------------------------------


def _evil_parts() -> list[Part]:
    return torch_parts(EVIL, {"0": FOUR})


def _with(number: int, **changes: object) -> bytes:
    parts = _evil_parts()
    parts[number] = replace(parts[number], **changes)  # type: ignore[arg-type]
    return archive(parts)


@pytest.mark.parametrize(
    "data",
    [
        archive(_evil_parts()),
        _with(0, crc=1),
        _with(0, name="m/DATA.PKL"),
        _with(0, local_name="m/harmless"),
        _with(0, local_flags=1),
        _with(0, local_method=8),
        archive([*_evil_parts(), Part("m/data.pkl", ONE)]),
        archive([Part("m/data.pkl", ONE), *_evil_parts()]),
        archive([*torch_parts(ONE, {"0": FOUR}), Part("m/other.pkl", EVIL)]),
        archive([*torch_parts(ONE + EVIL, {"0": FOUR})]),
        EVIL + PLAIN,
    ],
    ids=[
        "plain",
        "bad-crc",
        "upper-case",
        "other-local-name",
        "local-encrypted",
        "local-method",
        "first-of-two",
        "second-of-two",
        "another-pickle",
        "second-pickle",
        "before-the-zip",
    ],
)
def test_a_payload_is_unsafe_wherever_it_hides(data: bytes) -> None:
    got = read(data)
    assert got.facts.safety is Safety.UNSAFE
    assert got.facts.weights_only is not True or DefectCode.PICKLE_TAIL in got.codes


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (archive(torch_parts(ONE, {"0": FOUR}), b"hello"), DefectCode.CONTAINER_ODD),
        (PLAIN + b"more", DefectCode.CONTAINER_ODD),
        (archive([*torch_parts(ONE, {"0": FOUR}), Part("n/x", b"")]), DefectCode.CONTAINER_ODD),
        (archive([*torch_parts(ONE, {"0": FOUR}), Part("m/../x", b"")]), DefectCode.ENTRY_NAME),
        (archive([*torch_parts(ONE, {"0": FOUR}), Part("/etc/x", b"")]), DefectCode.ENTRY_NAME),
        (archive([*torch_parts(ONE, {"0": FOUR}), Part("m\\x", b"")]), DefectCode.ENTRY_NAME),
        (
            archive([*torch_parts(ONE, {"0": FOUR}), Part("m/l", b"", attributes=0o120777 << 16)]),
            DefectCode.ENTRY_NAME,
        ),
        (
            archive([*torch_parts(ONE, {"0": FOUR}), Part("m/e", b"x", flags=1)]),
            DefectCode.ENCRYPTED,
        ),
    ],
)
def test_oddities_of_the_archive_do_not_stop_the_reading(data: bytes, code: DefectCode) -> None:
    got = read(data)
    assert code in got.codes
    assert got.tensors["w"].stats is not None


def test_numbers_of_the_end_record_that_do_not_fit_are_refused() -> None:
    data = archive(torch_parts(ONE, {"0": FOUR}), entries=60_000)
    got = read(data)
    assert [f.code for f in got.faults] == [FaultCode.CORRUPT]
    assert got.codes == [DefectCode.CONTAINER_LIE]
    assert got.facts.extent is Extent.STRUCTURE_ONLY


def test_a_size_beyond_the_file_is_a_lie() -> None:
    parts = torch_parts(ONE, {"0": FOUR})
    parts[2] = replace(parts[2], size=1 << 30, wide=True)
    got = read(archive(parts))
    assert DefectCode.CONTAINER_LIE in got.codes
    assert got.facts.safety is Safety.UNSAFE


def test_more_entries_than_the_limit_are_not_read() -> None:
    got = read(PLAIN, limits=Limits(entries=3))
    assert [f.code for f in got.faults] == [FaultCode.TOO_LARGE]
    assert got.facts.extent is not Extent.READ


def test_overlapping_entries_are_read_within_a_budget() -> None:
    parts = torch_parts(ONE, {"0": FOUR})
    got = read(archive(parts), limits=Limits(unpacked=0, rescan=0))
    assert got.facts.extent is Extent.NOT_CHECKED
    assert got.facts.integrity is Integrity.NOT_CHECKED
    assert got.facts.defects == ()


def test_every_prefix_of_a_file_is_read_without_an_exception() -> None:
    for length in range(0, len(PLAIN), 7):
        got = read(PLAIN[:length])
        assert got.facts.extent is not Extent.READ


def test_any_flipped_byte_is_read_without_an_exception() -> None:
    for at in range(len(PLAIN)):
        changed = bytearray(PLAIN)
        changed[at] ^= 0xFF
        assert read(bytes(changed)).facts.size == len(PLAIN)


def test_overlapping_views_beyond_the_budget_stay_unread() -> None:
    many = {f"w{i}": p.tensor("0", (1 << 20,), count=1 << 21, offset=i) for i in range(40)}
    data = torch_zip(p.pickle(p.dict_(many)), {"0": bytes(4 << 21)})
    got = read(data)
    read_ones = sum(t.stats is not None for t in got.tensors.values())
    assert 20 <= read_ones < 40
    assert {t.unread for t in got.tensors.values()} == {"", "more overlapping views than the limit"}


def test_a_byte_order_that_does_not_exist() -> None:
    parts = torch_parts(ONE, {"0": FOUR})
    parts[1] = replace(parts[1], data=b"middle")
    assert read(archive(parts)).codes == [DefectCode.BYTE_ORDER]


def test_a_directory_in_the_middle_of_weights_is_no_second_end_record() -> None:
    chance = struct.pack("<4sHHHHIIH", b"PK\5\6", 9, 9, 9, 9, 1 << 30, 1 << 30, 9)
    state = p.pickle(p.dict_({"w": p.tensor("0", (22,), kind="ByteStorage")}))
    assert read(torch_zip(state, {"0": chance})).facts.defects == ()


def test_a_zip_file_that_is_stored_inside_is_no_second_end_of_this_one() -> None:
    inside = archive([Part("x/y", b"z")])
    assert read(archive([*torch_parts(ONE, {"0": FOUR}), Part("m/extra.pt", inside)])).codes == []
