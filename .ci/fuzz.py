"""Damage files of every layout for a while, and keep what breaks a reader.

    python .ci/fuzz.py [SECONDS] [--seed N] [--keep DIRECTORY]
    python .ci/fuzz.py --atheris [ARGUMENTS OF LIBFUZZER]

The first form needs nothing but the project; the second follows the coverage, where atheris is
installed (3.0 has wheels for Linux and CPython 3.11 to 3.13), and begins with the same files:

    python .ci/fuzz.py --atheris -max_total_time=600 -timeout=10 -artifact_prefix=broken/ CORPUS

Exits with 1 when an input raised an exception or took longer than ``SLOW``. What broke a reader
becomes a test that makes the input itself.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SLOW = 5.0


def main() -> int:
    from tests.support.mutations import SEEDS, check, mutated

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="where inputs that broke something are written")
    options = parser.parse_args()
    dice, met = random.Random(options.seed), set()
    tried, slowest, end = 0, (0.0, ""), time.monotonic() + options.seconds
    while time.monotonic() < end:
        seed = dice.choice(SEEDS)
        data = mutated(seed.data, dice)
        begun, problem = time.process_time(), None
        try:
            check(seed, data)
        except Exception:  # noqa: BLE001 - this is what is looked for
            problem = traceback.format_exc()
        spent = time.process_time() - begun
        slowest, tried = max(slowest, (spent, seed.name)), tried + 1
        if spent > SLOW:
            problem = problem or f"{spent:.1f} s"
        place = None if problem is None else "\n".join(problem.splitlines()[-3:])
        if place is not None and place not in met:
            met.add(place)
            print(seed.name, problem, sep="\n")
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{len(met)}-{seed.name}").write_bytes(data)
    print(f"{tried} inputs, slowest {slowest[0]:.2f} s {slowest[1]}, {len(met)} problems")
    return bool(met)


def follow_coverage(arguments: list[str]) -> None:
    """An input is the number of a seed, whose name and surroundings it is read with, and a file."""
    import atheris

    with atheris.instrument_imports(include=["trainproof.checkpoints"]):
        from tests.support.mutations import SEEDS, check

    def one(data: bytes) -> None:
        if data:
            check(SEEDS[data[0] % len(SEEDS)], data[1:])

    seeds = Path(tempfile.mkdtemp())
    for number, seed in enumerate(SEEDS):
        (seeds / str(number)).write_bytes(bytes([number]) + seed.data)
    atheris.Setup([*arguments, str(seeds)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    if "--atheris" in sys.argv:
        follow_coverage([one for one in sys.argv if one != "--atheris"])
    sys.exit(main())
