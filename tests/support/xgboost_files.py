"""Models of XGBoost in Universal Binary JSON."""

from __future__ import annotations

import struct


def key(name: str) -> bytes:
    return b"L" + struct.pack(">q", len(name)) + name.encode()


def text(value: str) -> bytes:
    return b"S" + key(value)


def mapping(**items: bytes) -> bytes:
    return b"{" + b"".join(key(name) + value for name, value in items.items()) + b"}"


def floats(*values: float) -> bytes:
    return b"[$d#L" + struct.pack(">q", len(values)) + struct.pack(f">{len(values)}f", *values)


def model(**tree: bytes) -> bytes:
    trees = b"[#L" + struct.pack(">q", 1) + mapping(**tree)
    booster = mapping(name=text("gbtree"), model=mapping(trees=trees))
    param = mapping(num_feature=text("3"))
    return mapping(learner=mapping(gradient_booster=booster, learner_model_param=param))
