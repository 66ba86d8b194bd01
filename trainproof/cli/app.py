"""The table of commands."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

_COMMANDS: Mapping[str, str] = {
    "audit": "auditing.audit",
    "doctor": "auditing.doctor",
    "diagnose": "auditing.doctor",
    "epoch": "auditing.epoch",
    "compare": "comparing.compare",
    "checkpoint": "checkpointing.checkpoint",
    "preflight": "inspecting.preflight",
    "tokenizer": "inspecting.tokenizer",
    "env": "surroundings.env",
    "watch": "watching.watch",
    "data": "surroundings.data",
    "rules": "reference.rules",
    "schema": "reference.schema",
    "validate": "reference.validate",
    "render": "reference.render",
}
"""Where each command is, in the order of the help."""
_HIDDEN = frozenset({"diagnose"})


def _version(wanted: bool) -> None:
    if wanted:
        from trainproof import __version__  # noqa: PLC0415

        sys.stdout.write(f"trainproof {__version__}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Audit of training runs: deterministic rules, measured evidence, honest coverage.

    Exit codes: 0 judged and no FAIL, 1 at least one FAIL, 2 could not judge.
    """


def command_line(wanted: str | None = None) -> typer.Typer:
    """All commands; or the wanted one alone, where there is one of that name: whoever asked for it
    need not wait for the others to be imported."""
    app = typer.Typer(
        name="trainproof",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, place in _COMMANDS.items():
        if wanted in _COMMANDS and name != wanted:
            continue
        module, _, function = place.partition(".")
        command: Any = getattr(import_module(f".{module}", __package__), function)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, hidden=name in _HIDDEN)(command)
    return app
