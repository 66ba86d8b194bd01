"""Bytes to files and streams: whole or not at all, and never over what was audited."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from trainproof.config import ConfigError
from trainproof.emit import EMITTERS
from trainproof.model.report import FailOn, Report

STDOUT = "-"


def check_targets(outputs: Mapping[str, str], paths: Sequence[str]) -> None:
    """Refuse what would destroy data or fail after the audit. Raises ConfigError."""
    inputs = {Path(path).resolve() for path in paths}
    taken: dict[Path, str] = {}
    for name, target in outputs.items():
        if target == STDOUT:
            continue
        path = Path(target)
        if path.resolve() in inputs:
            raise ConfigError(
                f"--{name} {target} would overwrite what is audited: it takes the FILE to write"
            )
        if path.is_dir():
            raise ConfigError(f"--{name} {target} is a directory: it takes the FILE to write")
        if not path.parent.is_dir():
            raise ConfigError(f"--{name} {target}: there is no directory {path.parent}")
        other = taken.setdefault(path.resolve(), name)
        if other != name and (path.is_file() or not path.exists()):
            raise ConfigError(f"--{other} and --{name} would write the same file {target}")


def deliver_reports(outputs: Mapping[str, str], report: Report, fail_on: FailOn) -> None:
    """Write the report in each format, none of them over what it is about.

    Raises ConfigError: before anything is written, or where one cannot be.
    """
    for name, target in outputs.items():
        if target != STDOUT and _is_judged(Path(target).resolve(), report):
            raise ConfigError(f"--{name} {target} would overwrite what was judged")
    whole = report.decoded() if outputs.keys() - {"json"} else report
    for name, target in outputs.items():
        try:
            deliver(target, EMITTERS[name](report if name == "json" else whole, fail_on))
        except OSError as error:
            raise ConfigError(f"cannot write the report {target}: {error.strerror}") from None


def _is_judged(path: Path, report: Report) -> bool:
    """Whether the resolved path is a file of a subject. Reports are decoded only where it may be:
    where it is there already, and below what was audited."""
    if not path.is_file():
        return False
    roots = {one.root for one in report.heads}
    if not any(path.is_relative_to(Path(root).resolve()) for root in roots):
        return False
    return any(
        (Path(subject.root) / file.path).resolve() == path
        for subject in report.reports
        for file in subject.artifacts
        if file.path.endswith(path.name)
    )


def deliver(target: str, payload: bytes) -> None:
    """Write to the standard output, or to a file by way of a temporary one beside it.

    Raises OSError.
    """
    if target == STDOUT:
        speak(sys.stdout, payload)
        return
    path = Path(target)
    if path.exists() and not path.is_file():  # /dev/stderr, a named pipe
        path.write_bytes(payload)
        return
    import tempfile  # noqa: PLC0415 - takes as long to import as a report to write

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def speak(stream: TextIO, payload: bytes) -> None:
    """Write to a standard stream, now. Raises OSError.

    Of a pipe that nobody reads any more this is said once: what the interpreter still writes to it
    when it ends would change the exit code.
    """
    try:
        stream.buffer.write(payload)
        stream.buffer.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def colored(when: str) -> bool:
    """--color, then NO_COLOR and FORCE_COLOR, then whether people read it at a terminal."""
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
