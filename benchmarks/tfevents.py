"""Reading TensorBoard event files: in-process time of the read, imports not counted.

    python -m benchmarks.tfevents --peer-python VENV_OF_0.22/bin/python \\
        --tensorboard-python VENV_OF_TENSORBOARD/bin/python

Every reader runs in a fresh process, the readers of one file take turns, and medians are shown;
on a machine that others use, trust the ratio of CPU times rather than that of wall times.
Ours verifies both checksums of every record; 0.22 verifies none; EventAccumulator, told to keep
all points, verifies them. ``equal`` compares a digest of all tags, steps, wall times and values
with that of ours, bit for bit (0.22 has no wall times, so only its points are counted).

The files are made in a temporary folder from fixed seeds: ``simple`` a million simple values of
20 tags; ``tensors`` the same as Keras writes them; ``cadence`` 5 tags each step, 10 more each
100, one each 1000; ``shuffled`` no order at all; ``values`` 20 values an event; ``bytes``
40,000 scalars among 126 MB of histograms and images; ``middle`` 40,000 events of ``cadence``;
``short`` 300 events of ``simple`` and ``few`` 300 of 3 tags, each read 200 times.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tests.support.tfevents import (
    WALL,
    event,
    histogram,
    image,
    scalar,
    scalar2,
    simple,
    summary,
    version,
)

TAGS = [
    *(f"train/{n}" for n in ("loss", "grad_norm", "lr", "accuracy", "perplexity", "tokens_per_s")),
    *(f"train/{n}" for n in ("step_time", "data_time", "gpu_mem", "gpu_util")),
    *(f"eval/{n}" for n in ("loss", "accuracy", "f1", "precision", "recall")),
    *("lr-AdamW/pg1", "lr-AdamW/pg2", "debug/weight_norm", "debug/update_ratio", "epoch"),
]

TIMED = """
import json, resource, sys, time
path, times = sys.argv[1], int(sys.argv[2])
walls, cpus = [], []
for _ in range(times):
    cpu, wall = time.process_time(), time.perf_counter()
    got = read(path)
    walls.append(time.perf_counter() - wall)
    cpus.append(time.process_time() - cpu)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
middle = times // 2
print(json.dumps([sorted(walls)[middle], sorted(cpus)[middle], peak, *told(got)]))
"""

DIGEST = """
import hashlib
import numpy as np
def digest(series):
    sha, points = hashlib.sha256(), 0
    for tag, steps, walls, values in sorted(series, key=lambda one: one[0]):
        points += len(steps)
        sha.update(tag.encode())
        sha.update(np.asarray(steps, np.int64).tobytes())
        sha.update(np.asarray(walls, np.float64).tobytes())
        sha.update(np.asarray(values, np.float64).tobytes())
    return points, sha.hexdigest()
"""

OURS = """
import os
from trainproof.model.artifact import Artifact, Kind
from trainproof.readers.interface import Options
from trainproof.readers.tfevents import TfEvents
def read(path):
    with open(path, "rb") as stream:
        artifact = Artifact(".", path, os.path.getsize(path), Kind.LOG, "tfevents")
        return list(TfEvents().read(artifact, stream, Options()))
def told(columns):
    return digest((one.tag, one.steps, one.walls, one.values) for one in columns)
"""

PEER = """
from trainproof.tfevents import read_scalars as read
def told(got):
    return sum(map(len, got.values())), None
"""

ACCUMULATOR = """
from tensorboard.backend.event_processing import event_accumulator as ea
from tensorboard.util import tensor_util
KEEP = {ea.SCALARS: 0, ea.TENSORS: 0, ea.HISTOGRAMS: 1, ea.COMPRESSED_HISTOGRAMS: 1, ea.IMAGES: 1}
def read(path):
    return ea.EventAccumulator(path, size_guidance=KEEP).Reload()
def series(got):
    for tag in got.Tags()["scalars"]:
        points = got.Scalars(tag)
        yield tag, *zip(*((p.step, p.wall_time, p.value) for p in points))
    for tag in got.Tags()["tensors"]:
        points = got.Tensors(tag)
        number = lambda p: tensor_util.make_ndarray(p.tensor_proto).item()
        yield tag, *zip(*((p.step, p.wall_time, number(p)) for p in points))
def told(got):
    return digest(series(got))
