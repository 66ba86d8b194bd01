"""compare: runs against a baseline, which comes first."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from trainproof.emit.comparison import comparison
from trainproof.model.report import FailOn, Report
from trainproof.model.rule import SubjectKind
from trainproof.rules import REGISTRY

from .auditing import run, terminal
from .options import Options, with_options


@with_options
def compare(
    baseline: Annotated[
        str,
        typer.Argument(
            metavar="BASELINE", help="A log, a run, or a directory of several runs of one kind."
        ),
    ],
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="What to compare with it: as for audit."),
    ],
    *,
    options: Options,
) -> None:
    """Compare runs with a baseline, by the same series at the same steps.

    Only the rules about comparisons are applied, unless --select says otherwise; audit --baseline
    applies all of them.
    """
    select = options.select or [
        id for id, rule in REGISTRY.items() if rule.info.subject is SubjectKind.PAIR
    ]
    run(tuple(runs), replace(options, baseline=baseline, select=select), _comparison)


def _comparison(report: Report, options: Options, fail_on: FailOn) -> bytes:
    return comparison(
        report, verbose=options.verbose, quiet=options.quiet, **terminal(options, fail_on)
    )
