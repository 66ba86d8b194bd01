"""The place in which a training is going to run, as it was measured just before."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from .checkpoint import SavedFile
from .inspection import EnvironmentRequest


class Ending(StrEnum):
    """How the process that imported the module ended."""

    IMPORTED = "imported"
    RAISED = "raised"
    EXITED = "exited"
    """The interpreter was gone, without an exception, before the import had ended."""
    KILLED = "killed"
    HUNG = "hung"


class Imported(msgspec.Struct, frozen=True):
    """One import in a process of its own.

    ``error`` and ``message``: type and text of the exception. ``path`` and ``line``: where it was
    raised, or where the interpreter was when a signal came: the innermost place in a file of the
    user's, or else in any; ``line`` is 0 where that is not known.
    ``signal``: its name. ``status``: the exit status. ``seconds``: how long it was waited for.
    ``last_words``: the last line of the standard error.
    """

    module: str
    ending: Ending
    seconds: float
    error: str = ""
    message: str = ""
    path: str = ""
    line: int = 0
    signal: str = ""
    status: int = 0
    last_words: str = ""


class Memory(msgspec.Struct, frozen=True):
    """Bytes. ``ceiling``: the least of the machine's memory and the limits of all control groups
    around this process; ``available``: what is left below it. ``limited``: whether a control group
    is the tighter bound."""

    total: int
    ceiling: int
    available: int
    limited: bool = False


class Space(msgspec.Struct, frozen=True):
    """A file system, in bytes. ``inodes`` is 0 where it has no fixed number of them.

    ``path``: the directory that was measured: the nearest that exists. ``unwritable``: why no file
    could be made in it, empty where one could.
    """

    path: str
    total: int
    free: int
    inodes: int = 0
    free_inodes: int = 0
    unwritable: str = ""


class Gpu(msgspec.Struct, frozen=True):
    """A GPU, or one instance of a GPU that is divided (MIG). ``total`` and ``free`` in bytes, None
    where the driver does not tell, as of memory that is shared with the CPU; ``capability``: of
    CUDA, such as "9.0". ``note``: what the driver said in the place of an answer. ``lost``: it
    said that the GPU does not answer, or must be restarted."""

    name: str
    total: int | None = None
    free: int | None = None
    capability: str = ""
    note: str = ""
    lost: bool = False


class Gpus(msgspec.Struct, frozen=True):
    """What the driver says. ``note``: why nothing is known, empty where it was asked.
    ``mismatch``: the library is not of the version of the driver that runs."""

    driver: str = ""
    devices: tuple[Gpu, ...] = ()
    note: str = ""
    mismatch: bool = False


class Plan(msgspec.Struct, frozen=True):
    """What one file of settings declares. None where it does not say.

    ``lines``: where each of these names stands first; 1-based.
    """

    artifact: str
    max_steps: int | None = None
    warmup_steps: int | None = None
    warmup_ratio: float | None = None
    save_steps: int | None = None
    eval_steps: int | None = None
    logging_steps: int | None = None
    save_strategy: str | None = None
    eval_strategy: str | None = None
    logging_strategy: str | None = None
    load_best: bool | None = None
    best_metric: str | None = None
    greater_is_better: bool | None = None
    pure_half: str | None = None
    adam_epsilon: float | None = None
    gradient_checkpointing: bool | None = None
    use_reentrant: bool | None = None
    lora: bool | None = None
    quantized: bool | None = None
    lines: Mapping[str, int] = msgspec.field(default_factory=dict)


class Environment(msgspec.Struct, frozen=True, eq=False):
    """What was measured. None where it was not asked for, or could not be measured.

    ``packages``: installed version of each package that is looked for, by its normalised name, in
    the interpreter that is going to run the training. ``saved``: the checkpoint to start from;
    ``saved_missing``: whether there is no such file. ``open_files``: the soft limit.
    """

    request: EnvironmentRequest = msgspec.field(default_factory=EnvironmentRequest)
    imported: Imported | None = None
    packages: Mapping[str, str] | None = None
    memory: Memory | None = None
    shared: Space | None = None
    output: Space | None = None
    open_files: int | None = None
    gpus: Gpus = msgspec.field(default_factory=Gpus)
    saved: SavedFile | None = None
    saved_missing: bool = False
    plans: tuple[Plan, ...] = ()
