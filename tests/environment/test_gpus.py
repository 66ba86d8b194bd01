"""The driver: the library that asks it with its own classes, codes and structures, and functions
that answer in the place of a driver; one that crashes and one that hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from trainproof.environment.gpus import gpus
from trainproof.model.environment import Gpu, Gpus

DRIVER = """
import importlib.util, sys
from pathlib import Path

here = Path(__file__).parent
path = next(file for place in sys.path if (file := Path(place, "pynvml.py")).is_file()
            and file.parent.resolve() != here.resolve())
spec = importlib.util.spec_from_file_location("_real_pynvml", path)
real = importlib.util.module_from_spec(spec)
sys.modules["_real_pynvml"] = real
spec.loader.exec_module(real)
globals().update({name: value for name, value in vars(real).items() if not name.startswith("__")})

def refuse(name, code, only=None):
    before = globals()[name]
    def refusing(*arguments):
        if only is None or arguments[:1] == (only,):
            raise NVMLError(code)
        return before(*arguments)
    globals()[name] = refusing

def of_memory(total, free):
    memory = c_nvmlMemory_t()
    memory.total, memory.free = total << 30, free << 30
    return memory

def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlSystemGetDriverVersion(): return "575.57.08"
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle): return f"GPU {handle}"
def nvmlDeviceGetMemoryInfo(handle): return of_memory(80, 79)
def nvmlDeviceGetCudaComputeCapability(handle): return 9, 0
def nvmlDeviceGetMigMode(handle): raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
"""
DIVIDED = """
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetMigMode(handle): return [NVML_DEVICE_MIG_ENABLE, NVML_DEVICE_MIG_ENABLE]
def nvmlDeviceGetMaxMigDeviceCount(handle): return 7
def nvmlDeviceGetMigDeviceHandleByIndex(handle, index):
    if index > {last}: raise NVMLError(NVML_ERROR_NOT_FOUND)
    return f"MIG {{index}}"
def nvmlDeviceGetMemoryInfo(handle):
    if not isinstance(handle, str): raise NVMLError(NVML_ERROR_NO_PERMISSION)
    return of_memory(20, 19)
"""
ASK = """
import sys, msgspec
from trainproof.environment.gpus import gpus
sys.stdout.buffer.write(msgspec.json.encode(gpus(float(sys.argv[1]))))
"""
WHOLE = Gpu("GPU 1", 80 << 30, 79 << 30, "9.0")


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


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where a stand-in for the driver can be written that is built on the library."""
    pytest.importorskip("pynvml")
    return tmp_path


def test_what_a_driver_says(home: Path) -> None:
    devices = tuple(Gpu(f"GPU {number}", 80 << 30, 79 << 30, "9.0") for number in range(2))
    assert asked(home, DRIVER) == Gpus("575.57.08", devices)


@pytest.mark.parametrize(
    ("function", "code", "expected"),
    [
        ("nvmlInit", "DRIVER_NOT_LOADED", Gpus(note="Driver Not Loaded")),
        ("nvmlInit", "LIBRARY_NOT_FOUND", Gpus(note="NVML Shared Library Not Found")),
        ("nvmlInit", "NO_PERMISSION", Gpus(note="Insufficient Permissions")),
        ("nvmlDeviceGetCount", "UNKNOWN", Gpus("575.57.08", note="Unknown Error")),
        (
            "nvmlInit",
            "LIB_RM_VERSION_MISMATCH",
            Gpus(note="RM has detected an NVML/RM version mismatch.", mismatch=True),
        ),
    ],
)
def test_a_driver_that_refuses_says_why(
    home: Path, function: str, code: str, expected: Gpus
) -> None:
    assert asked(home, f"{DRIVER}\nrefuse({function!r}, NVML_ERROR_{code})\n") == expected


@pytest.mark.parametrize(
    ("function", "code", "first"),
    [
        (
            "nvmlDeviceGetHandleByIndex",
            "GPU_IS_LOST",
            Gpu("GPU 0", note="GPU is lost", lost=True),
        ),
        (
            "nvmlDeviceGetMemoryInfo",
            "NOT_SUPPORTED",
            Gpu("GPU 0", capability="9.0", note="memory: Not Supported"),
        ),
        (
            "nvmlDeviceGetMemoryInfo",
            "RESET_REQUIRED",
            Gpu("GPU 0", capability="9.0", note="memory: GPU requires restart", lost=True),
        ),
        ("nvmlDeviceGetName", "NOT_SUPPORTED", Gpu("a GPU", 80 << 30, 79 << 30, "9.0")),
        (
            "nvmlDeviceGetCudaComputeCapability",
            "FUNCTION_NOT_FOUND",
            Gpu("GPU 0", 80 << 30, 79 << 30),
        ),
    ],
)
def test_a_question_that_one_gpu_does_not_answer_costs_this_answer_only(
    home: Path, function: str, code: str, first: Gpu
) -> None:
    found = asked(home, f"{DRIVER}\nrefuse({function!r}, NVML_ERROR_{code}, 0)\n")
    assert found == Gpus("575.57.08", (first, WHOLE))


def test_a_gpu_that_is_divided_is_its_instances(home: Path) -> None:
    found = asked(home, DRIVER + DIVIDED.format(last=1))
    part = Gpu("GPU MIG 0", 20 << 30, 19 << 30, "9.0")
    assert found.devices == (part, replace(part, name="GPU MIG 1"))
    (whole,) = asked(home, DRIVER + DIVIDED.format(last=-1)).devices
    assert (whole.name, whole.total, whole.lost) == ("GPU 0", None, False)
    assert whole.note == "divided (MIG), and no instance is there"


def test_a_driver_that_crashes_or_hangs_costs_its_answer_only(tmp_path: Path) -> None:
    crashing = "import ctypes\nctypes.string_at(1)\n"
    assert "could not be asked" in asked(tmp_path, crashing).note
    hanging = "import time\ntime.sleep(60)\n"
    assert asked(tmp_path, hanging, 1.0).note == "the driver did not answer for 1 s"


def test_this_machine_has_an_answer_or_a_reason() -> None:
    found = gpus()
    assert bool(found.devices) != bool(found.note)
