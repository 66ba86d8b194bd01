"""Opening a file of someone else's tree."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trainproof.stores.regular import open_below, open_regular


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
