"""GGUF headers and the tensors that are not quantised."""

from __future__ import annotations

import struct

import numpy as np

from tests.support.checkpoints import read
from trainproof.model.data import FaultCode
from trainproof.model.tensors import Extent, Layout, Presence, Scalar, TensorStats


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def tensor(name: str, sizes: list[int], kind: int, offset: int) -> bytes:
    dims = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    return text(name) + dims + struct.pack("<IQ", kind, offset)


KEYS = (
    text("general.architecture")
    + struct.pack("<I", 8)
    + text("llama")
    + text("tokens")
    + struct.pack("<IIQ", 9, 8, 2)
    + text("a")
    + text("b")
    + text("split.count")
    + struct.pack("<IH", 2, 3)
)
HEAD = b"GGUF" + struct.pack("<IQQ", 3, 2, 3) + KEYS
HEAD += tensor("w", [3, 2], 0, 0) + tensor("q", [32], 8, 32)
WHOLE = HEAD.ljust(-(-len(HEAD) // 32) * 32, b"\0") + np.arange(6, dtype="<f4").tobytes().ljust(32)
WHOLE += bytes(34)


def test_plain_tensors_are_measured_and_quantised_ones_listed() -> None:
    got = read(WHOLE, "m.gguf")
    assert got.tensors["w"].shape == (2, 3)
    assert got.tensors["w"].stats == TensorStats(6, 0, 0, 0, 1, 0.0, 5.0, 5.0, bfloat16=True)
    assert (got.tensors["q"].dtype, got.tensors["q"].nbytes) == ("q8_0", 34)
    assert got.tensors["q"].unread == "quantised values are not measured"
    assert (got.facts.layout, got.facts.extent) == (Layout.GGUF, Extent.READ)
    assert got.facts.metadata == (
        Scalar("general.architecture", "llama"),
        Scalar("split.count", 3),
    )


def test_a_cut_file_names_what_is_not_whole() -> None:
    got = read(WHOLE[:-1], "m.gguf")
    assert [t.presence for t in got.tensors.values()] == [Presence.WHOLE, Presence.CUT]
    assert [(f.code, f.fatal) for f in got.faults] == [(FaultCode.TRUNCATED, False)]


def test_every_prefix_of_the_header_is_a_fault() -> None:
    for length in range(4, len(HEAD)):
        assert read(WHOLE[:length], "m.gguf").faults


def test_counts_beyond_the_limit_are_refused() -> None:
    data = b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0)
    assert [f.code for f in read(data, "m.gguf").faults] == [FaultCode.TOO_LARGE]
