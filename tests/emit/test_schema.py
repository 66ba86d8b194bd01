"""The published schema says what every field is and which words it may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.support.report import finding, report, subject
from trainproof.emit.json import report_json
from trainproof.emit.schema import DESCRIPTIONS, report_schema

SCHEMA = report_schema()


def fields() -> Iterator[tuple[str, dict[str, Any]]]:
    for type_name, definition in SCHEMA["$defs"].items():
        for name, field in definition.get("properties", {}).items():
            yield f"{type_name}.{name}", field


def test_it_is_a_schema_of_draft_2020_12() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"] == "urn:trainproof:report:4"
    assert SCHEMA["title"] == "trainproof report"


def test_every_type_and_every_field_is_described() -> None:
    undescribed = [name for name, one in SCHEMA["$defs"].items() if not one.get("description")]
    assert undescribed == []
    assert [path for path, field in fields() if not field.get("description")] == []


def test_no_description_is_of_a_field_that_is_gone() -> None:
    there = {path for path, _ in fields()} | set(SCHEMA["$defs"])
    assert DESCRIPTIONS.keys() - there == set()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 5),
        (("worst_verdict",), "fail"),
        (("reports", 0, "kind"), "job"),
        (("reports", 0, "findings", 0, "level"), "ERROR"),
        (("reports", 0, "findings", 0, "location", "line"), 0),
        (("reports", 0, "checks", "coverage", "schema"), "notchecked/2"),
        (("reports", 0, "checks", "coverage", "states", "TP-NAN"), "PASSED"),
        (("reports", 0, "checks", "coverage", "counts"), {"PASSED": 1}),
        (("reports", 0, "checks", "details", "TP-NAN", "state"), "passed"),
        (("reports", 0, "checks", "details", "TP-NAN", "skip"), "lazy"),
        (("reports", 0, "checks", "details", "TP-NAN", "owner"), "nobody"),
        (("reports", 0, "series", 0, "role"), "lossy"),
        (("reports", 0, "series", 0, "first"), "nan"),
        (("not_judged", "counts"), {"strange": 1}),
    ],
)
def test_words_and_numbers_outside_of_the_vocabulary_are_invalid(
    path: tuple[str | int, ...], value: object
) -> None:
    document: Any = json.loads(report_json(report(subject(findings=[finding()]))))
    *inner, last = path
    place = document
    for step in inner:
        place = place[step]
    place[last] = value
    errors = list(Draft202012Validator(SCHEMA).iter_errors(document))
    assert [tuple(error.absolute_path) for error in errors] == [path]
