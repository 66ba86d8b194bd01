"""Audit of training runs: deterministic rules, measured evidence, honest coverage.

    from trainproof import audit
    report = audit("runs/")
    print(report.worst_verdict)

Names are imported when first used, so that ``import trainproof`` and ``--version`` stay cheap.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import Config, ConfigError
    from .model.report import ExitCode, FailOn, Finding, Report, SubjectReport, Verdict, exit_code

__version__ = "1.0.0"
__all__ = [
    "Config",
    "ConfigError",
    "ExitCode",
    "FailOn",
    "Finding",
    "Report",
    "SubjectReport",
    "Verdict",
    "__version__",
    "audit",
    "exit_code",
]

_HOMES = {"Config": "config", "ConfigError": "config"}


def audit(*paths: str | PathLike[str], config: Config | None = None, **options: Any) -> Report:
    """Audit one or more paths and return the report.

    ``options`` are fields of :class:`Config` (``select=("TP-NAN",)``, ``jobs=2`` …) over those of
    ``config``. Raises ConfigError when the options cannot be honoured, and nothing about the
    data: what could not be read or judged is in the report.
    """
    from msgspec.structs import replace  # noqa: PLC0415

    from . import api  # noqa: PLC0415
    from .config import Config as Settings  # noqa: PLC0415

    if paths:
        options["paths"] = tuple(map(fspath, paths))
    return api.audit(replace(config or Settings(), **options))


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f".{_HOMES.get(name, 'model.report')}", __name__), name)
