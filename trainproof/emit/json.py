"""The report as JSON, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any

import msgspec
from msgspec.structs import replace

from trainproof.model.outcome import Value
from trainproof.model.report import SCHEMA_VERSION, Report, SubjectReport

from .schema import report_schema
from .view import INT64, json_number, safe

__all__ = ["ReportError", "parse_report", "report_json", "report_schema"]

_encode = msgspec.json.Encoder(order="deterministic").encode


class ReportError(ValueError):
    """These bytes are not a report that this version of trainproof reads."""


class _Head(msgspec.Struct):
    schema_version: int


def report_json(report: Report) -> bytes:
    """UTF-8 JSON, indented by two, ended by a line feed; fields in the order of their
    declaration, keys of mappings sorted.

    ``publish`` leaves nothing that JSON cannot spell. Where there is something all the same,
    it is spelled here: the encoder would write NaN as null, and lose the evidence.
    """
    around = _indented(replace(report, reports=()))
    if not report.reports:
        return around + b"\n"
    head, tail = around.split(_NONE, 1)
    # Subject by subject into one growing buffer: a report of thousands is in memory once.
    made = BytesIO()
    made.write(head + _BEGIN)
    for number, subject in enumerate(report.reports):
        made.write(b",\n" if number else b"")
        made.write(_listed(subject))
    made.write(_END + tail + b"\n")
    return made.getvalue()


_NONE = b'"reports": []'
_BEGIN, _END = b'"reports": [\n', b"\n  ]"


def _listed(subject: SubjectReport) -> bytes:
    """The subject, indented as in the list of all."""
    made = _indented({"reports": [subject]}, plain=all(map(_is_plain, _values(subject))))
    return made[len(b"{\n  " + _BEGIN) : -len(_END + b"\n}")]


def _indented(value: object, plain: bool = True) -> bytes:
    if plain:
        try:
            return msgspec.json.format(_encode(value), indent=2)
        except UnicodeEncodeError:  # a lone surrogate
            pass
    return msgspec.json.format(msgspec.json.encode(_spelled(value)), indent=2)


def _is_plain(values: Iterable[Value]) -> bool:
    """Whether JSON has a form for each, which readers in other languages take: none is longer than
    64 bits."""
    for value in values:
        if type(value) is float and not math.isfinite(value):
            return False
        if type(value) is int and value not in INT64:
            return False
    return True


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
    if isinstance(value, msgspec.Struct):
        return {name: _spelled(item) for name, item in msgspec.structs.asdict(value).items()}
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
