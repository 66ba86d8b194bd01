"""The table of commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from . import auditing, checkpointing, comparing, inspecting, reference, surroundings, watching

app = typer.Typer(
    name="trainproof",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from trainproof import __version__  # noqa: PLC0415

        sys.stdout.write(f"trainproof {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Audit of training runs: deterministic rules, measured evidence, honest coverage.

    Exit codes: 0 judged and no FAIL, 1 at least one FAIL, 2 could not judge.
    """


app.command()(auditing.audit)
app.command()(auditing.doctor)
app.command("diagnose", hidden=True)(auditing.doctor)
app.command()(auditing.epoch)
app.command()(comparing.compare)
app.command()(checkpointing.checkpoint)
app.command()(inspecting.preflight)
app.command()(inspecting.tokenizer)
app.command()(surroundings.env)
app.command()(watching.watch)
app.command()(surroundings.data)
app.add_typer(reference.rules, name="rules")
app.command()(reference.schema)
app.command()(reference.validate)
app.command()(reference.render)
