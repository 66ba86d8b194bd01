"""The example tokenizer: what it does not declare, and what it cannot spell, is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainproof import api
from trainproof.config import Config
from trainproof.model.inspection import Requests, TokenizerRequest
from trainproof.model.rule import SubjectKind

EXAMPLE = Path(__file__).parents[2] / "examples" / "tokenizer"


def test_every_fault_of_the_example_is_found_at_its_line() -> None:
    pytest.importorskip("tokenizers")
    requests = Requests(tokenizer=TokenizerRequest(text=str(EXAMPLE / "text.txt")))
    config = Config(paths=(str(EXAMPLE),), isolation=False)
    (subject,) = api.inspect(config, SubjectKind.TOKENIZER, requests).reports
    found = [[f.level, f.id, f.location.path, f.location.line] for f in subject.findings]
    assert found == json.loads((EXAMPLE / "expected.json").read_text())
