"""Pickles of joblib: the bytes of an array follow the object that announces it."""

from __future__ import annotations

import struct

from tests.support import pickles as p

ONE_NAN = struct.pack("<2d", 1.0, float("nan"))


def announced(shape: list[int], code: str, aligned: bool = False) -> bytes:
    """A NumpyArrayWrapper with its attributes, BUILD included."""
    dtype = p.call("numpy", "dtype", p.text(code), b"\x89", b"\x88")
    order = p.tuple_(p.integer(3), p.text("<"), p.NONE, p.NONE, p.NONE)
    state = {
        "subclass": p.global_("numpy", "ndarray"),
        "shape": p.tuple_(*map(p.integer, shape)),
        "order": p.text("C"),
        "dtype": dtype + order + p.BUILD,
        "allow_mmap": b"\x88",
        "numpy_array_alignment_bytes": p.integer(16) if aligned else p.NONE,
    }
    wrapper = p.global_("joblib.numpy_pickle", "NumpyArrayWrapper") + p.EMPTY_TUPLE + b"\x81"
    return wrapper + p.dict_(state) + p.BUILD


def dumped(**values: bytes) -> bytes:
    return p.pickle(p.dict_(values))


PLAIN = dumped(coef_=announced([2], "f8", aligned=True) + b"\x03\xff\xff\xff" + ONE_NAN)
