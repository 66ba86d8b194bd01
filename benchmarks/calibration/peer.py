"""The verdicts of trainproof 0.22 on the same runs, all in one process of its own Python."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .faults import FAULTS
from .judging import LEVELS, PEER_DECIDED, Judgement, Judgements
from .runs import Run

_SCRIPT = """
import contextlib, io, json, sys
from trainproof import cli
for line in sys.stdin:
    key, *arguments = json.loads(line)
    sys.argv = ["trainproof", *arguments]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            cli.main()
        except (SystemExit, Exception):
            pass
    print(json.dumps([key, out.getvalue()]))
"""


def judge(python: Path, root: Path, runs: Sequence[Run]) -> Judgements:
    """``doctor`` on the directory of each run, ``compare`` where a baseline is part of the case."""
    judged = {run.case.path: Judgement() for run in runs}
    lines = "".join(json.dumps(command) + "\n" for command in _commands(root, runs))
    done = subprocess.run(
        [python, "-I", "-c", _SCRIPT], input=lines, capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        key, text = json.loads(line)
        for report in _reports(text):
            _add(judged[key], report)
    return judged


def _commands(root: Path, runs: Iterable[Run]) -> Iterator[list[str]]:
    for run in runs:
        directory = root / run.case.path
        yield [run.case.path, "doctor", "--json", str(directory)]
        if run.case.fault in FAULTS and FAULTS[run.case.fault].baseline:
            for log in sorted(directory.iterdir()):
                control = root / "none" / directory.name / log.name
                yield [run.case.path, "compare", "--json", str(control), str(log)]


def _reports(text: str) -> list[dict[str, object]]:
    try:
        reports: list[dict[str, object]] = json.loads(text)["reports"]
    except (ValueError, KeyError):
        return []
    return reports


def _add(judgement: Judgement, report: dict[str, object]) -> None:
    """Its verdict counts as the decision of one rule; a run it cannot read has none."""
    if report.get("verdict") in ("PASS", "WARN", "FAIL"):
        judgement.decided.add(PEER_DECIDED)
    findings = report.get("findings")
    assert isinstance(findings, list)
    for finding in findings:
        level = finding["level"]
        if level in LEVELS:
            known = judgement.fired.get(finding["id"], "INFO")
            judgement.fired[finding["id"]] = min(known, level, key=LEVELS.index)
