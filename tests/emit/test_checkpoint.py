"""The text about checkpoints."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.support.saved import HEALTHY, safetensors_bytes, torch_bytes, write
from trainproof import api
from trainproof.config import Config
from trainproof.emit.checkpoint import _share, _size, checkpoints
from trainproof.model.report import Report


@pytest.fixture
def report(tmp_path: Path) -> Report:
    write(tmp_path / "good.pt", torch_bytes())
    write(tmp_path / "bad.safetensors", safetensors_bytes({**HEALTHY, "x.weight": [math.nan]}))
    for number in (1, 2):
        path = tmp_path / "set" / f"model-0000{number}-of-00002.safetensors"
        write(path, safetensors_bytes({f"{number}.weight": [1.0, 2.0]}))
    write(tmp_path / "data.bin", b"\x07\x01\x02\x03" * 10)
    return api.audit_checkpoints(Config(paths=(str(tmp_path),), isolation=False))


def test_the_worst_comes_first_and_files_of_a_set_come_below_it(report: Report) -> None:
    lines = checkpoints(report, width=160).decode().splitlines()
    assert lines[0].endswith("3 checkpoints: 1 FAIL, 2 PASS.")
    verdicts = [line.split()[0] for line in lines[3:8] if not line.startswith(" ")]
    assert verdicts == ["FAIL", "PASS", "PASS"]
    at = next(number for number, line in enumerate(lines) if line.endswith("2 files"))
    assert [line.split()[0] for line in lines[at + 1 : at + 3]] == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ]


def test_what_was_not_judged_is_told(report: Report) -> None:
    text = checkpoints(report).decode()
    assert "data.bin: unsupported-format: no known format of checkpoints." in text


def test_quiet_leaves_out_what_passed(report: Report) -> None:
    text = checkpoints(report, quiet=True).decode()
    assert "bad.safetensors" in text
    assert "good.pt" not in text
    assert "exit code 1: at least one checkpoint is FAIL" in text


def test_ascii_is_ascii(report: Report) -> None:
    assert checkpoints(report, tensors=True, ascii=True).isascii()


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_600, "1 MB"), (4_812_345_678, "4.81 GB")],
)
def test_sizes_have_three_digits(count: int, text: str) -> None:
    assert _size(count) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 9, "0 %"),
        (9, 9, "100 %"),
        (1, 8, "12.50 %"),
        (1, 10**9, "0.01 %"),
        (10**9 - 1, 10**9, "99.99 %"),
    ],
)
def test_none_and_all_are_told_only_where_they_are_true(part: int, whole: int, text: str) -> None:
    assert _share(part, whole) == text


def test_of_many_that_changed_the_first_are_shown(tmp_path: Path) -> None:
    for step in (1, 2):
        values = {f"layer.{i}": [1.0 * step, 2.0] for i in range(30)}
        write(tmp_path / f"step_{step}.pt", torch_bytes(values))
    found = api.audit_checkpoints(Config(paths=(str(tmp_path),), isolation=False))
    text = checkpoints(found).decode()
    assert "from step 1 to step 2: 30 moved" in text
    assert "and 10 more: --tensors tells them" in text
    whole = checkpoints(found, tensors=True).decode()
    assert "10 more: --tensors" not in whole
    assert whole.count("  moved ") == 30
