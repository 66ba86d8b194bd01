"""The report as JSON, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any

import msgspec
import orjson

from trainproof.model.outcome import Value
from trainproof.model.report import SCHEMA_VERSION, Report, SubjectReport

from .schema import report_schema
from .view import json_number, safe

__all__ = ["ReportError", "parse_report", "report_json", "report_schema"]

_LAYOUT = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


class ReportError(ValueError):
    """These bytes are not a report that this version of trainproof reads."""


class _Head(msgspec.Struct):
    schema_version: int


def report_json(report: Report) -> bytes:
    """UTF-8 JSON, indented by two, ended by a line feed; fields in the order of their
    declaration, keys of mappings sorted.

    ``publish`` leaves nothing that JSON cannot spell. Where there is something all the same,
    it is spelled here: orjson would write NaN as null, and lose the evidence.
    """
    if all(map(math.isfinite, _floats(report))):
        try:
            return orjson.dumps(report, option=_LAYOUT | orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:  # a lone surrogate, or an integer beyond 64 bits
            pass
    return orjson.dumps(_spelled(report), option=_LAYOUT)


def _floats(report: Report) -> Iterator[float]:
    for values in chain.from_iterable(map(_values, report.reports)):
        for value in values:
            if isinstance(value, float):
                yield value


def _values(subject: SubjectReport) -> Iterator[Iterable[Value]]:
    """Every place of a subject that holds measured numbers."""
    for finding in subject.findings:
        yield finding.measured.values()
        yield finding.thresholds.values()
    for detail in subject.checks.details.values():
        for application in detail.applications:
            if application.measured:
                yield application.measured.values()
    for series in subject.series:
        yield (series.first, series.last, series.min, series.max)
    if subject.facts:
        yield subject.facts.values()


def _spelled(value: Any) -> Any:
    if is_dataclass(value):
        return {one.name: _spelled(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, Mapping):
        spelled = {safe(key): _spelled(item) for key, item in value.items()}
        return dict(sorted(spelled.items()))
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    return json_number(value) if isinstance(value, int | float) else value


def parse_report(data: bytes) -> Report:
    """The report in ``data``. Raises ReportError for anything else, with the reason."""
    try:
        version = msgspec.json.decode(data, type=_Head).schema_version
        if version != SCHEMA_VERSION:
            raise ReportError(f"report schema {version}; this version reads {SCHEMA_VERSION}")
        return msgspec.json.decode(data, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"not a trainproof report: {error}") from error
