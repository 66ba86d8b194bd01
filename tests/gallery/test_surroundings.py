"""The examples of a place and of a corpus that are not ready."""

from __future__ import annotations

from pathlib import Path

from trainproof import api
from trainproof.config import Config
from trainproof.model.inspection import EnvironmentRequest, Requests
from trainproof.model.rule import SubjectKind

EXAMPLES = Path(__file__).parents[2] / "examples"


def found(path: Path, kind: SubjectKind, asked: Requests) -> list[tuple[str, str, str, int | None]]:
    """Level, id and place of each finding."""
    config = Config(paths=(str(path),), isolation=False)
    (subject,) = api.inspect(config, kind, asked).reports
    return [
        (str(one.level), one.id, one.location.path, one.location.line) for one in subject.findings
    ]


def test_the_corpus_has_the_faults_that_were_made() -> None:
    assert found(EXAMPLES / "speech", SubjectKind.SPEECH, Requests()) == [
        ("FAIL", "TP-DATA-MISSING-AUDIO", "speech/metadata.csv", 13),
        ("WARN", "TP-DATA-INCONSISTENT-SR", "speech/metadata.csv", 11),
        ("WARN", "TP-DATA-CLIPPING", "speech/metadata.csv", 12),
        ("WARN", "TP-DATA-UNNORMALIZED", "speech/metadata.csv", 4),
        ("WARN", "TP-DATA-MIXED-SCRIPTS", "speech/metadata.csv", 8),
    ]


def test_the_training_cannot_start() -> None:
    asked = Requests(environment=EnvironmentRequest(module="train"))
    assert found(EXAMPLES / "environment", SubjectKind.ENVIRONMENT, asked) == [
        ("FAIL", "TP-ENV-IMPORT-FAIL", "train.py", 3),
        ("FAIL", "TP-CONFIG-BEST-DIRECTION", "training_args.json", 10),
        ("WARN", "TP-CONFIG-WARMUP", "training_args.json", 3),
        ("INFO", "TP-CONFIG-CADENCE", "training_args.json", 5),
    ]
