"""The Python examples of the README run as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.logs import jsonl

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def test_an_audit_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jsonl(tmp_path / "runs" / "log.jsonl", {"loss": [2.0] * 20 + [float("nan")] * 20})
    monkeypatch.chdir(tmp_path)
    exec(EXAMPLES[0], {})
    assert capsys.readouterr().out.startswith(". TP-NAN FAIL 20 of 40 logged values are not finite")


def test_a_loop_with_a_guardian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes before it needs transformers, and is tested with it."""
    monkeypatch.chdir(tmp_path)
    loop = EXAMPLES[1][EXAMPLES[1].index("guardian = Guardian") :]
    names = {"loader": range(20), "train_on": lambda batch: 2.0 / (1 + batch), "labels": [0, 3, 9]}
    exec(f"from trainproof.guardian import Guardian, check_objective\n{loop}", names)
    assert {one.name for one in (tmp_path / "runs" / "7").iterdir()} >= {
        "trainproof-report.json",
        "trainproof-report.md",
    }
