"""The child process: take batches of tasks, judge them, answer in frames on a private pipe."""

from __future__ import annotations

import importlib
import os
import sys
from typing import BinaryIO

from trainproof.model.wire import LENGTH, MAX_FRAME, Batch, Begin, Done, Ready, pack, unpack_order

from .beacon import Beacon
from .limits import collect_rarely, limit_this_process
from .local import Bench


def main() -> None:
    # Frames own the original stdout; what a library prints goes where it cannot harm them.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    orders = sys.stdin.buffer
    for module in sys.argv[2:]:
        importlib.import_module(f"trainproof.{module}")
    begin = unpack_order(_frame(orders))
    if not isinstance(begin, Begin):
        raise SystemExit("the first order is not Begin")
    for module in begin.settings.plugins:
        importlib.import_module(module)
    limited = limit_this_process(begin.settings.memory_bytes)
    collect_rarely()
    _send(answers, Ready(limited))
    beacon, bench = Beacon(int(sys.argv[1])), Bench(begin.settings)
    while body := _frame(orders):
        batch = unpack_order(body)
        assert isinstance(batch, Batch)
        for task in batch.tasks:
            beacon.task(task.number)
            _send(answers, Done(task.number, bench.judged(task, beacon)))


def _frame(stream: BinaryIO) -> bytes:
    """The next frame, or b"" when the parent has closed the pipe."""
    size = int.from_bytes(stream.read(LENGTH), "big")
    if size > MAX_FRAME:
        raise SystemExit(f"order of {size} bytes")
    return stream.read(size)


def _send(stream: BinaryIO, answer: Ready | Done) -> None:
    stream.write(pack(answer))
    stream.flush()
