"""The driver, in the place of which a module of the same name stands: one that answers, one that
has nothing to answer, one that crashes and one that hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from trainproof.environment.gpus import gpus
from trainproof.model.environment import Gpu, Gpus

DRIVER = """
from types import SimpleNamespace

class NVMLError(Exception):
    pass

def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlSystemGetDriverVersion(): return b"575.57.08"
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle): return f"GPU {handle}"
def nvmlDeviceGetMemoryInfo(handle): return SimpleNamespace(total=80 << 30, free=79 << 30)
def nvmlDeviceGetCudaComputeCapability(handle): return 9, 0
"""
ASK = """
import sys, msgspec
from trainproof.environment.gpus import gpus
sys.stdout.buffer.write(msgspec.json.encode(gpus(float(sys.argv[1]))))
"""


def asked(home: Path, driver: str, seconds: float = 20.0) -> Gpus:
    (home / "pynvml.py").write_text(driver)
    paths = os.pathsep.join([str(home), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(seconds)],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Gpus)


def test_what_a_driver_says(tmp_path: Path) -> None:
    devices = tuple(Gpu(f"GPU {number}", 80 << 30, 79 << 30, "9.0") for number in range(2))
    assert asked(tmp_path, DRIVER) == Gpus("575.57.08", devices)


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetMemoryInfo"])
def test_a_driver_that_refuses_says_why(tmp_path: Path, function: str) -> None:
    refusing = f"{DRIVER}\ndef {function}(*_): raise NVMLError('Driver Not Loaded')\n"
    assert asked(tmp_path, refusing) == Gpus(note="Driver Not Loaded")


def test_a_driver_that_crashes_or_hangs_costs_its_answer_only(tmp_path: Path) -> None:
    crashing = "import ctypes\nctypes.string_at(1)\n"
    assert "could not be asked" in asked(tmp_path, crashing).note
    hanging = "import time\ntime.sleep(60)\n"
    assert asked(tmp_path, hanging, 1.0).note == "the driver did not answer for 1 s"


def test_this_machine_has_an_answer_or_a_reason() -> None:
    found = gpus()
    assert bool(found.devices) != bool(found.note)
