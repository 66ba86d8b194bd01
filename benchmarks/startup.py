"""Start-up of the command line against trainproof 0.22: --version, --help.

python -m benchmarks.startup --peer PATH/TO/0.22/bin/trainproof
"""

from __future__ import annotations

import argparse
import shutil
import sys

from .side_by_side import measure, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="the trainproof 0.22 executable")
    parser.add_argument("--ours", default=shutil.which("trainproof"))
    parser.add_argument("--repetitions", type=int, default=15)
    options = parser.parse_args()
    for flag in ("--version", "--help"):
        commands = {"python -c pass": [sys.executable, "-c", "pass"]}
        commands["ours"] = [options.ours, flag]
        if options.peer:
            commands["0.22"] = [options.peer, flag]
        print(f"\n{flag}\n{table(measure(commands, options.repetitions), 'ours')}")


if __name__ == "__main__":
    main()
