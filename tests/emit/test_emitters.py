"""What holds for every format and every report, however odd."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.report import finding, hostile, many, report, subject, unreadable
from trainproof.emit import EMITTERS
from trainproof.emit.console import doctor, summary
from trainproof.model.report import Report

WRITERS: dict[str, Callable[[Report], bytes]] = {
    **EMITTERS,
    "summary": summary,
    "doctor": doctor,
}
REPORTS: dict[str, Callable[[], Report]] = {
    "empty": report,
    "error": lambda: report(error="no such directory: runs"),
    "passed": lambda: report(subject()),
    "failed": lambda: report(subject(findings=[finding()])),
    "unreadable": lambda: report(unreadable()),
    "superseded": lambda: report(subject(findings=[finding(superseded=True)])),
    "hostile": hostile,
    "many": lambda: many(5_001),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", REPORTS)
def test_same_report_same_lines_of_utf8(writer: str, name: str) -> None:
    made = WRITERS[writer](REPORTS[name]())
    assert made == WRITERS[writer](REPORTS[name]())
    assert made.endswith(b"\n") or (writer == "github" and made == b"")
    text = made.decode()
    assert all(char == "\n" or char.isprintable() for char in text)


@pytest.mark.parametrize("name", REPORTS)
def test_order_of_the_runs_does_not_change_what_ranks_them(name: str) -> None:
    made = REPORTS[name]()
    turned = report(
        *reversed(made.reports),
        error=made.error,
        problems=made.problems,
        worst_verdict=made.worst_verdict,
    )
    for writer in (summary, EMITTERS["markdown"]):
        ranked = [line for line in writer(made).splitlines() if b"PASS" in line or b"FAIL" in line]
        again = [line for line in writer(turned).splitlines() if b"PASS" in line or b"FAIL" in line]
        assert ranked == again


def test_importing_the_table_loads_no_format_library() -> None:
    script = (
        "import sys, trainproof.emit;"
        "print([m for m in ('sarif_om', 'junit_xml', 'orjson') if m in sys.modules])"
    )
    made = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert made.stdout.strip() == "[]"
