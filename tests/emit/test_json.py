"""JSON out and in: nothing that was measured is lost."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from tests.support.report import HOSTILE, finding, hostile, many, report, subject, unreadable
from trainproof.emit.json import INDENTED, ReportError, parse_report, report_json, report_schema
from trainproof.model.report import Anchor, Invocation, NotJudged, NotJudgedFile, Report

FULL = report(
    subject(findings=[finding(), finding(superseded=True)]),
    unreadable(),
    not_judged=NotJudged({"empty": 2}, (NotJudgedFile("x.csv", "empty"),), 1),
    anchors={"s3://bucket/runs": Anchor("audit.toml", 3)},
    invocation=Invocation("2026-01-02T03:04:05Z", 1.5, 2),
)


def invalid(document: Any) -> list[str]:
    return [e.json_path for e in Draft202012Validator(report_schema()).iter_errors(document)]


@pytest.mark.parametrize(
    "made",
    [report(), FULL, many(60), report(*map(subject, map(str, range(101))))],
    ids=["empty", "full", "many", "most"],
)
def test_a_written_report_is_valid_and_read_back_as_it_was(made: Report) -> None:
    written = report_json(made)
    assert invalid(json.loads(written)) == []
    assert parse_report(written) == made


def test_the_layout_is_for_people_and_for_diffs() -> None:
    written = report_json(FULL).decode()
    assert written.startswith('{\n  "schema_version": 4,\n  "trainproof_version": "1.0.0",\n')
    assert written.endswith("}\n")
    measured = json.loads(written)["reports"][0]["findings"][0]["measured"]
    assert list(measured) == ["last_finite", "nonfinite", "points"]


def test_of_more_subjects_than_anybody_looks_through_each_is_on_one_line() -> None:
    names = [f"run{number}" for number in range(INDENTED + 1)]
    few, more = (report_json(report(*map(subject, some))) for some in (names[1:], names))
    lines = more.decode().split("\n")
    begin = lines.index('  "reports": [') + 1
    end = lines.index("  ],", begin)
    assert [json.loads(line.rstrip(","))["id"] for line in lines[begin:end]] == names
    assert b'\n      "id": "run1",\n' in few
    assert len(more) < 0.7 * len(few)


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (2**64, "18446744073709551616"),
        (-(2**63) - 1, "-9223372036854775809"),
        (2**64 - 1, 18446744073709551615),
        (True, True),
    ],
)
def test_numbers_that_json_or_orjson_lack_are_spelled(value: float, spelled: object) -> None:
    made = report_json(report(subject(findings=[finding(measured={"x": value})])))
    assert orjson.loads(made)["reports"][0]["findings"][0]["measured"] == {"x": spelled}


def test_what_a_run_declares_is_spelled_too() -> None:
    made = report_json(report(subject(facts={"learning_rate": float("inf"), "seed": 1})))
    assert orjson.loads(made)["reports"][0]["facts"] == {"learning_rate": "Infinity", "seed": 1}


def test_spelling_changes_nothing_else() -> None:
    plain = report(subject(findings=[finding(measured={"b": 1.5, "a": "NaN"})]))
    raw = report(subject(findings=[finding(measured={"b": 1.5, "a": float("nan")})]))
    assert report_json(raw) == report_json(plain)


def test_hostile_names_are_spelled_and_valid() -> None:
    document = json.loads(report_json(hostile()))
    assert invalid(document) == []
    names = [one["unknown_columns"][0] for one in document["reports"]]
    assert names[2] == "lone\\xffbyte and \\ud800half"
    assert names[1] == "\\x1b[31mred\\x1b[0m"
    assert names[-1] == HOSTILE[-1]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"null", "Expected `object`"),
        (b"{}", "schema_version"),
        (b'{"schema_version": "4"}', "schema_version"),
        (b'{"schema_version": 3}', "report schema 3; this version reads 4"),
        (b'{"schema_version": 4}', "trainproof_version"),
        (b'\xff\xfe{"schema_version": 4}', "malformed"),
        (b'{"x": ' + b"[" * 100_000, "recursion"),
    ],
)
def test_anything_else_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ReportError, match=reason):
        parse_report(data)


def test_a_wrong_verdict_is_refused() -> None:
    data = report_json(FULL).replace(b'"verdict": "FAIL"', b'"verdict": "FINE"')
    with pytest.raises(ReportError, match="FINE"):
        parse_report(data)
    assert invalid(json.loads(data)) == ["$.reports[0].verdict"]


def test_fields_of_later_versions_of_the_schema_are_let_through() -> None:
    data = report_json(FULL).replace(b'"schema_version": 4', b'"schema_version": 4, "new": [1]')
    assert parse_report(data) == replace(FULL)
    assert invalid(json.loads(data)) == []
