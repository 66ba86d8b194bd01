"""``trainproof`` and ``python -m trainproof``.

--version and the top-level --help are answered without importing the command line, which costs
more than everything else they do. The help text is generated from it, and checked in CI. Where
something is going to be judged, the worker is imported at the same time.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from .cli.interrupts import interrupts


def main() -> None:
    interrupts.listen(signal.SIGINT)
    try:
        _answer()
    except KeyboardInterrupt:  # while the command line was still being imported
        sys.stderr.write("trainproof: interrupted\n")
        sys.exit(2)


def _answer() -> None:
    match sys.argv[1:]:
        case ["--version"]:
            from . import __version__  # noqa: PLC0415

            sys.stdout.write(f"trainproof {__version__}\n")
        case ["--help" | "-h"]:
            with open(f"{__file__.removesuffix('__main__.py')}cli/help.txt", "rb") as file:
                sys.stdout.buffer.write(file.read())
        case [command, *arguments] if command in _JUDGING and _ALONE.isdisjoint(arguments):
            from .engine.launch import launch_early  # noqa: PLC0415

            launch_early(_JUDGING[command])
            _run(command)
        case [command, *_]:
            _run(command)
        case _:
            _run()


_LOGS = ("readers.table",)
_SAVED = ("engine.checkpoints", "checkpoints.zip_files")
_INSPECTED = ("engine.inspections",)
_JUDGING = {
    **dict.fromkeys(("audit", "doctor", "diagnose", "epoch", "compare", "watch"), _LOGS),
    "checkpoint": _SAVED,
    **dict.fromkeys(("preflight", "tokenizer", "env", "data"), _INSPECTED),
}
"""Commands that need a worker, and what it imports before it is told what to do."""
_ALONE = frozenset(("--no-isolation", "--help", "-h"))


def _run(command: str | None = None) -> None:
    # Nothing that is imported is garbage. And while numpy is: its linear algebra would start
    # threads, for which this process has no use. Those that it starts itself are to find the
    # environment as it was.
    gc.disable()
    given = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from .cli.app import command_line  # noqa: PLC0415
    from .engine.limits import collect_rarely  # noqa: PLC0415

    app = command_line(command)
    del os.environ["OPENBLAS_NUM_THREADS"]
    if given is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = given
    collect_rarely()
    app()


if __name__ == "__main__":
    main()
