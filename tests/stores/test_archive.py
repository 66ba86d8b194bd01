"""Archives of runs: what is recognised, what is unfolded, and what hostile ones cost."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainproof.model.artifact import Content
from trainproof.stores.archive import (
    INDEX,
    Format,
    Limits,
    Spooled,
    SpooledStore,
    archive_format,
    spool,
)
from trainproof.stores.interface import Entry, Passed, StoreError

FILES = {"run1/a.csv": b"step,loss\n1,2\n", "run2/b.log": b"loss 1\n" * 9000, "top.json": b"{}"}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(files: dict[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            archive.addfile(entry(name, size=len(data)), io.BytesIO(data))
        for info in extra:
            archive.addfile(info)
    return out.getvalue()


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = ""
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, link
    return info


PACKED: dict[Format, Callable[[dict[str, bytes]], bytes]] = {
    Format.ZIP: zipped,
    Format.TAR: tarred,
    Format.TAR_GZ: lambda files: gzip.compress(tarred(files)),
    Format.TAR_BZ2: lambda files: bz2.compress(tarred(files)),
    Format.TAR_XZ: lambda files: lzma.compress(tarred(files)),
}


class Unfolded:
    """An archive, spooled: what ``spool`` yielded and the store that came of it."""

    def __init__(self, place: Path, data: bytes, limits: Limits | None = None) -> None:
        archive, self.target = place / "runs.archive", place / "spool"
        archive.write_bytes(data)
        self.target.mkdir()
        self.items = list(spool(str(archive), str(self.target), limits))
        self.store = SpooledStore(str(self.target))

    @property
    def files(self) -> dict[str, bytes]:
        found = {}
        for item in self.store.walk():
            if isinstance(item, Entry):
                with self.store.open(item.path) as stream:
                    found[item.path] = stream.read()
        return found

    @property
    def passed(self) -> list[tuple[str, str, str]]:
        return [(i.path, i.content, i.detail) for i in self.items if isinstance(i, Passed)]

    @property
    def errors(self) -> list[tuple[str, str]]:
        return [(i.path, i.detail) for i in self.items if isinstance(i, StoreError)]


# --- recognition --------------------------------------------------------------------------------


@pytest.mark.parametrize("format", Format)
def test_archives_are_known_by_content_whatever_their_name(tmp_path: Path, format: Format) -> None:
    for name in ("runs", "runs.zip", "runs.tar.gz", "runs.log"):
        (tmp_path / name).write_bytes(PACKED[format](FILES))
        assert archive_format(str(tmp_path / name)) is format


def test_the_strongest_xz_is_known(tmp_path: Path) -> None:
    (tmp_path / "runs").write_bytes(lzma.compress(tarred(FILES), preset=9))
    assert archive_format(str(tmp_path / "runs")) is Format.TAR_XZ


@pytest.mark.parametrize("format", [Format.TAR_GZ, Format.TAR_BZ2, Format.TAR_XZ])
def test_a_compressed_log_is_no_archive(tmp_path: Path, format: Format) -> None:
    pack = {Format.TAR_GZ: gzip, Format.TAR_BZ2: bz2, Format.TAR_XZ: lzma}[format]
    (tmp_path / "train.log.x").write_bytes(pack.compress(FILES["run2/b.log"]))
    assert archive_format(str(tmp_path / "train.log.x")) is None


@pytest.mark.parametrize(
    "files",
    [
        {"archive/data.pkl": b"", "archive/data/0": b""},
        {"data.pkl": b""},
        {"metadata.json": b"", "config.json": b"", "model.weights.h5": b""},
        {"w.npy": b"", "b.npy": b""},
    ],
)
def test_a_zip_that_is_one_checkpoint_is_no_archive(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    (tmp_path / "model").write_bytes(zipped(files))
    assert archive_format(str(tmp_path / "model")) is None


def test_a_checkpoint_deeper_in_an_archive_of_runs_is_a_member(tmp_path: Path) -> None:
    (tmp_path / "runs.zip").write_bytes(zipped({"run/unpacked/data.pkl": b"", "run/a.csv": b"x"}))
    assert archive_format(str(tmp_path / "runs.zip")) is Format.ZIP


@pytest.mark.parametrize("name", ["m.pt", "M.PTH", "last.ckpt", "m.keras", "w.whl", "t.xlsx"])
def test_names_of_other_things_are_no_archives(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(zipped(FILES))
    assert archive_format(str(tmp_path / name)) is None


def test_what_is_not_a_file_is_no_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    for name in ("pipe", "empty", "absent", "."):
        assert archive_format(str(tmp_path / name)) is None


def test_a_link_to_an_archive_is_one(tmp_path: Path) -> None:
    (tmp_path / "runs.zip").write_bytes(zipped(FILES))
    (tmp_path / "latest").symlink_to("runs.zip")
    assert archive_format(str(tmp_path / "latest")) is Format.ZIP


# --- what is unfolded ---------------------------------------------------------------------------


@pytest.mark.parametrize("format", Format)
def test_members_are_met_under_their_stored_names(tmp_path: Path, format: Format) -> None:
    unfolded = Unfolded(tmp_path, PACKED[format](FILES))
    assert unfolded.items == [Spooled(name, len(data)) for name, data in FILES.items()]
    assert unfolded.files == FILES
    assert list(unfolded.store.walk()) == [Entry(n, len(FILES[n])) for n in sorted(FILES)]


def test_no_stored_name_is_a_name_on_disk(tmp_path: Path) -> None:
    unfolded = Unfolded(tmp_path, zipped({**FILES, INDEX: b"not the index"}))
    names = {file.name for file in unfolded.target.iterdir()}
    assert len(names) == len(FILES) + 2
    assert all(name == INDEX or len(name) == 64 for name in names)
    assert unfolded.files[INDEX] == b"not the index"


@given(
    st.dictionaries(
        st.text(
            st.characters(exclude_characters="/\0\\", codec="utf-8"), min_size=1, max_size=9
        ).filter(lambda name: name.strip(".") and name[1:2] != ":"),
        st.binary(max_size=99),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(Format),
)
def test_any_names_and_bytes_come_out_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], format: Format
) -> None:
    packed = PACKED[format]({f"run/{name}": data for name, data in files.items()})
    unfolded = Unfolded(tmp_path_factory.mktemp("any"), packed)
    assert unfolded.files == {f"run/{name}": data for name, data in files.items()}
    assert unfolded.errors == []


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    info = entry("run/loss-\udcff.csv")
    unfolded = Unfolded(tmp_path, tarred({}, info))
    assert unfolded.files == {"run/loss-\udcff.csv": b""}


def test_long_names_of_both_kinds_survive(tmp_path: Path) -> None:
    long = "d/" * 200 + "x.csv"
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=format) as archive:
            archive.addfile(entry(long))
        place = tmp_path / str(format)
        place.mkdir()
        assert list(Unfolded(place, out.getvalue()).files) == [long]


def test_the_callers_globs_hold_in_archives_too(tmp_path: Path) -> None:
    unfolded = Unfolded(tmp_path, zipped(FILES))
    store = SpooledStore(str(unfolded.target), include=("run*",), exclude=("*.log",))
    assert list(store.walk()) == [
        Entry("run1/a.csv", len(FILES["run1/a.csv"])),
        Passed("run2/b.log", Content.EXCLUDED, "excluded by pattern"),
        Passed("top.json", Content.EXCLUDED, "not included by pattern"),
    ]


def test_directories_that_hold_no_runs_are_passed_once(tmp_path: Path) -> None:
    files = {"r/.git/a": b"", "r/.git/b": b"", "__MACOSX/._a": b"", "r/a.csv": b"x"}
    unfolded = Unfolded(tmp_path, zipped(files))
    assert unfolded.files == {"r/a.csv": b"x"}
    assert unfolded.passed == [
        ("r/.git", Content.EXCLUDED, "version control"),
        ("__MACOSX", Content.EXCLUDED, "resource forks"),
    ]


def test_only_members_of_the_archive_are_opened(tmp_path: Path) -> None:
    store = Unfolded(tmp_path, zipped(FILES)).store
    for path in ("absent", "../runs.archive", INDEX, "/etc/passwd", ""):
        with pytest.raises(StoreError):
            store.open(path)


# --- hostile names and kinds --------------------------------------------------------------------


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize(
    ("stored", "known_as"),
    [
        ("/etc/cron.d/x", "etc/cron.d/x"),
        ("C:/windows/x", "windows/x"),
        ("./run//a.csv", "run/a.csv"),
        ("../../etc/passwd", None),
        ("run/../../x", None),
        ("n" * 5000, None),
    ],
)
def test_names_are_made_relative_or_refused(
    tmp_path: Path, pack: Callable[[dict[str, bytes]], bytes], stored: str, known_as: str | None
) -> None:
    unfolded = Unfolded(tmp_path, pack({stored: b"data"}))
    if known_as is None:
        assert unfolded.passed == [(stored[:200], Content.EXCLUDED, "unsafe name")]
    else:
        assert unfolded.files == {known_as: b"data"}
    assert sorted(os.listdir(tmp_path)) == ["runs.archive", "spool"]


def test_backslashes_of_a_zip_are_separators(tmp_path: Path) -> None:
    unfolded = Unfolded(tmp_path, zipped({"run\\tb\\a.csv": b"x", "..\\up": b"x"}))
    assert unfolded.files == {"run/tb/a.csv": b"x"}


@pytest.mark.parametrize(
    ("info", "detail"),
    [
        (entry("x", tarfile.SYMTYPE, link="/etc/passwd"), "link"),
        (entry("x", tarfile.LNKTYPE, link="../../etc/passwd"), "link"),
        (entry("x", tarfile.CHRTYPE), ""),
        (entry("x", tarfile.BLKTYPE), ""),
        (entry("x", tarfile.FIFOTYPE), ""),
    ],
)
def test_links_and_devices_of_a_tar_are_passed(
    tmp_path: Path, info: tarfile.TarInfo, detail: str
) -> None:
    unfolded = Unfolded(tmp_path, tarred(FILES, info))
    assert unfolded.passed == [("x", Content.NOT_REGULAR, detail)]
    assert unfolded.files == FILES


def test_writing_through_a_link_of_the_archive_is_impossible(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = entry("run", tarfile.SYMTYPE, link=str(outside))
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(link)
        archive.addfile(entry("run/a.csv"))
    assert list(Unfolded(tmp_path, data.getvalue()).files) == ["run/a.csv"]
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(("mode", "detail"), [(stat.S_IFLNK, "link"), (stat.S_IFCHR, "")])
def test_links_and_devices_of_a_zip_are_passed(tmp_path: Path, mode: int, detail: str) -> None:
    info = zipfile.ZipInfo("x")
    info.external_attr = (mode | 0o777) << 16
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    unfolded = Unfolded(tmp_path, out.getvalue())
    assert unfolded.passed == [("x", Content.NOT_REGULAR, detail)]
    assert unfolded.files == {}


def with_flag(data: bytes, flag: int) -> bytes:
    """A zip of one member with a general-purpose flag set in both of its headers."""
    changed = bytearray(data)
    for magic, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = changed.index(magic) + offset
        struct.pack_into("<H", changed, at, struct.unpack_from("<H", changed, at)[0] | flag)
    return bytes(changed)


def test_encrypted_members_are_passed(tmp_path: Path) -> None:
    unfolded = Unfolded(tmp_path, with_flag(zipped({"a.csv": b"x"}), 1))
    assert unfolded.passed == [("a.csv", Content.UNSUPPORTED, "encrypted")]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_whose_reads_have_no_bound_are_passed(tmp_path: Path, method: int) -> None:
    unfolded = Unfolded(tmp_path, zipped({"a.csv": b"x"}, method))
    assert unfolded.passed == [("a.csv", Content.UNSUPPORTED, f"compression method {method}")]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("zip_it", [True, False])
def test_of_members_with_one_name_the_last_counts(tmp_path: Path, zip_it: bool) -> None:
    out = io.BytesIO()
    if zip_it:
        with zipfile.ZipFile(out, "w") as archive:
            for data in (b"first", b"last"):
                archive.writestr("a.csv", data)
    else:
        with tarfile.open(fileobj=out, mode="w") as tar:
            for data in (b"first", b"last"):
                tar.addfile(entry("a.csv", size=len(data)), io.BytesIO(data))
    unfolded = Unfolded(tmp_path, out.getvalue())
    assert unfolded.files == {"a.csv": b"last"}
    assert unfolded.passed == [
        ("a.csv", Content.EXCLUDED, "stored again later under the same name")
    ]


# --- bombs --------------------------------------------------------------------------------------

ZEROS = {"a.csv": b"x", "zeros.csv": bytes(3 << 20), "z.csv": b"y"}


@pytest.mark.parametrize("format", Format)
def test_a_member_above_its_limit_costs_only_itself(tmp_path: Path, format: Format) -> None:
    unfolded = Unfolded(tmp_path, PACKED[format](ZEROS), Limits(single=1 << 20))
    assert unfolded.errors == [("zeros.csv", "larger than 1048576 bytes")]
    assert unfolded.files == {"a.csv": b"x", "z.csv": b"y"}


@pytest.mark.parametrize("format", Format)
def test_an_archive_above_its_limit_ends_there(tmp_path: Path, format: Format) -> None:
    unfolded = Unfolded(tmp_path, PACKED[format](ZEROS), Limits(total=1 << 20))
    assert unfolded.errors == [(".", "unfolds to more than 1048576 bytes")]
    assert unfolded.files == {"a.csv": b"x"}


@pytest.mark.parametrize("format", [Format.TAR_GZ, Format.TAR_BZ2, Format.TAR_XZ])
def test_skipping_a_member_of_a_compressed_tar_is_paid_for(tmp_path: Path, format: Format) -> None:
    limits = Limits(single=1 << 20, total=2 << 20)
    unfolded = Unfolded(tmp_path, PACKED[format](ZEROS), limits)
    assert unfolded.errors == [
        ("zeros.csv", "larger than 1048576 bytes"),
        (".", "unfolds to more than 2097152 bytes"),
    ]


@pytest.mark.parametrize("format", Format)
def test_the_ratio_bounds_what_a_small_archive_may_unfold_to(
    tmp_path: Path, format: Format
) -> None:
    packed = PACKED[format](ZEROS)
    limits = Limits(ratio=2, floor=1 << 20)
    unfolded = Unfolded(tmp_path, packed, limits)
    fits = 2 * len(packed) > 3 << 20
    assert bool(unfolded.errors) is not fits
    assert ("zeros.csv" in unfolded.files) is fits


@pytest.mark.parametrize("format", Format)
def test_too_many_members_end_it(tmp_path: Path, format: Format) -> None:
    files = {f"{n}.csv": b"" for n in range(12)}
    unfolded = Unfolded(tmp_path, PACKED[format](files), Limits(members=10))
    assert unfolded.errors == [(".", "more than 10 members")]
    assert len(unfolded.files) == 10


def test_a_zip_that_declares_a_huge_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    data = bytearray(zipped(FILES) + bytes(8 << 20))
    at = data.index(b"PK\5\6")
    end = data[at : at + 22]
    struct.pack_into("<I", end, 12, 7 << 20)
    struct.pack_into("<I", end, 16, 0)
    unfolded = Unfolded(tmp_path, bytes(data + end), Limits(members=100))
    assert unfolded.errors == [(".", "damaged or cut archive: a directory of 7340032 bytes")]


def overlapping_zip() -> bytes:
    """A directory of a thousand names that all point to one megabyte of zeros."""
    data = zipped({"0": bytes(1 << 20)})
    start = data.index(b"PK\1\2")
    one = data[start : data.index(b"PK\5\6")]
    body, directory = data[:start], one * 1000
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1000, 1000, len(directory), start, 0)
    return body + directory + end


def test_overlapping_members_are_paid_for(tmp_path: Path) -> None:
    unfolded = Unfolded(tmp_path, overlapping_zip(), Limits(floor=4 << 20, ratio=1))
    assert unfolded.errors[-1] == (".", "unfolds to more than 4194304 bytes")
    assert (
        unfolded.passed == [("0", Content.EXCLUDED, "stored again later under the same name")] * 3
    )


def pax(records: dict[str, str], size_field: int | None = None) -> bytes:
    """A raw pax header block, with a declared size that may lie, and a member after it."""
    body = b""
    for key, value in records.items():
        line = f" {key}={value}\n".encode()
        length = len(line) + len(str(len(line) + 2))
        body += f"{length}".encode() + line
    info = entry("pax", tarfile.XHDTYPE, len(body) if size_field is None else size_field)
    header = info.tobuf(tarfile.USTAR_FORMAT)
    return header + body.ljust(-(-len(body) // 512) * 512, b"\0")


def test_a_huge_extended_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    packed = gzip.compress(tarred({"a.csv": b"x"})[:1024] + pax({}, 1 << 30) + bytes(1 << 22))
    unfolded = Unfolded(tmp_path, packed)
    assert unfolded.files == {"a.csv": b"x"}
    assert unfolded.errors == [(".", "damaged or cut archive: a header of 1073741824 bytes")]


def test_a_negative_size_does_not_loop(tmp_path: Path) -> None:
    packed = tarred({"a.csv": b"x"})[:1024] + pax({"size": "-2048"}) + tarred({"b.csv": b"y"})
    unfolded = Unfolded(tmp_path, packed)
    assert unfolded.files["a.csv"] == b"x"
    assert unfolded.errors != []


def test_a_long_chain_of_extended_headers_does_not_overflow_the_stack(tmp_path: Path) -> None:
    packed = tarred({"a.csv": b"x"})[:1024] + pax({"path": "p"}) * 5000 + tarred({"b.csv": b"y"})
    unfolded = Unfolded(tmp_path, packed)
    assert unfolded.files == {"a.csv": b"x"}
    assert [path for path, _ in unfolded.errors] == ["."]


def test_a_sparse_member_is_paid_for_at_its_full_size(tmp_path: Path) -> None:
    header = pax({"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 40), "GNU.sparse.name": "s"})
    packed = header + tarred({"s": b"x"})
    unfolded = Unfolded(tmp_path, packed)
    assert unfolded.files == {}
    assert unfolded.errors == [("s", f"larger than {2 << 30} bytes")]


# --- damage -------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [Format.TAR, Format.TAR_GZ, Format.TAR_BZ2, Format.TAR_XZ])
def test_what_came_before_a_cut_is_kept(tmp_path: Path, format: Format) -> None:
    noise = {f"{n}.csv": os.urandom(300_000) for n in range(6)}
    packed = PACKED[format](noise)
    unfolded = Unfolded(tmp_path, packed[: len(packed) * 3 // 4])
    kept = unfolded.files
    assert 1 <= len(kept) < 6
    assert all(noise[name] == data for name, data in kept.items())
    assert [path for path, _ in unfolded.errors] == ["."]


def test_a_tar_cut_between_two_members_is_seen_to_be_cut(tmp_path: Path) -> None:
    packed = tarred({"a.csv": b"x", "b.csv": b"y"})[:1024]
    unfolded = Unfolded(tmp_path, packed)
    assert unfolded.files == {"a.csv": b"x"}
    assert unfolded.errors == [(".", "cut: no end mark")]


def test_a_tar_with_a_damaged_header_is_not_taken_for_its_end(tmp_path: Path) -> None:
    packed = bytearray(tarred({"a.csv": b"x", "b.csv": b"y"}))
    packed[1024 + 150] ^= 0xFF
    unfolded = Unfolded(tmp_path, bytes(packed))
    assert unfolded.files == {"a.csv": b"x"}
    assert unfolded.errors == [(".", "damaged or cut: no header where one must be")]


def test_a_zip_without_its_directory_is_an_error(tmp_path: Path) -> None:
    unfolded = Unfolded(tmp_path, zipped(FILES)[:-30])
    assert unfolded.files == {}
    assert unfolded.errors == [(".", "damaged or cut archive: File is not a zip file")]


def test_a_damaged_member_of_a_zip_costs_only_itself(tmp_path: Path) -> None:
    packed = bytearray(zipped({"a.csv": b"aaaa", "b.csv": b"bbbb"}, zipfile.ZIP_STORED))
    packed[packed.index(b"aaaa")] ^= 1
    unfolded = Unfolded(tmp_path, bytes(packed))
    assert unfolded.files == {"b.csv": b"bbbb"}
    assert [path for path, _ in unfolded.errors] == ["a.csv"]


@given(st.data(), st.sampled_from(Format))
def test_no_damage_escapes_as_an_exception(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, format: Format
) -> None:
    packed = bytearray(PACKED[format](FILES))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)))
    unfolded = Unfolded(tmp_path_factory.mktemp("damage"), bytes(packed[:cut]))
    sizes = {item.path: item.size for item in unfolded.items if isinstance(item, Spooled)}
    assert {path: len(data) for path, data in unfolded.files.items()} == sizes


def test_what_is_no_archive_is_an_error(tmp_path: Path) -> None:
    assert Unfolded(tmp_path, b"step,loss\n").errors == [(".", "not an archive of runs")]


def test_a_full_disk_is_not_the_archives_damage(tmp_path: Path) -> None:
    (tmp_path / "runs.zip").write_bytes(zipped(FILES))
    for number, full in enumerate(("/dev/full", "/nowhere/at/all")):
        target = tmp_path / str(number)
        target.mkdir()
        (target / "incoming").symlink_to(full)
        (item,) = spool(str(tmp_path / "runs.zip"), str(target))
        assert isinstance(item, StoreError)
        assert item.path == "."
        assert item.detail.startswith("cannot spool: No ")


# --- the index ----------------------------------------------------------------------------------


def test_a_spooling_that_was_killed_is_told_and_keeps_what_it_had(tmp_path: Path) -> None:
    (tmp_path / "runs.zip").write_bytes(zipped(FILES))
    target = tmp_path / "spool"
    target.mkdir()
    unfinished = spool(str(tmp_path / "runs.zip"), str(target))
    assert next(unfinished) == Spooled("run1/a.csv", 14)
    store = SpooledStore(str(target))
    told = "unfolding the archive was stopped before its end"
    found = list(store.walk())
    assert [item.path for item in found] == [".", "run1/a.csv"]
    assert str(found[0]) == f".: {told}"
    with open(target / INDEX, "a") as index:
        index.write('{"path": "b')  # killed within a line
    assert [item.path for item in store.walk()] == [".", "run1/a.csv"]


def test_the_error_that_ended_it_is_told_once(tmp_path: Path) -> None:
    unfolded = Unfolded(tmp_path, zipped(FILES), Limits(members=1))
    errors = [item for item in unfolded.store.walk() if isinstance(item, StoreError)]
    assert [str(error) for error in errors] == [".: more than 1 members"]


def test_a_directory_without_an_index_is_an_error(tmp_path: Path) -> None:
    (item,) = SpooledStore(str(tmp_path)).walk()
    assert isinstance(item, StoreError)


def test_the_index_is_plain_text(tmp_path: Path) -> None:
    unfolded = Unfolded(tmp_path, zipped({"a.csv": b"xy"}))
    lines = (unfolded.target / INDEX).read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"path": "a.csv", "size": 2}, {"end": True}]


def test_spooling_needs_no_numpy() -> None:
    code = "import sys, trainproof.stores.archive; print('numpy' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
