"""preflight and tokenizer: what training data and their vocabulary are, before a run."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from trainproof import api
from trainproof.config import Config
from trainproof.model.inspection import DatasetRequest, Requests, TokenizerRequest
from trainproof.model.report import Report
from trainproof.model.rule import SubjectKind

from .auditing import in_full, run
from .options import Options, with_options


@with_options
def preflight(
    datasets: Annotated[
        list[str],
        typer.Argument(
            metavar="DATASET",
            help="JSON lines, JSON, CSV, TSV, Parquet, Arrow, text; or a directory of such files.",
        ),
    ],
    *,
    eval: Annotated[
        str | None,
        typer.Option("--eval", metavar="PATH", help="Held-out rows that training must not hold."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", metavar="PATH", help="A tokenizer: nothing is downloaded."),
    ] = None,
    max_len: Annotated[
        int | None,
        typer.Option("--max-len", metavar="N", min=1, help="Tokens after which rows are cut."),
    ] = None,
    text_field: Annotated[
        str | None,
        typer.Option("--text-field", metavar="NAME", help="The field that is the text of a row."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", metavar="FILE", help="A chat template, for the tokenizer's."),
    ] = None,
    options: Options,
) -> None:
    """Judge a dataset before anything is trained on it: every row is read once.

    With a tokenizer, also what it makes of the rows. Needs no network and loads no model.
    """
    request = DatasetRequest(
        eval=eval,
        tokenizer=tokenizer,
        max_len=max_len,
        text_field=text_field,
        template=template,
        include=tuple(options.include or ()),
        exclude=tuple(options.exclude or ()),
        follow_symlinks=options.follow_symlinks,
    )
    _inspect(tuple(datasets), SubjectKind.DATASET, Requests(dataset=request), options)


@with_options
def tokenizer(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A tokenizer.json, a SentencePiece model, or its directory."
        ),
    ],
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="Text it is to be used on: lines, or JSON lines."),
    ] = None,
    *,
    options: Options,
) -> None:
    """Judge a tokenizer by what it declares and by what it does to a text."""
    requests = Requests(tokenizer=TokenizerRequest(text))
    _inspect((model,), SubjectKind.TOKENIZER, requests, options)


def _inspect(
    paths: tuple[str, ...], kind: SubjectKind, requests: Requests, options: Options
) -> None:
    run(paths, options, in_full, partial(_inspected, kind=kind, requests=requests))


def _inspected(
    config: Config, watcher: api.Watcher | None, *, kind: SubjectKind, requests: Requests
) -> Report:
    return api.inspect(config, kind, requests, watcher)
