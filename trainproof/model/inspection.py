"""What is looked at before a run: what the caller asked for, and what an inspection brought home.

Each kind of subject has a package that looks (`datasets`, `tokenization`, `speech`,
`environment`), a record of what it measured, and rules that judge it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .data import Fault
from .outcome import Value


class DatasetRequest(msgspec.Struct, frozen=True):
    """What rows are judged against. Paths; ``max_len`` in tokens. ``include``, ``exclude`` and
    ``follow_symlinks``: which files of a directory are read, as for an audit."""

    eval: str | None = None
    tokenizer: str | None = None
    max_len: int | None = None
    text_field: str | None = None
    template: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    follow_symlinks: bool = False


class TokenizerRequest(msgspec.Struct, frozen=True):
    """``text``: a file of the text that the tokenizer is to be used on."""

    text: str | None = None


class SpeechRequest(msgspec.Struct, frozen=True):
    """Nothing beyond the paths yet."""


class EnvironmentRequest(msgspec.Struct, frozen=True):
    """What a training is going to need. Sizes in GB (1e9 bytes).

    ``configs``: paths of files of settings. ``seconds``: how long an import may take.
    """

    module: str | None = None
    cwd: str | None = None
    python: str | None = None
    checkpoint: str | None = None
    required_gb: float | None = None
    output_dir: str | None = None
    checkpoint_gb: float | None = None
    keep: int | None = None
    configs: tuple[str, ...] = ()
    seconds: float = 120.0


class Requests(msgspec.Struct, frozen=True):
    """One for each kind of subject; those of other kinds say nothing."""

    dataset: DatasetRequest = DatasetRequest()
    tokenizer: TokenizerRequest = TokenizerRequest()
    speech: SpeechRequest = SpeechRequest()
    environment: EnvironmentRequest = EnvironmentRequest()


class Inspection(msgspec.Struct, frozen=True, eq=False):
    """``subject``: what the rules judge, None where nothing could be looked at. ``measured``: what
    a person wants to know of it, for the report. ``faults``: what could not be read."""

    subject: object | None
    measured: Mapping[str, Value] = msgspec.field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
