"""Opening a file of someone else's tree."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from trainproof.stores.regular import Loaded, open_below, open_regular, resolved


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


@pytest.mark.parametrize(("size", "small"), [(0, True), (1 << 16, True), ((1 << 16) + 1, False)])
def test_a_small_file_is_read_at_once(tmp_path: Path, size: int, small: bool) -> None:
    content = bytes(range(256)) * 300
    (tmp_path / "a.log").write_bytes(content[:size])
    with open_regular(str(tmp_path / "a.log")) as stream:
        assert isinstance(stream, Loaded) == small
        assert stream.read() == content[:size]
        assert stream.seek(-min(3, size), os.SEEK_END) == max(0, size - 3)
        assert stream.read() == content[max(0, size - 3) : size]


def test_what_was_read_at_once_keeps_what_the_system_said_of_it(tree: Path) -> None:
    with open_below(str(tree / "real"), "run/a.csv") as stream:
        assert isinstance(stream, Loaded)
        assert stream.told == (tree / "real/run/a.csv").stat()


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux only")
def test_a_file_that_is_longer_than_the_system_says_is_a_stream() -> None:
    with open_regular("/proc/self/status") as stream:
        assert not isinstance(stream, Loaded)
        assert stream.read().startswith(b"Name:")


def test_no_descriptor_stays_open(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    (tree / "big").write_bytes(bytes(1 << 17))
    before = os.open(tree, os.O_RDONLY)
    os.close(before)
    open_regular(str(tree / "real/run/a.csv")).close()
    open_regular(str(tree / "big")).close()
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(str(tree / "pipe"))
    with pytest.raises(OSError):
        open_below(str(tree / "real"), "alias/a.csv")
    after = os.open(tree, os.O_RDONLY)
    os.close(after)
    assert after == before
