"""Which results are subjects of the report."""

from __future__ import annotations

import pytest

from trainproof.engine.publish import has_subject
from trainproof.model.artifact import Content, Unjudged
from trainproof.model.data import Fault, FaultCode
from trainproof.model.report import ArtifactEntry
from trainproof.model.wire import RunResult

LOG = ArtifactEntry("log.csv", "csv", "log", 9)
SETTINGS = ArtifactEntry("args.yaml", "yaml-settings", "config", 9)
HOLLOW = Unjudged("root", "log.csv", Content.HEADER_ONLY)


def fault(path: str) -> Fault:
    return Fault(FaultCode.IO, path, "gone", fatal=True)


@pytest.mark.parametrize(
    ("result", "is_subject"),
    [
        (RunResult((), artifacts=(LOG,)), True),
        (RunResult((), artifacts=(LOG,), unjudged=(HOLLOW,)), False),
        (RunResult((), artifacts=(LOG,), unjudged=(HOLLOW,), faults=(fault("log.csv"),)), True),
        (RunResult((), artifacts=(LOG, SETTINGS), unjudged=(HOLLOW,)), False),
        (
            RunResult(
                (), artifacts=(LOG, SETTINGS), unjudged=(HOLLOW,), faults=(fault("args.yaml"),)
            ),
            False,
        ),
        (RunResult(()), True),
    ],
    ids=str.split("log hollow broken settings broken-settings given-up"),
)
def test_a_run_with_nothing_in_its_logs_is_no_subject_whatever_lies_beside(
    result: RunResult, is_subject: bool
) -> None:
    assert has_subject(result) is is_subject
