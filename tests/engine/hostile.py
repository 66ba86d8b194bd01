"""A plugin for the isolation tests: readers and rules that do what they must not.

Imported in worker processes by name. Each file's first line says what its reader does to it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np

from trainproof.model.artifact import Artifact, Kind
from trainproof.model.data import Column, Item, Role, RunView
from trainproof.model.outcome import Clean, Level, Outcome
from trainproof.model.rule import Doc
from trainproof.model.wire import RunResult
from trainproof.readers import table
from trainproof.readers.interface import Options
from trainproof.rules.interface import Each, Example, rule


def segfault() -> None:
    ctypes.string_at(0)


def hang() -> None:
    time.sleep(3600)


def allocate() -> None:
    hoard = []
    while True:
        hoard.append(bytearray(1 << 30))


def babble() -> None:
    os.write(1, b"\xff" * 100_000)
    sys.stdout.write("not a frame\n")
    sys.stdout.flush()


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def lie() -> None:
    """Answers from now on are not those that were asked for."""
    local = sys.modules["trainproof.engine.local"]
    vars(local)["told"] = lambda task, result, settings: RunResult(())


DEEDS: dict[str, Callable[[], object]] = {
    "segfault": segfault,
    "abort": os.abort,
    "exit": lambda: os._exit(0),
    "hang": hang,
    "allocate": allocate,
    "babble": babble,
    "kill": kill,
    "lie": lie,
    "raise": lambda: 1 / 0,
    "nothing": lambda: None,
}


class HostileReader:
    name = "hostile"
    kind = Kind.LOG

    def claims(self, path: str, head: bytes) -> bool:
        return path.endswith(".hostile")

    def read(self, artifact: Artifact, stream: BinaryIO, options: Options) -> Iterator[Item]:
        DEEDS[stream.readline().decode().strip()]()
        steps = np.arange(5, dtype=np.int64)
        yield Column("loss", steps, np.linspace(3, 1, 5))


table.READERS = (*table.READERS, HostileReader())


def _declare(name: str) -> None:
    nothing = Example("nothing", RunView("none"))

    def check(loss: object) -> Outcome:
        if name == "none":
            return None  # type: ignore[return-value]
        DEEDS[name]()
        return Clean({"points": 5})

    rule(
        id=f"TP-HOSTILE-{name.upper()}",
        title=name,
        level=Level.FAIL,
        message="m",
        evidence="e",
        needs={"loss": Each((Role.LOSS,))},
        measures={"points": "points"},
        doc=Doc("m", "m", "m", ("g",), ("r",)),
        fires=nothing,
        silent=nothing,
    )(check)


for _name in (*DEEDS, "none"):
    _declare(_name)
