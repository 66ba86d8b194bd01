"""Memory as the kernel tells it, in made-up trees of /proc and /sys/fs/cgroup."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainproof.environment.memory import memory
from trainproof.model.environment import Memory

GIB = 1 << 30
MEMINFO = "MemTotal:       67108864 kB\nMemFree:  1024 kB\nMemAvailable:   33554432 kB\n"
"""64 GiB, of which 32 are available."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write(tmp_path, {"proc/meminfo": MEMINFO})
    return tmp_path


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def measured(root: Path) -> Memory | None:
    return memory(root / "proc", root / "cgroup")


def test_a_machine_without_control_groups_has_its_memory(place: Path) -> None:
    assert measured(place) == Memory(64 * GIB, 64 * GIB, 32 * GIB)


def test_a_container_of_version_2_has_its_limit(place: Path) -> None:
    write(
        place,
        {
            "proc/self/cgroup": "0::/\n",
            "cgroup/memory.max": f"{8 * GIB}\n",
            "cgroup/memory.current": f"{3 * GIB}\n",
            "cgroup/memory.stat": f"anon 1\ninactive_file {GIB}\n",
        },
    )
    assert measured(place) == Memory(64 * GIB, 8 * GIB, 6 * GIB, limited=True)


def test_the_tightest_of_nested_groups_counts(place: Path) -> None:
    write(
        place,
        {
            "proc/self/cgroup": "0::/slurm/job_7/step_0\n",
            "cgroup/slurm/job_7/step_0/memory.max": "max\n",
            "cgroup/slurm/job_7/memory.max": f"{16 * GIB}\n",
            "cgroup/slurm/job_7/memory.current": f"{15 * GIB}\n",
            "cgroup/slurm/memory.max": f"{32 * GIB}\n",
            "cgroup/slurm/memory.current": f"{30 * GIB}\n",
        },
    )
    assert measured(place) == Memory(64 * GIB, 16 * GIB, GIB, limited=True)


def test_a_crowded_outer_group_leaves_less_than_the_inner_one(place: Path) -> None:
    write(
        place,
        {
            "proc/self/cgroup": "0::/outer/inner\n",
            "cgroup/outer/inner/memory.max": f"{8 * GIB}\n",
            "cgroup/outer/inner/memory.current": "0\n",
            "cgroup/outer/memory.max": f"{20 * GIB}\n",
            "cgroup/outer/memory.current": f"{18 * GIB}\n",
        },
    )
    assert measured(place) == Memory(64 * GIB, 8 * GIB, 2 * GIB, limited=True)


def test_version_1_and_its_word_for_no_limit(place: Path) -> None:
    group = "cgroup/memory/docker/abc"
    write(
        place,
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n",
            f"{group}/memory.limit_in_bytes": f"{4 * GIB}\n",
            f"{group}/memory.usage_in_bytes": f"{2 * GIB}\n",
            f"{group}/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB}\n",
            "cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert measured(place) == Memory(64 * GIB, 4 * GIB, 3 * GIB, limited=True)


def test_a_group_that_is_mounted_as_the_root_counts_though_its_path_is_the_hosts(
    place: Path,
) -> None:
    write(
        place,
        {
            "proc/self/cgroup": "4:memory:/docker/abc\n",
            "cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
            "cgroup/memory/memory.usage_in_bytes": f"{5 * GIB}\n",
        },
    )
    assert measured(place) == Memory(64 * GIB, 2 * GIB, 0, limited=True)


def test_both_versions_at_once(place: Path) -> None:
    write(
        place,
        {
            "proc/self/cgroup": "4:memory:/a\n0::/b\n",
            "cgroup/memory/a/memory.limit_in_bytes": f"{9 * GIB}\n",
            "cgroup/unified/b/memory.max": f"{7 * GIB}\n",
        },
    )
    found = measured(place)
    assert found is not None
    assert found.ceiling == 7 * GIB


def test_a_path_never_leads_out_of_the_tree(place: Path) -> None:
    write(
        place,
        {
            "proc/self/cgroup": "0::/../../secret\n",
            "secret/memory.max": "1\n",
            "cgroup/secret/memory.max": f"{5 * GIB}\n",
        },
    )
    found = measured(place)
    assert found is not None
    assert found.ceiling == 5 * GIB


@pytest.mark.parametrize("text", ["", "MemTotal: lots kB\n", "\0\0\0", "MemTotal:"])
def test_a_system_that_does_not_say_is_not_measured(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"proc/meminfo": text})
    assert measured(tmp_path) is None


@pytest.mark.parametrize("text", ["max\n", "", "-1\n", "8 GB\n", "٣\n"])
def test_what_is_no_limit_limits_nothing(place: Path, text: str) -> None:
    write(place, {"proc/self/cgroup": "0::/\nnonsense\n", "cgroup/memory.max": text})
    assert measured(place) == Memory(64 * GIB, 64 * GIB, 32 * GIB)


def test_this_machine_can_be_measured() -> None:
    found = memory()
    assert found is not None
    assert 0 < found.available <= found.ceiling <= found.total
