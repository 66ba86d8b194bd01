"""The report as JSON, and back."""

from __future__ import annotations

from io import BytesIO

import msgspec
from msgspec.structs import replace

from trainproof.model.encoding import all_encoded, json_of
from trainproof.model.report import SCHEMA_VERSION, Report

from .schema import report_schema

__all__ = ["ReportError", "parse_report", "report_json", "report_schema"]


class ReportError(ValueError):
    """These bytes are not a report that this version of trainproof reads."""


class _Head(msgspec.Struct):
    schema_version: int


def report_json(report: Report) -> bytes:
    """UTF-8 JSON, indented by two, ended by a line feed; fields in the order of their
    declaration, keys of mappings sorted. Of more than ``INDENTED`` subjects each is on one line."""
    around = _indented(json_of(replace(report, reports=())))
    if not report.reports:
        return around + b"\n"
    head, tail = around.split(_NONE, 1)
    listed = _listed if len(report.reports) <= INDENTED else _in_one_line
    # Subject by subject into one growing buffer: what is indented of thousands is in memory once.
    made = BytesIO()
    made.write(head + _BEGIN)
    for number, subject in enumerate(all_encoded(report.reports)):
        made.write(b",\n" if number else b"")
        made.write(listed(subject.text))
    made.write(_END + tail + b"\n")
    return made.getvalue()


INDENTED = 100
"""Subjects that somebody may still look through: indented, a report takes twice the space."""
_NONE = b'"reports": []'
_BEGIN, _END = b'"reports": [\n', b"\n  ]"


def _listed(subject: bytes) -> bytes:
    """The subject, indented as in the list of all."""
    made = _indented(b'{"reports":[' + subject + b"]}")
    return made[len(b"{\n  " + _BEGIN) : -len(_END + b"\n}")]


def _in_one_line(subject: bytes) -> bytes:
    return b"    " + subject


def _indented(text: bytes) -> bytes:
    return msgspec.json.format(text, indent=2)


def parse_report(data: bytes) -> Report:
    """The report in ``data``. Raises ReportError for anything else, with the reason."""
    try:
        version = msgspec.json.decode(data, type=_Head).schema_version
        if version != SCHEMA_VERSION:
            raise ReportError(f"report schema {version}; this version reads {SCHEMA_VERSION}")
        report = msgspec.json.decode(data, type=Report)
        return replace(report, reports=tuple(report.reports))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"not a trainproof report: {error}") from error
