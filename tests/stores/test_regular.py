"""Opening a file of someone else's tree."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from trainproof.stores.regular import open_below, open_regular, resolved


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "real/run").mkdir(parents=True)
    (tmp_path / "real/run/a.csv").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real/run/l.csv").symlink_to("a.csv")
    (tmp_path / "real/alias").symlink_to("run")
    return tmp_path


@pytest.mark.parametrize("base", ["real", "link/../real"])
def test_a_base_need_not_be_resolved(tree: Path, base: str) -> None:
    with open_below(f"{tree}/{base}", "run/a.csv") as stream:
        assert stream.read() == b"x"
        assert stream.seekable()


@pytest.mark.parametrize("path", ["run/l.csv", "alias/a.csv"])
def test_no_link_is_followed(tree: Path, path: str) -> None:
    with pytest.raises(OSError) as caught:
        open_below(str(tree / "real"), path)
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)


def test_only_regular_files_are_opened(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    for name in ("pipe", "real"):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(str(tree / name))


def test_a_root_is_where_its_links_lead(tree: Path) -> None:
    mode, place = resolved(f"{tree}/link/alias")
    assert stat.S_ISDIR(mode)
    assert place == os.path.realpath(tree / "real/run")


def test_a_pipe_is_known_for_one_without_a_writer(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    mode, place = resolved(str(tree / "pipe"))
    assert stat.S_ISFIFO(mode)
    assert place == os.path.realpath(tree / "pipe")


@pytest.mark.parametrize("path", ["absent", "real/run/a.csv/b"])
def test_what_is_not_there_has_no_place(tree: Path, path: str) -> None:
    with pytest.raises(OSError, match=r"No such file|Not a directory"):
        resolved(f"{tree}/{path}")
