"""Labels: their sizes and their order, against what chance would give."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.inspected import jsonl, measured
from trainproof.datasets.classes import _random_runs
from trainproof.model.dataset import Labels


def labels(path: Path, values: list[Any], name: str = "label") -> Labels | None:
    rows = ({"text": f"row {number}", name: value} for number, value in enumerate(values))
    return measured(jsonl(path, *rows)).labels


def test_sorted_labels_make_one_run_each(tmp_path: Path) -> None:
    found = labels(tmp_path / "a.jsonl", ["a"] * 300 + ["b"] * 600 + ["c"] * 100)
    assert found is not None
    assert (found.rows, found.classes, found.runs, found.longest) == (1000, 3, 3, 600)
    assert (found.most, found.most_rows, found.least, found.least_rows) == ("b", 600, "c", 100)
    assert found.longest_at.line == 301
    assert found.z < -30


@pytest.mark.parametrize("classes", [2, 5, 40])
def test_a_random_order_is_within_chance(tmp_path: Path, classes: int) -> None:
    values = [number % classes for number in range(2000)]
    random.Random(classes).shuffle(values)
    found = labels(tmp_path / "a.jsonl", values)
    assert found is not None
    assert abs(found.z) < 4


def test_mean_and_deviation_are_those_of_random_orders() -> None:
    values = [0] * 12 + [1] * 7 + [2] * 5
    generator, runs = random.Random(0), []
    for _ in range(20_000):
        generator.shuffle(values)
        runs.append(1 + sum(a != b for a, b in pairwise(values)))
    mean = sum(runs) / len(runs)
    deviation = (sum((run - mean) ** 2 for run in runs) / len(runs)) ** 0.5
    expected, said = _random_runs([12, 7, 5])
    assert mean == pytest.approx(expected, abs=0.05)
    assert deviation == pytest.approx(said, rel=0.02)


@pytest.mark.parametrize(
    "values",
    [
        [0.5, 1.5] * 20,
        list(range(100)),
        [f"user {number}" for number in range(50)],
        [None] * 20,
        [[1]] * 20,
    ],
)
def test_what_does_not_repeat_is_no_class(tmp_path: Path, values: list[Any]) -> None:
    assert labels(tmp_path / "a.jsonl", values) is None


def test_one_class_is_a_class(tmp_path: Path) -> None:
    found = labels(tmp_path / "a.jsonl", [True] * 9, "target")
    assert found is not None
    assert (found.field, found.classes, found.most) == ("target", 1, "True")


@pytest.mark.parametrize(
    ("name", "beside", "classes"),
    [
        ("category", {}, None),
        ("label", {}, 1),
        ("category", {"category": "ab"}, 2),
        ("category", {"messages": [], "category": "ab"}, None),
        ("target", {"instruction": "do", "output": "done", "target": "ab"}, None),
        ("label", {"prompt": "ask", "completion": "say", "label": "ab"}, 2),
    ],
)
def test_what_an_answer_is_about_is_no_class(
    tmp_path: Path, name: str, beside: dict[str, Any], classes: int | None
) -> None:
    rows = []
    for number in range(40):
        more = {field: v[number % 2] if field == name else v for field, v in beside.items()}
        rows.append({"text": f"row {number}", name: "a", **more})
    found = measured(jsonl(tmp_path / "a.jsonl", *rows)).labels
    assert (None if found is None else found.classes) == classes
