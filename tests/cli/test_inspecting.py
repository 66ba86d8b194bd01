"""``trainproof preflight`` and ``trainproof tokenizer`` as a shell sees them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import run
from tests.support.inspected import jsonl

SOUND = [{"text": f"row number {number} says something"} for number in range(40)]


def report(*arguments: object) -> dict[str, Any]:
    done = run(*arguments, "--json", "-")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def findings(*arguments: object) -> dict[str, tuple[str, int | None]]:
    (one,) = report(*arguments)["reports"]
    return {f["id"]: (f["level"], f["location"]["line"]) for f in one["findings"]}


def test_exit_codes_say_judged_failed_and_could_not_judge(tmp_path: Path) -> None:
    good = jsonl(tmp_path / "good.jsonl", *SOUND)
    bad = jsonl(tmp_path / "bad.jsonl", *SOUND, {"prompt": "Why?", "completion": ""})
    empty = jsonl(tmp_path / "empty.jsonl")
    assert run("preflight", good).returncode == 0
    assert run("preflight", bad).returncode == 1
    assert run("preflight", good, bad).returncode == 1
    assert run("preflight", empty).returncode == 2
    assert run("preflight", tmp_path / "nowhere.jsonl").returncode == 2
    assert run("preflight", good, "--tokenizer", "gpt2").returncode == 2


def test_findings_have_the_level_and_the_line(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", SOUND[0], "{", SOUND[1], SOUND[0], {"text": None})
    assert findings("preflight", path) == {
        "TP-PRE-MALFORMED-JSONL": ("FAIL", 2),
        "TP-PRE-NOT-TEXT": ("FAIL", 5),
        "TP-PRE-DUPLICATE-TEXT": ("WARN", 4),
    }


def test_a_report_is_of_the_kind_of_its_subject(tmp_path: Path) -> None:
    found = report("preflight", jsonl(tmp_path / "a.jsonl", *SOUND))
    (one,) = found["reports"]
    assert (one["kind"], one["verdict"], one["id"]) == ("dataset", "PASS", "a.jsonl")
    assert (one["measured"]["rows"], one["measured"]["shape"]) == (40, "text (40)")
    assert {rule["family"] for rule in found["rules"]} == {"answers", "dataset"}


def test_held_out_rows_are_named_by_the_caller(tmp_path: Path) -> None:
    train = jsonl(tmp_path / "train.jsonl", *SOUND)
    held = jsonl(tmp_path / "held" / "test.jsonl", {"text": "something else altogether"}, SOUND[3])
    assert findings("preflight", train, "--eval", held) == {"TP-PRE-SPLIT-OVERLAP": ("FAIL", 2)}
    (one,) = report("preflight", train, "--eval", held)["reports"]
    assert one["findings"][0]["location"]["path"] == "held/test.jsonl"


def test_a_tokenizer_is_judged_with_a_dataset(tmp_path: Path) -> None:
    vocabularies = pytest.importorskip("tests.support.vocabularies")
    config = {"eos_token": "</s>", "bos_token": "<s>", "pad_token": "</s>"}
    home = vocabularies.bytes_bpe(tmp_path / "t", config)
    path = jsonl(tmp_path / "a.jsonl", *SOUND, {"text": "q" * 300})
    found = report("preflight", path, "--tokenizer", home, "--max-len", 200)
    (one,) = found["reports"]
    assert {f["id"]: f["location"]["path"] for f in one["findings"]} == {
        "TP-PRE-CONTEXT-OVERFLOW": "a.jsonl",
        "TP-PRE-PAD-EQUALS-EOS": "t",
        "TP-TOK-FERTILITY": "a.jsonl",
    }
    assert {rule["family"] for rule in found["rules"]} == {"answers", "dataset", "tokenizer"}


def test_a_tokenizer_is_judged_by_itself(tmp_path: Path) -> None:
    vocabularies = pytest.importorskip("tests.support.vocabularies")
    model = vocabularies.pieces(tmp_path / "m.model")
    text = tmp_path / "t.txt"
    text.write_text("the quick brown fox\n" * 10 + "привет\n" * 3)
    done = run("tokenizer", model, text)
    assert done.returncode == 1
    assert findings("tokenizer", model, text)["TP-TOK-HIGH-OOV"] == ("FAIL", 11)
    text.write_text("the quick brown fox\n" * 10)
    assert run("tokenizer", model, text).returncode == 0
    assert run("tokenizer", model).returncode == 2
    text.write_text("\n")
    assert run("tokenizer", model, text).returncode == 2


def test_a_missing_extra_is_no_verdict(tmp_path: Path) -> None:
    """Without the libraries nothing is said about the tokenizer, and the dataset is judged."""
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "tokenizer.json").write_text("{}")
    path = jsonl(tmp_path / "a.jsonl", *SOUND)
    (tmp_path / "p.parquet").write_bytes(b"PAR1")
    code = (
        "import sys; sys.modules.update(tokenizers=None, sentencepiece=None, pyarrow=None)\n"
        "from trainproof.__main__ import main; sys.exit(main())"
    )

    def without(*arguments: object) -> tuple[int, str]:
        command = [sys.executable, "-c", code, *map(str, arguments), "--no-isolation"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, " ".join(done.stdout.split())

    exit_code, text = without("preflight", path, "--tokenizer", tmp_path / "t")
    assert exit_code == 2
    assert "needs trainproof[tokenizers]: tokenizers is not installed" in text
    exit_code, text = without("tokenizer", tmp_path / "t")
    assert exit_code == 2
    assert "NOT-CHECKED" in text
    exit_code, text = without("preflight", tmp_path / "p.parquet")
    assert exit_code == 2
    assert "needs trainproof[parquet], which is not installed" in text
