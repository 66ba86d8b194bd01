"""The examples of a place and of a corpus that are not ready, judged from where a person stands."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_commands import run

ROOT = Path(__file__).parents[2]


def found(*command: str) -> list[tuple[str, str, str, int | None]]:
    """Level, id and place of each finding."""
    (report,) = json.loads(run(*command, "--json", "-", cwd=ROOT).stdout)["reports"]
    return [
        (one["level"], one["id"], one["location"]["path"], one["location"]["line"])
        for one in report["findings"]
    ]


def test_the_corpus_has_the_faults_that_were_made() -> None:
    assert found("data", "examples/speech") == [
        ("FAIL", "TP-DATA-MISSING-AUDIO", "speech/metadata.csv", 13),
        ("WARN", "TP-DATA-INCONSISTENT-SR", "speech/metadata.csv", 11),
        ("WARN", "TP-DATA-CLIPPING", "speech/metadata.csv", 12),
        ("WARN", "TP-DATA-UNNORMALIZED", "speech/metadata.csv", 4),
        ("WARN", "TP-DATA-MIXED-SCRIPTS", "speech/metadata.csv", 8),
    ]


def test_the_training_cannot_start() -> None:
    assert found("env", "--module", "train", "--cwd", "examples/environment") == [
        ("FAIL", "TP-ENV-IMPORT-FAIL", "train.py", 3),
        ("FAIL", "TP-CONFIG-BEST-DIRECTION", "training_args.json", 10),
        ("WARN", "TP-CONFIG-CADENCE", "training_args.json", 5),
        ("WARN", "TP-CONFIG-WARMUP", "training_args.json", 3),
    ]