"""


def simple_values(write: Callable[..., bytes] = scalar) -> Iterator[bytes]:
    draw = random.Random(0).random
    for step in range(10**9):
        for i, tag in enumerate(TAGS):
            yield write(tag, draw(), step, WALL + step / 4 + i / 1000)


def few_tags() -> Iterator[bytes]:
    draw = random.Random(4).random
    for step in range(1, 10**9):
        for tag in ("train/loss", "train/grad_norm", "train/learning_rate"):
            yield scalar(tag, draw(), step, WALL + step / 4)


def tensors() -> Iterator[bytes]:
    return simple_values(scalar2)


def cadence() -> Iterator[bytes]:
    draw = random.Random(1).random
    for step in range(10**9):
        for i in range(5):
            yield scalar(f"train/{'abcde'[i] * (i + 2)}", draw(), step, WALL + step / 4 + i / 1000)
        if step % 100 == 99:
            for i in range(10):
                yield scalar(f"eval/m{i}", draw(), step, WALL + step / 4)
        if step % 1000 == 999:
            yield scalar("epoch", step / 1000, step, WALL + step / 4)


def shuffled() -> Iterator[bytes]:
    rand = random.Random(2)
    for step in range(10**9):
        for tag in rand.sample(TAGS, len(TAGS)):
            yield scalar(tag, rand.random(), step, WALL + step / 4)


def many_values() -> Iterator[bytes]:
    draw = random.Random(3).random
    for step in range(10**9):
        values = [simple(tag, draw()) for tag in TAGS]
        yield event(summary(*values), step=step, wall=WALL + step / 4)


def histograms_and_images() -> Iterator[bytes]:
    for step in range(10**9):
        yield from (scalar(tag, step / 7, step) for tag in TAGS)
        if step % 10 == 0:
            for layer in range(20):
                yield event(summary(histogram(f"layer{layer}", 16_000)), step=step)
            yield event(summary(image("samples", 300_000)), step=step)


@dataclass(frozen=True, slots=True)
class File:
    """What is written, how many records of it, and how often a process reads it."""

    records: Callable[[], Iterator[bytes]]
    count: int
    times: int = 1


FILES = {
    "simple": File(simple_values, 1_000_000),
    "tensors": File(tensors, 1_000_000),
    "cadence": File(cadence, 1_000_000),
    "shuffled": File(shuffled, 1_000_000),
    "values": File(many_values, 50_000),
    "bytes": File(histograms_and_images, 44_200),
    "middle": File(cadence, 40_000),
    "short": File(simple_values, 300, times=200),
    "few": File(few_tags, 300, times=200),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", help="a Python that has trainproof 0.22")
    parser.add_argument("--tensorboard-python", help="a Python that has tensorboard and numpy")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--files", nargs="+", choices=FILES, default=list(FILES))
    options = parser.parse_args()
    readers = {"ours": (sys.executable, DIGEST + OURS)}
    if options.peer_python:
        readers["0.22"] = options.peer_python, PEER
    if options.tensorboard_python:
        readers["EventAccumulator"] = options.tensorboard_python, DIGEST + ACCUMULATOR
    print("| file | MB | reader | points | wall ms | CPU ms | peak MB | wall x | CPU x | equal |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.files:
            path = Path(folder, "events.out.tfevents.1700000000.host.1.0")
            with path.open("wb") as out:
                out.write(version())
                out.writelines(islice(FILES[name].records(), FILES[name].count))
            compare(name, path, readers, options.repetitions)


def compare(name: str, path: Path, readers: dict[str, tuple[str, str]], repetitions: int) -> None:
    """Print one row per reader of this file."""
    runs: dict[str, list[list[float]]] = {reader: [] for reader in readers}
    told: dict[str, list[object]] = {}
    for _ in range(repetitions):
        for reader, (python, code) in readers.items():
            *numbers, points, digest = once(python, code, path, FILES[name].times)
            runs[reader].append(numbers)
            told[reader] = [points, digest]
    size = path.stat().st_size / 1e6
    our_wall, our_cpu = (statistics.median(run[i] for run in runs["ours"]) for i in (0, 1))
    for reader, found in runs.items():
        wall, cpu, peak = (statistics.median(column) for column in zip(*found, strict=True))
        points, digest = told[reader]
        equal = "" if digest is None else "yes" if told["ours"][1] == digest else "NO"
        print(
            f"| {name} | {size:.1f} | {reader} | {points} | {wall * 1e3:.2f} | {cpu * 1e3:.2f} "
            f"| {peak:.0f} | {wall / our_wall:.1f} | {cpu / our_cpu:.1f} | {equal} |",
            flush=True,
        )


def once(python: str, code: str, path: Path, times: int) -> list[float]:
    command = [python, "-c", code + TIMED, str(path), str(times)]
    # Away from this repository, or every Python would import the trainproof in it; and without
    # the threads that OpenBLAS keeps spinning for a while after numpy is imported.
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        cwd=path.parent,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    answer: list[float] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    main()
