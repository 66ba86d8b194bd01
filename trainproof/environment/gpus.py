"""The GPUs of the machine, as the NVIDIA driver sees them.

The driver is asked in a process of its own (this module, run with ``-m``): a broken driver
hangs or crashes whoever loads it. https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

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
        mismatch = error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
        return Gpus(note=str(error), mismatch=mismatch)
    driver, _ = _answer(pynvml, "nvmlSystemGetDriverVersion")
    count, refusal = _answer(pynvml, "nvmlDeviceGetCount")
    devices = chain.from_iterable(_instances(pynvml, index) for index in range(count or 0))
    return Gpus(_text(driver or ""), tuple(devices), str(refusal or ""))


def _instances(nvml: Any, index: int) -> Iterator[Gpu]:
    """The instances of a GPU that is divided, or the whole one."""
    handle, refusal = _answer(nvml, "nvmlDeviceGetHandleByIndex", index)
    if refusal is not None:
        yield Gpu(f"GPU {index}", note=str(refusal), lost=_is_lost(nvml, refusal))
        return
    capability, _ = _answer(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    modes, _ = _answer(nvml, "nvmlDeviceGetMigMode", handle)
    if not modes or modes[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        yield _device(nvml, handle, capability)
        return
    most, _ = _answer(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle)
    parts = [
        _answer(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, n) for n in range(most or 0)
    ]
    found = [part for part, refusal in parts if refusal is None]
    yield from (_device(nvml, part, capability) for part in found)
    if not found:
        whole = _device(nvml, handle, capability)
        yield replace(whole, note="divided (MIG), and no instance is there")


def _device(nvml: Any, handle: Any, capability: tuple[int, int] | None) -> Gpu:
    name, _ = _answer(nvml, "nvmlDeviceGetName", handle)
    memory, refusal = _answer(nvml, "nvmlDeviceGetMemoryInfo", handle)
    return Gpu(
        name=_text(name or "a GPU"),
        total=None if memory is None else int(memory.total),
        free=None if memory is None else int(memory.free),
        capability=".".join(map(str, capability or ())),
        note="" if refusal is None else f"memory: {refusal}",
        lost=_is_lost(nvml, refusal),
    )


def _answer(nvml: Any, function: str, *arguments: Any) -> tuple[Any, Exception | None]:
    """What a function of the library says, or why it says nothing: much is not supported by each
    driver and device (Jetson, GPUs in parts), or not permitted in each container."""
    try:
        return getattr(nvml, function)(*arguments), None
    except (nvml.NVMLError, AttributeError) as error:
        return None, error


def _is_lost(nvml: Any, refusal: Exception | None) -> bool:
    codes = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED)
    return getattr(refusal, "value", None) in codes


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(ask()))
