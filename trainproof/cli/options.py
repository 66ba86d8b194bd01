"""The options that audit, doctor and epoch share, declared once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
import typer
from msgspec.structs import fields, replace

from trainproof.config import FILES, NO_CHECKPOINTS, Config, ConfigError, anchor, parse
from trainproof.emit import EMITTERS
from trainproof.model.report import FailOn

_SIZES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_OUT = "Write it to FILE, or to the standard output for -."


class Options(msgspec.Struct, frozen=True):
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help=f"JSON report. {_OUT}")
    ] = None
    sarif: Annotated[
        str | None, typer.Option("--sarif", metavar="FILE", help=f"SARIF 2.1.0. {_OUT}")
    ] = None
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help=f"JUnit XML. {_OUT}")
    ] = None
    markdown: Annotated[
        str | None, typer.Option("--markdown", metavar="FILE", help=f"Markdown summary. {_OUT}")
    ] = None
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help=f"One HTML page. {_OUT}")
    ] = None
    github: Annotated[
        str | None, typer.Option("--github", metavar="FILE", help=f"Workflow commands. {_OUT}")
    ] = None
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="ID", help="Only these rules: ids or globs."),
    ] = None
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="ID", help="Not these rules.")
    ] = None
    include: Annotated[
        list[str] | None, typer.Option("--include", metavar="GLOB", help="Only these files.")
    ] = None
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="GLOB", help="Not these files.")
    ] = None
    follow_symlinks: Annotated[
        bool, typer.Option("--follow-symlinks", help="Follow links that lead out of the root.")
    ] = False
    map: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="ROLE=COLUMN", help="Name the column of a role."),
    ] = None
    format_hint: Annotated[
        str | None,
        typer.Option("--format-hint", "--format", metavar="NAME", help="Read as this format."),
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="PATH", help="Compare each run with this one as well."),
    ] = None
    checkpoints: Annotated[
        str | None,
        typer.Option(
            "--checkpoints",
            metavar="DEPTH",
            help="How much of checkpoints is read: structure, integrity, tensors (default), none.",
        ),
    ] = None
    no_checkpoints: Annotated[
        bool, typer.Option("--no-checkpoints", help="The same as --checkpoints none.")
    ] = False
    checkpoint_limit: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-limit",
            metavar="SIZE",
            help="Of larger ones an audit reads the structure alone: 4G; 0: no limit.",
        ),
    ] = None
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="The lowest verdict that exits with 1.")
    ] = None
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=0, help="Worker processes; 0: one per CPU.")
    ] = None
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="For one file or one rule.")
    ] = None
    memory_limit: Annotated[
        str | None,
        typer.Option("--memory-limit", metavar="SIZE", help="For one worker: 2G; 0: none."),
    ] = None
    isolation: Annotated[
        bool | None,
        typer.Option("--isolation/--no-isolation", help="Judge in worker processes (default)."),
    ] = None
    anchor: Annotated[
        str | None,
        typer.Option("--anchor", metavar="FILE:LINE", help="Where annotations of findings go."),
    ] = None
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings file.")
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what is not PASS.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All rules, all files.")] = False
    progress: Annotated[
        bool, typer.Option("--progress/--no-progress", help="Progress bar on a terminal.")
    ] = True
    color: Annotated[
        str, typer.Option("--color", metavar="WHEN", help="auto, always or never.")
    ] = "auto"

    def outputs(self) -> dict[str, str]:
        """Format name to target, for those asked for. Raises ConfigError."""
        wanted = {name: target for name in EMITTERS if (target := getattr(self, name))}
        if list(wanted.values()).count("-") > 1:
            raise ConfigError("only one report can go to the standard output")
        return wanted

    def settings(self, paths: tuple[str, ...]) -> Config:
        """The settings file under the flags. Raises ConfigError."""
        if self.color not in ("auto", "always", "never"):
            raise ConfigError(f"--color {self.color!r} is not auto, always or never")
        said: dict[str, Any] = {
            "select": self.select and tuple(_split(self.select)),
            "ignore": self.ignore and tuple(_split(self.ignore)),
            "include": self.include and tuple(self.include),
            "exclude": self.exclude and tuple(self.exclude),
            "follow_symlinks": self.follow_symlinks or None,
            "tags": self.map and tuple(_pair(item) for item in self.map),
            "format_hint": self.format_hint,
            "baseline": self.baseline,
            "checkpoints": NO_CHECKPOINTS if self.no_checkpoints else self.checkpoints,
            "checkpoint_limit": _size(self.checkpoint_limit),
            "fail_on": self.fail_on,
            "jobs": self.jobs,
            "timeout": self.timeout,
            "memory_limit": _size(self.memory_limit),
            "isolation": self.isolation,
            "anchors": self.anchor and {path: anchor(self.anchor) for path in paths},
        }
        given = {name: value for name, value in said.items() if value not in (None, [])}
        return replace(_file(self.config), paths=paths, **given)


def _split(items: list[str]) -> list[str]:
    return [part for item in items for part in item.split(",") if part]


def _pair(item: str) -> tuple[str, str]:
    role, equals, tag = item.partition("=")
    if not equals:
        raise ConfigError(f"--map {item!r} is not ROLE=COLUMN")
    return role, tag


def _size(text: str | None) -> int | None:
    return None if text is None else size(text)


def size(text: str) -> int:
    """Bytes of ``512M``, ``2G``, ``2GiB``, ``1000000``. Raises ConfigError."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ConfigError(f"{text!r} is not a size such as 512M or 2G")
    return int(match[1]) * _SIZES[match[2].upper()]


def _file(path: Path | None) -> Config:
    """The named file, or the first of the usual ones that has settings."""
    for candidate in [path] if path else map(Path, FILES):
        try:
            found = parse(candidate.name, candidate.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            if path is not None:
                raise ConfigError(f"{candidate}: {error}") from None
            continue
        if found is not None:
            return found
    return Config()


@cache
def _types() -> Mapping[str, Any]:
    """Those of the options. They are written as strings: compiled once, for all commands."""
    return get_type_hints(Options, include_extras=True)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, written as ``f(paths…, options: Options)``, every option as a parameter,
    but for those that it declares as an argument of its own."""
    hints = get_type_hints(command, include_extras=True)
    own = [
        p.replace(annotation=hints[p.name])
        for p in inspect.signature(command).parameters.values()
        if p.name != "options"
    ]
    types = _types()
    shared = [
        inspect.Parameter(
            f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name]
        )
        for f in fields(Options)
        if f.name not in hints
    ]

    def called(**values: Any) -> None:
        mine = {p.name: values.pop(p.name) for p in own}
        command(**mine, options=Options(**values))

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + shared
    )
    called.__annotations__ = {p.name: p.annotation for p in own + shared}
    return called
