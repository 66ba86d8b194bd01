"""What the sniffing makes of files: recognised, named as not judged, or silently counted."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from trainproof.discover import discover, looks_like_log
from trainproof.model.artifact import Artifact, Content, Kind, Unjudged
from trainproof.model.data import Item
from trainproof.readers.interface import HEAD, Options
from trainproof.stores.interface import Entry, Passed, StoreError
from trainproof.stores.local import LocalStore

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4096\n" % (b"a" * 64)


class Starting(msgspec.Struct, frozen=True):
    """A reader that claims files whose content begins with its magic."""

    name: str
    magic: bytes
    kind: Kind = Kind.LOG
    suffix: str = ""

    def claims(self, path: str, head: bytes) -> bool:
        assert len(head) <= HEAD
        return head.startswith(self.magic) and path.endswith(self.suffix)

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        return iter(())


class MemoryStore(msgspec.Struct):
    """Files in memory. ``opened`` tells which were opened."""

    files: dict[str, bytes | StoreError | OSError]
    extra: tuple[Passed | StoreError, ...] = ()
    sizes: bool = False
    opened: list[str] = msgspec.field(default_factory=list)

    def walk(self) -> Iterator[Entry | Passed | StoreError]:
        for path, data in self.files.items():
            known = self.sizes and isinstance(data, bytes)
            yield Entry(path, len(data) if known and isinstance(data, bytes) else None)
        yield from self.extra

    def open(self, path: str) -> BinaryIO:
        self.opened.append(path)
        data = self.files[path]
        if isinstance(data, StoreError):
            raise data
        return io.BytesIO(data) if isinstance(data, bytes) else Failing(data)


class Failing(io.BytesIO):
    """A stream whose disk fails on the first read."""

    def __init__(self, error: OSError) -> None:
        super().__init__(b"x")
        self._error = error

    def read(self, size: int | None = -1) -> bytes:
        raise self._error


CSV, JSON, ANY = Starting("csv", b"step,"), Starting("json", b"{"), Starting("any", b"")
READERS = (CSV, JSON)


def found(store: MemoryStore, *readers: Starting, hint: str | None = None) -> list[object]:
    return list(discover(store, "root", readers or READERS, hint))


def contents(store: MemoryStore, *readers: Starting) -> dict[str, str]:
    """Path to the name of its reader, or to what it is instead."""
    told = {}
    for item in found(store, *readers):
        if isinstance(item, Artifact):
            told[item.path] = item.reader
        elif isinstance(item, Unjudged):
            told[item.path] = item.content
    return told


# --- recognition --------------------------------------------------------------------------------


def test_the_first_reader_that_claims_a_file_gets_it() -> None:
    store = MemoryStore({"a.csv": b"step,loss\n", "b": b"{}"})
    second = Starting("second", b"step,")
    assert found(store, CSV, second, JSON) == [
        Artifact("root", "a.csv", 10, Kind.LOG, "csv"),
        Artifact("root", "b", 2, Kind.LOG, "json"),
    ]


def test_readers_see_the_head_and_the_size_is_of_the_whole() -> None:
    data = b"step," + b"x" * 3 * HEAD
    for sizes in (False, True):
        (artifact,) = found(MemoryStore({"a.csv": data}, sizes=sizes))
        assert artifact == Artifact("root", "a.csv", len(data), Kind.LOG, "csv")


def test_what_no_reader_claims_is_counted_as_no_log() -> None:
    store = MemoryStore({"train.log": b"exam scores", "notes": b"hello"})
    assert contents(store) == {"train.log": Content.NOT_A_LOG, "notes": Content.NOT_A_LOG}


def test_what_the_store_passed_and_could_not_list_is_passed_on() -> None:
    error = StoreError("b", "Permission denied")
    store = MemoryStore({}, (Passed("l", Content.LINK_OUT_OF_ROOT, "../x"), error))
    assert found(store) == [Unjudged("root", "l", Content.LINK_OUT_OF_ROOT, "../x"), error]


def test_files_that_fail_to_open_or_to_read_are_errors() -> None:
    gone = StoreError("a.csv", "No such file or directory")
    store = MemoryStore({"a.csv": gone, "b.csv": OSError(5, "Input/output error")})
    first, second = found(store)
    assert first is gone
    assert isinstance(second, StoreError)
    assert (second.path, second.detail) == ("b.csv", "Input/output error")


# --- names that are not opened ------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *("plot.png", "x/train.PY", "README.md", "lib.so", "p.xplane.pb", "data.parquet"),
        *("a/requirements.txt", "LICENSE.txt", "vocab.txt", "logs/debug-internal.log"),
    ],
)
def test_files_known_by_name_are_not_opened(path: str) -> None:
    store = MemoryStore({path: b"step,loss\n"})
    assert contents(store) == {path: Content.NOT_A_LOG}
    assert store.opened == []


@pytest.mark.parametrize("path", ["model.safetensors", "a/optimizer.pt", "w.npy", "last.ckpt"])
def test_checkpoints_are_opened_only_for_readers_of_checkpoints(path: str) -> None:
    store = MemoryStore({path: b"PK"})
    assert contents(store) == {path: Content.NOT_A_LOG}
    assert store.opened == []
    assert contents(store, CSV, Starting("zip", b"PK", Kind.CHECKPOINT)) == {path: "zip"}


def test_a_name_that_says_tfevents_is_opened_whatever_its_suffix() -> None:
    store = MemoryStore({"events.out.tfevents.1700000000.node.py": b"step,"})
    assert list(contents(store).values()) == ["csv"]


@pytest.mark.parametrize(
    "path", ["train.log", "에폭 버전3", "tfevents.1.h.7.0", "a.yaml", "m", "png", "c/py"]
)
def test_other_names_are_opened(path: str) -> None:
    store = MemoryStore({path: b"step,"})
    assert contents(store) == {path: "csv"}


# --- hollow files -------------------------------------------------------------------------------

EXPECTED = ["trainer_state.json", "a/events.out.tfevents.1.host", "m.csv", "l.jsonl", "t.log"]
EXPECTED += ["out.txt", "run-x.wandb", "slurm-1.out", "Metrics.JSON", "loss.tsv"]
UNEXPECTED = ["requirements.txt", "config.json", "tokenizer.json", ".gitkeep", "Makefile", "a.yaml"]


@pytest.mark.parametrize(
    ("data", "content", "detail"),
    [
        (b"", Content.EMPTY, ""),
        (b"\xef\xbb\xbf \r\n\n", Content.EMPTY, "nothing but blanks"),
        (bytes(512), Content.EMPTY, "nothing but blanks"),
        (POINTER, Content.LFS_POINTER, "4096 bytes were not fetched"),
        (POINTER[:50], Content.LFS_POINTER, ""),
        (b"<!DOCTYPE html><title>404</title>", Content.MARKUP_PAGE, ""),
        (b"\xef\xbb\xbf\n <HTML>", Content.MARKUP_PAGE, ""),
        (b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code>', Content.MARKUP_PAGE, ""),
        (b"<Error>", Content.MARKUP_PAGE, ""),
    ],
)
def test_hollow_files_are_named_where_a_log_was_expected(
    data: bytes, content: Content, detail: str
) -> None:
    for path in EXPECTED:
        (item,) = found(MemoryStore({path: data}), ANY)
        assert item == Unjudged("root", path, content, detail)
    for path in UNEXPECTED:
        (item,) = found(MemoryStore({path: data}), ANY)
        assert item == Unjudged("root", path, Content.NOT_A_LOG)


def archived(write: Callable[[io.BytesIO], None]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def zipped(file: io.BytesIO) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("run/log.csv", "step,loss\n")


def tarred(file: io.BytesIO) -> None:
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("run/log.csv"))


def test_an_archive_in_a_directory_is_called_one() -> None:
    tar = archived(tarred)
    store = MemoryStore(
        {
            "a.zip": archived(zipped), "b.tar": tar, "c.tar.gz": gzip.compress(tar),
            "d.TGZ": gzip.compress(tar), "package.xyz": archived(zipped), "e.zip": b"no magic",
        }
    )  # fmt: skip
    assert contents(store) == {
        "a.zip": Content.ARCHIVE, "b.tar": Content.ARCHIVE, "c.tar.gz": Content.ARCHIVE,
        "d.TGZ": Content.ARCHIVE, "package.xyz": Content.NOT_A_LOG, "e.zip": Content.NOT_A_LOG,
    }  # fmt: skip


def test_expectation_is_by_name() -> None:
    assert [path for path in EXPECTED + UNEXPECTED if looks_like_log(path)] == EXPECTED


# --- compressed files ---------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstd.compress])
def test_a_compressed_file_is_recognised_by_what_it_stands_for(
    compress: Callable[[bytes], bytes],
) -> None:
    data = compress(b"step,loss\n" + b"1,2.0\n" * HEAD)
    suffixed = Starting("csv", b"step,", suffix=".csv")
    for path in ("metrics.csv.gz", "metrics.csv"):
        (artifact,) = found(MemoryStore({path: data}), suffixed)
        assert artifact == Artifact("root", path, len(data), Kind.LOG, "csv")
    assert contents(MemoryStore({"train.log.gz": data}), suffixed) == {
        "train.log.gz": Content.NOT_A_LOG
    }


@pytest.mark.parametrize(
    ("path", "data", "content", "detail"),
    [
        ("t.log.gz", gzip.compress(b"", mtime=0), Content.EMPTY, ""),
        (
            "t.log.gz",
            gzip.compress(POINTER, mtime=0),
            Content.LFS_POINTER,
            "4096 bytes were not fetched",
        ),
        (
            "t.log.gz",
            gzip.compress(b"step,", mtime=0)[:11],
            Content.UNSUPPORTED,
            "gzip: the file is cut",
        ),
        ("t.log.bz2", b"BZh91AY&SY" + bytes(99), Content.UNSUPPORTED, "bzip2: damaged: "),
        ("data.gz", gzip.compress(b"step,", mtime=0)[:11], Content.NOT_A_LOG, ""),
        ("photo.png.gz", gzip.compress(b"step,", mtime=0), Content.NOT_A_LOG, ""),
    ],
)
def test_compressed_files_with_nothing_in_them_are_named_where_a_log_was_expected(
    path: str, data: bytes, content: Content, detail: str
) -> None:
    (item,) = found(MemoryStore({path: data}))
    assert isinstance(item, Unjudged)
    assert item.content is content
    assert item.detail.startswith(detail)


def test_without_the_extra_a_log_in_zstd_is_named_as_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    data = zstd.compress(b"step,loss\n")
    needs = "zstd-compressed: needs the zstd extra, which is not installed"
    assert found(MemoryStore({"a.csv.zst": data, "dump.zst": data})) == [
        Unjudged("root", "a.csv.zst", Content.UNSUPPORTED, needs),
        Unjudged("root", "dump.zst", Content.NOT_A_LOG),
    ]


def test_the_hint_reaches_into_a_compressed_file() -> None:
    data = gzip.compress(b"no magic")
    (artifact,) = found(MemoryStore({"x": data}), CSV, JSON, hint="json")
    assert artifact == Artifact("root", "x", len(data), Kind.LOG, "json")


def test_other_compressed_files_are_counted() -> None:
    store = MemoryStore({"data.tar.gz": gzip.compress(b"x"), "dump.gz": gzip.compress(b"x")})
    assert set(contents(store).values()) == {Content.NOT_A_LOG}


# --- the format hint ----------------------------------------------------------------------------


def test_the_hint_names_the_reader_of_the_only_file() -> None:
    for path in ("train.log", "weights.pt"):
        (artifact,) = found(MemoryStore({path: b"step,"}), CSV, JSON, hint="json")
        assert artifact == Artifact("root", path, 5, Kind.LOG, "json")


def test_the_hint_cannot_fill_an_empty_file() -> None:
    (item,) = found(MemoryStore({"anything": b""}), CSV, hint="csv")
    assert item == Unjudged("root", "anything", Content.EMPTY)


def test_the_hint_has_no_effect_on_several_files() -> None:
    store = MemoryStore({"a": b"step,", "b": b"nothing"})
    assert found(store, CSV, JSON, hint="json") == [
        Artifact("root", "a", 5, Kind.LOG, "csv"),
        Unjudged("root", "b", Content.NOT_A_LOG),
    ]


def test_an_unknown_hint_is_an_error() -> None:
    with pytest.raises(ValueError, match="no reader is called 'xml'"):
        found(MemoryStore({"a": b"x"}), hint="xml")


# --- whole trees --------------------------------------------------------------------------------


def test_a_directory_is_told_in_the_order_of_its_walk(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/b.csv").write_bytes(b"step,loss\n")
    (tmp_path / "run/a.png").write_bytes(b"\x89PNG")
    (tmp_path / "run/c.log").touch()
    (tmp_path / "run/d.log").symlink_to("/dev/null")
    assert list(discover(LocalStore(str(tmp_path)), "R", READERS)) == [
        Unjudged("R", "run/a.png", Content.NOT_A_LOG),
        Artifact("R", "run/b.csv", 10, Kind.LOG, "csv"),
        Unjudged("R", "run/c.log", Content.EMPTY),
        Unjudged("R", "run/d.log", Content.LINK_OUT_OF_ROOT, "/dev/null"),
    ]


@given(st.dictionaries(st.text(max_size=9), st.binary(max_size=99)))
def test_nothing_seen_is_lost_and_no_content_is_an_exception(files: dict[str, bytes]) -> None:
    store = MemoryStore(dict(files))
    assert list(contents(store)) == list(files)
