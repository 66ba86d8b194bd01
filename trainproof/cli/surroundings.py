"""env and data: what a training is going to run in, and what a speech model is going to hear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from msgspec.structs import replace

from trainproof import api
from trainproof.config import Config
from trainproof.model.inspection import EnvironmentRequest, Requests
from trainproof.model.report import Report
from trainproof.model.rule import SubjectKind

from .auditing import in_full, run
from .options import Options, with_options

Judge = Callable[[Config, api.Watcher | None], Report]


@with_options
def env(
    configs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SETTINGS]...",
            help="Files of settings (JSON or YAML); without any, those that lie in --cwd.",
        ),
    ] = None,
    *,
    module: Annotated[
        str | None, typer.Option("--module", metavar="NAME", help="Import it, in a process apart.")
    ] = None,
    cwd: Annotated[
        str | None, typer.Option("--cwd", metavar="DIR", help="Where the training is started.")
    ] = None,
    python: Annotated[
        str | None,
        typer.Option("--python", metavar="FILE", help="Its interpreter; by default this one."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", metavar="FILE", help="What it starts from.")
    ] = None,
    required_gb: Annotated[
        float | None, typer.Option("--required-gb", metavar="GB", min=0, help="Memory it needs.")
    ] = None,
    output_dir: Annotated[
        str | None, typer.Option("--output-dir", metavar="DIR", help="Where it writes.")
    ] = None,
    checkpoint_gb: Annotated[
        float | None,
        typer.Option("--checkpoint-gb", metavar="GB", min=0, help="Size of one checkpoint."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=0, help="Checkpoints that are kept; 1 by default.")
    ] = None,
    options: Options,
) -> None:
    """Judge the place a training is going to run in, before it does.

    The import of its module, memory, disk, shared memory, limits, installed versions, settings.
    Sizes are in GB of 10^9 bytes. --timeout is also the time that the import may take.
    """
    request = EnvironmentRequest(
        module=module,
        cwd=cwd,
        python=python,
        checkpoint=checkpoint,
        required_gb=required_gb,
        output_dir=output_dir,
        checkpoint_gb=checkpoint_gb,
        keep=keep,
        configs=tuple(configs or ()),
    )
    run((cwd or ".",), options, in_full, _environment(request))


def _environment(request: EnvironmentRequest) -> Judge:
    def judge(config: Config, watcher: api.Watcher | None) -> Report:
        asked = Requests(environment=replace(request, seconds=config.timeout))
        return api.inspect(config, SubjectKind.ENVIRONMENT, asked, watcher)

    return judge


@with_options
def data(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Manifests, or directories of audio."),
    ],
    *,
    options: Options,
) -> None:
    """Judge corpora for speech recognition and synthesis: audio files and their transcripts.

    Reads LJSpeech, Kaldi, NeMo and ESPnet manifests, Common Voice tables, and directories with a
    transcript beside each file. Formats other than WAV need trainproof[speech].
    """
    run(tuple(paths), options, in_full, _corpus)


def _corpus(config: Config, watcher: api.Watcher | None) -> Report:
    return api.inspect(config, SubjectKind.SPEECH, Requests(), watcher)
