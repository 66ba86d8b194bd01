"""Readers: the table of built-ins, in order of claim; ``plugins`` adds those of third parties.

They are imported when the table is first asked for: commands about checkpoints do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .interface import Reader
    from .plugins import ThirdParty
    from .table import READERS

__all__ = ["READERS", "reader", "third_party"]


def __getattr__(name: str) -> object:
    if name != "READERS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .table import READERS  # noqa: PLC0415

    return READERS


def third_party() -> ThirdParty:
    """The readers of installed packages, for one audit. Imports those packages."""
    from .plugins import ThirdParty  # noqa: PLC0415 - only audits look for plug-ins
    from .table import READERS  # noqa: PLC0415

    return ThirdParty(frozenset(one.name for one in READERS))


def reader(name: str) -> Reader:
    """The reader of this public name, be it of a third party. Raises KeyError."""
    from .table import READERS  # noqa: PLC0415

    for one in READERS:
        if one.name == name:
            return one
    for one in third_party().readers:
        if one.name == name:
            return one
    raise KeyError(name)
