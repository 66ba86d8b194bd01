"""How much longer a store's walk takes than a bare os.scandir loop over the same tree.

    python benchmarks/walk.py [--files 200000]

Both count the same files, in one process, in turns; the minimum of seven is compared.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable

from trainproof.stores.local import LocalStore

FILES_EACH = 50
RUNS_EACH = 100
ROUNDS = 7


def plant(root: str, files: int) -> None:
    """``files`` empty files, fifty to a run directory, a hundred runs to an experiment."""
    for run in range(files // FILES_EACH):
        directory = f"{root}/experiment{run // RUNS_EACH:02d}/run{run % RUNS_EACH:03d}"
        os.makedirs(directory)
        for number in range(FILES_EACH):
            with open(f"{directory}/metrics{number:02d}.csv", "xb"):
                pass


def bare(root: str) -> int:
    """The least that a walk must do."""
    count, directories = 0, [root]
    while directories:
        with os.scandir(directories.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.path)
                else:
                    count += 1
    return count


def ours(root: str) -> int:
    return sum(1 for _ in LocalStore(root).walk())


def seconds(walk: Callable[[str], int], root: str, expected: int) -> float:
    begin = time.perf_counter()
    found = walk(root)
    elapsed = time.perf_counter() - begin
    if found != expected:
        raise SystemExit(f"{walk.__name__} found {found} files of {expected}")
    return elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=200_000)
    files = parser.parse_args().files // FILES_EACH * FILES_EACH
    with tempfile.TemporaryDirectory() as root:
        plant(root, files)
        rounds = [(seconds(bare, root, files), seconds(ours, root, files)) for _ in range(ROUNDS)]
    least_bare, least_ours = min(a for a, _ in rounds), min(b for _, b in rounds)
    print(f"{files} files: scandir loop {least_bare:.3f} s, LocalStore.walk {least_ours:.3f} s")
    print(f"ratio {least_ours / least_bare:.2f} (aim: at most 2)")


if __name__ == "__main__":
    main()
