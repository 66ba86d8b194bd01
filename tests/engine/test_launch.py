"""A worker that is started before it is needed is the one that is used, or is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainproof.engine import launch as module
from trainproof.engine.launch import Launched, dismiss, launch, launch_ahead, launch_early


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    dismiss()


def end(launched: Launched) -> None:
    """As a parent does that ends: nothing more comes."""
    launched.process.communicate()


def test_the_early_worker_is_the_first_one_that_is_launched() -> None:
    launch_early(["readers.table"])
    (early,) = module._waiting
    first, second = launch(), launch()
    assert first is early
    assert second.process.pid != first.process.pid
    end(first)
    end(second)


def test_workers_are_started_ahead_until_so_many_wait() -> None:
    launch_ahead(1)
    (first,) = module._waiting
    launch_ahead(3)
    assert len(module._waiting) == 3
    assert module._waiting[0] is first
    waiting = [one.process for one in module._waiting]
    dismiss()
    assert module._waiting == []
    assert [process.returncode for process in waiting] == [-signal.SIGKILL] * 3


def test_of_workers_that_nobody_needed_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = os.open(tmp_path, os.O_RDONLY)
    os.close(before)
    launch_ahead(2)
    dismiss()
    after = os.open(tmp_path, os.O_RDONLY)
    os.close(after)
    assert after == before


def test_a_worker_that_nobody_needed_ends_with_its_parent() -> None:
    code = (
        "from trainproof.engine import launch; launch.launch_early([]);"
        " print(launch._waiting[0].process.pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
    assert done.stderr == ""


def test_starting_early_imports_next_to_nothing() -> None:
    code = (
        "import sys; from trainproof.engine.launch import launch_early;"
        " print(sum(name.startswith(('numpy', 'trainproof')) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 7
