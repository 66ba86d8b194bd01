"""checkpoint: what saved files hold, and whether they are whole, safe and usable."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from msgspec.structs import replace

from trainproof import api
from trainproof.emit.checkpoint import checkpoints
from trainproof.model.report import FailOn, Report
from trainproof.model.tensors import Depth

from .auditing import run, terminal
from .options import Options, with_options


@with_options
def checkpoint(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Checkpoints, or directories that hold some."),
    ],
    tensors: Annotated[
        bool, typer.Option("--tensors", help="Also list the tensors, with their values.")
    ] = False,
    depth: Annotated[
        Depth,
        typer.Option(
            "--depth",
            help="How much is read: names and sizes, also the checksums, or also all values. Only"
            " the last can lead to a PASS.",
        ),
    ] = Depth.TENSORS,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--against",
            "--baseline",
            metavar="PATH",
            help="Compare with this earlier checkpoint, or with those in this directory, instead of"
            " each with the one that was saved before it.",
        ),
    ] = None,
    *,
    options: Options,
) -> None:
    """Judge saved checkpoints without loading them: whole, undamaged, safe, finite.

    Nothing that a file names is imported or called. Files that are one checkpoint together
    (shards, a directory of a trainer) are judged together. Checkpoints of one training
    (checkpoint-500, checkpoint-1000) are compared with one another: what moved, what did not.
    """
    run(
        tuple(paths),
        replace(options, baseline=baseline),
        partial(_text, tensors=tensors),
        lambda config, seen: api.audit_checkpoints(config, depth, seen),
    )


def _text(report: Report, options: Options, fail_on: FailOn, *, tensors: bool) -> bytes:
    return checkpoints(
        report,
        tensors=tensors,
        verbose=options.verbose,
        quiet=options.quiet,
        **terminal(options, fail_on),
    )
