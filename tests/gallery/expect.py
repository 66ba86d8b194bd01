"""What an audit of the gallery finds, in the form of ``expected.json``.

    python -m tests.gallery.expect

writes that file anew and prints each run whose expectation changed. A change is a change of what
the tool tells people about a known fault: look at the numbers of the run before committing it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from trainproof import Report, audit

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
EXPECTED = GALLERY / "expected.json"
SEVERITY = ("INFO", "WARN", "FAIL")


@dataclass(frozen=True, slots=True)
class Expectation:
    """``findings``: rule id to the gravest level at which it fired."""

    verdict: str
    findings: Mapping[str, str]


def found(report: Report) -> dict[str, Expectation]:
    """Run id to what was found in it."""
    return {
        run.id: Expectation(
            str(run.verdict),
            {
                finding.id: str(finding.level)
                for finding in sorted(
                    run.findings, key=lambda f: (f.id, SEVERITY.index(str(f.level)))
                )
            },
        )
        for run in sorted(report.reports, key=lambda run: run.id)
    }


def expected() -> dict[str, Expectation]:
    document = json.loads(EXPECTED.read_text("utf-8"))
    return {name: Expectation(**entry) for name, entry in document.items()}


def main() -> None:
    before, now = expected(), found(audit(str(GALLERY)))
    lines = [f"  {json.dumps(name)}: {json.dumps(asdict(one))}" for name, one in now.items()]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            sys.stdout.write(f"{name}\n  was {before.get(name)}\n  is  {now.get(name)}\n")


if __name__ == "__main__":
    main()
