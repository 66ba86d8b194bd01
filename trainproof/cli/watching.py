"""watch: follow runs while they go on, and say what changes."""

from __future__ import annotations

import math
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import orjson
import typer

from trainproof import api
from trainproof.config import Config, ConfigError
from trainproof.emit.view import name
from trainproof.model.report import ExitCode, Report, exit_code
from trainproof.model.text import printable

from .auditing import fail
from .interrupts import interrupts
from .options import Options, with_options
from .outputs import STDOUT, check_targets, deliver_reports, speak

if TYPE_CHECKING:
    from trainproof.guardian.watch import Change

PATIENCE = 60.0
"""Seconds that the command of --exec may take; then it is killed and the watch goes on."""
LEAST = 0.05
"""Seconds between two looks, at least."""
MOST = 86_400.0
"""And at most: the system knows no sleep without end."""


@with_options
def watch(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Directories and files; they may be still to come."),
    ],
    *,
    interval: Annotated[
        float,
        typer.Option(
            "--interval", metavar="SECONDS", min=LEAST, max=MOST, help="Between two looks."
        ),
    ] = 10.0,
    until_fail: Annotated[
        bool, typer.Option("--until-fail", help="End with exit code 1 at the first FAIL.")
    ] = False,
    stall_timeout: Annotated[
        float,
        typer.Option(
            "--stall-timeout", metavar="SECONDS", min=0.0, help="Without a change: TP-STALL."
        ),
    ] = 300.0,
    exec: Annotated[
        str | None,
        typer.Option(
            "--exec",
            metavar="CMD",
            help="Run this, without a shell, when the verdict of a run changes. It finds"
            " TRAINPROOF_RUN, _VERDICT, _PREVIOUS, _FINDINGS and _MESSAGE in its environment.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One line of JSON for each change, and nothing else.")
    ] = False,
    options: Options,
) -> None:
    """Follow runs while they go on: read what is new, and say when a verdict changes.

    Ends by Ctrl-C, or when nobody reads what it says, with the exit code of the last verdict.
    Other reports are written at the end.
    """
    from trainproof.guardian.watch import Watch  # noqa: PLC0415 - other commands do without

    if math.isnan(interval + stall_timeout):  # within any bounds, for all that typer says
        fail("--interval and --stall-timeout are numbers of seconds")
    config, outputs, command = _settings(tuple(paths), options, exec)
    speaker = _Speaker(json, options.quiet)
    follower = Watch(config, stall_timeout)
    # Around the context manager too: an interrupt may come while it begins and ends.
    try:
        interrupts.listen(signal.SIGINT, signal.SIGTERM)
        with closing(follower):
            speaker.begin(paths)
            while not interrupts.asked:
                for change in follower.poll():
                    speaker.tell(change)
                    if command and change.of_verdict:
                        _run(command, change)
                if until_fail and _code(follower.report, config) is ExitCode.FAIL:
                    break
                if not interrupts.asked:  # it may have been lost within a callback
                    time.sleep(interval)
    except (KeyboardInterrupt, BrokenPipeError):  # or nobody listens any more
        pass
    _deliver(follower.report, outputs, config)
    raise typer.Exit(_code(follower.report, config))


def _settings(
    paths: tuple[str, ...], options: Options, command: str | None
) -> tuple[Config, dict[str, str], list[str]]:
    """What was asked for; what cannot be honoured is a usage error."""
    try:
        outputs = options.outputs()
        if STDOUT in outputs.values():
            raise ConfigError("watch speaks on the standard output: reports take a FILE")
        config = options.settings(paths)
        check_targets(outputs, paths)
        return config, outputs, shlex.split(command or "")
    except (ConfigError, ValueError) as error:
        fail(str(error))


def _code(report: Report | None, config: Config) -> ExitCode:
    return ExitCode.CANNOT_JUDGE if report is None else exit_code(report, config.fail_on)


def _deliver(report: Report | None, outputs: dict[str, str], config: Config) -> None:
    report = api.failed("nothing was judged yet") if report is None else report
    try:
        deliver_reports(outputs, report, config.fail_on)
    except ConfigError as error:
        fail(str(error))


# --- what is said -----------------------------------------------------------------------------


class _Speaker(msgspec.Struct, frozen=True):
    json: bool
    quiet: bool

    def begin(self, paths: list[str]) -> None:
        if not (self.json or self.quiet):
            self._write(f"watching {', '.join(map(printable, paths))}")

    def tell(self, change: Change) -> None:
        if self.json:
            speak(sys.stdout, orjson.dumps(_as_json(change)) + b"\n")
            return
        subject, was = change.subject, change.previous
        before = f" (was {was})" if was not in (None, subject.verdict) else ""
        self._write(f"{subject.verdict}{before}  {name(change.subject)}")
        for one in change.findings:
            self._write(f"  {one.level} {one.id}  {one.message} {one.evidence}")

    def _write(self, text: str) -> None:
        clock = datetime.now().strftime("%H:%M:%S")
        speak(sys.stdout, f"[{clock}] {text}\n".encode("utf-8", "backslashreplace"))


def _as_json(change: Change) -> dict[str, object]:
    """``findings``: those that are new."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": name(change.subject),
        "verdict": str(change.subject.verdict),
        "previous": None if change.previous is None else str(change.previous),
        "findings": [
            {
                "id": one.id,
                "level": str(one.level),
                "message": one.message,
                "evidence": one.evidence,
                "path": one.location.path,
                "line": one.location.line,
                "series": one.series,
                "first_step": one.first_step,
                "last_step": one.last_step,
            }
            for one in change.findings
        ],
    }


def _run(command: list[str], change: Change) -> None:
    """The user's command. What a log says reaches it as the value of a variable only."""
    findings = change.subject.findings
    told = {
        "TRAINPROOF_RUN": name(change.subject),
        "TRAINPROOF_VERDICT": str(change.subject.verdict),
        "TRAINPROOF_PREVIOUS": "" if change.previous is None else str(change.previous),
        "TRAINPROOF_FINDINGS": " ".join(dict.fromkeys(one.id for one in findings)),
        "TRAINPROOF_MESSAGE": findings[0].message if findings else "",
    }
    try:
        carry_out(command, {**os.environ, **told})
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"trainproof: --exec: {printable(str(error))}\n")


def carry_out(command: list[str], environment: dict[str, str], patience: float = PATIENCE) -> None:
    """Run it in a session of its own: with what it has started it ends when its time is over, and
    when the watch is interrupted. Raises OSError, ValueError, SubprocessError."""
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        start_new_session=True,
    ) as process:
        try:
            status = process.wait(patience)
        except BaseException:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if status:
        raise subprocess.CalledProcessError(status, command)
