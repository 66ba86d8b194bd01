"""A worker that is started before it is needed is the one that is used, or is ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from trainproof.engine import launch as module
from trainproof.engine.launch import Launched, launch, launch_early


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    module._dismiss()


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
