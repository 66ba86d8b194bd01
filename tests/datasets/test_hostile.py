"""No bytes and no JSON make an inspection raise, and all rules take what it brings home."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.inspected import inspected
from trainproof.engine.evaluate import evaluate
from trainproof.model.data import RunView
from trainproof.model.inspection import Inspection
from trainproof.model.outcome import Skip
from trainproof.model.rule import SubjectKind, render
from trainproof.rules import REGISTRY

RULES = [rule for rule in REGISTRY.values() if rule.info.subject is SubjectKind.DATASET]
ENDS = ("jsonl", "json", "csv", "tsv", "txt", "parquet", "arrow", "jsonl.gz", "bin")
NAMES = ("text", "messages", "conversations", "prompt", "completion", "chosen", "rejected")
MORE = ("label", "input_ids", "labels", "instruction", "output", "input", "image", "")

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["user", "assistant", "\ud800", "\x00", " "]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "from", "value", "text", "weight", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
rows = st.dictionaries(st.sampled_from([*NAMES, *MORE]), values, max_size=5) | values


def judged(found: Inspection) -> None:
    view = RunView("a", faults=found.faults, inspected=found.subject)
    for rule in RULES:
        cell = evaluate(rule, view, {})
        assert cell.skip is not Skip.CHECKER_FAILED, (rule.info.id, cell.checks)
        for hit in cell.hits:
            render(rule.info, hit)


def looked_at(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / name
        path.write_bytes(content)
        judged(inspected(path))


@pytest.mark.parametrize("end", ENDS)
@settings(max_examples=25, deadline=None)
@given(content=st.binary(max_size=300))
def test_no_bytes_break_it(end: str, content: bytes) -> None:
    if end in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    looked_at(f"a.{end}", content)


@settings(max_examples=150, deadline=None)
@given(content=st.lists(rows, max_size=8), split=st.integers(0, 8))
def test_no_rows_break_it(content: list[object], split: int) -> None:
    told = [json.dumps(row) for row in content]
    looked_at("a.jsonl", "\n".join(told).encode())
    looked_at("a.json", f"[{', '.join(told)}]".encode())
    with tempfile.TemporaryDirectory() as home:
        for name, part in (("a.jsonl", told[:split]), ("b.jsonl", told[split:])):
            (Path(home) / name).write_text("\n".join(part))
        judged(inspected(Path(home) / "a.jsonl", eval=Path(home) / "b.jsonl"))


@pytest.mark.parametrize("end", ["json", "jsonl", "csv", "txt"])
@settings(max_examples=40, deadline=None)
@given(
    content=st.lists(
        st.sampled_from(['{"', "text", '": ', '"a"', "[", "]", "}", ",", "\n", '"', "\\", "NaN"]),
        max_size=30,
    )
)
def test_no_pieces_of_json_break_it(end: str, content: list[str]) -> None:
    looked_at(f"a.{end}", "".join(content).encode())
