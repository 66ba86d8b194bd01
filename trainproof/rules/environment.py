"""The place a training is going to run in, and what it is going to start with."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from trainproof.model.checkpoint import SavedFile
from trainproof.model.data import RunView
from trainproof.model.environment import (
    Ending,
    Environment,
    Gpu,
    Gpus,
    Imported,
    Memory,
    Space,
)
from trainproof.model.inspection import EnvironmentRequest
from trainproof.model.outcome import (
    Clean,
    Evidence,
    Fired,
    Level,
    Outcome,
    Skip,
    Undecided,
    Value,
    Where,
)
from trainproof.model.rule import Doc, SubjectKind, Variant
from trainproof.model.tensors import (
    CheckpointFacts,
    Defect,
    DefectCode,
    Extent,
    Integrity,
    Layout,
)
from trainproof.model.versions import LEAST_DRIVER, cuda, known_bad, release

from .interface import Bound, Example, Missing, Place, absent, rule
from .saved import HOLLOW

GB = 1e9
MIB = 1 << 20
ID = "environment"
"""Where a finding is that is in no file."""


class Part(msgspec.Struct, frozen=True):
    """One part of what was measured. ``asked``: the name of what the caller must ask for it with;
    "" for what is always measured."""

    name: str
    what: str
    asked: str = ""

    def describe(self) -> str:
        return f"{self.what} (--{self.asked.replace('_', '-')})" if self.asked else self.what

    def bind(self, place: Place) -> object | Missing:
        environment = place.view.inspected
        if not isinstance(environment, Environment):
            return absent(place.view, None)
        if self.asked and getattr(environment.request, self.asked) is None:
            return Missing(Skip.DISABLED, {"asked_with": f"--{self.asked.replace('_', '-')}"})
        got = getattr(environment, self.name)
        return absent(place.view, None) if got is None else got


class Asked(msgspec.Struct, frozen=True):
    """What the caller said that the training needs."""

    def describe(self) -> str:
        return "what the caller says that it needs"

    def bind(self, place: Place) -> EnvironmentRequest | Missing:
        environment = place.view.inspected
        if not isinstance(environment, Environment):
            return absent(place.view, None)
        return environment.request


def _view(request: EnvironmentRequest | None = None, **parts: object) -> RunView:
    """For examples."""
    environment = Environment(request or EnvironmentRequest(), **parts)  # type: ignore[arg-type]
    return RunView(ID, inspected=environment)


def _fired(measured: Mapping[str, Value], variant: str = "", where: Where | None = None) -> Fired:
    return Fired((Evidence(where or Where(ID), measured, variant),))


# --- the import ---------------------------------------------------------------------------------

_IMPORT = Part("imported", "an import of the module", "module")
_MODULE = EnvironmentRequest(module="train")
_IMPORTED = Example(
    "the module can be imported",
    _view(_MODULE, imported=Imported("train", Ending.IMPORTED, 0.4)),
)
_IMPORT_MEASURES = {
    "module": "the module",
    "seconds": "how long its import was waited for",
    "place": "file and line where it ended, as far as that is known",
}


def _imported(one: Imported) -> dict[str, Value]:
    measured: dict[str, Value] = {"module": one.module, "seconds": round(one.seconds, 2)}
    if one.ending is not Ending.IMPORTED:
        measured["place"] = f"{one.path}:{one.line}" if one.path else "a place that is not known"
    return measured


def _at(one: Imported) -> Where:
    """A file of the user's; places in reports are below what was looked at."""
    if not one.path or one.path.startswith("/"):
        return Where(ID)
    return Where(one.path, line=one.line or None)


