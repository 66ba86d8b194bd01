"""The walk of directories: what is found, in which order, and what is told of the rest."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainproof.model.artifact import Content
from trainproof.stores.interface import Entry, Passed, StoreError
from trainproof.stores.local import LocalStore

NOBODY = 65534


def plant(root: Path, *paths: str) -> Path:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(path.encode())
    return root


def paths(store: LocalStore) -> list[str]:
    return [item.path for item in store.walk() if isinstance(item, Entry)]


def others(store: LocalStore) -> list[tuple[str, str]]:
    """What the walk told apart from files: path and content, or path and error."""
    return [
        (item.path, item.content if isinstance(item, Passed) else item.detail)
        for item in store.walk()
        if not isinstance(item, Entry)
    ]


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory, and no right to read what its owner forbids: root may read everything."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        user = os.geteuid()
        yield Path(name)
        os.seteuid(user)


def drop_privileges() -> None:
    if os.geteuid() == 0:
        os.seteuid(NOBODY)


# --- what is found ----------------------------------------------------------------------------


def test_the_order_is_that_of_the_paths_as_strings(tmp_path: Path) -> None:
    plant(tmp_path, "a/z.csv", "a.csv", "a-b/y.csv", "a0", "B/c/d/e.log", ".context/n0.log")
    assert paths(LocalStore(str(tmp_path))) == [
        ".context/n0.log",
        "B/c/d/e.log",
        "a-b/y.csv",
        "a.csv",
        "a/z.csv",
        "a0",
    ]


_NAMES = st.text("ab.-/", min_size=1, max_size=12).map(
    lambda t: "/".join(p for p in t.split("/") if p.strip("."))
)


@given(st.sets(_NAMES.filter(bool)))
def test_every_file_of_a_tree_is_met_once_in_sorted_order(wanted: set[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        kept = []
        for path in sorted(wanted):
            try:
                plant(Path(root), path)
                kept.append(path)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                pass  # one name is a file and a directory
        assert paths(LocalStore(root)) == sorted(kept)


def test_sizes_are_not_asked_for(tmp_path: Path) -> None:
    plant(tmp_path, "a.csv")
    assert list(LocalStore(str(tmp_path)).walk()) == [Entry("a.csv", None)]


def test_an_empty_directory_holds_nothing(tmp_path: Path) -> None:
    assert list(LocalStore(str(tmp_path)).walk()) == []


def test_a_file_is_a_store_of_one(tmp_path: Path) -> None:
    plant(tmp_path, "train.log", "other.log")
    store = LocalStore(str(tmp_path / "train.log"))
    assert list(store.walk()) == [Entry("train.log")]
    assert store.open("train.log").read() == b"train.log"
    with pytest.raises(StoreError, match="not in this store"):
        store.open("other.log")


def test_a_root_that_is_a_link_is_what_it_points_to(tmp_path: Path) -> None:
    plant(tmp_path, "run/a.csv")
    (tmp_path / "latest").symlink_to("run")
    (tmp_path / "latest.csv").symlink_to("run/a.csv")
    assert paths(LocalStore(str(tmp_path / "latest"))) == ["a.csv"]
    store = LocalStore(str(tmp_path / "latest.csv"))
    assert paths(store) == ["latest.csv"]
    assert store.open("latest.csv").read() == b"run/a.csv"


@pytest.mark.parametrize("root", ["absent", "a.csv/below", "", "nul\0byte"])
def test_a_root_that_does_not_exist_is_an_error(tmp_path: Path, root: str) -> None:
    plant(tmp_path, "a.csv")
    with pytest.raises(StoreError):
        LocalStore(str(tmp_path / root) if root else root)


def test_a_root_that_is_no_file_is_passed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert others(LocalStore(str(tmp_path / "pipe"))) == [("pipe", Content.NOT_REGULAR)]


# --- names ------------------------------------------------------------------------------------


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    name = b"loss-\xff\xfe.csv"
    (tmp_path / os.fsdecode(name)).write_bytes(b"step")
    store = LocalStore(str(tmp_path))
    assert paths(store) == ["loss-\udcff\udcfe.csv"]
    assert store.open(paths(store)[0]).read() == b"step"


@pytest.mark.parametrize("name", ["a\nb.csv", "a\x1b[2Jb", " ", "에폭 버전3", "D:\\runs", "-rf"])
def test_odd_names_are_names(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    store = LocalStore(str(tmp_path))
    assert paths(store) == [name]
    assert store.open(name).read() == b"x"


# --- directories that are not entered -----------------------------------------------------------


def test_directories_that_hold_no_runs_are_passed_once_each(tmp_path: Path) -> None:
    plant(
        tmp_path,
        *("run/a.csv", ".git/logs/HEAD", "run/__pycache__/x.pyc", "web/node_modules/p/q.json"),
        *("env/pyvenv.cfg", "env/lib/site/x.csv", "conda/conda-meta/history", "conda/x.csv"),
        *(".aim/meta/LOG", ".context/node0.log"),
    )
    store = LocalStore(str(tmp_path))
    assert paths(store) == [".aim/meta/LOG", ".context/node0.log", "run/a.csv"]
    assert others(store) == [
        (".git", Content.EXCLUDED),
        ("conda", Content.EXCLUDED),
        ("env", Content.EXCLUDED),
        ("run/__pycache__", Content.EXCLUDED),
        ("web/node_modules", Content.EXCLUDED),
    ]


def test_a_root_that_is_itself_an_environment_is_walked(tmp_path: Path) -> None:
    plant(tmp_path, "pyvenv.cfg", "a.csv")
    assert paths(LocalStore(str(tmp_path))) == ["a.csv", "pyvenv.cfg"]


def test_files_with_the_name_of_such_a_directory_are_files(tmp_path: Path) -> None:
    plant(tmp_path, ".git", "node_modules")
    assert paths(LocalStore(str(tmp_path))) == [".git", "node_modules"]


def test_excluded_files_are_counted_and_excluded_directories_not_entered(tmp_path: Path) -> None:
    plant(tmp_path, "a/x.csv", "a/y.log", "old/x.csv", "old/b/y.csv")
    store = LocalStore(str(tmp_path), exclude=("old", "*.log"))
    assert paths(store) == ["a/x.csv"]
    assert others(store) == [("a/y.log", Content.EXCLUDED), ("old", Content.EXCLUDED)]


def test_files_that_are_not_included_are_counted(tmp_path: Path) -> None:
    plant(tmp_path, "a/x.csv", "b/x.csv", "c.csv")
    store = LocalStore(str(tmp_path), include=("a/**",))
    assert paths(store) == ["a/x.csv"]
    assert others(store) == [("b/x.csv", Content.EXCLUDED), ("c.csv", Content.EXCLUDED)]


# --- links ------------------------------------------------------------------------------------


def test_links_within_the_root_count_once_under_the_real_name(tmp_path: Path) -> None:
    plant(tmp_path, "wandb/run-1/output.log")
    (tmp_path / "wandb/latest-run").symlink_to("run-1")
    (tmp_path / "wandb/debug.log").symlink_to("run-1/output.log")
    assert list(LocalStore(str(tmp_path)).walk()) == [Entry("wandb/run-1/output.log")]


@pytest.mark.parametrize("follow", [False, True])
def test_loops_end(tmp_path: Path, follow: bool) -> None:
    plant(tmp_path, "root/a/x.csv")
    (tmp_path / "root/a/up").symlink_to("..")
    (tmp_path / "root/a/self").symlink_to(".")
    (tmp_path / "root/here").symlink_to(tmp_path / "root")
    (tmp_path / "root/snake").symlink_to("snake")
    store = LocalStore(str(tmp_path / "root"), follow_symlinks=follow)
    assert paths(store) == ["a/x.csv"]
    assert others(store) == [("snake", Content.NOT_REGULAR)]


def test_links_out_of_the_root_are_told_and_not_followed(tmp_path: Path) -> None:
    plant(tmp_path, "secret/a.csv", "root/b.csv")
    (tmp_path / "root/dir").symlink_to("../secret")
    (tmp_path / "root/file.csv").symlink_to(tmp_path / "secret/a.csv")
    store = LocalStore(str(tmp_path / "root"))
    assert list(store.walk()) == [
        Entry("b.csv"),
        Passed("dir", Content.LINK_OUT_OF_ROOT, "../secret"),
        Passed("file.csv", Content.LINK_OUT_OF_ROOT, str(tmp_path / "secret/a.csv")),
    ]
    for path in ("dir/a.csv", "file.csv"):
        with pytest.raises(StoreError, match="a link that is not followed"):
            store.open(path)


def test_a_sibling_whose_name_begins_like_the_root_is_outside(tmp_path: Path) -> None:
    plant(tmp_path, "root2/a.csv", "root/b.csv")
    (tmp_path / "root/a.csv").symlink_to("../root2/a.csv")
    assert others(LocalStore(str(tmp_path / "root"))) == [("a.csv", Content.LINK_OUT_OF_ROOT)]


def test_links_out_of_the_root_are_followed_on_demand_and_once(tmp_path: Path) -> None:
    plant(tmp_path, "else/sub/a.csv", "root/b.csv", "one.csv")
    (tmp_path / "else/back").symlink_to(tmp_path / "root")
    (tmp_path / "root/link1").symlink_to("../else")
    (tmp_path / "root/link2").symlink_to("../else/sub")
    (tmp_path / "root/one").symlink_to("../one.csv")
    (tmp_path / "root/two").symlink_to("../one.csv")
    (tmp_path / "root/up").symlink_to("../else")
    store = LocalStore(str(tmp_path / "root"), follow_symlinks=True)
    assert paths(store) == ["b.csv", "link2/a.csv", "one"]
    assert others(store) == []
    assert store.open("link2/a.csv").read() == b"else/sub/a.csv"
    assert store.open("one").read() == b"one.csv"


def test_links_to_nothing_are_told(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").symlink_to("gone/trainer_state.json")
    (item,) = LocalStore(str(tmp_path)).walk()
    assert item == Passed(
        "trainer_state.json", Content.NOT_REGULAR, f"link: {os.strerror(errno.ENOENT)}"
    )


@pytest.mark.parametrize(
    "place", [".git/annex/objects/q/h", ".dvc/cache/files/md5/ab/cd", "models--a--b/blobs/0f1e"]
)
def test_content_under_hashes_is_met_under_the_name_of_its_link(tmp_path: Path, place: str) -> None:
    plant(tmp_path, place, "models--a--b/snapshots/r/x.csv")
    link = tmp_path / "models--a--b/snapshots/r/trainer_state.json"
    link.symlink_to(tmp_path / place)
    second = tmp_path / "models--a--b/snapshots/r/z.json"
    second.symlink_to(tmp_path / place)
    store = LocalStore(str(tmp_path))
    assert paths(store) == [
        "models--a--b/snapshots/r/trainer_state.json",
        "models--a--b/snapshots/r/x.csv",
    ]
    assert [content for _, content in others(store)] == [Content.EXCLUDED]
    assert store.open("models--a--b/snapshots/r/trainer_state.json").read() == place.encode()


# --- what is not a file ---------------------------------------------------------------------------


def test_pipes_and_sockets_are_passed_and_never_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "s.log"))
        store = LocalStore(str(tmp_path))
        assert others(store) == [
            ("pipe.log", Content.NOT_REGULAR),
            ("s.log", Content.NOT_REGULAR),
        ]
        for path in ("pipe.log", "s.log"):
            with pytest.raises(StoreError):
                store.open(path)


def test_devices_are_passed(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "null.csv", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    store = LocalStore(str(tmp_path))
    assert others(store) == [("null.csv", Content.NOT_REGULAR)]
    with pytest.raises(StoreError):
        store.open("null.csv")


# --- failures ---------------------------------------------------------------------------------


def test_a_directory_that_cannot_be_listed_is_told_and_the_rest_is_walked(
    unprivileged: Path,
) -> None:
    plant(unprivileged, "a/x.csv", "b/y.csv", "c/z.csv")
    (unprivileged / "b").chmod(0)
    drop_privileges()
    store = LocalStore(str(unprivileged))
    assert paths(store) == ["a/x.csv", "c/z.csv"]
    assert others(store) == [("b", os.strerror(errno.EACCES))]
    (error,) = (item for item in store.walk() if isinstance(item, StoreError))
    assert error.path == "b"


def test_a_file_that_cannot_be_opened_is_an_error_without_its_place(unprivileged: Path) -> None:
    plant(unprivileged, "a/x.csv").joinpath("a/x.csv").chmod(0)
    drop_privileges()
    store = LocalStore(str(unprivileged))
    assert paths(store) == ["a/x.csv"]
    with pytest.raises(StoreError) as caught:
        store.open("a/x.csv")
    assert (caught.value.path, caught.value.detail) == ("a/x.csv", os.strerror(errno.EACCES))


def test_a_root_that_cannot_be_listed_is_an_error(unprivileged: Path) -> None:
    root = unprivileged / "root"
    root.mkdir(mode=0)
    drop_privileges()
    assert others(LocalStore(str(root))) == [(".", os.strerror(errno.EACCES))]


@pytest.mark.parametrize("path", ["../up.csv", "/etc/passwd", "a/../../up.csv", "", "gone", "a\0"])
def test_only_paths_of_the_store_are_opened(tmp_path: Path, path: str) -> None:
    plant(tmp_path, "up.csv", "root/a/x.csv")
    with pytest.raises(StoreError):
        LocalStore(str(tmp_path / "root")).open(path)


def test_a_root_swapped_for_a_link_while_its_store_is_open_is_not_followed(tmp_path: Path) -> None:
    root, other = tmp_path / "runs", tmp_path / "other"
    for place in (root, other):
        place.mkdir()
        (place / "a.log").write_bytes(place.name.encode())
    store = LocalStore(str(root))
    assert store.open("a.log").read() == b"runs"
    root.rename(tmp_path / "moved")
    root.symlink_to(other)
    with pytest.raises(StoreError, match="a link that is not followed"):
        store.open("a.log")


def test_a_directory_swapped_for_a_link_after_the_walk_is_not_followed(tmp_path: Path) -> None:
    plant(tmp_path, "root/run/a.csv", "secret/a.csv")
    store = LocalStore(str(tmp_path / "root"))
    (path,) = paths(store)
    shutil.rmtree(tmp_path / "root/run")
    (tmp_path / "root/run").symlink_to(tmp_path / "secret")
    with pytest.raises(StoreError, match="a link that is not followed"):
        store.open(path)


# --- depth ------------------------------------------------------------------------------------


def deep_tree(root: str, levels: int, files: Sequence[str]) -> None:
    """A chain of directories ``d/d/d…``, made without naming a path that is too long."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    for name in files:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.fixture
def short_root() -> Iterator[str]:
    root = tempfile.mkdtemp(prefix="w", dir="/tmp")
    yield root
    subprocess.run(["rm", "-rf", root], check=True)  # shutil.rmtree recurses


def test_two_thousand_levels_are_walked(short_root: str) -> None:
    deep_tree(short_root, 2000, ["x.csv"])
    store = LocalStore(short_root)
    assert paths(store) == ["d/" * 2000 + "x.csv"]
    assert store.open("d/" * 2000 + "x.csv").read() == b""


def test_a_path_that_is_too_long_for_the_system_is_an_error(short_root: str) -> None:
    deep_tree(short_root, 3000, ["x.csv"])
    ((path, detail),) = others(LocalStore(short_root))
    assert detail == os.strerror(errno.ENAMETOOLONG)
    assert set(path) == {"d", "/"}
