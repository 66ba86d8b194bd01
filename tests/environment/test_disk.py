"""Room and permission, on the file system of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainproof.environment.disk import nearest, space


def test_a_directory_that_will_be_made_is_measured_where_it_will_be(tmp_path: Path) -> None:
    found = space(tmp_path / "runs" / "a", written=True)
    assert found is not None
    assert found.path == str(tmp_path)
    assert 0 < found.free <= found.total
    assert found.unwritable == ""


def test_trying_to_write_leaves_nothing(tmp_path: Path) -> None:
    space(tmp_path, written=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    found = space(tmp_path / "runs" / "a", written=True)
    assert found is not None
    assert found.unwritable == f"{tmp_path / 'runs'} is a file"


def test_a_directory_nobody_may_write_to_is_told(tmp_path: Path) -> None:
    if os.geteuid() == 0:  # root may write anywhere; the kernel's own files take no others
        found = space(Path("/proc/self"), written=True)
    else:
        tmp_path.chmod(0o500)
        found = space(tmp_path, written=True)
    assert found is not None
    assert found.unwritable != ""


@pytest.mark.parametrize("name", ["", "a", "a/b/c"])
def test_the_nearest_directory_that_exists(tmp_path: Path, name: str) -> None:
    assert nearest(tmp_path / name) == tmp_path
