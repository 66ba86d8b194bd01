"""The GPUs of the machine, as the NVIDIA driver sees them.

The driver is asked in a process of its own (this module, run with ``-m``): a broken driver
hangs or crashes whoever loads it. https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import msgspec

from trainproof.model.environment import Gpu, Gpus

_NEEDS = "not asked: needs trainproof[gpu]"


def gpus(seconds: float = 20.0) -> Gpus:
    """Never fails: without the extra, a driver or an answer, ``note`` says which."""
    if find_spec("pynvml") is None:
        return Gpus(note=_NEEDS)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=True,
        )
        return msgspec.json.decode(done.stdout, type=Gpus)
    except subprocess.TimeoutExpired:
        return Gpus(note=f"the driver did not answer for {seconds:g} s")
    except (OSError, subprocess.CalledProcessError, msgspec.DecodeError) as error:
        return Gpus(note=f"the driver could not be asked: {type(error).__name__}")


def ask() -> Gpus:
    """In this process."""
    import pynvml  # noqa: PLC0415 - the extra

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Gpus(note=str(error))
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        devices = tuple(_device(pynvml, handle) for handle in handles)
        return Gpus(_text(pynvml.nvmlSystemGetDriverVersion()), devices)
    except pynvml.NVMLError as error:
        return Gpus(note=str(error))
    finally:
        pynvml.nvmlShutdown()


def _device(nvml: Any, handle: Any) -> Gpu:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    name = _text(nvml.nvmlDeviceGetName(handle))
    return Gpu(name, memory.total, memory.free, f"{major}.{minor}")


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(ask()))
