"""JSON documents inside of checkpoints, of which nothing is believed."""

from __future__ import annotations

import json

from trainproof.model.data import FaultCode

from .limits import LIMITS
from .source import Damage

LONGEST = LIMITS.document


def parse(data: bytes, name: str) -> object:
    """Raises Damage where it is no JSON, or too much of it."""
    if len(data) > LONGEST:
        what = f"{name} has {len(data)} bytes, more than the limit of {LONGEST}"
        raise Damage(FaultCode.TOO_LARGE, what)
    try:
        made: object = json.loads(data)
    except (ValueError, RecursionError):
        raise Damage(FaultCode.CORRUPT, f"{name} is no JSON") from None
    return made


def below(node: object, *keys: str) -> object:
    """What is at the end of a path of keys, None where the path ends before."""
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def integer(node: object, *keys: str) -> int | None:
    """The integer at the end of a path of keys; a flag is none."""
    found = below(node, *keys)
    return found if type(found) is int else None
