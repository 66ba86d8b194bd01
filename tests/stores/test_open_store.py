"""Roots as the caller writes them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from trainproof.stores import Entry, StoreError, local_path, open_store
from trainproof.stores.archive import spool


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "my runs%20"
    directory.mkdir()
    (directory / "a.csv").write_bytes(b"x")
    return directory


def test_a_path_is_a_directory_or_a_file(root: Path) -> None:
    assert list(open_store(str(root)).walk()) == [Entry("a.csv")]
    assert list(open_store(str(root / "a.csv")).walk()) == [Entry("a.csv")]


def test_file_urls_are_paths(root: Path) -> None:
    assert local_path(root.as_uri()) == str(root)
    assert local_path(root.as_uri().replace("file://", "FILE://localhost")) == str(root)
    assert list(open_store(root.as_uri()).walk()) == [Entry("a.csv")]


def test_a_path_that_exists_is_a_path_whatever_it_looks_like(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "s3:/bucket").mkdir(parents=True)
    monkeypatch.chdir(root)
    assert local_path("s3://bucket") == "s3://bucket"


@pytest.mark.parametrize("url", ["s3://bucket/runs", "gs://b", "hf://org/model", "https://x/y"])
def test_other_schemes_say_what_they_need(url: str) -> None:
    with pytest.raises(StoreError, match="needs the remote extra, which is not installed"):
        open_store(url)


def test_files_of_other_hosts_are_refused() -> None:
    with pytest.raises(StoreError, match="another host"):
        open_store("file://server/share")


def test_what_is_missing_is_an_error_never_empty(root: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory"):
        open_store(str(root / "absent"))
    with pytest.raises(StoreError, match="No such file or directory"):
        open_store((root / "absent").as_uri())


def test_globs_and_links_are_passed_on(root: Path) -> None:
    (root.parent / "outside.csv").write_bytes(b"y")
    (root / "b.csv").symlink_to("../outside.csv")
    (root / "c.csv").write_bytes(b"z")
    store = open_store(str(root), True, include=("*.csv",), exclude=("c.csv",))
    assert [item.path for item in store.walk() if isinstance(item, Entry)] == ["a.csv", "b.csv"]


def test_a_spooled_archive_is_opened_from_its_spool(root: Path) -> None:
    with zipfile.ZipFile(root / "runs.zip", "w") as archive:
        archive.writestr("run/a.csv", b"step")
    (root / "spool").mkdir()
    assert len(list(spool(str(root / "runs.zip"), str(root / "spool")))) == 1
    store = open_store(str(root / "runs.zip"), spool=str(root / "spool"), exclude=("*.log",))
    assert list(store.walk()) == [Entry("run/a.csv", 4)]
    assert store.open("run/a.csv").read() == b"step"
