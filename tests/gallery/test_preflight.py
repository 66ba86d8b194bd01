"""The example dataset: every fault that was put into it is found at its line, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from trainproof import api
from trainproof.config import Config
from trainproof.model.inspection import DatasetRequest, Requests
from trainproof.model.rule import SubjectKind

EXAMPLE = Path(__file__).parents[2] / "examples" / "preflight"


def test_every_fault_of_the_example_is_found_at_its_line() -> None:
    requests = Requests(dataset=DatasetRequest(eval=str(EXAMPLE / "test.jsonl")))
    config = Config(paths=(str(EXAMPLE / "train.jsonl"),), isolation=False)
    (subject,) = api.inspect(config, SubjectKind.DATASET, requests).reports
    found = [[f.level, f.id, f.location.path, f.location.line] for f in subject.findings]
    assert found == json.loads((EXAMPLE / "expected.json").read_text())
