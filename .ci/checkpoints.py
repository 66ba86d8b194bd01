"""Acceptance of the checkpoint readers against what torch and safetensors say of the same files.

Called by ``acceptance.py``; alone: ``python .ci/checkpoints.py DATA``.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainproof.api import audit_checkpoints
from trainproof.checkpoints.distributed import read_distributed
from trainproof.checkpoints.reader import read_checkpoint
from trainproof.config import Config
from trainproof.model.data import Fault
from trainproof.model.tensors import HARMLESS, CheckpointFacts, Extent, TensorInfo

SECONDS, MEGABYTES = 5.0, 300
"""CPU time and memory of the worst hostile file, judged in a process of its own."""

TENSORS = 20_367
"""Of 20,368 whose values torch tells; the other is a jagged nested tensor, which is not read."""
NOT_READ = {"nested_tensor.pt": {"njt"}}
PEER_TENSORS, PEER_OPTIMIZERS = 28, 7

OWN_CLASSES = {"custom_cfg.pt", "module_custom.pt", "tensor_subclass.pt"}
"""Benign files of own classes, which torch.load(weights_only=True) refuses too: a WARN."""

ACCEPTED = frozenset(
    "c64 e8m0 extra_field f4_ok hdr_empty_obj key_nul key_traversal many meta_only nan ok ok_meta"
    " ok_pad ok_scalar ok_zero unaligned".split()
)
"""The safetensors files that the reference library (0.8.0) loads. It refuses the other 40."""
SAFETENSORS = 56

DISTRIBUTED = {"zoo/dcp": 23, "zoo/dcp_fsdp": 11, "zoo_dcp_st": 2}
"""Tensors of each directory of torch.distributed.checkpoint, all of which are measured."""


def checkpoints(data: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("benign", "hostile"):
            with tarfile.open(data / "checkpoints" / f"{name}.tar.xz") as archive:
                archive.extractall(scratch, filter="data")
        made = Path(scratch)
        problems = [*tensors(data, made / "zoo"), *peer(data), *safetensors(made / "st")]
        problems += distributed(made)
        return problems + [*benign(made / "zoo"), *hostile(data, made / "hostile")]


def read(path: Path) -> tuple[dict[str, TensorInfo], CheckpointFacts, list[Fault]]:
    with path.open("rb") as stream:
        *items, facts = read_checkpoint(stream, path.name)
    found = {one.name: one for one in items if isinstance(one, TensorInfo)}
    return found, facts, [one for one in items if isinstance(one, Fault)]


# --- what torch says of each tensor --------------------------------------------------------------


def tensors(data: Path, zoo: Path) -> Iterator[str]:
    agreed = 0
    oracle = json.loads((data / "checkpoints" / "benign-oracle.json").read_text())
    for name, expected in oracle.items():
        path = zoo / name
        if not path.exists():
            continue
        found, facts, faults = read(path)
        if faults:
            yield f"{name}: {faults[0]}"
        wrong = [key for key, said in expected.items()
                 if key != "__error__" and not _agrees(found.get(key), said)]
        agreed += len(expected.keys() - {"__error__"}) - len(wrong)
        if set(wrong) - NOT_READ.get(name, set()):
            yield f"{name}: not what torch says: {wrong[:3]}"
    print(f"tensors as torch has them: {agreed}")
    if agreed != TENSORS:
        yield f"{agreed} tensors agree with torch, not {TENSORS}"


def _agrees(found: TensorInfo | None, said: dict) -> bool:
    if found is None:
        return False
    shape = ["nested"] if found.shape is None else list(found.shape)
    if [found.dtype, shape] != [said["dtype"], said["shape"]]:
        return False
    if "nan" not in said:
        return True
    stats = found.stats
    values = None if stats is None else (stats.nan, stats.inf, stats.all_zero)
    return values == (said["nan"], said["inf"], said.get("zero", stats and stats.all_zero))


def peer(data: Path) -> Iterator[str]:
    """The fixtures of the predecessor, and its own account of them."""
    directory = data / "peer-runs" / "evidence" / "ckpt_fixtures"
    tensors = optimizers = 0
    for name, said in json.loads((directory / "oracle.json").read_text()).items():
        found, facts, _ = read(directory / name)
        by_leaf = {key.rpartition("/")[2]: one for key, one in found.items()}
        optimizers += bool(facts.optimizers) is said["has_optimizer"]
        tensors += sum(
            _agrees(by_leaf.get(key), {"dtype": one["dtype"], "shape": one["shape"],
                                       "nan": one["nan_count"], "inf": one["inf_count"],
                                       "zero": one["is_all_zero"]})
            for key, one in said["tensors"].items()
        )
    print(f"fixtures of 0.22: {tensors} tensors, {optimizers} optimizers")
    if (tensors, optimizers) != (PEER_TENSORS, PEER_OPTIMIZERS):
        yield f"fixtures of 0.22: {tensors} tensors and {optimizers} optimizers agree"


def safetensors(directory: Path) -> Iterator[str]:
    files = sorted(directory.iterdir())
    for path in files:
        *_, facts = read_checkpoint(io.BytesIO(path.read_bytes()), f"{path.name}.safetensors")
        sound = facts.extent is not Extent.NOT_CHECKED and not any(
            one.code not in HARMLESS for one in facts.defects
        )
        if sound != (path.name in ACCEPTED):
            yield f"safetensors {path.name}: sound is {sound}"
    if len(files) != SAFETENSORS:
        yield f"{len(files)} safetensors files, not {SAFETENSORS}"


def distributed(scratch: Path) -> Iterator[str]:
    for name, expected in DISTRIBUTED.items():
        directory = scratch / name
        items = read_distributed(lambda path, at=directory: (at / path).open("rb"), name)
        measured = [one for one in items if isinstance(one, TensorInfo) and one.stats is not None]
        if len(measured) != expected:
            yield f"{name}: {len(measured)} tensors were measured, not {expected}"


# --- verdicts ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """``levels``: of the findings, by id; ``seconds`` of CPU, ``megabytes`` at the peak."""

    verdict: str
    levels: dict[str, str]
    seconds: float
    megabytes: int


def judge(path: Path) -> Judged | None:
    """The verdict on one file, in a process of its own; None where that process came to no end."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        os.write(there, _judged(path))
        os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return Judged(**json.loads(said)) if said else None


