"""One large checkpoint: checksums and the statistics of every tensor, against reading its bytes.

    python -m benchmarks.checkpoints [--gb 4] [--elements 16777216]
        [--peer VENV_OF_0.22/bin/trainproof] [--picklescan …] [--modelaudit …]
        [--torch-python VENV_WITH_TORCH/bin/python]

The file has fp32, bf16, fp16 and fp8 tensors in turn, with a few NaN in one of each type. "ours" is
the command as people call it, with its worker; the others are the reader alone, in one process. A
small file says what all but reading takes.
"""

from __future__ import annotations

import argparse
import compileall
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

import trainproof
from tests.support import pickles as p

from .side_by_side import measure, table

ELEMENTS = 16 << 20
"""Of one tensor."""

KINDS = (("float32", 4), ("bfloat16", 2), ("float16", 2), ("float8_e4m3fn", 1))
NAN = {"float32": 0x7FC00000, "bfloat16": 0x7FC0, "float16": 0x7E00, "float8_e4m3fn": 0x7F}

OURS = """
import sys
from trainproof.checkpoints.reader import read_checkpoint
from trainproof.model.tensors import Depth
with open(sys.argv[1], "rb") as stream:
    for item in read_checkpoint(stream, "m.pt", Depth(sys.argv[2])):
        pass
assert item.extent != "not-checked", item
"""

TORCH = """
import sys, torch
for tensor in torch.load(sys.argv[1], weights_only=True).values():
    wide = tensor.float() if tensor.dtype.itemsize == 1 else tensor
    wide.isnan().sum(), wide.isinf().sum()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=4.0)
    parser.add_argument("--elements", type=int, default=ELEMENTS, help="of one tensor")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--directory", help="where the file is made (default: a temporary one)")
    for peer in ("peer", "picklescan", "modelaudit", "torch-python"):
        parser.add_argument(f"--{peer}")
    options = parser.parse_args()
    # As pip leaves a package; an editable one may never have been compiled.
    compileall.compile_dir(Path(trainproof.__file__).parent, quiet=2)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        file, small = str(Path(directory, "m.pt")), str(Path(directory, "small.pt"))
        # In a process of its own: a child's peak memory is at least its parent's at the fork.
        make = (
            "from benchmarks.checkpoints import make_checkpoint as make;"
            f" make({file!r}, {options.gb}e9, {options.elements}); make({small!r}, 1e6, 1 << 16)"
        )
        subprocess.run([sys.executable, "-c", make], check=True)
        measured = measure(commands(options, file, small), options.repetitions)
        print(table(measured, "ours"))


def commands(options: argparse.Namespace, file: str, small: str) -> dict[str, list[str]]:
    ours = [sys.executable, "-m", "trainproof", "checkpoint", "--quiet"]
    made = {
        "cat": ["cat", file],
        "ours": [*ours, file],
        "ours, a small file": [*ours, small],
        "ours, everything": [sys.executable, "-c", OURS, file, "tensors"],
        "ours, checksums only": [sys.executable, "-c", OURS, file, "integrity"],
        "ours, structure only": [sys.executable, "-c", OURS, file, "structure"],
    }
    if options.peer:
        made["0.22, checksums only"] = [options.peer, "env", "--checkpoint", file, "--json"]
    if options.picklescan:
        made["picklescan"] = [options.picklescan, "-p", file]
    if options.modelaudit:
        made["modelaudit"] = [options.modelaudit, "scan", file]
    if options.torch_python:
        made["torch.load, isnan, isinf"] = [options.torch_python, "-c", TORCH, file]
    return made


def make_checkpoint(path: str, size: float, elements: int = ELEMENTS) -> None:
    """Write a file of about ``size`` bytes the way torch does, one tensor at a time."""
    kinds: list[tuple[str, int]] = []
    while sum(elements * width for _, width in kinds) < size:
        kinds.append(KINDS[len(kinds) % len(KINDS)])
    state = {
        f"layers.{number}.weight": p.typed_tensor(str(number), elements, dtype, width)
        for number, (dtype, width) in enumerate(kinds)
    }
    noise = np.random.default_rng(0).standard_normal(elements, np.float32) * np.float32(0.02)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("m/data.pkl", p.pickle(p.dict_(state)))
        file.writestr("m/byteorder", b"little")
        for number, (dtype, width) in enumerate(kinds):
            values = _bits(noise, width).copy()
            if number < len(KINDS):
                values[1234] = NAN[dtype]
            with file.open(f"m/data/{number}", "w", force_zip64=True) as entry:
                entry.write(values.tobytes())
        file.writestr("m/version", b"3\n")


def _bits(noise: np.ndarray, width: int) -> np.ndarray:
    """Finite bit patterns of the width: as many leading bits of each number as fit."""
    if width == 4:
        return noise.view(np.uint32)
    if width == 2:
        return (noise.view(np.uint32) >> 16).astype(np.uint16) & np.uint16(0xBFFF)
    return (noise.view(np.uint32) >> 24).astype(np.uint8) & np.uint8(0xBF)


if __name__ == "__main__":
    main()
