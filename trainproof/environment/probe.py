"""Processes that look at an interpreter from within: an import, the packages that are installed.

What is imported may crash, hang, exit or write without end. It shares nothing with this process but
two pipes, of which the last bytes are kept.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from trainproof.model.environment import Ending, Imported

Beat = Callable[[], None]

_CHILD = Path(__file__).with_name("child.py")
_KEPT = 1 << 16
_TICK = 0.2
_LINE = 300
_FRAME = re.compile(r'^ +File "(.+)", line (\d+)(?: in .*)?$', re.MULTILINE)
_PACKAGES_SECONDS = 60.0
_SHARE = 0.5
"""Of the time for an import, after which the process says where it is."""


class Unusable(Exception):
    """The interpreter could not be started at all."""


class _Ended(msgspec.Struct, frozen=True):
    """``status`` is None for a process that was ended for taking too long."""

    status: int | None
    seconds: float
    fields: tuple[str, ...]
    errors: str


def import_module(module: str, python: str, cwd: Path, seconds: float, beat: Beat) -> Imported:
    """Import it in a new process, for ``seconds`` at most. Raises Unusable."""
    patience = str(_SHARE * seconds)
    ended = _run(python, ["import", module, patience], cwd, seconds, beat)
    match ended:
        case _Ended(status=None):
            ending = Ending.HUNG
        case _Ended(status=0, fields=("imported", *_)):
            return Imported(module, Ending.IMPORTED, ended.seconds)
        case _Ended(fields=("raised", error, message, path, line, *_)):
            told = " ".join(message.split())[:_LINE]
            number = int(line) if line.isdigit() else 0
            return Imported(module, Ending.RAISED, ended.seconds, error[:_LINE], told, path, number)
        case _:
            ending = Ending.KILLED if (ended.status or 0) < 0 else Ending.EXITED
    return _gone(module, ending, ended, f"{os.path.realpath(cwd)}{os.sep}")


def packages(names: Sequence[str], python: str, cwd: Path, beat: Beat) -> dict[str, str] | None:
    """Installed version of each of ``names``, and of ``python`` itself; None where the interpreter
    does not say. Raises Unusable."""
    ended = _run(python, ["packages", *names], cwd, _PACKAGES_SECONDS, beat)
    said = dict(zip(ended.fields[::2], ended.fields[1::2], strict=False))
    return said if "python" in said else None


def _gone(module: str, ending: Ending, ended: _Ended, home: str) -> Imported:
    """An import that came to no end of its own. ``home``: where the user's files are."""
    status = ended.status or 0
    path, line = _interrupted(ended.errors, home)
    return Imported(
        module,
        ending,
        ended.seconds,
        path=path,
        line=line,
        signal=_signal(-status) if status < 0 else "",
        status=max(status, 0),
        last_words=_last_words(ended.errors) if ending is Ending.EXITED else "",
    )


def _interrupted(errors: str, home: str) -> tuple[str, int]:
    """Where the thread was that faulthandler names: the one that crashed, or the main thread,
    which comes last; in the innermost frame of a file of the user's, or else in any.
    https://docs.python.org/3/library/faulthandler.html"""
    stack = errors.rpartition("Current thread ")[2] if "Current thread " in errors else ""
    frames = [
        (frame[1], int(frame[2]))
        for frame in _FRAME.finditer(stack or errors.rpartition("Thread 0x")[2])
        if not frame[1].startswith("<")
    ]
    own = (one for one in frames if one[0].startswith(home) and "site-packages" not in one[0])
    return next(own, frames[0] if frames else ("", 0))


def _last_words(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1][:_LINE] if lines else ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# --- the process --------------------------------------------------------------------------------


class _Tail(msgspec.Struct):
    """The last bytes of a stream."""

    data: bytearray = msgspec.field(default_factory=bytearray)

    def add(self, more: bytes) -> None:
        self.data += more
        del self.data[:-_KEPT]


def _run(python: str, arguments: Sequence[str], cwd: Path, seconds: float, beat: Beat) -> _Ended:
    begin = time.monotonic()
    readable, writable = os.pipe()
    with os.fdopen(readable, "rb", 0) as answers:
        try:
            process = subprocess.Popen(
                [python, "-c", _CHILD.read_text("utf-8"), str(writable), *arguments],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[writable],
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
        except OSError as error:
            raise Unusable(f"cannot be run: {error.strerror}") from None
        finally:
            os.close(writable)
        assert process.stderr is not None
        with process.stderr as errors:
            said = {answers.fileno(): _Tail(), errors.fileno(): _Tail()}
            status = _watched(process, (answers, errors), said, begin + seconds, beat)
            told = bytes(said[answers.fileno()].data).decode("utf-8", "replace")
            words = bytes(said[errors.fileno()].data).decode("utf-8", "replace")
    return _Ended(status, time.monotonic() - begin, tuple(told.split("\0")[:-1]), words)


def _watched(
    process: subprocess.Popen[bytes],
    streams: tuple[IO[bytes], IO[bytes]],
    said: dict[int, _Tail],
    until: float,
    beat: Beat,
) -> int | None:
    """Its exit status. Ends with the process, not with the pipes: its children may hold those."""
    try:
        with selectors.DefaultSelector() as selector:
            for stream in streams:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream.fileno(), selectors.EVENT_READ)
            while process.poll() is None and time.monotonic() < until:
                beat()
                if selector.get_map():
                    _take(selector, said, _TICK)
                else:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_TICK)
            ended = process.poll()
            _take(selector, said, 0.0)
            return ended
    finally:
        process.kill()
        process.wait()


def _take(selector: selectors.BaseSelector, said: dict[int, _Tail], wait: float) -> None:
    """What has arrived; a stream at its end is no longer listened to."""
    for key, _ in selector.select(wait):
        try:
            data = os.read(key.fd, _KEPT)
        except BlockingIOError:
            continue
        if data:
            said[key.fd].add(data)
        else:
            selector.unregister(key.fd)
