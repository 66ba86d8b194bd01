"""``trainproof`` and ``python -m trainproof``.

--version and the top-level --help are answered without importing the command line, which costs
more than everything else they do. The help text is generated from it, and checked in CI. Where
something is going to be judged, the worker is imported at the same time.
"""

from __future__ import annotations

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

            launch_early(logs=command in _READING)
            _run()
        case _:
            _run()


_READING = frozenset(("audit", "doctor", "diagnose", "epoch", "compare", "watch"))
_JUDGING = _READING | {"checkpoint", "preflight", "tokenizer", "env", "data"}
_ALONE = frozenset(("--no-isolation", "--help", "-h"))


def _run() -> None:
    from .cli.app import app  # noqa: PLC0415
    from .engine.limits import collect_rarely  # noqa: PLC0415

    collect_rarely()
    app()


if __name__ == "__main__":
    main()