@rule(
    id="TP-ENV-IMPORT-FAIL",
    title="The module cannot be imported",
    level=Level.FAIL,
    message="Importing {module} raised {error}: {text}.",
    evidence="In a process of its own, after {seconds:.2f} s, at {place}.",
    needs={"imported": _IMPORT},
    measures={
        **_IMPORT_MEASURES,
        "error": "the exception's type",
        "text": "its text",
    },
    doc=Doc(
        measures="An import of the module in the interpreter, from the directory and with the"
        " environment that the training is to have.",
        means="The training ends before it begins, with this exception.",
        does_not_mean="That a module which can be imported also runs.",
        guards=(
            "The module is imported, not run: what stands under __name__ == '__main__' is not.",
            "SystemExit counts: a script that parses its arguments when it is imported is none that"
            " can be imported.",
        ),
        references=("trainproof 0.22: TP-ENV-IMPORT-FAIL", "Python: importlib, the import system"),
    ),
    fires=Example(
        "a package is not installed",
        _view(
            _MODULE,
            imported=Imported(
                "train", Ending.RAISED, 0.1, "ModuleNotFoundError", "No module named 'torch'"
            ),
        ),
    ),
    silent=_IMPORTED,
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def import_fail(imported: Imported) -> Outcome:
    if imported.ending is Ending.IMPORTED:
        return Clean(_imported(imported))
    if imported.ending is not Ending.RAISED:
        return Undecided(_imported(imported))
    text = imported.message.rstrip(".") or "no text"
    return _fired({**_imported(imported), "error": imported.error, "text": text}, "", _at(imported))


@rule(
    id="TP-ENV-IMPORT-CRASH",
    title="Importing the module ends the interpreter",
    level=Level.FAIL,
    message="Importing {module} ended the interpreter with the signal {signal}.",
    evidence="After {seconds:.2f} s and without a Python exception, at {place}.",
    needs={"imported": _IMPORT},
    measures={
        **_IMPORT_MEASURES,
        "signal": "the signal that ended the interpreter",
        "status": "its exit status",
        "last_words": "the last line of its standard error",
    },
    variants={
        "exit": Variant(
            Level.FAIL,
            "Importing {module} ended the interpreter with the status {status}, before the import"
            " had ended.",
            "After {seconds:.2f} s and without a Python exception; last on the standard error:"
            " {last_words}.",
        )
    },
    doc=Doc(
        measures="How the process that imports the module ends.",
        means="Native code crashed, or something called os._exit or abort. The training cannot"
        " begin, and would leave no traceback.",
        does_not_mean="That the module named is at fault: what it imports may be. SIGKILL is most"
        " often the out-of-memory killer.",
        guards=(
            "A status of 0 counts as well: the import had not ended.",
            "The module meets no limit of memory that trainproof would set.",
        ),
        references=(
            "trainproof 0.22: TP-ENV-IMPORT-CRASH",
            "Python: faulthandler, signal; the place is the one that faulthandler names",
        ),
    ),
    fires=Example(
        "a native crash",
        _view(_MODULE, imported=Imported("train", Ending.KILLED, 0.6, signal="SIGSEGV")),
    ),
    silent=_IMPORTED,
    subject=SubjectKind.ENVIRONMENT,
)
def import_crash(imported: Imported) -> Outcome:
    measured = _imported(imported)
    match imported.ending:
        case Ending.KILLED:
            return _fired({**measured, "signal": imported.signal}, "", _at(imported))
        case Ending.EXITED:
            words = imported.last_words.rstrip(".") or "nothing"
            more: dict[str, Value] = {"status": imported.status, "last_words": words}
            return _fired({**measured, **more}, "exit", _at(imported))
        case Ending.HUNG:
            return Undecided(measured)
    return Clean(measured)


@rule(
    id="TP-ENV-IMPORT-TIMEOUT",
    title="Importing the module takes too long",
    level=Level.WARN,
    message="Importing {module} had not ended after {seconds:.0f} s.",
    evidence="It was at {place}. The process was ended; --timeout allows more.",
    needs={"imported": _IMPORT},
    measures=_IMPORT_MEASURES,
    doc=Doc(
        measures="Whether the import ends within the time limit.",
        means="The module waits for something (a lock, a download, input), works while it is"
        " imported, or the disk is very slow.",
        does_not_mean="That it would never have ended.",
        guards=("A warning: a slow disk is no broken module.",),
        references=("trainproof 0.22: TP-ENV-IMPORT-TIMEOUT",),
    ),
    fires=Example("it hangs", _view(_MODULE, imported=Imported("train", Ending.HUNG, 120.0))),
    silent=_IMPORTED,
    subject=SubjectKind.ENVIRONMENT,
)
def import_timeout(imported: Imported) -> Outcome:
    if imported.ending is Ending.HUNG:
        return _fired(_imported(imported), "", _at(imported))
    return Clean(_imported(imported))


# --- memory -------------------------------------------------------------------------------------

_MEMORY = Part("memory", "the memory of this place", "required_gb")
_MEMORY_MEASURES = {
    "required_gb": "GB that the caller says are needed",
    "ceiling_gb": "GB of the machine, or of the tightest limit of a control group",
    "available_gb": "GB of it that are not in use",
}
_MEMORY_REFERENCES = (
    "trainproof 0.22: TP-ENV-MEM-INSUFFICIENT and TP-ENV-MEM-TIGHT",
    "Linux: /proc/meminfo (MemAvailable); cgroup v2 memory.max, v1 memory.limit_in_bytes",
)
_ROOMY = Example(
    "32 of 64 GB are free and 16 are needed",
    _view(
        EnvironmentRequest(required_gb=16.0),
        memory=Memory(64_000_000_000, 64_000_000_000, 32_000_000_000),
    ),
)


def _memory(memory: Memory, asked: EnvironmentRequest) -> dict[str, Value]:
    return {
        "required_gb": asked.required_gb or 0.0,
        "ceiling_gb": memory.ceiling / GB,
        "available_gb": memory.available / GB,
    }


@rule(
    id="TP-ENV-MEM-INSUFFICIENT",
    title="There is less memory than is needed",
    level=Level.FAIL,
    message="{required_gb:.1f} GB of memory are needed and {ceiling_gb:.1f} GB is all that this"
    " place has.",
    evidence="{available_gb:.1f} GB of {ceiling_gb:.1f} GB are available.",
    needs={"memory": _MEMORY, "asked": Asked()},
    measures=_MEMORY_MEASURES,
    variants={
        "limited": Variant(
            Level.FAIL,
            "{required_gb:.1f} GB of memory are needed and the control group of this process may"
            " use {ceiling_gb:.1f} GB.",
            "{available_gb:.1f} GB of {ceiling_gb:.1f} GB are available.",
        )
    },
    doc=Doc(
        measures="What the caller needs (--required-gb) against the memory of the machine, or the"
        " least limit of any control group around this process.",
        means="The training will be killed, or swap, when it uses what it is said to need.",
        does_not_mean="Anything about the memory of GPUs; nor that the number asked for is right.",
        guards=("What others hold for now is TP-ENV-MEM-TIGHT.", "Swap does not count."),
        references=_MEMORY_REFERENCES,
    ),
    fires=Example(
        "a container of 8 GB for a training of 16",
        _view(
            EnvironmentRequest(required_gb=16.0),
            memory=Memory(64_000_000_000, 8_000_000_000, 7_000_000_000, limited=True),
        ),
    ),
    silent=_ROOMY,
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def memory_insufficient(memory: Memory, asked: EnvironmentRequest) -> Outcome:
    measured = _memory(memory, asked)
    if (asked.required_gb or 0.0) * GB <= memory.ceiling:
        return Clean(measured)
    return _fired(measured, "limited" if memory.limited else "")


@rule(
    id="TP-ENV-MEM-TIGHT",
    title="The memory that is needed is hardly free now",
    level=Level.WARN,
    message="{required_gb:.1f} GB of memory are needed and {available_gb:.1f} GB are free now.",
    evidence="Of {ceiling_gb:.1f} GB in all; {margin:.0%} more than is needed is asked for.",
    needs={"memory": _MEMORY, "asked": Asked()},
    measures=_MEMORY_MEASURES,
    doc=Doc(
        measures="What the caller needs against what is available at this moment.",
        means="Other processes hold memory that the training would need.",
        does_not_mean="That they will hold it later.",
        guards=("Memory that only caches files counts as available.",),
        references=_MEMORY_REFERENCES,
    ),
    fires=Example(
        "12 of 64 GB are free and 16 are needed",
        _view(
            EnvironmentRequest(required_gb=16.0),
            memory=Memory(64_000_000_000, 64_000_000_000, 12_000_000_000),
        ),
    ),
    silent=_ROOMY,
    subject=SubjectKind.ENVIRONMENT,
)
def memory_tight(
    memory: Memory,
    asked: EnvironmentRequest,
    *,
    margin: Annotated[float, Bound("share", "of what is needed that is kept free", ge=0)] = 0.1,
) -> Outcome:
    measured, needed = _memory(memory, asked), (asked.required_gb or 0.0) * GB
    if needed > memory.ceiling or needed * (1 + margin) <= memory.available:
        return Clean(measured)
    return _fired(measured)


@rule(
    id="TP-ENV-SHM-SMALL",
    title="Shared memory is small",
    level=Level.WARN,
    message="{total_mib:,.0f} MiB of shared memory are all that workers of a data loader have.",
    evidence="{path} has {total_mib:,.0f} MiB, {free_mib:,.0f} MiB of them free.",
    needs={"shared": Part("shared", "the file system of shared memory")},
    measures={
        "total_mib": "MiB of the file system",
        "free_mib": "MiB that are free",
        "path": "where it is",
    },
    doc=Doc(
        measures="The size of /dev/shm, through which worker processes hand over batches.",
        means="With worker processes the training may end with a bus error. Containers have 64 MiB"
        " unless they are started with --shm-size or --ipc=host.",
        does_not_mean="Anything for a loader without worker processes.",
        guards=("A warning: small batches fit into little.",),
        references=(
            "pytorch #5040: bus error, insufficient shared memory (shm)",
            "Docker: docker run --shm-size, 64m by default",
        ),
    ),
    fires=Example(
        "the 64 MiB of a container",
        _view(shared=Space("/dev/shm", 67_108_864, 67_000_000)),
    ),
    silent=Example("16 GB", _view(shared=Space("/dev/shm", 16_000_000_000, 16_000_000_000))),
    subject=SubjectKind.ENVIRONMENT,
)
def shared_memory(
    shared: Space,
    *,
    least: Annotated[float, Bound("MiB", "of shared memory; less is told", ge=0)] = 256.0,
) -> Outcome:
    measured: dict[str, Value] = {
        "total_mib": shared.total / MIB,
        "free_mib": shared.free / MIB,
        "path": shared.path,
    }
    return _fired(measured) if shared.total < least * MIB else Clean(measured)


# --- the output ---------------------------------------------------------------------------------

_OUTPUT = Part("output", "the file system of the output", "output_dir")
_DISK_MEASURES = {
    "path": "the directory, or the nearest one that exists",
    "free_gb": "GB that are free",
    "needed_gb": "GB that all checkpoints take together",
    "keep": "checkpoints that are kept",
    "checkpoint_gb": "GB of one checkpoint",
}
_SAVED = EnvironmentRequest(output_dir="runs", checkpoint_gb=5.0, keep=3)


@rule(
    id="TP-ENV-DISK-INSUFFICIENT",
    title="The disk cannot hold the checkpoints",
    level=Level.FAIL,
    message="{needed_gb:.1f} GB of checkpoints are to be kept and {free_gb:.1f} GB are free at"
    " {path}.",
    evidence="{keep} checkpoints of {checkpoint_gb:.2f} GB each.",
    needs={
        "output": _OUTPUT,
        "size": Part("request", "the size of a checkpoint", "checkpoint_gb"),
    },
    measures=_DISK_MEASURES,
    variants={
        "while-saving": Variant(
            Level.WARN,
            "{needed_gb:.1f} GB of checkpoints are to be kept, and one more while it is written;"
            " {free_gb:.1f} GB are free at {path}.",
            "{keep} checkpoints of {checkpoint_gb:.2f} GB each, and {margin:.0%} for what else is"
            " written.",
        )
    },
    doc=Doc(
        measures="The number of checkpoints (--keep) times the size of one (--checkpoint-gb)"
        " against what is free at the output directory (--output-dir).",
        means="A checkpoint will be cut, or the training will end, when the disk is full. Most"
        " trainers delete the oldest checkpoint only after the newest is written: one more is"
        " needed for that, and too little for it is a warning.",
        does_not_mean="That the sizes are right: they are the caller's. A quota below what is free"
        " is not seen.",
        guards=("Checkpoints that are there already, and will be deleted, are not counted.",),
        references=(
            "trainproof 0.22: TP-ENV-DISK-INSUFFICIENT",
            "h2o-llmstudio #214: disk full while saving",
        ),
    ),
    fires=Example(
        "10 GB for three checkpoints of 5",
        _view(_SAVED, output=Space("/data", 100_000_000_000, 10_000_000_000)),
    ),
    silent=Example(
        "50 GB for them", _view(_SAVED, output=Space("/data", 100_000_000_000, 50_000_000_000))
    ),
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def disk_insufficient(
    output: Space,
    size: EnvironmentRequest,
    *,
    margin: Annotated[float, Bound("share", "of all checkpoints that stays free", ge=0)] = 0.05,
) -> Outcome:
    one, keep = size.checkpoint_gb or 0.0, 1 if size.keep is None else size.keep
    measured: dict[str, Value] = {
        "path": output.path,
        "free_gb": output.free / GB,
        "needed_gb": one * keep,
        "keep": keep,
        "checkpoint_gb": one,
    }
    if one * keep * GB > output.free:
        return _fired(measured)
    if one * (keep + 1) * (1 + margin) * GB > output.free:
        return _fired(measured, "while-saving")
    return Clean(measured)


@rule(
    id="TP-ENV-DISK-INODES",
    title="The file system has hardly a file left",
    level=Level.WARN,
    message="{free_inodes:,} more files can be made at {path}.",
    evidence="Of {inodes:,} inodes.",
    needs={"output": _OUTPUT},
    measures={
        "path": "the directory, or the nearest one that exists",
        "inodes": "inodes of the file system",
        "free_inodes": "those that are free",
    },
    doc=Doc(
        measures="The free inodes of the output directory's file system.",
        means='Saving ends with "No space left on device" though there is space.',
        does_not_mean="Anything where a file system makes inodes as they are needed (0 are told).",
        guards=("File systems without a fixed number of inodes are clean.",),
        references=("statvfs(3): f_files, f_favail",),
    ),
    fires=Example(
        "20 are left",
        _view(_SAVED, output=Space("/data", 10**12, 10**12, inodes=1_000_000, free_inodes=20)),
    ),
    silent=Example(
        "half of them are free",
        _view(_SAVED, output=Space("/data", 10**12, 10**12, inodes=10**6, free_inodes=500_000)),
    ),
    subject=SubjectKind.ENVIRONMENT,
)
def disk_inodes(
    output: Space,
    *,
    least: Annotated[int, Bound("files", "that can be made; fewer are told", ge=0)] = 1000,
) -> Outcome:
    measured: dict[str, Value] = {
        "path": output.path,
        "inodes": output.inodes,
        "free_inodes": output.free_inodes,
    }
    few = output.inodes > 0 and output.free_inodes < least
    return _fired(measured) if few else Clean(measured)


@rule(
    id="TP-ENV-NOT-WRITABLE",
    title="Nothing can be written to the output directory",
    level=Level.FAIL,
    message="No file can be made in {path}: {why}.",
    evidence="Tried with a file without a name.",
    needs={"output": _OUTPUT},
    measures={
        "path": "the directory, or the nearest one that exists",
        "why": "what the system said",
        "free_gb": "GB that are free",
    },
    doc=Doc(
        measures="Whether a file can be made in the output directory, or in the nearest directory"
        " above it that exists. The file has no name where the system can do that, and is gone"
        " at once.",
        means="The first checkpoint, or the first line of a log, ends the training.",
        does_not_mean="That another user than this one could not write there.",
        guards=("Tried as the user that trainproof runs as.",),
        references=("open(2): O_TMPFILE; Python: tempfile.TemporaryFile",),
    ),
    fires=Example(
        "a read-only file system",
        _view(_SAVED, output=Space("/data", 10**12, 10**12, unwritable="Read-only file system")),
    ),
    silent=Example("a file could be made", _view(_SAVED, output=Space("/data", 10**12, 10**12))),
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def not_writable(output: Space) -> Outcome:
    measured: dict[str, Value] = {"path": output.path, "free_gb": output.free / GB}
    if not output.unwritable:
        return Clean(measured)
    return _fired({**measured, "why": output.unwritable})


@rule(
    id="TP-ENV-OPEN-FILES",
    title="Few files may be open at once",
    level=Level.WARN,
    message="A process may have {open_files:,} files open at once.",
    evidence="The soft limit (ulimit -n); fewer than {least:,} are told.",
    needs={"open_files": Part("open_files", "the limit on open files")},
    measures={"open_files": "the soft limit of this process"},
    doc=Doc(
        measures="The soft limit on open files, which processes inherit from this one.",
        means='A data loader with several workers can end with "Too many open files".',
        does_not_mean="That it will: the number of workers and of open shards decides.",
        guards=("1,024, which is the usual limit, is not told.",),
        references=("pytorch #973 (received 0 items of ancdata), #165532", "getrlimit(2)"),
    ),
    fires=Example("a limit of 256", _view(open_files=256)),
    silent=Example("the usual limit", _view(open_files=1024)),
    subject=SubjectKind.ENVIRONMENT,
)
def open_files(
    open_files: int,
    *,
    least: Annotated[int, Bound("files", "that may be open; fewer are told", ge=0)] = 1024,
) -> Outcome:
    measured: dict[str, Value] = {"open_files": open_files}
    return _fired(measured) if open_files < least else Clean(measured)


@rule(
    id="TP-ENV-KNOWN-BAD",
    title="Installed versions are known to train wrongly",
    level=Level.WARN,
    message="{versions}: {effect}, {when}.",
    evidence="Reported in {source}.",
    needs={"packages": Part("packages", "the versions of installed packages")},
    measures={
        "packages": "packages whose versions are known",
        "versions": "the packages and versions in question",
        "effect": "what was reported of them",
        "when": "under which circumstances",
        "source": "the public reports",
    },
    variants={
        "depends": Variant(Level.INFO, "{versions}: {effect}, {when}.", "Reported in {source}.")
    },
    doc=Doc(
        measures="The versions that the interpreter's package metadata name, against a small table"
        " of those with public reports.",
        means="Others met the reported fault with these versions.",
        does_not_mean="That versions which are not in the table are good. The table is short.",
        guards=(
            "Where more than the versions is needed for the fault, it is told as information.",
            "Release numbers are compared (PEP 440); builds for CPU are left out where the fault"
            " needs a GPU.",
        ),
        references=(
            "pytorch #107302, #132179, #139298, #196678; diffusers #9768; trl #7181",
            "transformers PR #35438, #37766, PR #37785; LlamaFactory #6639, #8379",
            "tensorboard #5703, #5708",
        ),
    ),
    fires=Example(
        "torch 2.2 beside NumPy 2", _view(packages={"torch": "2.2.2+cu121", "numpy": "2.0.1"})
    ),
    silent=Example(
        "torch 2.4 beside NumPy 2", _view(packages={"torch": "2.4.0", "numpy": "2.0.1"})
    ),
    subject=SubjectKind.ENVIRONMENT,
)
def known_bad_versions(packages: Mapping[str, str]) -> Outcome:
    counted: dict[str, Value] = {"packages": len(packages)}
    found = tuple(
        Evidence(
            Where(ID),
            {
                **counted,
                "versions": " with ".join(f"{r.package} {packages[r.package]}" for r in bad.all_of),
                "effect": bad.effect,
                "when": bad.when,
                "source": bad.source,
            },
            "" if bad.certain else "depends",
        )
        for bad in known_bad(packages)
    )
    return Fired(found) if found else Clean(counted)


@rule(
    id="TP-ENV-DRIVER-OLD",
    title="The driver is too old for the CUDA of torch",
    level=Level.WARN,
    message="torch {torch} was built for CUDA {cuda}, which needs the driver {least}; this is"
    " {driver}.",
    evidence="{gpus} GPUs.",
    needs={
        "gpus": Part("gpus", "the driver of GPUs"),
        "packages": Part("packages", "the versions of installed packages"),
    },
    measures={
        "torch": "the installed version",
        "cuda": "the CUDA that it was built for",
        "driver": "the version of the driver",
        "least": "the first driver that runs this CUDA",
        "gpus": "GPUs that the driver tells",
    },
    doc=Doc(
        measures="The version of the NVIDIA driver against the first one that runs any release of"
        " the CUDA that torch was built for.",
        means="torch finds no GPU, and trains on the CPU or ends.",
        does_not_mean="That a newer driver is good for everything.",
        guards=(
            "Packages for forward compatibility (cuda-compat) make some data-centre GPUs run newer"
            " CUDA on an older driver: a warning therefore.",
            "Without the extra gpu, a driver or torch nothing is judged.",
        ),
        references=("NVIDIA: CUDA compatibility, minor version compatibility",),
    ),
    fires=Example(
        "CUDA 12 on a driver of CUDA 11",
        _view(packages={"torch": "2.5.1+cu124"}, gpus=Gpus("470.82.01")),
    ),
    silent=Example(
        "CUDA 12 on a driver of CUDA 12",
        _view(packages={"torch": "2.5.1+cu124"}, gpus=Gpus("550.54.15")),
    ),
    subject=SubjectKind.ENVIRONMENT,
)
def driver_old(gpus: Gpus, packages: Mapping[str, str]) -> Outcome:
    built, driver = cuda(packages), release(gpus.driver)
    least = None if built is None else LEAST_DRIVER.get(built[0])
    if built is None or driver is None or least is None:
        return Undecided({"gpus": len(gpus.devices)}, Skip.NEED_ABSENT)
    measured: dict[str, Value] = {
        "gpus": len(gpus.devices),
        "torch": packages["torch"],
        "cuda": ".".join(map(str, built[:2])),
        "driver": gpus.driver,
        "least": ".".join(map(str, least)),
    }
    return _fired(measured) if driver < least else Clean(measured)


@rule(
    id="TP-ENV-GPU-LOST",
    title="GPUs that the driver cannot use",
    level=Level.WARN,
    message="{count} of {gpus} GPUs cannot be used: {which}.",
    evidence="Asked of the driver {driver}.",
    needs={"gpus": Part("gpus", "the driver of GPUs")},
    measures={
        "gpus": "GPUs that the driver tells",
        "count": "of these, GPUs that are lost or must be restarted",
        "which": "which they are",
        "driver": "the version of the driver",
        "note": "what the driver said",
    },
    doc=Doc(
        measures="What the driver answers for each GPU: NVML's errors for a GPU that is lost (fell"
        " off the bus) or must be restarted, and for a library of another version than the driver"
        " that runs.",
        means="CUDA does not start on them. torch counts the others only, or none at all: a"
        " training of several processes ends, and one that may do without trains on the CPU.",
        does_not_mean="That the GPU is broken: it may be so until the next restart.",
        guards=(
            "What the driver merely does not support, or does not permit, is no finding.",
            "Without the extra gpu, or without a driver, nothing is judged.",
        ),
        references=(
            "NVML: NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED, LIB_RM_VERSION_MISMATCH",
        ),
    ),
    fires=Example(
        "one of two GPUs is lost",
        _view(gpus=Gpus("575.57", (Gpu("A"), Gpu("B", note="GPU is lost", lost=True)))),
    ),
    silent=Example("two GPUs answer", _view(gpus=Gpus("575.57", (Gpu("A"), Gpu("B"))))),
    variants={
        "mismatch": Variant(
            Level.WARN,
            "The library of the driver is not of the version of the driver that runs.",
            "NVML says: {note}",
        )
    },
    subject=SubjectKind.ENVIRONMENT,
)
def gpu_lost(gpus: Gpus) -> Outcome:
    measured: dict[str, Value] = {"gpus": len(gpus.devices)}
    if gpus.mismatch:
        return _fired(measured | {"note": gpus.note}, "mismatch")
    if not gpus.devices:
        return Undecided(measured, Skip.NEED_ABSENT)
    lost = [(number, gpu) for number, gpu in enumerate(gpus.devices) if gpu.lost]
    measured |= {"count": len(lost), "driver": gpus.driver}
    which = ", ".join(f"{number} ({gpu.note})" for number, gpu in lost)
    return _fired(measured | {"which": which}) if lost else Clean(measured)


# --- the checkpoint to start from ---------------------------------------------------------------

_START = EnvironmentRequest(checkpoint="start.pt")
_FILE = Part("saved", "a checkpoint to start from", "checkpoint")
_FILE_MEASURES = {"size": "bytes of the file", "layout": "what the file is"}
_CKPT_DOC = {
    "does_not_mean": "That a checkpoint which is clean here fits the model.",
    "references": ("trainproof 0.22: the rules TP-ENV-CKPT-*", "RULES.md: TP-CKPT-*"),
}


def _start(**facts: object) -> RunView:
    said: dict[str, object] = {
        "artifact": "start.pt",
        "layout": Layout.TORCH_ZIP,
        "size": 1000,
        "extent": Extent.READ,
        "integrity": Integrity.VERIFIED,
        **facts,
    }
    return _view(_START, saved=SavedFile(CheckpointFacts(**said)))  # type: ignore[arg-type]


_WHOLE = Example("the file is whole", _start())


def _facts(saved: SavedFile) -> dict[str, Value]:
    return {"size": saved.facts.size, "layout": str(saved.facts.layout)}


def _judged(saved: SavedFile, found: Evidence | None) -> Outcome:
    """Clean only where the file could be looked into."""
    if found is not None:
        return Fired((found,))
    if saved.facts.extent is Extent.NOT_CHECKED:
        return Undecided(_facts(saved), Skip.NEED_UNREADABLE)
    return Clean(_facts(saved))


def _defect(saved: SavedFile, codes: frozenset[DefectCode]) -> Evidence | None:
    for one in saved.facts.defects:
        if one.code in codes:
            detail = f"{one.where}: {one.detail}" if one.where else one.detail
            return Evidence(Where(saved.facts.artifact), {**_facts(saved), "detail": detail})
    return None


@rule(
    id="TP-ENV-CKPT-MISSING",
    title="The checkpoint to start from does not exist",
    level=Level.FAIL,
    message="There is no file {artifact}.",
    evidence="Named with --checkpoint.",
    needs={
        "missing": Part("saved_missing", "a checkpoint to start from", "checkpoint"),
        "asked": Asked(),
    },
    measures={"files": "files with that name"},
    doc=Doc(
        measures="Whether there is anything under the name of the checkpoint.",
        means="The training cannot start from it.",
        does_not_mean="That it is not elsewhere.",
        guards=("A link to nothing is not missing: it cannot be read.",),
        references=("trainproof 0.22: TP-ENV-CKPT-MISSING",),
    ),
    fires=Example("no such file", _view(_START, saved_missing=True)),
    silent=_WHOLE,
    subject=SubjectKind.ENVIRONMENT,
)
def checkpoint_missing(missing: bool, asked: EnvironmentRequest) -> Outcome:
    if missing:
        return _fired({"files": 0}, "", Where(asked.checkpoint or ID))
    return Clean({"files": 1})


@rule(
    id="TP-ENV-CKPT-EMPTY",
    title="The checkpoint to start from is empty",
    level=Level.FAIL,
    message="{artifact} has no bytes.",
    evidence="{size:,} bytes.",
    needs={"saved": _FILE},
    measures=_FILE_MEASURES,
    doc=Doc(
        measures="The size of the file.",
        means="It was made and never written.",
        guards=("Only a size of 0 counts.",),
        **_CKPT_DOC,  # type: ignore[arg-type]
    ),
    fires=Example("no bytes", _start(layout=Layout.EMPTY, size=0, extent=Extent.NOT_CHECKED)),
    silent=_WHOLE,
    subject=SubjectKind.ENVIRONMENT,
)
def checkpoint_empty(saved: SavedFile) -> Outcome:
    if saved.facts.layout is Layout.EMPTY:
        return _fired(_facts(saved), "", Where(saved.facts.artifact))
    return Clean(_facts(saved))


@rule(
    id="TP-ENV-CKPT-TRUNCATED",
    title="The checkpoint to start from is cut",
    level=Level.FAIL,
    message="{artifact} is cut: {detail}.",
    evidence="It has {size:,} bytes ({layout}).",
    needs={"saved": _FILE},
    measures={**_FILE_MEASURES, "detail": "where it ends"},
    doc=Doc(
        measures="Where the data of the tensors should lie, against where the file ends.",
        means="It was not written, or not downloaded, to its end.",
        guards=("As TP-CKPT-TRUNCATED, which says which tensors are whole.",),
        **_CKPT_DOC,  # type: ignore[arg-type]
    ),
    fires=Example(
        "the end is missing",
        _start(defects=(Defect(DefectCode.TRUNCATED, "the directory is missing"),)),
    ),
    silent=_WHOLE,
    grounds=True,
    subject=SubjectKind.ENVIRONMENT,
)
def checkpoint_truncated(saved: SavedFile) -> Outcome:
    return _judged(saved, _defect(saved, _CUT))


@rule(
    id="TP-ENV-CKPT-UNREADABLE",
    title="The file to start from is no checkpoint",
    level=Level.FAIL,
    message="{artifact} is no checkpoint: {detail}.",
    evidence="It has {size:,} bytes ({layout}).",
    needs={"saved": _FILE},
    measures={**_FILE_MEASURES, "detail": "what it is"},
    doc=Doc(
        measures="The first bytes of the file.",
        means="A pointer of Git LFS, a web page, JSON or zeros stand where the checkpoint should.",
        guards=(
            "A format that is merely not known is not checked, and no finding.",
            "An empty file is TP-ENV-CKPT-EMPTY.",
        ),
        **_CKPT_DOC,  # type: ignore[arg-type]
    ),
    fires=Example(
        "a Git LFS pointer",
        _start(layout=Layout.LFS_POINTER, extent=Extent.NOT_CHECKED, reason="a Git LFS pointer"),
    ),
    silent=_WHOLE,
    subject=SubjectKind.ENVIRONMENT,
)
def checkpoint_unreadable(saved: SavedFile) -> Outcome:
    facts = saved.facts
    hollow = (HOLLOW | {Layout.JSON, Layout.COMPRESSED}) - {Layout.EMPTY}
    if facts.layout not in hollow:
        return _judged(saved, None)
    measured = {**_facts(saved), "detail": facts.reason or str(facts.layout)}
    return _fired(measured, "", Where(facts.artifact))


@rule(
    id="TP-ENV-CKPT-CORRUPT",
    title="The checkpoint to start from is damaged",
    level=Level.FAIL,
    message="{artifact} is damaged: {detail}.",
    evidence="It has {size:,} bytes ({layout}).",
    needs={"saved": _FILE},
    measures={**_FILE_MEASURES, "detail": "what is wrong"},
    doc=Doc(
        measures="The checksums and the structure of the file.",
        means="Its bytes are not those that were written.",
        guards=(
            "As TP-CKPT-CORRUPT; formats without checksums show damage of structure only.",
            "A file that is cut is TP-ENV-CKPT-TRUNCATED, whatever else is wrong with the rest.",
        ),
        **_CKPT_DOC,  # type: ignore[arg-type]
    ),
    fires=Example(
        "a checksum does not agree",
        _start(
            defects=(Defect(DefectCode.CRC, "stored 1, computed 2", "data/0"),),
            integrity=Integrity.BROKEN,
        ),
    ),
    silent=_WHOLE,
    subject=SubjectKind.ENVIRONMENT,
)
def checkpoint_corrupt(saved: SavedFile) -> Outcome:
    if _defect(saved, _CUT) is not None:
        return Undecided(_facts(saved), Skip.NEED_UNREADABLE)
    return _judged(saved, _defect(saved, _DAMAGE))


_CUT = frozenset({DefectCode.TRUNCATED, DefectCode.SAVE_FAILED})
_DAMAGE = frozenset(
    {
        DefectCode.CRC,
        DefectCode.PLACEHOLDER,
        DefectCode.CONTAINER_LIE,
        DefectCode.STORAGE_MISSING,
        DefectCode.STORAGE_SIZE,
        DefectCode.STORAGE_CONFLICT,
        DefectCode.TENSOR_LAYOUT,
        DefectCode.PICKLE,
        DefectCode.BYTE_ORDER,
        DefectCode.HEADER,
    }
)


@rule(
    id="TP-ENV-CKPT-LEGACY",
    title="The checkpoint is in an old format",
    level=Level.INFO,
    message="{artifact} is in the format of torch before 1.6.",
    evidence="It has {size:,} bytes ({layout}) and no checksums.",
    needs={"saved": _FILE},
    measures=_FILE_MEASURES,
    doc=Doc(
        measures="The layout of the file.",
        means="It has no checksums, and cannot be mapped into memory.",
        guards=("Information only: torch reads it.",),
        **_CKPT_DOC,  # type: ignore[arg-type]
    ),
    fires=Example("a sequence of pickles", _start(layout=Layout.TORCH_LEGACY)),
    silent=_WHOLE,
    subject=SubjectKind.ENVIRONMENT,
)
def checkpoint_legacy(saved: SavedFile) -> Outcome:
    if saved.facts.layout in (Layout.TORCH_LEGACY, Layout.TORCH_TAR):
        return _fired(_facts(saved), "", Where(saved.facts.artifact))
    return _judged(saved, None)
