"""audit, doctor and epoch: the same audit with more or less said about it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn, TypedDict

import typer

from trainproof import api
from trainproof.config import Config, ConfigError
from trainproof.emit.console import doctor as doctor_text
from trainproof.emit.console import summary as summary_text
from trainproof.model.report import ExitCode, FailOn, Report, exit_code

from .options import Options, with_options
from .outputs import STDOUT, check_targets, colored, deliver_reports, speak
from .progress import reporting

Text = Callable[[Report, Options, FailOn], bytes]
Audit = Callable[[Config, api.Watcher | None], Report]


@with_options
def audit(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Directories, files, archives; - reads a list."),
    ],
    *,
    options: Options,
) -> None:
    """Audit training runs and print what a person needs to know."""
    run(tuple(paths), options, _summary)


@with_options
def doctor(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A directory or file.")] = ".",
    *,
    options: Options,
) -> None:
    """The autopsy: the same audit with the full report of each run, worst first."""
    run((path,), options, in_full)


@with_options
def epoch(
    log: Annotated[str, typer.Argument(metavar="LOG", help="One training log.")],
    *,
    options: Options,
) -> None:
    """Judge one training log."""
    if Path(log).is_dir():
        fail(f"{log} is a directory: use trainproof audit or trainproof doctor")
    run((log,), options, in_full)


def fail(message: str) -> NoReturn:
    """A usage error: exit code 2, nothing said about any run."""
    sys.stderr.write(f"trainproof: {message}\n")
    raise typer.Exit(ExitCode.CANNOT_JUDGE)


def run(paths: tuple[str, ...], options: Options, text: Text, audit: Audit = api.audit) -> None:
    """Audit, say it, write the reports, exit. ``text`` makes what people read."""
    try:
        outputs = options.outputs()
        paths = _once(_listed(paths))
        config = options.settings(paths)
        check_targets(outputs, paths if config.baseline is None else (*paths, config.baseline))
    except ConfigError as error:
        fail(str(error))
    report = _audited(config, options, audit)
    _say(outputs, text(report, options, config.fail_on))
    for item in _unmet(options, report):
        sys.stderr.write(f"trainproof: --map {item}: no column of that name was read\n")
    try:
        deliver_reports(outputs, report, config.fail_on)
    except ConfigError as error:
        fail(str(error))
    raise typer.Exit(exit_code(report, config.fail_on))


def _audited(config: Config, options: Options, audit: Audit) -> Report:
    """An audit that fails as a whole is a report too: exit code 2, and the reason in ``error``."""
    try:
        with reporting(options.progress and not options.quiet) as watcher:
            return audit(config, watcher)
    except KeyboardInterrupt:
        fail("interrupted")
    except Exception as error:  # noqa: BLE001 - never a traceback in the place of a report
        return api.failed(f"{type(error).__name__}: {error}")


def _listed(paths: tuple[str, ...]) -> tuple[str, ...]:
    """``-`` stands for the paths on the standard input, one a line (or NUL-separated); lines may
    end as on Windows."""
    if STDOUT not in paths:
        return paths
    data = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    items = (
        data.split("\0") if "\0" in data else (line.removesuffix("\r") for line in data.split("\n"))
    )
    read = [item for item in items if item]
    if not read:
        raise ConfigError("no paths on the standard input")
    return tuple(p for path in paths for p in (read if path == STDOUT else [path]))


def _once(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Each path as it was written first: ``runs`` and ``runs/`` are one."""
    found: dict[str, str] = {}
    for path in paths:
        found.setdefault(os.path.normpath(path), path)
    return tuple(found.values())


def _unmet(options: Options, report: Report) -> list[str]:
    """What --map gives a role to and no run holds: a slip of the pen, mostly."""
    if not options.map:
        return []
    names = {series.name for run in report.reports for series in run.series}
    known = names | {name.rpartition("/")[2] for name in names}
    return [item for item in options.map if item.partition("=")[2] not in known]


def _say(outputs: dict[str, str], text: bytes) -> None:
    """People's text; to stderr when a report has the standard output. That they have read enough
    of it (``| head``) changes no verdict."""
    stream = sys.stderr if STDOUT in outputs.values() else sys.stdout
    with suppress(BrokenPipeError):
        speak(stream, text)


def _summary(report: Report, options: Options, fail_on: FailOn) -> bytes:
    return summary_text(
        report, verbose=options.verbose, quiet=options.quiet, **terminal(options, fail_on)
    )


def in_full(report: Report, options: Options, fail_on: FailOn) -> bytes:
    if options.quiet:
        return _summary(report, options, fail_on)
    return doctor_text(report, **terminal(options, fail_on))


class _Terminal(TypedDict):
    color: bool
    width: int
    ascii: bool
    fail_on: FailOn


def terminal(options: Options, fail_on: FailOn) -> _Terminal:
    """What the place that text goes to can show."""
    return {
        "color": colored(options.color),
        "width": shutil.get_terminal_size((100, 24)).columns,
        "ascii": "utf" not in (sys.stdout.encoding or "").lower(),
        "fail_on": fail_on,
    }
