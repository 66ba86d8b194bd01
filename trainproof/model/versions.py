"""Versions of packages that are known to train wrongly, or not to work together.

Only what public reports show, with their numbers. Ranges are of release numbers (PEP 440), from
``first`` on and before ``fixed``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

Release = tuple[int, ...]


class Range(msgspec.Struct, frozen=True):
    """Of the versions of one package. ``fixed``: the first release that is good again."""

    package: str
    first: Release | None = None
    fixed: Release | None = None
    builds_only: str | None = None
    """Local builds (``+cu121``) that are meant, by how they begin; all, where it is None."""

    def holds(self, versions: Mapping[str, str]) -> bool:
        version = versions.get(self.package, "")
        number = release(version)
        if number is None:
            return False
        _, _, local = version.partition("+")
        if self.builds_only is not None and local and not local.startswith(self.builds_only):
            return False
        after = self.first is None or number >= self.first
        return after and (self.fixed is None or number < self.fixed)


class KnownBad(msgspec.Struct, frozen=True):
    """``all_of``: every one of these is installed. ``certain``: whether the versions alone make it
    so; the rest also needs what ``when`` says."""

    all_of: tuple[Range, ...]
    effect: str
    when: str
    source: str
    certain: bool

    def holds(self, versions: Mapping[str, str]) -> bool:
        return all(one.holds(versions) for one in self.all_of)


KNOWN_BAD: tuple[KnownBad, ...] = (
    KnownBad(
        (Range("torch", fixed=(2, 3)), Range("numpy", first=(2,))),
        "torch before 2.3 was built for NumPy 1: tensors cannot be turned into arrays",
        "in every training",
        "pytorch #107302, #132179",
        certain=True,
    ),
    KnownBad(
        (Range("transformers", first=(4, 52)), Range("torch", fixed=(2, 6))),
        "transformers refuses torch.load: a checkpoint's optimizer.pt and weights in .bin cannot"
        " be loaded",
        "when a training is resumed",
        "transformers PR #37785, LlamaFactory #8379",
        certain=True,
    ),
    KnownBad(
        (Range("tensorboard", fixed=(2, 12)), Range("protobuf", first=(4,))),
        "tensorboard cannot be imported: its generated code is too old for this protobuf",
        "when logs are written for TensorBoard",
        "tensorboard #5703, #5708",
        certain=True,
    ),
    KnownBad(
        (Range("transformers", first=(4, 46), fixed=(4, 48)),),
        "the Trainer's loss and gradients are scaled wrongly",
        "with gradient_accumulation_steps above 1",
        "transformers PR #35438, #37766, LlamaFactory #6639",
        certain=False,
    ),
    KnownBad(
        (Range("torch", first=(2, 5), fixed=(2, 5, 1), builds_only="cu"),),
        "attention through cuDNN can give NaN gradients",
        "on H100 and similar GPUs, with scaled_dot_product_attention",
        "pytorch #139298, diffusers #9768",
        certain=False,
    ),
    KnownBad(
        (Range("torch", first=(2, 11), fixed=(2, 13, 1), builds_only="cu"),),
        "attention through cuDNN can give NaN gradients",
        "on H100 and H200, with a mask and lengths of 64 modulo 128",
        "pytorch #196678, trl #7181",
        certain=False,
    ),
)

CUDA_RUNTIMES = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")
"""Packages that torch brings its CUDA with."""

LEAST_DRIVER: Mapping[int, Release] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
"""Major version of CUDA to the first driver for Linux that any of its releases runs on.
https://docs.nvidia.com/deploy/cuda-compatibility/ (minor version compatibility)"""

WATCHED: tuple[str, ...] = (
    *CUDA_RUNTIMES,
    "accelerate",
    "datasets",
    "deepspeed",
    "lightning",
    "numpy",
    "peft",
    "protobuf",
    "tensorboard",
    "torch",
    "transformers",
    "trl",
)
"""Packages whose versions are read."""

_RELEASE = re.compile(r"v?(?:\d{1,9}!)?(\d{1,9}(?:\.\d{1,9}){0,9})")


def release(version: str) -> Release | None:
    """The numbers of the release segment; None for what is no version. ``2.5.0rc1+cu121`` counts
    as 2.5.0."""
    match = _RELEASE.match(version)
    if match is None:
        return None
    numbers = tuple(int(part) for part in match[1].split("."))
    while numbers and numbers[-1] == 0:  # 2.5 and 2.5.0 are the same
        numbers = numbers[:-1]
    return numbers


def cuda(versions: Mapping[str, str]) -> Release | None:
    """The CUDA that torch was built for: by its local version (``+cu124``), or by the runtime that
    is installed beside it. None without torch, and for builds that need none."""
    _, _, local = versions.get("torch", "").partition("+")
    if match := re.fullmatch(r"cu(\d\d)(\d{1,2})", local):
        return int(match[1]), int(match[2])
    if local or "torch" not in versions:
        return None
    return next((release(versions[one]) for one in CUDA_RUNTIMES if one in versions), None)


def known_bad(versions: Mapping[str, str]) -> Iterator[KnownBad]:
    return (one for one in KNOWN_BAD if one.holds(versions))
