"""Imports that end in every way an import can end. All modules are real files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from trainproof.environment.probe import Unusable, import_module, packages
from trainproof.model.environment import Ending, Imported


def imported(home: Path, source: str, seconds: float = 30.0, module: str = "train") -> Imported:
    (home / "train.py").write_text(source)
    return import_module(module, sys.executable, home, seconds, lambda: None)


def test_a_module_that_can_be_imported(tmp_path: Path) -> None:
    found = imported(tmp_path, "import json\n")
    assert (found.ending, found.error, found.path) == (Ending.IMPORTED, "", "")
    assert found.seconds < 30


def test_what_a_module_prints_harms_nothing(tmp_path: Path) -> None:
    noise = "import sys\nfor s in (sys.stdout, sys.stderr):\n    s.write('x' * 1_000_000)\n"
    assert imported(tmp_path, noise).ending is Ending.IMPORTED


def test_an_exception_is_told_by_type_text_and_place(tmp_path: Path) -> None:
    found = imported(tmp_path, "def f():\n    raise ValueError('bad\\n  shape')\n\nf()\n")
    assert (found.ending, found.error, found.message) == (Ending.RAISED, "ValueError", "bad shape")
    assert (found.path, found.line) == (str(tmp_path / "train.py"), 2)


def test_an_exception_of_a_library_has_its_full_name(tmp_path: Path) -> None:
    source = "import json\njson.loads('{')\n"
    found = imported(tmp_path, source)
    assert found.error == "json.decoder.JSONDecodeError"
    assert (found.path, found.line) == (str(tmp_path / "train.py"), 2)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("import no_such_package", "ModuleNotFoundError", "No module named 'no_such_package'"),
        ("raise SystemExit(0)", "SystemExit", "0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("x = (", "SyntaxError", "'(' was never closed (train.py, line 1)"),
    ],
)
def test_everything_that_is_raised_counts(
    tmp_path: Path, source: str, error: str, message: str
) -> None:
    found = imported(tmp_path, source)
    assert (found.ending, found.error, found.message) == (Ending.RAISED, error, message)
    assert (found.path, found.line) == (str(tmp_path / "train.py"), 1)


def test_an_exception_that_cannot_be_printed_is_none_that_is_missed(tmp_path: Path) -> None:
    source = "class Odd(Exception):\n    def __str__(self):\n        raise self\nraise Odd\n"
    assert imported(tmp_path, source).ending is not Ending.IMPORTED


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    found = import_module("nowhere", sys.executable, tmp_path, 30.0, lambda: None)
    assert (found.error, found.message) == ("ModuleNotFoundError", "No module named 'nowhere'")


def test_a_submodule_is_imported_with_its_package(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__init__.py").write_text("")
    (tmp_path / "project" / "main.py").write_text("raise OSError('here')\n")
    found = import_module("project.main", sys.executable, tmp_path, 30.0, lambda: None)
    assert (found.error, found.message) == ("OSError", "here")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGTERM"])
def test_a_signal_is_told_by_its_name(tmp_path: Path, name: str) -> None:
    found = imported(tmp_path, f"import os, signal\nos.kill(os.getpid(), signal.{name})\n")
    assert (found.ending, found.signal) == (Ending.KILLED, name)


def test_a_native_crash_is_told_with_its_place(tmp_path: Path) -> None:
    found = imported(tmp_path, "import ctypes\n\nctypes.string_at(1)\n")
    assert (found.ending, found.signal) == (Ending.KILLED, "SIGSEGV")
    assert (found.path, found.line) == (str(tmp_path / "train.py"), 3)


@pytest.mark.parametrize("status", [0, 3])
def test_an_exit_without_an_exception_is_no_success(tmp_path: Path, status: int) -> None:
    source = f"import os\nos.write(2, b'one\\nno driver\\n')\nos._exit({status})\n"
    found = imported(tmp_path, source)
    assert (found.ending, found.status) == (Ending.EXITED, status)
    assert found.last_words == "no driver"


def test_a_module_that_hangs_is_ended_and_says_where_it_was(tmp_path: Path) -> None:
    source = "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()\n"
    found = imported(tmp_path, source, seconds=1.0)
    assert found.ending is Ending.HUNG
    assert (found.path, found.line) == (str(tmp_path / "train.py"), 4)


def test_a_child_that_holds_the_pipes_is_not_waited_for(tmp_path: Path) -> None:
    source = "import os, time\nif os.fork() == 0:\n    time.sleep(5)\n    os._exit(0)\n"
    found = imported(tmp_path, source, seconds=20.0)
    assert found.ending is Ending.IMPORTED
    assert found.seconds < 4


def test_a_module_that_forges_the_answer_in_part_is_not_believed(tmp_path: Path) -> None:
    source = "import os, sys\nos.write(int(sys.argv[1]), b'imported')\nos._exit(0)\n"
    assert imported(tmp_path, source).ending is Ending.EXITED


def test_files_of_the_users_do_not_stand_in_for_what_the_probe_needs(tmp_path: Path) -> None:
    for name in ("traceback", "json", "importlib", "faulthandler"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('shadow')\n")
    assert imported(tmp_path, "x = 1\n").ending is Ending.IMPORTED


def test_nothing_is_left_beside_the_module(tmp_path: Path) -> None:
    imported(tmp_path, "x = 1\n")
    assert [one.name for one in tmp_path.iterdir()] == ["train.py"]


def test_the_deadline_is_renewed_while_it_is_waited_for(tmp_path: Path) -> None:
    beats: list[int] = []
    (tmp_path / "train.py").write_text("import time\ntime.sleep(0.7)\n")
    import_module("train", sys.executable, tmp_path, 30.0, lambda: beats.append(1))
    assert len(beats) >= 3


def test_an_interpreter_that_is_none_is_unusable(tmp_path: Path) -> None:
    for python in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(Unusable, match="cannot be run"):
            import_module("json", str(python), tmp_path, 30.0, lambda: None)


def test_versions_are_read_from_metadata_without_an_import(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise RuntimeError('imported')\n")
    found = packages(["numpy", "no-such-package"], sys.executable, tmp_path, lambda: None)
    assert found is not None
    assert set(found) == {"numpy", "python"}
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))


def test_an_interpreter_that_answers_something_else_says_nothing(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho hello\n")
    os.chmod(script, 0o755)
    assert packages(["numpy"], str(script), tmp_path, lambda: None) is None
