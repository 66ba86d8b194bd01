"""rules, schema, validate and render: what the tool knows, and reports without their runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trainproof import pages
from trainproof.config import ConfigError
from trainproof.emit.json import ReportError, parse_report
from trainproof.model.report import ExitCode, FailOn, Report
from trainproof.rules import REGISTRY

from .auditing import fail
from .options import Options
from .outputs import STDOUT, check_targets, deliver_reports

rules = typer.Typer(help="The rules: list them, or explain one.", invoke_without_command=True)
ReportPath = Annotated[str, typer.Argument(metavar="REPORT", help="A JSON report; - for stdin.")]


@rules.callback()
def rules_default(context: typer.Context) -> None:
    """The rules: list them, or explain one."""
    if context.invoked_subcommand is None:
        list_rules()


@rules.command("list")
def list_rules() -> None:
    """One line per rule: id, level, title."""
    width = max(map(len, REGISTRY))
    for id, rule in REGISTRY.items():
        sys.stdout.write(f"{id:{width}}  {rule.info.level:4}  {rule.info.title}\n")


@rules.command()
def explain(
    id: Annotated[str, typer.Argument(metavar="ID", help="A rule id, such as TP-NAN.")],
) -> None:
    """What a rule measures, means and does not mean, with its thresholds and guards."""
    rule = REGISTRY.get(id.upper())
    if rule is None:
        fail(f"unknown rule {id!r}; trainproof rules list names them all")
    sys.stdout.write(pages.explain(rule))


def schema() -> None:
    """Print the JSON Schema of the report."""
    sys.stdout.write(pages.report_schema_text())


def validate(report: ReportPath) -> None:
    """Check a JSON report against the published schema."""
    import orjson  # noqa: PLC0415
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - 80 ms, needed here only

    try:
        document = orjson.loads(_bytes(report))
    except orjson.JSONDecodeError as error:
        fail(f"{report}: not JSON: {error}")
    validator = Draft202012Validator(orjson.loads(pages.report_schema_text()))
    errors = [f"{e.json_path}: {e.message[:200]}" for e in validator.iter_errors(document)]
    for line in errors[:20]:
        sys.stderr.write(f"{line}\n")
    sys.stdout.write(f"{report}: {'valid' if not errors else f'{len(errors)} errors'}\n")
    raise typer.Exit(ExitCode.CANNOT_JUDGE if errors else ExitCode.OK)


def render(
    report: ReportPath,
    *,
    sarif: Annotated[str | None, typer.Option("--sarif", metavar="FILE")] = None,
    junit: Annotated[str | None, typer.Option("--junit", metavar="FILE")] = None,
    markdown: Annotated[str | None, typer.Option("--markdown", metavar="FILE")] = None,
    html: Annotated[str | None, typer.Option("--html", metavar="FILE")] = None,
    github: Annotated[str | None, typer.Option("--github", metavar="FILE")] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on")] = FailOn.FAIL,
) -> None:
    """Write other formats from a saved JSON report, without the runs."""
    try:
        outputs = Options(
            sarif=sarif, junit=junit, markdown=markdown, html=html, github=github
        ).outputs()
        check_targets(outputs, () if report == STDOUT else (report,))
    except ConfigError as error:
        fail(str(error))
    if not outputs:
        fail("name at least one of --sarif, --junit, --markdown, --html, --github")
    parsed = _parsed(report)
    try:
        deliver_reports(outputs, parsed, fail_on)
    except ConfigError as error:
        fail(str(error))


def _bytes(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == STDOUT else Path(path).read_bytes()
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")


def _parsed(path: str) -> Report:
    try:
        return parse_report(_bytes(path))
    except ReportError as error:
        fail(f"{path}: {error}")
