"""The example models, of which no log is there: what an audit says of each."""

from __future__ import annotations

import json
from pathlib import Path

from trainproof import Report, audit
from trainproof.model.report import ExitCode, exit_code

EXAMPLE = Path(__file__).parents[2] / "examples" / "checkpoints"


def found(report: Report) -> dict[str, list[object]]:
    """Id to the verdict, and to the rules with what they fired on."""
    return {
        one.id: [str(one.verdict), *([f.id, f.tensor] for f in one.findings)]
        for one in report.reports
    }


def test_each_model_is_judged_and_data_are_counted() -> None:
    report = audit(str(EXAMPLE), isolation=False)
    assert found(report) == json.loads((EXAMPLE / "expected.json").read_text())
    assert report.not_judged.counts == {"not-a-log": 1, "saved-data": 1}
    assert exit_code(report) is ExitCode.FAIL