def _judged(path: Path) -> bytes:
    began = resource.getrusage(resource.RUSAGE_SELF)
    (report,) = audit_checkpoints(Config(paths=(str(path),), isolation=False)).reports
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime - began.ru_utime - began.ru_stime
    levels: dict[str, str] = {}
    for finding in report.findings:
        levels.setdefault(finding.id, str(finding.level))
    made = Judged(str(report.verdict), levels, seconds, used.ru_maxrss // 1024)
    return json.dumps(vars(made)).encode()


def benign(zoo: Path) -> Iterator[str]:
    for path in sorted(path for path in zoo.iterdir() if path.is_file()):
        judged = judge(path)
        if judged is None:
            yield f"{path.name}: the reader died"
        elif judged.levels.get("TP-CKPT-UNSAFE", "WARN") != "WARN":
            yield f"{path.name}: benign and called unsafe"
        elif ("TP-CKPT-UNSAFE" in judged.levels) != (path.name in OWN_CLASSES):
            yield f"{path.name}: its safety is {judged.levels}"


def hostile(data: Path, directory: Path) -> Iterator[str]:
    groups = json.loads((data / "checkpoints" / "hostile-groups.json").read_text())
    slowest: tuple[float, str] = (0.0, "")
    largest = (0, "")
    for path in sorted(directory.iterdir()):
        judged = judge(path)
        if judged is None:
            yield f"{path.name}: the reader died"
            continue
        slowest = max(slowest, (judged.seconds, path.name))
        largest = max(largest, (judged.megabytes, path.name))
        if path.name in groups["executes"] and judged.levels.get("TP-CKPT-UNSAFE") != "FAIL":
            yield f"{path.name}: torch runs its payload, and it is {judged.verdict}"
        known = path.name in groups["torch_refuses"] + groups["silently_loaded"]
        if known and judged.verdict == "PASS":
            yield f"{path.name}: damaged, and it is a PASS"
    print(f"hostile: slowest {slowest[0]:.2f} s of CPU {slowest[1]}, largest {largest}")
    if slowest[0] > SECONDS or largest[0] > MEGABYTES:
        yield f"hostile: {slowest} s or {largest} MB are over {SECONDS} s and {MEGABYTES} MB"


if __name__ == "__main__":
    found = checkpoints(Path(sys.argv[1]))
    print("\n".join(found))
    sys.exit(bool(found))
