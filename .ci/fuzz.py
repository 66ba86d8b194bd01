"""Damage files of every layout for a while, and keep what breaks a reader.

    python .ci/fuzz.py [SECONDS] [--seed N] [--keep DIRECTORY]
    python .ci/fuzz.py --atheris [ARGUMENTS OF LIBFUZZER]

The first form needs nothing but the project; the second follows the coverage, where atheris is
installed. Exits with 1 when an input raised an exception or took longer than ``SLOW``.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.mutations import SEEDS, check, mutated  # noqa: E402

SLOW = 5.0


def main() -> int:
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


def follow_coverage() -> None:
    import atheris

    def one(data: bytes) -> None:
        if data:
            check(SEEDS[data[0] % len(SEEDS)], data[1:])

    atheris.instrument_all()
    atheris.Setup([argument for argument in sys.argv if argument != "--atheris"], one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(follow_coverage() if "--atheris" in sys.argv else main())
