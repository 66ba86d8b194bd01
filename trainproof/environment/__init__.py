"""The machine a training is going to run on, and what it is going to start with.

Each module measures one thing and takes the place to look at as a parameter; ``inspect`` puts them
together. What a rule needs is in ``trainproof.model.environment``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from trainproof.model.artifact import Run
from trainproof.model.data import Fault, FaultCode
from trainproof.model.environment import Environment, Gpus, Imported, Space
from trainproof.model.inspection import EnvironmentRequest, Inspection, Requests
from trainproof.model.outcome import Value
from trainproof.model.versions import WATCHED

from . import saved, settings
from .disk import space
from .gpus import gpus
from .memory import memory
from .probe import Unusable, import_module, packages

Beat = Callable[[], None]
GB = 1e9


def inspect(run: Run, requests: Requests, beat: Beat) -> Inspection:
    """Measure the place that ``requests.environment`` describes. Nothing is raised about it."""
    request = requests.environment
    cwd = Path(request.cwd or run.root)
    looked, faults = _measured(request, cwd, beat)
    imported, more = _interpreted(request, cwd, looked, beat)
    faults = (*faults, *more)
    return Inspection(imported, dict(_told(imported)), faults)


def _measured(
    request: EnvironmentRequest, cwd: Path, beat: Beat
) -> tuple[Environment, tuple[Fault, ...]]:
    """Everything but what the interpreter has to say."""
    output = None if request.output_dir is None else space(Path(request.output_dir), written=True)
    found, faults = settings.plans(request.configs, cwd)
    beat()
    devices = gpus()
    beat()
    file, missing = None, False
    if request.checkpoint is not None:
        missing = not os.path.lexists(request.checkpoint)
        if not missing:
            file, more = saved.read(request.checkpoint, beat)
            faults = (*faults, *more)
    looked = Environment(
        request=request,
        memory=memory(),
        shared=space(Path("/dev/shm")) if os.path.isdir("/dev/shm") else None,
        output=output,
        open_files=_open_files(),
        gpus=devices,
        saved=file,
        saved_missing=missing,
        plans=found,
    )
    return looked, faults


def _interpreted(
    request: EnvironmentRequest, cwd: Path, looked: Environment, beat: Beat
) -> tuple[Environment, tuple[Fault, ...]]:
    """With what the interpreter says; a fault where there is none to ask, or no place for it."""
    python = _executable(request.python or sys.executable)
    if not cwd.is_dir():
        return looked, (Fault(FaultCode.IO, str(cwd), "no such directory", fatal=True),)
    imported: Imported | None = None
    try:
        installed = packages(WATCHED, python, cwd, beat)
        if request.module is not None:
            imported = import_module(request.module, python, cwd, request.seconds, beat)
            imported = replace(imported, path=_below(imported.path, cwd))
    except Unusable as error:
        return looked, (Fault(FaultCode.IO, python, str(error), fatal=True),)
    return replace(looked, packages=installed, imported=imported), ()


def _executable(python: str) -> str:
    """A path is relative to where trainproof was started, and not to where the training will be; a
    bare name is looked up in PATH. Links are kept: a virtual environment is one."""
    return os.path.abspath(python) if os.path.dirname(python) else python


def _below(path: str, directory: Path) -> str:
    """Relative to ``directory`` where it lies there, as places in reports are."""
    if not path:
        return path
    relative = os.path.relpath(os.path.realpath(path), os.path.realpath(directory))
    return path if relative.startswith(os.pardir) else relative


def _open_files() -> int | None:
    """The soft limit on open files of this process, which those that it starts inherit."""
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


# --- for people ---------------------------------------------------------------------------------


def _told(environment: Environment) -> Iterator[tuple[str, Value]]:
    memory = environment.memory
    if memory is not None:
        yield "memory_gb", _gb(memory.total)
        yield "memory_limit_gb", _gb(memory.ceiling)
        yield "memory_available_gb", _gb(memory.available)
    yield from _room("shared_memory", environment.shared)
    yield from _room("output", environment.output)
    if environment.open_files is not None:
        yield "open_files", environment.open_files
    yield from _devices(environment.gpus)
    for name, version in sorted((environment.packages or {}).items()):
        yield f"version_{name}", version
    if environment.imported is not None:
        yield "import_seconds", round(environment.imported.seconds, 2)
    if environment.plans:
        yield "settings", ", ".join(plan.artifact for plan in environment.plans)


def _room(name: str, space: Space | None) -> Iterator[tuple[str, Value]]:
    if space is not None:
        yield f"{name}_free_gb", _gb(space.free)
        yield f"{name}_gb", _gb(space.total)
        if space.inodes:
            yield f"{name}_free_inodes", space.free_inodes


def _devices(gpus: Gpus) -> Iterator[tuple[str, Value]]:
    yield "gpus", gpus.note or len(gpus.devices)
    if gpus.driver:
        yield "gpu_driver", gpus.driver
    for number, gpu in enumerate(gpus.devices):
        told = [gpu.name]
        if gpu.total is not None and gpu.free is not None:
            told.append(f"{_gb(gpu.free):g} of {_gb(gpu.total):g} GB free")
        if gpu.capability:
            told.append(f"compute {gpu.capability}")
        yield f"gpu_{number}", ", ".join([*told, *filter(None, [gpu.note])])


def _gb(size: int) -> float:
    return round(size / GB, 3)
